# SPDX-License-Identifier: Apache-2.0
"""The names of files in sources, and the sources that a program cache refuses."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from cache_programs import check, in_a_folder, key, write

from cudacore_compile import InMemoryProgramCache, Program, UncacheableError
from cudacore_compile._cache import compile as _compile

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
        "#define IN(name) <../inc/name>\n#include IN( v.h )",
        "#include /* of\ntwo lines */ <v.h>",
        "__device__ int i; /* of\ntwo lines */ #include <v.h>",
        "#\rinclude\f<v.h>",
        "#include <./v.h>",
        "#include <../inc/v.h>",
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


def test_header_of_a_name_expression() -> None:
    """Old code would be used after a change of a file that a name expression includes, which is an odd trick."""
    names = ['f<1\n#include "v.h"\n>']
    write("v.h", "1")
    before = key(name="src/k.cu", name_expressions=names)
    write("v.h", "2")
    assert key(name="src/k.cu", name_expressions=names) != before


def test_chain_of_macros() -> None:
    """A file whose name another file defines, in a chain of macros or headers, would be overlooked, or take minutes."""
    count = 2000
    for number in range(count):
        write(f"inc/h{number}.h", f"#undef NEXT\n#define NEXT <h{number + 1}.h>\n#include NEXT\n")
    write("inc/last.h", "#define M0 <v.h>\n" + "".join(f"#define M{n + 1} M{n}\n" for n in range(count)))
    write(f"inc/h{count}.h", f"#include <last.h>\n#include M{count}\n")
    write("inc/v.h", "1")
    start = time.perf_counter()
    first = key("#include <h0.h>", include_path="inc")
    assert time.perf_counter() - start < 30
    write("inc/v.h", "2")
    assert key("#include <h0.h>", include_path="inc") != first


PASTE = "#define CAT_(a, b) a##b\n#define CAT(a, b) CAT_(a, b)\n"
REFUSED = [
    # For each of these programs, a cache could return old code.
    ("", "a macro of the options has __TIME__", {"define_macro": "NOW=__TIME__"}),
    (
        "#define HAS __has_include\n#if HAS(<h.h>)\n#endif",
        "the program has __has_include without the name .* in line 1",
    ),
    ("#define HAS(x) __has_include(x)\n#if HAS(<h.h>)\n#endif", "__has_include without the name"),
    ("#define S_(x) #x\n#define S(x) S_(x)\n#if __has_include(S(h.h))\n#endif", "__has_include without the name"),
    ("#define HAS(lib) __has_include(<lib/h.h>)\n#if HAS(a)\n#endif", "the file name <lib/h.h> with lib, which may be"),
    ("#define ID(x) x\n#define lib other\n#if ID(__has_include(<lib.h>))\n#endif", "with lib, which may be a macro"),
    ("#define ID(x) x\n#define E ID(\n#define lib o\n#if E __has_include(<lib.h>))\n#endif", "with lib, which may be"),
    ("#define ID(x) x\n#if ID(__has_include(<a'b'c.h>))\n#endif", "with characters that a macro does not keep"),
    ("#define H <a  b.h>\n#include H", "with characters that a macro does not keep"),
    ("#define H <sm/__CUDA_ARCH__/h.h>\n#include H", "with __CUDA_ARCH__, which may be a macro"),
    ("#define UP ..\n#define H <UP/a.h>\n#include H", "with UP, which may be a macro"),
    ("#include __FILE__", "computes a file name with a macro of the compiler"),
    ("#include <cuda/tree.h>\n#define H <tree_lib.h>\n#include H", "with tree_lib, which", {"include_path": "tree"}),
    ("#include <other/time.h>", "tree/include/other/time.h has __DATE__", {"include_path": "tree"}),
    ("#include <flat.h>", r"#include IN\(none\), which is not defined", {"include_path": "tree"}),  # not in a directory
    # computed names
    ("#define IN(n) <part/n>\n#include IN(CAT(a, b))", r"#include IN\(CAT\(a, b\)\), which is not defined"),
    ("#define IN(n) <part/n>\n#define v w\n#include IN(v.h)", "the file name <part/v.h> with v, which may be a macro"),
    ("#define IN(a, b) <a/b>\n#include IN(part, v.h)", "which is not defined as the name of a file"),
    ("#define IN(n) <part/n>\n#include IN", "which is not defined as the name of a file"),
    ("#define IN(n) #n\n#include IN(v.h)", "which is not defined as the name of a file"),
    ("#define EMPTY\n#include EMPTY <v.h>", "which is not defined as the name of a file"),
    ("#define H <v.h>\n#undef H\n#define H IN(v.h)\n#include H", "#include H, which is not defined as the name"),
    ('#define H "a" ".h"\n#include H', "which is not defined as the name"),
    # words that are pasted from parts
    (PASTE + "__device__ const char *t = CAT(__TI, ME__);", "has ME__, of which a word that is refused can be pasted"),
    (
        PASTE + "__device__ const char *t = CAT(_, CAT(_TI, ME__));",
        "has ME__, of which a word",
    ),
    (PASTE + "#if CAT(__has_, include)(<h.h>)\n#endif", "has __has_, of which a word"),
    (PASTE, "a macro of the options has TE__, of which a word", {"define_macro": ["A=__DA", "B=TE__"]}),
    ("#include <paste.h>\n#define NOW F(ME__)", "has (ME__|__TI), of which a word"),
    ("__device__ const char *t = _NV_CONCAT_EVAL(__TI, ME__);", "has (ME__|__TI), of which a word"),  # predefined
    ("", "a name expression has __TIME__", {"name_expressions": ["f<__TIME__[7]>"]}),
    (PASTE, "has (ME__|__TI), of which a word", {"name_expressions": ["f<CAT(__TI, ME__)[7]>"]}),
    ("\n?\\\n?=include <h.h>", "has a trigraph in line 2"),
    # times
    ("\nconst char *now = __TI\\\nME__;", "the program has __TIME__ in line 2"),
    ("#include <time.h>", "inc/time.h has __TIMESTAMP__"),
    ('#include "mem.h"', "the header 'mem.h' has __TIME__"),
    ('_Pragma("unroll (__TIME__[7])")', "has __TIME__"),
    # options
    ("", "ptxas_options: '--options-file=o.txt' may name a file", {"ptxas_options": "--options-file=o.txt"}),
    ("", "ptxas_options: '--apply-controls=all' may name a file", {"ptxas_options": "--apply-controls=all"}),
    ("", "ptxas_options: '-optf' may name a file", {"ptxas_options": ["-optf", "o.txt"]}),
    ("", "ptxas_options: 'o.txt' may name a file", {"ptxas_options": "-v o.txt"}),
    ("", "ProgramOptions.pch: NVRTC does not notice", {"pch": True}),
    ("", "ProgramOptions.use_pch: NVRTC does not notice", {"use_pch": "p"}),
]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused[1][:50])
def test_what_is_refused(refused: Any) -> None:
    """A program whose included files are unknown would have a key, and would get old code."""
    source, reason, options = (*refused, {})[:3]
    write("inc/paste.h", "#define F(x) __TI##x\n")
    write("inc/time.h", "const char *t = __TIMESTAMP__;")
    write("tree/nvvm/mark", "")
    write("tree/include/cuda/tree.h", "#define  tree_lib other\n")
    write("tree/include/flat.h", "#include IN(none)\n#define IN(x) #x\n")
    write("tree/include/other/time.h", "const char *t = __DATE__;")
    options = {"include_path": "inc"} | options
    options["include_path"] = options["include_path"].replace("tree", "tree/include")
    headers = {"mem.h": "__TIME__"} if "mem.h" in source else None
    with pytest.raises(UncacheableError, match=f"so it has no key: .*{reason}"):
        key(source, headers=headers, **options)
    assert key(source, headers=headers, extra=b"1", **options) != key(source, headers=headers, extra=b"2", **options)


def test_file_that_cannot_be_read() -> None:
    """A header in an encoding in which no name is found would be overlooked."""
    Path("v.h").write_bytes("#include <w.h>".encode("utf-16"))
    with pytest.raises(UncacheableError, match=r"v.h is encoded as UTF-16"):
        key('#include "v.h"')


def test_warning_of_a_program_that_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is compiled each time would only be slow, and nobody would know why."""
    monkeypatch.setattr(_compile, "_has_warned", False)
    program = Program("__device__ int line;\nconstexpr const char *now = __TIME__;", "c++", {"arch": "sm_90"})
    with pytest.warns(RuntimeWarning, match="is not cached, .* the program has __TIME__ in line 2") as caught:
        program.compile("ptx", cache=InMemoryProgramCache())
    assert caught[0].filename == __file__
    program.compile("ptx", cache=InMemoryProgramCache())  # without another warning


