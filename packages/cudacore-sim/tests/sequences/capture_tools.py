# SPDX-License-Identifier: Apache-2.0
"""Helpers for sequences about captures: captured work, forks, and the driver's information about a capture."""

from __future__ import annotations

from ctypes import c_int, c_size_t, c_uint64, c_void_p

import graph_tools as tools
from graph_tools import Edge
from recorder import Recorder

NON_BLOCKING = 1
DISABLE_TIMING = 2
ADD, SET = 0, 1


def streams(cu: Recorder, count: int) -> list[int]:
    """Create `count` non-blocking streams."""
    return [cu.stream(NON_BLOCKING) for _ in range(count)]


def fill(cu: Recorder, stream: int, address: int, value: int = 1) -> None:
    """Enqueue a memset, which must succeed."""
    cu.prepare("cuMemsetD32Async", address, value, 1, stream)


def begun(cu: Recorder, mode: int = tools.RELAXED) -> tuple[int, int]:
    """Begin a capture in a new stream, and capture a memset. Return the stream and the memory's address."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(16, 0)
    tools.begin(cu, stream, mode)
    fill(cu, stream, address)
    return stream, address


def fork(cu: Recorder, source: int, to: int) -> int:
    """Make the stream `to` wait for the stream `source`; return the event."""
    event = cu.event(DISABLE_TIMING)
    cu.prepare("cuEventRecord", event, source)
    cu.prepare("cuStreamWaitEvent", to, event, 0)
    return event


def forked(cu: Recorder, *, empty: bool = False) -> tuple[int, int, int]:
    """Begin a capture, with a memset unless `empty`, and fork a second stream. Return both streams and the memory."""
    one, two = streams(cu, 2)
    address = cu.memory(16, 0)
    tools.begin(cu, one)
    if not empty:
        fill(cu, one, address)
    fork(cu, one, two)
    return one, two, address


def see_joined(cu: Recorder, stream: int, other: int) -> None:
    """Make `stream` wait for the forked stream `other`. End the capture, and list its graph."""
    fork(cu, other, stream)
    tools.see_capture(cu, stream)


def see_info(cu: Recorder, stream: int | None) -> tuple[int, list[int]]:
    """List the driver's information about a capture; return the graph and the dependencies."""
    state, identifier, graph = c_int(99), c_uint64(0), c_void_p()
    dependencies, data, count = c_void_p(), c_void_p(), c_size_t(99)
    code = cu.call("cuStreamGetCaptureInfo_v3", stream, state, identifier, graph, dependencies, data, count)
    if code:
        return 0, []
    cu.see("info", (tools.STATUS.get(state.value, state.value), identifier.value != 0, bool(graph.value), count.value))
    if state.value != 1:
        return 0, []
    nodes = (
        [node or 0 for node in (c_void_p * count.value).from_address(dependencies.value or 0)] if count.value else []
    )
    names = tools.labels(cu, graph.value or 0)
    cu.see("dependencies", [names.get(node, "?") for node in nodes])
    if data.value and count.value:
        edges = (Edge * count.value).from_address(data.value)
        cu.see("edges", [(edge.from_port, edge.to_port, edge.type) for edge in edges])
    else:
        cu.see("edges", bool(data.value))
    return graph.value or 0, nodes
