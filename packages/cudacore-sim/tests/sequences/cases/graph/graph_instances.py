# SPDX-License-Identifier: Apache-2.0
"""Executable graphs: how they are made, run, and changed node by node."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_uint, c_uint32, c_uint64, c_void_p

import graph_tools as tools
from graph_tools import AUTO_FREE, DEVICE_LAUNCH, NODE_PRIORITY, UPLOAD, NodeParams, array
from ptx import KERNELS
from recorder import Recorder, sequence
from structs import device_allocation

NON_BLOCKING = 1


@sequence
def flags(cu: Recorder) -> None:
    """Valid and invalid flags of an executable graph."""
    graph = tools.graph(cu)
    tools.empty(cu, graph)
    for value in (0, 1, 2, 3, 4, 5, 8, 9, 15, 16, 1 << 40):
        cu.see("flags", value)
        executable = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, value)
        if executable:
            cu.read("cuGraphExecGetFlags", executable, c_uint64)
            cu.call("cuGraphExecDestroy", executable)
        params = tools.InstantiateParams(value, None, 99, 99)
        executable = cu.new("cuGraphInstantiateWithParams", c_void_p, graph, params)
        cu.see("result", (params.result, bool(params.node)))
        if executable:
            cu.read("cuGraphExecGetFlags", executable, c_uint64)
            cu.call("cuGraphExecDestroy", executable)
    cu.call("cuGraphInstantiateWithParams", c_void_p, graph, None)
    executable = tools.instantiate(cu, graph)
    cu.call("cuGraphExecGetFlags", executable, None)


@sequence
def empty_graph(cu: Recorder) -> None:
    """A graph without nodes is instantiated and launched."""
    graph, stream = tools.graph(cu), cu.stream(NON_BLOCKING)
    executable = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphUpload", executable, stream)
    tools.run(cu, executable, stream)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, DEVICE_LAUNCH)


@sequence
def device_launch(cu: Recorder) -> None:
    """The nodes that are allowed in a graph that the device launches."""
    address, event = cu.memory(64, 0), cu.event()
    function = cu.function(KERNELS, "nothing")
    for name in ("kernel", "memset", "memcpy", "empty", "host", "record", "wait", "alloc", "child"):
        graph = tools.graph(cu)
        inner = tools.graph(cu)
        tools.kernel(cu, inner, function)
        node = {
            "kernel": lambda graph=graph: tools.kernel(cu, graph, function),
            "memset": lambda graph=graph: tools.memset(cu, graph, address, 1, 1),
            "memcpy": lambda graph=graph: tools.copy(cu, graph, address, address + 16, 8),
            "empty": lambda graph=graph: tools.empty(cu, graph),
            "host": lambda graph=graph: tools.host(cu, graph, lambda _: None),
            "record": lambda graph=graph: tools.record(cu, graph, event),
            "wait": lambda graph=graph: tools.wait(cu, graph, event),
            "alloc": lambda graph=graph: tools.alloc(cu, graph, 64)[0],
            "child": lambda graph=graph, inner=inner: tools.child(cu, graph, inner),
        }[name]()
        cu.see("node", name)
        params = tools.InstantiateParams(DEVICE_LAUNCH, None, 99, 99)
        cu.call("cuGraphInstantiateWithParams", c_void_p, graph, params)
        cu.see("result", (params.result, "the node" if params.node == node else params.node))


@sequence
def upload(cu: Recorder) -> None:
    """An executable graph is uploaded by cuGraphUpload, and when it is instantiated."""
    graph, stream, address = tools.graph(cu), cu.stream(NON_BLOCKING), cu.memory(4, 0)
    tools.memset(cu, graph, address, 3, 1)
    executable = tools.instantiate(cu, graph)
    cu.call("cuGraphUpload", executable, stream)
    cu.call("cuStreamSynchronize", stream)
    cu.see_words("word", address, 1)
    cu.call("cuGraphUpload", executable, None)
    cu.call("cuGraphUpload", executable, 2)
    params = tools.InstantiateParams(UPLOAD, stream, 99, 99)
    executable = cu.new("cuGraphInstantiateWithParams", c_void_p, graph, params)
    cu.see("result", (params.result, params.node))
    tools.see_run(cu, executable, stream, "word", address, 1)


@sequence
def launches_in_order(cu: Recorder) -> None:
    """Nodes run in the order of their edges. Launches of one executable graph run one after another."""
    graph, stream, other = tools.graph(cu), cu.stream(NON_BLOCKING), cu.stream(NON_BLOCKING)
    seen: list[int] = []
    nodes = [tools.host(cu, graph, lambda _: seen.append(0))]
    for i in range(1, 5):
        nodes.append(tools.host(cu, graph, lambda _, i=i: seen.append(i), nodes[-1]))
    executable = tools.instantiate(cu, graph)
    with cu.gate(stream):
        for where in (stream, other):
            cu.call("cuGraphLaunch", executable, where)
        cu.call("cuStreamQuery", other)
        cu.see("seen", seen)
    cu.call("cuStreamSynchronize", other)
    cu.see("seen", seen)
    cu.call_each(("cuGraphLaunch", executable, None), ("cuGraphLaunch", executable, 2), ("cuCtxSynchronize",))
    cu.see("count", len(seen))


@sequence
def destroyed_while_running(cu: Recorder) -> None:
    """An executable graph that is destroyed while it runs still runs to its end."""
    graph, stream, address = tools.graph(cu), cu.stream(NON_BLOCKING), cu.memory(4, 0)
    tools.memset(cu, graph, address, 9, 1)
    executable = tools.instantiate(cu, graph)
    with cu.gate(stream):
        cu.call_each(
            ("cuGraphLaunch", executable, stream), ("cuGraphExecDestroy", executable), ("cuGraphDestroy", graph),
        )  # fmt: skip
    cu.call("cuStreamSynchronize", stream)
    cu.see_words("word", address, 1)


@sequence
def executable_destroyed_twice(cu: Recorder) -> None:
    """An executable graph is destroyed twice."""
    graph = tools.graph(cu)
    executable = tools.instantiate(cu, graph)
    cu.call("cuGraphExecDestroy", executable)
    cu.call("cuGraphExecDestroy", executable)


@sequence
def changed_after_instantiation(cu: Recorder) -> None:
    """Changes of a graph after its instantiation do not affect the executable graph."""
    graph, stream, address = tools.graph(cu), cu.stream(NON_BLOCKING), cu.memory(8, 0)
    node = tools.memset(cu, graph, address, 9, 1)
    executable = tools.instantiate(cu, graph)
    cu.call("cuGraphMemsetNodeSetParams", node, tools.memset_params(address, 10, 1))
    tools.memset(cu, graph, address + 4, 11, 1)
    tools.see_run(cu, executable, stream, "words", address, 2)
    cu.call("cuGraphDestroyNode", node)
    tools.run(cu, executable, stream)
    cu.call("cuGraphDestroy", graph)
    tools.run(cu, executable, stream)


@sequence
def changes_wait_for_no_launch(cu: Recorder) -> None:
    """Changing an executable graph does not affect a launch that is in progress."""
    graph, stream, address = tools.graph(cu), cu.stream(NON_BLOCKING), cu.memory(8, 0)
    node = tools.memset(cu, graph, address, 9, 1)
    executable = tools.instantiate(cu, graph)
    with cu.gate(stream):
        cu.call("cuGraphLaunch", executable, stream)
        params = tools.memset_params(address + 4, 10, 1)
        cu.call("cuGraphExecMemsetNodeSetParams", executable, node, params, tools.context(cu))
    cu.call("cuStreamSynchronize", stream)
    cu.see_words("words", address, 2)
    tools.see_run(cu, executable, stream, "words", address, 2)


@sequence
def kernel_is_updated(cu: Recorder) -> None:
    """The arguments, sizes and function of a kernel node in an executable graph are changed."""
    graph, stream, out = tools.graph(cu), cu.stream(NON_BLOCKING), cu.memory(64, 0)
    store, increase = cu.function(KERNELS, "store"), cu.function(KERNELS, "increase")
    node = tools.kernel(cu, graph, store, c_uint64(out), c_uint32(1))
    executable = tools.instantiate(cu, graph)
    for params in (
        tools.kernel_params(store, c_uint64(out), c_uint32(2)),
        tools.kernel_params(increase, c_uint64(out), c_uint32(10), grid=(3, 1, 1)),
        tools.kernel_params(increase, c_uint64(out), c_uint32(10), grid=(0, 1, 1)),
        tools.kernel_params(None, c_uint64(out), c_uint32(5), kern=cu.kernel(KERNELS, "store")),
        tools.kernel_params(None),
        tools.kernel_params(increase, c_uint64(out), c_uint32(100), block=(2, 1, 1), shared=100),
    ):
        cu.call("cuGraphExecKernelNodeSetParams_v2", executable, node, params)
        tools.see_run(cu, executable, stream, "words", out, 4)
    cu.call("cuGraphExecKernelNodeSetParams_v2", executable, node, None)
    cu.call("cuGraphExecKernelNodeSetParams_v2", executable, None, params)
    cu.call("cuGraphExecKernelNodeSetParams_v2", None, node, params)
    cu.call("cuGraphExecKernelNodeSetParams", executable, node, params)
    general = NodeParams(type=0)
    general.of.kernel = tools.kernel_params(store, c_uint64(out), c_uint32(77))
    cu.call("cuGraphExecNodeSetParams", executable, node, general)
    tools.see_run(cu, executable, stream, "words", out, 4)
    tools.see_params(cu, node)


@sequence
def foreign_nodes(cu: Recorder) -> None:
    """Nodes that are not in the executable graph: nodes of another graph or a clone, a new node, a destroyed node."""
    graph, other, address = tools.graph(cu), tools.graph(cu), cu.memory(64, 0)
    node = tools.memset(cu, graph, address, 1, 1)
    second = tools.memset(cu, graph, address + 4, 1, 1)
    foreign = tools.memset(cu, other, address, 1, 1)
    executable = tools.instantiate(cu, graph)
    params, context = tools.memset_params(address, 5, 1), tools.context(cu)
    new = tools.memset(cu, graph, address, 2, 1)
    copy = cu.prepare("cuGraphClone", c_void_p, graph)
    cloned = cu.prepare("cuGraphNodeFindInClone", c_void_p, node, copy)
    for name, given in {"node": node, "foreign": foreign, "new": new, "cloned": cloned}.items():
        cu.see("node", name)
        cu.call("cuGraphExecMemsetNodeSetParams", executable, given, params, context)
        cu.call("cuGraphNodeSetEnabled", executable, given, 0)
    cu.call("cuGraphDestroyNode", second)
    tools.run(cu, executable, cu.stream(NON_BLOCKING))


@sequence
def nodes_of_children_are_updated(cu: Recorder) -> None:
    """The parameters of a node inside a child graph are changed in the executable graph."""
    graph, other, stream, address = tools.graph(cu), tools.graph(cu), cu.stream(NON_BLOCKING), cu.memory(8, 0)
    original = tools.memset(cu, other, address, 1, 1)
    node = tools.child(cu, graph, other)
    inner = tools.nodes_of(cu, tools.child_graph(cu, node))[0]
    executable = tools.instantiate(cu, graph)
    params, context = tools.memset_params(address, 5, 1), tools.context(cu)
    cu.call("cuGraphExecMemsetNodeSetParams", executable, original, params, context)
    cu.call("cuGraphExecMemsetNodeSetParams", executable, inner, params, context)
    tools.see_run(cu, executable, stream, "words", address, 2)
    cu.call("cuGraphNodeSetEnabled", executable, inner, 0)
    cu.call("cuGraphNodeSetEnabled", executable, node, 0)
    cu.call("cuGraphNodeGetEnabled", executable, inner, c_uint)


@sequence
def memset_is_updated(cu: Recorder) -> None:
    """The changes of a memset node that an executable graph allows."""
    graph, stream, context = tools.graph(cu), cu.stream(NON_BLOCKING), tools.context(cu)
    address, other = cu.memory(4096, 0), cu.memory(4096, 0)
    pinned = cu.prepare("cuMemHostAlloc", c_void_p, 4096, 0)
    managed = cu.prepare("cuMemAllocManaged", c_uint64, 4096, 1)
    node = tools.memset(cu, graph, address, 1, 4)
    executable = tools.instantiate(cu, graph)
    for name, params in {
        "value": tools.memset_params(address, 2, 4),
        "address": tools.memset_params(address + 64, 3, 4),
        "another allocation": tools.memset_params(other, 3, 4),
        "shorter": tools.memset_params(address, 4, 2),
        "longer": tools.memset_params(address, 5, 8),
        "much longer": tools.memset_params(address, 5, 1000),
        "bytes": tools.memset_params(address, 6, 4, size=1),
        "words of 2": tools.memset_params(address, 6, 4, size=2),
        "rows": tools.memset_params(address, 7, 2, height=2, pitch=16),
        "none": tools.memset_params(address, 7, 0),
        "too long": tools.memset_params(address, 7, 5000),
        "pinned": tools.memset_params(pinned, 8, 4),
        "managed": tools.memset_params(managed, 8, 4),
        "nowhere": tools.memset_params(4096, 8, 4),
        "not aligned": tools.memset_params(address + 1, 8, 4),
    }.items():
        cu.see("change", name)
        cu.call("cuGraphExecMemsetNodeSetParams", executable, node, params, context)
        tools.see_run(cu, executable, stream, "words", address, 8)
    cu.call("cuGraphExecMemsetNodeSetParams", executable, node, None, context)
    cu.call("cuGraphExecMemsetNodeSetParams", executable, node, tools.memset_params(address, 2, 4), None)


@sequence
def memset_of_rows_is_updated(cu: Recorder) -> None:
    """The changes of a memset of rows that an executable graph allows."""
    graph, stream, context = tools.graph(cu), cu.stream(NON_BLOCKING), tools.context(cu)
    address = cu.memory(4096, 0)
    node = tools.memset(cu, graph, address, 1, 2, height=2, pitch=16)
    executable = tools.instantiate(cu, graph)
    for name, params in {
        "value": tools.memset_params(address, 2, 2, height=2, pitch=16),
        "address": tools.memset_params(address + 4, 3, 2, height=2, pitch=16),
        "pitch": tools.memset_params(address, 4, 2, height=2, pitch=12),
        "narrower": tools.memset_params(address, 5, 1, height=2, pitch=16),
        "higher": tools.memset_params(address, 6, 2, height=3, pitch=16),
        "lower": tools.memset_params(address, 7, 2, height=1, pitch=16),
        "bytes": tools.memset_params(address, 8, 2, height=2, pitch=16, size=1),
    }.items():
        cu.see("change", name)
        cu.call("cuGraphExecMemsetNodeSetParams", executable, node, params, context)
        tools.see_run(cu, executable, stream, "words", address, 12)


@sequence
def memcpy_is_updated(cu: Recorder) -> None:
    """The changes of a memcpy node that an executable graph allows."""
    graph, stream, context = tools.graph(cu), cu.stream(NON_BLOCKING), tools.context(cu)
    address, other = cu.memory(4096, 0), cu.memory(4096, 0)
    tools.put(cu, 32, address + 1024, 5, 64)
    pinned = int(cu.prepare("cuMemHostAlloc", c_void_p, 4096, 0))
    host = ctypes.addressof(tools.keep(ctypes.create_string_buffer(4096)))
    mapped = cu.prepare("cuMemCreate", c_uint64, 2 << 20, device_allocation(), 0)
    assert mapped
    node = tools.copy(cu, graph, address, address + 1024, 16)
    executable = tools.instantiate(cu, graph)
    for name, params in {
        "addresses": tools.copy_params(address + 16, address + 1028, 16),
        "another allocation": tools.copy_params(other, address + 1024, 16),
        "shorter": tools.copy_params(address, address + 1024, 8),
        "longer": tools.copy_params(address, address + 1024, 32),
        "rows": tools.copy_params(address, address + 1024, 4, Height=2, srcPitch=8, dstPitch=8),
        "none": tools.copy_params(address, address + 1024, 0),
        "to pinned": tools.copy_params(pinned, address + 1024, 16, to_type=1),
        "from pinned": tools.copy_params(address, pinned, 16, from_type=1),
        "to pageable": tools.copy_params(host, address + 1024, 16, to_type=1),
        "unified": tools.copy_params(address, address + 1024, 16, to_type=4, from_type=4),
        "nowhere": tools.copy_params(0, address + 1024, 16),
        "too long": tools.copy_params(address, address + 1024, 5000),
    }.items():
        cu.see("change", name)
        cu.call("cuGraphExecMemcpyNodeSetParams", executable, node, params, context)
        tools.see_run(cu, executable, stream, "words", address, 12)
    cu.call("cuGraphExecMemcpyNodeSetParams", executable, node, None, context)
    cu.call("cuGraphExecMemcpyNodeSetParams", executable, node, tools.copy_params(address, address + 1024, 8), None)


@sequence
def memcpy_with_the_host_is_updated(cu: Recorder) -> None:
    """The changes of a copy from and to the host that an executable graph allows."""
    graph, stream, context = tools.graph(cu), cu.stream(NON_BLOCKING), tools.context(cu)
    address = cu.memory(4096, 7)
    one = ctypes.addressof(tools.keep(ctypes.create_string_buffer(64)))
    two = ctypes.addressof(tools.keep(ctypes.create_string_buffer(64)))
    pinned = int(cu.prepare("cuMemHostAlloc", c_void_p, 4096, 0))
    node = tools.copy(cu, graph, one, address, 16, to_type=1)
    executable = tools.instantiate(cu, graph)
    for name, params in {
        "another buffer": tools.copy_params(two, address, 16, to_type=1),
        "shorter": tools.copy_params(one, address, 8, to_type=1),
        "pinned": tools.copy_params(pinned, address, 16, to_type=1),
        "the other way": tools.copy_params(address, one, 16, from_type=1),
        "device": tools.copy_params(address + 64, address, 16),
    }.items():
        cu.see("change", name)
        cu.call("cuGraphExecMemcpyNodeSetParams", executable, node, params, context)
        tools.run(cu, executable, stream)
    cu.see("second", ctypes.string_at(two, 16).hex())


@sequence
def host_is_updated(cu: Recorder) -> None:
    """The function of a host node in an executable graph is changed."""
    graph, stream = tools.graph(cu), cu.stream(NON_BLOCKING)
    seen: list[object] = []
    node = tools.host(cu, graph, lambda data: seen.append(("first", data)), data=1)
    executable = tools.instantiate(cu, graph)
    params = tools.host_params(lambda data: seen.append(("second", data)), 2)
    cu.call("cuGraphExecHostNodeSetParams", executable, node, params)
    tools.run(cu, executable, stream)
    cu.call("cuGraphExecHostNodeSetParams", executable, node, tools.HostNode(None, None))
    cu.call("cuGraphExecHostNodeSetParams", executable, node, None)
    general = NodeParams(type=3)
    general.of.host = tools.host_params(lambda data: seen.append(("third", data)), 3)
    cu.call("cuGraphExecNodeSetParams", executable, node, general)
    tools.run(cu, executable, stream)
    cu.see("seen", seen)


@sequence
def events_are_updated(cu: Recorder) -> None:
    """The events of an executable graph's nodes are changed."""
    graph, stream = tools.graph(cu), cu.stream(NON_BLOCKING)
    one, two = cu.event(), cu.event()
    record, wait = tools.record(cu, graph, one), tools.wait(cu, graph, one)
    executable = tools.instantiate(cu, graph)
    cu.call("cuGraphExecEventRecordNodeSetEvent", executable, record, two)
    cu.call("cuGraphExecEventWaitNodeSetEvent", executable, wait, two)
    tools.run(cu, executable, stream)
    for name, node in (("Record", record), ("Wait", wait)):
        cu.call(f"cuGraphExecEvent{name}NodeSetEvent", executable, node, None)
        cu.call(f"cuGraphExecEvent{name}NodeSetEvent", executable, None, two)
    cu.call("cuGraphExecEventRecordNodeSetEvent", executable, wait, two)
    cu.call("cuEventElapsedTime_v2", ctypes.c_float, one, two)
    cu.call("cuEventElapsedTime_v2", ctypes.c_float, two, two)
    for kind, node in ((7, record), (6, wait)):
        general = NodeParams(type=kind)
        general.of.event = tools.EventNode(one)
        cu.call("cuGraphExecNodeSetParams", executable, node, general)
    tools.run(cu, executable, stream)


