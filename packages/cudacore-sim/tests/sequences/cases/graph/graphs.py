# SPDX-License-Identifier: Apache-2.0
"""Graphs: their nodes and edges, clones, child graphs."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_uint64, c_void_p

import graph_tools as tools
from graph_tools import Edge, NodeParams, array
from ptx import KERNELS
from recorder import Recorder, sequence


@sequence
def create(cu: Recorder) -> None:
    """A graph is created and destroyed; flags and NULL are refused."""
    graph = cu.new("cuGraphCreate", c_void_p, 0)
    cu.call("cuGraphDestroy", graph)
    for flags in (1, 2, -1):
        cu.call("cuGraphCreate", c_void_p, flags)
    cu.call("cuGraphCreate", None, 0)
    cu.call("cuGraphDestroy", None)


@sequence
def create_without_context(cu: Recorder) -> None:
    """Which calls for graphs need a current context."""
    address = cu.memory(64)
    event = cu.event()
    cu.prepare("cuCtxSetCurrent", None)
    graph = cu.new("cuGraphCreate", c_void_p, 0)
    cu.call("cuGraphAddEmptyNode", c_void_p, graph, None, 0)
    cu.call("cuGraphAddEventRecordNode", c_void_p, graph, None, 0, event)
    cu.call("cuGraphAddEventWaitNode", c_void_p, graph, None, 0, event)
    cu.call("cuGraphAddHostNode", c_void_p, graph, None, 0, tools.host_params(lambda _: None))
    cu.call("cuGraphAddMemsetNode", c_void_p, graph, None, 0, tools.memset_params(address, 1, 4), None)
    cu.call("cuGraphAddMemcpyNode", c_void_p, graph, None, 0, tools.copy_params(address, address + 16, 8), None)
    cu.call("cuGraphAddMemAllocNode", c_void_p, graph, None, 0, tools.alloc_params(64))
    cu.call("cuGraphConditionalHandleCreate", c_uint64, graph, None, 0, 0)
    cu.call("cuGraphClone", c_void_p, graph)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphDestroy", graph)


@sequence
def destroyed_twice(cu: Recorder) -> None:
    """A graph is destroyed twice."""
    graph = tools.graph(cu)
    cu.call("cuGraphDestroy", graph)
    cu.call("cuGraphDestroy", graph)


@sequence
def no_graph(cu: Recorder) -> None:
    """Calls with NULL instead of a graph or a node."""
    graph = tools.graph(cu)
    cu.call("cuGraphAddEmptyNode", c_void_p, None, None, 0)
    cu.call("cuGraphAddEmptyNode", None, graph, None, 0)
    cu.call("cuGraphGetNodes", None, None, c_size_t)
    cu.call("cuGraphGetNodes", graph, None, None)
    cu.call("cuGraphGetRootNodes", None, None, c_size_t)
    cu.call("cuGraphGetRootNodes", graph, None, None)
    cu.call("cuGraphGetEdges_v2", None, None, None, None, c_size_t)
    cu.call("cuGraphGetEdges_v2", graph, None, None, None, None)
    cu.call("cuGraphNodeGetType", None, c_int)
    cu.call("cuGraphNodeGetDependencies_v2", None, None, None, c_size_t)
    cu.call("cuGraphNodeGetDependentNodes_v2", None, None, None, c_size_t)
    cu.call("cuGraphDestroyNode", None)
    cu.call("cuGraphClone", c_void_p, None)
    cu.call("cuGraphClone", None, graph)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, None, 0)
    cu.call("cuGraphInstantiateWithFlags", None, graph, 0)
    cu.call("cuGraphExecDestroy", None)
    cu.call("cuGraphLaunch", None, None)
    cu.call("cuGraphUpload", None, None)
    cu.call("cuGraphChildGraphNodeGetGraph", None, c_void_p)
    cu.call("cuGraphDebugDotPrint", None, b"/dev/null", 0)
    cu.call("cuGraphDebugDotPrint", graph, None, 0)
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, None)
    cu.call("cuGraphNodeSetParams", None, NodeParams(type=5))
    cu.call("cuGraphExecUpdate_v2", None, graph, tools.UpdateInfo())
    cu.call("cuGraphExecGetFlags", None, c_uint64)


@sequence
def shape(cu: Recorder) -> None:
    """The nodes, roots and edges of a graph, in the driver's order."""
    graph = tools.graph(cu)
    names: dict[int, str] = {}
    first = tools.empty(cu, graph)
    left, right = tools.empty(cu, graph, first), tools.empty(cu, graph, first)
    alone = tools.empty(cu, graph)
    last = tools.empty(cu, graph, right, left, alone)
    names.update({first: "first", left: "left", right: "right", alone: "alone", last: "last"})
    cu.see("nodes", [names[node] for node in tools.nodes_of(cu, graph)])
    cu.see("edges", [f"{names[a]} > {names[b]}" for a, b, _ in tools.edges_of(cu, graph)])
    count = cu.read("cuGraphGetRootNodes", graph, None, c_size_t)
    roots = (c_void_p * 4)()
    cu.call("cuGraphGetRootNodes", graph, roots, c_size_t(count))
    cu.see("roots", [names.get(node or 0) for node in roots])
    for node in (first, last, alone):
        cu.read("cuGraphNodeGetDependencies_v2", node, None, None, c_size_t)
        cu.read("cuGraphNodeGetDependentNodes_v2", node, None, None, c_size_t)
    found = (c_void_p * 4)()
    cu.call("cuGraphNodeGetDependencies_v2", last, found, None, c_size_t(3))
    cu.see("dependencies", [names.get(node or 0) for node in found])
    found = (c_void_p * 4)()
    cu.call("cuGraphNodeGetDependentNodes_v2", first, found, None, c_size_t(2))
    cu.see("dependents", [names.get(node or 0) for node in found])


