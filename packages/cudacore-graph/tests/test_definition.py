# SPDX-License-Identifier: Apache-2.0
"""Definitions: adding nodes, listing them, edges, changes of topology, clones."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graph_tools import ONE, Numbers, Run

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_graph._errors import hold_there
from cudacore_graph._nodes import node as node_module


def add_one_of_each(definition: cg.GraphDefinition, kernel: ch.Kernel, numbers: Numbers) -> list[cg.GraphNode]:
    """Add a chain of nodes of all 14 types."""
    device = ch.Device()
    event = device.create_event()
    child = cg.GraphDefinition()
    child.empty()
    nodes: list[cg.GraphNode] = [definition.empty()]
    nodes.append(nodes[-1].launch(ONE, kernel, numbers.buffer, 1))
    nodes.append(nodes[-1].allocate(64))
    nodes.append(nodes[-1].deallocate(nodes[-1].dptr))
    nodes.append(nodes[-1].memset(numbers.buffer, 0, 4))
    nodes.append(nodes[-1].memcpy(numbers.buffer, numbers.at(8), 4, src_owner=numbers.buffer))
    nodes.append(nodes[-1].embed(child))
    nodes.append(nodes[-1].callback(print))
    nodes.append(nodes[-1].record(event))
    nodes.append(nodes[-1].wait(event))
    nodes.append(nodes[-1].if_then(definition.create_condition(0)))
    nodes.append(nodes[-1].if_else(definition.create_condition(0)))
    nodes.append(nodes[-1].while_loop(definition.create_condition(0)))
    nodes.append(nodes[-1].switch(definition.create_condition(0), 3))
    return nodes


def test_every_type(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run) -> None:
    """A type of node could not be added, would have the wrong class, or would not depend on its predecessor."""
    nodes = add_one_of_each(definition, add, numbers)
    classes = [cg.EmptyNode, cg.KernelNode, cg.AllocNode, cg.FreeNode, cg.MemsetNode, cg.MemcpyNode, cg.ChildGraphNode,
               cg.HostCallbackNode, cg.EventRecordNode, cg.EventWaitNode, cg.IfNode, cg.IfElseNode, cg.WhileNode,
               cg.SwitchNode]  # fmt: skip
    assert [type(node) for node in nodes] == classes
    assert definition.nodes() == set(nodes)
    assert definition.edges() == set(itertools.pairwise(nodes))
    for before, node in itertools.pairwise(nodes):
        assert node.pred == {before}
        assert before.succ == {node}
        assert node.graph == definition
        assert node.type.name.startswith("CU_GRAPH_NODE_TYPE_")
        assert int(node.handle) == node._raw


def test_nodes_are_the_same_objects(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> None:
    """One node would have two objects, or an object would keep the class of another node."""
    nodes = add_one_of_each(definition, add, numbers)
    assert {id(node) for node in definition.nodes()} == {id(node) for node in nodes}
    assert next(iter(nodes[0].succ)) is nodes[1]
    names = {node._raw: type(node) for node in nodes}
    assert len(names) == len(nodes)
    del nodes
    gc.collect()
    assert {node._raw: type(node) for node in definition.nodes()} == names


def test_collections_leave_nodes_alone(definition: cg.GraphDefinition) -> None:
    """Each collection would visit all nodes of a large graph, or a weak reference would keep a node alive."""
    nodes = [definition.empty() for _ in range(100)]
    assert not any(gc.is_tracked(node) for node in nodes)
    gc.collect()
    assert definition.nodes() == set(nodes)
    raw = {node._raw for node in nodes}
    references = [weakref.ref(node) for node in nodes]
    assert [reference() for reference in references] == nodes
    del nodes
    assert not any(reference() for reference in references)
    assert {node._raw for node in definition.nodes()} == raw


def test_listed_while_it_is_made(definition: cg.GraphDefinition) -> None:
    """A finalizer that lists the graph while the object of a node is made would get a second object for the node."""

    class Lister:
        def __init__(self) -> None:
            self.circle = self

        def __del__(self) -> None:
            seen.update(definition.nodes())

    seen: set[cg.GraphNode] = set()
    nodes = []
    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(3):
            gc.disable()
            for _ in range(10):
                Lister()
            gc.enable()
            nodes.append(definition.empty())  # the first object that this call makes starts a garbage collection
    finally:
        gc.enable()
        gc.set_threshold(*thresholds)
    gc.collect()
    assert seen <= set(nodes) == definition.nodes()


def test_join_waits_for_all(definition: cg.GraphDefinition) -> None:
    """A join would not wait for a branch, or would be refused if a branch is given twice."""
    first, second = definition.empty(), definition.empty()
    assert definition.join(first, second, first).pred == {first, second}
    assert first.join().pred == {first}
    assert first.join(first, second).pred == {first, second}
    assert definition.join().pred == set()
    many = [definition.empty() for _ in range(50)]
    assert definition.join(*many, *many).pred == set(many)


def test_adjacency_is_a_set(definition: cg.GraphDefinition) -> None:
    """A set of neighbours would behave differently from a Python set, or its changes would not reach the graph."""
    a, b, c, d = (definition.empty() for _ in range(4))
    d.pred.add(a)
    d.pred |= {b, c}
    assert d.pred == {a, b, c}
    assert len(d.pred) == 3
    assert a in d.pred
    assert d not in d.pred
    assert d.pred & {a, d} == {a}
    assert repr(a.succ) == f"{{{d!r}}}"
    for _ in range(2):  # what is there already
        d.pred.add(a)
        a.succ.add(d)
        d.pred.update([a])
        d.pred |= {a}
    assert definition.edges() == {(a, d), (b, d), (c, d)}
    d.pred.discard(a)
    d.pred.discard(a)
    with pytest.raises(KeyError):
        d.pred.remove(a)
    d.pred -= {b}
    assert definition.edges() == {(c, d)}
    d.pred ^= {a, c}
    assert d.pred == {a}
    d.pred &= {b}
    assert not d.pred
    a.succ.update({b}, [c])
    assert a.succ == {b, c}
    a.succ = {c, d}
    assert definition.edges() == {(a, c), (a, d)}
    a.succ.clear()
    assert not definition.edges()


def test_neighbours_are_assigned(definition: cg.GraphDefinition) -> None:
    """A tuple would be taken apart into arguments, so that ``node.pred = (a, b)`` fails."""
    a, b, c = (definition.empty() for _ in range(3))
    for nodes in ((a, b), [a, b], {a, b}, iter((a, b)), {a: 1, b: 2}):
        c.pred = nodes
        assert c.pred == {a, b}
        c.pred = ()
        assert c.pred == set()
    for nodes in ((b, c), [b, c]):
        a.succ = nodes
        assert a.succ == {b, c}
    a.succ = (b,)
    assert a.succ == {b}
    wrong: Any
    for wrong in (([a, b],), a, None, 1, "ab"):
        with pytest.raises(TypeError, match="GraphNode is needed"):
            c.pred = wrong
    assert definition.edges() == {(a, b)}


@pytest.mark.cuda_sim
def test_failed_assignment_leaves_edges(definition: cg.GraphDefinition, cuda_sim: Any) -> None:
    """If the driver refuses the second half of an assignment, the edges removed in the first half would be lost."""
    a, b, c, d = (definition.empty() for _ in range(4))
    d.pred = (a, b)
    for function in ("cuGraphAddDependencies", "cuGraphRemoveDependencies"):
        for nth in (1, 2) if function.endswith("AddDependencies") else (1,):
            with cuda_sim.failing(function, nth=nth, error=2), pytest.raises(ch.CUDAError):
                d.pred = (c,) if nth == 1 else (c, definition.empty())
            assert d.pred == {a, b}


def test_cycle(definition: cg.GraphDefinition) -> None:
    """A graph with a cycle would fail to instantiate with a bare INVALID_VALUE."""
    first = definition.empty()
    a, b = first.join(), definition.empty()
    b.pred = (a,)
    c = b.join()
    last = c.join()
    a.pred.add(c)
    with pytest.raises(ch.CUDAError, match="the first for the last") as caught:
        definition.instantiate()
    named = re.findall(r"<EmptyNode handle=0x[0-9a-f]+>", caught.value.hint)
    turns = [[repr(node) for node in turn] for turn in ((a, b, c), (b, c, a), (c, a, b))]
    assert named in turns
    assert repr(first) not in named
    assert repr(last) not in named
    a.pred.remove(c)
    graph = definition.instantiate()
    a.pred.add(c)
    with pytest.raises(ch.CUDAError, match="the first for the last"):
        graph.update(definition)


def test_cycle_in_a_body(definition: cg.GraphDefinition) -> None:
    """A cycle in the body of a node would not be found, or would be searched for in the wrong graph."""
    body = definition.if_then(definition.create_condition(1)).then
    nodes = [body.empty()]
    for _ in range(20):
        nodes.append(nodes[-1].join())
    nodes[0].pred.add(nodes[-1])
    with pytest.raises(ch.CUDAError, match=r"the first for the last: .*\.\.\. \(21 nodes\)"):
        definition.instantiate()


def test_cycle_that_the_driver_does_not_locate(definition: cg.GraphDefinition, cuda_sim: Any) -> None:
    """If the driver reports no node of a cycle, our error would not name any."""
    child = cg.GraphDefinition()
    a = child.empty()
    b = a.join()
    inner = definition.embed(child).child_graph
    ((first, second),) = inner.edges()
    first.pred.add(second)
    with (
        cuda_sim.failing("cuGraphInstantiateWithParams", error=1),
        pytest.raises(ch.CUDAError, match="the first for the last") as caught,
    ):
        definition.instantiate()
    assert repr(first) in caught.value.hint
    assert repr(b) not in caught.value.hint


def test_destroy(definition: cg.GraphDefinition, numbers: Numbers, add: ch.Kernel) -> None:
    """A destroyed node would still be in the graph, or using its object would crash."""
    first = definition.empty()
    node = first.launch(ONE, add, numbers.buffer, 1)
    last, pred = node.join(), node.pred
    node.destroy()
    node.destroy()
    assert not node.is_valid
    assert definition.nodes() == {first, last}
    assert not definition.edges()
    assert "destroyed" in repr(node)
    assert "destroyed" in repr(pred)
    assert node == node  # noqa: PLR0124
    calls: list[Callable[[], Any]] = [
        lambda: node.config,
        lambda: node.handle,
        lambda: node.join(),
        lambda: first.join(node),
        lambda: list(node.pred),
        lambda: node.pred.add(first),
        lambda: first.pred.add(node),
        lambda: node.update(args=(numbers.buffer, 1)),
    ]
    for call in calls:
        with pytest.raises(ch.ClosedError, match="KernelNode was destroyed"):
            call()


def test_equality(definition: cg.GraphDefinition) -> None:
    """Definitions of the same graph would not be equal, or definitions of different graphs would be equal."""
    node = definition.empty()
    assert node.graph == definition
    assert node.graph is not definition
    assert hash(node.graph) == hash(definition)
    assert definition != cg.GraphDefinition()
    assert definition != node
    assert len({node, *definition.nodes()}) == 1


def test_what_cannot_be(definition: cg.GraphDefinition) -> None:
    """Meaningless operations (calling a class, copying or closing an object) would be accepted."""
    node = definition.empty()
    for cls in (cg.GraphNode, cg.KernelNode, cg.Graph, cg.GraphBuilder, cg.ExecutableGraphNode):
        with pytest.raises(RuntimeError, match="cannot be instantiated directly"):
            cls()
    for thing in (definition, node, definition.instantiate()):
        for do in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled"):
                do(thing)
    assert not hasattr(node, "close")
    definition.close()
    with pytest.raises(ch.ClosedError, match="GraphDefinition has been closed"):
        definition.empty()
    assert repr(definition) == "<GraphDefinition closed>"


def test_never_made(definition: cg.GraphDefinition, stream: ch.Stream) -> None:
    """A node or graph that was created without a handle would be used as if it had one."""

    class Node(cg.GraphNode):
        def __init__(self) -> None: ...

    wrong: Any = 3
    node, other = Node(), definition.empty()
    assert (node == wrong, node == other, other == node) == (False, False, False)
    assert not node.is_valid
    unmade = object.__new__(cg.GraphDefinition)
    graph = cg.Graph.__new__(cg.Graph)
    calls: list[Callable[[], object]] = [
        lambda: node.graph, lambda: node.pred, node.destroy, node.join, lambda: other.join(node),
        lambda: cg.AdjacencySetProxy(node, True), unmade.nodes, unmade.clone, unmade.instantiate,
        lambda: other.embed(unmade), lambda: definition.add_many([("empty", node)]), lambda: unmade.add_many([]),
        lambda: graph.launch(stream), lambda: graph.update(definition), lambda: graph[other],
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match="was never opened"):
            call()
    for thing in (wrong, None, definition):
        with pytest.raises(TypeError, match="node must be a GraphNode"):
            cg.AdjacencySetProxy(thing, True)


def test_gone(definition: cg.GraphDefinition, tmp_path: Path) -> None:
    """Using a graph that was destroyed with its node would raise an unclear error, or give the driver a null graph."""
    child = cg.GraphDefinition()
    child.empty()
    node = definition.embed(child)
    inner = node.child_graph
    (inner_node,) = inner.nodes()
    assert inner == node.child_graph != child
    graph = definition.instantiate()
    node.destroy()
    assert (inner.is_valid, inner_node.is_valid, child.is_valid) == (False, False, True)
    assert repr(inner).endswith("destroyed>")
    assert str(inner) == repr(inner)
    assert inner._repr_mimebundle_() == {"text/plain": repr(inner)}
    calls: list[Callable[[], object]] = [
        inner.nodes, inner.edges, inner.clone, inner.instantiate, inner.empty, inner.create_condition, inner.to_dot,
        inner.to_mermaid, lambda: inner.debug_dot_print(tmp_path / "x"), lambda: definition.embed(inner),
        lambda: graph.update(inner), lambda: inner.handle, lambda: inner.add_many([("empty", None)]), inner_node.join,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ch.ClosedError, match=r"does not exist any more|was destroyed"):
            call()
    assert not definition.nodes()


def test_gone_meanwhile(definition: cg.GraphDefinition, add: ch.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a thread destroys a node between our check and the driver's call, the usual error would not be raised."""
    node = definition.launch(ch.LaunchConfig(grid=1, block=1), add, 0, 4)

    def late(face: Any) -> Any:
        box = hold_there(face)
        node.destroy()
        return box

    monkeypatch.setattr(node_module, "hold_there", late)
    with pytest.raises(ch.ClosedError, match="CCH_EGONE") as caught:
        _ = node.args
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), ch.CUDAError)