@sequence
def child_is_updated(cu: Recorder) -> None:
    """The parameters of a child graph in an executable graph are changed to those of another graph."""
    graph, other, stream, address = tools.graph(cu), tools.graph(cu), cu.stream(NON_BLOCKING), cu.memory(16, 0)
    first = tools.memset(cu, other, address, 1, 1)
    tools.memset(cu, other, address + 4, 1, 1, first)
    node = tools.child(cu, graph, other)
    executable = tools.instantiate(cu, graph)
    same, fewer, edges = tools.graph(cu), tools.graph(cu), tools.graph(cu)
    tools.memset(cu, same, address + 4, 3, 1, tools.memset(cu, same, address, 2, 1))
    tools.memset(cu, fewer, address, 9, 1)
    tools.memset(cu, edges, address, 8, 1)
    tools.memset(cu, edges, address, 8, 1)
    for name, given in {"same": same, "fewer": fewer, "other edges": edges, "null": None, "itself": graph}.items():
        cu.see("given", name)
        cu.call("cuGraphExecChildGraphNodeSetParams", executable, node, given)
        tools.see_run(cu, executable, stream, "words", address, 4)
    general = NodeParams(type=4)
    general.of.graph = tools.ChildNode(other, 0)
    cu.call("cuGraphExecNodeSetParams", executable, node, general)
    tools.see_run(cu, executable, stream, "words", address, 4)
    cu.call("cuGraphNodeSetParams", node, general)