@sequence
def order_of_many(cu: Recorder) -> None:
    """The order of nodes and edges if edges lead from later nodes to earlier ones."""
    graph = tools.graph(cu)
    nodes = [tools.empty(cu, graph) for _ in range(8)]
    names = {node: str(i) for i, node in enumerate(nodes)}
    pairs = [(7, 0), (3, 1), (7, 2), (2, 1), (6, 5), (5, 4), (0, 4), (3, 0)]
    before, after = array(*(nodes[a] for a, _ in pairs)), array(*(nodes[b] for _, b in pairs))
    cu.call("cuGraphAddDependencies_v2", graph, before, after, None, len(pairs))
    cu.see("nodes", [names[node] for node in tools.nodes_of(cu, graph)])
    cu.see("edges", [f"{names[a]} > {names[b]}" for a, b, _ in tools.edges_of(cu, graph)])
    count = c_size_t(8)
    roots = (c_void_p * 8)()
    cu.call("cuGraphGetRootNodes", graph, roots, count)
    cu.see("roots", ([names.get(node or 0) for node in roots], count.value))
    cu.call("cuGraphDestroyNode", nodes[2])
    cu.call("cuGraphDestroyNode", nodes[7])
    names[tools.empty(cu, graph, nodes[4])] = "new"
    cu.see("nodes", [names[node] for node in tools.nodes_of(cu, graph)])
    cu.see("edges", [f"{names[a]} > {names[b]}" for a, b, _ in tools.edges_of(cu, graph)])