@pytest.mark.parametrize("name", ["NVRTC_APPEND_FLAGS", "EDG_BASE", "NVRTCWIZ"])
def test_variables_that_name_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options in the environment could make the compiler include files that the cache does not check."""
    monkeypatch.setenv(name, "--pre-include=v.h")
    with pytest.raises(UncacheableError, match=f"the environment variable {name}"):
        key()


@pytest.mark.parametrize(
    "source",
    [
        'const char *s = "__TIM__ /* // \\\\";',
        "#error don't\n#define IT__S 1\n",
        PASTE + "int CAT(__a, b); template <class T, int I, int M, int E> class _;",
        "#ifndef __has_include\n#define __has_include(x) 0\n#endif\n#if defined(__has_include)\n#endif",
        "#if defined __has_include && __has_include(<h.h>) && defined ( __has_include )\n#endif",
        "#define lib other\n#if 1 && !defined(A) && (__has_include(<__a/b'c.h>) || __has_include(<lib.h>))\n#endif",
        "// #include order matters, and include the <right> files",
        'int i = 1\'000; const char *r = R"x(\n#include <h.h>\n)" )x";\n#if 0\ndon\'t /*\n#endif\n#include <h.h>',
        'import <h.h>;\n#embed <h.h>\n#line 3 "a.cu"\n// why??! ??)',
        "#include <a//b'c d\\.h>\n#include <part/>\n#include NOTHING",
    ],
)
def test_what_is_cached(source: str) -> None:
    """An ordinary program would be compiled each time."""
    assert key(source) == key(source)
