# SPDX-License-Identifier: Apache-2.0
"""Memory nodes: addresses, lifetimes, and the memory that the driver keeps for graphs."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_size_t, c_uint64, c_void_p

import graph_tools as tools
from graph_tools import AUTO_FREE, NodeParams, array
from recorder import Recorder, sequence
from structs import Access, Location

NON_BLOCKING = 1
USED, USED_HIGH, RESERVED, RESERVED_HIGH = range(4)


def see_attributes(cu: Recorder) -> None:
    """List how much memory graphs use and reserve."""
    cu.see("used and reserved", [cu.prepare("cuDeviceGetGraphMemAttribute", 0, i, c_uint64) for i in range(4)])


@sequence
def parameters(cu: Recorder) -> None:
    """Adding an allocation node returns the address. The parameters of the node can be queried later."""
    graph = tools.graph(cu)
    params = tools.alloc_params(1000)
    node = cu.new("cuGraphAddMemAllocNode", c_void_p, graph, None, 0, params)
    cu.see("address", params.dptr != 0)
    cu.see("aligned", params.dptr % 512)
    back = tools.AllocNode()
    cu.call("cuGraphMemAllocNodeGetParams", node, back)
    cu.see("back", (back.dptr == params.dptr, back.bytesize, back.accessDescCount, bool(back.accessDescs)))
    pool = back.poolProps
    cu.see("pool", (pool.allocType, pool.handleTypes, pool.location.type, pool.location.id))
    free = cu.new("cuGraphAddMemFreeNode", c_void_p, graph, array(node), 1, params.dptr)
    cu.see("freed", cu.new("cuGraphMemFreeNodeGetParams", free, c_uint64) == params.dptr)
    cu.call("cuGraphMemAllocNodeGetParams", node, None)
    cu.call("cuGraphMemFreeNodeGetParams", free, None)
    tools.see_graph(cu, graph)


@sequence
def bad_parameters(cu: Recorder) -> None:
    """Invalid allocation nodes."""
    graph = tools.graph(cu)
    for name, params in {
        "of nothing": tools.alloc_params(0),
        "too large": tools.alloc_params(1 << 50),
        "type 0": tools.alloc_params(64, allocType=0),
        "type 2": tools.alloc_params(64, allocType=2),
        "handle type": tools.alloc_params(64, handleTypes=1),
        "no location": tools.alloc_params(64, location=Location(0, 0)),
        "host": tools.alloc_params(64, location=Location(2, 0)),
        "host NUMA": tools.alloc_params(64, location=Location(3, 0)),
        "device 99": tools.alloc_params(64, location=Location(1, 99)),
        "size limit": tools.alloc_params(64, maxSize=1 << 30),
        "access": tools.alloc_params(64, Access(Location(1, 0), 3)),
        "access for reading": tools.alloc_params(64, Access(Location(1, 0), 1)),
        "access of device 99": tools.alloc_params(64, Access(Location(1, 99), 3)),
    }.items():
        cu.see("given", name)
        node = cu.new("cuGraphAddMemAllocNode", c_void_p, graph, None, 0, params)
        if node:
            back = tools.AllocNode()
            cu.call("cuGraphMemAllocNodeGetParams", node, back)
            cu.see("access", back.accessDescCount)
    cu.call("cuGraphAddMemAllocNode", c_void_p, graph, None, 0, None)


@sequence
def bad_frees(cu: Recorder) -> None:
    """Invalid free nodes."""
    graph, other, memory = tools.graph(cu), tools.graph(cu), cu.memory(64)
    pooled = int(cu.prepare("cuMemAllocAsync", c_uint64, 64, None))
    node, address = tools.alloc(cu, graph, 64)
    _, foreign = tools.alloc(cu, other, 64)
    cu.call("cuGraphAddMemFreeNode", c_void_p, graph, None, 0, address)
    for name, given in {"null": 0, "nowhere": 4096, "memory": memory, "pooled": pooled, "inside": address + 16}.items():
        cu.see("given", name)
        cu.call("cuGraphAddMemFreeNode", c_void_p, graph, array(node), 1, given)
    cu.see("given", "of another graph")
    cu.call("cuGraphAddMemFreeNode", c_void_p, graph, None, 0, foreign)
    cu.call("cuGraphAddMemFreeNode", c_void_p, graph, None, 0, foreign)
    cu.see("given", "after its allocation")
    cu.call("cuGraphAddMemFreeNode", c_void_p, graph, array(node), 1, address)
    cu.call("cuGraphAddMemFreeNode", c_void_p, graph, array(node), 1, address)
    cu.call("cuGraphAddMemFreeNode", c_void_p, other, None, 0, foreign)
    tools.see_graph(cu, graph)


@sequence
def restrictions(cu: Recorder) -> None:
    """The calls that fail for a graph with memory nodes."""
    graph, parent = tools.graph(cu), tools.graph(cu)
    node, address = tools.alloc(cu, graph, 64)
    last = tools.empty(cu, graph, node)
    cu.call("cuGraphDestroyNode", last)
    cu.call("cuGraphDestroyNode", node)
    cu.call("cuGraphRemoveDependencies_v2", graph, array(node), array(last), None, 1)
    new = cu.new("cuGraphAddEmptyNode", c_void_p, graph, None, 0)
    cu.call("cuGraphAddDependencies_v2", graph, array(last), array(new), None, 1)
    cu.call("cuGraphClone", c_void_p, graph)
    cu.call("cuGraphAddChildGraphNode", c_void_p, parent, None, 0, graph)
    executable = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    params = tools.InstantiateParams(0, None, 99, 99)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphInstantiateWithParams", c_void_p, graph, params)
    cu.see("result", (params.result, params.node))
    cu.call("cuGraphExecDestroy", executable)
    executable = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphAddMemFreeNode", c_void_p, graph, array(node), 1, address)
    tools.see_update(cu, executable, graph)


@sequence
def edges_are_not_removed(cu: Recorder) -> None:
    """Removing edges from a graph with memory nodes fails, whether some edges, no edges or invalid ones are given."""
    plain, graph, other = tools.graph(cu), tools.graph(cu), tools.graph(cu)
    one, two = tools.empty(cu, graph), tools.empty(cu, graph)
    _, address = tools.alloc(cu, graph, 64)
    cu.call("cuGraphRemoveDependencies_v2", plain, None, None, None, 0)
    cu.call("cuGraphRemoveDependencies_v2", graph, None, None, None, 0)
    cu.call("cuGraphRemoveDependencies", graph, None, None, 0)
    cu.call("cuGraphRemoveDependencies_v2", graph, array(one), array(two), None, 1)
    cu.call("cuGraphRemoveDependencies_v2", graph, array(one), array(one), None, 1)
    three = tools.empty(cu, other)
    cu.call("cuGraphAddMemFreeNode", c_void_p, other, None, 0, address)
    cu.call("cuGraphRemoveDependencies_v2", other, None, None, None, 0)
    cu.call("cuGraphDestroyNode", three)


@sequence
def frees_after_instantiation(cu: Recorder) -> None:
    """A free node is added to an instantiated graph, before and after its executable graph is destroyed."""
    for tries_early in (False, True):
        graph = tools.graph(cu)
        node, address = tools.alloc(cu, graph, 64)
        executable = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
        if tries_early:
            cu.call("cuGraphAddMemFreeNode", c_void_p, graph, array(node), 1, address)
        cu.call("cuGraphExecDestroy", executable)
        cu.call("cuGraphAddMemFreeNode", c_void_p, graph, array(node), 1, address)


def add_work(cu: Recorder, graph: int, out: int) -> int:
    """Add nodes that allocate memory, fill it, copy it and free it. Return the memory's address."""
    node, address = tools.alloc(cu, graph, 64)
    filled = tools.memset(cu, graph, address, 7, 4, node)
    copied = tools.copy(cu, graph, out, address, 16, filled)
    tools.free(cu, graph, address, copied)
    return address


