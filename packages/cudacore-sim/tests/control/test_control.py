# SPDX-License-Identifier: Apache-2.0
"""The control interface, the configuration and the command line."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

import kernels
import pytest

import cudacore_sim

Python = Callable[..., subprocess.CompletedProcess[str]]


def test_live(cuda: Any) -> None:
    """Objects would not be counted, or would still be counted after their destruction."""
    before = cudacore_sim.live()
    stream, event, memory = cuda.stream(), cuda.event(), cuda.malloc(100)
    after = cudacore_sim.live()
    assert {kind: after[kind] - before[kind] for kind in after if after[kind] != before[kind]} == {
        "stream": 1,
        "event": 1,
        "device_memory": 1,
    }
    assert "100 bytes of device memory" in cudacore_sim.describe_live("device_memory")[0]
    newest = cudacore_sim.newest()
    assert not cudacore_sim.describe_live(after=newest)
    other = cuda.event()
    (line,) = cudacore_sim.describe_live(after=newest)
    assert line.startswith("event 0x")
    cuda.cuEventDestroy_v2(other)
    cuda.cuStreamDestroy_v2(stream)
    cuda.cuEventDestroy_v2(event)
    cuda.cuMemFree_v2(memory)
    assert cudacore_sim.live() == before


def test_log(cuda: Any) -> None:
    """The log would miss calls, or their results."""
    with cudacore_sim.logging() as calls:
        stream = cuda.stream()
        cuda.code("cuStreamQuery", ctypes.c_void_p(0x1230))
    assert [(call.name, call.result) for call in calls] == [("cuStreamCreate", 0), ("cuStreamQuery", 400)]
    assert cudacore_sim.calls("cuStreamCreate") == 1
    cuda.cuStreamDestroy_v2(stream)
    assert cudacore_sim.calls("cuStreamDestroy") == cudacore_sim.calls("cuStreamDestroy_v2") == 1


def test_failures(cuda: Any) -> None:
    """An injected failure would make the wrong call fail, or two calls, or would not prevent the effect of the call."""
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
    """Requesting a failure of an unknown function would be accepted silently."""
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
    """A setting with an invalid value would be ignored without a message."""
    child = run_python("cu.cuInit(0)", DEVICES="many", MEMORY="12X", COMPUTE_CAPABILITY="hopper")
    for line in (
        "DEVICES=many is ignored",
        "MEMORY=12X is ignored",
        "with K, M, G or T,",
        "COMPUTE_CAPABILITY=hopper is ignored",
    ):
        assert line in child.stderr


def test_ignored_settings(run_python: Python) -> None:
    """``ignored_settings`` would not return an invalid setting, or would return a valid one."""
    child = run_python(
        "import cudacore_sim; print(*cudacore_sim.ignored_settings(), sep='\\n')",
        SHUFFLE="x",
        DRIVER_VERSION="9",
        DEVICES=2,
        LEAKS="yes",
        DEVICE=2,
        COMPUTE_CAPABILITY=99.9,
    )
    assert child.stdout.splitlines() == [
        "CUDACORE_SIM_COMPUTE_CAPABILITY=99.9 is ignored: a compute capability that exists, such as 9.0, is wanted",
        "CUDACORE_SIM_DRIVER_VERSION=9 is ignored: a CUDA version such as 13000 or 13.0 is wanted",
        f"CUDACORE_SIM_SHUFFLE=x is ignored: a number from 0 to {2**64 - 1} is wanted",
        "CUDACORE_SIM_LEAKS=yes is ignored: a number from 0 to 1 is wanted",
        "CUDACORE_SIM_DEVICE=2 is ignored: there is no such setting, a name from the documentation is wanted",
    ]


def test_no_ignored_settings(driver: Any) -> None:
    """``ignored_settings`` would return something in a run with valid settings."""
    assert cudacore_sim.ignored_settings() == []


def test_no_device(run_python: Python) -> None:
    """A machine without a device could not be simulated."""
    assert run_python("print(cu.cuInit(0))", DEVICES=0).stdout == "100\n"


def test_leaks_at_exit(run_python: Python) -> None:
    """Live objects at exit would not be reported, or be reported without the setting."""
    code = """
    context, stream = c_void_p(), c_void_p()
    cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
    cu.cuStreamCreate(byref(stream), 0)
    """
    first, *objects = run_python(code, LEAKS=1).stderr.splitlines()
    assert first == "cudacore-sim: 2 objects are alive at exit:"
    assert [line.split()[0] for line in objects] == ["context", "stream"]
    assert run_python(code).stderr == ""


def test_fork(run_python: Python) -> None:
    """A forked child could use the driver, or would hang when it calls the driver."""
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
    """The log would not be written to the requested file."""
    run_python("cu.cuInit(0)", LOG=tmp_path / "calls")
    assert "cuInit -> 0" in (tmp_path / "calls").read_text()


@pytest.mark.parametrize("name", ["libcuda.so.1", "libcuda.so"])
def test_command_line(name: str) -> None:
    """A command that ``python -m cudacore_sim`` runs would not find the simulator by a name of the driver."""
    code = f"import ctypes; print(ctypes.CDLL('{name}').cudasim_version())"
    command = [sys.executable, "-m", "cudacore_sim", sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\n"
    missing = subprocess.run([*command[:3], "no-such-program"], capture_output=True, text=True, check=False)
    assert missing.returncode == 127
    assert missing.stderr.endswith("no-such-program: No such file or directory\n")


@pytest.mark.parametrize("arguments", [["t.py", "a b"], ["-x", "t.py"]])
def test_a_program_without_its_interpreter(arguments: list[str]) -> None:
    """The error for a command without ``python`` would say that an existing file is missing."""
    command = [sys.executable, "-m", "cudacore_sim", *arguments]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 127
    assert told.stderr.endswith(f"; to run Python code: python -m cudacore_sim python {shlex.join(arguments)}\n")


def test_a_library_of_another_name(tmp_path: Any) -> None:
    """If the library's name is not libcuda.so.1, programs would silently use the machine's driver instead."""
    other = shutil.copy(cudacore_sim.get_library(), tmp_path / "libsim.so")
    told = subprocess.run(
        [sys.executable, "-m", "cudacore_sim", "true"],
        env=os.environ | {"CUDACORE_SIM_LIBRARY": other},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stderr) == (
        1,
        f"cudacore_sim: {other} must be called libcuda.so.1, which is what programs look for\n",
    )


def test_start_is_quick(run_python: Python) -> None:
    """The simulator would take more than 20 ms to start in every process that uses it."""

    def seconds() -> float:
        code = "import time; t = time.perf_counter(); cu.cuInit(0); print(time.perf_counter() - t)"
        return float(run_python(code).stdout)

    assert any(seconds() < 0.02 for _ in range(10))  # any: a busy machine can delay some of the starts


def test_get_include() -> None:
    """C programs would not find the header in an installed wheel."""
    if "CUDACORE_SIM_LIBRARY" not in os.environ:
        assert os.path.isfile(os.path.join(cudacore_sim.get_include(), "cudacore_sim.h"))


def test_a_failure_that_never_came(cuda: Any) -> None:
    """A test that makes a call fail would still pass after the library stops making that call."""
    told = "call 2 of cuStreamCreate was to fail, and this block made 1"
    with pytest.raises(AssertionError, match=told), cudacore_sim.failing("cuStreamCreate", 2):
        cuda.stream()
    told = "call 1 of cuMemAlloc was to fail, and this block made 0"
    with pytest.raises(AssertionError, match=told), cudacore_sim.failing("cuMemAlloc", 0):
        pass
    with pytest.raises(KeyError), cudacore_sim.failing("cuMemAlloc"):
        raise KeyError


def test_counting_what_does_not_exist(driver: Any) -> None:
    """A misspelled name in a test would return 0 calls instead of raising an error."""
    with pytest.raises(ValueError, match="'cuMemAlok'"):
        cudacore_sim.calls("cuMemAlok")
    assert cudacore_sim.calls() >= cudacore_sim.calls("cuInit")


def test_last_launch(cuda: Any) -> None:
    """``last_launch`` would return wrong values, or those of a refused launch."""
    cudacore_sim.reset_device()
    cuda.cuCtxSetCurrent(ctypes.c_void_p(cuda.out("cuDevicePrimaryCtxRetain", 0)))
    library = ctypes.c_void_p(cuda.out("cuLibraryLoadData", kernels.PTX, None, None, 0, None, None, 0))
    kernel = ctypes.c_void_p(cuda.out("cuLibraryGetKernel", library, b"store"))
    memory, value, stream = cuda.malloc(64), ctypes.c_uint32(7), cuda.stream(1)
    arguments = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(value))
    cuda.cuLaunchKernel(kernel, 1, 1, 1, 16, 1, 1, 96, stream, arguments, None)
    last = cudacore_sim.last_launch()
    assert (last.kernel, last.stream, last.grid, last.block) == ("store", stream.value, (1, 1, 1), (16, 1, 1))
    assert (last.cluster, last.shared_bytes, last.cooperative, last.programmatic) == ((0, 0, 0), 96, False, False)
    assert last.context == cuda.out("cuCtxGetCurrent")
    assert last.arguments == struct.pack("<QI", memory.value, 7)
    assert cuda.code("cuLaunchKernel", kernel, 0, 1, 1, 1, 1, 1, 0, stream, arguments, None) == 1
    assert cudacore_sim.last_launch() == last
    cuda.cuLaunchCooperativeKernel(kernel, 1, 1, 1, 8, 1, 1, 0, stream, arguments)
    again = cudacore_sim.last_launch()
    assert (again.number, again.block, again.cooperative) == (last.number + 1, (8, 1, 1), True)


def test_no_launch(run_python: Python) -> None:
    """``last_launch`` would return a launch although nothing was launched."""
    child = run_python("cu.cuInit(0)\ntry: cudacore_sim.last_launch()\nexcept LookupError as e: print(e)")
    assert child.stdout == "nothing was launched yet\n"


def test_hiding(cuda: Any) -> None:
    """A test could not hide a function, as on an older driver, or the function would stay hidden after the test."""

    def is_there() -> bool:
        found, status = ctypes.c_void_p(), ctypes.c_int()
        flags = ctypes.c_uint64(0)
        cuda.code("cuGetProcAddress_v2", b"cuMemAlloc", ctypes.byref(found), 13000, flags, ctypes.byref(status))
        return bool(found.value)

    assert is_there()
    cudacore_sim.hide("cuMemAlloc")
    assert not is_there()
    cudacore_sim.reset()
    assert is_there()
    for name in ("cuMemAlok", "cuMemAlloc_v2"):
        with pytest.raises(ValueError, match=name):
            cudacore_sim.hide(name)


def test_held_calls(cuda: Any) -> None:
    """A call that a test holds would not wait, would have its effect too early, or would wait forever."""
    made = []

    def create() -> None:
        cuda.cuCtxSetCurrent(context)
        made.append(cuda.event())

    context = ctypes.c_void_p(cuda.out("cuCtxGetCurrent"))
    before = cudacore_sim.live()
    for end in (lambda: cudacore_sim.let_go("cuEventCreate"), cudacore_sim.reset):
        cudacore_sim.hold("cuEventCreate")
        assert cudacore_sim.held("cuEventCreate") == 0
        thread = threading.Thread(target=create)
        thread.start()
        while cudacore_sim.held("cuEventCreate") == 0:
            time.sleep(0.001)
        stream = cuda.stream()  # calls of other entry points do not wait
        cuda.cuStreamDestroy_v2(stream)
        assert cudacore_sim.live() == before
        end()
        thread.join()
        assert cudacore_sim.held("cuEventCreate") == 0
        assert cudacore_sim.live()["event"] == before["event"] + 1
        cuda.cuEventDestroy_v2(made.pop())
    for function in (cudacore_sim.hold, cudacore_sim.held, cudacore_sim.let_go):
        with pytest.raises(ValueError, match="cuFoo"):
            function("cuFoo")


def test_held_calls_of_a_parent(run_python: Python) -> None:
    """A forked child would count its parent's held calls as its own, or hang in ``cudasim_let_go``."""
    child = run_python(
        """
        import os, threading, time, cudacore_sim
        cu.cuInit(0)
        cudacore_sim.hold("cuDeviceGetCount")
        thread = threading.Thread(target=cu.cuDeviceGetCount, args=(byref(c_int()),))
        thread.start()
        while cudacore_sim.held("cuDeviceGetCount") == 0:
            time.sleep(0.001)
        if (process := os.fork()) == 0:
            held = cudacore_sim.held("cuDeviceGetCount")
            cudacore_sim.let_go("cuDeviceGetCount")
            os._exit(held)
        print(os.waitpid(process, 0)[1], cudacore_sim.held("cuDeviceGetCount"))
        cudacore_sim.let_go("cuDeviceGetCount")
        thread.join()
        """
    )
    assert child.stdout == "0 1\n"


