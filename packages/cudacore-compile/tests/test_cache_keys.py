# SPDX-License-Identifier: Apache-2.0
"""What is in the key of a compilation: the code that a cache gives out must be what the compiler would make now."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cudacore_compile import InMemoryProgramCache, Program, ProgramOptions, UncacheableError, make_program_cache_key
from cudacore_compile._cache import closure as _closure
from cudacore_compile._cache import digest as _cache_digest
from cudacore_compile._cache import identity as _identity
from cudacore_compile._cache import inputs as _inputs
from cudacore_handles import ObjectCode

KERNEL = '\nextern "C" __global__ void k(int *p) { *p = VALUE; }'


@pytest.fixture(autouse=True)
def _in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start in an empty directory, with no memory of files: they are new, and the clocks of tests are quick."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_inputs, "_files", _closure.Files())
    monkeypatch.setattr(_inputs, "_closures", {})


def key(code: str = KERNEL, *, headers: Any = None, extra: bytes | None = None, **options: Any) -> bytes:
    arguments: dict[str, Any] = {"code_type": "c++", "target_type": "ptx", "extra_digest": extra, "headers": headers}
    for name in ("target_type", "name_expressions"):
        if name in options:
            arguments[name] = options.pop(name)
    options.setdefault("arch", "sm_90")
    return make_program_cache_key(code=code, options=ProgramOptions(**options), **arguments)


def write(path: str, text: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    return path


def value_of(code: ObjectCode) -> int:
    assert isinstance(code.code, bytes)
    found = re.search(r", (1111|2222|3333);", code.code.decode())
    assert found is not None
    return int(found[1])


def check(includes: str, *, change: Callable[[int], object], headers: Any = None, **options: Any) -> None:
    """Compile with a cache while what is included changes: compare with what the compiler makes without one."""
    cache = InMemoryProgramCache()
    options.setdefault("arch", "sm_90")
    for number in (1111, 2222, 2222, 3333):
        change(number)
        program = Program(includes + KERNEL, "c++", ProgramOptions(**options), headers=headers)
        cached, fresh = program.compile("ptx", cache=cache), program.compile("ptx")
        assert (value_of(cached), cached.code) == (number, fresh.code)
    assert (cache.statistics.hits, cache.statistics.misses, cache.statistics.uncacheable) == (1, 3, 0)


# -- files


@pytest.mark.parametrize("options", [{}, {"name": "program"}, {"include_path": "elsewhere"}])
def test_header_beside_the_program(options: dict[str, Any]) -> None:
    """A header in the current directory would change, and the old code be used."""
    check('#include "v.h"', change=lambda n: write("v.h", f"#define VALUE {n}"), **options)


def test_header_in_the_directory_of_the_name() -> None:
    """A name with a directory adds that to the include path: its headers would change unseen."""
    check('#include "v.h"', change=lambda n: write("src/v.h", f"#define VALUE {n}"), name="src/program.cu")


def test_header_of_a_header() -> None:
    """Headers that are included by headers would not count, nor those beside them."""
    write("inc/a.h", '#include "deep/b.h"')
    write("inc/deep/b.h", '#include "c.h"')
    check("#include <a.h>", change=lambda n: write("inc/deep/c.h", f"#define VALUE {n}"), include_path="inc")


def test_header_that_appears_before_another() -> None:
    """A file that is found before the one that was read would not be noticed, because that one is still the same."""
    write("last/v.h", "#define VALUE 1111")

    def change(number: int) -> None:
        if number == 2222:
            write("middle/v.h", "#define VALUE 2222")
        if number == 3333:
            write("first/v.h", "#define VALUE 3333")

    check("#include <v.h>", change=change, include_path=["first", "middle", "last"])


def test_pre_include() -> None:
    """What is included before the program would change, and the old code be used."""
    check("", change=lambda n: write("first.h", f"#define VALUE {n}"), pre_include="first.h")


def test_headers_in_memory() -> None:
    """Files that are given in memory would count by their names alone, or what they include not at all."""
    assert key('#include "a.h"', headers={"a.h": "1"}) != key('#include "a.h"', headers={"a.h": "2"})
    assert key('#include "a.h"', headers={"a.h": "1"}) != key('#include "a.h"', headers={"b.h": "1"})
    assert key(headers={"a": "bc"}) != key(headers={"ab": "c"})
    assert key(headers={"a": "1", "b": "2"}) == key(headers={"b": "2", "a": "1"})
    write("inc/x", "")
    check(
        '#include "sub/a.h"',
        headers={"sub/a.h": '#include "v.h"'},
        change=lambda n: write("sub/v.h", f"#define VALUE {n}"),
        include_path="inc",
    )


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
    """Code that depends on whether there is a file would not change when that appears, or goes."""
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
    """Thrust computes the names of its headers: they would not be seen to change, or never be cached."""
    source = (
        "#define __THRUST_ROOT part/__THRUST_DEEP\n#define __THRUST_DEEP deep\n#define IN(name) <__THRUST_ROOT/name>\n"
    )
    write("inc/main.h", source + "#define HEADER <part/deep/w.h>\n#define SAME HEADER\n#include IN(v.h)\n#include SAME")
    write("inc/part/deep/w.h", "")
    check("#include <main.h>", change=lambda n: write("inc/part/deep/v.h", f"#define VALUE {n}"), include_path="inc")


PASTE = "#define CAT_(a, b) a##b\n#define CAT(a, b) CAT_(a, b)\n"
TRICKS = [
    # issue 19: all of these were served old code
    ("", "the options has __TIME__", {"define_macro": "NOW=__TIME__"}),
    ("", "the options has __has_include", {"define_macro": "HAS=__has_include(<h.h>)"}),
    ("#define HAS __has_include\n#if HAS(<h.h>)\n#endif", "the program has __has_include other than"),
    ("#define HAS(lib) __has_include(<lib/h.h>)\n#if HAS(a)\n#endif", "the program has __has_include other than"),
    ("#define S_(x) #x\n#define S(x) S_(x)\n#if __has_include(S(h.h))\n#endif", "__has_include other than"),
    ("#define HAS(n, x) __has_include(x)\n#if HAS(1, <h.h>)\n#endif", "__has_include other than"),
    ("#define H <sm/__CUDA_ARCH__/h.h>\n#include H", "a file name with __CUDA_ARCH__, which the compiler may define"),
    ("#define UP ..\n#define H(x) <UP/x>\n#include H(part/NULL)", "with NULL, which the compiler may define"),
    ("#\rinclude <h.h>", r"the control character b'\\r'"),
    ("", "ptxas_options: '--options-file=o.txt' may name a file", {"ptxas_options": "--options-file=o.txt"}),
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
    # pasted words
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
    # times
    ("const char *now = __TIME__;", "the program has __TIME__"),
    ("const char *now = __DATE__;", "the program has __DATE__"),
    ("#include <time.h>", "inc/time.h has __TIMESTAMP__"),
    ('#include "mem.h"', "the header 'mem.h' has __TIME__"),
    # text that can be read in two ways
    ("#inc\\ \nlude <v.h>", "blanks behind a backslash"),
    ("??=include <v.h>", "has trigraphs"),
    ("\ufeff#include <v.h>", "begins with a byte order mark"),
    ("#\finclude <v.h>", "has the control character"),
    ("#if 0\ndon't /* \n#endif\n#include <v.h>\n// */", "has a literal without an end"),
    ("#if 0\n' /* ' \n#endif", "has a comment between two apostrophes"),
    ("/* ", "has a comment without an end"),
    ("#incl\\u0075de <v.h>", "has a backslash outside"),
    ('const char *r = R"(\\\n)";', "has a raw string and continued lines"),
    ('#define A R"(\n#include <v.h>\n)"', "has a raw string of several lines in a directive"),
    ('#if 0\nR"*/ /*"\n#endif', "has a raw string that is not one"),
    ("int i = 1'0;", "which the language does not have", {"std": "c++11"}),
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
    """A program that reads nobody knows what would have a key, and get old code for it."""
    source, reason, options = (*trick, {})[:3]
    write("inc/paste.h", "#define F(x) __TI##x\n")
    write("inc/parts.h", "#define PART __h\n")
    write("inc/time.h", "const char *t = __TIMESTAMP__;")
    headers = {"mem.h": "__TIME__"} if "mem.h" in source else None
    with pytest.raises(UncacheableError, match=f"so it has no key: .*{reason}"):
        key(source, include_path="inc", headers=headers, **options)
    assert key(source, include_path="inc", headers=headers, extra=b"1", **options) != key(
        source, include_path="inc", headers=headers, extra=b"2", **options
    )


@pytest.mark.parametrize("name", ["NVRTC_APPEND_FLAGS", "EDG_BASE", "NVRTCWIZ"])
def test_variables_that_name_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options of the environment would have the compiler include files that nobody looks at."""
    monkeypatch.setenv(name, "--pre-include=v.h")
    with pytest.raises(UncacheableError, match=f"the environment variable {name}"):
        key()