@sequence
def freed_in_the_graph(cu: Recorder) -> None:
    """Memory that a graph allocates and frees is available again at each launch."""
    graph, stream, out = tools.graph(cu), cu.stream(NON_BLOCKING), cu.memory(16, 0)
    address = add_work(cu, graph, out)
    see_attributes(cu)
    executable = tools.instantiate(cu, graph)
    see_attributes(cu)
    for _ in range(3):
        tools.see_run(cu, executable, stream, "words", out, 4)
    see_attributes(cu)
    cu.call("cuMemFreeAsync", address, stream)
    cu.call("cuMemFree_v2", address)
    cu.call("cuMemcpyDtoH_v2", ctypes.create_string_buffer(4), address, 4)
    cu.call("cuGraphExecDestroy", executable)
    cu.call("cuGraphDestroy", graph)
    see_attributes(cu)
    cu.call("cuDeviceGraphMemTrim", 0)
    see_attributes(cu)


def allocating(cu: Recorder, flags: int = 0) -> tuple[int, int, int]:
    """Create a graph that allocates memory and fills it. Return the graph, its executable graph, and the address."""
    graph = tools.graph(cu)
    node, address = tools.alloc(cu, graph, 64)
    tools.memset(cu, graph, address, 7, 4, node)
    return graph, tools.instantiate(cu, graph, flags), address


