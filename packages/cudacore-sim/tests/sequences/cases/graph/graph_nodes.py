# SPDX-License-Identifier: Apache-2.0
"""Graph nodes of each type: parameters that are accepted or refused, read back, and changed."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p

import graph_tools as tools
from graph_tools import NodeParams, array
from ptx import KERNELS
from recorder import Recorder, pointers, sequence

NON_BLOCKING = 1


@sequence
def kernel_parameters(cu: Recorder) -> None:
    """The parameters of a kernel node as they are read back. The node has a copy of the arguments."""
    graph, out = tools.graph(cu), cu.memory(4, 0)
    store = cu.function(KERNELS, "store")
    value = c_uint32(5)
    node = tools.kernel(cu, graph, store, c_uint64(out), value, grid=(2, 3, 4), block=(8, 4, 2), shared=64)
    value.value = 6
    params = tools.KernelNode()
    cu.call("cuGraphKernelNodeGetParams_v2", node, params)
    cu.see("sizes", (list(params.grid), list(params.block), params.shared))
    cu.see("function", params.func == store)
    cu.see("no kernel", params.kern is None)
    cu.see("context", params.ctx == tools.context(cu) if params.ctx else None)
    cu.see("extra", params.extra)
    cu.see("arguments", bool(params.kernelParams))
    if params.kernelParams:
        first, second = (c_void_p * 2).from_address(params.kernelParams)
        cu.see("address", c_uint64.from_address(first).value == out)
        cu.see("value", c_uint32.from_address(second).value)
    old = tools.KernelNode()
    cu.call("cuGraphKernelNodeGetParams", node, old)
    cu.see("version 1", (old.func == store, list(old.grid), old.kern))
    cu.call("cuGraphKernelNodeGetParams_v2", node, None)


@sequence
def kernel_of_a_library(cu: Recorder) -> None:
    """The parameters of a kernel node that was made from a CUkernel, as they are read back."""
    graph = tools.graph(cu)
    kernel = cu.kernel(KERNELS, "nothing")
    context = tools.context(cu)
    for name, func, kern, ctx in (
        ("kern", None, kernel, None), ("kern and context", None, kernel, context), ("as function", kernel, None, None),
        ("both", kernel, kernel, None), ("as function with context", kernel, None, context),
    ):  # fmt: skip
        cu.see("given", name)
        params = tools.kernel_params(func, kern=kern, ctx=ctx)
        node = cu.new("cuGraphAddKernelNode_v2", c_void_p, graph, None, 0, params)
        if node:
            back = tools.KernelNode()
            cu.call("cuGraphKernelNodeGetParams_v2", node, back)
            cu.see("func", "null" if not back.func else "kernel" if back.func == kernel else "another")
            cu.see("kern", "null" if not back.kern else "kernel" if back.kern == kernel else "another")
            cu.see("ctx", "null" if not back.ctx else "context" if back.ctx == context else "another")
            if back.func and back.func != kernel:
                function = cu.prepare("cuKernelGetFunction", c_void_p, kernel)
                cu.see("its function", back.func == function)


@sequence
def kernel_with_packed_arguments(cu: Recorder) -> None:
    """Kernel nodes with arguments in one buffer, and the arguments as they are read back."""
    graph, out = tools.graph(cu), cu.memory(4, 0)
    store = cu.function(KERNELS, "store")

    class Arguments(ctypes.Structure):
        _fields_ = [("where", c_uint64), ("value", c_uint32)]

    packed, length = tools.keep(Arguments(out, 9)), tools.keep(c_size_t(12))
    extra = tools.keep((c_void_p * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(length), 0))
    params = tools.KernelNode(store, (1, 1, 1), (1, 1, 1), 0, None, ctypes.addressof(extra), None, None)
    node = cu.new("cuGraphAddKernelNode_v2", c_void_p, graph, None, 0, params)
    back = tools.KernelNode()
    cu.call("cuGraphKernelNodeGetParams_v2", node, back)
    cu.see("parameters", bool(back.kernelParams))
    cu.see("extra", bool(back.extra))
    if back.kernelParams:
        _, second = (c_void_p * 2).from_address(back.kernelParams)
        cu.see("value", c_uint32.from_address(second).value)
    tools.run(cu, tools.instantiate(cu, graph), cu.stream(NON_BLOCKING))
    cu.see_words("out", out, 1)
    both = tools.kernel_params(store, c_uint64(out), c_uint32(1))
    both.extra = ctypes.addressof(extra)
    cu.call("cuGraphAddKernelNode_v2", c_void_p, graph, None, 0, both)
    neither = tools.KernelNode(store, (1, 1, 1), (1, 1, 1), 0, None, None, None, None)
    cu.call("cuGraphAddKernelNode_v2", c_void_p, graph, None, 0, neither)


@sequence
def kernel_bad_parameters(cu: Recorder) -> None:
    """Invalid kernel nodes."""
    graph = tools.graph(cu)
    nothing, required = cu.function(KERNELS, "nothing"), cu.function(KERNELS, "just_96")
    limited, cluster = cu.function(KERNELS, "at_most_64"), cu.function(KERNELS, "cluster_of_2")
    for name, params in {
        "no function": tools.kernel_params(None),
        "no grid": tools.kernel_params(nothing, grid=(0, 1, 1)),
        "no block": tools.kernel_params(nothing, block=(1, 0, 1)),
        "block too large": tools.kernel_params(nothing, block=(1025, 1, 1)),
        "grid too large": tools.kernel_params(nothing, grid=(1, 65536, 1)),
        "too much shared": tools.kernel_params(nothing, shared=1 << 20),
        "more shared than allowed": tools.kernel_params(nothing, shared=60000),
        "block not as required": tools.kernel_params(required, block=(95, 1, 1)),
        "block larger than allowed": tools.kernel_params(limited, block=(65, 1, 1)),
        "grid not of clusters": tools.kernel_params(cluster, grid=(3, 1, 1)),
        "grid of clusters": tools.kernel_params(cluster, grid=(4, 1, 1)),
    }.items():
        cu.see("given", name)
        cu.call("cuGraphAddKernelNode_v2", c_void_p, graph, None, 0, params)
    cu.call("cuGraphAddKernelNode_v2", c_void_p, graph, None, 0, None)
    cu.read("cuGraphGetNodes", graph, None, c_size_t)
    executable = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    if executable:
        tools.run(cu, executable, cu.stream(NON_BLOCKING))


@sequence
def kernel_is_set(cu: Recorder) -> None:
    """The parameters of a kernel node are changed; a refused change has no effect."""
    graph, out, stream = tools.graph(cu), cu.memory(64, 0), cu.stream(NON_BLOCKING)
    store, increase = cu.function(KERNELS, "store"), cu.function(KERNELS, "increase")
    node = tools.kernel(cu, graph, store, c_uint64(out), c_uint32(5))
    cu.call("cuGraphKernelNodeSetParams_v2", node, tools.kernel_params(store, c_uint64(out), c_uint32(6)))
    tools.see_run(cu, tools.instantiate(cu, graph), stream, "out", out, 2)
    other = tools.kernel_params(increase, c_uint64(out), c_uint32(10), grid=(2, 1, 1))
    cu.call("cuGraphKernelNodeSetParams_v2", node, other)
    tools.see_run(cu, tools.instantiate(cu, graph), stream, "out", out, 2)
    cu.call(
        "cuGraphKernelNodeSetParams_v2", node, tools.kernel_params(increase, c_uint64(0), c_uint32(1), grid=(0, 1, 1))
    )
    cu.call("cuGraphKernelNodeSetParams_v2", node, None)
    tools.see_params(cu, node)
    version1 = tools.kernel_params(store, c_uint64(out), c_uint32(8))
    cu.call("cuGraphKernelNodeSetParams", node, version1)
    general = NodeParams(type=0)
    general.of.kernel = tools.kernel_params(store, c_uint64(out), c_uint32(9), block=(2, 1, 1))
    cu.call("cuGraphNodeSetParams", node, general)
    tools.see_params(cu, node)
    tools.see_run(cu, tools.instantiate(cu, graph), stream, "out", out, 2)


@sequence
def kernel_attributes(cu: Recorder) -> None:
    """Attributes of a kernel node are set and read back."""
    graph = tools.graph(cu)
    function = cu.function(KERNELS, "nothing")
    node, other = tools.kernel(cu, graph, function, grid=(4, 1, 1)), tools.kernel(cu, graph, function, grid=(4, 1, 1))
    empty = tools.empty(cu, graph)
    value = (c_uint * 16)()

    def get(which: int, attribute: int) -> None:
        ctypes.memset(value, 0, 64)
        if cu.call("cuGraphKernelNodeGetAttribute", which, attribute, value) == 0:
            cu.see("value", list(value)[:4])

    for attribute in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 99):
        cu.see("attribute", attribute)
        get(node, attribute)
    for attribute, words in (
        (2, (1,)), (2, (0,)), (2, (5,)), (4, (2, 1, 1)), (4, (3, 1, 1)), (4, (0, 0, 0)), (4, (16, 1, 1)), (5, (1,)),
        (5, (7,)), (6, (1,)), (8, (-2 & 0xFFFFFFFF,)), (8, (-99 & 0xFFFFFFFF,)), (8, (5,)), (10, (1,)), (3, (1,)),
        (14, (20,)), (14, (200,)), (99, (1,)),
    ):  # fmt: skip
        cu.see("set", (attribute, words))
        ctypes.memset(value, 0, 64)
        value[: len(words)] = words
        cu.call("cuGraphKernelNodeSetAttribute", node, attribute, value)
        get(node, attribute)
    cu.call("cuGraphKernelNodeCopyAttributes", other, node)
    for attribute in (2, 4, 5, 8, 10):
        get(other, attribute)
    cu.call("cuGraphKernelNodeGetAttribute", empty, 2, value)
    cu.call("cuGraphKernelNodeSetAttribute", empty, 2, value)
    cu.call("cuGraphKernelNodeCopyAttributes", other, empty)


@sequence
def kernel_attributes_survive(cu: Recorder) -> None:
    """Attributes of a kernel node stay when its parameters are changed, and are copied into clones."""
    graph = tools.graph(cu)
    function = cu.function(KERNELS, "nothing")
    node = tools.kernel(cu, graph, function, grid=(4, 1, 1))
    value = (c_uint * 16)(-3 & 0xFFFFFFFF)
    cu.call("cuGraphKernelNodeSetAttribute", node, 8, value)
    value = (c_uint * 16)(2, 1, 1)
    cu.call("cuGraphKernelNodeSetAttribute", node, 4, value)
    cu.call("cuGraphKernelNodeSetParams_v2", node, tools.kernel_params(function, grid=(6, 1, 1)))
    cu.call("cuGraphKernelNodeSetParams_v2", node, tools.kernel_params(function, grid=(5, 1, 1)))
    copy = cu.new("cuGraphClone", c_void_p, graph)
    for which in (node, cu.new("cuGraphNodeFindInClone", c_void_p, node, copy)):
        for attribute in (4, 8):
            ctypes.memset(value, 0, 64)
            cu.call("cuGraphKernelNodeGetAttribute", which, attribute, value)
            cu.see("value", list(value)[:3])


@sequence
def memset_parameters(cu: Recorder) -> None:
    """The parameters of a memset node as they are read back."""
    graph, address = tools.graph(cu), cu.memory(4096, 0)
    for fields in ({"width": 16}, {"width": 4, "height": 3, "pitch": 64}, {"width": 4, "height": 1, "pitch": 64},
                   {"width": 16, "size": 1}, {"width": 16, "size": 2}):  # fmt: skip
        node = tools.memset(cu, graph, address, 0x01020304, **fields)
        back = tools.MemsetNode(pitch=99, ctx=99)
        cu.call("cuGraphMemsetNodeGetParams", node, back)
        cu.see("back", (back.dst == address, back.pitch, back.value, back.elementSize, back.width, back.height))
        cu.see("context untouched", back.ctx == 99)
    cu.call("cuGraphMemsetNodeGetParams", node, None)
    tools.run(cu, tools.instantiate(cu, graph), cu.stream(NON_BLOCKING))


@sequence
def memset_bad_parameters(cu: Recorder) -> None:
    """Invalid memset nodes."""
    graph, address, context = tools.graph(cu), cu.memory(4096, 0), tools.context(cu)
    pinned = cu.prepare("cuMemHostAlloc", c_void_p, 64, 0)
    host = tools.keep(ctypes.create_string_buffer(64))
    for name, params in {
        "no address": tools.memset_params(0, 1, 4),
        "nowhere": tools.memset_params(4096, 1, 4),
        "host memory": tools.memset_params(ctypes.addressof(host), 1, 4),
        "pinned memory": tools.memset_params(pinned, 1, 4),
        "no width": tools.memset_params(address, 1, 0),
        "no height": tools.memset_params(address, 1, 4, height=0),
        "element of 3 bytes": tools.memset_params(address, 1, 4, size=3),
        "element of 8 bytes": tools.memset_params(address, 1, 4, size=8),
        "element of 0 bytes": tools.memset_params(address, 1, 4, size=0),
        "not aligned": tools.memset_params(address + 2, 1, 4),
        "value too large for 1 byte": tools.memset_params(address, 0x100, 4, size=1),
        "value too large for 2 bytes": tools.memset_params(address, 0x10000, 4, size=2),
        "too long": tools.memset_params(address, 1, 4096),
        "pitch too small": tools.memset_params(address, 1, 4, height=2, pitch=8),
        "pitch not aligned": tools.memset_params(address, 1, 4, height=2, pitch=18),
        "too high": tools.memset_params(address, 1, 4, height=1000, pitch=64),
    }.items():
        cu.see("given", name)
        cu.call("cuGraphAddMemsetNode", c_void_p, graph, None, 0, params, context)
    good = tools.memset_params(address, 1, 4)
    cu.call("cuGraphAddMemsetNode", c_void_p, graph, None, 0, good, None)
    cu.call("cuGraphAddMemsetNode", c_void_p, graph, None, 0, None, context)
    cu.read("cuGraphGetNodes", graph, None, c_size_t)


@sequence
def memset_is_set(cu: Recorder) -> None:
    """Parameters of a memset node are changed."""
    graph, address, stream = tools.graph(cu), cu.memory(64, 0), cu.stream(NON_BLOCKING)
    node = tools.memset(cu, graph, address, 7, 4)
    for params in (tools.memset_params(address, 8, 2), tools.memset_params(address, 9, 1, height=2, pitch=16),
                   tools.memset_params(address, 10, 0), tools.memset_params(0, 10, 1),
                   tools.memset_params(address + 4, 10, 1, size=1)):  # fmt: skip
        cu.call("cuGraphMemsetNodeSetParams", node, params)
        tools.see_run(cu, tools.instantiate(cu, graph), stream, "words", address, 6)
    cu.call("cuGraphMemsetNodeSetParams", node, None)
    general = NodeParams(type=2)
    general.of.memset = tools.memset_params(address, 11, 1, ctx=tools.context(cu))
    cu.call("cuGraphNodeSetParams", node, general)
    general.of.memset = tools.memset_params(address, 12, 1)
    cu.call("cuGraphNodeSetParams", node, general)
    tools.see_run(cu, tools.instantiate(cu, graph), stream, "words", address, 2)


@sequence
def memcpy_parameters(cu: Recorder) -> None:
    """The parameters of a memcpy node as they are read back, and the copied bytes."""
    graph, address, stream = tools.graph(cu), cu.memory(256, 3), cu.stream(NON_BLOCKING)
    host = tools.keep(ctypes.create_string_buffer(64))
    pinned = int(cu.prepare("cuMemHostAlloc", c_void_p, 64, 0))
    fields = ("srcMemoryType", "dstMemoryType", "srcPitch", "dstPitch", "srcHeight", "dstHeight", "WidthInBytes",
              "Height", "Depth", "srcXInBytes", "srcY", "srcZ")  # fmt: skip
    for name, params in {
        "device to device": tools.copy_params(address, address + 64, 16),
        "to pageable": tools.copy_params(ctypes.addressof(host), address, 16, to_type=1),
        "to pinned": tools.copy_params(pinned, address, 16, to_type=1),
        "from pinned": tools.copy_params(address, pinned, 16, from_type=1),
        "unified": tools.copy_params(address, pinned, 16, to_type=4, from_type=4),
        "box": tools.copy_params(address, address + 128, 4, Height=2, srcPitch=16, dstPitch=8),
        "boxes": tools.copy_params(address, address + 128, 4, Height=2, Depth=2, srcPitch=8, dstPitch=8, srcHeight=2,
                                   dstHeight=2),
        "offset": tools.copy_params(address, address + 64, 4, srcXInBytes=4, srcY=1, srcPitch=16),
    }.items():  # fmt: skip
        cu.see("given", name)
        node = cu.new("cuGraphAddMemcpyNode", c_void_p, graph, None, 0, params, tools.context(cu))
        if node:
            back = tools.Copy3D()
            cu.call("cuGraphMemcpyNodeGetParams", node, back)
            cu.see("back", [getattr(back, field) for field in fields])
            cu.see("contexts", (back.srcContext, back.dstContext))
    tools.run(cu, tools.instantiate(cu, graph), stream)
    cu.see("host", bytes(host)[:16].hex())


@sequence
def memcpy_bad_parameters(cu: Recorder) -> None:
    """Invalid memcpy nodes."""
    graph, address, context = tools.graph(cu), cu.memory(256, 0), tools.context(cu)
    host = ctypes.addressof(tools.keep(ctypes.create_string_buffer(64)))
    for name, params in {
        "of nothing": tools.copy_params(address, address + 64, 0),
        "no height": tools.copy_params(address, address + 64, 16, Height=0),
        "no depth": tools.copy_params(address, address + 64, 16, Depth=0),
        "to nowhere": tools.copy_params(0, address, 16),
        "from nowhere": tools.copy_params(address, 0, 16),
        "to no memory": tools.copy_params(4096, address, 16),
        "from no host memory": tools.copy_params(address, 0, 16, from_type=1),
        "too long": tools.copy_params(address, address + 128, 256),
        "memory type 0": tools.copy_params(address, address + 64, 16, srcMemoryType=0),
        "memory type 9": tools.copy_params(address, address + 64, 16, dstMemoryType=9),
        "array": tools.copy_params(address, address + 64, 16, srcMemoryType=3),
        "host to host": tools.copy_params(host, host + 32, 16, to_type=1, from_type=1),
        "device as host": tools.copy_params(address, address + 64, 16, from_type=1),
        "host as device": tools.copy_params(address, host, 16),
        "pitch too small": tools.copy_params(address, address + 64, 16, Height=2, srcPitch=8),
        "reserved": tools.copy_params(address, address + 64, 16, srcContext=1),
        "level": tools.copy_params(address, address + 64, 16, srcLevel=1),
    }.items():
        cu.see("given", name)
        cu.call("cuGraphAddMemcpyNode", c_void_p, graph, None, 0, params, context)
    cu.call("cuGraphAddMemcpyNode", c_void_p, graph, None, 0, tools.copy_params(address, address + 64, 16), None)
    cu.call("cuGraphAddMemcpyNode", c_void_p, graph, None, 0, None, context)
    cu.read("cuGraphGetNodes", graph, None, c_size_t)
    general = NodeParams(type=1)
    general.of.memcpy = tools.MemcpyNode(0, 0, context, tools.copy_params(address, address + 64, 16))
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, general)
    general.of.memcpy.ctx = None
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, general)
    general.of.memcpy = tools.MemcpyNode(1, 0, context, tools.copy_params(address, address + 64, 16))
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, general)
    general.of.memcpy = tools.MemcpyNode(0, 1, context, tools.copy_params(address, address + 64, 16))
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, general)


@sequence
def memcpy_is_set(cu: Recorder) -> None:
    """Parameters of a memcpy node are changed."""
    graph, address, stream = tools.graph(cu), cu.memory(64, 0), cu.stream(NON_BLOCKING)
    tools.put(cu, 8, address + 32, 5, 32)
    node = tools.copy(cu, graph, address, address + 32, 4)
    for params in (
        tools.copy_params(address + 4, address + 32, 8),
        tools.copy_params(address, address + 32, 0),
        tools.copy_params(address, 0, 4),
        tools.copy_params(address + 16, address + 32, 4, Height=2, srcPitch=8, dstPitch=8),
    ):
        cu.call("cuGraphMemcpyNodeSetParams", node, params)
        tools.run(cu, tools.instantiate(cu, graph), stream)
        cu.see_bytes("bytes", address, 32)
    cu.call("cuGraphMemcpyNodeSetParams", node, None)


@sequence
def host_nodes(cu: Recorder) -> None:
    """A host node calls its function with its argument. Then the function and the argument are changed."""
    graph, stream = tools.graph(cu), cu.stream(NON_BLOCKING)
    seen: list[object] = []
    first = tools.host(cu, graph, lambda data: seen.append(("first", data)), data=5)
    second = tools.host(cu, graph, lambda data: seen.append(("second", data)), first)
    back = tools.HostNode(userData=77, syncMode=77, ctx=77)
    cu.call("cuGraphHostNodeGetParams", first, back)
    cu.see("back", (bool(back.fn), back.userData, back.syncMode, back.ctx))
    executable = tools.instantiate(cu, graph)
    tools.run(cu, executable, stream)
    tools.run(cu, executable, stream)
    cu.see("seen", seen)
    cu.call("cuGraphHostNodeSetParams", second, tools.host_params(lambda data: seen.append(("third", data)), 6))
    tools.run(cu, executable, stream)
    tools.run(cu, tools.instantiate(cu, graph), stream)
    cu.see("seen", seen[4:])
    for params in (tools.HostNode(None, None), None):
        cu.call("cuGraphAddHostNode", c_void_p, graph, None, 0, params)
        cu.call("cuGraphHostNodeSetParams", first, params)
    cu.call("cuGraphHostNodeGetParams", first, None)
    general = NodeParams(type=3)
    general.of.host = tools.host_params(lambda _: None)
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, general)
    cu.call("cuGraphNodeSetParams", first, general)
    general.of.host = tools.HostNode(general.of.host.fn, None, 2, None)
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, general)


@sequence
def event_nodes(cu: Recorder) -> None:
    """The event of an event node is read back and changed."""
    graph, one, two = tools.graph(cu), cu.event(), cu.event(2)
    record, wait = tools.record(cu, graph, one), tools.wait(cu, graph, one)
    for name, node in (("Record", record), ("Wait", wait)):
        cu.see("the event", cu.new(f"cuGraphEvent{name}NodeGetEvent", node, c_void_p) == one)
        cu.call(f"cuGraphEvent{name}NodeSetEvent", node, two)
        cu.see("the other", cu.new(f"cuGraphEvent{name}NodeGetEvent", node, c_void_p) == two)
        cu.call(f"cuGraphEvent{name}NodeSetEvent", node, None)
        cu.call(f"cuGraphEvent{name}NodeGetEvent", node, None)
        cu.call(f"cuGraphAddEvent{name}Node", c_void_p, graph, None, 0, None)
    for kind, node in ((7, record), (6, wait)):
        general = NodeParams(type=kind)
        general.of.event = tools.EventNode(one)
        cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, general)
        cu.call("cuGraphNodeSetParams", node, general)
        general.of.event = tools.EventNode(None)
        cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, general)
        cu.call("cuGraphNodeSetParams", node, general)
    tools.see_graph(cu, graph)


@sequence
def events_run(cu: Recorder) -> None:
    """A graph waits for an event that a stream has recorded, and records an event for which the host waits."""
    graph, stream, other = tools.graph(cu), cu.stream(NON_BLOCKING), cu.stream(NON_BLOCKING)
    before, after, out = cu.event(), cu.event(), cu.memory(4, 0)
    node = tools.wait(cu, graph, before)
    set_node = tools.memset(cu, graph, out, 7, 1, node)
    tools.record(cu, graph, after, set_node)
    executable = tools.instantiate(cu, graph)
    with cu.gate(other):
        cu.call_each(
            ("cuEventRecord", before, other), ("cuGraphLaunch", executable, stream),
            ("cuEventQuery", after), ("cuStreamQuery", stream),
        )  # fmt: skip
    cu.call("cuEventSynchronize", after)
    cu.see_words("out", out, 1)
    cu.call("cuStreamSynchronize", stream)
    elapsed = ctypes.c_float()
    cu.call("cuEventElapsedTime_v2", elapsed, before, after)
    cu.call("cuEventDestroy_v2", after)
    cu.call("cuGraphLaunch", executable, stream)
    cu.call("cuStreamSynchronize", stream)


@sequence
def destroyed_event(cu: Recorder) -> None:
    """The event of a node is destroyed; the node still refers to it."""
    graph, event = tools.graph(cu), cu.event()
    node = tools.record(cu, graph, event)
    cu.call("cuEventDestroy_v2", event)
    cu.call("cuGraphEventRecordNodeGetEvent", node, c_void_p)


@sequence
def unloaded_library(cu: Recorder) -> None:
    """The library of a kernel node is unloaded; the node and its graph still exist."""
    graph = tools.graph(cu)
    library = cu.library(KERNELS)
    kernel = cu.prepare("cuLibraryGetKernel", c_void_p, library, b"nothing")
    node = tools.kernel(cu, graph, None, kern=kernel)
    cu.call("cuLibraryUnload", library)
    cu.call("cuGraphNodeGetType", node, c_int)
    cu.call("cuGraphDestroy", graph)


@sequence
def freed_memory(cu: Recorder) -> None:
    """Memory of a memset node is freed before the graph is instantiated."""
    graph, address = tools.graph(cu), cu.memory(64)
    tools.memset(cu, graph, address, 1, 4)
    cu.call("cuMemFree_v2", address)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphDestroy", graph)


@sequence
def general_kernel_node(cu: Recorder) -> None:
    """A kernel node is added by the function that adds nodes of all types."""
    graph, out = tools.graph(cu), cu.memory(8, 0)
    increase = cu.kernel(KERNELS, "increase")
    params = NodeParams(type=0)
    params.of.kernel = tools.kernel_params(None, c_uint64(out), c_uint32(3), kern=increase, grid=(2, 1, 1))
    node = cu.new("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, params)
    tools.see_params(cu, node)
    cu.call("cuGraphAddNode_v2", c_void_p, graph, array(node), None, 1, params)
    tools.run(cu, tools.instantiate(cu, graph), cu.stream(NON_BLOCKING))
    cu.see_words("out", out, 2)
    assert pointers()