@pytest.mark.parametrize(
    "source",
    [
        'const char *s = "__TIME__ /* // \\\\";  // __TIME__ __has_include\n/* __TIME__ */',
        "#error don't\n#define IT__S 1\n",
        PASTE + "int CAT(__a, b); template <class T> class X;",
        "#ifndef __has_include\n#define __has_include(x) 0\n#endif\n#if defined(__has_include)\n#endif",
        'const char *r = R"x(\n#include <h.h>\n)" __TIME__ )x";',
        "int i = 1'000'000; char c = '\\'', d = '\"';",
        "#if 0\n0z'z /*'*/ .1'2\n#endif /* don't */",
        "#pragma once\n# \n#line 7\n%:pragma unroll",
        "import = 1; module(1);",
    ],
)
def test_what_is_understood(source: str) -> None:
    """An ordinary program would be compiled each time."""
    assert key(source) == key(source)


def test_uncacheable_programs_are_compiled() -> None:
    """A program that a cache cannot take would not be compiled at all."""
    cache = InMemoryProgramCache()
    for _ in range(2):
        Program("__device__ const char *now = __TIME__;" + KERNEL, "c++", {"arch": "sm_90", "define_macro": "VALUE"})
        source = "__device__ const char *now = __TIME__;" + KERNEL
        Program(source, "c++", {"arch": "sm_90", "define_macro": "VALUE=1"}).compile("ptx", cache=cache)
    assert (len(cache), cache.statistics.uncacheable) == (0, 2)


