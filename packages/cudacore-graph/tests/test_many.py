# SPDX-License-Identifier: Apache-2.0
"""Many nodes that exist: they are changed by columns of arguments, or destroyed, in one call."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_tools import ONE, Numbers, launch

import cudacore_graph as cg
import cudacore_handles as ch
from pytest_cudacore import driver_version
from threads_at_once import in_threads

Run = Callable[..., None]
TWO = ch.LaunchConfig(grid=2, block=1)


@pytest.fixture
def nodes(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> cg.KernelNodes:
    """Give eight nodes that add 1, each to a number of its own."""
    return definition.launch_many(ONE, add, numbers.places(8), 1)


WRONG = {
    "length": (ValueError, "nodes is for 8 nodes, and argument 1 for 2", (0, [1, 2]), {}),
    "configurations": (ValueError, "nodes is for 8 nodes, and config for 1", (0, 1), {"config": [ONE]}),
    "config": (TypeError, "config must be a LaunchConfig", (0, 1), {"config": 3}),
    "item": (TypeError, "node 1: argument 1: ", (0, [1, "a"] * 4), {}),
}


class Graphs:
    """A definition and an executable graph of it, which is changed by update_many, or made from the changed one."""

    def __init__(self, definition: cg.GraphDefinition, in_exec: bool, stream: ch.Stream, numbers: Numbers) -> None:
        self.definition, self.stream, self.numbers = definition, stream, numbers
        self.graph = definition.instantiate() if in_exec else None

    def update_many(self, *args: Any, **more: Any) -> None:
        (self.graph or self.definition).update_many(*args, **more)

    def result(self, count: int = 8) -> list[int]:
        """Launch the graph, and return how much has been added to each number."""
        before = self.numbers.view[:count].tolist()
        launch(self.graph or self.definition.instantiate(), self.stream)
        return [self.numbers[index] - before[index] for index in range(count)]


@pytest.fixture(params=[False, True], ids=["definition", "executable"])
def graphs(request: Any, definition: cg.GraphDefinition, nodes: Any, stream: ch.Stream, numbers: Numbers) -> Graphs:
    """Give the graph of the nodes, to be changed in the definition or in an executable graph."""
    return Graphs(definition, request.param, stream, numbers)


class TestUpdate:
    def test_arguments(self, graphs: Graphs, nodes: cg.KernelNodes, numbers: Numbers) -> None:
        """A node would get the arguments of another one, or nodes that are not given would change."""
        graphs.update_many(nodes, numbers.places(8), np.arange(10, 18, dtype=np.uint32))
        assert graphs.result() == list(range(10, 18))
        graphs.update_many(nodes[6::-2], numbers.places(8)[6::-2], [5, 6, 7, 8])
        assert graphs.result() == [8, 11, 7, 13, 6, 15, 5, 17]
        graphs.update_many([nodes[3], nodes[0]], [numbers.at(3), numbers.at(0)], 100)
        assert graphs.result() == [100, 11, 7, 100, 6, 15, 5, 17]
        graphs.update_many((node for node in nodes[:1]), numbers.buffer, 200)
        graphs.update_many(nodes[:0])
        assert graphs.result()[:2] == [200, 11]

    def test_the_other_graph_is_unchanged(self, nodes: cg.KernelNodes, numbers: Numbers, stream: ch.Stream) -> None:
        """An update of an executable graph would change the definition, or the other way round."""
        definition = nodes[0].graph
        graph = definition.instantiate()
        graph.update_many(nodes, numbers.places(8), 5)
        definition.update_many(nodes, numbers.places(8), 7)
        launch(graph, stream)
        assert numbers[0] == 5
        launch(definition.instantiate(), stream)
        assert numbers[0] == 12

    def test_configurations(self, graphs: Graphs, nodes: cg.KernelNodes, numbers: Numbers) -> None:
        """Configurations would be ignored, given to the wrong nodes, or lost when only arguments are given."""
        graphs.update_many(nodes, numbers.places(8), 1, config=[ONE, TWO] * 4)
        if graphs.graph is None:
            graphs.update_many(nodes, numbers.places(8), 3)
            assert [node.config.grid[0] for node in nodes] == [1, 2] * 4
            graphs.update_many(nodes[2:], numbers.places(8)[2:], 3, config=TWO)
            assert [node.config.grid[0] for node in nodes] == [1, 2] + [2] * 6
        else:
            assert {node.config.grid[0] for node in nodes} == {1}

    def test_attributes(self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> None:
        """New arguments would take away clusters and priorities."""
        config = ch.LaunchConfig(grid=2, cluster=2, block=1, priority=-1)
        nodes = definition.launch_many(config, add, numbers.places(4), 1)
        graph = definition.instantiate()
        graph.update_many(nodes, numbers.places(4), 2)
        definition.update_many(nodes, numbers.places(4), 2)
        assert {(node.config.cluster, node.config.priority) for node in nodes} == {((2, 1, 1), -1)}
        with pytest.raises(ValueError, match=r"attributes of a kernel .*\(node 0 of the batch\)"):
            graph.update_many(nodes, numbers.places(4), 2, config=TWO)
        definition.update_many(nodes, numbers.places(4), 2, config=TWO)
        assert nodes[3].config.cluster in (None, (1, 1, 1))

    def test_nodes_added_one_by_one(self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> None:
        """Nodes that launch() or a capture added would be refused."""
        nodes = [definition.launch(ONE, add, numbers.at(index), 1) for index in range(3)]
        definition.update_many(nodes, numbers.places(3), [4, 5, 6])
        nodes[2].update(config=TWO)  # keeps its arguments
        assert [node.grid[0] for node in nodes] == [1, 1, 2]

    def test_nodes_of_child_graphs(
        self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, stream: ch.Stream
    ) -> None:
        """Nodes of graphs within the graph could only be changed one by one."""
        child = cg.GraphDefinition()
        child.launch_many(ONE, add, numbers.places(2), 1)
        inner = definition.embed(child).child_graph.nodes() | {definition.launch(ONE, add, numbers.at(2), 1)}
        graph = definition.instantiate()
        graph.update_many(list(inner), numbers.places(6)[3:], 10)
        launch(graph, stream)
        assert numbers.view[:6].tolist() == [0, 0, 0, 10, 10, 10]
        with pytest.raises(ValueError, match=r"is not of the graph that the first node is of|of another graph"):
            definition.update_many(list(inner), numbers.at(3), 10)

    def test_what_nodes_use(self, device: ch.Device, add: ch.Kernel, stream: ch.Stream) -> None:
        """Memory of new arguments would be freed too early, or memory of old ones would be kept for ever."""
        definition = cg.GraphDefinition()
        before = ch.live_counts()["deviceptr"]

        def buffers() -> list[ch.Buffer]:
            return [device.allocate(64, stream=stream) for _ in range(3)]

        nodes = definition.launch_many(ONE, add, buffers(), 1)
        graph = definition.instantiate()
        graph.update_many(nodes, buffers(), 1)
        gc.collect()
        assert ch.live_counts()["deviceptr"] == before + 6
        launch(graph, stream)
        graph.update_many(nodes, buffers(), 1)
        graph.update_many(nodes[1:], buffers()[1:], 1)  # the first node still uses the buffers that all had
        launch(graph, stream)
        gc.collect()
        assert ch.live_counts()["deviceptr"] == before + 3 + 3 + 2
        graph.update_many(nodes, 0, 1)
        definition.update_many(nodes, buffers(), 1)
        graph.close()
        gc.collect()
        device.sync()
        assert ch.live_counts()["deviceptr"] == before + 3
        definition.destroy_many(nodes)
        assert ch.live_counts()["deviceptr"] == before

    def test_while_the_graph_runs(
        self, definition: cg.GraphDefinition, device: ch.Device, add: ch.Kernel, stream: ch.Stream
    ) -> None:
        """Memory that a launch in flight uses would be freed by an update."""
        go = threading.Event()
        wait = definition.callback(lambda: go.wait(60))
        numbers = Numbers(4)
        view = numbers.view
        nodes = definition.launch_many(ONE, add, [numbers.buffer[4 * i : 4 * i + 4] for i in range(4)], 3, after=wait)
        graph = definition.instantiate()
        graph.launch(stream)
        other = Numbers(4)
        graph.update_many(nodes, [other.buffer[4 * i : 4 * i + 4] for i in range(4)], 5)
        numbers.buffer.close()
        gc.collect()
        go.set()
        stream.sync()
        assert view.tolist() == [3] * 4
        launch(graph, stream)
        assert other.view.tolist() == [5] * 4

    @pytest.mark.parametrize("case", WRONG)
    def test_wrong_columns(self, graphs: Graphs, nodes: cg.KernelNodes, case: str) -> None:
        """Invalid columns would reach the driver, or the message would not name them."""
        error, message, columns, more = WRONG[case]
        with pytest.raises(error, match=message):
            graphs.update_many(nodes, *columns, **more)
        assert graphs.result() == [1] * 8

    def test_wrong_nodes(self, graphs: Graphs, nodes: cg.KernelNodes, times: ch.Kernel, numbers: Numbers) -> None:
        """Nodes of other graphs, kernels or types would be changed, or the message would not name the node."""
        where = r"\(node 2 of the batch\)"
        definition = graphs.definition
        other, fill = definition.launch(ONE, times, numbers.buffer, 1), definition.memset(numbers.buffer, 0, 4)
        stranger = cg.GraphDefinition().launch(ONE, nodes[0].kernel, numbers.buffer, 1)
        gone = definition.launch(ONE, nodes[0].kernel, numbers.buffer, 1)
        gone.destroy()
        cases: list[tuple[Any, type[Exception], str]] = [
            ([*nodes[:2], other], ValueError, f"launches another kernel than the first node {where}"),
            ([*nodes[:2], fill], ValueError, f"launches no kernel {where}"),
            ([*nodes[:2], stranger], ValueError, f"is not of the graph .*{where}|node 2: .*is a node of another graph"),
            ([*nodes[:2], gone], ch.ClosedError, "node 2 was destroyed|was destroyed"),
            ([*nodes[:2], 3], TypeError, "node 2: nodes must be a GraphNode, not 'int'"),
            ([fill], TypeError, "node 0: nodes must be of type KernelNode, not"),
            (stranger.graph.launch_many(ONE, nodes[0].kernel, numbers.buffer, [1] * 3), ValueError, "graph"),
            ([stranger], ValueError, r"is not of the graph .*\(node 0 of the batch\)|node 0: .*of another graph"),
            (nodes[0], TypeError, "nodes must be an iterable of GraphNode, not"),
            (3, TypeError, "nodes must be an iterable of GraphNode, not"),
        ]
        for given, error, message in cases:
            with pytest.raises(error, match=message):
                graphs.update_many(given, numbers.at(0), 9)
        nodes[5].destroy()
        with pytest.raises(ch.ClosedError, match="node 4 was destroyed"):
            graphs.update_many(nodes[1:], numbers.at(0), 9)

    def test_closed_graphs(self, definition: cg.GraphDefinition, nodes: cg.KernelNodes, numbers: Numbers) -> None:
        """A graph that was closed would reach the driver."""
        graph = definition.instantiate()
        graph.close()
        with pytest.raises(ch.ClosedError):
            graph.update_many(nodes, numbers.buffer, 1)
        definition.close()
        with pytest.raises(ch.ClosedError):
            definition.update_many(nodes, numbers.buffer, 1)

    @pytest.mark.cuda_sim
    @pytest.mark.parametrize("nth", [1, 4])
    def test_refusal_in_the_middle(
        self, graphs: Graphs, nodes: cg.KernelNodes, numbers: Numbers, cuda_sim: Any, nth: int
    ) -> None:
        """The error would not name the node that the driver refused, or not say what has been changed."""
        function = "cuGraphExecNodeSetParams" if graphs.graph else "cuGraphNodeSetParams"
        if driver_version() < (12, 2):
            function = f"cuGraph{'Exec' if graphs.graph else ''}KernelNodeSetParams"
        said = ": the nodes before it were changed" if nth > 1 else ""
        with (
            cuda_sim.failing(function, nth=nth, error=1),
            pytest.raises(ch.CUDAError, match=rf"{said}\. It is node {nth - 1} of the batch, changed by 'update_many'"),
        ):
            graphs.update_many(nodes, numbers.places(8), 9)
        assert graphs.result() == [9] * (nth - 1) + [1] * (9 - nth)
        match = r"argument\. It is node \d of the batch"  # and not that nodes were changed
        with cuda_sim.failing("cuGraphKernelNodeGetParams", nth=6, error=1), pytest.raises(ch.CUDAError, match=match):
            graphs.update_many(nodes, numbers.places(8), 11)
        assert graphs.result() == [9] * (nth - 1) + [1] * (9 - nth)

    def test_values_that_destroy_nodes(self, graphs: Graphs, nodes: cg.KernelNodes, numbers: Numbers) -> None:
        """Code that runs while arguments are converted could destroy nodes that are then given to the driver."""

        class Destroys:
            def __index__(self) -> int:
                nodes[1].destroy()
                return 9

        with pytest.raises(ch.ClosedError, match=r"\(node 1 of the batch\)"):
            graphs.update_many(nodes, numbers.places(8), [1, Destroys()] + [1] * 6)

    def test_threads(self, definition: cg.GraphDefinition, nodes: cg.KernelNodes, numbers: Numbers) -> None:
        """Threads that change and launch a graph at once would corrupt what it keeps."""
        graph = definition.instantiate()

        def work(index: int) -> None:
            ch.Device().set_current()
            stream = ch.Device().create_stream()
            for _ in range(10):
                part = nodes[2 * index : 2 * index + 2]
                graph.update_many(part, [Numbers(1).buffer, Numbers(1).buffer], 1)
                definition.update_many(part, numbers.places(2), [1, 2])
                launch(graph, stream)

        in_threads(work, range(4))
        graph.update_many(nodes, numbers.places(8), 1)

    def test_nodes_of_two_devices(
        self, definition: cg.GraphDefinition, device: ch.Device, other_device: ch.Device, add: ch.Kernel
    ) -> None:
        """A node would be moved to the device of another one."""
        nodes = [definition.launch(ONE, add, 0, 1)]
        other_device.set_current()
        nodes.append(definition.launch(ONE, add, 0, 1))
        device.set_current()
        with pytest.raises(ValueError, match=r"of another context than the first node \(node 1 of the batch\)"):
            definition.update_many(nodes, 0, 1)

    def test_another_device_is_current(
        self,
        definition: cg.GraphDefinition,
        nodes: cg.KernelNodes,
        numbers: Numbers,
        device: ch.Device,
        other_device: ch.Device,
        stream: ch.Stream,
    ) -> None:
        """The nodes would be moved to the current device, or memory of their own device would be refused."""
        graph = definition.instantiate()
        memory = device.allocate(32, stream=stream)
        memory.fill(0, stream=stream)
        parts = [memory[4 * index : 4 * index + 4] for index in range(8)]
        other_device.set_current()
        graph.update_many(nodes, parts, 2, config=ONE)
        definition.update_many(nodes, parts, 2)
        assert ch.Device() == other_device
        device.set_current()
        launch(graph, stream)
        memory.copy_to(numbers.buffer[:32], stream=stream)
        stream.sync()
        assert numbers.view[:8].tolist() == [2] * 8

    @pytest.mark.cuda_sim
    def test_costs(self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, cuda_sim: Any) -> None:
        """Changing many nodes would create as many Python objects, or call the driver more than twice for a node."""
        count = 5_000
        nodes = definition.launch_many(ONE, add, np.full(count, numbers.at(0)), np.ones(count, np.uint32))
        columns = np.full(count, numbers.at(1)), np.full(count, 2, np.uint32)
        graph = definition.instantiate()
        first = nodes[0]
        graph.update_many(nodes, *columns)
        blocks, calls = sys.getallocatedblocks(), cuda_sim.calls()
        graph.update_many(nodes, *columns)
        assert sys.getallocatedblocks() - blocks < 500
        assert cuda_sim.calls() - calls < 2.1 * count
        assert first.is_valid


class TestDestroy:
    def test_nodes(self, definition: cg.GraphDefinition, nodes: cg.KernelNodes, run: Run, numbers: Numbers) -> None:
        """Nodes or their edges would remain, or other nodes would be removed."""
        first = nodes[0]
        last = definition.join(*nodes[2:])
        definition.destroy_many(nodes[1:4])
        definition.destroy_many(nodes[:5])  # some of them for the second time
        definition.destroy_many([nodes[5], nodes[5], nodes[6]])
        assert not first.is_valid
        assert definition.nodes() == {nodes[7], last}
        assert definition.edges() == {(nodes[7], last)}
        run(definition)
        assert numbers.view[:8].tolist() == [0] * 7 + [1]
        definition.destroy_many(definition.nodes())
        definition.destroy_many([first])
        definition.destroy_many([])
        assert not definition.nodes()

    @pytest.mark.parametrize("shared", [False, True])
    def test_memory(self, device: ch.Device, add: ch.Kernel, stream: ch.Stream, shared: bool) -> None:
        """Memory would stay allocated although no node uses it any more; also in child graphs and shared graphs."""
        before = ch.live_counts()["deviceptr"]

        def buffers() -> list[ch.Buffer]:
            return [device.allocate(64, stream=stream) for _ in range(3)]

        outer, inner = cg.GraphDefinition(), cg.GraphDefinition()
        inner.launch_many(ONE, add, buffers(), 1)
        child = outer.embed(inner).child_graph
        inner.close()
        if shared:
            _ = outer.handle
        in_child = child.launch_many(ONE, add, buffers(), 1)
        outer.launch_many(ONE, add, buffers(), 1)
        assert ch.live_counts()["deviceptr"] == before + 9
        child.destroy_many(in_child)
        device.sync()  # destroys what CUDA has released on its own thread
        assert ch.live_counts()["deviceptr"] == before + 6
        child.destroy_many(child.nodes())  # their memory is kept by the node that contains the child graph
        outer.destroy_many(outer.nodes())
        device.sync()
        assert not child.is_valid
        # The objects that a graph used when its handle was read are kept as long as the graph.
        assert ch.live_counts()["deviceptr"] == before + (3 if shared else 0)
        assert not outer.nodes()

    def test_while_the_graph_runs(self, definition: cg.GraphDefinition, add: ch.Kernel, stream: ch.Stream) -> None:
        """Memory that an executable graph uses would be freed together with the nodes of the definition."""
        numbers = Numbers(4)
        view = numbers.view
        nodes = definition.launch_many(ONE, add, [numbers.buffer[4 * i : 4 * i + 4] for i in range(4)], 3)
        graph = definition.instantiate()
        numbers.buffer.close()
        graph.launch(stream)
        definition.destroy_many(nodes)
        gc.collect()
        stream.sync()
        launch(graph, stream)
        assert view.tolist() == [6] * 4

    def test_wrong_nodes(self, definition: cg.GraphDefinition, nodes: cg.KernelNodes) -> None:
        """A node of another graph would be removed, or some nodes before the error is found."""
        other = cg.GraphDefinition()
        wrong: list[Any] = [3, None]
        for given, error, message in (
            ([nodes[0], other.empty()], ValueError, "node 1: .*is a node of another graph"),
            ([nodes[0], wrong[0]], TypeError, "node 1: nodes must be a GraphNode, not 'int'"),
            ([nodes[0], wrong[1]], TypeError, "node 1: nodes must be a GraphNode, not 'NoneType'"),
            (nodes[0], TypeError, "nodes must be an iterable of GraphNode, not"),
        ):
            with pytest.raises(error, match=message):
                definition.destroy_many(given)
        with pytest.raises(TypeError, match="node 1: nodes must be a GraphNode, not 'NoneType'"):
            definition.update_many([nodes[0], wrong[1]], 0, 1)
        with pytest.raises(ValueError, match=r"node 0: .*is a node of another graph"):
            other.destroy_many(nodes)
        assert len(definition.nodes()) == 8
        definition.close()
        with pytest.raises(ch.ClosedError):
            definition.destroy_many([])

    def test_graphs_that_keep_nodes(self, definition: cg.GraphDefinition, nodes: cg.KernelNodes) -> None:
        """Some nodes would be removed from a graph from which the driver removes none, or it would not be explained."""
        memory = definition.allocate(64)
        with pytest.raises(ch.CUDAError, match=r"node 0 of the batch, removed by 'destroy'.*No node can be taken out"):
            definition.destroy_many(nodes)
        assert definition.nodes() == {memory, *nodes}

    @pytest.mark.cuda_sim
    def test_refusal_in_the_middle(self, definition: cg.GraphDefinition, nodes: cg.KernelNodes, cuda_sim: Any) -> None:
        """The error would not name the node that the driver refused, or a node would be lost."""
        message = "It is node 2 of the batch, removed by 'destroy'; the nodes before it were removed"
        with cuda_sim.failing("cuGraphDestroyNode", nth=3, error=1), pytest.raises(ch.CUDAError, match=message):
            definition.destroy_many(nodes)
        assert definition.nodes() == set(nodes[2:])
        definition.destroy_many(nodes)
        assert not definition.nodes()

    def test_threads(self, definition: cg.GraphDefinition, nodes: cg.KernelNodes) -> None:
        """Threads that destroy the same nodes would destroy one of them twice."""
        in_threads(lambda _: definition.destroy_many(nodes), range(4))
        assert not definition.nodes()
