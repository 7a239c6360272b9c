# SPDX-License-Identifier: Apache-2.0
"""The states of builders: which calls each state allows; and that no stream remains in capture."""

from __future__ import annotations

import gc
import re
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Any

import pytest
from graph_tools import MODES, ONE, Numbers, launch, on_another_thread

import cudacore_graph as cg
import cudacore_handles as ch
from bindings import call_bindings
from cudacore_graph._capture import Capture
from cudacore_handles._stream.stream import is_capturing
from interrupts import check_closing_meanwhile


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
            "record an event": lambda b: b.record(stream.device.create_event()),
            "wait for an event": lambda b: b.wait(stream.device.create_event()),
            "create a condition": lambda b: b.create_condition(),
        }
        finished = {"complete the graph", "describe the graph", "give the graph's definition"}
        adding = {"add a callback", "record an event", "wait for an event"}
        capturing = {"end building", "split", "create a condition"} | adding

        def refuse(which: set[str], match: str) -> None:
            error = ch.ClosedError if builder.is_closed else RuntimeError
            for what in which:
                with pytest.raises(error, match=f"cannot {what}: this .*{match}"):
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

    def test_never_initialised(self) -> None:
        """An object without a stream would crash the interpreter, or appear to be open."""
        builder: Any = cg.GraphBuilder.__new__(cg.GraphBuilder)
        assert builder.is_closed
        assert not builder.is_building
        calls = (builder.begin_building, builder.end_building, builder.complete, lambda: builder.stream)
        for call in (*calls, lambda: builder.graph_definition, lambda: builder.split(2)):
            with pytest.raises(ch.ClosedError, match="has been closed"):
                call()
        builder.close()

    def test_closed_while_a_call_is_refused(self, stream: ch.Stream) -> None:
        """If another thread closed the builder, the error would be a KeyError, or say what a closed builder can do."""

        def split(builder: cg.GraphBuilder) -> None:
            with pytest.raises(RuntimeError, match=r"is not building yet; call begin_building|has been closed"):
                builder.split(2)

        check_closing_meanwhile(stream.create_graph_builder, split, cg)

    def test_closed_meanwhile(self, stream: ch.Stream) -> None:
        """If another thread closed the builder during a call, the error would be an AttributeError."""

        def building(mode: Any) -> Callable[[], cg.GraphBuilder]:
            return lambda: stream.create_graph_builder().begin_building(mode)

        def ended() -> cg.GraphBuilder:
            return building("relaxed")().end_building()

        check_closing_meanwhile(ended, lambda builder: builder.complete().close(), cg)
        check_closing_meanwhile(building("relaxed"), lambda builder: (builder.create_condition(), builder.close()), cg)
        for call in ("_capturing", "_check_thread", "_lost"):
            check_closing_meanwhile(
                building("global"), lambda builder, call=call: (getattr(builder, call)("try"), builder.close()), cg
            )

    def test_definition_is_a_view(self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
        """Nodes added to a builder's definition would be missing in its graph, or be lost with the builder."""
        with stream.create_graph_builder() as builder:
            ch.launch(builder, ONE, add, numbers.buffer, 1)
        definition = builder.graph_definition
        assert definition == builder.graph_definition
        (node,) = definition.nodes()
        node.launch(ONE, add, numbers.buffer, 10)
        launch(builder.complete(), stream)
        assert numbers[0] == 11
        builder.close()
        assert len(definition.nodes()) == 2
        launch(definition.instantiate(), stream)
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
            assert not is_capturing(stream)  # even though the body's builder keeps the graph
            body.close()
        del builder, body
        gc.collect()
        assert not is_capturing(stream)
        assert not is_capturing(body_stream)
        ch.launch(stream, ONE, add, numbers.buffer, 1)
        stream.sync()
        assert numbers[0] == 1

    @pytest.mark.parametrize(
        ("call", "match"),
        [
            (lambda builder, stream, graph: graph.launch(builder), r"GraphBuilder\.embed\(\) adds it as a node"),
            (lambda builder, stream, graph: stream.device.sync(), "cannot be waited for: end the capture first$"),
            (lambda builder, stream, graph: builder.stream.sync(), "cannot be waited for: end the capture first$"),
            (lambda builder, stream, graph: builder.stream.is_nonblocking, "query it before the capture begins$"),
            (
                lambda builder, stream, graph: builder.stream.record().sync(),
                r"outside the capture\. GraphBuilder\.record",
            ),
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
        """An invalidated capture would leave its stream in it, or the advice would be the mode that it has already."""
        builder = stream.create_graph_builder().begin_building(mode)
        if mode == "global":
            with pytest.raises(ch.CUDAError, match=r"in the capture's mode: begin_building\('relaxed'\) allows it$"):
                call_bindings("cuMemAlloc", 64)
        else:
            with pytest.raises(ch.CUDAError):
                stream.sync()
        with pytest.raises(ch.CUDAError, match=advice) as failed:
            builder.end_building()
        assert ("relaxed" in str(failed.value)) is (mode == "global")
        assert builder.is_closed
        assert not is_capturing(stream)
        with stream.create_graph_builder() as builder:
            builder.callback(print)

    @pytest.mark.parametrize("state", ["before", "after", "closed", "joined", "body"])
    def test_work_where_nothing_is_built(
        self, device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, state: str
    ) -> None:
        """Work that is submitted to a builder that is not capturing would run at once, and would be in no graph."""
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

    @pytest.mark.parametrize("how", ["close", "end_building", "drop"])
    def test_building_ends_while_a_prepared_launch_converts_arguments(
        self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, how: str
    ) -> None:
        """The launch would run at once, because building was only checked before the arguments were converted."""
        builders = [stream.create_graph_builder().begin_building()]
        prepared = add.prepare(builders[0], ONE, numbers.buffer, 1)

        class Number:
            def __index__(self) -> int:
                builder = builders.pop()
                if how != "drop":
                    getattr(builder, how)()
                return 1

        with pytest.raises(RuntimeError, match="is not building any more"):
            prepared(numbers.buffer, Number())
        assert not is_capturing(stream)
        stream.sync()
        assert numbers[0] == 0

    def test_modes(self, stream: ch.Stream) -> None:
        """A misspelt mode would be accepted as another mode."""
        builder = stream.create_graph_builder()
        with pytest.raises(ValueError, match="mode is 'thread'; it must be 'global', 'thread_local' or 'relaxed'"):
            builder.begin_building("thread")
        wrong: Any
        for wrong in (None, []):
            with pytest.raises(ValueError, match=re.escape(f"mode is {wrong}; it must be")):
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
        """Closing a view of the graph would leave the builder without its graph, and the stream in capture."""
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

    def test_bodies_are_closed_while_others_are_ended(
        self, definition: cg.GraphDefinition, stream: ch.Stream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A body that another thread closes at any bytecode of end_waiting() would be forgotten, and never ended."""
        capture = Capture(definition)
        pairs: list[tuple[Any, ch.Stream]] = [(-1, stream)]

        def close_another(frame: FrameType, event: str, argument: object) -> Any:
            if frame.f_code is not Capture.end_waiting.__code__:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode" and len(pairs) < 100:
                pairs.append((len(pairs), stream))
                capture.waiting.append(pairs[-1])
            return close_another

        monkeypatch.setattr(Capture, "end", lambda *pair: ch._cffi.lib.CCH_EMISMATCH)
        capture.waiting.append(pairs[0])
        sys._getframe().f_trace_opcodes = True
        sys.settrace(close_another)
        try:
            capture.end_waiting()
        finally:
            sys.settrace(None)
        assert len(pairs) > 2
        assert capture.waiting == pairs

    @pytest.mark.needs_driver("12.3", "conditional nodes")
    @pytest.mark.parametrize("held", [False, True], ids=["", "its definition is held"])
    @pytest.mark.parametrize("way", ["close", "collect"])
    @pytest.mark.parametrize("mode", ["thread_local", "global"])
    def test_a_body_is_closed_on_another_thread(
        self, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, mode: str, way: str, held: bool
    ) -> None:
        """The capture of the body would fail there, and the driver would destroy the graph around the body."""
        builder = stream.create_graph_builder().begin_building(mode)  # type: ignore[arg-type]
        bodies = [builder.if_then(builder.create_condition(1))]
        definition = bodies[0].graph_definition if held else None
        bodies[0].begin_building(mode)  # type: ignore[arg-type]
        _, fork = bodies[0].split(2)
        ch.launch(fork, ONE, add, numbers.buffer, 1)
        del _

        def give_up() -> None:
            if way == "close":
                bodies[0].close()
            bodies.clear()
            gc.collect()

        on_another_thread(give_up)
        assert builder.is_building
        ch.launch(builder, ONE, add, numbers.buffer, 10)
        builder.end_building()
        launch(builder.complete(), stream)
        assert numbers[0] == 11
        assert fork.is_closed
        if definition is not None:
            assert len(definition.nodes()) == 1

    @pytest.mark.needs_driver("12.3", "conditional nodes")
    def test_a_body_of_another_thread_without_an_outer_builder(
        self, device: ch.Device, add: ch.Kernel, numbers: Numbers
    ) -> None:
        """The capture of the body would be ended on a thread where that fails, or its stream would stay in it."""
        builder = device.create_graph_builder().begin_building()
        body = builder.if_then(builder.create_condition(1))
        builder.end_building()
        definition, body_stream = builder.graph_definition, body.stream
        bodies = [body.begin_building("thread_local")]
        ch.launch(body, ONE, add, numbers.buffer, 1)
        builder.close()
        del body, builder
        gc.collect()
        on_another_thread(lambda: (bodies.clear(), gc.collect()))
        assert is_capturing(body_stream)
        device.create_stream().sync()  # this thread can end the capture
        assert not is_capturing(body_stream)
        assert definition.is_valid

    def test_many_threads(self, stream: ch.Stream) -> None:
        """If several threads make the same call on a builder at the same time, one would undo the work of another.

        Calls that meet another one raise an error, and do nothing.
        """
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
            assert at_once(partial(builder.split, 2)) >= 1
            builder.close()
            builder = stream.create_graph_builder().begin_building()
            added = at_once(partial(builder.callback, print))
            assert at_once(builder.end_building) == 1
            assert len(builder.graph_definition.nodes()) == added >= 1
            builder = stream.create_graph_builder().begin_building()
            assert at_once(builder.close) >= 1
            assert builder.is_closed
            assert not is_capturing(stream)

    def test_per_thread_default_stream(self, device: ch.Device) -> None:
        """Another thread would end the capture of its own default stream, not the capture that the builder began."""
        stream = ch.PER_THREAD_DEFAULT_STREAM
        builder = stream.create_graph_builder().begin_building()
        builder.callback(print)
        with pytest.raises(RuntimeError, match="it began on another thread"):
            on_another_thread(builder.end_building)
        assert len(builder.end_building().graph_definition.nodes()) == 1
        builder = stream.create_graph_builder().begin_building()
        on_another_thread(builder.close)
        device.create_stream()  # making an object runs the work that was deferred to this thread
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
        on_another_thread(memory.close)  # the other thread defers the free to this thread
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
        """The default stream of another device would be queried, and the builder's stream would remain in capture."""
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

    def test_the_mode_refers_to_the_builder(self, stream: ch.Stream) -> None:
        """Nobody would find the cycle, and the stream would remain in capture."""

        class Mode(str):
            builder: cg.GraphBuilder

        mode = Mode("relaxed")
        mode.builder = stream.create_graph_builder().begin_building(mode)  # type: ignore[arg-type]
        del mode
        gc.collect()
        assert not is_capturing(stream)

    def test_no_context_is_current(self, stream: ch.Stream) -> None:
        """A builder would use the current context instead of its stream's context."""

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
