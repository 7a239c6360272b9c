# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the simulator: entry points that are called by ctypes, a context, and a clean-up after each test."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cudacore_sim
from cudacore_sim.pytest_plugin import CHOICE

# The tests import helper modules from these folders, which pytest does not add to ``sys.path``.
for folder in (".", "checks", "sequences"):
    sys.path.append(str(Path(__file__).parent / folder))


@pytest.fixture(scope="session")
def on_gpu(pytestconfig: pytest.Config) -> bool:
    """Return whether the tests run on the driver of the GPU, as ``--cuda-driver=gpu`` requests."""
    return pytestconfig.stash[CHOICE] == "gpu"


class CUDAError(Exception):
    """The error for an entry point that did not return CUDA_SUCCESS."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"{name}: {code}")
        self.code = code


class Driver:
    """The driver: each entry point is a method, which raises `CUDAError` on failure; ``code`` returns the code."""

    def __init__(self) -> None:
        self.library = cudacore_sim.load()

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*args: Any) -> None:
            if code := self.code(name, *args):
                raise CUDAError(name, code)

        return call

    def code(self, name: str, *args: Any) -> int:
        return int(getattr(self.library, name)(*args))

    def out(self, name: str, *args: Any, kind: type = ctypes.c_void_p, last: bool = False) -> Any:
        """Call a function whose first (or last) parameter is its output; return the output."""
        value = kind()
        getattr(self, name)(*((*args, ctypes.byref(value)) if last else (ctypes.byref(value), *args)))
        return value.value

    def malloc(self, size: int) -> ctypes.c_uint64:
        return ctypes.c_uint64(self.out("cuMemAlloc_v2", ctypes.c_size_t(size), kind=ctypes.c_uint64))

    def stream(self, flags: int = 0) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.out("cuStreamCreate", flags))

    def event(self, flags: int = 0) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.out("cuEventCreate", flags))


@pytest.fixture(scope="session")
def driver() -> Driver:
    """Return the initialised driver."""
    driver = Driver()
    driver.cuInit(0)
    return driver


@pytest.fixture
def cuda(driver: Driver) -> Iterator[Driver]:
    """Yield the driver, with the primary context of device 0 current. After the test, all objects are destroyed."""
    cudacore_sim.reset()
    context = ctypes.c_void_p(driver.out("cuDevicePrimaryCtxRetain", 0))
    driver.cuCtxSetCurrent(context)
    yield driver
    cudacore_sim.reset_device()
    cudacore_sim.reset()


@pytest.fixture
def calls(cuda: Driver) -> Any:
    """Return a recorder, which makes calls and lists them with their results."""
    from recorder import Recorder

    listing: list[str] = []
    made = Recorder(cudacore_sim.get_library(), listing.append)
    made.listing = listing  # type: ignore[attr-defined]
    return made


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs code in a new interpreter with given settings; in this code, ``cu`` is the driver."""

    def run(code: str, **settings: object) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CUDACORE_")}
        environment |= {f"CUDACORE_SIM_{name}": str(value) for name, value in settings.items()}
        environment["CUDACORE_SIM_LIBRARY"] = cudacore_sim.get_library()
        prelude = "import ctypes, cudacore_sim\nfrom ctypes import *\ncu = cudacore_sim.load()\n"
        script = tmp_path / "child.py"
        script.write_text(prelude + textwrap.dedent(code))
        return subprocess.run(
            [sys.executable, script], env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    return run


@pytest.fixture
def run_in_stream(driver: Driver) -> Iterator[Callable[[Callable[[], None], ctypes.c_void_p], None]]:
    """Yield a function that enqueues a Python function in a stream."""
    kept = []

    def run(function: Callable[[], None], stream: ctypes.c_void_p) -> None:
        kept.append(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: function()))
        driver.cuLaunchHostFunc(stream, kept[-1], None)

    yield run
    driver.cuCtxSynchronize()