def test_calls_at_exit(run_python: Python) -> None:
    """Calls by atexit handlers, after the main thread's own variables were destroyed, would crash."""
    child = run_python(
        """
        context, libc = c_void_p(), CDLL(None)
        cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
        libc.__cxa_atexit(cu.cuCtxPushCurrent_v2, context, None)
        libc.__cxa_atexit(cu.cuCtxSetCurrent, context, None)
        """
    )
    assert (child.returncode, child.stderr) == (0, "")


def test_forbidden_calls(cuda: Any) -> None:
    """A test could not make calls fail as in a host function, or these calls would be reported as misuse."""
    count = ctypes.c_int()
    with cudacore_sim.forbidding():
        assert cuda.code("cuStreamCreate", ctypes.byref(ctypes.c_void_p()), 0) == 800
        assert cuda.code("cuDeviceGetCount", ctypes.byref(count)) == 800
        assert cuda.code("cuDriverGetVersion", ctypes.byref(count)) == 0
        other: list[int] = []
        thread = threading.Thread(target=lambda: other.append(cuda.code("cuDeviceGetCount", ctypes.byref(count))))
        thread.start()
        thread.join()
        assert other == [0]
    assert cuda.code("cuDeviceGetCount", ctypes.byref(count)) == 0
    assert cudacore_sim.reports() == []


