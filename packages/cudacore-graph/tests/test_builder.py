# SPDX-License-Identifier: Apache-2.0
"""Builders: captured work, states, forks, conditional bodies; and that no stream is left in capture."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import graph_tools
import pytest
from graph_tools import ONE, Numbers

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_handles._base.errors import call_driver
from cudacore_handles._memory.buffer import is_capturing

MODES = ("relaxed", "thread_local", "global")


def on_another_thread(function: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(function).result()


def run(graph: cg.Graph, stream: ch.Stream) -> None:
    graph.launch(stream)
    stream.sync()


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
        run(graph, stream)
        run(graph, stream)
        assert (numbers[0], numbers[1]) == (222, 222)
        (last,) = (node for node in builder.graph_definition.nodes() if isinstance(node, cg.HostCallbackNode))
        assert [type(node) for node in last.pred] == [cg.KernelNode]

    def test_context_manager(self, device: ch.Device, add: ch.Kernel, numbers: Numbers, stream: ch.Stream) -> None:
        """A ``with`` block would not begin and end the capture, or would leave it open after an exception."""
        with device.create_graph_builder() as builder:
            ch.launch(builder, ONE, add, numbers.buffer, 1)
        run(builder.complete(), stream)
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

    def test_copies_and_fills(self, stream: ch.Stream, numbers: Numbers) -> None:
        """A copy or a fill would run at once."""
        other = Numbers(16)
        with stream.create_graph_builder() as builder:
            numbers.buffer.fill(b"\x05\x00\x00\x00", stream=builder)
            other.buffer.copy_from(numbers.buffer, stream=builder)
        kinds = {type(node) for node in builder.graph_definition.nodes()}
        assert kinds == {cg.MemsetNode, cg.MemcpyNode}
        assert numbers[0] == 0
        run(builder.complete(), stream)
        assert other[15] == 5

    def test_keeps_what_it_uses(self, stream: ch.Stream, code: ch.ObjectCode) -> None:
        """Kernels, buffers and arrays would be freed while a captured graph uses them (cuda.core frees them)."""
        numbers, copy = Numbers(4), Numbers(4)
        view, copied = numbers.view, copy.view
        kernel = code.get_kernel("add")

        class Array:
            def __init__(self) -> None:
                self.numbers = numbers
                self.__cuda_array_interface__ = {
                    "shape": (1,), "typestr": "<u4", "data": (numbers.at(1), False), "version": 3,
                }  # fmt: skip

        array = Array()
        reference = weakref.ref(array)
        raw = kernel._raw
        with stream.create_graph_builder() as builder:
            ch.launch(builder, ONE, kernel, numbers.buffer, 1)
            ch.launch(builder, ONE, kernel, array, 2)
            prepared = kernel.prepare(builder, ONE, numbers.at(0), 0)
            prepared(numbers.buffer, 4)
            copy.buffer.copy_from(numbers.buffer, stream=builder)
        del prepared
        numbers.buffer.close()
        copy.buffer.close()
        del array, kernel, copy
        gc.collect()
        assert reference() is not None
        graph = builder.complete()
        builder.close()
        gc.collect()
        run(graph, stream)
        assert (view[0], view[1], copied[0]) == (5, 2, 5)
        assert reference() is not None
        assert raw

    def test_work_of_others(self, stream: ch.Stream, numbers: Numbers) -> None:
        """Work that other libraries submit by the handle would not be captured."""
        from cuda.bindings import driver

        with stream.create_graph_builder() as builder:
            version, handle = builder.__cuda_stream__()
            assert (version, handle) == stream.__cuda_stream__()
            (error,) = driver.cuMemsetD32Async(numbers.at(0), 7, 4, driver.CUstream(handle))
            assert error == 0
            borrowed = ch.Stream.from_handle(handle)
            numbers.buffer.fill(1, stream=borrowed)
        run(builder.complete(), stream)
        assert numbers[0] == 0x01010101
        assert len(builder.graph_definition.nodes()) == 2

    @pytest.mark.cuda_gpu
    def test_pytorch(self, device: ch.Device) -> None:
        """Kernels of PyTorch on a builder's stream would not be captured."""
        torch = pytest.importorskip("torch", reason="needs PyTorch")
        stream = device.create_stream()
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.__cuda_stream__()[1])):
            x = torch.ones(1024, device="cuda")
            (x * 2 + 1).sum()  # objects that are made at first use
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
        run(graph, stream)
        assert float(out[0]) == 3
        x.fill_(5)
        torch.cuda.synchronize()
        run(graph, stream)
        assert float(out[0]) == 15
        del x, out, graph
        torch.cuda.empty_cache()  # otherwise PyTorch's own memory is reported as leaked at exit

    @pytest.mark.cuda_gpu
    def test_cupy(self, device: ch.Device) -> None:
        """Kernels of CuPy on a builder's stream would not be captured."""
        cupy = pytest.importorskip("cupy", reason="needs CuPy")
        stream = device.create_stream()
        # CuPy 14 has another name for it.
        external = getattr(cupy.cuda.Stream, "from_external", None)
        on = external or (lambda stream: cupy.cuda.ExternalStream(stream.__cuda_stream__()[1]))
        x, out = cupy.ones(1024, "f4"), cupy.zeros(1024, "f4")
        with on(stream):
            cupy.add(x, x, out=out)  # compiled at first use
            out.fill(0)
        stream.sync()
        with stream.create_graph_builder() as builder, on(builder):
            cupy.add(x, x, out=out)
            cupy.add(out, x, out=out)
        graph = builder.complete()
        run(graph, stream)
        assert float(out[0]) == 3
        del x, out, graph
        cupy.get_default_memory_pool().free_all_blocks()  # otherwise CuPy's memory is reported as leaked at exit

    @pytest.mark.cuda_leaks_ok("the graph is given up, not destroyed: the driver would crash")
    def test_body_that_fails(self, device: ch.Device) -> None:
        """The driver would crash: a failing capture destroys the body that it goes into, but not the node around it."""
        stream = device.create_stream()
        builder = stream.create_graph_builder().begin_building()
        condition = builder.create_condition(default_value=1)
        body = builder.if_then(condition)
        body.begin_building()
        body.callback(lambda: None)
        with pytest.raises(ch.CUDAError):
            body.stream.sync()  # not allowed in a capture
        with pytest.raises(ch.CUDAError):
            body.end_building()
        assert body.is_closed
        with pytest.raises((ch.CUDAError, ch.ClosedError)):
            builder.end_building()
        assert builder.is_closed
        del builder, body, condition
        stream.sync()  # the stream is not being captured
        stream.create_graph_builder().begin_building().end_building().complete().launch(stream)
        stream.sync()

    @pytest.mark.cuda_leaks_ok("the graph is given up, not destroyed: the driver would crash")
    def test_body_that_is_given_up(self, device: ch.Device, definition: cg.GraphDefinition) -> None:
        """The driver would crash if a builder is closed after its capture into the body has failed."""
        condition = definition.create_condition(default_value=1)
        node = definition.if_then(condition)
        stream = device.create_stream()
        graph = cg.GraphBuilder._init(stream, cg._builder._Kind.CONDITIONAL_BODY, cg._builder._Capture(node.then))
        graph.begin_building()
        with pytest.raises(ch.CUDAError):
            graph.stream.sync()
        graph.close()
        assert not definition.is_valid
        with pytest.raises(ch.ClosedError, match="a capture that failed"):
            definition.instantiate()
        del graph
        stream.sync()

    def test_embed(self, stream: ch.Stream, device: ch.Device, add: ch.Kernel, numbers: Numbers) -> None:
        """A built graph would not become a node of another graph, or the child would not keep what it uses."""
        with device.create_graph_builder() as child:
            ch.launch(child, ONE, add, numbers.buffer, 1)
        with stream.create_graph_builder() as builder:
            ch.launch(builder, ONE, add, numbers.buffer, 10)
            builder.embed(child)
            builder.embed(child)
        child.close()
        run(builder.complete(), stream)
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
        run(builder.complete(), stream)
        assert [numbers[i] for i in range(5)] == [1] * 5

    def test_fork_of_a_fork(self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
        """A fork could not be split, or joining two forks would end the capture."""
        with stream.create_graph_builder() as builder:
            _, fork = builder.split(2)
            same, other = fork.split(2)
            assert same is fork
            ch.launch(other, ONE, add, numbers.buffer, 1)
            rest = cg.GraphBuilder.join(fork, other)
            assert rest is fork
            cg.GraphBuilder.join(builder, rest)
        run(builder.complete(), stream)
        assert numbers[0] == 1

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
        run(builder.complete(), stream)
        assert numbers[0] == 11

    @pytest.mark.cuda_leaks_ok("the graph is given up, not destroyed: the driver would crash")
    @pytest.mark.parametrize("way", ["end", "close"])
    def test_builder_whose_body_has_failed(self, device: ch.Device, way: str) -> None:
        """The builder of the surrounding graph would continue with a graph that no longer exists."""
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
        """Work for a fork of a capture that has ended would run."""
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
        """Forks that are no longer referenced would have to be joined."""
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
    def test_while_body(self, stream: ch.Stream, conditional: ch.ObjectCode, add: ch.Kernel, numbers: Numbers) -> None:
        """The body of a loop could not be captured."""
        numbers[1] = 4
        with stream.create_graph_builder() as builder:
            condition = builder.create_condition(1)
            with builder.while_loop(condition) as body:
                ch.launch(body, ONE, add, numbers.buffer, 1)
                ch.launch(body, ONE, conditional.get_kernel("count_down"), condition, numbers.at(1))
            ch.launch(builder, ONE, add, numbers.buffer, 100)
        run(builder.complete(), stream)
        assert numbers[0] == 104

    def test_branches(self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
        """Bodies would be mixed up."""
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
        run(builder.complete(), stream)
        assert numbers[0] == 1101

    def test_body_by_the_explicit_api(self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
        """A body could be built only by capturing, and not by adding nodes."""
        with stream.create_graph_builder() as builder:
            body = builder.if_then(builder.create_condition(1))
            body.graph_definition.launch(ONE, add, numbers.buffer, 3)
        run(builder.complete(), stream)
        assert numbers[0] == 3

    def test_on_a_fork(self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
        """A conditional node on a fork would lose the primary builder's graph."""
        with stream.create_graph_builder() as builder:
            _, fork = builder.split(2)
            body = fork.if_then(fork.create_condition(1))
            with body:
                ch.launch(body, ONE, add, numbers.buffer, 1)
            builder.join(builder, fork)
        run(builder.complete(), stream)
        assert numbers[0] == 1

    def test_body_keeps_what_it_uses(self, stream: ch.Stream, add: ch.Kernel) -> None:
        """Memory that is used in a body would be freed while the graph uses it."""
        numbers = Numbers(1)
        view = numbers.view
        with stream.create_graph_builder() as builder, builder.if_then(builder.create_condition(1)) as body:
            ch.launch(body, ONE, add, numbers.buffer, 2)
        numbers.buffer.close()
        body.close()
        gc.collect()
        graph = builder.complete()
        builder.close()
        run(graph, stream)
        assert view[0] == 2

    def test_condition_of_another_graph(self, stream: ch.Stream) -> None:
        """A condition could be used in another graph than its own, or by two nodes."""
        other = cg.GraphDefinition().create_condition()
        with stream.create_graph_builder() as builder:
            with pytest.raises(ValueError, match="is of another graph"):
                builder.if_then(other)
            condition = builder.create_condition()
            builder.if_then(condition)
            with pytest.raises(ValueError, match="is that of a conditional node already"):
                builder.while_loop(condition)


class TestStates:
    def test_illegal(self, stream: ch.Stream) -> None:
        """A call that is invalid in a state would reach the driver, or the error would not list the allowed calls."""
        builder = stream.create_graph_builder()
        calls: dict[str, Callable[[cg.GraphBuilder], Any]] = {
            "begin building": lambda b: b.begin_building(),
            "end building": lambda b: b.end_building(),
            "complete the graph": lambda b: b.complete(),
            "describe the graph": lambda b: b.debug_dot_print("/dev/null"),
            "give the graph's definition": lambda b: b.graph_definition,
            "split": lambda b: b.split(2),
            "add a callback": lambda b: b.callback(print),
            "create a condition": lambda b: b.create_condition(),
        }
        finished = {"complete the graph", "describe the graph", "give the graph's definition"}
        capturing = {"end building", "split", "add a callback", "create a condition"}

        def refuse(which: set[str], match: str) -> None:
            for what in which:
                with pytest.raises(RuntimeError, match=f"cannot {what}: this .*{match}"):
                    calls[what](builder)

        refuse(finished | capturing, "GraphBuilder is not building yet; call begin_building")
        builder.begin_building()
        primary = builder
        refuse({"begin building"} | finished, "primary GraphBuilder is building; add work, then call end_building")
        _, builder = primary.split(2)
        refuse({"begin building", "end building"} | finished, "forked GraphBuilder is building; add work, then join")
        primary.join(primary, builder)
        refuse(set(calls), r"closed \(joined builders are\)")
        body = primary.if_then(primary.create_condition())
        builder = body
        refuse(
            {"end building", "split", "complete the graph", "describe the graph"},
            "conditional-body GraphBuilder is not",
        )
        body.begin_building()
        refuse({"begin building"} | finished, "conditional-body GraphBuilder is building")
        body.end_building()
        refuse(
            {"begin building", "complete the graph", "split", "create a condition"},
            "it runs with the graph that its conditional node",
        )
        builder = primary.end_building()
        refuse({"begin building"} | capturing, "not building any more; use complete")
        builder.close()
        builder.close()
        refuse(set(calls), "closed; make a new one")
        for call in (lambda: builder.stream, builder.__cuda_stream__, lambda: ch.Stream.wait(stream, builder)):
            with pytest.raises(ch.ClosedError, match="GraphBuilder has been closed"):
                call()

    def test_condition_after_the_end(self, stream: ch.Stream) -> None:
        """A condition that no node of the builder can use would make its graph impossible to instantiate."""
        with stream.create_graph_builder() as builder:
            builder.callback(print)
        with pytest.raises(RuntimeError, match="cannot create a condition: this primary GraphBuilder is not building"):
            builder.create_condition()
        builder.complete().close()
        definition = builder.graph_definition
        definition.if_then(definition.create_condition(0))
        builder.complete()

    def test_definition_is_a_view(self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
        """Nodes that are added to a builder's definition would not be in its graph, or be lost with the builder."""
        with stream.create_graph_builder() as builder:
            ch.launch(builder, ONE, add, numbers.buffer, 1)
        definition = builder.graph_definition
        assert definition == builder.graph_definition
        (node,) = definition.nodes()
        node.launch(ONE, add, numbers.buffer, 10)
        run(builder.complete(), stream)
        assert numbers[0] == 11
        builder.close()
        assert len(definition.nodes()) == 2
        run(definition.instantiate(), stream)
        assert numbers[0] == 22

    @pytest.mark.needs_driver("12.3", "conditional nodes")
    @pytest.mark.parametrize("drop", ["close", "collect"])
    @pytest.mark.parametrize("mode", MODES)
    def test_dropped_in_mid_capture(
        self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, mode: str, drop: str
    ) -> None:
        """A stream would stay in capture after its builder was closed or garbage-collected."""
        builder = stream.create_graph_builder().begin_building(mode)
        ch.launch(builder, ONE, add, numbers.buffer, 1)
        body = builder.if_then(builder.create_condition()).begin_building(mode)
        body_stream = body.stream
        assert is_capturing(stream)
        if drop == "close":
            builder.close()
            assert not is_capturing(stream)  # although the builder of the body still has the graph
            body.close()
        del builder, body
        gc.collect()
        assert not is_capturing(stream)
        assert not is_capturing(body_stream)
        ch.launch(stream, ONE, add, numbers.buffer, 1)
        stream.sync()
        assert numbers[0] == 1

    def test_invalidated(self, stream: ch.Stream) -> None:
        """An invalidated capture would look like a graph, or keep its stream."""
        builder = stream.create_graph_builder().begin_building("global")
        with pytest.raises(ch.CUDAError):
            stream.sync()
        with pytest.raises(ch.CUDAError, match=r"begin_building\('relaxed'\) allows most"):
            builder.end_building()
        assert builder.is_closed
        assert not is_capturing(stream)
        with stream.create_graph_builder() as builder:
            builder.callback(print)

    @pytest.mark.parametrize(
        ("call", "match"),
        [
            (lambda builder, stream, graph: graph.launch(builder), r"GraphBuilder\.embed\(\) adds one"),
            (lambda builder, stream, graph: stream.device.sync(), "cannot be waited for: end the capture first$"),
            (lambda builder, stream, graph: builder.stream.sync(), "cannot be waited for: end the capture first$"),
            (lambda builder, stream, graph: builder.stream.is_nonblocking, "ask before the capture begins$"),
            (lambda builder, stream, graph: builder.stream.record().sync(), "outside the capture$"),
            (lambda builder, stream, graph: builder.stream.wait(stream.record()), r"before begin_building\(\)"),
        ],
    )
    def test_what_cannot_be_captured(
        self, device: ch.Device, stream: ch.Stream, call: Callable[..., object], match: str
    ) -> None:
        """The error of a call that waits for captured work would not say what to do instead."""
        graph = cg.GraphDefinition().instantiate()
        builder = device.create_graph_builder().begin_building()
        with pytest.raises(ch.CUDAError, match=match):
            call(builder, stream, graph)
        builder.close()

    @pytest.mark.parametrize(("mode", "advice"), [("relaxed", "cannot be waited for"), ("global", "'relaxed'")])
    def test_advice_about_modes(self, stream: ch.Stream, mode: str, advice: str) -> None:
        """The error would recommend the mode that the capture is already in."""
        builder = stream.create_graph_builder().begin_building(mode)
        if mode == "global":
            with pytest.raises(ch.CUDAError, match=r"in the capture's mode: begin_building\('relaxed'\) allows it$"):
                call_driver("cuMemAlloc", 64)
        else:
            with pytest.raises(ch.CUDAError):
                stream.sync()
        with pytest.raises(ch.CUDAError, match=advice) as failed:
            builder.end_building()
        assert ("relaxed" in str(failed.value)) is (mode == "global")

    @pytest.mark.parametrize("state", ["before", "after", "closed", "joined", "body"])
    def test_work_where_nothing_is_built(
        self, device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, state: str
    ) -> None:
        """Work that is submitted to a builder that is not building would run at once, and would not be in a graph."""
        other, event = device.create_stream(), device.create_event()
        builder = stream.create_graph_builder()
        _ = add.arguments_info
        prepared = None
        if state == "joined":
            builder.begin_building()
            _, fork = builder.split(2)
            prepared = add.prepare(fork, ONE, numbers.buffer, 1)
            primary = builder.join(builder, fork)
            builder = fork
        elif state == "body":
            builder.begin_building()
            condition = builder.create_condition(1)
            primary, builder = builder, builder.if_then(condition)
        elif state != "before":
            builder.begin_building()
            prepared = add.prepare(builder, ONE, numbers.buffer, 1)
            builder.end_building()
            if state == "closed":
                builder.close()
        graph = cg.GraphDefinition().instantiate()
        half = ch.Buffer.from_handle(numbers.at(0), 8)
        second = ch.Buffer.from_handle(numbers.at(2), 8)
        shared: Any = builder
        says = "cannot take work: this .* GraphBuilder is not building|has been closed"
        for work in (
            lambda: ch.launch(shared, ONE, add, numbers.buffer, 1),
            lambda: add.prepare(shared, ONE, numbers.buffer, 1),
            lambda: half.fill(1, stream=shared),
            lambda: half.copy_from(second, stream=shared),
            lambda: half.copy_part_from(second, 4, height=1, stream=shared),
            lambda: ch.copy_batch(shared, [half], [second]),
            lambda: half.view("u4", (2,)).copy_from(second.view("u4", (2,)), stream=shared),
            lambda: half.close(shared),
            lambda: device.allocate(64, stream=shared),
            lambda: other.wait(shared),
            lambda: graph.launch(shared),
            lambda: graph.upload(shared),
        ):
            with pytest.raises(RuntimeError, match=says):
                work()
        if prepared is not None:
            for call in (prepared, lambda: prepared(numbers.buffer, 1)):
                with pytest.raises(RuntimeError, match="the GraphBuilder that this PreparedLaunch was made for is not"):
                    call()
        if state in ("body", "joined"):
            primary.close()
        stream.record(event)
        stream.sync()
        assert numbers[0] == 0

    def test_modes(self, stream: ch.Stream) -> None:
        """A misspelt mode would be accepted as another mode."""
        builder = stream.create_graph_builder()
        with pytest.raises(ValueError, match="mode is 'thread'; it must be 'global', 'thread_local' or 'relaxed'"):
            builder.begin_building("thread")
        wrong: Any = None
        with pytest.raises(ValueError, match="mode is None; it must be"):
            builder.begin_building(wrong)
        builder.begin_building().end_building()

    def test_stream(self, device: ch.Device) -> None:
        """A builder would lose its stream when the caller closes another object for that stream."""
        stream = device.create_stream()
        builder = stream.create_graph_builder()
        assert builder.stream == stream
        stream.close()
        with builder:
            builder.callback(print)
            _, fork = builder.split(2)
            builder.stream.close()
            fork.stream.close()
            builder.join(builder, fork)
        assert len(builder.graph_definition.nodes()) == 1

    def test_stream_in_use(self, stream: ch.Stream) -> None:
        """The error for a stream that another builder captures would only say CUDA_ERROR_ILLEGAL_STATE."""
        with stream.create_graph_builder() as builder:
            builder.callback(print)
            with pytest.raises(ch.CUDAError, match="being captured already: give each builder a stream"):
                stream.create_graph_builder().begin_building()
        assert len(builder.graph_definition.nodes()) == 1

    def test_legacy_default_stream(self, device: ch.Device) -> None:
        """The error would not say that the legacy default stream cannot be captured."""
        builder = ch.LEGACY_DEFAULT_STREAM.create_graph_builder()
        with pytest.raises(ch.CUDAError, match="The legacy default stream cannot be captured"):
            builder.begin_building()
        assert not builder.is_building

    def test_definition_is_closed(self, stream: ch.Stream) -> None:
        """Closing a view of the graph would leave the builder without it, and the stream in capture."""
        with stream.create_graph_builder() as builder:
            body = builder.if_then(builder.create_condition())
            view = body.graph_definition
            body.begin_building()
            body_stream = body.stream
            view.close()
            body.end_building()
            assert not is_capturing(body_stream)
        builder.graph_definition.close()
        builder.complete()

    @pytest.mark.parametrize("mode", MODES)
    def test_another_thread(self, stream: ch.Stream, mode: str) -> None:
        """A capture that another thread ends would be lost, because the driver returns no graph in most modes."""
        builder = stream.create_graph_builder().begin_building(mode)
        builder.callback(print)
        if mode == "relaxed":
            on_another_thread(builder.end_building)
        else:
            with pytest.raises(RuntimeError, match=r"it began on another thread, and must end there; .*'relaxed'"):
                on_another_thread(builder.end_building)
            builder.end_building()
        assert len(builder.graph_definition.nodes()) == 1
        builder = stream.create_graph_builder().begin_building(mode)
        on_another_thread(builder.close)
        assert not is_capturing(stream)

    def test_many_threads(self, stream: ch.Stream) -> None:
        """If several threads make the same call on a builder at once, one would undo the work of another."""
        count = 8

        def at_once(function: Callable[[], object]) -> int:
            barrier = threading.Barrier(count)

            def call() -> bool:
                barrier.wait()
                try:
                    function()
                except RuntimeError:
                    return False
                return True

            with ThreadPoolExecutor(count) as pool:
                return sum(future.result() for future in [pool.submit(call) for _ in range(count)])

        for _ in range(20):
            builder = stream.create_graph_builder()
            assert at_once(builder.begin_building) == 1
            assert at_once(partial(builder.callback, print)) == count
            assert at_once(partial(builder.split, 2)) == count
            builder.close()
            builder = stream.create_graph_builder().begin_building()
            builder.callback(print)
            assert at_once(builder.end_building) == 1
            assert len(builder.graph_definition.nodes()) == 1
            assert at_once(builder.close) == count
            assert not is_capturing(stream)

    def test_per_thread_default_stream(self, device: ch.Device) -> None:
        """Another thread would end the capture of its own default stream instead of this one."""
        stream = ch.PER_THREAD_DEFAULT_STREAM
        builder = stream.create_graph_builder().begin_building()
        builder.callback(print)
        with pytest.raises(RuntimeError, match="it began on another thread"):
            on_another_thread(builder.end_building)
        assert len(builder.end_building().graph_definition.nodes()) == 1
        builder = stream.create_graph_builder().begin_building()
        on_another_thread(builder.close)
        device.create_stream()  # any call that polls for deferred work
        gc.collect()
        ch._cffi.lib.cch_reclaim_drain()
        assert not is_capturing(stream)

    def test_work_on_another_thread_than_that_of_a_default_stream(
        self, device: ch.Device, add: ch.Kernel, numbers: Numbers
    ) -> None:
        """Another thread's work would run at once, and its own default stream would join the capture."""
        builder = ch.PER_THREAD_DEFAULT_STREAM.create_graph_builder().begin_building()
        _, fork = builder.split(2)
        memory = device.allocate(64, stream=fork)
        memory.fill(0, stream=fork)

        def elsewhere() -> None:
            device.set_current()
            for work in (
                lambda: ch.launch(builder, ONE, add, numbers.buffer, 1),
                lambda: numbers.buffer.fill(1, stream=builder),
                lambda: builder.callback(print),
                lambda: builder.split(2),
                lambda: builder.join(builder, fork),
            ):
                with pytest.raises(RuntimeError, match="captures the per-thread default stream of another thread"):
                    work()
            assert not is_capturing(ch.PER_THREAD_DEFAULT_STREAM)

        on_another_thread(elsewhere)
        builder.join(builder, fork)
        ch.launch(builder, ONE, add, memory, 1)
        ch.Buffer.from_handle(numbers.at(0), 64).copy_from(memory, stream=builder)
        on_another_thread(memory.close)  # the free is deferred to this thread
        device.create_event().close()
        lib = ch._cffi.lib
        lib.cch_reclaim_drain()
        graph = builder.end_building().complete()
        assert sum(isinstance(node, cg.FreeNode) for node in builder.graph_definition.nodes()) == 1
        for _ in range(2):
            graph.launch(ch.PER_THREAD_DEFAULT_STREAM)
            ch.PER_THREAD_DEFAULT_STREAM.sync()
        assert numbers[0] == 1

    def test_default_stream_whose_builder_is_dropped_with_a_fork(self, device: ch.Device) -> None:
        """The default stream of the thread that drops the builder would join the capture, and stay in it."""
        builder = ch.PER_THREAD_DEFAULT_STREAM.create_graph_builder().begin_building()
        _, fork = builder.split(2)
        held = [builder, fork]
        del builder, fork, _

        def elsewhere() -> None:
            device.set_current()
            held.clear()
            gc.collect()
            assert not is_capturing(ch.PER_THREAD_DEFAULT_STREAM)

        on_another_thread(elsewhere)
        ch._cffi.lib.cch_reclaim_drain()
        assert not is_capturing(ch.PER_THREAD_DEFAULT_STREAM)

    @pytest.mark.parametrize("drop", ["end", "close", "collect"])
    def test_another_device_is_current(self, device: ch.Device, other_device: ch.Device, drop: str) -> None:
        """The default stream of another device would be queried, and this one would remain in capture."""
        stream = ch.PER_THREAD_DEFAULT_STREAM
        builder = stream.create_graph_builder().begin_building()
        other_device.set_current()
        if drop == "end":
            builder.end_building()
        elif drop == "close":
            builder.close()
        del builder
        gc.collect()
        device.set_current()
        assert not is_capturing(stream)

    def test_no_context_is_current(self, stream: ch.Stream) -> None:
        """A builder would use the current context instead of that of its stream."""

        def build() -> cg.Graph:
            with stream.create_graph_builder() as builder:
                builder.if_then(builder.create_condition())
                builder.join(*builder.split(2))
                builder.callback(print)
            return builder.complete()

        on_another_thread(build)

    @pytest.mark.parametrize("again", [False, True])
    def test_ended_by_others(self, stream: ch.Stream, again: bool) -> None:
        """If other code has ended a builder's capture, another capture would be ended, or the graph would be returned
        twice."""
        from cuda.bindings import driver

        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        builder = stream.create_graph_builder().begin_building()
        _, theirs = driver.cuStreamEndCapture(stream.handle)
        if again:
            driver.cuStreamBeginCapture(stream.handle, mode)
        with pytest.raises(ch.CUDAError, match="other code has ended the capture"):
            builder.end_building()
        assert builder.is_closed
        assert is_capturing(stream) == again
        if again:
            _, other = driver.cuStreamEndCapture(stream.handle)
            assert driver.cuGraphDestroy(other)[0] == 0
        assert driver.cuGraphDestroy(theirs)[0] == 0


@pytest.mark.parametrize("mode", MODES)
def test_garbage_in_a_capture(
    device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, mode: str
) -> None:
    """Objects that are destroyed while a stream is captured would invalidate the capture, or their free would be
    captured."""

    def garbage() -> None:
        other = device.create_stream()
        device.allocate(1024, stream=other).close()
        device.allocate(1024, stream=stream_before)
        device.create_event()
        other.record()
        definition = cg.GraphDefinition()
        definition.launch(ONE, add, numbers.buffer, 1).callback(garbage)
        definition.instantiate()
        cycle: list[Any] = [definition, other]
        cycle.append(cycle)

    stream_before = device.create_stream()
    kept: list[Any] = []
    kept.append(device.allocate(64, stream=stream))
    garbage_first = [cg.GraphDefinition() for _ in range(3)]
    for definition in garbage_first:
        definition.launch(ONE, add, numbers.buffer, 1)
    builder = stream.create_graph_builder().begin_building(mode)
    if mode == "relaxed":
        garbage()
    garbage_first.clear()
    gc.collect()
    ch.launch(builder, ONE, add, numbers.buffer, 1)
    kept.clear()
    gc.collect()
    _, fork = builder.split(2)
    if mode == "relaxed":
        garbage()
        gc.collect()
    ch.launch(fork, ONE, add, numbers.at(1), 1)
    builder.join(builder, fork)
    del fork
    gc.collect()
    builder.end_building()
    assert [type(node) for node in builder.graph_definition.nodes()] == [cg.KernelNode] * 2
    run(builder.complete(), stream)
    assert (numbers[0], numbers[1]) == (1, 1)


def test_collected_under_a_lock(device: ch.Device, stream: ch.Stream) -> None:
    """A garbage collection in the middle of a call would wait forever for the lock of that call."""
    from cudacore_handles._sdk import graph_native as _native

    builders = [device.create_graph_builder().begin_building() for _ in range(40)]  # some share a lock
    streams = [builder.stream for builder in builders]
    definition = cg.GraphDefinition()
    cycle: list[Any] = [builders]
    cycle.append(cycle)
    del builders, cycle
    _native.locked_call(definition, None, gc.collect)
    assert not any(map(is_capturing, streams))


@pytest.mark.parametrize("mode", MODES)
def test_first_use_in_a_capture(
    device: ch.Device, stream: ch.Stream, numbers: Numbers, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects that are made at first use would be made during a capture, and invalidate it."""
    monkeypatch.setattr(device, "_memory_resource", None)
    builder = stream.create_graph_builder().begin_building(mode)
    memory = device.allocate(64, stream=builder)
    memory.fill(0, stream=builder)
    kernel = ch.ObjectCode.from_ptx(graph_tools.PTX).get_kernel("add")
    ch.launch(builder, ONE, kernel, memory, 1)
    ch.launch(builder, ONE, kernel, numbers.buffer, 1)
    memory.close(builder)
    builder.end_building()
    run(builder.complete(), stream)
    assert numbers[0] == 1


def test_debug_dot_print(stream: ch.Stream, tmp_path: Path) -> None:
    """The driver's own description could not be written."""
    with stream.create_graph_builder() as builder:
        builder.callback(print)
    path = tmp_path / "graph.dot"
    builder.debug_dot_print(str(path), cg.GraphDebugPrintOptions(verbose=True))
    assert path.read_text().startswith("digraph")
    builder.graph_definition.debug_dot_print(path, {"handles": True})
    with pytest.raises(ch.CUDAError, match="must be a file that can be written"):
        builder.debug_dot_print(str(tmp_path / "no" / "folder"))
