# SPDX-License-Identifier: Apache-2.0
"""Makes every driver call of an operation fail once, for tests on the simulated driver.

The calls of an operation are taken from the log of the simulated driver. A failure must be returned unchanged, and must
leave everything unchanged: no leak, no incomplete object, no stream in a capture. The operation works the next time.
"""

from __future__ import annotations

import ctypes
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import cudacore_handles as ch
from pytest_cudacore import live_objects, make_captures_global

UNKNOWN = 999  # CUDA_ERROR_UNKNOWN
# Calls that destroy: a failure is reported and does not fail the operation, and the driver's object remains.
DESTROYS = {
    "cuGraphDestroy", "cuGraphExecDestroy", "cuGraphReleaseUserObject", "cuStreamDestroy_v2", "cuEventDestroy_v2",
    "cuMemFreeAsync", "cuMemFree_v2", "cuMemFreeHost", "cuMemHostUnregister", "cuMemUnmap", "cuMemAddressFree",
    "cuMemRelease", "cuMemPoolDestroy", "cuDevicePrimaryCtxRelease_v2", "cuGreenCtxDestroy",
}  # fmt: skip
ASKED = "cuCtxGetId"  # checks whether a context was reset; if this query fails, the operation itself reports a reset
# Queries of destructors, and calls that undo a change. A failure is reported, or the result is not needed.
ON_THE_WAY = (
    ASKED,
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuThreadExchangeStreamCaptureMode",
    "cuStreamIsCapturing",
)


def nothing(*args: object) -> None:
    """Do nothing, where an operation has nothing to prepare, to undo or to clean up."""


class Operation(NamedTuple):
    """One operation, with functions that execute it, undo it after a success, prepare it, and clean up.

    The functions get the world, an object with a `device` and a method ``state()``, and the result of `begin`; `undo`
    gets the result of `do` instead.
    """

    name: str
    do: Callable[[Any, Any], Any]
    undo: Callable[[Any, Any], object] = nothing
    begin: Callable[[Any], Any] = nothing
    end: Callable[[Any, Any], object] = nothing
    quiet: tuple[str, ...] = ()  # driver calls that may fail although the operation succeeds
    kept: tuple[str, ...] = ()  # kinds of objects that a capture may keep until it ends


class Outcome(NamedTuple):
    """The result of an operation in which one call was made to fail."""

    error: Exception | None
    failed: bool  # whether the operation made the call that should fail
    context_kept: bool
    leaked: list[str]
    captured: tuple[bool, bool]  # whether a stream was left in a capture, and whether the capture has other nodes


# Returns whether a stream is in a capture that cannot be ended, and how many nodes the builder of `begin` has captured.
Captured = Callable[[Any, Any], tuple[bool, int]]


def no_capture(world: Any, begun: Any) -> tuple[bool, int]:
    """Return that there is no capture, for operations without streams."""
    return False, 0


def make_current(here: ch.Device | None, sim: Any) -> int | None:
    """Make a device's context current, or none; return its handle."""
    driver, out = sim.load(), ctypes.c_void_p()
    if here is None:
        driver.cuCtxSetCurrent(None)
    else:
        here.set_current()
    driver.cuCtxGetCurrent(ctypes.byref(out))
    return out.value


def is_current(context: int | None, sim: Any) -> bool:
    """Return whether a context, or none, is current on this thread."""
    out = ctypes.c_void_p()
    sim.load().cuCtxGetCurrent(ctypes.byref(out))
    return out.value == context


def run_unfailed(op: Operation, world: Any, sim: Any, here: ch.Device | None) -> list[str]:
    """Run an operation while a device's context, or none, is current; return the calls that it makes."""
    begun = op.begin(world)
    live_objects()  # destroys queued boxes now, so that they are not destroyed during the operation
    make_current(here, sim)
    with sim.logging() as made:
        result = op.do(world, begun)
    world.device.set_current()
    op.undo(world, result)
    del result
    op.end(world, begun)
    return [call.name for call in made]


