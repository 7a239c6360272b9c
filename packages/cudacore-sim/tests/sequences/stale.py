# SPDX-License-Identifier: Apache-2.0
"""Calls on destroyed handles: a table of the kinds of handles, and of the calls that use them.

A driver crashes, returns an error code, or seems to work. The results of an H200 are in ``stale_outcomes.def``, which
record_stale.py writes. The simulator reports every one of these calls, and the report names what the driver does.
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

# A function that makes a handle, destroys it, and returns it.
Maker = Callable[[Recorder], int]

STALE: dict[str, Sequence] = {}


@dataclass(frozen=True)
class Call:
    """The function that a case calls, and the kind of the destroyed handle, by its name in ``enum Kind``."""

    function: str
    kind: str


CALLS: dict[str, Call] = {}  # by the names of cases


def _register(kind: str, make: Maker, calls: dict[str, Callable[[Recorder, int], Arguments]], name: str = "") -> None:
    for key, arguments in calls.items():
        function = key.partition(" ")[0]

        def case(
            cu: Recorder, function: str = function, arguments: Callable[[Recorder, int], Arguments] = arguments
        ) -> None:
            cu.use_primary_context()
            handle = make(cu)
            cu.call(function, *arguments(cu, handle))

        full = f"{name or kind}.{key.replace(' ', '_')}"
        STALE[full] = case
        CALLS[full] = Call(function, kind)


def _buffer(size: int = 4096) -> Any:
    return graph_tools.keep(ctypes.create_string_buffer(size))


def _stream(cu: Recorder) -> int:
    stream = cu.stream()
    cu.prepare("cuStreamDestroy_v2", stream)
    return stream


def _callback() -> Any:
    return graph_tools.keep(HOST_FUNCTION(lambda _: None))


def _exec(cu: Recorder) -> int:
    graph = graph_tools.graph(cu)
    graph_tools.empty(cu, graph)
    return int(cu.prepare("cuGraphInstantiateWithFlags", c_void_p, graph, 0))


_register(
    "stream",
    _stream,
    {
        "cuStreamQuery": lambda _, s: (s,),
        "cuStreamSynchronize": lambda _, s: (s,),
        "cuStreamDestroy_v2": lambda _, s: (s,),
        "cuStreamGetFlags": lambda _, s: (s, c_uint),
        "cuStreamGetPriority": lambda _, s: (s, c_int),
        "cuStreamGetCtx": lambda _, s: (s, c_void_p),
        "cuStreamGetId": lambda _, s: (s, c_uint64),
        "cuStreamGetDevice": lambda _, s: (s, c_int),
        "cuStreamWaitEvent": lambda cu, s: (s, cu.event(), 0),
        "cuEventRecord": lambda cu, s: (cu.event(), s),
        "cuMemsetD8Async": lambda cu, s: (cu.memory(64), 1, 64, s),
        "cuMemcpyAsync": lambda cu, s: (cu.memory(64), cu.memory(64), 64, s),
        "cuMemcpyDtoHAsync_v2": lambda cu, s: (_buffer(), cu.memory(64), 64, s),
        "cuMemcpyHtoDAsync_v2": lambda cu, s: (cu.memory(64), _buffer(), 64, s),
        "cuLaunchKernel": lambda cu, s: (
            *(cu.function(ptx.KERNELS, "nothing"), 1, 1, 1, 1, 1, 1, 0, s),
            *(pointers(), None),
        ),
        "cuLaunchKernelEx": lambda cu, s: (
            graph_tools.keep(launch_configuration(stream=s)),
            *(cu.function(ptx.KERNELS, "nothing"), pointers(), None),
        ),
        "cuLaunchHostFunc": lambda _, s: (s, _callback(), None),
        "cuMemAllocAsync": lambda _, s: (c_uint64, 64, s),
        "cuMemFreeAsync": lambda cu, s: (cu.memory(64), s),
        "cuStreamBeginCapture_v2": lambda _, s: (s, 0),
        "cuStreamEndCapture": lambda _, s: (s, c_void_p),
        "cuStreamIsCapturing": lambda _, s: (s, c_int),
        "cuStreamGetCaptureInfo_v2": lambda _, s: (s, c_int, c_uint64, c_void_p, c_void_p, c_size_t),
        "cuStreamGetAttribute": lambda _, s: (s, 3, _buffer()),
        "cuStreamSetAttribute": lambda _, s: (s, 3, _buffer()),
        "cuStreamCopyAttributes": lambda cu, s: (s, cu.stream()),
        "cuStreamWriteValue32_v2": lambda cu, s: (s, cu.memory(64), 1, 0),
        "cuStreamWaitValue32_v2": lambda cu, s: (s, cu.memory(64, 0), 0, 0),
        "cuGraphLaunch": lambda cu, s: (_exec(cu), s),
        "cuGraphUpload": lambda cu, s: (_exec(cu), s),
    },
)


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
        "cuEventQuery": lambda _, e: (e,),
        "cuEventSynchronize": lambda _, e: (e,),
        "cuEventDestroy_v2": lambda _, e: (e,),
        "cuEventRecord": lambda _, e: (e, 0),
        "cuEventElapsedTime start": lambda cu, e: (ctypes.c_float, e, _recorded(cu)),
        "cuEventElapsedTime end": lambda cu, e: (ctypes.c_float, _recorded(cu), e),
        "cuStreamWaitEvent": lambda cu, e: (cu.stream(), e, 0),
        "cuIpcGetEventHandle": lambda _, e: (_buffer(64), e),
        "cuGraphAddEventRecordNode": lambda cu, e: (c_void_p, graph_tools.graph(cu), None, 0, e),
        "cuGraphAddEventWaitNode": lambda cu, e: (c_void_p, graph_tools.graph(cu), None, 0, e),
    },
)


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
        "cuCtxDestroy_v2": lambda _, c: (c,),
        "cuCtxGetApiVersion": lambda _, c: (c, c_uint),
        "cuCtxEnablePeerAccess": lambda _, c: (c, 0),
        "cuCtxDisablePeerAccess": lambda _, c: (c,),
        "cuMemcpyPeer": lambda cu, c: (cu.memory(64), c, cu.memory(64), graph_tools.context(cu), 64),
    },
)


def _module(cu: Recorder) -> int:
    module = int(cu.prepare("cuModuleLoadData", c_void_p, ptx.KERNELS))
    cu.prepare("cuModuleUnload", module)
    return module


_register(
    "module",
    _module,
    {
        "cuModuleGetFunction": lambda _, m: (c_void_p, m, b"nothing"),
        "cuModuleGetGlobal_v2": lambda _, m: (c_uint64, c_size_t, m, b"counter"),
        "cuModuleGetFunctionCount": lambda _, m: (c_uint, m),
        "cuModuleEnumerateFunctions": lambda _, m: (_buffer(), 1, m),
        "cuModuleUnload": lambda _, m: (m,),
    },
)


def _library(cu: Recorder) -> int:
    library = cu.library(ptx.KERNELS)
    cu.prepare("cuLibraryUnload", library)
    return library


_register(
    "library",
    _library,
    {
        "cuLibraryGetKernel": lambda _, x: (c_void_p, x, b"nothing"),
        "cuLibraryGetModule": lambda _, x: (c_void_p, x),
        "cuLibraryGetGlobal": lambda _, x: (c_uint64, c_size_t, x, b"counter"),
        "cuLibraryGetManaged": lambda _, x: (c_uint64, c_size_t, x, b"counter"),
        "cuLibraryGetKernelCount": lambda _, x: (c_uint, x),
        "cuLibraryEnumerateKernels": lambda _, x: (_buffer(), 1, x),
        "cuLibraryUnload": lambda _, x: (x,),
    },
)


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
        "cuKernelGetFunction": lambda _, k: (c_void_p, k),
        "cuKernelGetAttribute": lambda _, k: (c_int, 0, k, 0),
        "cuKernelSetAttribute": lambda _, k: (8, 1024, k, 0),
        "cuKernelSetCacheConfig": lambda _, k: (k, 1, 0),
        "cuKernelGetName": lambda _, k: (c_char_p, k),
        "cuKernelGetParamInfo": lambda _, k: (k, 0, c_size_t, c_size_t),
        "cuKernelGetLibrary": lambda _, k: (c_void_p, k),
        "cuLaunchKernel": lambda _, k: _launch(k),
        "cuGraphAddKernelNode_v2": lambda cu, k: (
            *(c_void_p, graph_tools.graph(cu), None, 0),
            graph_tools.keep(graph_tools.kernel_params(None, kern=k, ctx=graph_tools.context(cu))),
        ),
    },
)


def _function(cu: Recorder) -> int:
    module = int(cu.prepare("cuModuleLoadData", c_void_p, ptx.KERNELS))
    function = int(cu.prepare("cuModuleGetFunction", c_void_p, module, b"nothing"))
    cu.prepare("cuModuleUnload", module)
    return function


_register(
    "function",
    _function,
    {
        "cuFuncGetAttribute": lambda _, f: (c_int, 0, f),
        "cuFuncSetAttribute": lambda _, f: (f, 8, 1024),
        "cuFuncSetCacheConfig": lambda _, f: (f, 1),
        "cuFuncGetModule": lambda _, f: (c_void_p, f),
        "cuFuncGetName": lambda _, f: (c_char_p, f),
        "cuFuncGetParamInfo": lambda _, f: (f, 0, c_size_t, c_size_t),
        "cuFuncIsLoaded": lambda _, f: (c_int, f),
        "cuFuncLoad": lambda _, f: (f,),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor": lambda _, f: (c_int, f, 32, 0),
        "cuLaunchKernel": lambda _, f: _launch(f),
        "cuGraphAddKernelNode_v2": lambda cu, f: (
            *(c_void_p, graph_tools.graph(cu), None, 0),
            graph_tools.keep(graph_tools.kernel_params(f)),
        ),
    },
)


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
        "cuGraphDestroy": lambda _, g: (g,),
        "cuGraphGetNodes": lambda _, g: (g, None, c_size_t),
        "cuGraphGetRootNodes": lambda _, g: (g, None, c_size_t),
        "cuGraphGetEdges": lambda _, g: (g, None, None, c_size_t),
        "cuGraphClone": lambda _, g: (c_void_p, g),
        "cuGraphInstantiateWithFlags": lambda _, g: (c_void_p, g, 0),
        "cuGraphAddEmptyNode": lambda _, g: (c_void_p, g, None, 0),
        "cuGraphAddChildGraphNode parent": lambda cu, g: (c_void_p, g, None, 0, graph_tools.graph(cu)),
        "cuGraphAddChildGraphNode child": lambda cu, g: (c_void_p, graph_tools.graph(cu), None, 0, g),
        "cuGraphConditionalHandleCreate": lambda cu, g: (c_uint64, g, graph_tools.context(cu), 0, 0),
        "cuGraphRetainUserObject": lambda cu, g: (g, _user_object(cu), 1, 0),
        "cuGraphDebugDotPrint": lambda _, g: (g, b"/dev/null", 0),
        "cuGraphExecUpdate_v2": lambda cu, g: (_exec(cu), g, _buffer()),
    },
)


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
            "cuGraphNodeGetType": lambda _, n: (n, c_int),
            "cuGraphNodeGetDependencies": lambda _, n: (n, None, c_size_t),
            "cuGraphNodeGetDependentNodes": lambda _, n: (n, None, c_size_t),
            "cuGraphDestroyNode": lambda _, n: (n,),
            "cuGraphKernelNodeGetParams_v2": lambda _, n: (n, _buffer()),
            "cuGraphKernelNodeSetParams_v2": lambda cu, n: (
                n,
                graph_tools.keep(graph_tools.kernel_params(cu.function(ptx.KERNELS, "nothing"))),
            ),
            "cuGraphKernelNodeGetAttribute": lambda _, n: (n, 2, _buffer()),
            "cuGraphAddDependencies": _dependency,
            "cuGraphAddEmptyNode": lambda cu, n: (c_void_p, graph_tools.graph(cu), graph_tools.array(n), 1),
            "cuGraphNodeFindInClone": lambda cu, n: (c_void_p, n, graph_tools.graph(cu)),
            "cuGraphNodeSetEnabled": lambda cu, n: (_exec(cu), n, 1),
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
        "cuGraphLaunch": lambda _, e: (e, 0),
        "cuGraphUpload": lambda _, e: (e, 0),
        "cuGraphExecDestroy": lambda _, e: (e,),
        "cuGraphExecGetFlags": lambda _, e: (e, c_uint64),
        "cuGraphExecUpdate_v2": lambda cu, e: (e, graph_tools.graph(cu), _buffer()),
    },
)


def _stale_user_object(cu: Recorder) -> int:
    made = _user_object(cu)
    cu.prepare("cuUserObjectRelease", made, 1)
    return made


_register(
    "user_object",
    _stale_user_object,
    {
        "cuUserObjectRetain": lambda _, u: (u, 1),
        "cuUserObjectRelease": lambda _, u: (u, 1),
        "cuGraphRetainUserObject": lambda cu, u: (graph_tools.graph(cu), u, 1, 0),
    },
)


def _pool(cu: Recorder) -> int:
    pool = int(cu.prepare("cuMemPoolCreate", c_void_p, device_pool()))
    cu.prepare("cuMemPoolDestroy", pool)
    return pool


_register(
    "pool",
    _pool,
    {
        "cuMemPoolDestroy": lambda _, p: (p,),
        "cuMemPoolTrimTo": lambda _, p: (p, 0),
        "cuMemPoolGetAttribute": lambda _, p: (p, 4, c_uint64),
        "cuMemPoolSetAttribute": lambda _, p: (p, 4, c_uint64(0)),
        "cuMemPoolSetAccess": lambda _, p: (p, Access(Location(1, 0), 3), 1),
        "cuMemPoolGetAccess": lambda _, p: (c_int, p, Location(1, 0)),
        "cuMemAllocFromPoolAsync": lambda _, p: (c_uint64, 64, p, 0),
        "cuDeviceSetMemPool": lambda _, p: (0, p),
        "cuMemPoolExportToShareableHandle": lambda _, p: (_buffer(64), p, 1, 0),
    },
)


def _physical(cu: Recorder) -> int:
    made = int(cu.prepare("cuMemCreate", c_uint64, 2 << 20, device_allocation(), 0))
    cu.prepare("cuMemRelease", made)
    return made


_register(
    "physical",
    _physical,
    {
        "cuMemRelease": lambda _, h: (h,),
        "cuMemMap": lambda cu, h: (
            cu.prepare("cuMemAddressReserve", c_uint64, 2 << 20, 0, 0, 0),
            *(2 << 20, 0, h, 0),
        ),
        "cuMemExportToShareableHandle": lambda _, h: (_buffer(64), h, 1, 0),
        "cuMemGetAllocationPropertiesFromHandle": lambda _, h: (_buffer(64), h),
    },
)


def _array(cu: Recorder) -> int:
    made = int(cu.prepare("cuArrayCreate_v2", c_void_p, ArrayDescriptor(16, 16, 0x20, 1)))
    cu.prepare("cuArrayDestroy", made)
    return made


def _texture_of(handle: int, kind: int = 0) -> Arguments:
    return (c_uint64, ResourceDescriptor(type=kind, handle=handle), TextureDescriptor(), None)


_register(
    "array",
    _array,
    {
        "cuArrayDestroy": lambda _, a: (a,),
        "cuArrayGetDescriptor_v2": lambda _, a: (_buffer(), a),
        "cuArray3DGetDescriptor_v2": lambda _, a: (_buffer(), a),
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
        "cuMemcpyHtoA_v2": lambda _, a: (a, 0, _buffer(), 16),
        "cuTexObjectCreate": lambda _, a: _texture_of(a),
        "cuSurfObjectCreate": lambda _, a: (c_uint64, ResourceDescriptor(type=0, handle=a)),
    },
)


def _mipmapped(cu: Recorder) -> int:
    made = int(cu.prepare("cuMipmappedArrayCreate", c_void_p, Array3DDescriptor(16, 16, 0, 0x20, 1, 0), 2))
    cu.prepare("cuMipmappedArrayDestroy", made)
    return made


_register(
    "mipmapped_array",
    _mipmapped,
    {
        "cuMipmappedArrayDestroy": lambda _, a: (a,),
        "cuMipmappedArrayGetLevel": lambda _, a: (c_void_p, a, 0),
        "cuTexObjectCreate": lambda _, a: _texture_of(a, 1),
    },
)


def _live_array(cu: Recorder, flags: int = 0) -> int:
    return int(cu.prepare("cuArray3DCreate_v2", c_void_p, Array3DDescriptor(16, 16, 0, 0x20, 1, flags)))


def _texture(cu: Recorder) -> int:
    made = int(cu.prepare("cuTexObjectCreate", *_texture_of(_live_array(cu))))
    cu.prepare("cuTexObjectDestroy", made)
    return made


_register(
    "texture",
    _texture,
    {
        "cuTexObjectDestroy": lambda _, t: (t,),
        "cuTexObjectGetResourceDesc": lambda _, t: (_buffer(), t),
        "cuTexObjectGetTextureDesc": lambda _, t: (_buffer(), t),
        "cuTexObjectGetResourceViewDesc": lambda _, t: (_buffer(), t),
    },
)


def _surface(cu: Recorder) -> int:
    described = ResourceDescriptor(type=0, handle=_live_array(cu, 2))
    made = int(cu.prepare("cuSurfObjectCreate", c_uint64, described))
    cu.prepare("cuSurfObjectDestroy", made)
    return made


_register(
    "surface",
    _surface,
    {
        "cuSurfObjectDestroy": lambda _, s: (s,),
        "cuSurfObjectGetResourceDesc": lambda _, s: (_buffer(), s),
    },
)


def _link(cu: Recorder) -> int:
    made = int(cu.prepare("cuLinkCreate_v2", 0, None, None, c_void_p))
    cu.prepare("cuLinkDestroy", made)
    return made


_register(
    "link",
    _link,
    {
        "cuLinkAddData_v2": lambda _, x: (x, 1, ptx.EMPTY_MODULE, len(ptx.EMPTY_MODULE), b"part", 0, None, None),
        "cuLinkComplete": lambda _, x: (x, c_void_p, c_size_t),
        "cuLinkDestroy": lambda _, x: (x,),
    },
)


def _green(cu: Recorder) -> int:
    groups = Resource()
    cu.prepare("cuDeviceGetDevResource", 0, groups, 1)
    part, rest, count = Resource(), Resource(), c_uint(1)
    cu.prepare("cuDevSmResourceSplitByCount", part, count, groups, rest, 0, 8)
    described = cu.prepare("cuDevResourceGenerateDesc", c_void_p, part, 1)
    made = int(cu.prepare("cuGreenCtxCreate", c_void_p, described, 0, 1))
    cu.prepare("cuGreenCtxDestroy", made)
    return made


_register(
    "green_context",
    _green,
    {
        "cuGreenCtxDestroy": lambda _, g: (g,),
        "cuCtxFromGreenCtx": lambda _, g: (c_void_p, g),
        "cuGreenCtxGetDevResource": lambda _, g: (g, Resource(), 1),
        "cuGreenCtxStreamCreate": lambda _, g: (c_void_p, g, 1, 0),
        "cuGreenCtxRecordEvent": lambda cu, g: (g, cu.event()),
        "cuGreenCtxWaitEvent": lambda cu, g: (g, _recorded(cu)),
    },
)
