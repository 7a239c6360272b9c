# SPDX-License-Identifier: Apache-2.0
"""The calls that are allowed during a capture: each call in each mode, on the capturing and on another thread."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, NamedTuple

import graph_tools as tools
from graph_tools import GLOBAL, MODES, RELAXED, THREAD_LOCAL
from ptx import KERNELS
from recorder import HOST_FUNCTION, Recorder
from structs import Access, Location, device_allocation, device_pool

NON_BLOCKING = 1


class Scene(NamedTuple):
    """The objects that exist before the capture begins."""

    capturing: int
    other: int
    blocking: int
    address: int
    event: int
    captured: int
    context: int


Thunk = Callable[[], object]
Place = Callable[[Recorder, Thunk], None]
Setup = Callable[[Recorder, Scene], Thunk]


def plain(name: str, *arguments: Any) -> Setup:
    """Make a call with objects of the scene: the argument "{event}" stands for the scene's field ``event``."""

    def setup(cu: Recorder, scene: Scene) -> Thunk:
        given = [
            getattr(scene, argument[1:-1]) if isinstance(argument, str) and argument.startswith("{") else argument
            for argument in arguments
        ]
        return lambda: cu.new(name, *given)

    return setup


def prepared(name: str, *arguments: Any) -> Setup:
    """Make a call with prepared arguments: functions among the arguments are called before the capture begins."""

    def setup(cu: Recorder, scene: Scene) -> Thunk:
        given = [argument(cu, scene) if callable(argument) and not isinstance(argument, type) else argument
                 for argument in arguments]  # fmt: skip
        return lambda: cu.new(name, *given)

    return setup


def pinned(cu: Recorder, _: Scene) -> int:
    return int(cu.prepare("cuMemHostAlloc", c_void_p, 64, 0))


def memory(cu: Recorder, _: Scene) -> int:
    return cu.memory(64)


def pool(cu: Recorder, _: Scene) -> int:
    return int(cu.prepare("cuMemPoolCreate", c_void_p, device_pool()))


def default_pool(cu: Recorder, _: Scene) -> int:
    return int(cu.prepare("cuDeviceGetDefaultMemPool", c_void_p, 0))


def pooled(cu: Recorder, scene: Scene) -> int:
    address = int(cu.prepare("cuMemAllocAsync", c_uint64, 64, scene.other))
    cu.prepare("cuStreamSynchronize", scene.other)
    return address


def managed(cu: Recorder, _: Scene) -> int:
    return int(cu.prepare("cuMemAllocManaged", c_uint64, 65536, 1))


def stream(cu: Recorder, _: Scene) -> int:
    return cu.stream(NON_BLOCKING)


def event(cu: Recorder, _: Scene) -> int:
    return cu.event()


def recorded(cu: Recorder, scene: Scene) -> int:
    made = cu.event()
    cu.prepare("cuEventRecord", made, scene.other)
    cu.prepare("cuEventSynchronize", made)
    return made


def library(cu: Recorder, _: Scene) -> int:
    return cu.library(KERNELS)


def module(cu: Recorder, _: Scene) -> int:
    return int(cu.prepare("cuModuleLoadData", c_void_p, KERNELS))


def kernel(cu: Recorder, _: Scene) -> int:
    return cu.kernel(KERNELS, "nothing")


def function(cu: Recorder, _: Scene) -> int:
    return cu.function(KERNELS, "nothing")


def buffer(_: Recorder, __: Scene) -> Any:
    return tools.keep(ctypes.create_string_buffer(64))


def other(_: Recorder, scene: Scene) -> int:
    return scene.other


def capturing(_: Recorder, scene: Scene) -> int:
    return scene.capturing


def blocking(_: Recorder, scene: Scene) -> int:
    return scene.blocking


def graph(cu: Recorder, _: Scene) -> int:
    made = tools.graph(cu)
    tools.empty(cu, made)
    return made


def executable(cu: Recorder, scene: Scene) -> int:
    return tools.instantiate(cu, graph(cu, scene))


def host_function(_: Recorder, __: Scene) -> Any:
    return tools.keep(HOST_FUNCTION(lambda _: None))


def user_object(cu: Recorder, scene: Scene) -> int:
    return int(cu.prepare("cuUserObjectCreate", c_void_p, None, host_function(cu, scene), 1, 1))