@sequence
def not_freed_in_the_graph(cu: Recorder) -> None:
    """Memory that a graph allocates but does not free is used and freed by a stream before the next launch."""
    stream, (graph, executable, address) = cu.stream(NON_BLOCKING), allocating(cu)
    cu.call("cuMemFreeAsync", address, stream)
    tools.see_run(cu, executable, stream, "words", address, 4)
    see_attributes(cu)
    tools.run(cu, executable, stream)
    cu.call("cuMemFreeAsync", address, stream)
    cu.call("cuStreamSynchronize", stream)
    see_attributes(cu)
    cu.call("cuMemFreeAsync", address, stream)
    tools.run(cu, executable, stream)
    cu.call("cuMemFree_v2", address)
    tools.run(cu, executable, stream)
    cu.call("cuGraphExecDestroy", executable)
    cu.call("cuGraphDestroy", graph)
    cu.see_words("words", address, 4)
    see_attributes(cu)
    cu.call("cuMemFree_v2", address)
    see_attributes(cu)


@sequence
def auto_free(cu: Recorder) -> None:
    """A graph with the flag that a launch frees the memory that the previous launch has left."""
    stream, (_, executable, address) = cu.stream(NON_BLOCKING), allocating(cu, AUTO_FREE)
    tools.run(cu, executable, stream)
    tools.see_run(cu, executable, stream, "words", address, 4)
    cu.call("cuMemFreeAsync", address, stream)
    tools.see_run(cu, executable, stream, "words", address, 4)
    see_attributes(cu)
    cu.call("cuGraphExecDestroy", executable)
    see_attributes(cu)
    cu.see_words("words", address, 4)
    cu.call("cuMemFreeAsync", address, stream)


@sequence
def freed_in_another_graph(cu: Recorder) -> None:
    """One graph allocates memory that another graph frees."""
    graph, other, stream = tools.graph(cu), tools.graph(cu), cu.stream(NON_BLOCKING)
    _, address = tools.alloc(cu, graph, 64)
    cu.call("cuGraphAddMemFreeNode", c_void_p, other, None, 0, address)
    cu.call("cuGraphAddMemFreeNode", c_void_p, graph, None, 0, address)
    first, second = tools.instantiate(cu, graph), tools.instantiate(cu, other)
    tools.run(cu, second, stream)
    tools.run(cu, first, stream)
    tools.run(cu, first, stream)
    tools.run(cu, second, stream)
    tools.run(cu, second, stream)
    tools.run(cu, first, stream)
    tools.run(cu, second, stream)
    see_attributes(cu)


@sequence
def attributes(cu: Recorder) -> None:
    """The amounts of memory that graphs use and reserve, and the attributes that can be set."""
    value = c_uint64(0)
    for attribute in (USED, USED_HIGH, RESERVED, RESERVED_HIGH, 4, 99):
        cu.see("attribute", attribute)
        cu.read("cuDeviceGetGraphMemAttribute", 0, attribute, c_uint64)
        cu.call("cuDeviceSetGraphMemAttribute", 0, attribute, value)
        cu.call("cuDeviceSetGraphMemAttribute", 0, attribute, c_uint64(5))
    cu.call("cuDeviceGetGraphMemAttribute", 0, 0, None)
    cu.call("cuDeviceSetGraphMemAttribute", 0, 1, None)
    cu.call("cuDeviceGetGraphMemAttribute", 99, 0, c_uint64)
    cu.call("cuDeviceSetGraphMemAttribute", 99, 1, value)
    cu.call("cuDeviceGraphMemTrim", 99)
    cu.call("cuDeviceGraphMemTrim", 0)


@sequence
def amounts(cu: Recorder) -> None:
    """How much memory is reserved for graph allocations of several sizes."""
    stream = cu.stream(NON_BLOCKING)
    for size in (1, 1 << 20, 2 << 20, 3 << 20, 40 << 20):
        graph = tools.graph(cu)
        node, address = tools.alloc(cu, graph, size)
        tools.free(cu, graph, address, node)
        executable = tools.instantiate(cu, graph)
        cu.see("size", size)
        see_attributes(cu)
        cu.call("cuGraphUpload", executable, stream)
        cu.call("cuStreamSynchronize", stream)
        see_attributes(cu)
        tools.run(cu, executable, stream)
        see_attributes(cu)
        cu.call("cuGraphExecDestroy", executable)
        cu.call("cuGraphDestroy", graph)
        see_attributes(cu)
        cu.call("cuDeviceGraphMemTrim", 0)
        see_attributes(cu)
        for attribute in (USED_HIGH, RESERVED_HIGH):
            cu.prepare("cuDeviceSetGraphMemAttribute", 0, attribute, c_uint64(0))
        see_attributes(cu)


