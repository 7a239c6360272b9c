# SPDX-License-Identifier: Apache-2.0
"""What is in the key of a compilation: the code that a cache gives out must be what the compiler would make now."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cudacore_compile import InMemoryProgramCache, Program, ProgramOptions, UncacheableError, make_program_cache_key
from cudacore_compile._cache import digest as _cache_digest
from cudacore_compile._cache import includes as _cache_includes
from cudacore_compile._cache import scan as _cache_scan
from cudacore_handles import ObjectCode

KERNEL = '\nextern "C" __global__ void k(int *p) { *p = VALUE; }'


@pytest.fixture(autouse=True)
def _in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start in an empty directory, with no memory of files: they are new, and the clocks of tests are quick."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_cache_includes, "_files", _cache_scan.Files())
    monkeypatch.setattr(_cache_includes, "_seen", {})


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
        "??=inc??/\nlude <v.h>",
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
    standard = {"std": "c++14"} if "??" in directive else {}  # trigraphs are gone since
    check(directive, change=lambda n: write("inc/v.h", f"#define VALUE {n}"), include_path="inc", **standard)


@pytest.mark.parametrize(
    "test",
    [
        '__has_include("n2222.h")',
        "__has_include(<n2222.h>)",
        "defined(__has_include) && __has_include  ( <n2222.h> )",
        "HAS(<n2222.h>)",
        'HAS("n2222.h")',
        "HAS(HEADER)",
        "__has_include(HEADER)",
    ],
)
def test_header_that_is_asked_for(test: str) -> None:
    """Code that depends on whether there is a file would not change when that appears, or goes."""
    source = f"""
        #define HAS(x) __has_include(x)
        #define HEADER <n2222.h>
        #if {test}
        #define VALUE 2222
        #elif {test.replace("2222", "3333").replace("HEADER", "<n3333.h>")}
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
    source = "#define IN(name) <part/name>\n#define ALSO(name) IN(name)\n"
    write("inc/main.h", source + "#include ALSO(v.h)")
    check("#include <main.h>", change=lambda n: write("inc/part/v.h", f"#define VALUE {n}"), include_path="inc")


def test_strings_in_macros() -> None:
    """A string in a string would be taken for a path, so that programs with CUB would never be cached."""
    source = '#define IN(name) <part/name>\n#define OPTION _Pragma("comment(linker, \\"/EXPORT\\")")\n#include IN(v.h)'
    write("inc/main.h", source)
    check("#include <main.h>", change=lambda n: write("inc/part/v.h", f"#define VALUE {n}"), include_path="inc")
    for absolute in ('"/v.h"', "</v.h>", "< /v.h>"):
        write("inc/main.h", f"#define ELSEWHERE {absolute}\n{source}")
        with pytest.raises(UncacheableError, match="may lead out of the include path"):
            key("#include <main.h>", include_path="inc")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("#define IN(name) <name>\n#include IN(v.h)", r"the program has #include IN\(v\.h\), which is not followed"),
        ("#include UNKNOWN", "#include UNKNOWN"),
        ("#define H <v.h>\n#undef H\n#define H IN(v.h)\n#include H", "#include H"),
        ("#include <leads_out.h>", "may lead out of the include path"),
        ("const char *now = __TIME__;", "the program asks for the time"),
        ("#include <time.h>", "inc/time.h asks for the time"),
        ("#inc\\ \nlude <v.h>", "blanks behind a backslash"),
        ('#include "mem.h"', "the header 'mem.h' asks for the time"),
    ],
)
def test_what_cannot_be_followed(source: str, reason: str) -> None:
    """A program that reads nobody knows what would have a key, and get old code for it."""
    write("inc/leads_out.h", "#define IN(name) <../name>\n#include IN(v.h)")
    if "time.h" in source:
        write("inc/time.h", "__TIME__")
    if "leads_out" not in source:
        Path("inc/leads_out.h").unlink()
    headers = {"mem.h": "__TIME__"}
    with pytest.raises(UncacheableError, match=f"so that it has no key: .*{reason}"):
        key(source, include_path="inc", headers=headers)
    assert key(source, include_path="inc", headers=headers, extra=b"1") != key(
        source, include_path="inc", headers=headers, extra=b"2"
    )
    assert key(source, include_path="inc", extra=b"1") != key(source + " ", include_path="inc", extra=b"1")