def test_header_that_changes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header that changes while the compiler reads it would give its new code to the old text, or the reverse."""
    write("v.h", "#define VALUE 1111")
    cache = InMemoryProgramCache()
    program = Program('#include "v.h"' + KERNEL, "c++", {"arch": "sm_90"})
    compile_now = Program.compile

    def change_then_compile(self: Program, *args: Any, **kwargs: Any) -> ObjectCode:
        if kwargs.get("cache") is None:
            write("v.h", "#define VALUE 2222")
        return compile_now(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Program, "compile", change_then_compile)
        assert value_of(program.compile("ptx", cache=cache)) == 2222
    assert len(cache) == 0
    write("v.h", "#define VALUE 1111")
    assert value_of(program.compile("ptx", cache=cache)) == 1111


def test_header_that_changes_and_changes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text that the compiler has read would be kept under the key of the text before and after it."""
    old = "#define VALUE 1111"
    write("inc/v.h", old)
    write("other/v.h", "#define VALUE 2222")
    os.symlink("v.h", "inc/link.h")
    os.symlink("inc", "way")
    compile_now = Program.compile

    def rewrite(number: int) -> None:
        write("inc/v.h", f"#define VALUE {number}")

    def exchange(number: int) -> None:
        os.rename("inc", "aside")
        os.rename("other", "inc")
        os.rename("aside", "other")

    def link(number: int) -> None:
        os.unlink("way")
        os.symlink("other" if number == 2222 else "inc", "way")

    def appear(number: int) -> None:
        if number == 2222:
            write("first/v.h", "#define VALUE 2222")
        else:
            os.unlink("first/v.h")

    os.mkdir("first")
    for change in (rewrite, exchange, link, appear):
        path = "way" if change is link else "inc"
        program = Program("#include <v.h>" + KERNEL, "c++", {"arch": "sm_90", "include_path": ["first", path]})
        cache = InMemoryProgramCache()

        def meanwhile(self: Program, *args: Any, **kwargs: Any) -> ObjectCode:
            if kwargs.get("cache") is not None:
                return compile_now(self, *args, **kwargs)
            change(2222)  # noqa: B023
            result = compile_now(self, *args, **kwargs)
            change(1111)  # noqa: B023
            return result

        with monkeypatch.context() as patch:
            patch.setattr(Program, "compile", meanwhile)
            assert value_of(program.compile("ptx", cache=cache)) == 2222
        assert len(cache) == 0, change
        assert value_of(program.compile("ptx", cache=cache)) == 1111
        assert len(cache) == 1, change


