# SPDX-License-Identifier: Apache-2.0
"""Executable graphs: launches, updates, views of nodes, options; and the objects that they keep."""

from __future__ import annotations

import gc
import threading
from typing import Any, cast

import pytest
from graph_tools import ONE, Numbers, launch

import cudacore_graph as cg
import cudacore_handles as ch
from bindings import call_bindings
from pytest_cudacore import driver_version


def test_launch(definition: cg.GraphDefinition, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
    """A graph could be launched only once or only on one stream, or launching a closed graph would crash."""
    definition.launch(ONE, add, numbers.buffer, 1)
    graph = definition.instantiate()
    graph.upload(stream)
    for _ in range(3):
        graph.launch(stream)
    stream.sync()
    other = ch.Device().create_stream()
    graph.launch(other)
    other.sync()
    assert numbers[0] == 4
    assert int(graph.handle) == graph._raw
    graph.close()
    graph.close()
    for call in (lambda: graph.launch(stream), lambda: graph.upload(stream), lambda: graph.handle):
        with pytest.raises(ch.ClosedError, match="Graph has been closed"):
            call()
    wrong: Any = 3
    with pytest.raises(TypeError, match="a Stream is needed"):
        definition.instantiate().launch(wrong)


def test_methods_as_they_are_documented(definition: cg.GraphDefinition, stream: ch.Stream) -> None:
    """A stream could not be given as a keyword, or an error would name a private class."""
    graph = definition.instantiate()
    graph.upload(stream=stream)
    graph.launch(stream=stream)
    wrong: Any = graph
    for call, match in (
        (lambda: wrong.launch(), r"Graph\.launch\(\) needs a stream"),
        (lambda: wrong.upload(), r"Graph\.upload\(\) needs a stream"),
        (lambda: wrong.launch(stream, stream), r"Graph\.launch\(\) takes at most 1 positional argument, but 2 were"),
        (lambda: wrong.launch(on=stream), r"Graph\.launch\(\) has no argument 'on'"),
        (lambda: wrong.launch(3), "Stream or GraphBuilder expected"),
        (lambda: cast("Any", definition).launch(stream), r"instantiate\(\) makes the executable graph"),
        (lambda: cast("Any", definition.empty()).launch(), r"instantiate\(\) makes the executable graph"),
    ):
        with pytest.raises(TypeError, match=match):
            call()


def test_closed_while_it_runs(definition: cg.GraphDefinition, stream: ch.Stream, add: ch.Kernel) -> None:
    """A launch in progress would lose what it uses when the graph is closed."""
    numbers = Numbers(1)
    view = numbers.view
    release = threading.Event()
    definition.callback(release.wait).launch(ONE, add, numbers.buffer, 1)
    graph = definition.instantiate()
    graph.launch(stream)
    graph.close()
    definition.close()
    numbers.buffer.close()
    gc.collect()
    release.set()
    stream.sync()
    assert view[0] == 1


class TestUpdate:
    def test_from_a_builder(self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
        """A graph could not be updated from a new capture."""

        def capture(amount: int) -> cg.GraphBuilder:
            with stream.create_graph_builder() as builder:
                ch.launch(builder, ONE, add, numbers.buffer, amount)
            return builder

        graph = capture(1).complete()
        graph.update(capture(5))
        launch(graph, stream)
        assert numbers[0] == 5
        builder = stream.create_graph_builder()
        with pytest.raises(RuntimeError, match="cannot update a graph from it: this primary GraphBuilder is not"):
            graph.update(builder)
        wrong: Any = 3
        with pytest.raises(TypeError, match="source must be a GraphDefinition or a GraphBuilder, not int"):
            graph.update(wrong)

    def test_another_shape(
        self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, stream: ch.Stream
    ) -> None:
        """The error of a failed update would lack the reason, the node or what to do; or the update would damage the
        graph."""
        definition.launch(ONE, add, numbers.buffer, 1)
        graph = definition.instantiate()
        other = cg.GraphDefinition()
        other.memset(numbers.buffer, 0, 4)
        with pytest.raises(ch.CUDAError) as caught:
            graph.update(other)
        text = str(caught.value)
        assert "A node has another type" in text or "The topology changed" in text
        assert "Make a new executable graph of it instead: source.instantiate()" in text
        if "another type" in text:
            assert "memset 4 B" in text
            assert "where the graph was made from <KernelNode" in text
        longer = cg.GraphDefinition()
        longer.launch(ONE, add, numbers.buffer, 1).join()
        with pytest.raises(ch.CUDAError, match=r"The topology changed.*Make a new executable graph"):
            graph.update(longer)
        with stream.create_graph_builder() as builder:
            builder.callback(print)
        with pytest.raises(ch.CUDAError, match=r"Make a new executable graph of it instead: source.complete\(\)"):
            graph.update(builder)
        launch(graph, stream)
        assert numbers[0] == 1


@pytest.fixture
def add_one(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> cg.KernelNode:
    """Give a node that adds 1 to the first number."""
    return definition.launch(ONE, add, numbers.buffer, 1)


class TestViews:
    def test_kernel(self, add_one: cg.KernelNode, times: ch.Kernel, numbers: Numbers, stream: ch.Stream) -> None:
        """An update of one node would change other nodes or the definition, or not keep what the updated node uses."""
        add = add_one.kernel
        add_one.graph.launch(ONE, add, numbers.at(1), 1)
        graph = add_one.graph.instantiate()
        view: Any = graph[add_one]
        assert isinstance(view, cg.ExecutableKernelNode)
        assert repr(view).startswith("<ExecutableKernelNode of <KernelNode")
        other = Numbers(1)
        memory = other.view
        memory[0] = 3
        view.update(config=ONE, kernel=times, args=(other.buffer, 5))
        other.buffer.close()
        del other
        gc.collect()
        launch(graph, stream)
        assert (numbers[0], numbers[1], memory[0]) == (0, 1, 15)
        assert add_one.kernel == add

    def test_kernel_arguments_alone(
        self, definition: cg.GraphDefinition, add: ch.Kernel, times: ch.Kernel, numbers: Numbers, stream: ch.Stream
    ) -> None:
        """The kernel or the configuration would have to be given again, or those of another node would be used."""
        cooperative = ch.LaunchConfig(grid=1, block=1, is_cooperative=True)  # the driver refuses another one in updates
        first = definition.launch(cooperative, add, numbers.buffer, 1)
        second = first.launch(ONE, times, numbers.buffer, 1)
        graph = definition.instantiate()
        graph[first].update(args=(numbers.buffer, 5))
        graph[second].update(args=(numbers.buffer, 3))
        launch(graph, stream)
        assert numbers[0] == 15
        graph[second].update(kernel=add, args=(numbers.buffer, 3))
        launch(graph, stream)
        assert numbers[0] == 23
        assert second.kernel == times

    def test_kernel_arguments(self, add_one: cg.KernelNode, numbers: Numbers, stream: ch.Stream) -> None:
        """An update would not take arguments as launch() does or in a list, or would choose between two sets."""
        add_one.update(numbers.buffer, 2)
        assert add_one.args == (numbers.buffer.handle, 2)
        graph = add_one.graph.instantiate()
        view: Any = graph[add_one]
        view.update(numbers.buffer, 5)
        launch(graph, stream)
        assert numbers[0] == 5
        with pytest.raises(TypeError, match=r"arguments are missing: write update\(a, b\)"):
            view.update()
        for each in (add_one, view):
            with pytest.raises(TypeError, match=r"write \*arguments to pass the items of a tuple"):
                each.update((numbers.buffer, 3))
            with pytest.raises(TypeError, match="arguments are given twice"):
                each.update(numbers.buffer, 3, args=(numbers.buffer, 3))
        for amount, iterable in enumerate((list, iter, type("Pair", (tuple,), {}))):
            view.update(args=iterable((numbers.buffer, amount)))
            for wrong in (), (numbers.buffer,), (numbers.buffer, 1, 2):
                with pytest.raises(TypeError, match=f"takes 2 arguments .* but {len(wrong)} w"):
                    view.update(args=iterable(wrong))
            launch(graph, stream)
        assert numbers[0] == 5 + 0 + 1 + 2

    def test_kernel_with_attributes(self, add_one: cg.KernelNode, numbers: Numbers, stream: ch.Stream) -> None:
        """After a change, cached older parameters would be used, or unchangeable parameters would be accepted."""
        cluster = ch.LaunchConfig(grid=1, block=1, cluster=1, is_cooperative=True)
        graph = add_one.graph.instantiate()
        view: Any = graph[add_one]
        for value in (1, 10):
            view.update(config=ONE, args=(numbers.buffer, value))
        with pytest.raises(ValueError, match="cannot be changed in an executable graph"):
            view.update(config=cluster, args=(numbers.buffer, 1))
        add_one.update(config=cluster)  # changes only the definition, and not the executable graph
        view.update(config=ONE, args=(numbers.buffer, 100))
        launch(graph, stream)
        assert numbers[0] == 100
        view = add_one.graph.instantiate()[add_one]
        with pytest.raises(ValueError, match="cannot be changed in an executable graph"):
            view.update(config=ONE, args=(numbers.buffer, 1))

    def test_kernel_again(self, add_one: cg.KernelNode, add: ch.Kernel, numbers: Numbers, cuda_sim: Any) -> None:
        """An update like the previous one would query the driver again."""
        set_function = (
            "cuGraphExecNodeSetParams" if driver_version() >= (12, 2) else "cuGraphExecKernelNodeSetParams_v2"
        )
        view: Any = add_one.graph.instantiate()[add_one]
        view.update(config=ONE, kernel=add, args=(numbers.buffer, 2))
        with cuda_sim.logging() as made:
            view.update(config=ONE, kernel=add, args=(numbers.buffer, 3))
        assert [call.name for call in made if "Graph" in call.name] == [set_function]

    def test_other_types(
        self, definition: cg.GraphDefinition, device: ch.Device, add: ch.Kernel, numbers: Numbers, stream: ch.Stream
    ) -> None:
        """A type of node could not be updated in an executable graph."""
        called: list[str] = []
        child, other_child = cg.GraphDefinition(), cg.GraphDefinition()
        child.launch(ONE, add, numbers.at(8), 1)
        other_child.launch(ONE, add, numbers.at(8), 5)
        first, second = device.create_event(), device.create_event()
        fill = definition.memset(numbers.buffer, 1, 4)
        copy = fill.memcpy(numbers.at(1), numbers.at(0), 4)
        call = copy.callback(lambda: called.append("old"))
        inner = call.embed(child)
        record = inner.record(first)
        wait = record.wait(first)
        empty = wait.join()
        graph = definition.instantiate()
        views: list[Any] = [graph[node] for node in (fill, copy, call, inner, record, wait, empty)]
        assert [type(view).__name__ for view in views] == [
            "ExecutableMemsetNode", "ExecutableMemcpyNode", "ExecutableHostCallbackNode", "ExecutableChildGraphNode",
            "ExecutableEventRecordNode", "ExecutableEventWaitNode", "ExecutableGraphNode",
        ]  # fmt: skip
        views[0].update(dst=numbers.buffer, value=2, width=4)
        views[1].update(dst=numbers.at(2), src=numbers.at(0), size=4)
        views[2].update(lambda: called.append("new"))
        views[3].update(other_child)
        views[4].update(second)
        views[5].update(second)
        gc.collect()
        launch(graph, stream)
        assert (numbers[0], numbers[1], numbers[2], numbers[8]) == (0x02020202, 0, 0x02020202, 5)
        assert called == ["new"]
        assert second.is_done

    def test_child_by_itself(
        self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, stream: ch.Stream
    ) -> None:
        """An earlier executable graph could not be updated with a child graph that was changed in place."""
        child = cg.GraphDefinition()
        child.launch(ONE, add, numbers.buffer, 1)
        node = definition.embed(child)
        graph = definition.instantiate()
        view: Any = graph[node]
        (inner,) = node.child_graph.nodes()
        inner.update(args=(numbers.buffer, 10))  # type: ignore[attr-defined]
        view.update(node.child_graph)
        launch(graph, stream)
        assert numbers[0] == 10

    def test_bad_input(self, definition: cg.GraphDefinition, stream: ch.Stream, numbers: Numbers) -> None:
        """A node that the executable graph lacks would be accepted, or the error would not say why it is refused."""
        node = definition.empty()
        graph = definition.instantiate()
        stranger = cg.GraphDefinition().empty()
        wrong: Any = 0
        with pytest.raises(ValueError, match="is not of the graph that"):
            graph[stranger]
        with pytest.raises(TypeError, match="node must be a GraphNode"):
            graph[wrong]
        gone = definition.empty()
        gone.destroy()
        with pytest.raises(ch.ClosedError, match="was destroyed"):
            graph[gone]
        closed = definition.instantiate()
        filled: Any = closed[definition.memset(numbers.buffer, 0, 4)]
        closed.close()
        for call in (lambda: closed[node], filled.disable, lambda: filled.is_enabled):
            with pytest.raises(ch.ClosedError, match=r"Graph is closed|has been closed"):
                call()
        late: Any = graph[definition.callback(print)]
        with pytest.raises(ch.CUDAError, match="in the graph when the executable graph was instantiated"):
            late.update(print)
        late = graph[definition.memset(numbers.buffer, 0, 4)]
        for call in (late.disable, lambda: late.is_enabled):
            with pytest.raises(ch.CUDAError, match="in the graph when the executable graph was instantiated"):
                call()
        child = definition.embed(cg.GraphDefinition())
        graph = definition.instantiate()
        view: Any = graph[child]
        with pytest.raises(ch.CUDAError, match="must have the nodes and edges of the present child graph"):
            view.update(definition)
        node.destroy()
        with pytest.raises(ch.ClosedError, match="was destroyed"):
            graph[node]


class TestOptions:
    def test_upload_and_flags(self, definition: cg.GraphDefinition, stream: ch.Stream) -> None:
        """Options of instantiate() would not reach the driver."""
        from cuda.bindings import driver

        definition.empty()
        for options, flags in (
            (None, 0),
            (cg.GraphCompleteOptions(auto_free_on_launch=True), 1),
            (cg.GraphCompleteOptions(use_node_priority=True, upload_stream=stream), 0),
            ({"use_node_priority": True, "auto_free_on_launch": True}, 1),
        ):
            graph = definition.instantiate(options)
            status, found = driver.cuGraphExecGetFlags(graph.handle)
            assert status == 0
            assert int(found) & ~8 == flags  # a driver (13.0, H200) does not report priorities

    def test_auto_free(self, definition: cg.GraphDefinition, stream: ch.Stream) -> None:
        """Memory that a graph does not free would keep it from being launched again."""
        memory = definition.allocate(64).dptr
        graph = definition.instantiate(cg.GraphCompleteOptions(auto_free_on_launch=True))
        graph.launch(stream)
        graph.launch(stream)
        stream.sync()
        call_bindings("cuMemFree", memory)  # memory that the last launch has left allocated

    def test_launched_again_with_memory(self, definition: cg.GraphDefinition, stream: ch.Stream) -> None:
        """The error would not say how to relaunch a graph whose memory has not been freed."""
        memory = definition.allocate(64).dptr
        graph = definition.instantiate()
        graph.launch(stream)
        with pytest.raises(ch.CUDAError, match="auto_free_on_launch=True"):
            graph.launch(stream)
        stream.sync()
        call_bindings("cuMemFree", memory)
        graph.launch(stream)
        stream.sync()
        call_bindings("cuMemFree", memory)

    def test_bad_input(self, definition: cg.GraphDefinition) -> None:
        """Meaningless options would be accepted."""
        wrong: Any = "yes"
        with pytest.raises(ValueError, match="auto_free_on_launch and device_launch cannot be both set"):
            definition.instantiate(cg.GraphCompleteOptions(auto_free_on_launch=True, device_launch=True))
        with pytest.raises(TypeError, match=r"GraphCompleteOptions\.device_launch must be True or False"):
            cg.GraphCompleteOptions(device_launch=wrong)
        with pytest.raises(TypeError, match="must be provided as an object of type GraphCompleteOptions"):
            definition.instantiate(wrong)
        with pytest.raises(TypeError, match="unexpected keyword argument 'uplaod_stream'"):
            definition.instantiate({"uplaod_stream": None})
        with pytest.raises(TypeError, match="Stream or GraphBuilder expected"):
            definition.instantiate({"upload_stream": wrong})
        with pytest.raises(TypeError, match=r"GraphDebugPrintOptions\.handles must be True or False"):
            cg.GraphDebugPrintOptions(handles=wrong)

    def test_failed_instantiation_names_the_node(self, definition: cg.GraphDefinition) -> None:
        """An error of instantiation would not name the responsible node."""
        definition.empty()
        definition.callback(print)
        with pytest.raises(ch.CUDAError) as caught:
            definition.instantiate(cg.GraphCompleteOptions(device_launch=True))
        assert "cuGraphInstantiateWithParams" in str(caught.value)
