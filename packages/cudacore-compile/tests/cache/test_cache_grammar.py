# SPDX-License-Identifier: Apache-2.0
"""The sources that a program cache understands, and those that it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cache_programs import check, in_a_folder, key, write

from cudacore_compile import UncacheableError

__all__ = ["in_a_folder"]  # a fixture

pytestmark = pytest.mark.usefixtures("in_a_folder")


@pytest.mark.parametrize(
    "directive",
    [
        "#include <v.h>",
        "# /* a comment */ include /* another */ <v.h>",
        "/* a comment */ #\tinclude<v.h> // why",
        "%:include <v.h>",
        "#" + "/* a comment */" * 100 + "include <v.h>",
        f"#/* {'long ' * 500} */include <v.h>",
        "#inc\\\nlude <v.h>",
        "#include \\\n <v.h>",
        "#include_next <v.h>",
        "#define HEADER <v.h>\n#include HEADER",
        '#define HEADER "v.h"\n#define SAME HEADER\n#include SAME',
        "#define/**/HEADER/**/<v.h>/**/\n#include HEADER",
        "#if __has_include(<v.h>)\n#include <v.h>\n#endif",
    ],
)
def test_ways_to_include(directive: str) -> None:
    """A header that is included in an uncommon way would be overlooked."""
    check(directive, change=lambda n: write("inc/v.h", f"#define VALUE {n}"), include_path="inc")


@pytest.mark.parametrize(
    "test",
    [
        '__has_include("n2222.h")',
        "__has_include(<n2222.h>)",
        "defined(__has_include) && __has_include  ( <n2222.h> )",
    ],
)
def test_header_that_is_asked_for(test: str) -> None:
    """Code that depends on the existence of a file would not change when the file is created or removed."""
    source = f"""
        #if {test}
        #define VALUE 2222
        #elif {test.replace("2222", "3333")}
        #define VALUE 3333
        #else
        #define VALUE 1111
        #endif
    """

    def change(number: int) -> None:
        for name in ("n2222.h", "n3333.h"):
            path = Path("inc", name)
            path.parent.mkdir(exist_ok=True)
            if str(number) in name:
                path.write_text("")
            else:
                path.unlink(missing_ok=True)

    check(source, change=change, include_path="inc")


def test_macro_option_that_names_a_header() -> None:
    """A header whose name is a macro of the options would be overlooked."""
    check(
        "#include HEADER",
        change=lambda n: write("inc/v.h", f"#define VALUE {n}"),
        include_path="inc",
        define_macro=("HEADER", "<v.h>"),
    )


def test_computed_names() -> None:
    """Programs with Thrust, which computes the names of its headers, would get old code or never be cached."""
    source = (
        "#define __THRUST_ROOT part/__THRUST_DEEP\n#define __THRUST_DEEP deep\n#define IN(name) <__THRUST_ROOT/name>\n"
    )
    write("inc/main.h", source + "#define HEADER <part/deep/w.h>\n#define SAME HEADER\n#include IN(v.h)\n#include SAME")
    write("inc/part/deep/w.h", "")
    check("#include <main.h>", change=lambda n: write("inc/part/deep/v.h", f"#define VALUE {n}"), include_path="inc")


PASTE = "#define CAT_(a, b) a##b\n#define CAT(a, b) CAT_(a, b)\n"
TRICKS = [
    # For each of these programs, a cache once returned old code.
    ("", "a macro of the options has __TIME__", {"define_macro": "NOW=__TIME__"}),
    ("", "a macro of the options has __has_include", {"define_macro": "HAS=__has_include(<h.h>)"}),
    ("#define HAS __has_include\n#if HAS(<h.h>)\n#endif", "the program has __has_include other than"),
    ("#define HAS(lib) __has_include(<lib/h.h>)\n#if HAS(a)\n#endif", "the program has __has_include other than"),
    ("#define S_(x) #x\n#define S(x) S_(x)\n#if __has_include(S(h.h))\n#endif", "__has_include other than"),
    ("#define HAS(n, x) __has_include(x)\n#if HAS(1, <h.h>)\n#endif", "__has_include other than"),
    ("#define H <sm/__CUDA_ARCH__/h.h>\n#include H", "a file name with __CUDA_ARCH__, which the compiler may define"),
    ("#define UP ..\n#define H(x) <UP/x>\n#include H(part/NULL)", "with NULL, which the compiler may define"),
    ("#\rinclude <h.h>", r"the byte b'\\r'"),
    ("", "ptxas_options: '--options-file=o.txt' may name a file", {"ptxas_options": "--options-file=o.txt"}),
    ("", "ptxas_options: '--apply-controls=all' may name a file", {"ptxas_options": "--apply-controls=all"}),
    ("", "ptxas_options: '-optf' may name a file", {"ptxas_options": ["-optf", "o.txt"]}),
    ("", "ptxas_options: 'o.txt' may name a file", {"ptxas_options": "-v o.txt"}),
    # computed names
    ("#define IN(name) <part/name.h>\n#include IN(CAT(a, b))", r"#include IN\(CAT\(a, b\)\)"),
    ("#include UNKNOWN", "#include UNKNOWN, where no file that is read defines UNKNOWN"),
    ("#define H <v.h>\n#undef H\n#define H IN(v.h)\n#include H", "#include H, where H is defined in a way"),
    ("#define IN(a, b) <a/b>\n#include IN(part, v.h)", r"#include IN\(part, v\.h\)"),
    ("#define IN(a, b) <a/b>\n#include IN", "IN is defined in a way that is not followed"),
    ('#define H "a" ".h"\n#include H', "H is defined in a way"),
    ("#define A B\n#define B A\n#include A", "is defined by itself"),
    ("#include __FILE__", "no file that is read defines __FILE__"),
    (PASTE + "#include CAT(<h., h>)", "#include CAT"),
    ("#define P (1)\n#define H <P/h.h>\n#include H", "with P, which is a macro that is not followed"),
    (
        "".join(f"#define M{n} a\n" for n in range(9))
        + f"#define H <{'/'.join(f'M{n}' for n in range(9))}>\n#include H",
        "can mean more than 64 files",
    ),
    # words that are pasted from parts
    (PASTE + "__device__ const char *t = CAT(__TI, ME__);", "has tokens of which __TIME__ can be pasted"),
    (PASTE + "#if CAT(__has_, include)(<h.h>)\n#endif", "of which __has_include can be pasted"),
    ("#define CAT(a, b) a%:%:b\n#if CAT(__has_, include)(<h.h>)\n#endif", "of which __has_include can be pasted"),
    (PASTE, "of which __DATE__ can be pasted", {"define_macro": ["A=__DA", "B=TE__"]}),
    ("#include <paste.h>\n#include <parts.h>\n#define NOW F(ME__)", "of which __TIME__ can be pasted"),
    (
        "__device__ const char *t = _NV_CONCAT_EVAL(__TI, ME__);",
        "of which __TIME__ can be pasted",
    ),  # a predefined macro
    ("#define assert a\n#define H <assert.h>\n#include H", "with assert, which the compiler may define"),
    ("#include <call.h>\n#include <parts.h>\n", "of which __TIME__ can be pasted"),
    ("#include <goes_on.h>\n#include <parts.h>\n", "of which __TIME__ can be pasted"),
    ("#include <dollar.h>\n#include <parts.h>\n", "of which __TIME__ can be pasted"),
    # the compiler changes these names of files before it looks for the files
    ("#define ID(x) x\n#define lib other\n#if ID(__has_include(<lib.h>))\n#endif", "in the arguments of a macro"),
    ("#define ID(x) x\n#define E ID(\n#if E __has_include(<lib.h>))\n#endif", "behind a macro that may take its name"),
    ("#include <a'b'c.h>", "has #include <a'...'c.h>"),
    ("#include <1'0.h>", "has #include <'...'>"),
    ("#if __has_include(<a'b'c.h>)\n#endif", "__has_include other than"),
    ("#if __has_include(<h.h/>)\n#endif", "the file name 'h.h/' ends with a slash"),
    ('#include "part//"', "the file name 'part//' ends with a slash"),
    ("#define H part/\n#define I <H>\n#include I", "the file name 'part/' ends with a slash"),
    # name expressions
    ("", "a name expression has __TIME__", {"name_expressions": ["f<__TIME__[7]>"]}),
    (PASTE, "of which __TIME__ can be pasted", {"name_expressions": ["f<CAT(__TI, ME__)[7]>"]}),
    ("", "a name expression 'f<1.*', which may be read in two ways", {"name_expressions": ["f<1\n#include <v.h>\n>"]}),
    # times
    ("const char *now = __TIME__;", "the program has __TIME__"),
    ("const char *now = __DATE__;", "the program has __DATE__"),
    ("#include <time.h>", "inc/time.h has __TIMESTAMP__"),
    ('#include "mem.h"', "the header 'mem.h' has __TIME__"),
    # macros are expanded in pragmas
    (PASTE + "#pragma unroll (CAT(__TI, ME__)[7])", "has tokens of which __TIME__ can be pasted"),
    (PASTE + '_Pragma("unroll (CAT(__TI, ME__)[7])")', "has tokens of which __TIME__ can be pasted"),
    ("#include <pragma.h>\n#include <parts.h>\n", "has tokens of which __TIME__ can be pasted"),
    ('_Pragma("unroll (__TIME__[7])")', "has __TIME__ in a string, which may be that of a pragma"),
    ('#define P(x) _Pragma(x)\nP(R"x(unroll (__DATE__[5]))x")', "has __DATE__ in a string"),
    # text that can be read in two ways
    ("#inc\\ \nlude <v.h>", "blanks behind a backslash"),
    ("??=include <v.h>", "has trigraphs"),
    *((f"#define A ??{mark}", "has trigraphs") for mark in "=/'()!<>-"),
    ("#define A ??'a'/*\n*//*\n#include <v.h>\n*/", "has trigraphs", {"std": "c++03"}),
    ("\ufeff#include <v.h>", "begins with a byte order mark"),
    ("#\finclude <v.h>", "has the byte"),
    ("#if 0\ndon't /* \n#endif\n#include <v.h>\n// */", "has a literal without an end"),
    ("#if 0\n' /* ' \n#endif", "has a comment between two apostrophes"),
    ("/* ", "has a comment without an end"),
    ("#incl\\u0075de <v.h>", "has a backslash outside"),
    ('const char *r = R"(\\\n)";', "has a raw string and continued lines"),
    ('#define A R"(\n#include <v.h>\n)"', "has a raw string of several lines in a directive"),
    ('#if 0\nR"*/ /*"\n#endif', "has a raw string that is not one"),
    ("int i = 1'0;", "which the language does not have", {"std": "c++11"}),
    *(
        (f'#define EAT(...)\nEAT({before}R"("\n#include <v.h>\n//)"\n)', "a raw string that can be read in two ways")
        for before in ('"a"', "'a'", "1.", "1e+", "0x1p-", "1.u8", "$", "\u00e9")
    ),
    ("int $1'0 = 1;", "has an apostrophe that can be read in two ways"),
    ("int v = /*\n*/ #include <v.h>\n1;", "has a directive behind a comment of several lines"),
    ("int v = /*\n*/ /* */ %:define W\n1;", "has a directive behind a comment of several lines"),
    # directives
    ("#include <v.h> <w.h>", "has #include <v.h> <w.h>"),
    ("#include <v/* */.h>", "has #include <v"),
    ("#include <a//b.h>", "has #include <a"),
    ('#include "a\\b.h"', 'has the file name "a'),
    ('#line 3 "elsewhere/a.cu"', "has #line with a name"),
    ('# 3 "elsewhere/a.cu"', "has the directive #3"),
    ("#import <v.h>", "has the directive #import"),
    ("#embed <v.h>", "has the directive #embed"),
    ("#assert a(b)", "has the directive #assert"),
    ('#pragma include_alias("a.h", "b.h")', "has #pragma include_alias"),
    ("import <v.h>;", "imports or declares a module", {"std": "c++20"}),
    ("#if __has_embed(<v.h>)\n#endif", "__has_include other than"),
    # options
    ("", "ProgramOptions.pch: NVRTC does not notice", {"pch": True}),
    ("", "ProgramOptions.use_pch: NVRTC does not notice", {"use_pch": "p"}),
    ("", "which may be read in two ways", {"define_macro": ("A", "/*")}),
]


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick[1][:50])
def test_what_is_not_understood(trick: Any) -> None:
    """A program whose included files are unknown would have a key, and would get old code."""
    source, reason, options = (*trick, {})[:3]
    write("inc/paste.h", "#define F(x) __TI##x\n")
    write("inc/parts.h", "#define PART __h\n")
    write("inc/call.h", PASTE + "#define ID(x) x\nchar t[] = ID(CAT)(__TI, ME__);")
    write("inc/goes_on.h", "#define CAT(a, b) a##b\nchar t[] = CAT\n#if 1\n(__TI, ME__);\n#endif")
    write("inc/dollar.h", "#define $p(a, b) a##b\nchar t[] = $p(__TI, ME__);")
    write("inc/pragma.h", PASTE + "#pragma unroll (CAT(__TI, ME__)[7])")
    write("inc/time.h", "const char *t = __TIMESTAMP__;")
    headers = {"mem.h": "__TIME__"} if "mem.h" in source else None
    with pytest.raises(UncacheableError, match=f"so it has no key: .*{reason}"):
        key(source, include_path="inc", headers=headers, **options)
    assert key(source, include_path="inc", headers=headers, extra=b"1", **options) != key(
        source, include_path="inc", headers=headers, extra=b"2", **options
    )


def test_byte_that_ends_a_file() -> None:
    """NVRTC stops reading at a byte that text cannot have. The bytes after it would count as part of the program."""
    Path("v.h").write_bytes(b"\xff")
    with pytest.raises(UncacheableError, match=r"v.h has the byte b'\\xff'"):
        key('#include "v.h"')


@pytest.mark.parametrize("name", ["NVRTC_APPEND_FLAGS", "EDG_BASE", "NVRTCWIZ"])
def test_variables_that_name_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options in the environment could make the compiler include files that the cache does not check."""
    monkeypatch.setenv(name, "--pre-include=v.h")
    with pytest.raises(UncacheableError, match=f"the environment variable {name}"):
        key()


@pytest.mark.parametrize(
    "source",
    [
        'const char *s = "__TIM__ /* // \\\\";  // __TIME__ __has_include\n/* __TIME__ */',
        "#error don't\n#define IT__S 1\n",
        PASTE + "int CAT(__a, b); template <class T> class X;",
        "#ifndef __has_include\n#define __has_include(x) 0\n#endif\n#if defined(__has_include)\n#endif",
        'const char *r = R"x(\n#include <h.h>\n)" __TIM__ )x";',
        "int i = 1'000'000; char c = '\\'', d = '\"';",
        "#if 0\n0z'z /*'*/ .1'2\n#endif /* don't */",
        "#pragma once\n# \n#line 7\n%:pragma unroll",
        "import = 1; module(1);",
        "/* a\n*/ /* b */ #define A",
        "int i = /* a\n*/ 1;\n#define A(x) /* b */ #x",
        PASTE
        + "#define LP (\n#define RP )\n#if A(1) && !defined(B) && (CAT(1, 2) == 1 || __has_include(<h.h>))\n#endif",
    ],
)
def test_what_is_understood(source: str) -> None:
    """An ordinary program would be compiled each time."""
    assert key(source) == key(source)
