# SPDX-License-Identifier: Apache-2.0
"""Definitions: adding nodes, listing them, edges, changes of topology, clones."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import re
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graph_tools import ONE, Numbers, add_function

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_handles._sdk import graph_native as _native

Run = Callable[[cg.GraphDefinition], None]


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
    kinds = [type(node) for node in nodes]
    known = {id(node) for node in nodes}
    assert {id(node) for node in definition.nodes()} == known
    assert next(iter(nodes[0].succ)) is nodes[1]
    names = {node._raw: type(node) for node in nodes}
    assert len(names) == len(kinds)
    del nodes, known
    gc.collect()
    assert {node._raw: type(node) for node in definition.nodes()} == names


def test_node_is_weakly_referenced(definition: cg.GraphDefinition) -> None:
    """A weak reference would keep a node alive, or return one that was destroyed."""
    node = definition.empty()
    reference = weakref.ref(node)
    raw = node._raw
    assert reference() is node
    del node
    assert reference() is None
    (again,) = definition.nodes()
    assert again._raw == raw


def test_collections_leave_nodes_alone(definition: cg.GraphDefinition) -> None:
    """Each garbage collection would visit all nodes of a large graph, or the list would have a node twice."""
    nodes = [definition.empty() for _ in range(100)]
    assert not any(gc.is_tracked(node) for node in nodes)
    gc.collect()
    assert definition.nodes() == set(nodes)
    references = [weakref.ref(node) for node in nodes]
    del nodes
    assert not any(reference() for reference in references)


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
            nodes.append(definition.empty())  # with the first object that a collection counts
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
    """A set of neighbours would not do what sets do, or not change the graph."""
    a, b, c, d = (definition.empty() for _ in range(4))
    d.pred.add(a)
    d.pred |= {b, c}
    assert d.pred == {a, b, c}
    assert len(d.pred) == 3
    assert a in d.pred
    assert d not in d.pred
    assert d.pred & {a, d} == {a}
    assert repr(a.succ) == f"{{{d!r}}}"
    d.pred.add(a)  # again
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


def test_edges_are_changed_as_a_whole(definition: cg.GraphDefinition) -> None:
    """An assignment with an invalid node would remove edges, and then fail."""
    a, b, c = (definition.empty() for _ in range(3))
    c.pred = (a,)
    with pytest.raises(ValueError, match="is a node of another graph"):
        c.pred = (b, cg.GraphDefinition().empty())
    assert c.pred == {a}


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


def test_edge_that_is_there(definition: cg.GraphDefinition) -> None:
    """Adding an edge again would be an error of the driver, or would hide another error."""
    a, b = definition.empty(), definition.empty()
    for _ in range(2):
        b.pred.add(a)
        a.succ.add(b)
        b.pred.update([a])
        b.pred |= {a}
    assert definition.edges() == {(a, b)}


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
    """The cycle of a graph in a node would not be found, or looked for in the wrong graph."""
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
    last = node.join()
    node.destroy()
    node.destroy()
    assert not node.is_valid
    assert definition.nodes() == {first, last}
    assert not definition.edges()
    assert "destroyed" in repr(node)
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


def test_destroyed_child(definition: cg.GraphDefinition) -> None:
    """A definition of a child graph would outlive its node, and pass a null graph to the driver."""
    child = cg.GraphDefinition()
    child.empty()
    node = definition.embed(child)
    inner = node.child_graph
    (inner_node,) = inner.nodes()
    assert inner != child
    assert inner == node.child_graph
    node.destroy()
    assert not inner.is_valid
    assert not inner_node.is_valid
    assert repr(inner).endswith("destroyed>")
    assert str(inner) == repr(inner)
    for call in (inner.empty, inner.nodes, lambda: inner.handle, inner_node.join):
        with pytest.raises((ch.ClosedError, ch.CUDAError)):
            call()
    assert child.is_valid


def test_child_keeps_its_root(device: ch.Device, add: ch.Kernel, numbers: Numbers, run: Run) -> None:
    """The body of a conditional node would be destroyed with the last object of its root."""
    definition = cg.GraphDefinition()
    body = definition.if_then(definition.create_condition(1)).then
    reference = weakref.ref(definition)
    del definition
    gc.collect()
    assert reference() is None
    node = body.launch(ONE, add, numbers.buffer, 1)
    assert body.nodes() == {node}
    assert body.is_valid


def test_clone(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run) -> None:
    """A clone would share nodes with the original, or its mapping would contain other nodes than the clone's."""
    first = definition.launch(ONE, add, numbers.buffer, 1)
    second = first.launch(ONE, add, numbers.buffer, 10)
    copy, pairs = definition.clone()
    assert copy != definition
    assert set(pairs) == {first, second}
    assert copy.nodes() == set(pairs.values())
    assert pairs[second].pred == {pairs[first]}
    assert all(pairs[node].graph == copy for node in pairs)
    pairs[second].update(args=(numbers.buffer, 100))
    second.destroy()
    run(copy)
    assert numbers[0] == 101
    run(definition)
    assert numbers[0] == 102


