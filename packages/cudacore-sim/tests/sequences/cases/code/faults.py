# SPDX-License-Identifier: Apache-2.0
"""Kernels that fail: the error, its effects on other calls, and how to continue."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_float, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p

from ptx import KERNELS
from recorder import Recorder, sequence

NOWHERE = 0x10  # an address at which nothing is mapped

FAULTS: dict[str, Callable[[Recorder, int], int]] = {
    "stop": lambda cu, function: cu.launch(function),
    "fail_assertion": lambda cu, function: cu.launch(function),
    "store": lambda cu, function: cu.launch(function, c_uint64(NOWHERE), c_uint32(1)),
}


def fail(cu: Recorder, name: str = "store") -> None:
    """Launch a kernel that fails, and wait until it has failed."""
    FAULTS[name](cu, cu.function(KERNELS, name))
    cu.call("cuCtxSynchronize")


@sequence
def illegal_address(cu: Recorder) -> None:
    """A kernel writes to an address at which there is no memory."""
    fail(cu)
    cu.call("cuCtxSynchronize")


@sequence
def null_address(cu: Recorder) -> None:
    """A kernel writes to NULL."""
    cu.launch(cu.function(KERNELS, "store"), c_uint64(0), c_uint32(1))
    cu.call("cuCtxSynchronize")


@sequence
def misaligned_address(cu: Recorder) -> None:
    """A kernel writes a word to an address that is not a multiple of the word's size."""
    address = cu.memory(64)
    cu.launch(cu.function(KERNELS, "store"), c_uint64(address + 1), c_uint32(1))
    cu.call("cuCtxSynchronize")
    cu.call("cuMemFree_v2", address)


@sequence
def trap(cu: Recorder) -> None:
    """A kernel executes the instruction trap."""
    fail(cu, "stop")
    cu.call("cuStreamCreate", c_void_p, 0)


@sequence
def assertion(cu: Recorder) -> None:
    """An assertion in a kernel fails."""
    fail(cu, "fail_assertion")
    cu.call("cuStreamCreate", c_void_p, 0)


@sequence
def freed_memory(cu: Recorder) -> None:
    """A kernel reads from a reserved address at which no memory is mapped."""
    address = cu.prepare("cuMemAddressReserve", c_uint64, 2 << 20, 0, 0, 0)
    out = cu.memory(4)
    cu.launch(cu.function(KERNELS, "load"), c_uint64(address), c_uint64(out))
    cu.call("cuCtxSynchronize")


@sequence
def calls_after_a_fault(cu: Recorder) -> None:
    """Which calls still work in a context that has failed."""
    address, event, stream, kernel = cu.memory(64), cu.event(), cu.stream(), cu.kernel(KERNELS, "nothing")
    function = cu.prepare("cuKernelGetFunction", c_void_p, kernel)
    module = cu.prepare("cuModuleLoadData", c_void_p, KERNELS)
    pinned = cu.prepare("cuMemHostAlloc", c_void_p, 64, 0)
    context = cu.prepare("cuCtxGetCurrent", c_void_p)
    fail(cu)
    data = (ctypes.c_char * 64)()
    cu.call_each(
        ("cuMemAlloc_v2", c_uint64, 64), ("cuMemcpyDtoH_v2", data, address, 64), ("cuMemsetD8_v2", address, 0, 64),
        ("cuMemsetD8Async", address, 0, 64, stream), ("cuMemAllocAsync", c_uint64, 64, stream),
        ("cuMemHostAlloc", c_void_p, 64, 0), ("cuMemGetInfo_v2", c_size_t, c_size_t),
        ("cuMemGetAddressRange_v2", c_uint64, c_size_t, address), ("cuPointerGetAttribute", c_int, 2, address),
        ("cuStreamCreate", c_void_p, 0), ("cuStreamQuery", stream), ("cuStreamSynchronize", stream),
        ("cuStreamGetFlags", stream, c_uint), ("cuStreamGetPriority", stream, c_int),
        ("cuStreamGetId", stream, c_uint64), ("cuStreamGetCtx", stream, c_void_p),
        ("cuStreamWaitEvent", stream, event, 0), ("cuLaunchHostFunc", stream, cu.host_function(lambda: None), None),
        ("cuEventCreate", c_void_p, 0), ("cuEventQuery", event), ("cuEventRecord", event, stream),
        ("cuEventSynchronize", event), ("cuEventElapsedTime_v2", c_float, event, event),
    )  # fmt: skip
    cu.launch(function)
    cu.call_each(
        ("cuFuncGetAttribute", c_int, 0, function), ("cuKernelGetFunction", c_void_p, kernel),
        ("cuModuleGetFunction", c_void_p, module, b"store"), ("cuModuleLoadData", c_void_p, KERNELS),
        ("cuLibraryLoadData", c_void_p, KERNELS, None, None, 0, None, None, 0),
        ("cuOccupancyMaxActiveBlocksPerMultiprocessor", c_int, function, 32, 0), ("cuCtxGetCurrent", c_void_p),
        ("cuCtxGetDevice", c_int), ("cuCtxGetFlags", c_uint), ("cuCtxGetId", context, c_uint64),
        ("cuCtxGetLimit", c_size_t, 0), ("cuCtxSetLimit", 0, 2048), ("cuCtxGetApiVersion", context, c_uint),
        ("cuCtxSetCurrent", context), ("cuDeviceGetCount", c_int), ("cuDeviceGetAttribute", c_int, 1, 0),
        ("cuDevicePrimaryCtxGetState", 0, c_uint, c_int), ("cuDeviceGetDefaultMemPool", c_void_p, 0),
        ("cuMemFreeHost", pinned), ("cuMemFreeAsync", address, stream), ("cuMemFree_v2", address),
        ("cuEventDestroy_v2", event), ("cuStreamDestroy_v2", stream), ("cuModuleUnload", module),
    )  # fmt: skip


