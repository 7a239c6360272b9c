# SPDX-License-Identifier: Apache-2.0
"""Helpers for sequences about graphs and captures: they add nodes of each type, and list the state of a graph."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from ctypes import c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import Any

from recorder import HOST_FUNCTION, SEQUENCES, Recorder, pointers
from structs import Access, Copy3D, PoolProperties, device_pool, fields

TYPES = {
    0: "kernel", 1: "memcpy", 2: "memset", 3: "host", 4: "graph", 5: "empty", 6: "wait", 7: "record", 8: "signal",
    9: "semaphore", 10: "alloc", 11: "free", 12: "memop", 13: "conditional",
}  # fmt: skip

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
MODES = {GLOBAL: "global", THREAD_LOCAL: "thread-local", RELAXED: "relaxed"}
STATUS = {0: "none", 1: "active", 2: "invalidated"}
IF, WHILE, SWITCH = 0, 1, 2
AUTO_FREE, UPLOAD, DEVICE_LAUNCH, NODE_PRIORITY = 1, 2, 4, 8

_kept: list[Any] = []


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2. Version 1 consists of its first fields."""

    _fields_ = fields(
        func=c_void_p, grid=c_uint * 3, block=c_uint * 3, shared=c_uint, kernelParams=c_void_p, extra=c_void_p,
        kern=c_void_p, ctx=c_void_p,
    )  # fmt: skip