def test_depth(cuda: Any) -> None:
    """A test could not detect that a library has left a context on the stack."""
    context = ctypes.c_void_p(cuda.out("cuCtxGetCurrent"))
    assert cudacore_sim.depth() == 1
    cuda.cuCtxPushCurrent_v2(context)
    assert cudacore_sim.depth() == 2
    cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    cuda.cuCtxSetCurrent(None)
    assert cudacore_sim.depth() == 0
    cuda.cuCtxSetCurrent(context)


def test_streams_in_the_log(cuda: Any) -> None:
    """A logged call would lack its stream, or the logged name of its function would have a suffix such as ``_v2``."""
    stream, event, config = cuda.stream(), cuda.event(), (ctypes.c_uint64 * 8)()
    config[4] = stream.value  # CUlaunchConfig.hStream, after seven 32-bit numbers
    with cudacore_sim.logging() as calls:
        cuda.cuEventRecord(event, stream)
        cuda.cuEventRecord(event, None)
        cuda.code("cuLaunchKernelEx", config, None, None, None)
        cuda.code("cuStreamSynchronize_ptsz", stream)
        cuda.cuEventDestroy_v2(event)
    assert [(call.function, call.stream) for call in calls] == [
        ("cuEventRecord", stream.value),
        ("cuEventRecord", 0),
        ("cuLaunchKernelEx", stream.value),
        ("cuStreamSynchronize", stream.value),
        ("cuEventDestroy", 0),
    ]
    cuda.cuStreamDestroy_v2(stream)


