# SPDX-License-Identifier: Apache-2.0
"""The contents of keys: the code from a cache must be the code that the compiler would generate now."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cache_programs import KERNEL, check, in_a_folder, key, meanwhile, value_of, write

from cudacore_compile import InMemoryProgramCache, Program, ProgramOptions, UncacheableError, make_program_cache_key
from cudacore_compile._cache import closure as _closure
from cudacore_compile._cache import libraries as _libraries
from cudacore_compile._cache import states as _states
from cudacore_compile._compilers import nvrtc as _nvrtc

__all__ = ["in_a_folder"]  # a fixture

pytestmark = pytest.mark.usefixtures("in_a_folder")


# -- files


@pytest.mark.parametrize(
    ("source", "changes", "options"),
    [
        ('#include "v.h"', "v.h", {}),
        ('#include "v.h"', "v.h", {"name": "program"}),
        ('#include "v.h"', "v.h", {"include_path": "elsewhere"}),
        ('#include "v.h"', "src/v.h", {"name": "src/program.cu"}),  # the name adds a directory to the include path
        ("#include <a.h>", "inc/deep/c.h", {"include_path": "inc"}),
        ("", "first.h", {"pre_include": "first.h"}),
        ("#include HEADER", "inc/v.h", {"include_path": "inc", "define_macro": ("HEADER", "<v.h>")}),
    ],
)
def test_header_that_changes(source: str, changes: str, options: dict[str, Any]) -> None:
    """After a header has changed, wherever it is found and whatever includes it, the old code would still be used."""
    write("inc/a.h", '#include "deep/b.h"')
    write("inc/deep/b.h", '#include "c.h"')
    check(source, change=lambda number: write(changes, f"#define VALUE {number}"), **options)


def test_header_that_appears_before_another() -> None:
    """A new header in an earlier directory of the include path would not be noticed."""
    write("last/v.h", "#define VALUE 1111")

    def change(number: int) -> None:
        if number == 2222:
            write("middle/v.h", "#define VALUE 2222")
        if number == 3333:
            write("first/v.h", "#define VALUE 3333")

    check("#include <v.h>", change=change, include_path=["first", "middle", "last"])


def test_header_in_a_directory_that_appears_first() -> None:
    """A new file in a subdirectory would not be noticed, because it does not change the directory above."""
    write("last/v.h", "#define VALUE 1111")

    def change(number: int) -> None:
        if number == 2222:
            write("first/sub/other.h", "")
            key("#include <v.h>", include_path=["first/sub", "last"])
            write("first/sub/v.h", "#define VALUE 2222")
        if number == 3333:
            write("first/sub/v.h", "#define VALUE 3333")

    for place in ("first/sub", "./first/./sub", os.path.abspath("first/sub")):
        check("#include <v.h>", change=change, include_path=[place, "last"])
        shutil.rmtree("first")


def test_headers_in_memory() -> None:
    """The key would lack the contents of headers in memory, or of the headers that these include."""
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


def test_header_that_changes_meanwhile() -> None:
    """If a header changes while the compiler reads it, new code would be stored for the old text, or the reverse."""
    write("v.h", "#define VALUE 1111")
    cache = InMemoryProgramCache()
    program = Program('#include "v.h"' + KERNEL, "c++", {"arch": "sm_90"})
    with meanwhile(lambda: write("v.h", "#define VALUE 2222")):
        assert value_of(program.compile("ptx", cache=cache)) == 2222
    assert len(cache) == 0
    write("v.h", "#define VALUE 1111")
    assert value_of(program.compile("ptx", cache=cache)) == 1111


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda patch: patch.setenv("NVVM_SOMETHING", "1"), {}),
        (lambda patch: patch.chdir("elsewhere"), {"lineinfo": True}),
    ],
    ids=["variable", "directory"],
)
def test_what_another_thread_changes_meanwhile(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], object], options: dict[str, Any]
) -> None:
    """Code with another thread's environment variable or directory would be stored as code without it."""
    monkeypatch.delenv("NVVM_SOMETHING", raising=False)
    Path("elsewhere").mkdir()
    cache = InMemoryProgramCache()
    program = Program(KERNEL, "c++", {"arch": "sm_90", "define_macro": "VALUE=1"} | options)
    with meanwhile(partial(change, monkeypatch)):
        program.compile("ptx", cache=cache)
    assert len(cache) == 0


