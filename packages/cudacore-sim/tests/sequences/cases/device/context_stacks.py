# SPDX-License-Identifier: Apache-2.0
"""The stacks of current contexts, and the state of a context."""

from __future__ import annotations

from ctypes import c_char, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p

from ptx import KERNELS
from recorder import Recorder, sequence

from .contexts import create, see_current


@sequence
def push_and_pop(cu: Recorder) -> None:
    """Each thread has a stack of contexts. Popping from an empty stack fails."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    created = create(cu)
    known = {"primary": primary, "created": created}
    see_current(cu, **known)
    cu.call("cuCtxPushCurrent_v2", primary)
    cu.call("cuCtxPushCurrent_v2", primary)
    see_current(cu, **known)
    for _ in range(4):
        context = cu.new("cuCtxPopCurrent_v2", c_void_p)
        cu.see("popped", next(name for name, handle in known.items() if handle == context))
        see_current(cu, **known)
    cu.call("cuCtxPopCurrent_v2", c_void_p)
    cu.call("cuCtxPopCurrent_v2", None)
    cu.call("cuCtxPushCurrent_v2", None)
    cu.call("cuCtxPushCurrent_v2", created)
    cu.call("cuCtxPopCurrent_v2", None)
    see_current(cu, **known)


@sequence
def set_replaces_the_top(cu: Recorder) -> None:
    """cuCtxSetCurrent replaces the top of the stack; cuCtxSetCurrent(NULL) removes it."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    created = create(cu)
    known = {"primary": primary, "created": created}
    cu.call("cuCtxSetCurrent", primary)
    see_current(cu, **known)
    cu.call("cuCtxPushCurrent_v2", created)
    cu.call("cuCtxSetCurrent", None)
    see_current(cu, **known)
    cu.call("cuCtxPopCurrent_v2", c_void_p)
    see_current(cu, **known)
    cu.call("cuCtxPopCurrent_v2", c_void_p)
    see_current(cu, **known)
    cu.call("cuCtxSetCurrent", created)
    see_current(cu, **known)
    cu.call("cuCtxPopCurrent_v2", c_void_p)
    cu.call("cuCtxPopCurrent_v2", c_void_p)


@sequence
def set_null_and_pop(cu: Recorder) -> None:
    """The stack after cuCtxSetCurrent(NULL) has removed its top."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    first, second = create(cu), create(cu)
    known = {"primary": primary, "first": first, "second": second}
    cu.call("cuCtxSetCurrent", None)
    see_current(cu, **known)
    cu.call("cuCtxPushCurrent_v2", second)
    see_current(cu, **known)
    for _ in range(3):
        if cu.call("cuCtxPopCurrent_v2", c_void_p):
            break
        see_current(cu, **known)


@sequence
def threads_have_their_own(cu: Recorder) -> None:
    """Each thread has its own current context."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)

    def other() -> None:
        see_current(cu, primary=primary)
        cu.call("cuStreamCreate", c_void_p, 0)
        cu.call("cuCtxSetCurrent", primary)
        cu.call("cuStreamCreate", c_void_p, 0)
        cu.call("cuCtxSetCurrent", None)

    cu.in_thread(other)
    see_current(cu, primary=primary)


@sequence
def identifiers(cu: Recorder) -> None:
    """Each context has its own identifier."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    first = cu.new("cuCtxGetId", primary, c_uint64)
    context = create(cu)
    current, named = cu.new("cuCtxGetId", None, c_uint64), cu.new("cuCtxGetId", context, c_uint64)
    cu.see("current", current == named)
    cu.see("differ", current != first)
    cu.call("cuCtxDestroy_v2", context)
    created = create(cu)
    cu.see("not used again", cu.new("cuCtxGetId", created, c_uint64) not in (current, first))
    cu.call("cuCtxGetId", created, None)


@sequence
def api_version(cu: Recorder) -> None:
    """The API version that the driver reports for a context."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    cu.read("cuCtxGetApiVersion", primary, c_uint)
    cu.read("cuCtxGetApiVersion", None, c_uint)
    cu.call("cuCtxGetApiVersion", primary, None)
    cu.prepare("cuCtxCreate_v2", c_void_p, 0, 0)
    cu.read("cuCtxGetApiVersion", None, c_uint)
    cu.prepare("cuCtxCreate_v4", c_void_p, None, 0, 0)
    cu.read("cuCtxGetApiVersion", None, c_uint)


