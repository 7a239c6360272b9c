# SPDX-License-Identifier: Apache-2.0
"""The states of graph builders, and the captures that they share."""

from __future__ import annotations

import contextlib
import weakref
from enum import IntEnum
from typing import TYPE_CHECKING

from cudacore_handles import Stream
from cudacore_handles._sdk import hold, last_error, lib
from cudacore_handles._sdk.graph import CaptureBase, join_capture

if TYPE_CHECKING:
    from cudacore_graph._builder import GraphBuilder
    from cudacore_graph._definition import GraphDefinition


class BuilderKind(IntEnum):
    """The kinds of graphs that builders build. The extension module has the same numbers."""

    PRIMARY = 0
    FORKED = 1
    CONDITIONAL_BODY = 2


class BuilderState(IntEnum):
    """The states of a builder. The extension module has the same numbers."""

    CLOSED = 0
    NOT_STARTED = 1
    CAPTURING = 2
    ENDED = 3


# The names of kinds and states in messages, by number.
KIND_NAMES = ("primary", "forked", "conditional-body")
STATE_NAMES = ("closed", "not building yet", "building", "not building any more")

# Which operations are allowed next, by kind and state.
ALLOWED: dict[tuple[int, int], str] = {
    (BuilderKind.PRIMARY, BuilderState.NOT_STARTED): "call begin_building() first",
    (BuilderKind.PRIMARY, BuilderState.CAPTURING): "add work, then call end_building()",
    (BuilderKind.PRIMARY, BuilderState.ENDED): (
        "use complete(), graph_definition or debug_dot_print(), or embed it in another builder"
    ),
    (BuilderKind.FORKED, BuilderState.CAPTURING): "add work, then join() it; all else is the primary builder's",
    (BuilderKind.CONDITIONAL_BODY, BuilderState.NOT_STARTED): "call begin_building(), or fill its graph_definition",
    (BuilderKind.CONDITIONAL_BODY, BuilderState.CAPTURING): "add work, then call end_building()",
    (BuilderKind.CONDITIONAL_BODY, BuilderState.ENDED): (
        "use graph_definition or debug_dot_print(); it runs with the graph that its conditional node is in"
    ),
}


def in_use(what: str) -> RuntimeError:
    """Return the exception for a call while another one uses the builder."""
    return RuntimeError(
        f"cannot {what}: another call is using this GraphBuilder now; a builder belongs to one thread at a time"
    )


class Capture(CaptureBase):
    """The capture of a graph. A builder shares it with the builders that were split from it."""

    __slots__ = ()
    graph: GraphDefinition
    # Maps the stream of each fork that is not joined to the fork. If such a stream is destroyed, the capture fails.
    unjoined: dict[Stream, weakref.ref[GraphBuilder]]
    # All captures into a graph share these lists, because all are lost if one of them fails: why captures failed, and
    # the graphs and streams of closed builders whose captures only another thread can end.
    failures: list[str]
    waiting: list[tuple[GraphDefinition, Stream]]

    def end(self, graph: GraphDefinition, stream: Stream) -> int:
        """End this capture, or another one of the graph, and return the library's status."""
        status: int = lib.cch_capture_end(hold(graph), hold(stream))
        self.note(graph, status)
        return status

    def note(self, graph: GraphDefinition, status: int) -> None:
        """Note why a capture failed, if its graph is lost."""
        if status and not graph.is_valid and not self.failures:
            self.failures.append(str(last_error(status)))

    def end_waiting(self) -> None:
        """End the captures of closed builders that this thread can end."""
        for pair in self.waiting.copy():  # another thread can add one, or end one, at the same time
            if self.end(*pair) != lib.CCH_EMISMATCH:
                with contextlib.suppress(ValueError):
                    self.waiting.remove(pair)

    def close(self, stream: Stream) -> None:
        """Join the remaining forks of a capture, end it, and close the forks.

        If a fork is not joined when the capture ends, the capture fails. If it is the capture of a body, the graph that
        contains the body is lost, too. For the same reason, the capture of a body is left to its thread if only that
        thread can end it. All failures are ignored, because the capture is given up.
        """
        self.end_waiting()
        self._join_forks(stream)
        if self.end(self.graph, stream) == lib.CCH_EMISMATCH and self.is_body:
            self.waiting.append((self.graph, stream))
        self.close_forks(stream)

    def close_forks(self, rest: Stream) -> None:
        """Close the forks of a capture that has ended."""
        if not self.graph.is_valid:
            self._join_forks(rest)  # the library leaks the streams that remain in the failed capture
        for reference in list(self.unjoined.values()):  # forks on other threads change the dict
            fork = reference()
            if fork is not None:
                fork._close()
        self.unjoined.clear()

    def _join_forks(self, rest: Stream) -> None:
        for stream in list(self.unjoined):
            join_capture(self.graph, stream, rest)

    def describe_loss(self) -> str:
        """Return why the graph was destroyed during the capture."""
        why = f": {self.failures[0]}" if self.failures else ""
        return f"the graph was lost, because another capture into it has failed{why}"

    @staticmethod
    def describe_forks(unjoined: list[weakref.ref[GraphBuilder]]) -> str:
        """Describe how many forks are not joined, and what to do."""
        forks = [reference() for reference in unjoined]
        count = len(forks)
        gone = sum(fork is None or fork.is_closed for fork in forks)
        what = f"{count} builder{'s' * (count != 1)} that split() made {'are' if count != 1 else 'is'} not joined"
        if not gone:
            return f"{what}; call GraphBuilder.join(), or close() this one to give up"
        which = "it was" if count == 1 else f"{gone} of them {'were' if gone != 1 else 'was'}"
        return f"{what}, and {which} closed or dropped, and cannot be joined any more; close() this one to give up"
