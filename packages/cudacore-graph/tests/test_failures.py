# SPDX-License-Identifier: Apache-2.0
"""Makes every driver call of every operation on graphs fail once.

The calls of an operation are taken from the log of the simulated driver. A failure must be returned unchanged, and must
leave everything unchanged: no leak, no stream in a capture, and all objects usable. ``test_fail.c`` does the same for
the operations of the C library, with more failures of destructors.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from failure_operations import ASKED, DESTROYS, OPERATIONS, OTHERS, UNKNOWN, Operation, World
from graph_tools import Numbers

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_handles._stream.stream import is_capturing
from pytest_cudacore import live_objects, make_captures_global

pytestmark = pytest.mark.cuda_sim


@pytest.fixture
def world(device: ch.Device, add: ch.Kernel, numbers: Numbers) -> World:
    """Give the objects of operations."""
    return World(device, add, numbers)


def run_unfailed(op: Operation, world: World, sim: Any, here: ch.Device) -> list[str]:
    """Run an operation; return the calls that it makes."""
    begun = op.begin(world)
    live_objects()  # destroys queued boxes now, so that they are not destroyed during the operation
    here.set_current()
    with sim.logging() as made:
        result = op.do(world, begun)
    world.device.set_current()
    op.undo(world, result)
    del result
    op.end(world, begun)
    return [call.name for call in made]


class Outcome(NamedTuple):
    """The result of an operation in which one call was made to fail."""

    error: Exception | None
    failed: bool  # whether the operation made the call that should fail
    context_kept: bool
    leaked: list[str]
    captured: tuple[bool, int]  # whether a stream was left in a capture, and how many nodes the capture has


def captured(world: World, begun: Any) -> tuple[bool, int]:
    """Return whether the stream is in a capture that cannot be ended, and how many nodes each builder has."""
    if begun == OTHERS:  # the other library's capture must still be in progress
        return not is_capturing(world.stream), 0
    builder = begun[0] if isinstance(begun, tuple) else begun
    if not isinstance(builder, cg.GraphBuilder) or builder._capture is None or not builder.is_building:
        return is_capturing(world.stream), 0
    return False, len(builder._capture.graph.nodes())


def run_failing(op: Operation, world: World, sim: Any, here: ch.Device, name: str, nth: int) -> Outcome:
    """Run an operation with one failing call; then undo what it did, if anything."""
    begun = op.begin(world)
    expected = captured(world, begun)
    boxes, objects = live_objects(), sim.live()
    error: Exception | None = None
    result = None
    failed = True
    here.set_current()
    try:
        with sim.failing(name, nth=nth, error=UNKNOWN):
            result = op.do(world, begun)
    except AssertionError:
        failed = False
    except Exception as caught:  # stored without its traceback, which keeps objects
        error = caught.with_traceback(None)
        error.__context__ = error.__cause__ = None
    context_kept = ch.Device() is here
    world.device.set_current()
    if error is None:
        op.undo(world, result)
        del result
    leaked = more_alive(boxes, objects, sim, op.kept) if error is not None else []
    now = captured(world, begun) if error is not None else expected
    op.end(world, begun)
    return Outcome(error, failed, context_kept, leaked, (now[0], now[1] - expected[1] if now[1] else 0))


def more_alive(boxes: dict[str, int], objects: dict[str, int], sim: Any, kept: tuple[str, ...]) -> list[str]:
    """Describe new live objects. Wait for a while, because a thread of the driver releases what graphs kept."""
    end = time.monotonic() + 2
    while True:
        now = [(live_objects(), boxes), (sim.live(), objects)]
        more = [
            f"{n - was[kind]} x {kind}"
            for counts, was in now
            for kind, n in counts.items()
            if n > was[kind] and kind not in kept
        ]
        if not more or time.monotonic() > end:
            return more
        time.sleep(0.001)


def fail_each(op: Operation, world: World, sim: Any, here: ch.Device, *, destroys: bool, quiet: tuple[str, ...]) -> int:
    """Make each call fail in turn, either the destroying calls or all others; return their number."""
    run_unfailed(op, world, sim, here)  # the first run makes the queries whose results are cached
    before = world.state()
    calls = run_unfailed(op, world, sim, here)
    assert world.state() == before, "the operation is not undone"
    seen: Counter[str] = Counter()
    for name in calls:
        seen[name] += 1
        if (name in DESTROYS) is not destroys:
            continue
        what = f"{op.name}: call {seen[name]} of {name}"
        outcome = run_failing(op, world, sim, here, name, seen[name])
        error = outcome.error
        assert outcome.failed or name in quiet or name == ASKED, f"{what} was not made"
        assert outcome.context_kept, f"{what}: another context is current"
        assert make_captures_global() == "GLOBAL", f"{what}: the thread's mode changed"
        if error is None:
            assert destroys or name in quiet or name == ASKED, f"{what}: the failure is lost"
        else:
            assert isinstance(error, ch.CUDAError), f"{what}: {error!r}"
            assert name.startswith(error.operation), f"{what}: {error}"
            assert (error.code, error.code_name) == (UNKNOWN, "CUDA_ERROR_UNKNOWN"), f"{what}: {error}"
        assert outcome.captured == (False, 0), f"{what}: a stream is in a capture, or a node was captured"
        assert not outcome.leaked, f"{what}: {', '.join(outcome.leaked)} leaked"
        assert world.state() == before, what
    assert run_unfailed(op, world, sim, here)
    return seen.total()


@pytest.fixture(scope="module")
def second_device(first_device: ch.Device) -> ch.Device:
    """Give another device."""
    devices = ch.Device.get_all_devices()
    if len(devices) < 2:
        pytest.skip("needs two devices")
    _ = devices[1].context  # the context is made now and kept
    return devices[1]


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_call(world: World, cuda_sim: Any, name: str) -> None:
    """A failure would be lost or changed, or would leave leaked objects, a stream in capture, or a part of a batch."""
    op = OPERATIONS[name]
    assert fail_each(op, world, cuda_sim, world.device, destroys=False, quiet=op.quiet) > 0


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
    op = OPERATIONS[name]
    quiet = (*op.quiet, "cuCtxSetCurrent")
    assert fail_each(op, world, cuda_sim, second_device, destroys=False, quiet=quiet) > 0


@pytest.mark.cuda_leaks_ok("what cannot be destroyed stays")
def test_each_destruction(world: World, cuda_sim: Any) -> None:
    """A failed destruction would fail later operations, or be raised by a garbage collection."""
    for op in OPERATIONS.values():
        fail_each(op, world, cuda_sim, world.device, destroys=True, quiet=op.quiet)


@pytest.mark.parametrize(
    ("make", "call"),
    [
        ("cg.GraphDefinition()", "cuGraphDestroy"),
        ("definition.instantiate()", "cuGraphExecDestroy"),
        ("stream.create_graph_builder().begin_building()", "cuGraphDestroy"),
        ("device.create_graph_builder()", "cuStreamDestroy"),
    ],
)
def test_a_failed_destruction_is_reported_once(
    run_python: Callable[..., subprocess.CompletedProcess[str]], make: str, call: str
) -> None:
    """A failed destruction would be silent, flood stderr, or be raised by a garbage collection."""
    result = run_python(
        f"""
        import gc
        import cudacore_graph as cg, cudacore_handles as ch, cudacore_sim as sim
        from cudacore_handles._stream.stream import is_capturing
        device = ch.Device(); device.set_current()
        stream, definition = device.create_stream(), cg.GraphDefinition()
        for i in range(3):
            thing = {make}
            thing = [thing]
            thing.append(thing)  # for the garbage collector
            sim.fail("{call}", 1, {UNKNOWN})
            del thing
            gc.collect()
            assert not is_capturing(stream)
        """,
        CUDACORE_DRIVER="sim",
        CUDACORE_SIM_REPORTS="0",  # no report of remaining objects, because the test compares stderr
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines() == [
        f"cudacore: {call} failed while an object was being destroyed: CUDA_ERROR_UNKNOWN: unknown error"
    ]
