# SPDX-License-Identifier: Apache-2.0
"""Conditional nodes: their handles, their bodies, and which bodies run."""

from __future__ import annotations

from ctypes import c_int, c_size_t, c_uint32, c_uint64, c_void_p

import graph_tools as tools
from graph_tools import IF, SWITCH, WHILE, array
from ptx import CONDITIONS, KERNELS
from recorder import Recorder, sequence

NON_BLOCKING = 1


@sequence
def handles(cu: Recorder) -> None:
    """Valid and refused arguments of cuGraphConditionalHandleCreate."""
    graph, context = tools.graph(cu), tools.context(cu)
    for default, flags in ((0, 0), (5, 0), (0, 1), (5, 1), (0, 2), (0, 3)):
        cu.see("given", (default, flags))
        handle = cu.new("cuGraphConditionalHandleCreate", c_uint64, graph, context, default, flags)
        cu.see("handle", handle != 0)
    one = cu.prepare("cuGraphConditionalHandleCreate", c_uint64, graph, context, 0, 0)
    two = cu.prepare("cuGraphConditionalHandleCreate", c_uint64, graph, context, 0, 0)
    cu.see("differ", one != two)
    cu.call("cuGraphConditionalHandleCreate", c_uint64, None, context, 0, 0)
    cu.call("cuGraphConditionalHandleCreate", c_uint64, graph, None, 0, 0)
    cu.call("cuGraphConditionalHandleCreate", None, graph, context, 0, 0)


@sequence
def bad_nodes(cu: Recorder) -> None:
    """Invalid conditional nodes."""
    graph, other = tools.graph(cu), tools.graph(cu)
    foreign = tools.condition(cu, other)
    for name, (kind, size) in {
        "if": (IF, 1), "if and else": (IF, 2), "if of 0": (IF, 0), "if of 3": (IF, 3), "while": (WHILE, 1),
        "while of 2": (WHILE, 2), "while of 0": (WHILE, 0), "switch": (SWITCH, 1), "switch of 5": (SWITCH, 5),
        "switch of 0": (SWITCH, 0), "type 3": (3, 1), "type -1": (-1, 1),
    }.items():  # fmt: skip
        cu.see("given", name)
        params = tools.conditional_params(cu, tools.condition(cu, graph), kind, size)
        node = cu.new("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, params)
        if node:
            graphs = [params.of.conditional.graphs[i] or 0 for i in range(size)]
            cu.see("bodies", (len(set(graphs)), 0 in graphs))
            cu.read("cuGraphNodeGetType", node, c_int)
    cu.see("given", "a handle of another graph")
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, tools.conditional_params(cu, foreign, IF, 1))
    for handle in (0, 77):
        cu.see("given", handle)
        cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, tools.conditional_params(cu, handle, IF, 1))
    handle = tools.condition(cu, graph)
    cu.see("given", "a handle twice")
    for _ in range(2):
        cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, tools.conditional_params(cu, handle, IF, 1))
    params = tools.conditional_params(cu, tools.condition(cu, graph), IF, 1)
    params.of.conditional.ctx = None
    cu.see("given", "no context")
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, params)


@sequence
def nodes_of_copied_graphs(cu: Recorder) -> None:
    """A conditional node is added to a graph that was cloned or embedded, and the graph is instantiated."""
    for how in ("not copied", "cloned", "embedded"):
        graph, outer, copy = tools.graph(cu), tools.graph(cu), None
        tools.empty(cu, graph)
        cu.see("graph", how)
        if how == "cloned":
            copy = cu.new("cuGraphClone", c_void_p, graph)
        if how == "embedded":
            cu.new("cuGraphAddChildGraphNode", c_void_p, outer, None, 0, graph)
        params = tools.conditional_params(cu, tools.condition(cu, graph), IF, 1)
        cu.new("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, params)
        cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
        if copy:
            cu.call("cuGraphDestroy", copy)
        cu.call("cuGraphDestroy", outer)
        cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)