def test_clearing_errors(cuda: Any) -> None:
    """``clear_errors`` would not make a context usable again after a failed kernel, or would lose earlier results."""
    library = ctypes.c_void_p(cuda.out("cuLibraryLoadData", kernels.PTX, None, None, 0, None, None, 0))
    store, fail = (ctypes.c_void_p(cuda.out("cuLibraryGetKernel", library, name)) for name in (b"store", b"fail"))
    memory, value, stream = cuda.malloc(4), ctypes.c_uint32(7), cuda.stream(1)
    arguments = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(value))
    cuda.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None)
    assert cudacore_sim.clear_errors() == 0
    cuda.cuLaunchKernel(fail, 1, 1, 1, 1, 1, 1, 0, stream, None, None)
    assert cudacore_sim.clear_errors() == 1  # this call waits for the kernel
    back = ctypes.c_uint32()
    cuda.cuMemcpyDtoH_v2(ctypes.byref(back), memory, ctypes.c_size_t(4))
    assert back.value == 7
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0)
    cuda.cuStreamSynchronize(stream)
    assert cudacore_sim.clear_errors() == 0


def test_clearing_errors_waits_for_no_value(cuda: Any) -> None:
    """A stream that waits for a value that is never written would hang the test run."""
    memory, stream = cuda.malloc(4), cuda.stream(1)
    cuda.cuStreamWaitValue32_v2(stream, memory, ctypes.c_uint32(5), 1)
    assert cudacore_sim.clear_errors() == 0
    assert cuda.code("cuStreamQuery", stream) == 600
    cuda.cuMemsetD32_v2(memory, ctypes.c_uint32(5), ctypes.c_size_t(1))
    cuda.cuStreamSynchronize(stream)