@sequence
def sizes_of_arrays(cu: Recorder) -> None:
    """Queries of nodes and edges with arrays that are larger or smaller than the number of results."""
    graph = tools.graph(cu)
    first = tools.empty(cu, graph)
    second = tools.empty(cu, graph, first)
    tools.empty(cu, graph, first, second)
    for size in (0, 1, 3, 5):
        cu.see("size", size)
        count = c_size_t(size)
        nodes, more = (c_void_p * 6)(*([1] * 6)), (c_void_p * 6)(*([1] * 6))
        cu.call("cuGraphGetNodes", graph, nodes, count)
        cu.see("nodes", (count.value, [{None: "null", 1: "untouched"}.get(n, "node") for n in nodes]))
        nodes, count = (c_void_p * 6)(*([1] * 6)), c_size_t(size)
        cu.call("cuGraphGetRootNodes", graph, nodes, count)
        cu.see("roots", (count.value, [{None: "null", 1: "untouched"}.get(n, "node") for n in nodes]))
        nodes, count, data = (c_void_p * 6)(*([1] * 6)), c_size_t(size), (Edge * 6)()
        ctypes.memset(data, 9, 48)
        cu.call("cuGraphGetEdges_v2", graph, nodes, more, data, count)
        cu.see("edges", (count.value, [{None: "null", 1: "untouched"}.get(n, "node") for n in nodes],
                         [d.type for d in data]))  # fmt: skip
        nodes, count = (c_void_p * 6)(*([1] * 6)), c_size_t(size)
        cu.call("cuGraphNodeGetDependentNodes_v2", first, nodes, None, count)
        cu.see("dependents", (count.value, [{None: "null", 1: "untouched"}.get(n, "node") for n in nodes]))
        nodes, count = (c_void_p * 6)(*([1] * 6)), c_size_t(size)
        cu.call("cuGraphNodeGetDependencies", second, nodes, count)
        cu.see("dependencies", (count.value, [{None: "null", 1: "untouched"}.get(n, "node") for n in nodes]))
    count = c_size_t(5)
    cu.call("cuGraphGetEdges_v2", graph, nodes, None, None, count)
    cu.call("cuGraphGetEdges_v2", graph, None, nodes, None, count)
    cu.call("cuGraphGetEdges_v2", graph, None, None, data, count)
    cu.call("cuGraphGetEdges", graph, nodes, more, count)
    cu.call("cuGraphNodeGetDependencies_v2", second, None, data, count)


@sequence
def dependencies_at_creation(cu: Recorder) -> None:
    """A node is added with invalid, repeated or missing dependencies."""
    graph, other = tools.graph(cu), tools.graph(cu)
    node, foreign = tools.empty(cu, graph), tools.empty(cu, other)
    cu.call("cuGraphAddEmptyNode", c_void_p, graph, None, 1)
    cu.call("cuGraphAddEmptyNode", c_void_p, graph, array(None), 1)
    cu.call("cuGraphAddEmptyNode", c_void_p, graph, array(node, node), 2)
    cu.call("cuGraphAddEmptyNode", c_void_p, graph, array(foreign), 1)
    cu.call("cuGraphAddEmptyNode", c_void_p, graph, array(node, foreign), 2)
    cu.call("cuGraphAddEmptyNode", c_void_p, graph, array(node), 0)
    tools.see_graph(cu, graph)


@sequence
def add_dependencies(cu: Recorder) -> None:
    """Adding edges: new and existing edges, an edge from a node to itself, a cycle, and a node of another graph."""
    graph, other = tools.graph(cu), tools.graph(cu)
    one, two, three = (tools.empty(cu, graph) for _ in range(3))
    foreign = tools.empty(cu, other)
    for before, after in ((one, two), (one, two), (two, three), (one, one), (three, one), (two, one), (one, foreign),
                          (foreign, one), (one, None), (None, one)):  # fmt: skip
        cu.call("cuGraphAddDependencies_v2", graph, array(before), array(after), None, 1)
    tools.see_graph(cu, graph)
    cu.call("cuGraphAddDependencies_v2", graph, None, None, None, 0)
    cu.call("cuGraphAddDependencies_v2", graph, None, None, None, 1)
    cu.call("cuGraphAddDependencies_v2", graph, array(one), None, None, 1)
    cu.call("cuGraphAddDependencies_v2", None, array(one), array(two), None, 1)
    cu.call("cuGraphAddDependencies_v2", other, array(one), array(three), None, 1)
    cu.call("cuGraphAddDependencies", graph, array(one), array(three), 1)
    tools.see_graph(cu, graph)


@sequence
def add_several_of_which_one_is_bad(cu: Recorder) -> None:
    """Several edges are added by one call; one of these exists already, or occurs twice."""
    graph = tools.graph(cu)
    one, two, three = (tools.empty(cu, graph) for _ in range(3))
    cu.call("cuGraphAddDependencies_v2", graph, array(one, one), array(two, two), None, 2)
    tools.see_graph(cu, graph)
    cu.call("cuGraphAddDependencies_v2", graph, array(one), array(two), None, 1)
    cu.call("cuGraphAddDependencies_v2", graph, array(two, one), array(three, two), None, 2)
    tools.see_graph(cu, graph)
    cu.call("cuGraphAddDependencies_v2", graph, array(one, two), array(three, two), None, 2)
    tools.see_graph(cu, graph)