@sequence
def handles_of_destroyed_nodes(cu: Recorder) -> None:
    """A handle whose node was destroyed is used again, for a node of another kind and in another graph."""
    graph, stream = tools.graph(cu), cu.stream(NON_BLOCKING)
    handle = tools.condition(cu, graph, 1)
    node, _ = tools.conditional(cu, graph, handle, IF)
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, tools.conditional_params(cu, handle, IF, 1))
    cu.call("cuGraphDestroyNode", node)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    node, _ = tools.conditional(cu, graph, handle, SWITCH, 3)
    executable = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphDestroyNode", node)
    outer, (body,) = tools.conditional(cu, graph, handle, IF)
    tools.run(cu, executable, stream)
    cu.call("cuGraphExecDestroy", executable)
    inner, own = tools.condition(cu, graph), tools.condition(cu, body)
    cu.call("cuGraphAddNode_v2", c_void_p, body, None, None, 0, tools.conditional_params(cu, inner, IF, 1))
    cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, tools.conditional_params(cu, own, IF, 1))
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphDestroyNode", outer)
    for given in (handle, inner, own):
        cu.call("cuGraphAddNode_v2", c_void_p, graph, None, None, 0, tools.conditional_params(cu, given, IF, 1))
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)


@sequence
def unused_handles(cu: Recorder) -> None:
    """A graph with a conditional handle that no node uses is instantiated."""
    graph = tools.graph(cu)
    tools.empty(cu, graph)
    tools.condition(cu, graph)
    params = tools.InstantiateParams(0, None, 99, 99)
    cu.call("cuGraphInstantiateWithParams", c_void_p, graph, params)
    cu.see("result", (params.result, params.node))
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)


@sequence
def defaults(cu: Recorder) -> None:
    """The default value of a condition determines which body runs."""
    stream, out = cu.stream(NON_BLOCKING), cu.memory(16, 0)
    for kind, size in ((IF, 1), (IF, 2), (SWITCH, 1), (SWITCH, 3)):
        for default in (0, 1, 2, 7):
            graph = tools.graph(cu)
            _, bodies = tools.conditional(cu, graph, tools.condition(cu, graph, default), kind, size)
            for i, body in enumerate(bodies):
                tools.memset(cu, body, out, i + 1, 1)
            tools.put(cu, 32, out, 0, 1)
            cu.see("type, size, default", (kind, size, default))
            tools.see_run(cu, tools.instantiate(cu, graph), stream, "ran", out, 1)


@sequence
def set_by_a_kernel(cu: Recorder) -> None:
    """A kernel sets the condition of the node after it."""
    stream, out, words = cu.stream(NON_BLOCKING), cu.memory(16, 0), cu.memory(16, 0)
    graph = tools.graph(cu)
    handle = tools.condition(cu, graph, 0)
    setter = tools.kernel(cu, graph, cu.function(CONDITIONS, "set_from"), c_uint64(handle), c_uint64(words))
    _, bodies = tools.conditional(cu, graph, handle, IF, 2, (setter,))
    tools.memset(cu, bodies[0], out, 1, 1)
    tools.memset(cu, bodies[1], out, 2, 1)
    executable = tools.instantiate(cu, graph)
    for value in (1, 0, 5, 0):
        tools.put(cu, 32, words, value, 1)
        tools.see_run(cu, executable, stream, "ran", out, 1)


@sequence
def loops(cu: Recorder) -> None:
    """A loop runs until its body sets the condition to zero."""
    stream, counter, out = cu.stream(NON_BLOCKING), cu.memory(16, 0), cu.memory(16, 0)
    graph = tools.graph(cu)
    handle = tools.condition(cu, graph, 1)
    _, bodies = tools.conditional(cu, graph, handle, WHILE)
    first = tools.kernel(cu, bodies[0], cu.function(KERNELS, "increase"), c_uint64(out), c_uint32(10))
    tools.kernel(
        cu, bodies[0], cu.function(CONDITIONS, "count_down"), c_uint64(handle), c_uint64(counter), after=(first,)
    )
    executable = tools.instantiate(cu, graph)
    for count in (5, 1, 30):
        tools.put(cu, 32, counter, count, 1)
        tools.put(cu, 32, out, 0, 1)
        tools.see_run(cu, executable, stream, "out", out, 1)
        cu.see_words("counter", counter, 1)


