# SPDX-License-Identifier: Apache-2.0
"""Graphs that are captured from streams."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from cudacore_graph._capture import ALLOWED, KIND_NAMES, STATE_NAMES, BuilderKind, BuilderState, Capture, in_use
from cudacore_graph._condition import GraphCondition, create_condition
from cudacore_graph._definition import GraphDefinition
from cudacore_graph._errors import explain_loss
from cudacore_graph._graph import Graph, instantiate
from cudacore_graph._options import GraphCompleteOptions, GraphDebugPrintOptions
from cudacore_graph.typing import CaptureModeName
from cudacore_handles import PER_THREAD_DEFAULT_STREAM, ClosedError, CUDAError, Event, Stream
from cudacore_handles._sdk import (
    Made,
    as_integer,
    check,
    check_type,
    closed,
    not_pickled,
    options_apart,
)
from cudacore_handles._sdk import graph_native as _native
from cudacore_handles._sdk.graph import Builder, Taken, gather_capture, join_capture, make_builder, take

if TYPE_CHECKING:
    from cudacore_graph._option_dicts import GraphCompleteOptionsDict, GraphDebugPrintOptionsDict


class GraphBuilder(Builder, Made):
    """A builder of a graph, which captures the work of a stream.

    Builders are created by :meth:`~cudacore_handles.Device.create_graph_builder` and
    :meth:`~cudacore_handles.Stream.create_graph_builder`, and are accepted wherever a stream is. Between
    :meth:`begin_building` and :meth:`end_building` work does not run but is recorded as nodes: launches, copies and
    fills that are submitted to the builder, and the work of other libraries on its stream. The graph keeps alive what
    the builder's own work uses, but not what other libraries use. At other times, the builder accepts no work. Its
    :attr:`stream` does, and runs the work at once. As a context manager, it begins and ends building.

    A builder is the *primary* builder of its graph, a builder that :meth:`split` has *forked* from another one, or the
    builder of a *conditional body*. Calls that its state does not allow raise a ``RuntimeError`` that names the allowed
    ones.

    Examples
    --------
    >>> buffer = device.allocate(64, stream=stream)
    >>> with stream.create_graph_builder() as builder:
    ...     left, right = builder.split(2)
    ...     buffer[:32].fill(0, stream=left)
    ...     buffer[32:].fill(1, stream=right)
    ...     builder = builder.join(left, right)
    >>> graph = builder.complete()
    >>> graph.launch(stream)
    """

    _made_by = "Device.create_graph_builder() or Stream.create_graph_builder()"
    __slots__ = ("__weakref__",)
    _own: Stream | None
    _work: Stream | None
    _capture: Capture | None

    if TYPE_CHECKING:

        def begin_building(self, mode: CaptureModeName = "relaxed") -> GraphBuilder: ...
        @property
        def stream(self) -> Stream: ...
        @property
        def graph_definition(self) -> GraphDefinition: ...

    def __enter__(self) -> GraphBuilder:
        if self._state != BuilderState.CAPTURING:
            self.begin_building()
        return self

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        if exc_type is not None:
            self.close()
        elif self._state == BuilderState.CAPTURING and self._kind != BuilderKind.FORKED:
            try:
                self.end_building()
            except BaseException:
                self.close()  # after the block, nothing else would close the builder
                raise

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (0, address of the stream): the protocol by which libraries share streams."""
        return self._own_stream().__cuda_stream__()

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "a graph is of one process")

    def __repr__(self) -> str:
        return f"<GraphBuilder {KIND_NAMES[self._kind]}, {'lost' if self._is_lost else STATE_NAMES[self._state]}>"

    def _dropped(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Close a builder to which nothing refers any more, during its capture."""
        try:
            self._close()
        except Exception:
            if not is_finalizing():  # at exit, functions that close() needs may not exist
                raise

    def _end(self, status: int | None = None) -> GraphBuilder:
        """End building if that takes more than one call, or raise the error for the status of that call."""
        capture = self._capturing("end building", forked=False, lost=True)
        if capture.thread not in (None, threading.get_ident()):
            raise RuntimeError(
                "cannot end building: it began on another thread, and must end there; begin_building('relaxed'), on a "
                "stream that is not the per-thread default stream, can be ended on any"
            )
        with self._alone("end building", self):
            stream = self._own_stream()
            known = bool(capture.failures)
            if status is None:
                capture.end_waiting()
                unjoined = list(capture.unjoined.values())  # forks on other threads change the dict
                if unjoined and capture.graph.is_valid:
                    raise RuntimeError(f"cannot end building: {capture.describe_forks(unjoined)}")
                known = bool(capture.failures)
                status = capture.end(capture.graph, stream)
            else:
                capture.note(capture.graph, status)
            try:
                check(status)
            except CUDAError as error:
                if not capture.graph.is_valid:  # otherwise the capture continues
                    self._ended()  # so that close() does not end the capture again
                    capture.close_forks(stream)
                    self._close()
                    if known:
                        error.hint = capture.describe_loss()
                    else:
                        explain_loss(error, capture.mode)
                raise
            self._ended()
        return self

    @options_apart("GraphCompleteOptions")
    def complete(self, options: GraphCompleteOptions | GraphCompleteOptionsDict | None = None) -> Graph:
        """Make an executable graph; see :meth:`GraphDefinition.instantiate`.

        Parameters
        ----------
        options : GraphCompleteOptions, optional
            Options of the instantiation.

        Raises
        ------
        RuntimeError
            If building has not ended.
        """
        if self._kind != BuilderKind.PRIMARY or self._state != BuilderState.ENDED:
            raise self._illegal("complete the graph")
        return instantiate(self._finished("complete the graph"), options, self._own_stream())

    def debug_dot_print(
        self, path: str | os.PathLike[str], options: GraphDebugPrintOptions | GraphDebugPrintOptionsDict | None = None
    ) -> None:
        """Have the driver write a description of the graph; see :meth:`GraphDefinition.debug_dot_print`."""
        self._finished("describe the graph").debug_dot_print(path, options)

    def split(self, count: int) -> tuple[GraphBuilder, ...]:
        """Fork the capture: from now on, the work on each of the builders is independent of the others.

        Parameters
        ----------
        count : int
            The number of builders, including this one.

        Returns
        -------
        tuple of GraphBuilder
            This builder and the new ones, each with its own stream. All must be joined again.

        Raises
        ------
        ValueError
            If `count` is less than 2.
        RuntimeError
            If the builder is not building.
        """
        number = as_integer(count)
        if number is None:
            raise TypeError(f"count must be an int, not {type(count).__name__}")
        if number < 2:
            raise ValueError(f"count is {count}; a builder is split into at least 2, itself included")
        capture = self._capturing("split")
        with self._alone("split", self):
            own = self._own_stream()
            gather_capture(own)
            context = own.context
            streams = [context.create_stream() for _ in range(number - 1)]
            forks: list[GraphBuilder] = []
            try:
                for stream in streams:
                    stream.wait(own)
                    forks.append(make_builder(stream, BuilderKind.FORKED, capture))
                    capture.unjoined[stream] = weakref.ref(forks[-1])
            except BaseException:
                if forks:  # the caller does not get the forks, and so could not join them
                    with contextlib.suppress(CUDAError):
                        self._join(forks, capture)
                raise
        return (self, *forks)

    @staticmethod
    def join(*graph_builders: GraphBuilder) -> GraphBuilder:
        """Join builders that were split. Work on the remaining builder then depends on the work of all of them.

        Parameters
        ----------
        *graph_builders : GraphBuilder
            At least two builders of one graph.

        Returns
        -------
        GraphBuilder
            The remaining builder: the one that was not forked, or else the first. The others are closed.

        Raises
        ------
        ValueError
            If there are fewer than two builders, or they do not belong to one graph.
        """
        for builder in graph_builders:
            if not isinstance(builder, GraphBuilder):
                raise TypeError(f"join() takes GraphBuilder objects, not {type(builder).__name__}")
        if len(set(map(id, graph_builders))) < 2 or len(set(map(id, graph_builders))) != len(graph_builders):
            raise ValueError("join() needs at least two builders, each of them once")
        captures = [builder._capturing("join") for builder in graph_builders]
        if any(capture is not captures[0] for capture in captures):
            raise ValueError("join() takes builders of one graph: those that split() made of each other")
        rest = next((b for b in graph_builders if b._kind != BuilderKind.FORKED), graph_builders[0])
        with rest._alone("join", *graph_builders):
            rest._join([builder for builder in graph_builders if builder is not rest], captures[0])
        return rest

    def _join(self, others: list[GraphBuilder], capture: Capture) -> None:
        for builder in others:
            stream = builder._own_stream()
            check(join_capture(capture.graph, stream, self._own_stream()))
            capture.unjoined.pop(stream, None)
            builder._close()

    def create_condition(self, default_value: int | None = None) -> GraphCondition:
        """Create a condition of the graph; see :meth:`GraphDefinition.create_condition`.

        A graph with a condition that no node uses cannot be instantiated. After building has ended, only the
        :attr:`graph_definition` can add nodes and conditions.

        Raises
        ------
        RuntimeError
            If the builder is not building.
        """
        capture = self._capture
        if capture is None or self._state in (BuilderState.ENDED, BuilderState.CLOSED):
            raise self._illegal("create a condition")
        if self._is_lost:
            raise self._lost("create a condition")
        return create_condition(capture.graph, default_value, self._own_stream())

    def if_then(self, condition: GraphCondition) -> GraphBuilder:
        """Add a conditional node that runs a body when the condition is not 0.

        Needs a driver for CUDA 12.3.

        Parameters
        ----------
        condition : GraphCondition
            A condition of this graph. Each condition can be used by one node.

        Returns
        -------
        GraphBuilder
            The builder of the body.
        """
        (body,) = self._conditional("if_then", condition)
        return body

    def if_else(self, condition: GraphCondition) -> tuple[GraphBuilder, GraphBuilder]:
        """Add a conditional node with two bodies.

        Needs a driver for CUDA 12.8.

        Returns
        -------
        tuple of GraphBuilder
            The builders of two bodies: the first runs if the condition is not 0, the second if it is 0.
        """
        then, otherwise = self._conditional("if_else", condition)
        return then, otherwise

    def while_loop(self, condition: GraphCondition) -> GraphBuilder:
        """Add a conditional node that repeats its body while the condition is not 0.

        Needs a driver for CUDA 12.3.

        Returns
        -------
        GraphBuilder
            The builder of the body.
        """
        (body,) = self._conditional("while_loop", condition)
        return body

    def switch(self, condition: GraphCondition, count: int) -> tuple[GraphBuilder, ...]:
        """Add a conditional node that runs the body whose index is the condition's value, if there is one.

        Needs a driver for CUDA 12.8.

        Parameters
        ----------
        condition : GraphCondition
            A condition of this graph.
        count : int
            The number of bodies.

        Returns
        -------
        tuple of GraphBuilder
            The builders of the bodies.
        """
        return self._conditional("switch", condition, count)

    def embed(self, child: GraphBuilder) -> None:
        """Add a copy of another graph as one node.

        Parameters
        ----------
        child : GraphBuilder
            A builder that has ended building.
        """
        check_type("child", child, GraphBuilder)
        self._add("embed a graph", "embed", child._finished("embed the graph"))

    def callback(self, fn: Callable[..., Any], *, user_data: Any = None) -> None:
        """Add a call of a host function; see :meth:`GraphDefinition.callback`.

        Parameters
        ----------
        fn : callable
            The function.
        user_data : int or bytes-like, optional
            The argument of a ctypes function.
        """
        self._add("add a callback", "callback", fn, user_data)

    def record(self, event: Event) -> None:
        """Add a node that records an event each time the graph runs (as cuEventRecordWithFlags, for external events).

        ``builder.stream.record(event)`` only marks a place in the capture, for other captured streams to wait for.
        """
        self._add("record an event", "record", event)

    def wait(self, event: Event) -> None:
        """Add a node that waits for the last record of an event outside the graph; see :meth:`GraphDefinition.wait`."""
        self._add("wait for an event", "wait", event)

    def _add(self, what: str, method: str, *arguments: Any) -> Any:
        """Add a node that the method of this name adds to a definition."""
        capture = self._capturing(what)
        with self._alone(what, self):
            return _native.capture_add(self._own_stream(), capture.graph, method, *arguments)

    def _conditional(self, kind: str, condition: GraphCondition, *count: int) -> tuple[GraphBuilder, ...]:
        capture = self._capturing("add a conditional node")
        # The streams for the bodies are created first, because a captured node cannot be removed.
        (bodies,) = count or ((2,) if kind == "if_else" else (1,))
        possible = hasattr(bodies, "__index__") and 0 < bodies.__index__() < 2**31  # capture_add() raises if not
        context = self._own_stream().context
        streams = [context.create_stream() for _ in range(bodies if possible else 0)]
        node = self._add("add a conditional node", kind, condition, *count)
        return tuple(
            make_builder(stream, BuilderKind.CONDITIONAL_BODY, Capture(body, capture))
            for stream, body in zip(streams, node.branches, strict=True)
        )

    @staticmethod
    def _alone(what: str, *builders: GraphBuilder) -> Taken:
        """Return a context manager in whose block other threads' work and calls for the builders are errors."""
        # No variable has the result: after a KeyboardInterrupt, the traceback would keep it.
        return take(builders) or _fail(what, builders)

    def _refusal(self, what: str) -> RuntimeError:
        """Make the exception for a call that cannot have the builder for itself."""
        return self._illegal(what) if self._work is None else in_use(what)  # without it, the state does not change

    def _accept_work(self) -> Stream:
        """Return the stream that work is captured from; raise an error if the work would run at once."""
        if self._state == BuilderState.CLOSED:
            raise closed(self)
        if self._state != BuilderState.CAPTURING:
            raise RuntimeError(f"{self._illegal('take work')}; GraphBuilder.stream takes work that is to run at once")
        self._check_thread("take work")
        work = self._work
        if work is None or work.is_closed:
            raise in_use("take work")
        return work

    def _check_thread(self, what: str) -> None:
        """Raise an error for a capture of the per-thread default stream of another thread."""
        capture = self._capture
        thread = None if capture is None else capture.thread
        if thread not in (None, threading.get_ident()) and self._own == PER_THREAD_DEFAULT_STREAM:
            raise RuntimeError(
                f"cannot {what}: this builder captures the per-thread default stream of another thread; "
                "a stream of Device.create_stream() is the same one on all threads"
            )

    def _capturing(self, what: str, *, forked: bool = True, lost: bool = False) -> Capture:
        """Return the capture, or raise an error that explains why the operation is not possible."""
        capture = self._capture  # another thread may close the builder meanwhile
        if self._state != BuilderState.CAPTURING or capture is None:
            raise self._illegal(what)
        if not forked and self._kind == BuilderKind.FORKED:
            raise self._illegal(what)
        if not lost and self._is_lost:
            raise self._lost(what)
        if not lost:  # otherwise, ending the capture reports the problem
            self._check_thread(what)
        return capture

    def _finished(self, what: str) -> GraphDefinition:
        """Return the complete graph, or raise an error that explains why the operation is not possible."""
        capture = self._capture
        if self._kind == BuilderKind.FORKED or self._state != BuilderState.ENDED or capture is None:
            raise self._illegal(what)
        capture.end_waiting()
        return capture.graph

    def _lost(self, what: str) -> RuntimeError:
        """Return the exception for a graph that was destroyed during its capture."""
        capture = self._capture
        why = capture.describe_loss() if capture is not None else "the graph was lost"
        return RuntimeError(f"cannot {what}: {why}. close() this builder, and begin again")

    def _illegal(self, what: str) -> RuntimeError:
        """Make the exception for a call that the state does not allow."""
        kind, state = (
            BuilderKind(self._kind),
            BuilderState(self._state),
        )  # another thread may close the builder meanwhile
        if state == BuilderState.CLOSED:
            joined = " (joined builders are)" if kind == BuilderKind.FORKED else ""
            return ClosedError(f"cannot {what}: this GraphBuilder has been closed{joined}; make a new one")
        return RuntimeError(
            f"cannot {what}: this {KIND_NAMES[kind]} GraphBuilder is {STATE_NAMES[state]}; {ALLOWED[kind, state]}"
        )

    def _own_stream(self) -> Stream:
        stream = self._own
        if stream is None:
            raise closed(self)
        return stream

    def _closed(self, _: str) -> ClosedError:
        return closed(self)


def _fail(what: str, builders: Sequence[GraphBuilder]) -> NoReturn:
    raise next((builder._refusal(what) for builder in builders if builder._work is None), in_use(what))
