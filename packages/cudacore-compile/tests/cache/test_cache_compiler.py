# SPDX-License-Identifier: Apache-2.0
"""What a cache keeps for later processes: the build of NVRTC."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cache_programs import forget

from cudacore_compile import InMemoryProgramCache
from cudacore_compile._cache import libraries as _libraries

PROGRAM = """
import sys
from cudacore_compile import FileStreamProgramCache, Program

if sys.argv[2:] == ["loads"]:
    from cuda.pathfinder import load_nvidia_dynamic_lib
    load_nvidia_dynamic_lib("nvrtc")
cache = FileStreamProgramCache(sys.argv[1])
code = Program('extern "C" __global__ void k() {}', "c++", {"arch": "sm_90"}).compile("ptx", cache=cache)
assert b"entry k" in code.code
print(cache.statistics.hits, "libnvrtc" in open("/proc/self/maps").read(), "cuda.pathfinder" in sys.modules)
"""


def start(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-c", PROGRAM, str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_hit_without_the_compiler(tmp_path: Path) -> None:
    """The second start of a program would load NVRTC, only to find that it is unchanged."""
    assert start(tmp_path) == "0 True True\n"
    assert start(tmp_path) == "1 False False\n"
    assert start(tmp_path, "loads") == "1 True True\n"


class Searches(InMemoryProgramCache):
    """A process that searches for NVRTC below a folder, and a cache with the results of earlier searches."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.build = b"build"
        self.library = folder / "site" / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
        self.notes: dict[bytes, bytes] = {}
        self.during: Callable[[], object] = lambda: None

    def loads(self) -> bool:
        """Return whether a new process loads NVRTC."""
        forget()
        _libraries._chosen = None
        return self.loads_again()

    def loads_again(self) -> bool:
        """Return whether another lookup in the same process loads NVRTC."""
        self.is_loaded = False
        assert _libraries._chosen_nvrtc(self) == self.build
        return self.is_loaded

    def load(self) -> dict[str, bytes]:
        self.is_loaded = True
        self.during()
        return {str(self.library): self.build}

    def _load_note(self, key: bytes) -> bytes | None:
        return self.notes.get(key)

    def _save_note(self, key: bytes, note: bytes) -> None:
        self.notes[key] = note


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Searches:
    found = Searches(tmp_path)
    for path in ("site/nvidia/cu13/lib", "user", "toolkit/targets", "program"):
        (tmp_path / path).mkdir(parents=True)
    found.library.write_bytes(b"library")
    monkeypatch.setattr(_libraries, "_LOADED", re.compile(b"no such library"))
    monkeypatch.setattr(_libraries, "_chosen", None)
    monkeypatch.setattr(_libraries, "_builds", found.load)
    monkeypatch.setattr(_libraries.site, "getsitepackages", lambda: [str(tmp_path / "site"), str(tmp_path / "user")])
    monkeypatch.setattr(sys, "path", [str(tmp_path / "program"), str(tmp_path / "site")])
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "toolkit"))
    monkeypatch.setattr(_libraries.time, "time_ns", lambda: 2**62)  # long after
    return found


def test_nothing_has_changed(searches: Searches) -> None:
    """Lookups would load NVRTC although its build is known."""
    assert [searches.loads() for _ in range(3)] == [True, False, False]
    (key,) = searches.notes
    searches.notes[key] = b"damaged"
    assert [searches.loads() for _ in range(2)] == [True, False]


def upgrade(folder: Path) -> None:
    path = folder / "site/nvidia/cu13/lib/libnvrtc.so.13"
    path.with_suffix(".new").write_bytes(b"another")
    path.with_suffix(".new").replace(path)


def make(path: str) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"")

    return make


@pytest.mark.parametrize(
    "change",
    [
        upgrade,
        lambda folder: os.truncate(folder / "site/nvidia/cu13/lib/libnvrtc.so.13", 3),
        make("site/nvidia/cu13/lib/libnvrtc-builtins.so.13.0"),
        make("site/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"),
        make("user/nvidia/cu13/lib/libnvrtc.so.13"),
        make("program/cuda/pathfinder/__init__.py"),
        make("toolkit/lib64/libnvrtc.so.13"),
        make("toolkit/targets/x86_64-linux/lib/libnvrtc.so.13"),
        lambda folder: (folder / "toolkit").rename(folder / "other"),
    ],
)
def test_something_has_changed(searches: Searches, tmp_path: Path, change: Callable[[Path], object]) -> None:
    """Code of an old compiler would be used after another one was installed, perhaps in an earlier directory."""
    assert [searches.loads() for _ in range(2)] == [True, False]
    change(tmp_path)
    assert [searches.loads() for _ in range(2)] == [True, False]


@pytest.mark.parametrize("variable", ["CUDA_PATH", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD"])
def test_environment_has_changed(searches: Searches, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """The compiler of another environment would be mistaken for this environment's."""
    assert searches.loads()
    monkeypatch.setenv(variable, "/elsewhere")
    assert searches.loads()
    # The dynamic loader ignores LD_ variables that are set after the process has started. So it is unknown which build
    # it would load.
    assert searches.loads() == variable.startswith("LD_")


def test_change_during_the_search(searches: Searches, tmp_path: Path) -> None:
    """If a compiler is upgraded while it is loaded, the new version would later be mistaken for the old one."""
    searches.during = lambda: make("site/nvidia/cu13/lib/new")(tmp_path)
    assert searches.loads()
    assert not searches.notes


def test_change_just_before(searches: Searches, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second change within the same tick of the file system's clock would not be noticed."""
    monkeypatch.setattr(_libraries.time, "time_ns", lambda: searches.library.stat().st_ctime_ns)
    assert searches.loads()
    assert not searches.notes


def test_another_library_has_loaded_one(searches: Searches, monkeypatch: pytest.MonkeyPatch) -> None:
    """An NVRTC that another library has loaded, and that is then used, would be mistaken for the installed one."""
    assert searches.loads()
    monkeypatch.setattr(_libraries, "_LOADED", re.compile(b""))
    notes = dict(searches.notes)
    assert searches.loads()
    assert searches.notes == notes


def test_another_library_loads_one_after_the_first_hit(searches: Searches, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of the installed NVRTC would be returned, although another one would compile from then on."""
    assert [searches.loads() for _ in range(2)] == [True, False]
    assert not searches.loads_again()
    monkeypatch.setattr(_libraries, "_LOADED", re.compile(b""))
    assert not searches.loads_again()  # no library was loaded since
    monkeypatch.setattr(_libraries, "library_loads", lambda: -1)
    searches.build = b"another"
    assert searches.loads_again()