@sequence
def limits(cu: Recorder) -> None:
    """The limits of a context, before and after they are set."""
    for limit in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -1, 99):
        cu.read("cuCtxGetLimit", c_size_t, limit)
    cu.call("cuCtxGetLimit", None, 0)
    for limit, value in (
        (0, 4096), (0, 1), (0, 0), (0, 1 << 20), (1, 2 << 20), (1, 1), (1, (1 << 20) + 1), (2, 16 << 20), (2, 1),
        (3, 1), (4, 100), (4, 0), (5, 64), (5, 32), (5, 33), (5, 0), (5, 128), (5, 129), (6, 1), (6, 4 << 20), (6, 0),
        (6, 1 << 40), (7, 1), (8, 1), (9, 1), (10, 1), (-1, 1),
    ):  # fmt: skip
        cu.see("set", (limit, value))
        if cu.call("cuCtxSetLimit", limit, value) == 0:
            cu.read("cuCtxGetLimit", c_size_t, limit)


@sequence
def limits_of_two_contexts(cu: Recorder) -> None:
    """Each context has its own limits."""
    cu.prepare("cuCtxSetLimit", 0, 8192)
    context = create(cu)
    cu.read("cuCtxGetLimit", c_size_t, 0)
    cu.prepare("cuCtxSetLimit", 0, 2048)
    cu.prepare("cuCtxDestroy_v2", context)
    cu.read("cuCtxGetLimit", c_size_t, 0)


@sequence
def preferences(cu: Recorder) -> None:
    """Preferences for caches and shared memory banks, which have no visible effect."""
    cu.read("cuCtxGetCacheConfig", c_int)
    for value in (1, 2, 3, 0, 4, -1):
        cu.call("cuCtxSetCacheConfig", value)
        cu.read("cuCtxGetCacheConfig", c_int)
    cu.call("cuCtxGetCacheConfig", None)
    cu.read("cuCtxGetSharedMemConfig", c_int)
    for value in (1, 2, 0, 3, -1):
        cu.call("cuCtxSetSharedMemConfig", value)
        cu.read("cuCtxGetSharedMemConfig", c_int)
    cu.call("cuCtxGetSharedMemConfig", None)
    cu.read("cuCtxGetStreamPriorityRange", c_int, c_int)
    cu.read("cuCtxGetStreamPriorityRange", None, c_int)
    cu.call("cuCtxGetStreamPriorityRange", None, None)
    cu.call("cuCtxResetPersistingL2Cache")
    cu.call("cuCtxGetDevice", None)
    cu.call("cuCtxGetCurrent", None)
    cu.call("cuProfilerStart")
    cu.call("cuProfilerStop")


@sequence
def memory_of_a_context(cu: Recorder) -> None:
    """Memory can be used from another context of the same device, and is freed with its own context."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    context = create(cu)
    address = cu.memory(64, 1)
    cu.prepare("cuCtxSetCurrent", primary)
    data = (c_char * 64)()
    cu.call("cuMemcpyDtoH_v2", data, address, 64)
    cu.see("data", data.raw[:4].hex())
    cu.call("cuMemsetD8_v2", address, 2, 64)
    owner = cu.new("cuPointerGetAttribute", c_void_p, 1, address)
    cu.see("owner", "created" if owner == context else "primary" if owner == primary else "another")
    cu.call("cuCtxDestroy_v2", context)
    cu.call("cuMemFree_v2", address)
    cu.call("cuMemcpyDtoH_v2", data, address, 64)


@sequence
def memory_freed_elsewhere(cu: Recorder) -> None:
    """Memory of one context can be freed while another context is current."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    create(cu)
    address = cu.memory(64)
    cu.prepare("cuCtxSetCurrent", primary)
    cu.call("cuMemFree_v2", address)
    cu.call("cuMemFree_v2", address)