def test_file_that_was_written_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is written twice in one tick of the clock would be taken for what it was."""
    write("v.h", "#define VALUE 1111")
    now = os.stat("v.h")
    old = key('#include "v.h"')
    write("v.h", "#define VALUE 2222")
    as_before = _identity._identity(now)
    with monkeypatch.context() as patch:
        patch.setattr(_identity, "_identity", lambda status: as_before)
        patch.setattr(_identity.time, "time_ns", lambda: now.st_ctime_ns)
        assert key('#include "v.h"') != old


def test_what_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once all files have settled, a file that appears, changes or goes would be overlooked."""
    write("inc/main.h", "#define IN(n) <part/n>\n#include IN(v.h)")
    write("inc/part/other.h", "")
    monkeypatch.setattr(_identity.time, "time_ns", lambda: 2**62)  # long after
    keys = []
    for change in (
        lambda: None,
        lambda: write("inc/part/v.h", "1"),
        lambda: write("inc/part/v.h", "2"),
        lambda: os.unlink("inc/part/v.h"),
        lambda: write("first/part/v.h", "1"),
        lambda: (os.unlink("first/part/v.h"), os.symlink("target", "first/part/v.h")),  # which leads nowhere
        lambda: write("first/part/target", "3"),
    ):
        change()
        keys.append(key("#include <main.h>", include_path=["first", "inc"]))
        assert key("#include <main.h>", include_path=["first", "inc"]) == keys[-1]
    assert len(_inputs._closures) == 1
    assert keys[0] == keys[3] == keys[5]
    assert len(set(keys)) == 5


def test_files_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lookup would read all headers."""
    write("v.h", "#define VALUE 1111")
    monkeypatch.setattr(_identity.time, "time_ns", lambda: 2**62)
    before = key('#include "v.h"')
    monkeypatch.setattr(_inputs, "close_over", None)
    monkeypatch.setattr(_closure, "read", None)
    assert key('#include "v.h"') == before
    assert key('#include "v.h"\nint other;') != before  # whose headers are the same


def test_paths_to_one_file() -> None:
    """A file that is read once because two paths lead to it, by ``#pragma once``, could become two files."""
    write("a.h", "#pragma once\n__device__ int CAT(v, __COUNTER__);")
    includes = '#include "a.h"\n#include "b.h"'
    Path("b.h").write_bytes(Path("a.h").read_bytes())
    two = key(includes)
    for join in (os.link, lambda a, b: os.symlink(a, b)):
        os.unlink("b.h")
        join("a.h", "b.h")
        assert key(includes) != two


