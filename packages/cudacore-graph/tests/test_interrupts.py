# SPDX-License-Identifier: Apache-2.0
"""A KeyboardInterrupt between a call and the use of its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cudacore_graph as cg
import cudacore_handles as ch
from interrupts import check_interrupts


class _World:
    """The objects that the operations use."""

    def __init__(self, device: ch.Device, stream: ch.Stream, add: ch.Kernel) -> None:
        self.device, self.stream = device, stream
        self.buffer = device.allocate(64, stream=stream)
        self.definition = cg.GraphDefinition()
        self.launch = self.definition.launch(ch.LaunchConfig(grid=1, block=1), add, self.buffer, 1)
        self.child = self.launch.embed(cg.GraphDefinition())

    def capture(self) -> None:
        with self.device.create_graph_builder() as builder:
            self.buffer.fill(0, stream=builder)
            builder.end_building().complete()


_OPERATIONS: dict[str, Callable[[_World], Any]] = {
    "definition": lambda w: cg.GraphDefinition(),
    "clone": lambda w: w.definition.clone(),
    "copy": lambda w: w.definition.copy(),
    "graph": lambda w: w.definition.instantiate(),
    "kernel": lambda w: (w.launch.kernel, w.launch.config),
    "child": lambda w: w.child.child_graph,
    "capture": lambda w: w.capture(),
}


@pytest.mark.parametrize("operation", _OPERATIONS)
def test_nothing_is_lost(device: ch.Device, stream: ch.Stream, add: ch.Kernel, operation: str) -> None:
    """Ctrl-C between a call of the library and the next line would leak what the call made."""
    world = _World(device, stream, add)
    check_interrupts(lambda: (_OPERATIONS[operation](world), None)[1], cg)