@sequence
def types_that_cannot_be_updated(cu: Recorder) -> None:
    """Nodes of types that cannot be changed, and parameters of another type than the node's."""
    graph, address = tools.graph(cu), cu.memory(64, 0)
    empty, memset = tools.empty(cu, graph), tools.memset(cu, graph, address, 1, 1)
    node, pointer = tools.alloc(cu, graph, 64, empty)
    free = tools.free(cu, graph, pointer, node)
    executable = tools.instantiate(cu, graph)
    for given in (empty, node, free, memset):
        for kind in (5, 10, 11, 2):
            params = NodeParams(type=kind)
            if kind == 10:
                params.of.alloc = tools.alloc_params(64)
            elif kind == 11:
                params.of.free = tools.FreeNode(pointer)
            elif kind == 2:
                params.of.memset = tools.memset_params(address, 2, 1, ctx=tools.context(cu))
            cu.call("cuGraphExecNodeSetParams", executable, given, params)
            cu.call("cuGraphNodeSetParams", given, params)


@sequence
def enabled(cu: Recorder) -> None:
    """Nodes are disabled and enabled. Nodes of some types cannot be disabled."""
    graph, stream, out, event = tools.graph(cu), cu.stream(NON_BLOCKING), cu.memory(16, 0), cu.event()
    memset = tools.memset(cu, graph, out, 1, 1)
    kernel = tools.kernel(cu, graph, cu.function(KERNELS, "increase"), c_uint64(out), c_uint32(5), after=(memset,))
    copy = tools.copy(cu, graph, out + 4, out, 4, kernel)
    others = {
        "host": tools.host(cu, graph, lambda _: None), "empty": tools.empty(cu, graph),
        "record": tools.record(cu, graph, event), "wait": tools.wait(cu, graph, event),
        "child": tools.child(cu, graph, tools.graph(cu)),
    }  # fmt: skip
    executable = tools.instantiate(cu, graph)
    for nodes in ((), (kernel,), (memset,), (kernel, copy), ()):
        for node in (memset, kernel, copy):
            cu.call("cuGraphNodeSetEnabled", executable, node, int(node not in nodes))
            cu.read("cuGraphNodeGetEnabled", executable, node, c_uint)
        tools.put(cu, 32, out, 100, 4)
        tools.see_run(cu, executable, stream, "words", out, 2)
    for name, node in others.items():
        cu.see("node", name)
        cu.call("cuGraphNodeSetEnabled", executable, node, 0)
        cu.call("cuGraphNodeSetEnabled", executable, node, 1)
        cu.call("cuGraphNodeGetEnabled", executable, node, c_uint)
    cu.call("cuGraphNodeSetEnabled", executable, kernel, 7)
    cu.read("cuGraphNodeGetEnabled", executable, kernel, c_uint)
    cu.call("cuGraphNodeGetEnabled", executable, kernel, None)
    cu.call("cuGraphNodeSetEnabled", executable, None, 1)
    cu.call("cuGraphNodeSetEnabled", None, kernel, 1)