def test_suffix_that_the_compiler_tries() -> None:
    """NVRTC tries the suffix .stdh where a name has none: such a file would appear unseen."""
    Path("inc").mkdir()

    def change(number: int) -> None:
        if number > 1111:
            write("inc/v.stdh", f"#define VALUE {number}")

    check("#if __has_include(<v>)\n#include <v>\n#else\n#define VALUE 1111\n#endif", change=change, include_path="inc")


# -- everything else


CHANGES: list[dict[str, Any]] = [
    {"arch": "sm_80"},
    {"arch": "sm_90a"},
    {"arch": "compute_90", "target_type": "ltoir"},
    {"name": "another"},
    {"target_type": "cubin"},
    {"target_type": "ltoir"},
    {"name_expressions": ["k"]},
    {"name_expressions": ["k", "f<int>"]},
    {"define_macro": "A"},
    {"define_macro": "A=1"},
    {"define_macro": ("A", "2")},
    {"define_macro": ["A", "B"]},
    {"define_macro": ["B", "A"]},
    {"undefine_macro": "A"},
    {"include_path": "a"},
    {"include_path": "b"},
    {"include_path": ["a", "b"]},
    {"include_path": ["b", "a"]},
    {"pre_include": "none.h"},
    {"std": "c++17"},
    {"std": "c++20"},
    {"ptxas_options": "-v"},
    {"ptxas_options": ["-v", "-O1"]},
    {"max_register_count": 32},
    {"max_register_count": 64},
    {"use_fast_math": True},
    {"ftz": True},
    {"ftz": False},
    {"lineinfo": True},
    {"debug": True},
    {"headers": {"h.h": ""}},
    {"extra": b""},
    {"extra": b"1"},
    {"split_compile": 2},
]


def test_everything_counts() -> None:
    """An option, a name or the target would be missing from the key."""
    keys = [key(), *(key(**change) for change in CHANGES), key(KERNEL + " ")]
    assert len({*keys}) == len(CHANGES) + 2
    assert all(len(one) == 32 and isinstance(one, bytes) for one in keys)


def test_every_option_counts() -> None:
    """An option that is added to ProgramOptions one day would be forgotten."""
    values = {
        "name": "n", "arch": "sm_80", "ptxas_options": "-v", "max_register_count": 3, "define_macro": "A",
        "undefine_macro": "A", "include_path": "i", "pre_include": "p.h", "std": "c++20", "optimization_info": "inline",
        "diag_error": 1, "diag_suppress": 1, "diag_warn": 1, "split_compile": 1, "frandom_seed": "1",
        "ofast_compile": "max", "pch_dir": "d",
    }  # fmt: skip
    elsewhere = {"time", "fdevice_time_trace", "create_pch", "pch", "use_pch", "raw_options"}  # no key
    elsewhere |= {"extra_sources", "use_libdevice", "link_time_optimization"}  # not of this language, or the target's
    seen = {key()}
    for field in dataclasses.fields(ProgramOptions):
        if field.name not in elsewhere:
            seen.add(key(**{field.name: values.get(field.name, True)}))
    assert len(seen) == 1 + len(dataclasses.fields(ProgramOptions)) - len(elsewhere)


def test_what_does_not_count() -> None:
    """The same compilation would have two keys."""
    assert key() == key()
    assert key(KERNEL) == make_program_cache_key(
        code=KERNEL.encode(), code_type="C++", options=ProgramOptions(arch=90), target_type="PTX"
    )
    assert key(name_expressions=["a", "b"]) == key(name_expressions=[b"b", "a", "b"])