@sequence
def cycles(cu: Recorder) -> None:
    """A cycle, added by one call, is an error when the graph is instantiated."""
    graph = tools.graph(cu)
    one, two, three = (tools.empty(cu, graph) for _ in range(3))
    before, after = array(one, two, three), array(two, three, one)
    cu.call("cuGraphAddDependencies_v2", graph, before, after, None, 3)
    names = tools.labels(cu, graph)
    params = tools.InstantiateParams(0, None, 99, 99)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphInstantiateWithParams", c_void_p, graph, params)
    cu.see("result", params.result)
    cu.see("node is told", params.node in names)
    cu.call("cuGraphClone", c_void_p, graph)


@sequence
def remove_dependencies(cu: Recorder) -> None:
    """Existing and missing edges are removed."""
    graph = tools.graph(cu)
    one = tools.empty(cu, graph)
    two = tools.empty(cu, graph, one)
    three = tools.empty(cu, graph, one, two)
    cu.call("cuGraphRemoveDependencies_v2", graph, array(one), array(three), None, 1)
    tools.see_graph(cu, graph)
    cu.call("cuGraphRemoveDependencies_v2", graph, array(one), array(three), None, 1)
    cu.call("cuGraphRemoveDependencies_v2", graph, array(two), array(one), None, 1)
    cu.call("cuGraphRemoveDependencies_v2", graph, array(one, one), array(two, three), None, 2)
    tools.see_graph(cu, graph)
    cu.call("cuGraphRemoveDependencies", graph, array(two), array(three), 1)
    cu.call("cuGraphRemoveDependencies_v2", graph, None, None, None, 0)
    cu.call("cuGraphRemoveDependencies_v2", graph, None, None, None, 1)
    cu.call("cuGraphRemoveDependencies_v2", None, array(one), array(two), None, 1)
    tools.see_graph(cu, graph)


@sequence
def destroy_nodes(cu: Recorder) -> None:
    """The edges of a node are removed when the node is destroyed."""
    graph = tools.graph(cu)
    one = tools.empty(cu, graph)
    two = tools.empty(cu, graph, one)
    tools.empty(cu, graph, two)
    cu.call("cuGraphDestroyNode", two)
    tools.see_graph(cu, graph)
    cu.call("cuGraphDestroyNode", one)
    tools.see_graph(cu, graph)


@sequence
def edge_data(cu: Recorder) -> None:
    """Edges with valid and invalid annotations."""
    graph = tools.graph(cu)
    function = cu.function(KERNELS, "nothing")
    one, two = tools.kernel(cu, graph, function), tools.kernel(cu, graph, function)
    empty = tools.empty(cu, graph)
    for data in ((1, 0, 1), (2, 0, 1), (0, 0, 1), (1, 0, 0), (3, 0, 1), (0, 1, 0), (1, 1, 1), (0, 0, 2)):
        cu.see("edge", data)
        if cu.call("cuGraphAddDependencies_v2", graph, array(one), array(two), (Edge * 1)(Edge(*data)), 1) == 0:
            tools.see_graph(cu, graph)
            cu.call("cuGraphGetEdges", graph, None, None, c_size_t)
            cu.call("cuGraphGetEdges", graph, (c_void_p * 3)(), (c_void_p * 3)(), c_size_t(3))
            cu.call("cuGraphNodeGetDependencies", two, (c_void_p * 3)(), c_size_t(3))
            cu.call("cuGraphNodeGetDependencies_v2", two, (c_void_p * 3)(), None, c_size_t(3))
            cu.call("cuGraphNodeGetDependentNodes", one, (c_void_p * 3)(), c_size_t(3))
            cu.call("cuGraphAddDependencies_v2", graph, array(one), array(two), None, 1)
            cu.call("cuGraphRemoveDependencies_v2", graph, array(one), array(two), None, 1)
            cu.call("cuGraphRemoveDependencies_v2", graph, array(one), array(two), (Edge * 1)(Edge(*data)), 1)
    reserved = Edge(1, 0, 1)
    reserved.reserved[0] = 1
    cu.call("cuGraphAddDependencies_v2", graph, array(one), array(two), (Edge * 1)(reserved), 1)
    cu.call("cuGraphAddDependencies_v2", graph, array(empty), array(two), (Edge * 1)(Edge(1, 0, 1)), 1)
    cu.call("cuGraphAddDependencies_v2", graph, array(one), array(empty), (Edge * 1)(Edge(1, 0, 1)), 1)
    tools.see_graph(cu, graph)