def test_clone_while_it_changes(definition: cg.GraphDefinition) -> None:
    """The mapping of a clone would lack nodes that another thread adds or removes meanwhile."""
    kept = [definition.empty() for _ in range(200)]
    done = threading.Event()
    failures: list[BaseException] = []

    def change() -> None:
        try:
            while not done.is_set():
                definition.empty().destroy()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(100):
            copied, pairs = definition.clone()
            assert set(pairs.values()) == copied.nodes()
            assert set(kept) <= set(pairs)
    finally:
        done.set()
        thread.join()
    assert not failures


@pytest.mark.cuda_sim
@pytest.mark.parametrize("code", [1, 2])
def test_clone_without_a_node(definition: cg.GraphDefinition, cuda_sim: Any, code: int) -> None:
    """A node that the driver cannot find in the clone would silently be missing in the mapping."""
    for _ in range(3):
        definition.empty()
    with (
        cuda_sim.failing("cuGraphNodeFindInClone", nth=2, error=code),
        pytest.raises(ch.CUDAError, match="FindInClone"),
    ):
        definition.clone()
    _, pairs = definition.clone()
    assert set(pairs) == definition.nodes()


def test_clone_keeps_what_nodes_use(device: ch.Device, add: ch.Kernel, run: Run) -> None:
    """A clone would run with memory that was freed with the original's node."""
    numbers = Numbers(1)
    view = numbers.view
    definition = cg.GraphDefinition()
    node = definition.launch(ONE, add, numbers.buffer, 5)
    copy, pairs = definition.clone()
    node.destroy()
    del node, pairs, definition
    numbers.buffer.close()
    gc.collect()
    run(copy)
    assert view[0] == 5


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
    """An object that was not made by a method would be used as if it had a handle."""

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
    """Using a node's destroyed graph would be an error of the driver instead of a clear one."""
    node = definition.embed(cg.GraphDefinition())
    inner = node.child_graph
    graph = definition.instantiate()
    node.destroy()
    calls: list[Callable[[], object]] = [
        inner.nodes, inner.edges, inner.clone, inner.instantiate, inner.empty, inner.create_condition, inner.to_dot,
        inner.to_mermaid, lambda: inner.debug_dot_print(tmp_path / "x"), lambda: definition.embed(inner),
        lambda: graph.update(inner), lambda: inner.handle, lambda: inner.add_many([("empty", None)]),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ch.ClosedError, match=r"not there any more|was destroyed"):
            call()
    assert not definition.nodes()


