# SPDX-License-Identifier: Apache-2.0
"""Where a program creates objects, which the check for leaks says."""

from __future__ import annotations

from typing import Any


def test_origins(run_python: Any) -> None:
    """A live object would get another object's line of creation, or lines of destroyed objects would use up memory."""
    run = run_python(
        """
        import cudacore_sim._origins as origins
        context, events = c_void_p(), [c_void_p() for _ in range(100)]
        cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
        cudacore_sim.remember_origins()
        origins._limit = 30
        for round in range(20):
            for i in range(0, 100, 2):
                cu.cuEventCreate(byref(events[i]), 0)
                cu.cuEventCreate(byref(events[i + 1]), 0)
                cu.cuEventDestroy_v2(events[i])
            lines = cudacore_sim.describe_live("event")
            assert len(lines) == 50 and all(line.endswith(":13 in <module>") for line in lines), lines
            for i in range(1, 100, 2):
                cu.cuEventDestroy_v2(events[i])
        assert len(origins._origins) <= 2 * 102
        """
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_a_signal_while_an_origin_is_noted(run_python: Any) -> None:
    """What the handler raises would be lost, and the call that created the object would raise a SystemError."""
    run = run_python(
        """
        import signal
        import cudacore_sim._origins as origins
        context, event = c_void_p(), c_void_p()
        cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
        cudacore_sim.remember_origins()
        origins._limit = -1
        signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of shells ignore it
        origins._live = lambda: signal.raise_signal(signal.SIGINT)
        try:
            cu.cuEventCreate(byref(event), 0)
            sum(range(3))
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "interrupted\n", "")
