# SPDX-License-Identifier: Apache-2.0
"""Garbage collections, and objects that are made at first use, during a capture."""

from __future__ import annotations

import gc
from typing import Any

import graph_tools
import pytest
from graph_tools import MODES, ONE, Numbers, launch

import cudacore_graph as cg
import cudacore_handles as ch


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
    launch(builder.complete(), stream)
    assert (numbers[0], numbers[1]) == (1, 1)


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
    launch(builder.complete(), stream)
    assert numbers[0] == 1