@sequence
def pointers_before_and_after(cu: Recorder) -> None:
    """The driver's information about the address of an allocation node, before and after a launch."""
    graph, stream = tools.graph(cu), cu.stream(NON_BLOCKING)
    _, address = tools.alloc(cu, graph, 1000)

    def look(when: str) -> None:
        cu.see("when", when)
        cu.read("cuPointerGetAttribute", c_int, 2, address)
        cu.read("cuPointerGetAttribute", c_int, 9, address)
        cu.read("cuPointerGetAttribute", ctypes.c_ubyte, 14, address)
        context = cu.new("cuPointerGetAttribute", c_void_p, 1, address)
        cu.see("context", "current" if context == tools.context(cu) else "none" if not context else "another")
        cu.read("cuPointerGetAttribute", c_size_t, 12, address)
        base, size = cu.new("cuMemGetAddressRange_v2", c_uint64, c_size_t, address)
        cu.see("range", (base == address, size))
        pool = cu.new("cuPointerGetAttribute", c_void_p, 17, address)
        cu.see("pool", bool(pool))

    look("added")
    executable = tools.instantiate(cu, graph)
    look("instantiated")
    tools.run(cu, executable, stream)
    look("launched")
    cu.call("cuMemFreeAsync", address, stream)
    cu.call("cuStreamSynchronize", stream)
    look("freed")
    cu.call("cuGraphExecDestroy", executable)
    cu.call("cuGraphDestroy", graph)
    look("destroyed")


@sequence
def used_in_other_work(cu: Recorder) -> None:
    """The address of an allocation node is used by another graph, and by a stream."""
    graph, other, stream, out = tools.graph(cu), tools.graph(cu), cu.stream(NON_BLOCKING), cu.memory(16, 0)
    _, address = tools.alloc(cu, graph, 64)
    cu.call("cuMemsetD32Async", address, 5, 4, stream)
    cu.call("cuGraphAddMemsetNode", c_void_p, other, None, 0, tools.memset_params(address, 5, 4), tools.context(cu))
    cu.call("cuGraphAddMemcpyNode", c_void_p, other, None, 0, tools.copy_params(out, address, 16), tools.context(cu))
    cu.call("cuGraphAddMemsetNode", c_void_p, graph, None, 0, tools.memset_params(address, 5, 17), tools.context(cu))
    cu.call("cuGraphAddMemsetNode", c_void_p, graph, None, 0, tools.memset_params(address, 5, 400), tools.context(cu))
    first = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    second = cu.new("cuGraphInstantiateWithFlags", c_void_p, other, 0)
    tools.run(cu, first, stream)
    tools.run(cu, second, stream)


@sequence
def addresses_differ(cu: Recorder) -> None:
    """Whether two allocation nodes have equal addresses: in one graph, in two graphs, and after a free."""
    graph, other = tools.graph(cu), tools.graph(cu)
    node, first = tools.alloc(cu, graph, 64)
    freed = tools.free(cu, graph, first, node)
    _, second = tools.alloc(cu, graph, 64, freed)
    _, third = tools.alloc(cu, graph, 64)
    _, fourth = tools.alloc(cu, other, 64)
    cu.see("beside", third in (first, second))
    cu.see("in another graph", fourth in (first, second, third))


@sequence
def general_nodes(cu: Recorder) -> None:
    """Memory nodes are added by the function that adds nodes of all types."""
    graph, stream = tools.graph(cu), cu.stream(NON_BLOCKING)
    params = NodeParams(type=10)
    params.of.alloc = tools.alloc_params(64)
    node = cu.new("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, params)
    address = params.of.alloc.dptr
    cu.see("address", address != 0)
    params = NodeParams(type=11)
    params.of.free = tools.FreeNode(address)
    cu.call("cuGraphAddNode_v2", c_void_p, graph, array(node), None, 1, params)
    cu.call("cuGraphNodeSetParams", node, params)
    tools.run(cu, tools.instantiate(cu, graph), stream)


@sequence
def executable_outlives_the_graph(cu: Recorder) -> None:
    """An executable graph with memory nodes runs after its graph was destroyed."""
    graph, stream, out = tools.graph(cu), cu.stream(NON_BLOCKING), cu.memory(16, 0)
    add_work(cu, graph, out)
    executable = tools.instantiate(cu, graph)
    cu.call("cuGraphDestroy", graph)
    tools.see_run(cu, executable, stream, "words", out, 4)


@sequence
def in_two_streams(cu: Recorder) -> None:
    """Memory that a graph has allocated in one stream is freed in another stream."""
    graph, one, two = tools.graph(cu), cu.stream(NON_BLOCKING), cu.stream(NON_BLOCKING)
    _, address = tools.alloc(cu, graph, 64)
    executable = tools.instantiate(cu, graph)
    event = cu.event()
    cu.call("cuGraphLaunch", executable, one)
    cu.call("cuEventRecord", event, one)
    cu.call("cuStreamWaitEvent", two, event, 0)
    cu.call("cuMemFreeAsync", address, two)
    cu.call("cuGraphLaunch", executable, two)
    cu.call("cuMemFreeAsync", address, two)
    cu.call("cuStreamSynchronize", two)
