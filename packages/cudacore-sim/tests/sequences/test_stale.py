# SPDX-License-Identifier: Apache-2.0
"""Destroyed handles: each call on one is reported, and the report names what an H200 does."""

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
    # Codes that the driver reads from freed memory, such as NOT_READY of an event, are not returned here.
    assert "CUDA_SUCCESS" not in listing[-1] or outcome == "returns CUDA_SUCCESS"


def test_every_call_is_recorded() -> None:
    """A call would be reported without the effect on a GPU, or the file would have calls that no case makes."""
    if not record_stale.FILE.exists():
        pytest.skip("the simulator's sources are not there")
    assert set(OUTCOMES) == {(call.function, call.kind) for call in CALLS.values()}
    assert record_stale.FILE.read_text(encoding="utf-8").startswith(record_stale.BEGIN)
