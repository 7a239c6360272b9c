# SPDX-License-Identifier: Apache-2.0
"""The control interface, the configuration and the command line."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import cudacore_sim

Python = Callable[..., subprocess.CompletedProcess[str]]


def test_live(cuda: Any) -> None:
    """Objects would not be counted, or be counted for good."""
    before = cudacore_sim.live()
    stream, event, memory = cuda.stream(), cuda.event(), cuda.malloc(100)
    after = cudacore_sim.live()
    assert {kind: after[kind] - before[kind] for kind in after if after[kind] != before[kind]} == {
        "stream": 1,
        "event": 1,
        "device_memory": 1,
    }
    assert "100 bytes of device memory" in cudacore_sim.describe_live("device_memory")[0]
    cuda.cuStreamDestroy_v2(stream)
    cuda.cuEventDestroy_v2(event)
    cuda.cuMemFree_v2(memory)
    assert cudacore_sim.live() == before


def test_log(cuda: Any) -> None:
    """The log would miss calls, or not say what they returned."""
    with cudacore_sim.logging() as calls:
        stream = cuda.stream()
        cuda.code("cuStreamQuery", ctypes.c_void_p(0x1230))
    assert [(call.name, call.result) for call in calls] == [("cuStreamCreate", 0), ("cuStreamQuery", 400)]
    assert cudacore_sim.calls("cuStreamCreate") == 1
    cuda.cuStreamDestroy_v2(stream)
    assert cudacore_sim.calls("cuStreamDestroy") == cudacore_sim.calls("cuStreamDestroy_v2") == 1


def test_failures(cuda: Any) -> None:
    """A failure would strike at another call, twice, or after the call was made."""
    cudacore_sim.fail("cuMemAlloc", 2, 2)
    before = cudacore_sim.live()
    cuda.cuMemFree_v2(cuda.malloc(16))
    assert cuda.code("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(16)) == 2
    assert cudacore_sim.log()[-1].injected
    cuda.cuMemFree_v2(cuda.malloc(16))
    assert cudacore_sim.live() == before
    with cudacore_sim.failing("cuStreamCreate", 0, 999):
        assert [cuda.code("cuStreamCreate", ctypes.byref(ctypes.c_void_p()), 0) for _ in range(3)] == [999] * 3
    cuda.cuStreamDestroy_v2(cuda.stream())


@pytest.mark.parametrize(("name", "nth"), [("cuFoo", 1), ("cuInit", -1)])
def test_bad_failures(driver: Any, name: str, nth: int) -> None:
    """A failure of what does not exist would be armed in silence."""
    with pytest.raises(ValueError, match=r"cuFoo|nth is -1"):
        cudacore_sim.fail(name, nth)


def test_use_after_destroy(cuda: Any) -> None:
    """Use of a destroyed object would crash, or go unnoticed."""
    stream = cuda.stream()
    cuda.cuStreamDestroy_v2(stream)
    for name in ("cuStreamQuery", "cuStreamSynchronize", "cuStreamDestroy_v2"):
        assert cuda.code(name, stream) == 400
        assert f"{name} was given a stream that was destroyed" in cudacore_sim.reports()[-1]


def test_configuration(run_python: Python) -> None:
    """A setting would have no effect."""
    child = run_python(
        """
        cu.cuInit(0)
        count, version, major, minor, total = c_int(), c_int(), c_int(), c_int(), c_size_t()
        name = create_string_buffer(64)
        cu.cuDeviceGetCount(byref(count)), cu.cuDriverGetVersion(byref(version))
        cu.cuDeviceComputeCapability(byref(major), byref(minor), 1)
        cu.cuDeviceTotalMem_v2(byref(total), 1), cu.cuDeviceGetName(name, 64, 1)
        print(count.value, version.value, major.value, minor.value, total.value, name.value.decode())
        """,
        DEVICES=3,
        DRIVER_VERSION="12.9",
        COMPUTE_CAPABILITY="8.6",
        MEMORY="8G",
        NAME="a card",
    )
    assert child.stdout == f"3 12090 8 6 {8 << 30} a card\n"


def test_bad_configuration(run_python: Python) -> None:
    """A mistyped setting would be taken for another one in silence."""
    child = run_python("cu.cuInit(0)", DEVICES="many", MEMORY="12X", COMPUTE_CAPABILITY="hopper")
    for line in ("DEVICES=many is ignored", "MEMORY=12X is ignored", "COMPUTE_CAPABILITY=hopper is ignored"):
        assert line in child.stderr


def test_no_device(run_python: Python) -> None:
    """A machine without a device could not be simulated."""
    assert run_python("print(cu.cuInit(0))", DEVICES=0).stdout == "100\n"


def test_leaks_at_exit(run_python: Python) -> None:
    """What is alive at exit would not be reported, or be where it was not asked for."""
    code = """
    context, stream = c_void_p(), c_void_p()
    cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
    cu.cuStreamCreate(byref(stream), 0)
    """
    assert "stream 0x" in run_python(code, LEAKS=1).stderr
    assert run_python(code).stderr == ""


def test_fork(run_python: Python) -> None:
    """A child of fork would use the driver, or hang in it."""
    child = run_python(
        """
        import os
        cu.cuInit(0)
        pid = os.fork()
        if not pid:
            os._exit(cu.cuInit(0))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """
    )
    assert child.stdout == "3\n"


def test_log_file(run_python: Python, tmp_path: Any) -> None:
    """The log would not reach the file that was asked for."""
    run_python("cu.cuInit(0)", LOG=tmp_path / "calls")
    assert "cuInit -> 0" in (tmp_path / "calls").read_text()


def test_command_line() -> None:
    """A command would not find the simulator in place of the driver."""
    code = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cudasim_version())"
    command = [sys.executable, "-m", "cudacore_sim", sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\n"
    missing = subprocess.run([*command[:3], "no-such-program"], capture_output=True, text=True, check=False)
    assert missing.returncode == 127
    assert "no-such-program: No such file" in missing.stderr


def test_start_is_quick(run_python: Python) -> None:
    """Every process that uses it would pay for it: more than 20 ms."""
    child = run_python("import time; t = time.perf_counter(); cu.cuInit(0); print(time.perf_counter() - t)")
    assert float(child.stdout) < 0.02
    start = time.perf_counter()
    ctypes.CDLL(cudacore_sim.get_library())
    assert time.perf_counter() - start < 0.02


def test_get_include() -> None:
    """C programs would not find the header in an installed wheel."""
    if "CUDACORE_SIM_LIBRARY" not in os.environ:
        assert os.path.isfile(os.path.join(cudacore_sim.get_include(), "cudacore_sim.h"))