def test_uncacheable_programs_are_compiled() -> None:
    """A program that a cache cannot take would not be compiled at all."""
    cache = InMemoryProgramCache()
    for _ in range(2):
        Program("__device__ const char *now = __TIME__;" + KERNEL, "c++", {"arch": "sm_90", "define_macro": "VALUE"})
        source = "__device__ const char *now = __TIME__;" + KERNEL
        Program(source, "c++", {"arch": "sm_90", "define_macro": "VALUE=1"}).compile("ptx", cache=cache)
    assert (len(cache), cache.statistics.uncacheable) == (0, 2)


def test_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that asks for the date would get that of another day."""
    today = key("const char *day = __DATE__;")
    monkeypatch.setattr(_cache_includes.time, "strftime", lambda _: "another day")
    assert key("const char *day = __DATE__;") != today
    assert key() == key()


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


def test_times_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is written twice in one tick of the clock would be taken for what it was."""
    path = write("v.h", "#define VALUE 1111")
    old = key('#include "v.h"')
    times = os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns
    write("v.h", "#define VALUE 2222")
    os.utime(path, ns=times)
    assert key('#include "v.h"') != old
    # Once it has settled it is read no more, until its times change.
    later = time.time_ns() + 10**10
    with monkeypatch.context() as patch:
        patch.setattr(_cache_scan.time, "time_ns", lambda: later)
        settled = key('#include "v.h"')
        patch.setattr("builtins.open", None)
        assert key('#include "v.h"') == settled
    write("v.h", "#define VALUE 3333")
    assert key('#include "v.h"') != settled


@pytest.mark.parametrize("computed", [False, True])
def test_what_is_remembered(monkeypatch: pytest.MonkeyPatch, computed: bool) -> None:
    """Once all files have settled, a file that appears, changes or goes would be overlooked."""
    source = "#define IN(n) <part/n>\n#include IN(v.h)" if computed else "#include <part/v.h>"
    write("inc/main.h", source)
    write("inc/part/other.h", "")
    monkeypatch.setattr(_cache_scan.time, "time_ns", lambda: 2**62)  # long after
    keys = []
    for change in (
        lambda: None,
        lambda: write("inc/part/v.h", "1"),
        lambda: write("inc/part/v.h", "2"),
        lambda: os.unlink("inc/part/v.h"),
        lambda: write("first/part/v.h", "1"),
    ):
        change()
        keys.append(key("#include <main.h>", include_path=["first", "inc"]))
        assert key("#include <main.h>", include_path=["first", "inc"]) == keys[-1]
    assert len(_cache_includes._seen) == 1
    assert keys[0] == keys[3]
    assert len(set(keys)) == 4


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
        "ofast_compile": "max", "use_pch": "p", "pch_dir": "d",
    }  # fmt: skip
    elsewhere = {"time", "fdevice_time_trace", "create_pch"}  # no key
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


def test_precompiled_header_that_is_used() -> None:
    """Another precompiled header of the same name would not be noticed."""
    before = key(use_pch="pch")
    write("pch", "1")
    assert key(use_pch="pch") != before
    inside = key(use_pch="pch", pch_dir="dir")
    write("dir/pch", "1")
    assert key(use_pch="pch", pch_dir="dir") != inside


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
    closure = _cache_includes.close_over(source.encode(), "", include_path, [], {}, {})
    found = {os.path.realpath(os.fsdecode(name)) for name in closure.digests if b"\0" not in name}
    assert len(read) > 100
    assert {os.path.realpath(name) for name in read if os.path.exists(name)} <= found
    assert len(found) < 1.5 * len(read)