@sequence
def other_contexts(cu: Recorder) -> None:
    """The effects of a fault in one context on other contexts of the process, existing and new."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    bystander = cu.prepare("cuCtxCreate_v4", c_void_p, None, 0, 0)
    cu.prepare("cuCtxSetCurrent", primary)
    fail(cu)
    cu.call("cuCtxSetCurrent", bystander)
    cu.call("cuCtxSynchronize")
    cu.call("cuStreamCreate", c_void_p, 0)
    cu.call("cuMemAlloc_v2", c_uint64, 64)
    cu.call("cuCtxDestroy_v2", bystander)
    cu.call("cuCtxCreate_v4", c_void_p, None, 0, 0)
    cu.call("cuDevicePrimaryCtxRetain", c_void_p, 0)


@sequence
def released_after_a_fault(cu: Recorder) -> None:
    """Whether a primary context can be used again after it was released because of a fault."""
    fail(cu)
    cu.call("cuDevicePrimaryCtxRelease_v2", 0)
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    context = cu.new("cuDevicePrimaryCtxRetain", c_void_p, 0)
    cu.call("cuCtxSetCurrent", context)
    cu.call("cuStreamCreate", c_void_p, 0)
    cu.call("cuCtxSynchronize")


@sequence
def reset_after_a_fault(cu: Recorder) -> None:
    """Whether a primary context can be used again after it was reset because of a fault."""
    fail(cu, "stop")
    cu.call("cuDevicePrimaryCtxReset_v2", 0)
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    context = cu.new("cuDevicePrimaryCtxRetain", c_void_p, 0)
    cu.call("cuCtxSetCurrent", context)
    cu.call("cuStreamCreate", c_void_p, 0)


@sequence
def destroyed_after_a_fault(cu: Recorder) -> None:
    """Whether the effects of a fault in an ordinary context end when that context is destroyed."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    context = cu.prepare("cuCtxCreate_v4", c_void_p, None, 0, 0)
    fail(cu, "stop")
    cu.call("cuCtxDestroy_v2", context)
    cu.call("cuCtxSetCurrent", primary)
    cu.call("cuStreamCreate", c_void_p, 0)
    cu.call("cuCtxCreate_v4", c_void_p, None, 0, 0)


@sequence
def found_out_later(cu: Recorder) -> None:
    """Calls for the stream of a failed kernel, and for an event in this stream, return the kernel's error."""
    event, stream = cu.event(), cu.stream()
    cu.launch(cu.function(KERNELS, "stop"), stream=stream)
    cu.attempt("cuEventRecord", event, stream)
    cu.call_each(
        ("cuEventSynchronize", event), ("cuEventQuery", event),
        ("cuStreamQuery", stream), ("cuStreamSynchronize", stream),
    )  # fmt: skip


@sequence
def host_functions(cu: Recorder) -> None:
    """A host function that is enqueued after a failed kernel does not run."""
    stream = cu.stream()
    seen: list[object] = []
    cu.launch(cu.function(KERNELS, "stop"), stream=stream)
    function = cu.host_function(lambda: seen.append("function"))
    cu.attempt("cuLaunchHostFunc", stream, function, None)
    cu.call("cuStreamSynchronize", stream)
    cu.see("seen", seen)


@sequence
def refused_launches_leave_nothing(cu: Recorder) -> None:
    """A refused launch, code that does not load, and a refused free do not affect later calls."""
    function = cu.function(KERNELS, "nothing")
    cu.launch(function, block=(2000, 1, 1))
    cu.call("cuModuleLoadData", c_void_p, b"nonsense")
    cu.call("cuMemFree_v2", 0x1234_5678_9000)
    cu.call("cuCtxSynchronize")
    cu.launch(function)
    cu.call("cuCtxSynchronize")


@sequence
def printed_before(cu: Recorder) -> None:
    """The output of a kernel is written although a later kernel fails."""
    printing, stop = cu.function(KERNELS, "print"), cu.function(KERNELS, "stop")

    def part() -> None:
        cu.launch(printing)
        cu.call("cuCtxSynchronize")
        cu.launch(stop)
        cu.call("cuCtxSynchronize")

    cu.see_printed(part)