def run_failing(
    op: Operation, world: Any, sim: Any, here: ch.Device | None, name: str, nth: int, captured: Captured
) -> Outcome:
    """Run an operation with one failing call; then undo what it did, if anything."""
    world.device.sync()
    begun = op.begin(world)
    nodes = captured(world, begun)[1]
    boxes, objects = live_objects(), sim.live()
    error: Exception | None = None
    result = None
    failed = True
    context = make_current(here, sim)
    try:
        with sim.failing(name, nth=nth, error=UNKNOWN):
            result = op.do(world, begun)
    except AssertionError:
        failed = False
    except Exception as caught:  # stored without its traceback, which keeps objects
        error = caught.with_traceback(None)
        error.__context__ = error.__cause__ = None
    context_kept = is_current(context, sim)
    world.device.set_current()
    if error is None:
        op.undo(world, result)
        del result
    # A capture keeps what a call that was successful after all has used.
    leaked = more_alive(boxes, objects, sim, op.kept) if error is not None or captured is no_capture else []
    is_left, count = captured(world, begun) if error is not None else (False, nodes)
    op.end(world, begun)
    return Outcome(error, failed, context_kept, leaked, (is_left, count not in (0, nodes)))


def more_alive(boxes: dict[str, int], objects: dict[str, int], sim: Any, kept: tuple[str, ...]) -> list[str]:
    """Describe new live objects. Wait for a while, because a thread of the driver releases what graphs kept."""
    end = time.monotonic() + 2
    while True:
        now = [(live_objects(), boxes), (sim.live(), objects)]
        more = [
            f"{n - was.get(kind, 0)} x {kind}"
            for counts, was in now
            for kind, n in counts.items()
            if n > was.get(kind, 0) and kind not in kept
        ]
        if not more or time.monotonic() > end:
            return more
        time.sleep(0.001)


def fail_each(
    op: Operation,
    world: Any,
    sim: Any,
    here: ch.Device | None,
    *,
    destroys: bool = False,
    quiet: tuple[str, ...] = (),
    lost: Callable[[list[str], int], bool] = lambda calls, place: False,
    captured: Captured = no_capture,
) -> int:
    """Make each call fail in turn, either the destroying calls or all others; return their number.

    A failed call may leave the operation a success if it is in `quiet`, or if `lost` says so of its place in the calls.
    """
    run_unfailed(op, world, sim, here)  # the first run makes the queries whose results are cached
    before = world.state()
    calls = run_unfailed(op, world, sim, here)
    assert world.state() == before, "the operation is not undone"
    quiet = (*op.quiet, *quiet, ASKED)
    seen: Counter[str] = Counter()
    for place, name in enumerate(calls):
        seen[name] += 1
        if (name in DESTROYS) is not destroys:
            continue
        what = f"{op.name}: call {seen[name]} of {name}"
        outcome = run_failing(op, world, sim, here, name, seen[name], captured)
        error = outcome.error
        assert outcome.failed or name in quiet, f"{what} was not made"
        assert outcome.context_kept, f"{what}: another context is current"
        assert make_captures_global() == "GLOBAL", f"{what}: the thread's mode changed"
        if error is None:
            assert destroys or name in quiet or lost(calls, place), f"{what}: the failure is lost"
        else:
            assert isinstance(error, ch.CUDAError), f"{what}: {error!r}"
            assert name.startswith(error.operation), f"{what}: {error}"
            assert (error.code, error.code_name) == (UNKNOWN, "CUDA_ERROR_UNKNOWN"), f"{what}: {error}"
        assert not any(outcome.captured), f"{what}: a stream is in a capture, or a node was captured"
        assert not outcome.leaked, f"{what}: {', '.join(outcome.leaked)} leaked"
        assert world.state() == before, what
    run_unfailed(op, world, sim, here)
    return seen.total()