def test_directory_in_debug_information(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line information has the whole path of the program: that of another directory would be used."""
    (tmp_path / "other").mkdir()
    plain, lines = key(), key(lineinfo=True)
    monkeypatch.chdir("other")
    assert (key() == plain, key(lineinfo=True) == lines) == (True, False)


def test_link_to_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debug information would name a directory by a link that others have not come by."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "link")
    cache = InMemoryProgramCache()
    program = Program("__global__ void k(int *p) { *p = 1; }", "c++", {"arch": "sm_90", "lineinfo": True})
    for name in ("real", "link"):
        monkeypatch.setenv("PWD", str(tmp_path / name))
        assert program.compile("ptx", cache=cache).code == program.compile("ptx").code
    assert cache.statistics.hits == 0


def test_variables_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What compilers take from the environment would be in code that other environments get."""
    before = key()
    monkeypatch.setenv("LLVM_OVERRIDE_PRODUCER", "somebody")
    assert key() != before


@pytest.mark.parametrize("option", ["create_pch", "time", "fdevice_time_trace"])
def test_options_with_side_effects(option: str) -> None:
    """A file that the compiler writes would be missing when the code comes from a cache."""
    with pytest.raises(ValueError, match=rf"ProgramOptions\.{option} has the compiler write a file"):
        key(**{option: "file"})
    with pytest.raises(ValueError, match=rf"ProgramOptions\.{option} has the compiler write a file"):
        Program(KERNEL, "c++", {"arch": "sm_90", option: "file"}).compile("ptx", cache=InMemoryProgramCache())


def test_compiler_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of one build of the compiler would be used for another."""
    identity = _cache_digest.nvrtc_identity()
    assert len(identity) > 20
    before = key()
    monkeypatch.setattr(_cache_digest, "nvrtc_identity", lambda: identity + b"'")
    assert key() != before


def test_build_of_a_library(tmp_path: Path) -> None:
    """Two builds of a library would be taken for one, or one installed twice for two."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    path = Path(load_nvidia_dynamic_lib("nvrtc").abs_path or "").resolve()
    builtins = next(path.parent.glob("libnvrtc-builtins.so*"))
    copy = tmp_path / "copy.so"
    copy.write_bytes(builtins.read_bytes())
    build = _cache_digest.build_identity(builtins)
    assert build == _cache_digest.build_identity(copy) != _cache_digest.build_identity(path)
    copy.write_bytes(b"no library")
    assert copy.name.encode() in _cache_digest.build_identity(copy)


def test_wrong_arguments() -> None:
    """What is no key material would be taken for some."""
    with pytest.raises(TypeError, match="extra_digest must be bytes, not str"):
        key(extra="text")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name_expressions must be a list"):
        key(name_expressions="k")
    with pytest.raises(ValueError, match="Unsupported target_type"):
        key(target_type="exe")


def test_all_that_the_compiler_reads(nvrtc_version: tuple[int, ...], tmp_path: Path) -> None:
    """A file that the compiler reads would be missing, among the hundreds of a real library."""
    if nvrtc_version < (13, 3):
        pytest.skip("headers come with NVRTC from 13.3 on")
    source = "#include <cuda/std/tuple>\n#include <cuda_fp16.h>\n#include <cooperative_groups.h>"
    options = ProgramOptions(arch="sm_90", use_bundled_headers=True, fdevice_time_trace=tmp_path / "trace")
    Program(source, "c++", options).compile("ptx")
    (top,) = (flag.partition(b"=")[2].decode() for flag in options.as_bytes("NVRTC") if b"bundled" in flag)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    read = {event["args"]["detail"] for event in events if event.get("name") == "Processing Header File"}
    include_path = [top, os.path.join(top, "cccl")]
    closure = _closure.close_over(
        source.encode(),
        [],
        directory="",
        include_path=include_path,
        pre_include=[],
        headers={},
        standard="",
        files=_closure.Files(),
    )
    found = {os.path.realpath(name) for name in closure.files}
    assert len(read) > 100
    assert {os.path.realpath(name) for name in read if os.path.exists(name)} <= found
    assert len(found) < 2 * len(read)