def test_header_that_changes_and_changes_back() -> None:
    """If a file changes and changes back, code of its contents in between would be stored under the wrong key."""
    old = "#define VALUE 1111"
    write("inc/v.h", old)
    write("other/v.h", "#define VALUE 2222")
    os.symlink("v.h", "inc/link.h")
    os.symlink("inc", "way")
    write("above/inc/v.h", old)
    write("aside_of/inc/v.h", "#define VALUE 2222")
    os.symlink("above/inc", "far")

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

    def exchange_above(number: int) -> None:
        os.rename("above", "aside")
        os.rename("aside_of", "above")
        os.rename("aside", "aside_of")

    os.mkdir("first")
    for change in (rewrite, exchange, link, appear, exchange_above):
        path = {link: "way", exchange_above: "far"}.get(change, "inc")
        program = Program("#include <v.h>" + KERNEL, "c++", {"arch": "sm_90", "include_path": ["first", path]})
        cache = InMemoryProgramCache()

        with meanwhile(partial(change, 2222), partial(change, 1111)):
            assert value_of(program.compile("ptx", cache=cache)) == 2222
        assert len(cache) == 0, change
        assert value_of(program.compile("ptx", cache=cache)) == 1111
        assert len(cache) == 1, change


def test_file_that_was_written_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is written twice in one tick of the clock would seem unchanged."""
    write("v.h", "#define VALUE 1111")
    old = key('#include "v.h"')
    write("v.h", "#define VALUE 2222")
    as_before = _closure.file_states(_states.group(["v.h"]))
    with monkeypatch.context() as patch:
        patch.setattr(_closure, "file_states", lambda groups: as_before)
        patch.setattr(_closure.time, "time_ns", lambda: os.stat("v.h").st_ctime_ns)
        assert key('#include "v.h"') != old


def test_what_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once all files have been unchanged for a while, a new, changed or removed file would be overlooked."""
    write("inc/main.h", "#define IN <part/v.h>\n#include IN")
    write("inc/part/other.h", "")
    monkeypatch.setattr(_closure.time, "time_ns", lambda: 2**62)  # long after
    keys = []
    for change in (
        lambda: None,
        lambda: write("inc/part/v.h", "1"),
        lambda: write("inc/part/v.h", "2"),
        lambda: os.unlink("inc/part/v.h"),
        lambda: write("first/part/v.h", "1"),
        lambda: (os.unlink("first/part/v.h"), os.symlink("target", "first/part/v.h")),  # a link to a missing file
        lambda: write("first/part/target", "3"),
    ):
        change()
        keys.append(key("#include <main.h>", include_path=["first", "inc"]))
        assert key("#include <main.h>", include_path=["first", "inc"]) == keys[-1]
    assert len(_states._known) == 1
    assert keys[0] == keys[3] == keys[5]
    assert len(set(keys)) == 5


