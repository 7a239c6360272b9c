# SPDX-License-Identifier: Apache-2.0
"""Calls on destroyed handles: a table of the kinds of handles, and of the calls that use them.

After such a call, a real driver crashes, returns an error code, or seems to work. The results on an H200 are in
``stale_outcomes.def``, which record_stale.py writes. The simulator reports every one of these calls, and the report
describes what a real driver does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

import graph_tools
import ptx
from recorder import HOST_FUNCTION, Recorder, Sequence, pointers
from structs import (
    FROM_ARRAY,
    Access,
    Array3DDescriptor,
    ArrayDescriptor,
    Copy2D,
    Location,
    Resource,
    ResourceDescriptor,
    TextureDescriptor,
    device_allocation,
    device_pool,
    launch_configuration,
)

Arguments = tuple[Any, ...]

# Stands for the destroyed handle in the arguments of a call.
HANDLE = object()

# The arguments of a call, or a function that returns all arguments. A single argument can also be a function.
Template = Arguments | Callable[[Recorder, int], Arguments]

# A function that makes a handle, destroys it, and returns it.
Maker = Callable[[Recorder], int]

STALE: dict[str, Sequence] = {}


@dataclass(frozen=True)
class Call:
    """A driver function that a case calls, and the kind of the destroyed handle as in ``enum Kind``."""

    function: str
    kind: str


CALLS: dict[str, Call] = {}  # the calls, by the names of their cases


def _made(cu: Recorder, handle: int, template: Template) -> Arguments:
    if callable(template):
        return template(cu, handle)
    return tuple(
        handle if argument is HANDLE
        else argument(cu) if callable(argument) and not isinstance(argument, type)
        else argument
        for argument in template
    )  # fmt: skip


def _register(kind: str, make: Maker, calls: dict[str, Template], name: str = "") -> None:
    for key, template in calls.items():
        function = key.partition(" ")[0]

        def case(cu: Recorder, function: str = function, template: Template = template) -> None:
            cu.use_primary_context()
            handle = make(cu)
            cu.call(function, *_made(cu, handle, template))

        full = f"{name or kind}.{key.replace(' ', '_')}"
        STALE[full] = case
        CALLS[full] = Call(function, kind)


def _buffer(_: Recorder | None = None) -> Any:
    return graph_tools.keep(ctypes.create_string_buffer(4096))


def _memory(cu: Recorder) -> int:
    return cu.memory(64)


def _destroyed(cu: Recorder, destroy: str, create: str, *arguments: object) -> int:
    made = int(cu.prepare(create, *arguments))
    cu.prepare(destroy, made)
    return made


def _stream(cu: Recorder) -> int:
    return _destroyed(cu, "cuStreamDestroy_v2", "cuStreamCreate", c_void_p, 0)


def _callback(_: Recorder | None = None) -> Any:
    return graph_tools.keep(HOST_FUNCTION(lambda _: None))


def _exec(cu: Recorder) -> int:
    graph = graph_tools.graph(cu)
    graph_tools.empty(cu, graph)
    return int(cu.prepare("cuGraphInstantiateWithFlags", c_void_p, graph, 0))


_register(
    "stream",
    _stream,
    {
        "cuStreamQuery": (HANDLE,), "cuStreamSynchronize": (HANDLE,), "cuStreamDestroy_v2": (HANDLE,),
        "cuStreamGetFlags": (HANDLE, c_uint), "cuStreamGetPriority": (HANDLE, c_int),
        "cuStreamGetCtx": (HANDLE, c_void_p), "cuStreamGetId": (HANDLE, c_uint64), "cuStreamGetDevice": (HANDLE, c_int),
        "cuStreamWaitEvent": (HANDLE, Recorder.event, 0), "cuEventRecord": (Recorder.event, HANDLE),
        "cuMemsetD8Async": (_memory, 1, 64, HANDLE), "cuMemcpyAsync": (_memory, _memory, 64, HANDLE),
        "cuMemcpyDtoHAsync_v2": (_buffer, _memory, 64, HANDLE), "cuMemcpyHtoDAsync_v2": (_memory, _buffer, 64, HANDLE),
        "cuLaunchKernel": lambda cu, s: (
            *(cu.function(ptx.KERNELS, "nothing"), 1, 1, 1, 1, 1, 1, 0, s),
            *(pointers(), None),
        ),
        "cuLaunchKernelEx": lambda cu, s: (
            graph_tools.keep(launch_configuration(stream=s)),
            *(cu.function(ptx.KERNELS, "nothing"), pointers(), None),
        ),
        "cuLaunchHostFunc": (HANDLE, _callback, None), "cuMemAllocAsync": (c_uint64, 64, HANDLE),
        "cuMemFreeAsync": (_memory, HANDLE), "cuStreamBeginCapture_v2": (HANDLE, 0),
        "cuStreamEndCapture": (HANDLE, c_void_p), "cuStreamIsCapturing": (HANDLE, c_int),
        "cuStreamGetCaptureInfo_v2": (HANDLE, c_int, c_uint64, c_void_p, c_void_p, c_size_t),
        "cuStreamGetAttribute": (HANDLE, 3, _buffer), "cuStreamSetAttribute": (HANDLE, 3, _buffer),
        "cuStreamCopyAttributes": (HANDLE, Recorder.stream), "cuStreamWriteValue32_v2": (HANDLE, _memory, 1, 0),
        "cuStreamWaitValue32_v2": lambda cu, s: (s, cu.memory(64, 0), 0, 0),
        "cuGraphLaunch": (_exec, HANDLE), "cuGraphUpload": (_exec, HANDLE),
    },
)  # fmt: skip


def _event(cu: Recorder) -> int:
    event = cu.event()
    cu.prepare("cuEventRecord", event, 0)
    cu.prepare("cuEventSynchronize", event)
    cu.prepare("cuEventDestroy_v2", event)
    return event


def _recorded(cu: Recorder) -> int:
    event = cu.event()
    cu.prepare("cuEventRecord", event, 0)
    return event


_register(
    "event",
    _event,
    {
        "cuEventQuery": (HANDLE,), "cuEventSynchronize": (HANDLE,), "cuEventDestroy_v2": (HANDLE,),
        "cuEventRecord": (HANDLE, 0), "cuEventElapsedTime start": (ctypes.c_float, HANDLE, _recorded),
        "cuEventElapsedTime end": (ctypes.c_float, _recorded, HANDLE),
        "cuStreamWaitEvent": (Recorder.stream, HANDLE, 0), "cuIpcGetEventHandle": (_buffer, HANDLE),
        "cuGraphAddEventRecordNode": (c_void_p, graph_tools.graph, None, 0, HANDLE),
        "cuGraphAddEventWaitNode": (c_void_p, graph_tools.graph, None, 0, HANDLE),
    },
)  # fmt: skip


def _context(cu: Recorder) -> int:
    context = int(cu.prepare("cuCtxCreate_v2", c_void_p, 0, 0))
    cu.prepare("cuCtxDestroy_v2", context)
    cu.use_primary_context()
    return context


# The driver accepts a destroyed context as the current one. This is not misuse, because libraries restore the context
# that was current before.
_register(
    "context",
    _context,
    {
        "cuCtxDestroy_v2": (HANDLE,), "cuCtxGetApiVersion": (HANDLE, c_uint), "cuCtxEnablePeerAccess": (HANDLE, 0),
        "cuCtxDisablePeerAccess": (HANDLE,), "cuMemcpyPeer": (_memory, HANDLE, _memory, graph_tools.context, 64),
    },
)  # fmt: skip


def _module(cu: Recorder) -> int:
    return _destroyed(cu, "cuModuleUnload", "cuModuleLoadData", c_void_p, ptx.KERNELS)


_register(
    "module",
    _module,
    {
        "cuModuleGetFunction": (c_void_p, HANDLE, b"nothing"),
        "cuModuleGetGlobal_v2": (c_uint64, c_size_t, HANDLE, b"counter"), "cuModuleGetFunctionCount": (c_uint, HANDLE),
        "cuModuleEnumerateFunctions": (_buffer, 1, HANDLE), "cuModuleUnload": (HANDLE,),
    },
)  # fmt: skip


def _library(cu: Recorder) -> int:
    library = cu.library(ptx.KERNELS)
    cu.prepare("cuLibraryUnload", library)
    return library


_register(
    "library",
    _library,
    {
        "cuLibraryGetKernel": (c_void_p, HANDLE, b"nothing"), "cuLibraryGetModule": (c_void_p, HANDLE),
        "cuLibraryGetGlobal": (c_uint64, c_size_t, HANDLE, b"counter"),
        "cuLibraryGetManaged": (c_uint64, c_size_t, HANDLE, b"counter"), "cuLibraryGetKernelCount": (c_uint, HANDLE),
        "cuLibraryEnumerateKernels": (_buffer, 1, HANDLE), "cuLibraryUnload": (HANDLE,),
    },
)  # fmt: skip


def _kernel(cu: Recorder) -> int:
    library = cu.library(ptx.KERNELS)
    kernel = int(cu.prepare("cuLibraryGetKernel", c_void_p, library, b"nothing"))
    cu.prepare("cuKernelGetFunction", c_void_p, kernel)
    cu.prepare("cuLibraryUnload", library)
    return kernel


def _launch(function: int) -> Arguments:
    return (function, 1, 1, 1, 1, 1, 1, 0, 0, pointers(), None)


_register(
    "kernel",
    _kernel,
    {
        "cuKernelGetFunction": (c_void_p, HANDLE), "cuKernelGetAttribute": (c_int, 0, HANDLE, 0),
        "cuKernelSetAttribute": (8, 1024, HANDLE, 0), "cuKernelSetCacheConfig": (HANDLE, 1, 0),
        "cuKernelGetName": (c_char_p, HANDLE), "cuKernelGetParamInfo": (HANDLE, 0, c_size_t, c_size_t),
        "cuKernelGetLibrary": (c_void_p, HANDLE),
        "cuLaunchKernel": lambda _, k: _launch(k),
        "cuGraphAddKernelNode_v2": lambda cu, k: (
            *(c_void_p, graph_tools.graph(cu), None, 0),
            graph_tools.keep(graph_tools.kernel_params(None, kern=k, ctx=graph_tools.context(cu))),
        ),
    },
)  # fmt: skip


def _function(cu: Recorder) -> int:
    module = int(cu.prepare("cuModuleLoadData", c_void_p, ptx.KERNELS))
    function = int(cu.prepare("cuModuleGetFunction", c_void_p, module, b"nothing"))
    cu.prepare("cuModuleUnload", module)
    return function


_register(
    "function",
    _function,
    {
        "cuFuncGetAttribute": (c_int, 0, HANDLE), "cuFuncSetAttribute": (HANDLE, 8, 1024),
        "cuFuncSetCacheConfig": (HANDLE, 1), "cuFuncGetModule": (c_void_p, HANDLE), "cuFuncGetName": (c_char_p, HANDLE),
        "cuFuncGetParamInfo": (HANDLE, 0, c_size_t, c_size_t), "cuFuncIsLoaded": (c_int, HANDLE),
        "cuFuncLoad": (HANDLE,), "cuOccupancyMaxActiveBlocksPerMultiprocessor": (c_int, HANDLE, 32, 0),
        "cuLaunchKernel": lambda _, f: _launch(f),
        "cuGraphAddKernelNode_v2": lambda cu, f: (
            *(c_void_p, graph_tools.graph(cu), None, 0),
            graph_tools.keep(graph_tools.kernel_params(f)),
        ),
    },
)  # fmt: skip


def _graph(cu: Recorder) -> int:
    graph = graph_tools.graph(cu)
    graph_tools.empty(cu, graph)
    cu.prepare("cuGraphDestroy", graph)
    return graph


def _user_object(cu: Recorder) -> int:
    return int(cu.prepare("cuUserObjectCreate", c_void_p, None, _callback(), 1, 1))


_register(
    "graph",
    _graph,
    {
        "cuGraphDestroy": (HANDLE,), "cuGraphGetNodes": (HANDLE, None, c_size_t),
        "cuGraphGetRootNodes": (HANDLE, None, c_size_t), "cuGraphGetEdges": (HANDLE, None, None, c_size_t),
        "cuGraphClone": (c_void_p, HANDLE), "cuGraphInstantiateWithFlags": (c_void_p, HANDLE, 0),
        "cuGraphAddEmptyNode": (c_void_p, HANDLE, None, 0),
        "cuGraphAddChildGraphNode parent": (c_void_p, HANDLE, None, 0, graph_tools.graph),
        "cuGraphAddChildGraphNode child": (c_void_p, graph_tools.graph, None, 0, HANDLE),
        "cuGraphConditionalHandleCreate": (c_uint64, HANDLE, graph_tools.context, 0, 0),
        "cuGraphRetainUserObject": (HANDLE, _user_object, 1, 0), "cuGraphDebugDotPrint": (HANDLE, b"/dev/null", 0),
        "cuGraphExecUpdate_v2": (_exec, HANDLE, _buffer),
    },
)  # fmt: skip


def _node_of_destroyed_graph(cu: Recorder) -> int:
    graph = graph_tools.graph(cu)
    node = graph_tools.kernel(cu, graph, cu.function(ptx.KERNELS, "nothing"))
    cu.prepare("cuGraphDestroy", graph)
    return node


def _destroyed_node(cu: Recorder) -> int:
    graph = graph_tools.graph(cu)
    node = graph_tools.kernel(cu, graph, cu.function(ptx.KERNELS, "nothing"))
    cu.prepare("cuGraphDestroyNode", node)
    return node


def _dependency(cu: Recorder, node: int) -> Arguments:
    graph = graph_tools.graph(cu)
    return (graph, graph_tools.array(node), graph_tools.array(graph_tools.empty(cu, graph)), 1)


for _name, _maker in (("graph_node", _destroyed_node), ("node_of_graph", _node_of_destroyed_graph)):
    _register(
        "graph_node",
        _maker,
        {
            "cuGraphNodeGetType": (HANDLE, c_int),
            "cuGraphNodeGetDependencies": (HANDLE, None, c_size_t),
            "cuGraphNodeGetDependentNodes": (HANDLE, None, c_size_t),
            "cuGraphDestroyNode": (HANDLE,),
            "cuGraphKernelNodeGetParams_v2": (HANDLE, _buffer),
            "cuGraphKernelNodeSetParams_v2": lambda cu, n: (
                n,
                graph_tools.keep(graph_tools.kernel_params(cu.function(ptx.KERNELS, "nothing"))),
            ),
            "cuGraphKernelNodeGetAttribute": (HANDLE, 2, _buffer),
            "cuGraphAddDependencies": _dependency,
            "cuGraphAddEmptyNode": lambda cu, n: (c_void_p, graph_tools.graph(cu), graph_tools.array(n), 1),
            "cuGraphNodeFindInClone": (c_void_p, HANDLE, graph_tools.graph),
            "cuGraphNodeSetEnabled": (_exec, HANDLE, 1),
        },
        _name,
    )


def _stale_exec(cu: Recorder) -> int:
    made = _exec(cu)
    cu.prepare("cuGraphExecDestroy", made)
    return made


_register(
    "graph_exec",
    _stale_exec,
    {
        "cuGraphLaunch": (HANDLE, 0), "cuGraphUpload": (HANDLE, 0), "cuGraphExecDestroy": (HANDLE,),
        "cuGraphExecGetFlags": (HANDLE, c_uint64), "cuGraphExecUpdate_v2": (HANDLE, graph_tools.graph, _buffer),
    },
)  # fmt: skip


def _stale_user_object(cu: Recorder) -> int:
    made = _user_object(cu)
    cu.prepare("cuUserObjectRelease", made, 1)
    return made


_register(
    "user_object",
    _stale_user_object,
    {
        "cuUserObjectRetain": (HANDLE, 1), "cuUserObjectRelease": (HANDLE, 1),
        "cuGraphRetainUserObject": (graph_tools.graph, HANDLE, 1, 0),
    },
)  # fmt: skip


def _pool(cu: Recorder) -> int:
    return _destroyed(cu, "cuMemPoolDestroy", "cuMemPoolCreate", c_void_p, device_pool())


_register(
    "pool",
    _pool,
    {
        "cuMemPoolDestroy": (HANDLE,), "cuMemPoolTrimTo": (HANDLE, 0), "cuMemPoolGetAttribute": (HANDLE, 4, c_uint64),
        "cuMemPoolSetAttribute": (HANDLE, 4, c_uint64(0)), "cuMemPoolSetAccess": (HANDLE, Access(Location(1, 0), 3), 1),
        "cuMemPoolGetAccess": (c_int, HANDLE, Location(1, 0)), "cuMemAllocFromPoolAsync": (c_uint64, 64, HANDLE, 0),
        "cuDeviceSetMemPool": (0, HANDLE), "cuMemPoolExportToShareableHandle": (_buffer, HANDLE, 1, 0),
    },
)  # fmt: skip


def _physical(cu: Recorder) -> int:
    return _destroyed(cu, "cuMemRelease", "cuMemCreate", c_uint64, 2 << 20, device_allocation(), 0)


_register(
    "physical",
    _physical,
    {
        "cuMemRelease": (HANDLE,),
        "cuMemMap": lambda cu, h: (
            cu.prepare("cuMemAddressReserve", c_uint64, 2 << 20, 0, 0, 0),
            *(2 << 20, 0, h, 0),
        ),
        "cuMemExportToShareableHandle": (_buffer, HANDLE, 1, 0),
        "cuMemGetAllocationPropertiesFromHandle": (_buffer, HANDLE),
    },
)  # fmt: skip


def _array(cu: Recorder) -> int:
    return _destroyed(cu, "cuArrayDestroy", "cuArrayCreate_v2", c_void_p, ArrayDescriptor(16, 16, 0x20, 1))


def _texture_of(handle: int, kind: int = 0) -> Arguments:
    return (c_uint64, ResourceDescriptor(type=kind, handle=handle), TextureDescriptor(), None)


_register(
    "array",
    _array,
    {
        "cuArrayDestroy": (HANDLE,), "cuArrayGetDescriptor_v2": (_buffer, HANDLE),
        "cuArray3DGetDescriptor_v2": (_buffer, HANDLE),
        "cuMemcpy2D_v2": lambda cu, a: (
            Copy2D(
                srcMemoryType=2,
                srcDevice=cu.memory(256),
                srcPitch=16,
                dstMemoryType=FROM_ARRAY,
                dstArray=a,
                WidthInBytes=16,
                Height=1,
            ),
        ),
        "cuMemcpyHtoA_v2": (HANDLE, 0, _buffer, 16),
        "cuTexObjectCreate": lambda _, a: _texture_of(a),
        "cuSurfObjectCreate": lambda _, a: (c_uint64, ResourceDescriptor(type=0, handle=a)),
    },
)  # fmt: skip


def _mipmapped(cu: Recorder) -> int:
    return _destroyed(
        cu, "cuMipmappedArrayDestroy", "cuMipmappedArrayCreate", c_void_p, Array3DDescriptor(16, 16, 0, 0x20, 1, 0), 2
    )


_register(
    "mipmapped_array",
    _mipmapped,
    {
        "cuMipmappedArrayDestroy": (HANDLE,), "cuMipmappedArrayGetLevel": (c_void_p, HANDLE, 0),
        "cuTexObjectCreate": lambda _, a: _texture_of(a, 1),
    },
)  # fmt: skip


def _live_array(cu: Recorder, flags: int = 0) -> int:
    return int(cu.prepare("cuArray3DCreate_v2", c_void_p, Array3DDescriptor(16, 16, 0, 0x20, 1, flags)))


def _texture(cu: Recorder) -> int:
    return _destroyed(cu, "cuTexObjectDestroy", "cuTexObjectCreate", *_texture_of(_live_array(cu)))


_register(
    "texture",
    _texture,
    {
        "cuTexObjectDestroy": (HANDLE,), "cuTexObjectGetResourceDesc": (_buffer, HANDLE),
        "cuTexObjectGetTextureDesc": (_buffer, HANDLE), "cuTexObjectGetResourceViewDesc": (_buffer, HANDLE),
    },
)  # fmt: skip


def _surface(cu: Recorder) -> int:
    described = ResourceDescriptor(type=0, handle=_live_array(cu, 2))
    return _destroyed(cu, "cuSurfObjectDestroy", "cuSurfObjectCreate", c_uint64, described)


_register(
    "surface",
    _surface,
    {
        "cuSurfObjectDestroy": (HANDLE,), "cuSurfObjectGetResourceDesc": (_buffer, HANDLE),
    },
)  # fmt: skip


def _link(cu: Recorder) -> int:
    return _destroyed(cu, "cuLinkDestroy", "cuLinkCreate_v2", 0, None, None, c_void_p)


_register(
    "link",
    _link,
    {
        "cuLinkAddData_v2": (HANDLE, 1, ptx.EMPTY_MODULE, len(ptx.EMPTY_MODULE), b"part", 0, None, None),
        "cuLinkComplete": (HANDLE, c_void_p, c_size_t), "cuLinkDestroy": (HANDLE,),
    },
)  # fmt: skip


def _green(cu: Recorder) -> int:
    groups = Resource()
    cu.prepare("cuDeviceGetDevResource", 0, groups, 1)
    part, rest, count = Resource(), Resource(), c_uint(1)
    cu.prepare("cuDevSmResourceSplitByCount", part, count, groups, rest, 0, 8)
    described = cu.prepare("cuDevResourceGenerateDesc", c_void_p, part, 1)
    return _destroyed(cu, "cuGreenCtxDestroy", "cuGreenCtxCreate", c_void_p, described, 0, 1)


_register(
    "green_context",
    _green,
    {
        "cuGreenCtxDestroy": (HANDLE,), "cuCtxFromGreenCtx": (c_void_p, HANDLE),
        "cuGreenCtxGetDevResource": (HANDLE, Resource(), 1), "cuGreenCtxStreamCreate": (c_void_p, HANDLE, 1, 0),
        "cuGreenCtxRecordEvent": (HANDLE, Recorder.event), "cuGreenCtxWaitEvent": (HANDLE, _recorded),
    },
)  # fmt: skip
