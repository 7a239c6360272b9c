# SPDX-License-Identifier: Apache-2.0
"""Builders: captured work, forks, conditional bodies."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from graph_tools import MODES, ONE, Numbers, launch

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_handles._stream.stream import is_capturing


class TestCapture:
    @pytest.mark.parametrize("mode", MODES)
    def test_launches(self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, mode: str) -> None:
        """Work that is submitted to a builder would run at once, or be missing in the graph."""
        builder = stream.create_graph_builder()
        assert not builder.is_building
        assert builder.begin_building(mode) is builder
        assert builder.is_building
        ch.launch(builder, ONE, add, numbers.buffer, 1)
        prepared = add.prepare(builder, ONE, numbers.buffer, 10)
        prepared()
        prepared(numbers.buffer, 100)
        builder.callback(lambda: numbers.__setitem__(1, numbers[0]))
        assert builder.end_building() is builder
        assert numbers[0] == 0
        graph = builder.complete()
        launch(graph, stream)
        launch(graph, stream)
        assert (numbers[0], numbers[1]) == (222, 222)
        (last,) = (node for node in builder.graph_definition.nodes() if isinstance(node, cg.HostCallbackNode))
        assert [type(node) for node in last.pred] == [cg.KernelNode]

    def test_context_manager(self, device: ch.Device, add: ch.Kernel, numbers: Numbers, stream: ch.Stream) -> None:
        """A ``with`` block would not begin and end the capture, or would leave it open after an exception."""
        with device.create_graph_builder() as builder:
            ch.launch(builder, ONE, add, numbers.buffer, 1)
        launch(builder.complete(), stream)
        assert numbers[0] == 1
        with stream.create_graph_builder().begin_building("global") as builder:
            assert builder.is_building
        with pytest.raises(KeyError), stream.create_graph_builder() as builder:
            raise KeyError
        assert builder.is_closed
        assert not is_capturing(stream)
        with pytest.raises(RuntimeError, match="1 builder that split"), stream.create_graph_builder() as builder:
            builder.split(2)
        assert builder.is_closed
        assert not is_capturing(stream)

    def test_work_of_others(self, stream: ch.Stream, numbers: Numbers) -> None:
        """Work that other libraries submit to the builder's stream handle would not be captured."""
        from cuda.bindings import driver

        with stream.create_graph_builder() as builder:
            version, handle = builder.__cuda_stream__()
            assert (version, handle) == stream.__cuda_stream__()
            (error,) = driver.cuMemsetD32Async(numbers.at(0), 7, 4, driver.CUstream(handle))
            assert error == 0
            borrowed = ch.Stream.from_handle(handle)
            numbers.buffer.fill(1, stream=borrowed)
        launch(builder.complete(), stream)
        assert numbers[0] == 0x01010101
        assert len(builder.graph_definition.nodes()) == 2

    @pytest.mark.cuda_gpu
    def test_pytorch(self, device: ch.Device) -> None:
        """Kernels of PyTorch on a builder's stream would not be captured."""
        torch = pytest.importorskip("torch", reason="needs PyTorch")
        stream = device.create_stream()
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.__cuda_stream__()[1])):
            x = torch.ones(1024, device="cuda")
            (x * 2 + 1).sum()  # makes the objects that PyTorch makes at first use
        stream.sync()
        out = torch.zeros(1024, device="cuda")
        torch.cuda.synchronize()
        with stream.create_graph_builder() as builder:
            handle = builder.__cuda_stream__()[1]
            with torch.cuda.stream(torch.cuda.ExternalStream(handle)):
                torch.add(x, x, out=out)
                torch.add(out, x, out=out)
        graph = builder.complete()
        assert float(out[0]) == 0
        launch(graph, stream)
        assert float(out[0]) == 3
        x.fill_(5)
        torch.cuda.synchronize()
        launch(graph, stream)
        assert float(out[0]) == 15
        del x, out, graph
        torch.cuda.empty_cache()  # otherwise PyTorch's own memory is reported as leaked at exit

    @pytest.mark.cuda_gpu
    def test_cupy(self, device: ch.Device) -> None:
        """Kernels of CuPy on a builder's stream would not be captured."""
        cupy = pytest.importorskip("cupy", reason="needs CuPy")
        stream = device.create_stream()
        # CuPy 14 has from_external; older versions have ExternalStream.
        external = getattr(cupy.cuda.Stream, "from_external", None)
        on = external or (lambda stream: cupy.cuda.ExternalStream(stream.__cuda_stream__()[1]))
        x, out = cupy.ones(1024, "f4"), cupy.zeros(1024, "f4")
        with on(stream):
            cupy.add(x, x, out=out)  # CuPy compiles the kernel here, at its first use
            out.fill(0)
        stream.sync()
        with stream.create_graph_builder() as builder, on(builder):
            cupy.add(x, x, out=out)
            cupy.add(out, x, out=out)
        graph = builder.complete()
        launch(graph, stream)
        assert float(out[0]) == 3
        del x, out, graph
        cupy.get_default_memory_pool().free_all_blocks()  # otherwise CuPy's memory is reported as leaked at exit

    @pytest.mark.cuda_leaks_ok("the graph is given up, not destroyed: the driver would crash")
    def test_body_that_is_given_up(self, device: ch.Device) -> None:
        """The driver would crash if a builder is closed after its capture into the body has failed."""
        with device.create_graph_builder() as builder:
            body = builder.if_then(builder.create_condition(1))
        definition, stream = builder.graph_definition, body.begin_building().stream
        with pytest.raises(ch.CUDAError):
            stream.sync()  # not allowed in a capture
        body.close()
        assert not definition.is_valid
        with pytest.raises(ch.ClosedError, match="a capture that failed"):
            definition.instantiate()
        del body
        stream.sync()  # the stream is not being captured

    def test_embed(self, stream: ch.Stream, device: ch.Device, add: ch.Kernel, numbers: Numbers) -> None:
        """A built graph could not become a node of another graph, or the child would not keep what its nodes use."""
        with device.create_graph_builder() as child:
            ch.launch(child, ONE, add, numbers.buffer, 1)
        with stream.create_graph_builder() as builder:
            ch.launch(builder, ONE, add, numbers.buffer, 10)
            builder.embed(child)
            builder.embed(child)
        child.close()
        launch(builder.complete(), stream)
        assert numbers[0] == 12