def test_files_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lookup would read all headers."""
    write("v.h", "#define VALUE 1111")
    monkeypatch.setattr(_closure.time, "time_ns", lambda: 2**62)
    before = key('#include "v.h"')
    monkeypatch.setattr(_closure, "_read", None)
    monkeypatch.setattr(_closure.os, "listdir", None)
    assert key('#include "v.h"') == before
    for other in ("\nint other;", "\nfloat other;"):  # the new texts have the same headers
        assert key('#include "v.h"' + other) != before


def test_paths_to_one_file() -> None:
    """A program with two equal files would have the same key as a program with one file that has two paths.

    ``#pragma once`` includes the equal files twice, and the file with two paths once.
    """
    write("a.h", "#pragma once\n__device__ int CAT(v, __COUNTER__);")
    includes = '#include "a.h"\n#include "b.h"'
    Path("b.h").write_bytes(Path("a.h").read_bytes())
    two = key(includes)
    for join in (os.link, lambda a, b: os.symlink(a, b)):
        os.unlink("b.h")
        join("a.h", "b.h")
        assert key(includes) != two


@pytest.mark.parametrize("kind", ["file", "directory", "two headers"])
def test_files_with_names_of_headers_in_memory(kind: str) -> None:
    """Old code would be used, because NVRTC treats a header in memory and a file of the same name as one file."""
    write("inc/v.h", "#pragma once\n#define VALUE 2222")
    Path("directory").mkdir()
    headers = {"m.h": "#pragma once\n"}
    other = "inc/v.h"
    if kind != "file":
        headers["inc/v.h"] = "#pragma once\n#define VALUE 2222"
        Path("inc/v.h").unlink()
        other = "directory"
    if kind == "directory":
        Path("inc/v.h").mkdir()
    source = '#include <m.h>\n#include "inc/v.h"\n#ifndef VALUE\n#define VALUE 3333\n#endif'
    cache = InMemoryProgramCache()

    def compile_both() -> int:
        program = Program(source + KERNEL, "c++", {"arch": "sm_90"}, headers=headers)
        cached = program.compile("ptx", cache=cache)
        assert cached.code == program.compile("ptx").code
        return value_of(cached)

    assert compile_both() == 2222
    os.symlink(other, "m.h")
    if kind == "two headers":
        os.symlink("../directory", "inc/v.h")
    elif kind == "directory":
        os.rmdir("inc/v.h")
        assert compile_both() == 2222
        os.symlink("../directory", "inc/v.h")
    assert compile_both() == 3333
    assert (cache.statistics.hits, cache.statistics.uncacheable) == (0, 0)
    assert compile_both() == 3333
    assert cache.statistics.hits == 1


def test_suffix_that_the_compiler_tries() -> None:
    """NVRTC tries the suffix .stdh for names without a suffix: such a file could be created unnoticed."""
    Path("inc").mkdir()

    def change(number: int) -> None:
        if number > 1111:
            write("inc/v.stdh", f"#define VALUE {number}")

    check("#if __has_include(<v>)\n#include <v>\n#else\n#define VALUE 1111\n#endif", change=change, include_path="inc")


# -- options, libraries and the environment


CHANGES: list[dict[str, Any]] = [
    {"arch": "sm_90a"},
    {"arch": "compute_90", "target_type": "ltoir"},
    {"target_type": "cubin"},
    {"target_type": "ltoir"},
    {"name_expressions": ["k"]},
    {"name_expressions": ["k", "f<int>"]},
    {"define_macro": "A=1"},
    {"define_macro": ("A", "2")},
    {"define_macro": ["A", "B"]},
    {"define_macro": ["B", "A"]},
    {"include_path": "b"},
    {"include_path": ["a", "b"]},
    {"include_path": ["b", "a"]},
    {"std": "c++17"},
    {"ptxas_options": ["-v", "-O1"]},
    {"max_register_count": 64},
    {"ftz": False},
    {"headers": {"h.h": ""}},
    {"extra": b""},
    {"extra": b"1"},
]


def test_everything_counts() -> None:
    """An option, a name or the target would be missing from the key, or a new option of ProgramOptions be forgotten."""
    values = {
        "name": "n", "arch": "sm_80", "ptxas_options": "-v", "max_register_count": 3, "define_macro": "A",
        "undefine_macro": "A", "include_path": "i", "pre_include": "p.h", "std": "c++20", "optimization_info": "inline",
        "diag_error": 1, "diag_suppress": 1, "diag_warn": 1, "split_compile": 1, "frandom_seed": "1",
        "ofast_compile": "max", "pch_dir": "d",
    }  # fmt: skip
    elsewhere = {"time", "fdevice_time_trace", "create_pch", "pch", "use_pch", "raw_options"}  # these have no key
    # extra_sources and use_libdevice are for other languages, and the target sets link_time_optimization.
    elsewhere |= {"extra_sources", "use_libdevice", "link_time_optimization"}
    changes = CHANGES + [
        {field.name: values.get(field.name, True)}
        for field in dataclasses.fields(ProgramOptions)
        if field.name not in elsewhere
    ]
    keys = [key(), *(key(**change) for change in changes), key(KERNEL + " ")]
    assert len({*keys}) == len(changes) + 2
    assert all(len(one) == 32 and isinstance(one, bytes) for one in keys)


def test_what_does_not_count() -> None:
    """The same compilation would have two keys."""
    assert key() == key()
    assert key(KERNEL) == make_program_cache_key(
        code=KERNEL.encode(), code_type="C++", options=ProgramOptions(arch=90), target_type="PTX"
    )
    assert key(name_expressions=["a", "b"]) == key(name_expressions=[b"b", "a", "b"])


@pytest.mark.parametrize(
    ("options", "is_same"),
    [({}, True), ({"lineinfo": True}, False), ({"target_type": "ltoir"}, False), ({"target_type": "optixir"}, False)],
)
def test_directory_in_the_code(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], is_same: bool) -> None:
    """Line information, LTO-IR and OptiX IR have the full path of the program: that in the cache could be another."""
    Path("other").mkdir()
    before = key(**options)
    monkeypatch.chdir("other")
    assert (key(**options) == before) is is_same


def test_times_in_line_information() -> None:
    """NVRTC 12.0 to 13.2 put the times of files into cubins with line information. Old ones would be returned."""
    write("v.h", "#define VALUE 1111")
    cache = InMemoryProgramCache()
    program = Program('#include "v.h"' + KERNEL, "c++", {"arch": "sm_90", "lineinfo": True, "name": "k.cu"})
    for number in range(3):
        os.utime("v.h", (10**9 + number, 10**9 + number))
        assert program.compile("cubin", cache=cache).code == program.compile("cubin").code
    assert cache.statistics.hits == 0
    write("k.cu", "")  # not the program, but a file with its name
    program.compile("cubin", cache=cache)
    assert cache.statistics.hits == 0
    program.compile("cubin", cache=cache)
    assert cache.statistics.hits == 1
    plain = key('#include "v.h"')
    os.utime("v.h")
    assert key('#include "v.h"') == plain


def test_link_to_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line information names the directory as $PWD does. Code from the cache would contain another name for it."""
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
    """Settings from the environment would affect code that is then used in other environments."""
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