@sequence
def disabled_and_updated(cu: Recorder) -> None:
    """Whether a node stays disabled when the node or the whole executable graph is updated."""
    graph, out = tools.graph(cu), cu.memory(16, 0)
    node = tools.memset(cu, graph, out, 1, 1)
    executable = tools.instantiate(cu, graph)
    cu.call("cuGraphNodeSetEnabled", executable, node, 0)
    cu.call("cuGraphExecMemsetNodeSetParams", executable, node, tools.memset_params(out, 2, 1), tools.context(cu))
    cu.read("cuGraphNodeGetEnabled", executable, node, c_uint)
    tools.see_update(cu, executable, graph)
    cu.read("cuGraphNodeGetEnabled", executable, node, c_uint)


@sequence
def priorities(cu: Recorder) -> None:
    """A graph is instantiated with the flag that its nodes keep their priorities."""
    graph, stream, out = tools.graph(cu), cu.stream(NON_BLOCKING), cu.memory(8, 0)
    node = tools.kernel(cu, graph, cu.function(KERNELS, "store"), c_uint64(out), c_uint32(5))
    cu.call("cuGraphKernelNodeSetAttribute", node, 8, (c_uint * 16)(-2 & 0xFFFFFFFF))
    executable = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, NODE_PRIORITY)
    tools.see_run(cu, executable, stream, "out", out, 1)
    same, other = tools.graph(cu), tools.graph(cu)
    node = tools.kernel(cu, same, cu.function(KERNELS, "store"), c_uint64(out), c_uint32(6))
    cu.call("cuGraphKernelNodeSetAttribute", node, 8, (c_uint * 16)(-2 & 0xFFFFFFFF))
    tools.kernel(cu, other, cu.function(KERNELS, "store"), c_uint64(out), c_uint32(7))
    tools.see_update(cu, executable, same)
    tools.see_update(cu, executable, other)
    tools.see_run(cu, executable, stream, "out", out, 1)