@sequence
def loop_without_a_turn(cu: Recorder) -> None:
    """A loop whose condition is zero from the start has no iterations."""
    stream, out, graph = cu.stream(NON_BLOCKING), cu.memory(16, 0), tools.graph(cu)
    node, bodies = tools.conditional(cu, graph, tools.condition(cu, graph, 0), WHILE)
    tools.memset(cu, bodies[0], out, 1, 1)
    tools.memset(cu, graph, out + 4, 2, 1, node)
    tools.see_run(cu, tools.instantiate(cu, graph), stream, "words", out, 2)


@sequence
def value_stays(cu: Recorder) -> None:
    """A condition without a default keeps its value from one launch to the next."""
    stream, out, words = cu.stream(NON_BLOCKING), cu.memory(16, 0), cu.memory(16, 0)
    graph = tools.graph(cu)
    handle = tools.condition(cu, graph)
    node, bodies = tools.conditional(cu, graph, handle, IF)
    tools.kernel(cu, bodies[0], cu.function(KERNELS, "increase"), c_uint64(out), c_uint32(1))
    tools.kernel(cu, graph, cu.function(CONDITIONS, "set_from"), c_uint64(handle), c_uint64(words), after=(node,))
    executable = tools.instantiate(cu, graph)
    tools.put(cu, 32, words, 0, 1)
    tools.run(cu, executable, stream)
    tools.put(cu, 32, out, 0, 1)
    for value in (1, 1, 0, 0):
        tools.put(cu, 32, words, value, 1)
        tools.see_run(cu, executable, stream, "out", out, 1)


@sequence
def types_in_bodies(cu: Recorder) -> None:
    """The types of nodes that a body can have."""
    address, event = cu.memory(64, 0), cu.event()
    host = tools.host_params(lambda _: None)
    for name in ("kernel", "memset", "memcpy", "empty", "host", "record", "wait", "alloc", "child", "conditional"):
        graph = tools.graph(cu)
        _, (body,) = tools.conditional(cu, graph, tools.condition(cu, graph, 1), IF)
        cu.see("node", name)
        if name == "kernel":
            tools.kernel(cu, body, cu.function(KERNELS, "nothing"))
        elif name == "memset":
            tools.memset(cu, body, address, 1, 1)
        elif name == "memcpy":
            tools.copy(cu, body, address, address + 16, 8)
        elif name == "empty":
            tools.empty(cu, body)
        elif name == "host":
            cu.call("cuGraphAddHostNode", c_void_p, body, None, 0, host)
        elif name == "record":
            cu.call("cuGraphAddEventRecordNode", c_void_p, body, None, 0, event)
        elif name == "wait":
            cu.call("cuGraphAddEventWaitNode", c_void_p, body, None, 0, event)
        elif name == "alloc":
            cu.call("cuGraphAddMemAllocNode", c_void_p, body, None, 0, tools.alloc_params(64))
        elif name == "child":
            inner = tools.graph(cu)
            tools.memset(cu, inner, address, 1, 1)
            cu.call("cuGraphAddChildGraphNode", c_void_p, body, None, 0, inner)
        elif name == "conditional":
            for where in (graph, body):
                handle = cu.new("cuGraphConditionalHandleCreate", c_uint64, where, tools.context(cu), 1, 1)
                if handle:
                    params = tools.conditional_params(cu, handle, IF, 1)
                    cu.call("cuGraphAddNode_v2", c_void_p, body, None, None, 0, params)
        params = tools.InstantiateParams(0, None, 99, 99)
        executable = cu.new("cuGraphInstantiateWithParams", c_void_p, graph, params)
        cu.see("result", (params.result, bool(params.node)))
        if executable:
            tools.run(cu, executable, cu.stream(NON_BLOCKING))


@sequence
def host_nodes_in_children_of_bodies(cu: Recorder) -> None:
    """A child graph in a body has a node of a type that bodies cannot have."""
    graph, inner = tools.graph(cu), tools.graph(cu)
    _, (body,) = tools.conditional(cu, graph, tools.condition(cu, graph, 1), IF)
    tools.host(cu, inner, lambda _: None)
    cu.call("cuGraphAddChildGraphNode", c_void_p, body, None, 0, inner)
    params = tools.InstantiateParams(0, None, 99, 99)
    cu.call("cuGraphInstantiateWithParams", c_void_p, graph, params)
    cu.see("result", (params.result, bool(params.node)))