@sequence
def edge_data_at_creation(cu: Recorder) -> None:
    """A node is added with an edge that has annotations, and the graph is launched."""
    graph, out, stream = tools.graph(cu), cu.memory(8, 0), cu.stream(1)
    store = cu.function(KERNELS, "store")
    one = tools.kernel(cu, graph, store, c_uint64(out), ctypes.c_uint32(1))
    params = NodeParams(type=0)
    params.of.kernel = tools.kernel_params(store, c_uint64(out), ctypes.c_uint32(2))
    cu.call("cuGraphAddNode_v2", c_void_p, graph, array(one), (Edge * 1)(Edge(1, 0, 1)), 1, params)
    tools.see_graph(cu, graph)
    executable = tools.instantiate(cu, graph)
    tools.see_run(cu, executable, stream, "out", out, 1)


@sequence
def clones(cu: Recorder) -> None:
    """The node of a clone is found by the original node. Later changes of the original do not affect the clone."""
    graph = tools.graph(cu)
    address = cu.memory(64, 0)
    one = tools.memset(cu, graph, address, 5, 4)
    two = tools.empty(cu, graph, one)
    copy = cu.new("cuGraphClone", c_void_p, graph)
    tools.see_graph(cu, copy)
    names = tools.labels(cu, copy)
    for node in (one, two):
        found = cu.new("cuGraphNodeFindInClone", c_void_p, node, copy)
        cu.see("found", names.get(found))
    cu.call("cuGraphNodeFindInClone", c_void_p, one, graph)
    cu.call("cuGraphNodeFindInClone", c_void_p, None, copy)
    cu.call("cuGraphNodeFindInClone", c_void_p, one, None)
    three = tools.empty(cu, graph)
    cu.call("cuGraphNodeFindInClone", c_void_p, three, copy)
    cu.call("cuGraphDestroyNode", cu.new("cuGraphNodeFindInClone", c_void_p, two, copy))
    cu.call("cuGraphNodeFindInClone", c_void_p, two, copy)
    second = cu.new("cuGraphClone", c_void_p, copy)
    cu.call("cuGraphNodeFindInClone", c_void_p, one, second)
    first = cu.new("cuGraphNodeFindInClone", c_void_p, one, copy)
    cu.call("cuGraphNodeFindInClone", c_void_p, first, second)
    tools.see_graph(cu, graph)
    tools.see_graph(cu, copy)


@sequence
def clone_outlives_the_original(cu: Recorder) -> None:
    """A clone can be used after the original is destroyed."""
    graph = tools.graph(cu)
    tools.empty(cu, graph, tools.empty(cu, graph))
    copy = cu.new("cuGraphClone", c_void_p, graph)
    cu.call("cuGraphDestroy", graph)
    tools.see_graph(cu, copy)
    cu.call("cuGraphDestroy", copy)


@sequence
def child_graphs(cu: Recorder) -> None:
    """A child graph is a clone of the given graph."""
    graph, other, address, stream = tools.graph(cu), tools.graph(cu), cu.memory(8, 0), cu.stream(1)
    one = tools.memset(cu, other, address, 5, 1)
    node = tools.child(cu, graph, other)
    inner = tools.child_graph(cu, node)
    cu.see("another graph", inner != other)
    tools.see_graph(cu, inner)
    found = cu.new("cuGraphNodeFindInClone", c_void_p, one, inner)
    cu.see("found", found in tools.nodes_of(cu, inner))
    tools.empty(cu, other)
    tools.see_graph(cu, inner)
    tools.memset(cu, inner, address + 4, 6, 1)
    tools.see_graph(cu, graph)
    cu.call("cuGraphDestroy", inner)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, inner, 0)
    cu.call("cuGraphChildGraphNodeGetGraph", one, c_void_p)
    cu.call("cuGraphChildGraphNodeGetGraph", node, None)
    cu.call("cuGraphAddChildGraphNode", c_void_p, graph, None, 0, None)
    cu.call("cuGraphAddChildGraphNode", c_void_p, graph, None, 0, inner)
    tools.see_graph(cu, graph)
    tools.see_run(cu, tools.instantiate(cu, graph), stream, "words", address, 2)
    cu.call("cuGraphClone", c_void_p, inner)