@sequence
def stream_of_another_context(cu: Recorder) -> None:
    """Which functions accept a stream whose context is not current."""
    function = cu.function(KERNELS, "nothing")
    event = cu.event()
    address = cu.memory(64)
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    context = create(cu)
    stream = cu.stream()
    cu.prepare("cuCtxSetCurrent", primary)
    owner = cu.new("cuStreamGetCtx", stream, c_void_p)
    cu.see("its context", owner == context)
    cu.call("cuStreamQuery", stream)
    cu.call("cuStreamSynchronize", stream)
    cu.call("cuStreamGetFlags", stream, c_uint)
    cu.call("cuStreamGetPriority", stream, c_int)
    cu.call("cuEventRecord", event, stream)
    cu.call("cuStreamWaitEvent", stream, event, 0)
    cu.call("cuMemsetD8Async", address, 1, 64, stream)
    cu.launch(function, stream=stream)
    cu.call("cuLaunchHostFunc", stream, cu.host_function(lambda: None), None)
    cu.call("cuStreamSynchronize", stream)
    cu.call("cuStreamDestroy_v2", stream)


@sequence
def event_of_another_context(cu: Recorder) -> None:
    """Which functions accept an event whose context is not current."""
    stream = cu.stream()
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    create(cu)
    event, other = cu.event(), cu.event()
    cu.prepare("cuEventRecord", event, None)
    cu.prepare("cuEventSynchronize", event)
    cu.prepare("cuCtxSetCurrent", primary)
    cu.call("cuEventQuery", event)
    cu.call("cuEventSynchronize", event)
    cu.call("cuStreamWaitEvent", stream, event, 0)
    cu.call("cuEventRecord", event, stream)
    cu.call("cuEventRecord", event, None)
    cu.call("cuEventElapsedTime_v2", c_uint32(), event, other)
    cu.call("cuEventDestroy_v2", event)


@sequence
def function_of_another_context(cu: Recorder) -> None:
    """A function (CUfunction) can be launched only in its own context, a kernel (CUkernel) in any context."""
    kernel = cu.kernel(KERNELS, "nothing")
    function = cu.prepare("cuKernelGetFunction", c_void_p, kernel)
    module = cu.prepare("cuModuleLoadData", c_void_p, KERNELS)
    of_module = cu.prepare("cuModuleGetFunction", c_void_p, module, b"nothing")
    create(cu)
    cu.launch(function)
    cu.launch(of_module)
    cu.launch(kernel)
    cu.call("cuCtxSynchronize")
    cu.call("cuModuleGetFunction", c_void_p, module, b"store")
    cu.call("cuFuncGetAttribute", c_int, 0, of_module)
    cu.call("cuModuleUnload", module)


@sequence
def peer_access_to_itself(cu: Recorder) -> None:
    """A device has no peer access to itself."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    cu.call("cuCtxEnablePeerAccess", primary, 0)
    cu.call("cuCtxEnablePeerAccess", primary, 1)
    cu.call("cuCtxEnablePeerAccess", None, 0)
    cu.call("cuCtxDisablePeerAccess", primary)
    cu.call("cuCtxDisablePeerAccess", None)
    create(cu)
    cu.call("cuCtxEnablePeerAccess", primary, 0)
    cu.call("cuCtxDisablePeerAccess", primary)


@sequence
def synchronise_waits(cu: Recorder) -> None:
    """Synchronising a context waits for all of its streams."""
    seen = []
    stream = cu.stream(1)
    function = cu.host_function(lambda: seen.append("ran"))
    for _ in range(3):
        cu.prepare("cuLaunchHostFunc", stream, function, None)
    cu.call("cuCtxSynchronize")
    cu.see("seen", seen)
    cu.call("cuStreamQuery", stream)