def test_build_of_a_library(tmp_path: Path) -> None:
    """Two builds of a library would be treated as one, or two installations of one build as two builds."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    path = Path(load_nvidia_dynamic_lib("nvrtc").abs_path or "").resolve()
    builtins = next(path.parent.glob("libnvrtc-builtins.so*"))
    copy = tmp_path / "copy.so"
    copy.write_bytes(builtins.read_bytes())
    build = _libraries.build_identity(builtins)
    assert build == _libraries.build_identity(copy) != _libraries.build_identity(path)
    copy.write_bytes(b"no library")
    assert _libraries.build_identity(copy) != build


def test_number_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that was split for the processors of one machine would be used on another one."""
    split, other = key(split_compile=0), key()
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(99)))
    assert key(split_compile=0) != split
    assert key() == other


def test_library_that_was_replaced(tmp_path: Path) -> None:
    """After an upgrade, a process that still uses the old library would store its code as code of the new one."""
    original = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libffi" in line)
    path = tmp_path / "folder" / "copy.so"
    path.parent.mkdir()
    path.write_bytes(Path(original).read_bytes())
    ctypes.CDLL(str(path))
    assert _libraries.loaded_identity(str(path)) == _libraries.build_identity(path)
    _libraries.loaded_identity.cache_clear()
    (tmp_path / "folder").rename(tmp_path / "~older")
    path.parent.mkdir()
    path.write_bytes(Path(original).read_bytes())
    (tmp_path / "~older" / "copy.so").unlink()
    with pytest.raises(UncacheableError, match="was replaced after this process has loaded it"):
        _libraries.loaded_identity(str(path))


def test_other_builtin_functions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Code could be stored with a key that names other built-in functions than those that NVRTC has loaded."""
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)  # it may name a toolkit, with more of the libraries
    write("v.h", "#define VALUE 1111")
    program = Program('#include "v.h"' + KERNEL, "c++", {"arch": "sm_90"})
    program.compile("ptx")
    found = _libraries._find_builds()
    version, library, builtins = found
    assert (version, library) == ("", _nvrtc.load().path)
    if _libraries.has_other_builtins():
        pytest.skip("another NVRTC is installed, too")
    cache = InMemoryProgramCache()
    # The library of built-in functions is missing, and then upgraded.
    missing = {path: build for path, build in found.items() if path != builtins}
    for find in (lambda: missing, lambda: missing | {builtins: b"an upgrade"}):
        with monkeypatch.context() as patch:
            patch.setattr(_libraries, "_find_builds", find)
            program.compile("ptx", cache=cache)
        assert len(cache) == 0
    program.compile("ptx", cache=cache)
    assert len(cache) == 1
    copy = tmp_path / "libnvrtc-builtins.so.0"
    copy.write_bytes(Path(_nvrtc.load().path).read_bytes()[:4096])  # the copy has another build
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere::{tmp_path}")
    assert _libraries._find_builds().keys() == {*found, str(copy)}


def test_directory_that_is_gone() -> None:
    """In a directory that was removed, a program would compile without a cache, but not with one."""
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")
    cache = InMemoryProgramCache()
    Program(KERNEL, "c++", {"arch": "sm_90", "define_macro": "VALUE=1"}).compile("ptx", cache=cache)
    assert cache.statistics.uncacheable == 1


def test_wrong_arguments() -> None:
    """Invalid arguments would be accepted as parts of the key."""
    with pytest.raises(TypeError, match="extra_digest must be bytes, not str"):
        key(extra="text")  # type: ignore[arg-type]