@sequence
def child_graph_is_moved(cu: Recorder) -> None:
    """A graph that is moved into a child node belongs to the parent graph from then on."""
    graph, other, address = tools.graph(cu), tools.graph(cu), cu.memory(8, 0)
    tools.memset(cu, other, address, 5, 1)
    params = NodeParams(type=4)
    params.of.graph = tools.ChildNode(other, 1)
    node = cu.new("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, params)
    if node:
        cu.see("the same graph", tools.child_graph(cu, node) == other)
        cu.call("cuGraphDestroy", other)
        cu.call("cuGraphInstantiateWithFlags", c_void_p, other, 0)
        cu.call("cuGraphClone", c_void_p, other)
        cu.call("cuGraphAddChildGraphNode", c_void_p, graph, None, 0, other)
        params.of.graph = tools.ChildNode(other, 1)
        cu.call("cuGraphAddNode_v2", c_void_p, tools.graph(cu), None, None, 0, params)
        cu.call("cuGraphAddMemAllocNode", c_void_p, other, None, 0, tools.alloc_params(64))
        tools.run(cu, tools.instantiate(cu, graph), cu.stream(1))
        cu.see_words("words", address, 1)


@sequence
def memory_in_a_moved_child(cu: Recorder) -> None:
    """A child graph that was moved may have memory nodes."""
    graph, other, stream = tools.graph(cu), tools.graph(cu), cu.stream(1)
    node, address = tools.alloc(cu, other, 64)
    last = tools.memset(cu, other, address, 5, 1, node)
    tools.free(cu, other, address, last)
    params = NodeParams(type=4)
    params.of.graph = tools.ChildNode(other, 0)
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, params)
    params.of.graph = tools.ChildNode(other, 1)
    if cu.new("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, params):
        executable = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
        tools.run(cu, executable, stream)
        cu.call("cuGraphClone", c_void_p, graph)


@sequence
def deep_children(cu: Recorder) -> None:
    """Child graphs of child graphs are cloned as well, and the nodes of the copies are found."""
    graph, middle, inner = (tools.graph(cu) for _ in range(3))
    tools.empty(cu, inner)
    inside = tools.child(cu, middle, inner)
    outside = tools.child(cu, graph, middle)
    copied = tools.child_graph(cu, outside)
    tools.see_graph(cu, copied)
    copy = cu.new("cuGraphNodeFindInClone", c_void_p, inside, copied)
    cu.see("another node", copy not in (0, inside))
    tools.see_graph(cu, tools.child_graph(cu, copy))
    clone = cu.new("cuGraphClone", c_void_p, graph)
    found = cu.new("cuGraphNodeFindInClone", c_void_p, outside, clone)
    tools.see_graph(cu, tools.child_graph(cu, found))
    cu.call("cuGraphNodeFindInClone", c_void_p, copy, clone)


@sequence
def child_node_is_destroyed(cu: Recorder) -> None:
    """A child graph is destroyed with its node."""
    graph, other = tools.graph(cu), tools.graph(cu)
    tools.empty(cu, other)
    node = tools.child(cu, graph, other)
    cu.call("cuGraphDestroyNode", node)
    tools.see_graph(cu, graph)
    cu.call("cuGraphDestroy", other)


@sequence
def wrong_type(cu: Recorder) -> None:
    """Functions for one type of node are called with a node of another type."""
    graph, address, event = tools.graph(cu), cu.memory(64), cu.event()
    node, memset = tools.empty(cu, graph), tools.memset(cu, graph, address, 1, 1)
    kernel = tools.kernel_params(cu.function(KERNELS, "nothing"))
    for given in (node, memset, None):
        cu.call("cuGraphKernelNodeGetParams_v2", given, tools.KernelNode())
        cu.call("cuGraphKernelNodeSetParams_v2", given, kernel)
        cu.call("cuGraphMemcpyNodeGetParams", given, tools.Copy3D())
        cu.call("cuGraphMemcpyNodeSetParams", given, tools.copy_params(address, address + 16, 8))
        cu.call("cuGraphHostNodeGetParams", given, tools.HostNode())
        cu.call("cuGraphEventRecordNodeGetEvent", given, c_void_p)
        cu.call("cuGraphEventRecordNodeSetEvent", given, event)
        cu.call("cuGraphEventWaitNodeGetEvent", given, c_void_p)
        cu.call("cuGraphMemAllocNodeGetParams", given, tools.AllocNode())
        cu.call("cuGraphMemFreeNodeGetParams", given, c_uint64)
        cu.call("cuGraphChildGraphNodeGetGraph", given, c_void_p)
    cu.call("cuGraphMemsetNodeGetParams", node, tools.MemsetNode())
    cu.call("cuGraphMemsetNodeSetParams", node, tools.memset_params(address, 1, 1))
    params = NodeParams(type=2)
    params.of.memset = tools.memset_params(address, 1, 1)
    cu.call("cuGraphNodeSetParams", node, params)


@sequence
def unknown_types(cu: Recorder) -> None:
    """Nodes are added with types that do not exist, and with reserved bytes that are not zero."""
    graph = tools.graph(cu)
    for kind in (5, 14, 15, 99, -1):
        cu.see("type", kind)
        cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, NodeParams(type=kind))
    dirty = NodeParams(type=5)
    dirty.reserved0[1] = 1
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, dirty)
    dirty = NodeParams(type=5, reserved2=1)
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, dirty)
    dirty = NodeParams(type=5)
    dirty.of.words[0] = 1
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, dirty)
    dirty = NodeParams(type=5)
    dirty.of.words[28] = 1
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, dirty)
    event = NodeParams(type=6)
    event.of.event = tools.EventNode(cu.event())
    event.of.words[3] = 7
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, event)
    cu.call("cuGraphAddNode", c_void_p, graph, None, 0, NodeParams(type=5))
    tools.see_graph(cu, graph)
    cu.call("cuGraphNodeSetParams", tools.empty(cu, graph), NodeParams(type=5))


