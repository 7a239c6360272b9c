# SPDX-License-Identifier: Apache-2.0
"""Makes every driver call of every operation on graphs fail once.

``test_fail.c`` does the same for the operations of the C library, with more failures of destructors.
"""

from __future__ import annotations

from typing import Any

import pytest
from failure_operations import OPERATIONS, OTHERS, World
from graph_tools import Numbers

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_handles._stream.stream import is_capturing
from failing_calls import fail_each

pytestmark = pytest.mark.cuda_sim


@pytest.fixture
def world(device: ch.Device, add: ch.Kernel, numbers: Numbers) -> World:
    """Give the objects of operations."""
    return World(device, add, numbers)


def captured(world: World, begun: Any) -> tuple[bool, int]:
    """Return whether the stream is in a capture that cannot be ended, and how many nodes the builder has captured."""
    if begun == OTHERS:  # the other library's capture must still be in progress
        return not is_capturing(world.stream), 0
    builder = begun[0] if isinstance(begun, tuple) else begun
    if not isinstance(builder, cg.GraphBuilder) or builder._capture is None or not builder.is_building:
        return is_capturing(world.stream), 0
    return False, len(builder._capture.graph.nodes())


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_call(world: World, cuda_sim: Any, name: str) -> None:
    """A failure would be lost or changed, or would leave leaked objects, a stream in capture, or a part of a batch."""
    assert fail_each(OPERATIONS[name], world, cuda_sim, world.device, captured=captured) > 0


# An operation on a stream or an executable graph works whatever context is current.
ELSEWHERE = [
    name
    for name in OPERATIONS
    if name.startswith(("Graph.", "launch and", "instantiate, up", "begin", "end", "close while", "builder: "))
    and name not in ("builder: create_condition", "builder: memory")
]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_each_call_from_another_context(world: World, cuda_sim: Any, name: str, second_device: ch.Device) -> None:
    """While another device's context is current, a failure would be lost, or would change the current context."""
    op, quiet = OPERATIONS[name], ("cuCtxSetCurrent",)
    assert fail_each(op, world, cuda_sim, second_device, quiet=quiet, captured=captured) > 0


@pytest.mark.cuda_leaks_ok("what cannot be destroyed stays")
def test_each_destruction(world: World, cuda_sim: Any) -> None:
    """A failed destruction would fail later operations, or be raised by a garbage collection."""
    for op in OPERATIONS.values():
        fail_each(op, world, cuda_sim, world.device, destroys=True, captured=captured)