class MemsetNode(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS_v2; version 1 lacks the context."""

    _fields_ = fields(
        dst=c_uint64, pitch=c_size_t, value=c_uint, elementSize=c_uint, width=c_size_t, height=c_size_t, ctx=c_void_p
    )


class HostNode(ctypes.Structure):
    """CUDA_HOST_NODE_PARAMS_v2. Version 1 consists of its first two fields."""

    _fields_ = [("fn", c_void_p), ("userData", c_void_p), ("syncMode", c_uint), ("ctx", c_void_p)]


class AllocNode(ctypes.Structure):
    """CUDA_MEM_ALLOC_NODE_PARAMS."""

    _fields_ = fields(
        poolProps=PoolProperties, accessDescs=c_void_p, accessDescCount=c_size_t, bytesize=c_size_t, dptr=c_uint64
    )


class MemcpyNode(ctypes.Structure):
    """CUDA_MEMCPY_NODE_PARAMS."""

    _fields_ = [("flags", c_int), ("reserved", c_int), ("ctx", c_void_p), ("copy", Copy3D)]


class ConditionalNode(ctypes.Structure):
    """CUDA_CONDITIONAL_NODE_PARAMS."""

    _fields_ = fields(handle=c_uint64, type=c_int, size=c_uint, graphs=ctypes.POINTER(c_void_p), ctx=c_void_p)


class ChildNode(ctypes.Structure):
    """CUDA_CHILD_GRAPH_NODE_PARAMS."""

    _fields_ = [("graph", c_void_p), ("ownership", c_int)]


class EventNode(ctypes.Structure):
    """CUDA_EVENT_RECORD_NODE_PARAMS or CUDA_EVENT_WAIT_NODE_PARAMS. The first field of both is the event."""

    _fields_ = [("event", c_void_p)]


class FreeNode(ctypes.Structure):
    """CUDA_MEM_FREE_NODE_PARAMS."""

    _fields_ = [("dptr", c_uint64)]


class _Union(ctypes.Union):
    _fields_ = fields(
        words=c_uint64 * 29, kernel=KernelNode, memcpy=MemcpyNode, memset=MemsetNode, host=HostNode, graph=ChildNode,
        event=EventNode, alloc=AllocNode, free=FreeNode, conditional=ConditionalNode,
    )  # fmt: skip


class NodeParams(ctypes.Structure):
    """CUgraphNodeParams."""

    _fields_ = [("type", c_int), ("reserved0", c_int * 3), ("of", _Union), ("reserved2", c_uint64)]


class Edge(ctypes.Structure):
    """CUgraphEdgeData."""

    _fields_ = [("from_port", c_ubyte), ("to_port", c_ubyte), ("type", c_ubyte), ("reserved", c_ubyte * 5)]


class InstantiateParams(ctypes.Structure):
    """CUDA_GRAPH_INSTANTIATE_PARAMS."""

    _fields_ = [("flags", c_uint64), ("stream", c_void_p), ("node", c_void_p), ("result", c_int)]


class UpdateInfo(ctypes.Structure):
    """CUgraphExecUpdateResultInfo."""

    _fields_ = [("result", c_int), ("node", c_void_p), ("from_node", c_void_p)]


assert ctypes.sizeof(NodeParams) == 256
assert ctypes.sizeof(Edge) == 8


def register(module: str, name: str, about: str, function: Callable[[Recorder], None]) -> None:
    """Register a function, which was made from a row of a table, as a sequence with a name and a description."""

    def prepared(cu: Recorder) -> None:
        cu.use_primary_context()
        function(cu)

    prepared.__doc__ = about
    key = f"{module}.{name}"
    assert key not in SEQUENCES, key
    SEQUENCES[key] = prepared


def array(*handles: int | None) -> Any:
    """Return a C array of handles, as driver functions take it."""
    return (c_void_p * max(len(handles), 1))(*handles)


def keep(thing: Any) -> Any:
    """Keep an object alive until the process ends, because the driver has its address. Return the object."""
    _kept.append(thing)
    return thing


# ---- nodes of each type: these calls prepare a sequence, are not listed, and must succeed


def graph(cu: Recorder) -> int:
    """Create a graph."""
    return int(cu.prepare("cuGraphCreate", c_void_p, 0))


def empty(cu: Recorder, where: int, *after: int) -> int:
    """Add an empty node."""
    return int(cu.prepare("cuGraphAddEmptyNode", c_void_p, where, array(*after), len(after)))


def kernel_params(
    function: int | None,
    *arguments: Any,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (1, 1, 1),
    shared: int = 0,
    kern: int | None = None,
    ctx: int | None = None,
) -> KernelNode:
    """Return the parameters of a kernel node."""
    values = keep(pointers(*arguments))
    return KernelNode(function, grid, block, shared, ctypes.addressof(values), None, kern, ctx)


def kernel(cu: Recorder, where: int, function: int, *arguments: Any, after: tuple[int, ...] = (), **sizes: Any) -> int:
    """Add a kernel node."""
    params = kernel_params(function, *arguments, **sizes)
    return int(cu.prepare("cuGraphAddKernelNode_v2", c_void_p, where, array(*after), len(after), params))


def memset_params(
    address: int, value: int, width: int, *, size: int = 4, height: int = 1, pitch: int = 0, ctx: int | None = None
) -> MemsetNode:
    """Return the parameters of a memset node."""
    return MemsetNode(address, pitch, value, size, width, height, ctx)


def context(cu: Recorder) -> int:
    """Return the current context."""
    return int(cu.prepare("cuCtxGetCurrent", c_void_p))


def memset(cu: Recorder, where: int, address: int, value: int, width: int, *after: int, **shape: Any) -> int:
    """Add a memset node."""
    params = memset_params(address, value, width, **shape)
    return int(cu.prepare("cuGraphAddMemsetNode", c_void_p, where, array(*after), len(after), params, context(cu)))


def copy_params(to: int, source: int, size: int, *, to_type: int = 2, from_type: int = 2, **fields: Any) -> Copy3D:
    """Return the parameters of a copy of consecutive bytes. Memory type 1 is the host, and 2 the device."""
    copy = Copy3D(srcMemoryType=from_type, dstMemoryType=to_type, WidthInBytes=size, Height=1, Depth=1)
    setattr(copy, "dstHost" if to_type == 1 else "dstDevice", to)
    setattr(copy, "srcHost" if from_type == 1 else "srcDevice", source)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def copy(cu: Recorder, where: int, to: int, source: int, size: int, *after: int, **fields: Any) -> int:
    """Add a memcpy node."""
    params = copy_params(to, source, size, **fields)
    return int(cu.prepare("cuGraphAddMemcpyNode", c_void_p, where, array(*after), len(after), params, context(cu)))


def host_params(function: Callable[[int | None], None], data: int | None = None) -> HostNode:
    """Return the parameters of a host node."""
    callback = keep(HOST_FUNCTION(function))
    return HostNode(ctypes.cast(callback, c_void_p).value, data, 0, None)


def host(cu: Recorder, where: int, function: Callable[[int | None], None], *after: int, data: int | None = None) -> int:
    """Add a host node."""
    params = host_params(function, data)
    return int(cu.prepare("cuGraphAddHostNode", c_void_p, where, array(*after), len(after), params))


def child(cu: Recorder, where: int, other: int, *after: int) -> int:
    """Add a child graph node."""
    return int(cu.prepare("cuGraphAddChildGraphNode", c_void_p, where, array(*after), len(after), other))


def child_graph(cu: Recorder, node: int) -> int:
    """Return the graph in a child graph node."""
    return int(cu.prepare("cuGraphChildGraphNodeGetGraph", node, c_void_p))


def record(cu: Recorder, where: int, event: int, *after: int) -> int:
    """Add an event record node."""
    return int(cu.prepare("cuGraphAddEventRecordNode", c_void_p, where, array(*after), len(after), event))


def wait(cu: Recorder, where: int, event: int, *after: int) -> int:
    """Add an event wait node."""
    return int(cu.prepare("cuGraphAddEventWaitNode", c_void_p, where, array(*after), len(after), event))


def alloc_params(size: int, *access: Access, **fields: Any) -> AllocNode:
    """Return the parameters of an allocation node."""
    descriptions = keep((Access * max(len(access), 1))(*access))
    return AllocNode(device_pool(**fields), ctypes.addressof(descriptions), len(access), size, 0)


def alloc(cu: Recorder, where: int, size: int, *after: int) -> tuple[int, int]:
    """Add an allocation node; return the node, and the address of its memory."""
    params = alloc_params(size)
    node = int(cu.prepare("cuGraphAddMemAllocNode", c_void_p, where, array(*after), len(after), params))
    return node, params.dptr


def free(cu: Recorder, where: int, address: int, *after: int) -> int:
    """Add a free node."""
    return int(cu.prepare("cuGraphAddMemFreeNode", c_void_p, where, array(*after), len(after), address))


def condition(cu: Recorder, where: int, default: int | None = None) -> int:
    """Create a conditional handle."""
    values = (0, 0) if default is None else (default, 1)
    return int(cu.prepare("cuGraphConditionalHandleCreate", c_uint64, where, context(cu), *values))


def conditional_params(cu: Recorder, handle: int, kind: int, size: int) -> NodeParams:
    """Return the parameters of a conditional node."""
    params = NodeParams(type=13)
    params.of.conditional = ConditionalNode(handle, kind, size, None, context(cu))
    return params


def conditional(
    cu: Recorder, where: int, handle: int, kind: int, size: int = 1, after: tuple[int, ...] = ()
) -> tuple[int, list[int]]:
    """Add a conditional node; return the node and its bodies."""
    params = conditional_params(cu, handle, kind, size)
    node = int(cu.prepare("cuGraphAddNode_v2", c_void_p, where, array(*after), None, len(after), params))
    return node, [params.of.conditional.graphs[i] or 0 for i in range(size)]


def put(cu: Recorder, bits: int, address: int, value: int, count: int) -> None:
    """Fill memory, and wait for the fill, because work in non-blocking streams would not wait for it."""
    cu.prepare(f"cuMemsetD{bits}_v2", address, value, count)
    cu.prepare("cuCtxSynchronize")


# ---- functions that list the state of a graph or a capture


def nodes_of(cu: Recorder, where: int) -> list[int]:
    """Return the nodes of a graph in the driver's order."""
    count = c_size_t(int(cu.prepare("cuGraphGetNodes", where, None, c_size_t)))
    if not count.value:  # the driver refuses an array without elements
        return []
    nodes = (c_void_p * count.value)()
    cu.prepare("cuGraphGetNodes", where, nodes, count)
    return [node or 0 for node in nodes[: count.value]]


def edges_of(cu: Recorder, where: int) -> list[tuple[int, int, bytes]]:
    """Return the edges of a graph in the driver's order."""
    count = c_size_t(int(cu.prepare("cuGraphGetEdges_v2", where, None, None, None, c_size_t)))
    size = count.value
    if not size:
        return []
    before, after, data = (c_void_p * size)(), (c_void_p * size)(), (Edge * size)()
    cu.prepare("cuGraphGetEdges_v2", where, before, after, data, count)
    return [(before[i] or 0, after[i] or 0, bytes(data[i])) for i in range(count.value)]


def labels(cu: Recorder, where: int) -> dict[int, str]:
    """Return a name for each node of a graph, made of its place in the driver's order and its type."""
    return {
        node: f"{place}:{TYPES.get(cu.prepare('cuGraphNodeGetType', node, c_int), 'unknown')}"
        for place, node in enumerate(nodes_of(cu, where))
    }


def see_graph(cu: Recorder, where: int, names: dict[int, str] | None = None) -> None:
    """List the nodes of a graph in the driver's order, and its edges."""
    names = names or labels(cu, where)
    cu.see("nodes", [names.get(node, "?") for node in nodes_of(cu, where)])
    edges = []
    for before, after, data in edges_of(cu, where):
        annotation = f" [{data[0]},{data[1]},{data[2]}]" if any(data) else ""
        edges.append(f"{names.get(before, '?')} > {names.get(after, '?')}{annotation}")
    cu.see("edges", sorted(edges))


def instantiate(cu: Recorder, where: int, flags: int = 0) -> int:
    """Instantiate a graph."""
    return int(cu.prepare("cuGraphInstantiateWithFlags", c_void_p, where, flags))


def run(cu: Recorder, executable: int, stream: int) -> None:
    """Launch an executable graph and wait for it."""
    cu.call("cuGraphLaunch", executable, stream)
    cu.call("cuStreamSynchronize", stream)


def see_run(cu: Recorder, executable: int, stream: int, what: str, address: int, count: int) -> None:
    """Launch an executable graph, wait for it, and list words of memory."""
    run(cu, executable, stream)
    cu.see_words(what, address, count)


def see_update(cu: Recorder, executable: int, where: int, names: dict[int, str] | None = None) -> None:
    """Update an executable graph, and list the result that the driver reports."""
    names = names if names is not None else labels(cu, where)
    info = UpdateInfo(77, 78, 79)
    cu.call("cuGraphExecUpdate_v2", executable, where, info)
    cu.see("result", info.result)
    for what, node in (("node", info.node), ("from", info.from_node)):
        cu.see(what, names.get(node, "unknown") if node else None)


def see_params(cu: Recorder, node: int) -> None:
    """List the sizes of grid, block and shared memory of a kernel node."""
    params = KernelNode()
    if cu.call("cuGraphKernelNodeGetParams_v2", node, params) == 0:
        cu.see("sizes", (list(params.grid), list(params.block), params.shared))


def status(cu: Recorder, *streams: int) -> None:
    """List whether each stream captures."""
    for stream in streams:
        value = c_int(99)
        code, _ = cu.silent("cuStreamIsCapturing", stream, value)
        cu.see("capture", STATUS.get(value.value, value.value) if code == "CUDA_SUCCESS" else code)


def begin(cu: Recorder, stream: int, mode: int = RELAXED) -> None:
    """Begin a capture."""
    cu.prepare("cuStreamBeginCapture_v2", stream, mode)


def end(cu: Recorder, stream: int) -> int:
    """End a capture, and list the result code. Return the graph, or 0 if the driver returned no graph."""
    out = c_void_p(0x77)
    cu.call("cuStreamEndCapture", stream, out)
    cu.see("graph", "NULL" if not out.value else "untouched" if out.value == 0x77 else "given")
    return 0 if out.value in (None, 0x77) else int(out.value)


def see_capture(cu: Recorder, stream: int) -> int:
    """End a capture, and list its nodes and edges. Return the graph."""
    made = end(cu, stream)
    if made:
        see_graph(cu, made)
    return made


@contextlib.contextmanager
def thread_mode(cu: Recorder, mode: int) -> Iterator[None]:
    """Set the capture mode of the calling thread for a block of code."""
    value = c_int(mode)
    cu.prepare("cuThreadExchangeStreamCaptureMode", value)
    try:
        yield
    finally:
        cu.prepare("cuThreadExchangeStreamCaptureMode", value)