def test_gone_meanwhile(definition: cg.GraphDefinition, numbers: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another thread destroys an object between a check and the call, the error would be of another kind."""
    node = definition.memset(numbers.buffer, 0, 4)
    call = _native.locked_call

    def late(*args: Any) -> Any:
        node.destroy()
        return call(*args)

    monkeypatch.setattr(_native, "locked_call", late)
    with pytest.raises(ch.ClosedError, match="CCH_EGONE") as caught:
        _ = node.value
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), ch.CUDAError)


def test_debug_dot_print_bad_path(definition: cg.GraphDefinition, tmp_path: Path) -> None:
    """The driver would write to a file whose name ends early."""
    with pytest.raises(ValueError, match="NUL character"):
        definition.debug_dot_print(f"{tmp_path}/a\0b")
    assert not list(tmp_path.iterdir())


@pytest.mark.cuda_sim
def test_debug_dot_print_failures(definition: cg.GraphDefinition, tmp_path: Path, cuda_sim: Any) -> None:
    """Every error would be blamed on the file."""
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


class TestBatch:
    def test_chain(self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run) -> None:
        """Nodes of a batch would differ from those of single calls, or have other dependencies."""
        start = definition.memset(numbers.buffer, 0, 16)
        items: list[tuple[Any, ...]] = [("launch", start, ONE, add, numbers.buffer, 1)]
        items += [("launch", index, ONE, add, numbers.buffer, 1) for index in range(50)]
        items += [("empty", (start, 50)), ("memcpy", 51, numbers.at(1), numbers.buffer, 4), ("callback", [51], print)]
        nodes = definition.add_many(items)
        assert [type(node) for node in nodes[-3:]] == [cg.EmptyNode, cg.MemcpyNode, cg.HostCallbackNode]
        assert nodes[0].pred == {start}
        assert nodes[51].pred == {start, nodes[50]}
        assert nodes[52].pred == {nodes[51]}
        assert definition.nodes() == {start, *nodes}
        nodes[-1].destroy()
        run(definition)
        assert (numbers[0], numbers[1]) == (51, 51)

    def test_nothing(self, definition: cg.GraphDefinition) -> None:
        """An empty batch would be an error."""
        assert definition.add_many([]) == []

    def test_conditions(self, definition: cg.GraphDefinition) -> None:
        """A failed batch would use up a condition, or a batch would give the same condition to two nodes."""
        condition = definition.create_condition()
        with pytest.raises(ValueError, match=r"node 1: .* is that of a conditional node already"):
            definition.add_many([("if_then", None, condition), ("while_loop", None, condition)])
        assert not definition.nodes()
        (node,) = definition.add_many([("switch", None, condition, 2)])
        assert len(node.branches) == 2

    @pytest.mark.parametrize(
        ("item", "error", "match"),
        [
            (("lanch", None), ValueError, "node 1: 'lanch' is not a kind of node; it must be one of launch, memcpy"),
            (("empty",), TypeError, r"node 1: a node of a batch is a tuple \(kind, after, \*arguments\)"),
            (["empty", None], TypeError, "node 1: a node of a batch is a tuple"),
            (("empty", 1), ValueError, "node 1: 1 is not the number of an earlier node"),
            (("empty", -1), ValueError, "node 1: -1 is not the number of an earlier node"),
            (("empty", "0"), TypeError, "node 1: after must be a GraphNode, not 'str'"),
            (("memset", None, 0, 0, 1), ValueError, "node 1: dst is NULL"),
            (("memset", None, 4096), TypeError, r"node 1: memset\(\) needs value"),
            (("empty", None, 1), TypeError, "node 1: empty takes at most 0 arguments, but 1 were given"),
            (("launch", None, ONE), TypeError, r"node 1: launch\(\) takes a config, a kernel and its arguments"),
        ],
    )
    def test_bad_input(self, definition: cg.GraphDefinition, item: Any, error: type[Exception], match: str) -> None:
        """A mistake in a batch would leave some nodes behind, or the error would not say where it is."""
        with pytest.raises(error, match=match):
            definition.add_many([("empty", None), item])
        assert not definition.nodes()

    @pytest.mark.cuda_sim
    @pytest.mark.cuda_sim
    def test_names_the_node(self, definition: cg.GraphDefinition, device: ch.Device, cuda_sim: Any) -> None:
        """An error would not say which node of the batch it is about, or would have another type."""
        closed = device.create_event()
        closed.close()
        gone = definition.empty()
        gone.destroy()
        for item in (("record", None, closed), ("empty", gone)):
            with pytest.raises(ch.ClosedError, match=r"^node 1: "):
                definition.add_many([("empty", None), item])
        with (
            cuda_sim.failing(add_function("Empty"), nth=2, error=2),
            pytest.raises(ch.CUDAError, match="node 1 of the batch"),
        ):
            definition.add_many([("empty", None)] * 3)
        with pytest.raises(ValueError, match=r"^node 1: dptr cannot be freed"):
            definition.add_many([("empty", None), ("deallocate", 0, 5)])

        class Mine(KeyError):
            def __index__(self) -> int:
                raise self

        with pytest.raises(Mine) as caught:
            definition.add_many([("memset", None, 1, 0, Mine(1, 2))])
        assert caught.value.args == (1, 2)
        assert not definition.nodes()

    def test_after_the_same_twice(self, definition: cg.GraphDefinition) -> None:
        """A dependency that is given twice would be added twice, which the driver refuses."""
        first = definition.empty()
        nodes = definition.add_many([("empty", (first, first)), ("empty", [0, first, 0, first]), ("empty", (1, 0, 1))])
        assert definition.edges() == {
            (first, nodes[0]), (nodes[0], nodes[1]), (first, nodes[1]), (nodes[1], nodes[2]), (nodes[0], nodes[2])
        }  # fmt: skip

    def test_all_or_none(self, definition: cg.GraphDefinition, numbers: Numbers, cuda_sim: Any) -> None:
        """If the driver refuses the fourth of five nodes, the first three would remain in the graph."""
        items: list[tuple[Any, ...]] = [("memset", None, numbers.buffer, 0, 4)] * 5
        with cuda_sim.failing(add_function("Memset"), nth=4, error=2), pytest.raises(ch.CUDAError):
            definition.add_many(items)
        assert not definition.nodes()
        assert len(definition.add_many(items)) == 5

    @pytest.mark.parametrize("already", [False, True])
    def test_all_or_none_with_memory(self, definition: cg.GraphDefinition, numbers: Numbers, already: bool) -> None:
        """A batch that fails after a memory node would remain in part, because the driver cannot remove nodes then."""
        before = {definition.allocate(64)} if already else set()
        condition = definition.create_condition(0)
        address = next(iter(before)).dptr if already else 0
        good: list[tuple[Any, ...]] = [
            ("allocate", None, 64),
            ("memset", 0, numbers.buffer, 0, 4),
            ("callback", 1, print),
            ("if_then", 2, condition),
        ]
        bad: list[tuple[tuple[Any, ...], type[Exception], str]] = [
            (("memset", 3, 4096, 0, 4), ch.CUDAError, "node 4 of the batch"),
            (("deallocate", 3, 4096), ValueError, "node 4: dptr cannot be freed"),
        ]
        if already:
            good.append(("memset", 3, address, 0, 4))
            bad = [(item, error, match.replace("node 4", "node 5")) for item, error, match in bad]
            bad.append((("memset", 3, address, 0, 400), ch.CUDAError, "node 5 of the batch"))
            bad.append((("deallocate", 3, address + 8), ValueError, "node 5: dptr cannot be freed"))
        for item, error, match in bad:
            with pytest.raises(error, match=match) as caught:
                definition.add_many([*good, item])
            assert "stay in the graph" not in str(caught.value)
            assert definition.nodes() == before
        if already:
            twice = [*good, ("deallocate", 4, address), ("deallocate", 5, address)]
            with pytest.raises(ValueError, match=r"node 6: dptr cannot be freed.*is freed already"):
                definition.add_many(twice)
            assert definition.nodes() == before
            good = twice[:-1]
        nodes = definition.add_many(good)
        assert definition.nodes() == before | set(nodes)
        if already:
            with pytest.raises(ValueError, match="node 1: dptr cannot be freed"):
                definition.add_many([("empty", None), ("deallocate", 0, address)])
            assert definition.nodes() == before | set(nodes)
        definition.instantiate()

    def test_freed_elsewhere(self, definition: cg.GraphDefinition, run: Run) -> None:
        """A batch could not free what another graph has allocated."""
        other = cg.GraphDefinition()
        address = other.allocate(64).dptr
        definition.add_many([("empty", None), ("deallocate", 0, address)])
        run(other)
        run(definition)

    @pytest.mark.needs_driver("12.2", "cuGraphAddNode, which is to fail")
    @pytest.mark.cuda_sim
    def test_what_stays(self, definition: cg.GraphDefinition, cuda_sim: Any) -> None:
        """An unexpected error after a memory node would not say that nodes remain."""
        items: list[tuple[Any, ...]] = [("empty", None), ("allocate", 0, 64), ("empty", 1)]
        for nth in range(1, 6):
            with cuda_sim.failing("cuGraphAddNode", nth=nth, error=2), pytest.raises(ch.CUDAError) as caught:
                definition.add_many(items)
            assert not definition.nodes(), nth
            assert "stay in the graph" not in str(caught.value)
        with (
            cuda_sim.failing("cuGraphAddNode", nth=6, error=2),
            pytest.raises(
                ch.CUDAError, match=r"the nodes of the batch that come before it stay in the graph.*node 2 of"
            ),
        ):
            definition.add_many(items)
        assert len(definition.nodes()) == 2

    @pytest.mark.cuda_sim
    def test_attribute_with_memory(
        self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, cuda_sim: Any
    ) -> None:
        """A kernel whose attribute is refused would stay in a graph with memory nodes, and run without it."""
        node = definition.allocate(64)
        config = ch.LaunchConfig(grid=1, block=1, priority=0)
        with cuda_sim.failing("cuGraphKernelNodeSetAttribute", nth=1, error=1), pytest.raises(ch.CUDAError):
            node.launch(config, add, numbers.buffer, 1)
        assert definition.nodes() == {node}
        node.launch(config, add, numbers.buffer, 1)
