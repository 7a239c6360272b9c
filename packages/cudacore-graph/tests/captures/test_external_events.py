# SPDX-License-Identifier: Apache-2.0
"""Nodes of a capture that record events, or wait for events, of the work outside the graph."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from graph_tools import ONE, Numbers, kinds_of, launch

import cudacore_handles as ch


def test_record(device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
    """An event in a capture would only mark a place there: nobody could wait for a part of the graph, or time it."""
    begin, end = (device.create_event({"timing_enabled": True}) for _ in range(2))
    with stream.create_graph_builder() as builder:
        builder.record(begin)
        ch.launch(builder, ONE, add, numbers.buffer, 1)
        builder.record(end)
        ch.launch(builder, ONE, add, numbers.at(1), 1)
    definition = builder.graph_definition
    assert kinds_of(definition) == ["EventRecordNode"] * 2 + ["KernelNode"] * 2
    assert [type(node).__name__ for node in definition.sorted_nodes()] == ["EventRecordNode", "KernelNode"] * 2
    graph = builder.complete()
    other = device.create_stream()
    for count in (1, 2):  # each launch records the events
        graph.launch(stream)
        end.sync()
        assert numbers[0] == count
        assert end - begin >= 0
        other.wait(end)
        other.sync()
    stream.sync()


def test_wait(device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
    """A graph would not wait for work outside it, or the capture would fail because that work is not in it."""
    event, outside, go = device.create_event(), device.create_stream(), threading.Event()
    with stream.create_graph_builder() as builder:
        ch.launch(builder, ONE, add, numbers.buffer, 1)
        builder.wait(event)
        ch.launch(builder, ONE, add, numbers.at(1), 1)
    graph = builder.complete()
    outside.callback(lambda: go.wait(60))
    ch.launch(outside, ONE, add, numbers.at(1), 10)
    outside.record(event)
    graph.launch(stream)
    assert not event.is_done
    assert numbers[1] == 0
    go.set()
    stream.sync()
    assert event.is_done
    assert numbers.view[:2].tolist() == [1, 11]


def test_forks(device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers) -> None:
    """A fork could not record an event, or the builder that it was split from would wait for the node."""
    event = device.create_event()
    with stream.create_graph_builder() as builder:
        first, second = builder.split(2)
        ch.launch(first, ONE, add, numbers.buffer, 1)
        second.record(event)
        builder.join(first, second)
    definition = builder.graph_definition
    assert not definition.edges()
    launch(builder.complete(), stream)
    assert event.is_done


def test_bad_input(device: ch.Device, stream: ch.Stream) -> None:
    """An invalid event would end the capture."""
    wrong: Any = 3
    builder = stream.create_graph_builder().begin_building()
    with pytest.raises(TypeError, match="event must be an Event, not 'int'"):
        builder.record(wrong)
    assert builder.is_building
    builder.end_building()
    assert not builder.graph_definition.nodes()
