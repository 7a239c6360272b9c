# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of the compilers."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cudacore_compile import CompilerError, NVFatbinError, Program, ProgramOptions, _fatbin
from cudacore_compile._cache import compile as _compile
from cudacore_compile._compilers import nvjitlink, nvrtc, nvvm
from cudacore_compile._compilers import process_state as _process_state
from cudacore_handles import live_counts
from pytest_cudacore import CALL_FAILED

# The tests can import the helper modules in these folders: compile_sources and cache/cache_programs.
for folder in (".", "cache"):
    sys.path.append(str(Path(__file__).resolve().parent / folder))


class Compiled(NamedTuple):
    code: bytes
    log: str

    @property
    def text(self) -> str:
        return self.code.decode()


@pytest.fixture
def build() -> Callable[..., Compiled]:
    """Compile C++, by default for sm_90 to PTX; return the code and the log."""

    def build(source: str, target: str = "ptx", **options: Any) -> Compiled:
        logs = io.StringIO()
        options.setdefault("arch", "sm_90")
        code = Program(source, "c++", ProgramOptions(**options)).compile(target, logs=logs).code
        assert isinstance(code, bytes)
        return Compiled(code, logs.getvalue())

    return build


def run_python(code: str, *, executable: str = sys.executable, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a separate process, with additional environment variables."""
    return subprocess.run(
        [executable, "-c", textwrap.dedent(code)],
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    return run_python


@pytest.fixture(scope="session")
def nvrtc_version() -> tuple[int, ...]:
    return tuple(map(int, nvrtc.load().version_text.split(".")))


def skip_without(load: Callable[[], object]) -> None:
    """Skip a test if a compiler is not installed."""
    try:
        load()
    except (CompilerError, NVFatbinError) as error:
        pytest.skip(str(error).splitlines()[0])


@pytest.fixture
def _nvjitlink() -> None:
    skip_without(nvjitlink.load)


@pytest.fixture
def _nvvm() -> None:
    skip_without(nvvm.load)


@pytest.fixture
def _nvfatbin() -> None:
    skip_without(_fatbin._load)


@pytest.fixture
def no_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Act as if no library was installed, but for an NVRTC that is loaded."""
    import cuda.pathfinder

    def missing(name: str) -> None:
        raise cuda.pathfinder.DynamicLibNotFoundError(f"no {name}")

    monkeypatch.setattr(cuda.pathfinder, "load_nvidia_dynamic_lib", missing)
    for load in (nvvm.load, nvjitlink.load, _fatbin._load):
        load.cache_clear()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command; return its status, its stdout and its stderr."""
    from cudacore_compile._command import main

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture(autouse=True)
def _forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset state that earlier tests have left, and that would prevent caching, or a warning, in this test."""
    monkeypatch.setattr(_process_state, "_left", set())
    monkeypatch.setattr(_compile, "_has_warned", True)  # that programs are not cached


@pytest.fixture(autouse=True)
def _no_program_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test after which a program or linker of a compiler still exists."""
    kinds = ("nvrtc_program", "nvvm_program", "nvjitlink_linker")
    gc.collect()
    before = [live_counts()[kind] for kind in kinds]
    yield
    if not request.node.stash.get(CALL_FAILED, False):  # otherwise the traceback keeps the test's objects
        gc.collect()
        assert [live_counts()[kind] for kind in kinds] <= before