def test_what_is_not_simulated(run_python: Python) -> None:
    """A function that is not simulated would go unreported, be reported at every call, or count as misuse."""
    code = """
    cu.cuInit(0)
    graph = c_void_p()
    print([cu.cuTexRefDestroy(graph) for _ in range(3)], cu.cuTexRefCreate(byref(graph)))
    cu.cuGetExportTable(byref(graph), b"0123456789abcdef")
    print(cudacore_sim.reports())
    """
    child = run_python(code)
    assert child.stdout == "[801, 801, 801] 801\n[]\n"
    *missing, table = child.stderr.splitlines()
    assert missing == [
        f"cudacore-sim: {name} is not simulated, and answers CUDA_ERROR_NOT_SUPPORTED"
        for name in ("cuTexRefDestroy", "cuTexRefCreate")
    ]
    assert "cuGetExportTable" in table
    assert run_python(code, REPORTS=0).stderr == ""


END = """
context, stream, event, memory = c_void_p(), c_void_p(), c_void_p(), c_uint64()
cu.cuInit(0)
{begin}
cu.cuStreamCreate(byref(stream), 0), cu.cuEventCreate(byref(event), 0), cu.cuEventCreate(byref(event), 0)
cu.cuMemAlloc_v2(byref(memory), c_size_t(100))
{end}
"""
PRIMARY = "cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)"


@pytest.mark.parametrize(
    ("begin", "end", "by"),
    [
        ("cu.cuCtxCreate_v2(byref(context), 0, 0)", "cu.cuCtxDestroy_v2(context)", "cuCtxDestroy_v2"),
        (PRIMARY, "cu.cuDevicePrimaryCtxRelease_v2(0)", "cuDevicePrimaryCtxRelease_v2"),
        (PRIMARY, "cu.cuDevicePrimaryCtxReset_v2(0)", "cuDevicePrimaryCtxReset_v2"),
    ],
)
def test_a_context_with_something_in_it(run_python: Python, begin: str, end: str, by: str) -> None:
    """Destroying a context that still has live objects would not be reported."""
    assert run_python(END.format(begin=begin, end=end)).stderr == (
        f"cudacore-sim: {by} destroys a context with what is alive in it: 1 x device memory, 2 x event, 1 x stream\n"
    )


