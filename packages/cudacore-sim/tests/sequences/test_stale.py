# SPDX-License-Identifier: Apache-2.0
"""Calls on destroyed handles: each call is reported, and the report describes what happens on an H200."""

from __future__ import annotations

import pytest
import record_stale
from recorder import Recorder
from stale import CALLS, STALE

import cudacore_sim
from cudacore_sim.pytest_plugin import CHOICE

OUTCOMES = record_stale.read(record_stale.FILE)


@pytest.mark.parametrize("name", STALE)
def test_stale_handle(pytestconfig: pytest.Config, name: str) -> None:
    """The use of a destroyed handle would not be reported, or the report would not describe the effect on a GPU."""
    if pytestconfig.stash[CHOICE] == "gpu":
        pytest.skip("ci/gpu.sh compares these in processes that may crash")
    outcome = OUTCOMES[CALLS[name].function, CALLS[name].kind]
    cudacore_sim.load()
    cudacore_sim.reset()
    listing: list[str] = []
    try:
        STALE[name](Recorder(cudacore_sim.get_library(), listing.append))
        reports = [report for report in cudacore_sim.reports() if "that was destroyed" in report]
    finally:
        cudacore_sim.reset_device()
        cudacore_sim.reset()
    assert reports, "there is no report"
    assert reports[0].endswith(f": here the driver {outcome}")
    # A real driver may return a code such as NOT_READY that it reads from freed memory; the simulator returns another
    # error.
    assert "CUDA_SUCCESS" not in listing[-1] or outcome == "returns CUDA_SUCCESS"


def test_every_call_is_recorded() -> None:
    """A case would have no recorded result of a GPU, or a recorded result would have no case."""
    if not record_stale.FILE.exists():
        pytest.skip("the simulator's sources are not there")
    assert set(OUTCOMES) == {(call.function, call.kind) for call in CALLS.values()}
    assert record_stale.FILE.read_text(encoding="utf-8").startswith(record_stale.BEGIN)