@sequence
def dot_files(cu: Recorder) -> None:
    """Writing DOT files, including paths where this is not possible."""
    import tempfile

    graph = tools.graph(cu)
    tools.empty(cu, graph)
    # The files are in a temporary folder, so that other processes do not affect these paths.
    with tempfile.TemporaryDirectory() as folder:
        for flags in (0, 1, (1 << 16) - 1, 1 << 20):
            cu.call("cuGraphDebugDotPrint", graph, f"{folder}/graph.dot".encode(), flags)
        cu.call("cuGraphDebugDotPrint", graph, f"{folder}/missing/graph.dot".encode(), 0)
    cu.call("cuGraphDebugDotPrint", graph, b"", 0)


@sequence
def dot_text(cu: Recorder) -> None:
    """The contents of a DOT file of a small graph."""
    import re
    import tempfile
    from pathlib import Path

    graph, address = tools.graph(cu), cu.memory(64)
    one = tools.empty(cu, graph)
    two = tools.memset(cu, graph, address, 7, 4, one)
    three = tools.kernel(cu, graph, cu.function(KERNELS, "nothing"), after=(two,), grid=(3, 2, 1), block=(32, 1, 1))
    tools.copy(cu, graph, address, address + 16, 8, three)
    other = tools.graph(cu)
    tools.host(cu, other, lambda _: None)
    tools.child(cu, graph, other, three)
    for flags in (0, 1):
        cu.see("flags", flags)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.dot"
            cu.call("cuGraphDebugDotPrint", graph, str(path).encode(), flags)
            if path.exists():
                for line in path.read_text().splitlines():
                    cu.see("line", re.sub(r"0x[0-9a-fA-F]+|[0-9A-F]{16}", "ADDRESS", line))


@sequence
def many_nodes(cu: Recorder) -> None:
    """A graph of many nodes, some of which are destroyed."""
    graph = tools.graph(cu)
    nodes = [tools.empty(cu, graph)]
    for _ in range(200):
        nodes.append(tools.empty(cu, graph, nodes[-1]))
    for node in nodes[50:100]:
        cu.prepare("cuGraphDestroyNode", node)
    cu.read("cuGraphGetNodes", graph, None, c_size_t)
    cu.read("cuGraphGetRootNodes", graph, None, c_size_t)
    cu.read("cuGraphGetEdges_v2", graph, None, None, None, c_size_t)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