@pytest.mark.cuda_sim
def test_debug_dot_print_failures(definition: cg.GraphDefinition, tmp_path: Path, cuda_sim: Any) -> None:
    """The message would blame the file for every error, or a path would end at a NUL character in it."""
    with pytest.raises(ValueError, match="NUL character"):
        definition.debug_dot_print(f"{tmp_path}/a\0b")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ch.CUDAError, match="'/no/such/folder/x' must be a file that can be written"):
        definition.debug_dot_print("/no/such/folder/x")
    with cuda_sim.failing("cuGraphDebugDotPrint", error=2), pytest.raises(ch.CUDAError) as caught:
        definition.debug_dot_print(tmp_path / "x")
    assert "file" not in str(caught.value)


def test_handles_for_cuda_bindings(definition: cg.GraphDefinition) -> None:
    """A graph could not be given to the driver's own functions."""
    from cuda.bindings import driver

    definition.empty()
    error, _, count = driver.cuGraphGetNodes(definition.handle)
    assert (error, count) == (0, 1)
    condition = definition.create_condition()
    assert int(condition.handle) == condition.value


def test_capsules(definition: cg.GraphDefinition) -> None:
    """A graph could not be passed to an extension module and back."""
    node = definition.empty()
    graph = definition.instantiate()
    assert ch.from_capsule(definition.__cudacore_handle__()) == definition
    assert ch.from_capsule(node.__cudacore_handle__()) is node
    assert ch.from_capsule(graph.__cudacore_handle__()) == graph


def test_topological_order(definition: cg.GraphDefinition) -> None:
    """A node would come before one that it depends on, or be missing, or a cycle be returned as an order."""
    assert definition.sorted_nodes() == []
    alone = definition.empty()
    nodes = [definition.empty() for _ in range(20)]
    for i, node in enumerate(nodes):  # against the order in which they were added
        node.pred = set(nodes[i + 1 : i + 4])
    order = definition.sorted_nodes()
    assert sorted(map(hash, order)) == sorted(map(hash, [alone, *nodes]))
    assert all(order.index(node) < order.index(dependent) for node, dependent in definition.edges())
    nodes[-1].pred.add(nodes[0])
    with pytest.raises(ValueError, match="cycle") as caught:
        definition.sorted_nodes()
    assert set(caught.value.args[1]) <= set(nodes)