@sequence
def restrictions(cu: Recorder) -> None:
    """The calls that fail for a graph with conditional nodes."""
    graph, parent, out = tools.graph(cu), tools.graph(cu), cu.memory(16, 0)
    node, (body,) = tools.conditional(cu, graph, tools.condition(cu, graph, 1), IF)
    tools.memset(cu, body, out, 1, 1)
    cu.call("cuGraphClone", c_void_p, graph)
    cu.call("cuGraphAddChildGraphNode", c_void_p, parent, None, 0, graph)
    cu.call("cuGraphClone", c_void_p, body)
    cu.call("cuGraphAddChildGraphNode", c_void_p, parent, None, 0, body)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, body, 0)
    cu.call("cuGraphDestroy", body)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 4)
    executable = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    cu.call("cuGraphNodeSetEnabled", executable, node, 0)
    cu.call("cuGraphNodeSetParams", node, tools.conditional_params(cu, 0, IF, 1))
    last = tools.empty(cu, graph, node)
    cu.call("cuGraphDestroyNode", last)
    cu.call("cuGraphExecDestroy", executable)
    cu.call("cuGraphDestroyNode", node)
    tools.see_graph(cu, graph)
    cu.call("cuGraphInstantiateWithFlags", c_void_p, graph, 0)


@sequence
def nested(cu: Recorder) -> None:
    """A loop in the body of a loop."""
    stream, outer, inner, out = cu.stream(NON_BLOCKING), cu.memory(16, 0), cu.memory(16, 0), cu.memory(16, 0)
    graph = tools.graph(cu)
    one = tools.condition(cu, graph, 1)
    two = tools.condition(cu, graph)
    setter, down = cu.function(CONDITIONS, "set_from"), cu.function(CONDITIONS, "count_down")
    increase = cu.function(KERNELS, "increase")
    _, (first,) = tools.conditional(cu, graph, one, WHILE)
    begin = tools.memset(cu, first, inner, 3, 1)
    begin = tools.kernel(cu, first, setter, c_uint64(two), c_uint64(inner), after=(begin,))
    loop, (second,) = tools.conditional(cu, first, two, WHILE, after=(begin,))
    tools.kernel(cu, first, down, c_uint64(one), c_uint64(outer), after=(loop,))
    added = tools.kernel(cu, second, increase, c_uint64(out), c_uint32(1))
    tools.kernel(cu, second, down, c_uint64(two), c_uint64(inner), after=(added,))
    executable = cu.new("cuGraphInstantiateWithFlags", c_void_p, graph, 0)
    tools.put(cu, 32, outer, 4, 1)
    tools.see_run(cu, executable, stream, "out", out, 1)


@sequence
def bodies_as_graphs(cu: Recorder) -> None:
    """The nodes and edges of bodies, and calls that bodies or their conditional node refuse."""
    graph, out = tools.graph(cu), cu.memory(16, 0)
    node, bodies = tools.conditional(cu, graph, tools.condition(cu, graph, 1), IF, 2)
    for body in bodies:
        tools.empty(cu, body, tools.memset(cu, body, out, 1, 1))
        tools.see_graph(cu, body)
    tools.see_graph(cu, graph)
    back = tools.NodeParams()
    cu.call("cuGraphNodeSetParams", node, back)
    cu.call("cuGraphChildGraphNodeGetGraph", node, c_void_p)
    cu.call("cuGraphAddDependencies_v2", graph, array(node), array(tools.nodes_of(cu, bodies[0])[0]), None, 1)
    cu.call("cuGraphDestroy", graph)


@sequence
def captured_bodies(cu: Recorder) -> None:
    """The nodes of a body are captured."""
    graph, stream, out = tools.graph(cu), cu.stream(NON_BLOCKING), cu.memory(16, 0)
    _, (body,) = tools.conditional(cu, graph, tools.condition(cu, graph, 1), IF)
    cu.call("cuStreamBeginCaptureToGraph", stream, body, None, None, 0, 2)
    cu.call("cuMemsetD32Async", out, 5, 1, stream)
    ended = c_void_p()
    cu.call("cuStreamEndCapture", stream, ended)
    cu.see("the body", ended.value == body)
    tools.see_graph(cu, body)
    tools.see_run(cu, tools.instantiate(cu, graph), stream, "out", out, 1)
    cu.call("cuGraphGetNodes", body, None, c_size_t)
