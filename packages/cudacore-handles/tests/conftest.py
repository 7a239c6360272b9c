# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of this package; those for the tests of all packages are in tests/pytest_cudacore.py."""

from __future__ import annotations

import functools
import gc
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

import cudacore_handles as ch

T = TypeVar("T")

TESTS = Path(__file__).resolve().parent
TIMEOUT = 240  # seconds; a child that takes longer is deadlocked, even on a busy machine

# Helper modules are beside the tests. Children get the same folder by PYTHONPATH.
sys.path.append(str(TESTS))

import kernel_sources  # noqa: E402
from foreign_objects import RecordingHostMemory  # noqa: E402


class RunPython(Protocol):
    """A function that runs code in a new interpreter."""

    def __call__(self, code: str, **env: str) -> subprocess.CompletedProcess[str]: ...


# ---- child processes


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """Give a function that runs code in a new interpreter, without CUDACORE_DRIVER unless `env` sets it."""

    def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
        hidden = {"CUDACORE_DRIVER"}
        if env.get("CUDACORE_DRIVER", "").lower() == "sim":
            hidden.add("CUDA_VISIBLE_DEVICES")  # selects GPUs, and must not hide simulated devices
        child_env = {name: value for name, value in os.environ.items() if name not in hidden}
        child_env["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(TESTS))))
        script = tmp_path / "child.py"  # a file, because spawned worker processes import it again
        script.write_text(textwrap.dedent(code))
        command = [sys.executable, "-X", "faulthandler", str(script)]
        child = subprocess.Popen(
            command, cwd=tmp_path, env=child_env | env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            out, err = child.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGABRT)  # faulthandler shows where every thread is
            pytest.fail(f"the child hung:\n{child.communicate()[1]}", pytrace=False)
        return subprocess.CompletedProcess(command, child.returncode, out, err)

    return run


@pytest.fixture
def run_checked(run_python: RunPython) -> Callable[..., str]:
    """Give a function that runs code in a new interpreter, checks that it succeeds, and returns its stdout."""

    def run(code: str, **env: str) -> str:
        result = run_python(code, **env)
        if result.returncode or result.stderr:
            pytest.fail(f"the child exited with {result.returncode}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    return run


@pytest.fixture
def run_on_sim(run_checked: Callable[..., str]) -> Callable[..., str]:
    """Give a function that runs code on the simulated driver with two devices, and checks for failures and misuse.

    The code can use the module ``cudacore_sim`` under the name ``sim``.
    """

    def run(code: str, **env: str) -> str:
        code = f"import cudacore_sim as sim\nsim.load()\n{textwrap.dedent(code)}\nassert not sim.reports()\n"
        return run_checked(code, **{"CUDACORE_DRIVER": "sim", "CUDACORE_SIM_DEVICES": "2"} | env)

    return run


@pytest.fixture
def run_on_driver(on_sim: bool, run_checked: Callable[..., str], run_on_sim: Callable[..., str]) -> Callable[..., str]:
    """Give a function that runs code on this process's driver, checks that it succeeds, and returns its stdout."""
    return run_on_sim if on_sim else run_checked


# ---- memory, threads


@pytest.fixture
def pinned(device: ch.Device) -> Callable[[int], ch.Buffer]:
    """Give a function that allocates memory that host and device can access. The memory is initially zero."""
    resource = ch.LegacyPinnedMemoryResource()

    def allocate(size: int) -> ch.Buffer:
        buffer = resource.allocate(size)
        buffer.__buffer__()[:] = bytes(size)
        return buffer

    return allocate


@pytest.fixture
def in_new_thread() -> Callable[[Callable[[], T]], T]:
    """Give a function that calls its argument on a new thread without a current context, and returns the result."""

    def call(function: Callable[[], T]) -> T:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(function).result()

    return call


@pytest.fixture
def host_memory(device: ch.Device) -> Iterator[RecordingHostMemory]:
    """Give an allocator in Python. All its memory must have been freed when the test ends."""
    made = RecordingHostMemory()
    yield made
    gc.collect()
    assert not made.blocks


# ---- code


@pytest.fixture(scope="session")
def compile_cuda(on_sim: bool) -> Callable[[str, str, str], bytes]:
    """Give a function that compiles CUDA C++ for an architecture ("sm_90") to "cubin" or "ptx", with NVRTC itself."""

    @functools.cache
    def compile_once(source: str, arch: str, target: str) -> bytes:
        command = [sys.executable, str(TESTS / "compile_cuda.py"), arch, target]
        if on_sim and target == "cubin":  # the simulator makes NVRTC store the PTX in the cubin, and runs that
            command = [sys.executable, "-m", "cudacore_sim", *command]
        env = {name: value for name, value in os.environ.items() if name != "CUDACORE_DRIVER"}
        result = subprocess.run(command, input=source.encode(), capture_output=True, env=env, timeout=TIMEOUT)
        message = result.stderr.decode()
        if result.returncode == 3:
            pytest.skip(f"needs NVRTC: {message.strip()}")
        if result.returncode:
            raise RuntimeError(message)
        return result.stdout

    return compile_once


@pytest.fixture(scope="session")
def make_code(
    first_device: ch.Device, target: str, compile_cuda: Callable[[str, str, str], bytes]
) -> Callable[[str], ch.ObjectCode]:
    """Give a function that compiles CUDA C++ for the device."""

    def make(source: str) -> ch.ObjectCode:
        code = compile_cuda(source, f"sm_{first_device.arch}", target)
        return ch.ObjectCode._init(code, target)

    return make


@pytest.fixture
def code(device: ch.Device, make_code: Callable[[str], ch.ObjectCode]) -> ch.ObjectCode:
    """Give an ObjectCode with the kernels of kernel_sources.CUDA, which is not loaded yet."""
    return make_code(kernel_sources.CUDA)


@pytest.fixture
def read_argument(
    code: ch.ObjectCode, stream: ch.Stream, pinned: Callable[[int], ch.Buffer]
) -> Iterator[Callable[..., bytes]]:
    """Give a function that launches a kernel with a value as argument, and returns the bytes that the kernel got."""
    out = pinned(64)

    def read(kernel: str, value: object, size: int) -> bytes:
        ch.launch(stream, ch.LaunchConfig(grid=1, block=1), code.get_kernel(kernel), value, out)
        stream.sync()
        return bytes(out.__buffer__()[:size])

    yield read
    out.close()
