# SPDX-License-Identifier: Apache-2.0
"""Many nodes that launch one kernel: each parameter has a column with the argument of each node."""

from __future__ import annotations

import gc
import sys
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_tools import ONE, Numbers, add_function

import cudacore_graph as cg
import cudacore_handles as ch
from threads_at_once import in_threads

Run = Callable[..., None]


def chain(count: int) -> np.ndarray[Any, Any]:
    """Return the edges of a chain."""
    return np.stack([np.arange(count - 1), np.arange(1, count)], axis=1)


def test_arrays(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run) -> None:
    """A node would run with the arguments of another one, or not in the order of its edges."""
    amounts = np.arange(1, 17, dtype=np.uint32)
    nodes = definition.launch_many(ONE, add, numbers.places(16), amounts, edges=chain(16))
    assert len(nodes) == len(definition.nodes()) == 16
    assert definition.edges() == {(nodes[index], nodes[index + 1]) for index in range(15)}
    run(definition)
    assert [numbers[index] for index in range(16)] == list(range(1, 17))


@pytest.mark.parametrize("reverse", [False, True], ids=["every second", "backwards"])
def test_strides(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run, reverse: bool) -> None:
    """Parts of arrays, and fields of structured arrays, would be read as if they were dense."""
    amounts = np.arange(32, dtype=np.uint32)[:: -2 if reverse else 2]
    table = np.zeros(16, [("at", np.uint64), ("other", np.uint16)])
    table["at"] = numbers.places(16)
    definition.launch_many(ONE, add, table["at"], amounts)
    run(definition)
    assert [numbers[index] for index in range(16)] == amounts.tolist()


def test_other_columns(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run) -> None:
    """Lists of buffers, arrays of the standard library, ranges, and one value for all nodes would be refused."""
    parts = [numbers.buffer[4 * index : 4 * index + 4] for index in range(4)]
    definition.launch_many(ONE, add, parts, array("I", [1, 2, 3, 4]))
    definition.launch_many(ONE, add, tuple(parts), memoryview(array("I", [10, 20, 30, 40])))
    definition.launch_many(ONE, add, numbers.at(4), 7, count=1)
    definition.launch_many(ONE, add, numbers.at(5), [np.uint32(8)])
    nodes = definition.launch_many(ONE, add, numbers.at(6), range(3))
    assert [node.args[1] for node in nodes] == [0, 1, 2]
    run(definition)
    assert [numbers[index] for index in range(7)] == [11, 22, 33, 44, 7, 8, 3]


def test_bools(definition: cg.GraphDefinition, numbers: Numbers, run: Run) -> None:
    """An array of bools would be refused, although a list of bools is accepted."""
    code = """
    .version 8.0
    .target sm_90
    .address_size 64
    .visible .entry store(.param .u64 out, .param .u8 flag) {
        .reg .b64 %a; .reg .b32 %b;
        ld.param.u64 %a, [out]; ld.param.u8 %b, [flag]; st.global.u32 [%a], %b; ret;
    }"""
    store = ch.ObjectCode.from_ptx(code.encode()).get_kernel("store")
    flags = np.array([True, False, True])
    definition.launch_many(ONE, store, numbers.places(3), flags)
    definition.launch_many(ONE, store, [numbers.at(index) for index in range(3, 6)], flags.tolist())
    run(definition)
    assert [numbers[index] for index in range(6)] == [1, 0, 1] * 2