@sequence
def faults_in_graphs(cu: Recorder) -> None:
    """A kernel of a graph fails. Then calls with this graph and new graphs are made."""
    graph, stream = tools.graph(cu), cu.stream(NON_BLOCKING)
    tools.kernel(cu, graph, cu.function(KERNELS, "stop"))
    executable = tools.instantiate(cu, graph)
    cu.call("cuGraphLaunch", executable, stream)
    cu.call("cuStreamSynchronize", stream)
    cu.call("cuGraphLaunch", executable, stream)
    cu.call("cuGraphCreate", c_void_p, 0)
    cu.call("cuGraphAddEmptyNode", c_void_p, graph, None, 0)
    cu.call("cuGraphGetNodes", graph, None, ctypes.c_size_t)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphExecDestroy", executable)
    cu.call("cuGraphDestroy", graph)


@sequence
def calls_in_host_nodes(cu: Recorder) -> None:
    """The calls of the driver that the function of a host node can make."""
    graph, stream, other = tools.graph(cu), cu.stream(NON_BLOCKING), tools.graph(cu)
    event, spare = cu.event(), cu.stream(NON_BLOCKING)
    made = tools.instantiate(cu, other)

    def inside(_: object) -> None:
        cu.call("cuCtxGetCurrent", c_void_p)
        cu.call("cuStreamQuery", stream)
        cu.call("cuStreamIsCapturing", stream, c_int)
        cu.call("cuGraphCreate", c_void_p, 0)
        cu.call("cuGraphExecDestroy", made)
        cu.call("cuGraphDestroy", other)
        cu.call("cuEventQuery", event)
        cu.call("cuEventCreate", c_void_p, 0)
        cu.call("cuEventDestroy_v2", event)
        cu.call("cuStreamDestroy_v2", spare)
        cu.call("cuMemFree_v2", 0)
        cu.call("cuThreadExchangeStreamCaptureMode", c_int(2))
        cu.call("cuUserObjectRelease", None, 1)
        cu.call("cuLibraryUnload", None)
        cu.call("cuMemPoolDestroy", None)
        cu.call("cuCtxSetCurrent", None)

    tools.host(cu, graph, inside)
    cu.prepare("cuGraphLaunch", tools.instantiate(cu, graph), stream)
    cu.attempt("cuStreamSynchronize", stream)


@sequence
def another_context(cu: Recorder) -> None:
    """A graph is launched in a stream of another context than the context of its nodes."""
    graph, out = tools.graph(cu), cu.memory(8, 0)
    primary = tools.context(cu)
    tools.memset(cu, graph, out, 3, 1)
    tools.kernel(cu, graph, cu.function(KERNELS, "store"), c_uint64(out + 4), c_uint32(5))
    context = cu.prepare("cuCtxCreate_v2", c_void_p, 0, 0)
    cu.prepare("cuCtxSetCurrent", context)
    stream = cu.stream(NON_BLOCKING)
    executable = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    tools.run(cu, executable, stream)
    cu.prepare("cuCtxSetCurrent", primary)
    cu.see_words("words", out, 2)
    cu.call("cuGraphLaunch", executable, stream)
    cu.call("cuStreamSynchronize", stream)
    cu.call("cuGraphExecDestroy", executable)
    assert array()
    assert AUTO_FREE