def attribute(_: Recorder, __: Scene) -> Any:
    return tools.keep((c_uint * 16)(1))


def reserved(cu: Recorder, _: Scene) -> int:
    return int(cu.prepare("cuMemAddressReserve", c_uint64, 2 << 20, 0, 0, 0))


def location(_: Recorder, __: Scene) -> Any:
    return tools.keep(Location(1, 0))


def access(_: Recorder, __: Scene) -> Any:
    return tools.keep(Access(Location(1, 0), 3))


def host_page(_: Recorder, __: Scene) -> int:
    made = tools.keep(ctypes.create_string_buffer(8192))
    return (ctypes.addressof(made) + 4095) // 4096 * 4096


def registered(cu: Recorder, scene: Scene) -> int:
    page = host_page(cu, scene)
    cu.prepare("cuMemHostRegister_v2", page, 4096, 0)
    return page


# Calls that have nothing to do with the stream that captures.
ELSEWHERE: dict[str, Setup] = {
    "device_queries": plain("cuDeviceGetAttribute", c_int, 16, 0),
    "device_memory": plain("cuDeviceTotalMem_v2", c_size_t, 0),
    "device_name": plain("cuDeviceGetCount", c_int),
    "primary_state": plain("cuDevicePrimaryCtxGetState", 0, c_uint, c_int),
    "primary_retain": plain("cuDevicePrimaryCtxRetain", c_void_p, 0),
    "context_current": plain("cuCtxGetCurrent", c_void_p),
    "context_set": plain("cuCtxSetCurrent", "{context}"),
    "context_device": plain("cuCtxGetDevice", c_int),
    "context_limit": plain("cuCtxGetLimit", c_size_t, 0),
    "context_set_limit": plain("cuCtxSetLimit", 0, 2048),
    "context_flags": plain("cuCtxGetFlags", c_uint),
    "context_priorities": plain("cuCtxGetStreamPriorityRange", c_int, c_int),
    "context_synchronize": plain("cuCtxSynchronize"),
    "memory_info": plain("cuMemGetInfo_v2", c_size_t, c_size_t),
    "alloc": plain("cuMemAlloc_v2", c_uint64, 64),
    "alloc_pitch": plain("cuMemAllocPitch_v2", c_uint64, c_size_t, 64, 4, 4),
    "alloc_host": plain("cuMemHostAlloc", c_void_p, 64, 0),
    "alloc_managed": plain("cuMemAllocManaged", c_uint64, 64, 1),
    "free": prepared("cuMemFree_v2", memory),
    "free_null": plain("cuMemFree_v2", 0),
    "free_host": prepared("cuMemFreeHost", pinned),
    "register": prepared("cuMemHostRegister_v2", host_page, 4096, 0),
    "unregister": prepared("cuMemHostUnregister", registered),
    "device_pointer": prepared("cuMemHostGetDevicePointer_v2", c_uint64, pinned, 0),
    "host_flags": prepared("cuMemHostGetFlags", c_uint, pinned),
    "address_range": prepared("cuMemGetAddressRange_v2", c_uint64, c_size_t, memory),
    "pointer_attribute": prepared("cuPointerGetAttribute", c_uint64, 2, memory),
    "pointer_set_attribute": prepared("cuPointerSetAttribute", c_int, 6, memory),
    "copy_to_device": prepared("cuMemcpyHtoD_v2", memory, buffer, 16),
    "copy_to_host": prepared("cuMemcpyDtoH_v2", buffer, memory, 16),
    "copy_on_device": prepared("cuMemcpyDtoD_v2", memory, memory, 16),
    "copy": prepared("cuMemcpy", memory, memory, 16),
    "set": prepared("cuMemsetD8_v2", memory, 1, 16),
    "copy_async": prepared("cuMemcpyDtoDAsync_v2", memory, memory, 16, other),
    "copy_async_pageable": prepared("cuMemcpyHtoDAsync_v2", memory, buffer, 16, other),
    "set_async": prepared("cuMemsetD8Async", memory, 1, 16, other),
    "set_async_blocking": prepared("cuMemsetD8Async", memory, 1, 16, blocking),
    "set_async_legacy": prepared("cuMemsetD8Async", memory, 1, 16, None),
    "set_async_per_thread": prepared("cuMemsetD8Async", memory, 1, 16, 2),
    "launch": prepared("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, other, None, None),
    "host_function": prepared("cuLaunchHostFunc", other, host_function, None),
    "pool_create": plain("cuMemPoolCreate", c_void_p, device_pool()),
    "pool_destroy": prepared("cuMemPoolDestroy", pool),
    "pool_get": prepared("cuMemPoolGetAttribute", pool, 5, c_uint64),
    "pool_get_threshold": prepared("cuMemPoolGetAttribute", default_pool, 4, c_uint64),
    "pool_set": prepared("cuMemPoolSetAttribute", pool, 4, c_uint64),
    "pool_access": prepared("cuMemPoolGetAccess", c_int, pool, location),
    "pool_set_access": prepared("cuMemPoolSetAccess", pool, access, 1),
    "pool_trim": prepared("cuMemPoolTrimTo", pool, 0),
    "default_pool": plain("cuDeviceGetDefaultMemPool", c_void_p, 0),
    "current_pool": plain("cuDeviceGetMemPool", c_void_p, 0),
    "alloc_async": plain("cuMemAllocAsync", c_uint64, 64, "{other}"),
    "alloc_from_pool": prepared("cuMemAllocFromPoolAsync", c_uint64, 64, pool, other),
    "free_async": prepared("cuMemFreeAsync", pooled, other),
    "free_async_memory": prepared("cuMemFreeAsync", memory, other),
    "stream_create": plain("cuStreamCreate", c_void_p, 1),
    "stream_create_blocking": plain("cuStreamCreate", c_void_p, 0),
    "stream_destroy": prepared("cuStreamDestroy_v2", stream),
    "stream_synchronize": plain("cuStreamSynchronize", "{other}"),
    "stream_synchronize_blocking": plain("cuStreamSynchronize", "{blocking}"),
    "stream_synchronize_legacy": plain("cuStreamSynchronize", None),
    "stream_synchronize_per_thread": plain("cuStreamSynchronize", 2),
    "stream_query": plain("cuStreamQuery", "{other}"),
    "stream_query_legacy": plain("cuStreamQuery", None),
    "stream_flags": plain("cuStreamGetFlags", "{other}", c_uint),
    "event_create": plain("cuEventCreate", c_void_p, 0),
    "event_destroy": prepared("cuEventDestroy_v2", event),
    "event_record": plain("cuEventRecord", "{event}", "{other}"),
    "event_record_legacy": plain("cuEventRecord", "{event}", None),
    "event_query": prepared("cuEventQuery", event),
    "event_query_recorded": prepared("cuEventQuery", recorded),
    "event_synchronize": prepared("cuEventSynchronize", event),
    "event_synchronize_recorded": prepared("cuEventSynchronize", recorded),
    "event_elapsed": prepared("cuEventElapsedTime_v2", c_float, recorded, recorded),
    "event_wait": prepared("cuStreamWaitEvent", other, recorded, 0),
    "library_load": plain("cuLibraryLoadData", c_void_p, KERNELS, None, None, 0, None, None, 0),
    "library_unload": prepared("cuLibraryUnload", library),
    "library_kernel": prepared("cuLibraryGetKernel", c_void_p, library, b"nothing"),
    "library_global": prepared("cuLibraryGetGlobal", c_uint64, c_size_t, library, b"counter"),
    "kernel_function": prepared("cuKernelGetFunction", c_void_p, kernel),
    "kernel_attribute": prepared("cuKernelGetAttribute", c_int, 0, kernel, 0),
    "kernel_set_attribute": prepared("cuKernelSetAttribute", 8, 1024, kernel, 0),
    "function_attribute": prepared("cuFuncGetAttribute", c_int, 0, function),
    "function_set_attribute": prepared("cuFuncSetAttribute", function, 8, 1024),
    "function_load": prepared("cuFuncLoad", function),
    "module_load": plain("cuModuleLoadData", c_void_p, KERNELS),
    "module_unload": prepared("cuModuleUnload", module),
    "module_function": prepared("cuModuleGetFunction", c_void_p, module, b"nothing"),
    "occupancy": prepared("cuOccupancyMaxActiveBlocksPerMultiprocessor", c_int, function, 32, 0),
    "reserve_addresses": plain("cuMemAddressReserve", c_uint64, 2 << 20, 0, 0, 0),
    "free_addresses": prepared("cuMemAddressFree", reserved, 2 << 20),
    "create_memory": plain("cuMemCreate", c_uint64, 2 << 20, device_allocation(), 0),
    "granularity": plain("cuMemGetAllocationGranularity", c_size_t, device_allocation(), 0),
    "graph_create": plain("cuGraphCreate", c_void_p, 0),
    "graph_destroy": prepared("cuGraphDestroy", graph),
    "graph_clone": prepared("cuGraphClone", c_void_p, graph),
    "graph_add": prepared("cuGraphAddEmptyNode", c_void_p, graph, None, 0),
    "graph_instantiate": prepared("cuGraphInstantiateWithFlags", c_void_p, graph, 0),
    "graph_upload": prepared("cuGraphUpload", executable, other),
    "graph_launch": prepared("cuGraphLaunch", executable, other),
    "graph_exec_destroy": prepared("cuGraphExecDestroy", executable),
    "graph_memory_trim": plain("cuDeviceGraphMemTrim", 0),
    "graph_memory_get": plain("cuDeviceGetGraphMemAttribute", 0, 0, c_uint64),
    "graph_memory_set": plain("cuDeviceSetGraphMemAttribute", 0, 1, c_uint64),
    "user_object_create": prepared("cuUserObjectCreate", c_void_p, None, host_function, 1, 1),
    "user_object_release": prepared("cuUserObjectRelease", user_object, 1),
    "prefetch": prepared("cuMemPrefetchAsync_v2", managed, 4096, Location(1, 0), 0, other),
    "advise": prepared("cuMemAdvise_v2", managed, 4096, 3, Location(1, 0)),
    "context_create": plain("cuCtxCreate_v2", c_void_p, 0, 0),
    "can_access_peer": plain("cuDeviceCanAccessPeer", c_int, 0, 0),
    "ipc_memory": prepared("cuIpcGetMemHandle", buffer, memory),
    "error_name": plain("cuGetErrorName", 1, c_char_p),
}  # fmt: skip


# Calls on the stream that captures.
HERE: dict[str, Setup] = {
    "synchronize": plain("cuStreamSynchronize", "{capturing}"),
    "query": plain("cuStreamQuery", "{capturing}"),
    "flags": plain("cuStreamGetFlags", "{capturing}", c_uint),
    "priority": plain("cuStreamGetPriority", "{capturing}", c_int),
    "identifier": plain("cuStreamGetId", "{capturing}", c_uint64),
    "context": plain("cuStreamGetCtx", "{capturing}", c_void_p),
    "device": plain("cuStreamGetDevice", "{capturing}", c_int),
    "attribute": prepared("cuStreamGetAttribute", capturing, 3, attribute),
    "set_attribute": prepared("cuStreamSetAttribute", capturing, 3, attribute),
    "copy_attributes": plain("cuStreamCopyAttributes", "{capturing}", "{other}"),
    "begin_again": plain("cuStreamBeginCapture_v2", "{capturing}", 0),
    "begin_mode_unknown": plain("cuStreamBeginCapture_v2", "{other}", 7),
    "begin_another": plain("cuStreamBeginCapture_v2", "{other}", 2),
    "end_another": plain("cuStreamEndCapture", "{other}", c_void_p),
    "copy_on_device": prepared("cuMemcpyDtoDAsync_v2", memory, memory, 16, capturing),
    "copy_pinned_to_device": prepared("cuMemcpyHtoDAsync_v2", memory, pinned, 16, capturing),
    "copy_pageable_to_device": prepared("cuMemcpyHtoDAsync_v2", memory, buffer, 16, capturing),
    "copy_to_pageable": prepared("cuMemcpyDtoHAsync_v2", buffer, memory, 16, capturing),
    "copy_of_nothing": prepared("cuMemcpyDtoDAsync_v2", memory, memory, 0, capturing),
    "copy_from_nowhere": prepared("cuMemcpyDtoDAsync_v2", memory, 4096, 16, capturing),
    "set": prepared("cuMemsetD32Async", memory, 7, 4, capturing),
    "set_of_nothing": prepared("cuMemsetD32Async", memory, 7, 0, capturing),
    "set_nowhere": prepared("cuMemsetD32Async", 4096, 7, 4, capturing),
    "launch": prepared("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, capturing, None, None),
    "launch_too_large": prepared("cuLaunchKernel", kernel, 1, 1, 1, 2048, 1, 1, 0, capturing, None, None),
    "launch_null": prepared("cuLaunchKernel", None, 1, 1, 1, 1, 1, 1, 0, capturing, None, None),
    "launch_cooperative": prepared("cuLaunchCooperativeKernel", kernel, 1, 1, 1, 1, 1, 1, 0, capturing, None),
    "host_function": prepared("cuLaunchHostFunc", capturing, host_function, None),
    "host_function_null": plain("cuLaunchHostFunc", "{capturing}", None, None),
    "callback": prepared("cuStreamAddCallback", capturing, host_function, None, 0),
    "alloc": plain("cuMemAllocAsync", c_uint64, 64, "{capturing}"),
    "alloc_of_nothing": plain("cuMemAllocAsync", c_uint64, 0, "{capturing}"),
    "alloc_from_pool": prepared("cuMemAllocFromPoolAsync", c_uint64, 64, pool, capturing),
    "free_outside": prepared("cuMemFreeAsync", pooled, capturing),
    "free_memory": prepared("cuMemFreeAsync", memory, capturing),
    "free_null": plain("cuMemFreeAsync", 0, "{capturing}"),
    "wait_value": prepared("cuStreamWaitValue32_v2", capturing, memory, 0, 0),
    "write_value": prepared("cuStreamWriteValue32_v2", capturing, memory, 0, 0),
    "write_value_64": prepared("cuStreamWriteValue64_v2", capturing, memory, 0, 0),
    "prefetch": prepared("cuMemPrefetchAsync_v2", managed, 4096, Location(1, 0), 0, capturing),
    "attach": prepared("cuStreamAttachMemAsync", capturing, managed, 0, 1),
    "record": plain("cuEventRecord", "{event}", "{capturing}"),
    "record_external": plain("cuEventRecordWithFlags", "{event}", "{capturing}", 1),
    "record_bad_flags": plain("cuEventRecordWithFlags", "{event}", "{capturing}", 2),
    "wait_own": plain("cuStreamWaitEvent", "{capturing}", "{captured}", 0),
    "wait_outside": prepared("cuStreamWaitEvent", capturing, recorded, 0),
    "wait_never_recorded": prepared("cuStreamWaitEvent", capturing, event, 0),
    "wait_external": prepared("cuStreamWaitEvent", capturing, recorded, 1),
    "wait_external_own": plain("cuStreamWaitEvent", "{capturing}", "{captured}", 1),
    "captured_event_query": plain("cuEventQuery", "{captured}"),
    "captured_event_synchronize": plain("cuEventSynchronize", "{captured}"),
    "captured_event_elapsed": prepared("cuEventElapsedTime_v2", c_float, recorded, lambda _, s: s.captured),
    "captured_event_destroy": plain("cuEventDestroy_v2", "{captured}"),
    "captured_event_record": plain("cuEventRecord", "{captured}", "{other}"),
    "captured_event_wait": plain("cuStreamWaitEvent", "{other}", "{captured}", 0),
    "captured_event_wait_external": plain("cuStreamWaitEvent", "{other}", "{captured}", 1),
    "graph_launch": prepared("cuGraphLaunch", executable, capturing),
    "graph_upload": prepared("cuGraphUpload", executable, capturing),
    "context_record": plain("cuCtxRecordEvent", "{context}", "{event}"),
    "context_wait": prepared("cuCtxWaitEvent", lambda _, s: s.context, recorded),
    "update_nothing": plain("cuStreamUpdateCaptureDependencies_v2", "{capturing}", None, None, 0, 1),
    "peer_copy": prepared("cuMemcpyPeerAsync", memory, lambda _, s: s.context, memory, lambda _, s: s.context, 16,
                          capturing),
}  # fmt: skip

# Calls for the legacy stream, made while a blocking stream captures.
IMPLICIT: dict[str, Setup] = {
    "set": prepared("cuMemsetD8Async", memory, 1, 16, None),
    "set_synchronous": prepared("cuMemsetD8_v2", memory, 1, 16),
    "copy": prepared("cuMemcpyDtoH_v2", buffer, memory, 16),
    "launch": prepared("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None),
    "host_function": prepared("cuLaunchHostFunc", None, host_function, None),
    "record": plain("cuEventRecord", "{event}", None),
    "wait": prepared("cuStreamWaitEvent", None, recorded, 0),
    "wait_captured": plain("cuStreamWaitEvent", None, "{captured}", 0),
    "synchronize": plain("cuStreamSynchronize", None),
    "query": plain("cuStreamQuery", None),
    "is_capturing": plain("cuStreamIsCapturing", None, c_int),
    "capture_info": plain("cuStreamGetCaptureInfo_v2", None, c_int, c_uint64, None, None, None),
    "begin": plain("cuStreamBeginCapture_v2", None, 2),
    "end": plain("cuStreamEndCapture", None, c_void_p),
    "alloc": plain("cuMemAllocAsync", c_uint64, 64, None),
    "free": prepared("cuMemFreeAsync", pooled, None),
    "graph_launch": prepared("cuGraphLaunch", executable, None),
    "per_thread": prepared("cuMemsetD8Async", memory, 1, 16, 2),
    "blocking": prepared("cuMemsetD8Async", memory, 1, 16, blocking),
    "stream_flags": plain("cuStreamGetFlags", None, c_uint),
}


def _try(cu: Recorder, setup: Setup, mode: int, flags: int, around: Callable[[Recorder, Thunk], None]) -> None:
    """Make one call while a stream captures, and list the effect on the capture."""
    scene = Scene(cu.stream(flags), cu.stream(NON_BLOCKING), cu.stream(), cu.memory(64), cu.event(), cu.event(),
                  tools.context(cu))  # fmt: skip
    thunk = setup(cu, scene)
    cu.prepare("cuCtxSynchronize")
    tools.begin(cu, scene.capturing, mode)
    cu.prepare("cuMemsetD32Async", scene.address, 7, 4, scene.capturing)
    cu.prepare("cuEventRecord", scene.captured, scene.capturing)
    around(cu, thunk)
    tools.status(cu, scene.capturing)
    made = c_void_p()
    code, _ = cu.silent("cuStreamEndCapture", scene.capturing, made)
    cu.see("end", code)
    if made.value:
        count = cu.prepare("cuGraphGetNodes", made.value, None, c_size_t)
        cu.see("nodes", count)
    for stream in (scene.other, scene.blocking):  # the call may have added these streams to the capture
        cu.attempt("cuStreamEndCapture", stream, c_void_p)


def _here(_: Recorder, thunk: Thunk) -> None:
    thunk()


def _relaxed(cu: Recorder, thunk: Thunk) -> None:
    with tools.thread_mode(cu, RELAXED):
        thunk()


def _local(cu: Recorder, thunk: Thunk) -> None:
    with tools.thread_mode(cu, THREAD_LOCAL):
        thunk()


def _in_thread(make: Place) -> Place:
    return lambda cu, thunk: cu.in_thread(lambda: make(cu, thunk), tools.context(cu))


# Each row has the mode of the capture, a description of the thread and its mode, and a function that makes the call
# there.
PLACES: list[tuple[int, str, Place]] = [
    (GLOBAL, "the same thread", _here),
    (THREAD_LOCAL, "the same thread", _here),
    (RELAXED, "the same thread", _here),
    (GLOBAL, "the same thread, relaxed", _relaxed),
    (GLOBAL, "another thread", _in_thread(_here)),
    (THREAD_LOCAL, "another thread", _in_thread(_here)),
    (GLOBAL, "another thread, thread-local", _in_thread(_local)),
    (GLOBAL, "another thread, relaxed", _in_thread(_relaxed)),
]


def _make(setup: Setup, places: list[Any], flags: int) -> Callable[[Recorder], None]:
    def sequence(cu: Recorder) -> None:
        for mode, where, around in places:
            cu.see(MODES[mode], where)
            _try(cu, setup, mode, flags, around)

    return sequence


for _name, _setup in ELSEWHERE.items():
    tools.register("capture_rules", f"elsewhere_{_name}", f"{_name} while another stream captures.",
                   _make(_setup, PLACES, NON_BLOCKING))  # fmt: skip
for _name, _setup in HERE.items():
    tools.register("capture_rules", f"here_{_name}", f"{_name} where the stream captures.",
                   _make(_setup, PLACES[:3], NON_BLOCKING))  # fmt: skip
for _name, _setup in IMPLICIT.items():
    tools.register("capture_rules", f"implicit_{_name}", f"{_name} while a blocking stream captures.",
                   _make(_setup, [PLACES[0], PLACES[2], PLACES[5]], 0))  # fmt: skip