def test_an_empty_context(run_python: Python) -> None:
    """A program that destroys its objects before its context, or calls ``reset_device``, would be reported."""
    clean = "cu.cuStreamDestroy_v2(stream), cu.cuEventDestroy_v2(event), cu.cuMemFree_v2(memory)"
    release = "cu.cuDevicePrimaryCtxRelease_v2(0)"
    code = END.format(begin=PRIMARY, end=f"{clean}\n{release}").replace("cu.cuEventCreate(byref(event), 0), ", "", 1)
    assert run_python(code, LEAKS=1).stderr == ""
    assert run_python(END.format(begin=PRIMARY, end="cudacore_sim.reset_device()"), LEAKS=1).stderr == ""


def test_the_context_of_a_kernel_that_failed(run_python: Python) -> None:
    """Objects that could not be freed because a kernel had failed would be reported as leaks."""
    end = f"""
    library, kernel = c_void_p(), c_void_p()
    cu.cuLibraryLoadData(byref(library), {kernels.PTX!r}, None, None, 0, None, None, 0)
    cu.cuLibraryGetKernel(byref(kernel), library, b"fail")
    cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    print(cu.cuCtxSynchronize(), cu.cuMemFree_v2(memory))
    cu.cuDevicePrimaryCtxRelease_v2(0)
    """
    child = run_python(END.format(begin=PRIMARY, end=textwrap.dedent(end)))
    assert child.stdout == "719 719\n"
    assert "kernel 'fail'" in child.stderr
    assert "destroys a context" not in child.stderr


def test_unsupported_ptx(run_python: Python) -> None:
    """The reason would appear twice if code is loaded again to get its log, or would end at an empty line."""
    child = run_python(
        """
        PTX = b".version 8.0\\n.target sm_90\\n.address_size 64\\n.entry f() { fabric.wait.sync.aligned; ret; }\\n"
        context, module = c_void_p(), c_void_p()
        cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
        print([cu.cuModuleLoadData(byref(module), PTX) for _ in range(2)])
        cudacore_sim.reset()
        cu.cuModuleLoadData(byref(module), PTX)
        print(len(cudacore_sim.explanations()), cudacore_sim.reports())
        """
    )
    assert child.stdout == "[218, 218]\n1 []\n"
    one, other = child.stderr.splitlines()
    assert one == other
    assert one.startswith("cudacore-sim: PTX with an instruction that the simulator does not have: line 4: ")


def test_launching_a_cubin(cuda: Any) -> None:
    """The error for a cubin without PTX would not say what to do instead."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    _, program = nvrtc.nvrtcCreateProgram(b'extern "C" __global__ void nothing() {}', b"", 0, [], [])
    nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_90"])
    code = bytes(nvrtc.nvrtcGetCUBINSize(program)[1])
    nvrtc.nvrtcGetCUBIN(program, code)
    library = ctypes.c_void_p(cuda.out("cuLibraryLoadData", code, None, None, 0, None, None, 0))
    kernel = ctypes.c_void_p(cuda.out("cuLibraryGetKernel", library, b"nothing"))
    assert cuda.code("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 801
    told = cudacore_sim.reports()[-1]
    for word in ("kernel 'nothing' is in a cubin", 'compile("ptx")', "nvcc -ptx", "nvrtcGetPTX"):
        assert word in told


@pytest.mark.parametrize(
    ("offset", "told"), [(100, "0 bytes past the end of the 100 bytes"), (1 << 36, "far from every allocation")]
)
def test_where_an_address_is(cuda: Any, offset: int, told: str) -> None:
    """The report for an arbitrary address would name an allocation that is unrelated to the address."""
    memory = cuda.malloc(100)
    assert cuda.code("cuMemFree_v2", ctypes.c_uint64(memory.value + offset)) == 1
    assert told in cudacore_sim.reports()[-1]
    cuda.cuMemFree_v2(memory)