class TestForks:
    def test_split_and_join(self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
        """Branches would wait for each other, or the joined builder would not wait for them."""
        with stream.create_graph_builder() as builder:
            ch.launch(builder, ONE, add, numbers.buffer, 1)
            first, second, third = builder.split(3)
            assert first is builder
            assert (first.is_join_required, second.is_join_required) == (False, True)
            for index, branch in enumerate((first, second, third)):
                ch.launch(branch, ONE, add, numbers.at(index + 1), 1)
            assert cg.GraphBuilder.join(second, third, first) is builder
            assert second.is_closed
            assert third.is_closed
            ch.launch(builder, ONE, add, numbers.at(4), 1)
        definition = builder.graph_definition
        assert len(definition.nodes()) == 5
        assert len(definition.edges()) == 6
        launch(builder.complete(), stream)
        assert [numbers[i] for i in range(5)] == [1] * 5

    def test_not_joined(self, stream: ch.Stream) -> None:
        """Ending with open forks would lose the graph, or leave a stream in capture."""
        builder = stream.create_graph_builder().begin_building()
        _, fork = builder.split(2)
        with pytest.raises(RuntimeError, match=r"cannot end building: 1 builder that split\(\) made is not joined"):
            builder.end_building()
        assert builder.is_building
        cg.GraphBuilder.join(builder, fork)
        builder.end_building()

    @pytest.mark.parametrize("drop", ["close", "collect"])
    def test_fork_that_is_closed(self, stream: ch.Stream, drop: str) -> None:
        """The error would advise to join a stream that can no longer be joined."""
        builder = stream.create_graph_builder().begin_building()
        _, fork, open_fork = builder.split(3)
        if drop == "close":
            fork.close()
        else:
            del fork
            gc.collect()
        with pytest.raises(
            RuntimeError, match=r"2 builders that split.* not joined, and 1 of them was closed or dropped"
        ):
            builder.end_building()
        builder.join(builder, open_fork)
        with pytest.raises(RuntimeError, match=r"it was closed or dropped, and cannot be joined any more; close\(\)"):
            builder.end_building()
        builder.close()
        stream.sync()

    @pytest.mark.parametrize("way", ["raises", "closed", "dropped"])
    def test_body_that_is_closed_with_a_fork(
        self, device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, way: str
    ) -> None:
        """The capture of the body would fail, and the driver would destroy the graph around the body."""
        with stream.create_graph_builder() as builder:
            condition = builder.create_condition(1)
            body = builder.if_then(condition)
            if way == "raises":
                with pytest.raises(ZeroDivisionError), body:  # noqa: PT012
                    _, fork = body.split(2)
                    ch.launch(fork, ONE, add, numbers.buffer, 1)
                    _ = 1 // 0
            else:
                body.begin_building()
                _, fork = body.split(2)
                ch.launch(fork, ONE, add, numbers.buffer, 1)
                if way == "closed":
                    body.close()
                else:
                    del _, body
                    gc.collect()
            assert fork.is_closed
            assert builder.is_building
            ch.launch(builder, ONE, add, numbers.buffer, 10)
        launch(builder.complete(), stream)
        assert numbers[0] == 11

    @pytest.mark.cuda_leaks_ok("the graph is given up, not destroyed: the driver would crash")
    @pytest.mark.parametrize("way", ["end", "close"])
    def test_builder_whose_body_has_failed(self, device: ch.Device, way: str) -> None:
        """After the capture of a body failed, the outer builder would continue with a graph that no longer exists."""
        stream = device.create_stream()
        builder = stream.create_graph_builder().begin_building()
        _, fork = builder.split(2)
        body = builder.if_then(builder.create_condition(1)).begin_building()
        inner = body.if_then(body.create_condition(1)).begin_building()
        with pytest.raises(ch.CUDAError):
            inner.stream.sync()  # invalidates the capture
        if way == "end":
            with pytest.raises(ch.CUDAError):
                inner.end_building()
        else:
            inner.close()
        for other in (builder, body, fork):
            assert not other.is_building
            assert "lost" in repr(other)
            for call in (lambda: other.callback(print), other.create_condition, lambda: other.split(2)):  # noqa: B023
                with pytest.raises(RuntimeError, match=r"another capture into it has failed: .*CAPTURE_INVALIDATED"):
                    call()
        with pytest.raises(ch.CUDAError, match=r"another capture into it has failed: .*CAPTURE_INVALIDATED"):
            builder.end_building()
        assert builder.is_closed
        body.close()
        stream.sync()

    @pytest.mark.parametrize("drop", ["close", "collect"])
    def test_fork_of_what_is_given_up(self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, drop: str) -> None:
        """Work for a fork would run immediately if its capture has ended, instead of being refused."""
        builder = stream.create_graph_builder().begin_building()
        _, fork, lost = builder.split(3)
        fork_stream = fork.stream
        del lost
        if drop == "close":
            builder.close()
        del _, builder
        gc.collect()
        assert not is_capturing(stream)
        assert not is_capturing(fork_stream)
        assert fork.is_closed
        for call in (lambda: fork.split(2), lambda: fork.callback(print), fork.create_condition):
            with pytest.raises(RuntimeError, match="has been closed"):
                call()
        with pytest.raises(ch.ClosedError):
            ch.launch(fork, ONE, add, numbers.buffer, 1)
        fork_stream.sync()
        assert numbers[0] == 0

    @pytest.mark.cuda_sim
    @pytest.mark.parametrize("call", ["cuStreamCreateWithPriority", "cuEventCreate", "cuStreamWaitEvent"])
    def test_split_fails(self, stream: ch.Stream, cuda_sim: Any, call: str) -> None:
        """After split() fails, forks to which no reference exists would have to be joined."""
        with stream.create_graph_builder() as builder:
            with cuda_sim.failing(call, nth=2, error=2), pytest.raises(ch.CUDAError):
                builder.split(3)
            builder.callback(print)
        assert len(builder.graph_definition.nodes()) == 1

    def test_bad_input(self, stream: ch.Stream, device: ch.Device) -> None:
        """Builders of two graphs would be joined, or an invalid number of forks would be accepted."""
        wrong: Any = "2"
        with stream.create_graph_builder() as builder, device.create_graph_builder() as other:
            _, fork = builder.split(2)
            for call, error, match in (
                (lambda: builder.split(1), ValueError, "count is 1"),
                (lambda: builder.split(wrong), TypeError, "count must be an int"),
                (lambda: builder.join(builder), ValueError, "at least two builders"),
                (lambda: builder.join(builder, builder), ValueError, "each of them once"),
                (lambda: builder.join(builder, other), ValueError, "builders of one graph"),
                (lambda: builder.join(builder, wrong), TypeError, "GraphBuilder objects, not str"),
                (lambda: builder.embed(other), RuntimeError, "is building; add work, then call end_building"),
                (lambda: builder.embed(wrong), TypeError, "child must be a GraphBuilder"),
            ):
                with pytest.raises(error, match=match):
                    call()
            builder.join(builder, fork)


class TestConditionals:
    def test_branches(self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
        """The wrong body of an if, an if-else or a switch would be captured or run."""
        with stream.create_graph_builder() as builder:
            with builder.if_then(builder.create_condition(1)) as body:
                ch.launch(body, ONE, add, numbers.buffer, 1)
            then, otherwise = builder.if_else(builder.create_condition(0))
            with then:
                ch.launch(then, ONE, add, numbers.buffer, 10)
            with otherwise:
                ch.launch(otherwise, ONE, add, numbers.buffer, 100)
            cases = builder.switch(builder.create_condition(1), 2)
            assert len(cases) == 2
            with cases[1] as case:
                ch.launch(case, ONE, add, numbers.buffer, 1000)
        launch(builder.complete(), stream)
        assert numbers[0] == 1101

    def test_body_by_the_explicit_api(self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
        """A body could be built only by capturing, and not by adding nodes."""
        with stream.create_graph_builder() as builder:
            body = builder.if_then(builder.create_condition(1))
            body.graph_definition.launch(ONE, add, numbers.buffer, 3)
        launch(builder.complete(), stream)
        assert numbers[0] == 3

    def test_nodes_are_destroyed_during_a_capture(self, device: ch.Device) -> None:
        """The driver would refuse it without a reason, or would destroy the graph of the capture with its node."""
        with device.create_graph_builder() as builder:
            body = builder.if_then(builder.create_condition(1))
        definition = body.graph_definition
        node, (outer,) = definition.empty(), builder.graph_definition.nodes()
        body.begin_building()
        body.callback(print)
        for kept in (node, outer):
            with pytest.raises(
                ch.CUDAError, match=r"ILLEGAL_STATE.*a stream is being captured into the graph of the node"
            ):
                kept.destroy()
            assert kept.is_valid
        assert body.is_building
        body.end_building()
        assert len(definition.nodes()) == 2
        node.destroy()
        assert len(definition.nodes()) == 1
        outer.destroy()
        assert not definition.is_valid

    def test_a_batch_that_fails_during_a_capture(self, device: ch.Device, definition: cg.GraphDefinition) -> None:
        """The nodes before the failure could not be taken out again: the driver refuses that during a capture."""
        with device.create_graph_builder() as builder:
            body = builder.if_then(builder.create_condition(1))
        graph = body.graph_definition
        body.begin_building()
        with pytest.raises(ValueError, match="dptr cannot be freed"):
            graph.add_many([("empty", None), ("deallocate", 0, 4096)])
        assert not graph.nodes()
        body.end_building()

    def test_on_a_fork(self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
        """A conditional node on a fork would lose the primary builder's graph."""
        with stream.create_graph_builder() as builder:
            _, fork = builder.split(2)
            body = fork.if_then(fork.create_condition(1))
            with body:
                ch.launch(body, ONE, add, numbers.buffer, 1)
            builder.join(builder, fork)
        launch(builder.complete(), stream)
        assert numbers[0] == 1


def test_debug_dot_print(stream: ch.Stream, tmp_path: Path) -> None:
    """A captured graph could not be written as the driver's description in the DOT language."""
    with stream.create_graph_builder() as builder:
        builder.callback(print)
    path = tmp_path / "graph.dot"
    builder.debug_dot_print(str(path), cg.GraphDebugPrintOptions(verbose=True))
    assert path.read_text().startswith("digraph")
    builder.graph_definition.debug_dot_print(path, {"handles": True})