def test_configurations(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> None:
    """All nodes would have the configuration of the first one."""
    configs = [ch.LaunchConfig(grid=1 + index % 3, block=1 + index) for index in range(6)]
    nodes = definition.launch_many(configs, add, numbers.buffer, 1)
    assert [node.config for node in nodes] == configs


def test_attributes(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> None:
    """Clusters and priorities would be lost."""
    config = ch.LaunchConfig(grid=2, cluster=2, block=1, priority=-1)
    nodes = definition.launch_many((config, ONE), add, numbers.buffer, 1)
    assert nodes[0].config.cluster == (2, 1, 1)
    assert nodes[0].config.priority == -1
    assert nodes[1].config.cluster in (None, (1, 1, 1))


def test_edges(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> None:
    """Edges given in any order, duplicate edges, or dependencies on other nodes would be wrong in the graph."""
    first, second = definition.empty(), definition.empty()
    edges = [(2, 3), (0, 3), (0, 1), (2, 3), (1, 3)]
    nodes = definition.launch_many(ONE, add, numbers.buffer, [1] * 4, edges=edges, after=(first, second, first))
    assert set(nodes[0].pred) == set(nodes[2].pred) == {first, second}
    assert set(nodes[1].pred) == {nodes[0]}
    assert set(nodes[3].pred) == {nodes[0], nodes[1], nodes[2]}
    (last,) = definition.launch_many(ONE, add, numbers.buffer, [1], after=nodes[3])
    assert set(last.pred) == {nodes[3]}


def test_sequence(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> None:
    """The nodes would not be a sequence: they would be new objects each time, or could not be sliced."""
    nodes = definition.launch_many(ONE, add, numbers.buffer, np.arange(10, dtype=np.uint32))
    other = definition.launch_many(ONE, add, numbers.buffer, 1, count=3)
    assert isinstance(nodes[3], cg.KernelNode)
    kept = nodes[3]
    assert nodes[3] is kept
    assert list(nodes[2:8:2]) == [nodes[2], nodes[4], nodes[6]]
    assert nodes[-1] == nodes[9] == nodes[::-1][0]
    assert nodes.index(kept) == 3
    assert nodes[1:].index(kept) == 2
    assert kept in nodes
    assert kept not in nodes[:3]
    assert kept not in other
    assert nodes.count(kept) == 1
    assert None not in nodes
    assert set(nodes) | set(other) == definition.nodes()
    assert "10 of <GraphDefinition" in repr(nodes)
    with pytest.raises(IndexError, match="no node 10: there are 10"):
        nodes[10]
    with pytest.raises(ValueError, match="is not one of the nodes"):
        nodes.index(other[0])


def test_none(definition: cg.GraphDefinition, add: ch.Kernel) -> None:
    """An empty batch would raise an error, or add a node."""
    assert len(definition.launch_many(ONE, add, np.zeros(0, np.uint64), np.zeros(0, np.uint32))) == 0
    assert not definition.nodes()


def test_destroyed_and_added_again(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> None:
    """In place of a destroyed node, the sequence would return a newer node that got the same handle, or count none."""
    nodes = definition.launch_many(ONE, add, numbers.buffer, [1] * 4)
    nodes[1].destroy()
    for _ in range(50):
        definition.launch(ONE, add, numbers.buffer, 2)
        definition.empty()
    with pytest.raises(ch.ClosedError, match="node 1 was destroyed"):
        nodes[1]
    assert len(nodes) == 4
    assert nodes.count(nodes[2]) == 1
    assert nodes[2].is_valid
    nodes[2].destroy()
    again = definition.launch_many(ONE, add, numbers.buffer, [1] * 4)
    with pytest.raises(ch.ClosedError):
        nodes[2]
    assert all(node in again and node not in nodes for node in again)


def test_changed_nodes(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run) -> None:
    """Updating a node would change the arguments of other nodes of the same call, or lose its own arguments."""
    nodes = definition.launch_many(ONE, add, numbers.places(3), 5)
    nodes[1].update(args=(numbers.at(1), 7))
    nodes[2].update(config=ch.LaunchConfig(grid=1, block=1, priority=-1))
    assert nodes[1].is_valid
    run(definition)
    assert [numbers[index] for index in range(3)] == [5, 7, 5]
    graph = definition.instantiate()
    graph[nodes[0]].update(config=ONE, kernel=add, args=(numbers.at(0), 100))
    graph.close()


def test_what_nodes_use(device: ch.Device, add: ch.Kernel, run: Run) -> None:
    """Memory would be freed while nodes, clones or executable graphs still use it."""
    numbers = Numbers(4)
    view = numbers.view
    definition = cg.GraphDefinition()
    nodes = definition.launch_many(ONE, add, [numbers.buffer[4 * i : 4 * i + 4] for i in range(4)], 3)
    executable = definition.instantiate()
    copy = definition.copy()
    numbers.buffer.close()
    nodes[0].destroy()
    run(definition)
    assert view.tolist() == [0, 3, 3, 3]
    del nodes, definition
    gc.collect()
    run(copy)
    assert view.tolist() == [3, 6, 6, 6]
    stream = device.create_stream()
    executable.launch(stream)
    stream.sync()
    assert view.tolist() == [6, 9, 9, 9]


def test_nodes_of_a_shared_graph(device: ch.Device, stream: ch.Stream, add: ch.Kernel) -> None:
    """A graph whose handle was read would keep the memory of nodes until its own end, although they were destroyed."""
    before = ch.live_counts()["deviceptr"]
    definition = cg.GraphDefinition()
    _ = definition.handle
    nodes = definition.launch_many(ONE, add, [device.allocate(64, stream=stream) for _ in range(3)], 1)
    nodes[0].destroy()
    nodes[1].update(args=(device.allocate(64, stream=stream), 1))
    gc.collect()
    assert ch.live_counts()["deviceptr"] == before + 4  # the nodes that were added together share their owners
    nodes[2].destroy()
    ch.Device(0).sync()  # destroys what CUDA has released on its own thread
    assert ch.live_counts()["deviceptr"] == before + 1
    assert not definition.instantiate().is_closed


@pytest.mark.cuda_sim
@pytest.mark.parametrize("nth", [1, 3, 5])
def test_failure_in_the_middle(
    definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, cuda_sim: Any, nth: int
) -> None:
    """Nodes of a call that failed would stay in the graph."""
    before = definition.launch(ONE, add, numbers.buffer, 1)
    function = add_function("Kernel")
    with cuda_sim.failing(function, nth=nth, error=2), pytest.raises(ch.CUDAError, match=rf"node {nth - 1} of"):
        definition.launch_many(ONE, add, numbers.buffer, [1] * 5, edges=chain(5))
    assert definition.nodes() == {before}
    assert len(definition.launch_many(ONE, add, numbers.buffer, [1] * 5, edges=chain(5))) == 5


@pytest.mark.cuda_sim
def test_failure_in_a_graph_that_keeps_nodes(
    definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, cuda_sim: Any
) -> None:
    """The driver cannot remove nodes from a graph that allocates memory: the nodes before the failed one would stay."""
    memory = definition.allocate(64)
    with cuda_sim.failing(add_function("Kernel"), nth=3, error=2), pytest.raises(ch.CUDAError, match="node 2 of"):
        definition.launch_many(ONE, add, numbers.buffer, [1] * 5)
    assert definition.nodes() == {memory}
    assert len(definition.launch_many(ONE, add, memory.dptr, [1] * 5, after=memory)) == 5


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("call", ["Kernel", "attribute", "undo"])
def test_nodes_that_stay_after_a_failure(
    stream: ch.Stream, add: ch.Kernel, cuda_sim: Any, shared: bool, call: str
) -> None:
    """Nodes that the driver cannot remove after a failed call would use memory that was freed."""
    definition = cg.GraphDefinition()
    if call != "undo":
        memory = definition.allocate(64)  # the driver cannot remove nodes from such a graph
        memory.deallocate(memory.dptr)
    if shared:
        _ = definition.handle
    config = ch.LaunchConfig(grid=1, block=1, cluster=1)
    buffer = ch.LegacyPinnedMemoryResource().allocate(64)
    live = cuda_sim.live()["host_memory"]
    rehearsed = 3 if call != "undo" else 0
    failing = "cuGraphKernelNodeSetAttribute" if call == "attribute" else add_function("Kernel")
    if call == "undo":
        cuda_sim.fail("cuGraphDestroyNode", 1, 2)
    cuda_sim.fail(failing, rehearsed + 2, 2)
    with pytest.raises(ch.CUDAError, match="node 1 of"):
        definition.launch_many(config, add, buffer, [1] * 3)
    cuda_sim.reset()
    assert sum(isinstance(node, cg.KernelNode) for node in definition.nodes()) == (2 if call == "attribute" else 1)
    buffer.close()
    assert cuda_sim.live()["host_memory"] == live
    graph = definition.instantiate()
    definition.close()
    graph.launch(stream)
    stream.sync()
    graph.close()


WRONG = {
    "length": (ValueError, "argument 0 is for 3 nodes, and argument 1 for 2", (np.zeros(3, "u8"), [1, 2]), {}),
    "count": (ValueError, "count is for 3 nodes, and argument 1 for 2", (0, [1, 2]), {"count": 3}),
    "no length": (TypeError, "how many nodes", (0, 1), {}),
    "type": (TypeError, r"argument 1: .*8 bytes, of the type int64.*astype", (0, np.zeros(2, "i8")), {}),
    "float": (TypeError, "argument 1: .*of the type float32", (0, np.zeros(2, "f4")), {}),
    "objects": (TypeError, "argument 0: the column has Python objects", (np.array([None]), 1), {}),
    "big-endian": (TypeError, "argument 1: the column is big-endian", (0, np.zeros(2, ">u4")), {}),
    "masked": (TypeError, "argument 1 has masked", (0, np.ma.array(np.zeros(2, "u4"), mask=[0, 1])), {}),
    "item": (TypeError, "node 1: argument 1: ", (0, [1, "a"]), {}),
    "rows": (TypeError, "node 0: argument 1: ", (0, memoryview(np.zeros((2, 2), "u4"))), {}),
    "floats": (TypeError, "node 0: argument 1: ", (0, array("f", [0.5, 1])), {}),
    "value": (TypeError, "argument 1: ", (0, "a"), {"count": 2}),
    "arguments": (TypeError, "takes 2 arguments, .*, not 1", ([1],), {}),
    "backwards": (ValueError, "edge 1 leads from node 1 to node 0", (0, [1, 2]), {"edges": [(0, 1), (1, 0)]}),
    "backwards array": (
        ValueError,
        "edge 1 leads from node 1 to node 0",
        (0, [1, 2]),
        {"edges": np.array([[0, 1], [1, 0]])},
    ),
    "itself": (ValueError, "edge 0 leads from node 1 to node 1", (0, [1, 2]), {"edges": np.array([[1, 1]])}),
    "masked edges": (TypeError, "edges has masked", (0, [1, 2]), {"edges": np.ma.array([[0, 1]], mask=[[1, 0]])}),
    "no edges": (TypeError, "edges must be pairs of indices", (0, [1, 2]), {"edges": 5}),
    "outside": (ValueError, "edge 0 leads from node 0 to node 2", (0, [1, 2]), {"edges": np.array([[0, 2]])}),
    "negative": (ValueError, "edge 0 leads from node -1", (0, [1, 2]), {"edges": np.array([[-1, 1]])}),
    "pair": (TypeError, "edge 0 must be a pair", (0, [1, 2]), {"edges": [1]}),
    "shape": (TypeError, r"of the shape \(n, 2\)", (0, [1, 2]), {"edges": np.zeros((2, 3), int)}),
    "after": (TypeError, "after must be a GraphNode", (0, [1, 2]), {"after": [1]}),
    "one after": (TypeError, "after must be a GraphNode", (0, [1, 2]), {"after": 1}),
    "negative count": (TypeError, "count must be an int", (0, 1), {"count": -1}),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(definition: cg.GraphDefinition, add: ch.Kernel, case: str) -> None:
    """Invalid columns would reach the driver, or the message would not name them."""
    error, message, columns, keywords = WRONG[case]
    with pytest.raises(error, match=message):
        definition.launch_many(ONE, add, *columns, **keywords)
    assert not definition.nodes()


def test_other_graphs(definition: cg.GraphDefinition, add: ch.Kernel) -> None:
    """A node of another graph, or a closed graph, would reach the driver."""
    other = cg.GraphDefinition()
    with pytest.raises(ValueError, match="of another graph"):
        definition.launch_many(ONE, add, 0, [1], after=other.empty())
    with pytest.raises(TypeError, match="config must be a LaunchConfig"):
        definition.launch_many([1], add, 0, 1)  # type: ignore[list-item]
    with pytest.raises(TypeError, match="config must be a LaunchConfig"):
        definition.launch_many(None, add, 0, [1, 2])  # type: ignore[arg-type]
    nodes = other.launch_many(ONE, add, 0, [1, 2])
    other.close()
    with pytest.raises(ch.ClosedError):
        other.launch_many(ONE, add, 0, [1])
    with pytest.raises(ch.ClosedError):
        nodes[0]


def test_list_that_shrinks(definition: cg.GraphDefinition, add: ch.Kernel) -> None:
    """If the conversion of a value shortens the list, the next value would be read beyond the end of the list."""
    values: list[Any] = []

    class Shrinks:
        def __index__(self) -> int:
            values.clear()
            gc.collect()
            return 1

    values += [Shrinks(), *range(1000)]
    assert len(definition.launch_many(ONE, add, 0, values)) == 1001


def test_threads(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> None:
    """Threads that add nodes to one graph, and read nodes of other threads, would corrupt its table of nodes."""

    def work(_: int) -> None:
        ch.Device().set_current()
        for _ in range(10):
            nodes = definition.launch_many(ONE, add, numbers.buffer, [1] * 50)
            assert len(set(nodes)) == 50
            nodes[0].destroy()

    in_threads(work, range(4))
    assert len(definition.nodes()) == 4 * 10 * 49


@pytest.mark.cuda_sim
def test_no_object_for_a_node(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> None:
    """Adding a hundred thousand nodes would create as many Python objects."""
    columns = np.full(20_000, numbers.at(0), np.uint64), np.ones(20_000, np.uint32)
    edges = chain(20_000)
    blocks = sys.getallocatedblocks()
    nodes = definition.launch_many(ONE, add, *columns, edges=edges)
    assert sys.getallocatedblocks() - blocks < 500
    assert len(nodes) == 20_000
