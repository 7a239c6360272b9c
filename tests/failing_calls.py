# SPDX-License-Identifier: Apache-2.0
"""Makes every driver call of an operation fail once, for tests on the simulated driver.

The calls of an operation are taken from the log of the simulated driver. A failure must be returned unchanged, and must
leave everything unchanged: no leak, no incomplete object, no stream in a capture. The operation works the next time.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import cudacore_handles as ch
from pytest_cudacore import leaked_since, live_objects, make_captures_global

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


# Returns whether a stream is in a capture that cannot be ended, and how many nodes the builder of `begin` has captured.
Captured = Callable[[Any, Any], tuple[bool, int]]


def no_capture(world: Any, begun: Any) -> tuple[bool, int]:
    """Return that there is no capture, for operations without streams."""
    return False, 0


class Outcome(NamedTuple):
    """The result of an operation, in which one call may have been made to fail."""

    calls: list[str]  # of an operation without a failure
    error: Exception | None
    failed: bool  # whether the operation made the call that should fail
    context_kept: bool
    leaked: dict[str, int]
    captured: tuple[bool, bool]  # whether a stream was left in a capture, and whether the capture has other nodes


def current_context(sim: Any) -> int | None:
    out = ctypes.c_void_p()
    sim.load().cuCtxGetCurrent(ctypes.byref(out))
    return out.value


def attempt(
    op: Operation,
    world: Any,
    sim: Any,
    here: ch.Device | None,
    captured: Captured = no_capture,
    failing: tuple[str, int] | None = None,
) -> Outcome:
    """Run an operation while a device's context, or none, is current; then undo what it did, if anything.

    `failing` has the name of the call to make fail, and its number among the calls of this name.
    """

    def alive() -> dict[str, int]:
        boxes = {f"box of {kind}": n for kind, n in live_objects().items() if kind not in op.kept}
        return boxes | {kind: n for kind, n in sim.live().items() if kind not in op.kept}

    world.device.sync()
    begun = op.begin(world)
    nodes = captured(world, begun)[1]
    before = alive()  # destroys queued boxes now, so that they are not destroyed during the operation
    if here is None:
        sim.load().cuCtxSetCurrent(None)
    else:
        here.set_current()
    context = current_context(sim)
    error: Exception | None = None
    made: Any
    result, made, failed = None, [], True
    try:
        with sim.failing(failing[0], nth=failing[1], error=UNKNOWN) if failing else sim.logging() as made:
            result = op.do(world, begun)
    except Exception as caught:
        if not failing:
            raise
        failed = not isinstance(caught, AssertionError)
        if failed:  # the error is stored without its traceback, which keeps objects
            error = caught.with_traceback(None)
            error.__context__ = error.__cause__ = None
    context_kept = current_context(sim) == context
    world.device.set_current()
    if error is None:
        op.undo(world, result)
        del result
    # A capture keeps what a call that was successful after all has used.
    must_be_gone = failing and (error is not None or captured is no_capture)
    leaked = leaked_since(before, alive) if must_be_gone else {}
    is_left, count = captured(world, begun) if error is not None else (False, nodes)
    op.end(world, begun)
    calls = [] if failing else [call.name for call in made]
    return Outcome(calls, error, failed, context_kept, leaked, (is_left, count not in (0, nodes)))


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
    attempt(op, world, sim, here)  # the first run makes the queries whose results are cached
    before = world.state()
    calls = attempt(op, world, sim, here).calls
    assert world.state() == before, "the operation is not undone"
    quiet = (*op.quiet, *quiet, ASKED)
    seen: Counter[str] = Counter()
    for place, name in enumerate(calls):
        seen[name] += 1
        if (name in DESTROYS) is not destroys:
            continue
        what = f"{op.name}: call {seen[name]} of {name}"
        outcome = attempt(op, world, sim, here, captured, (name, seen[name]))
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
        assert not outcome.leaked, f"{what}: {outcome.leaked} leaked"
        assert world.state() == before, what
    attempt(op, world, sim, here)
    return seen.total()
