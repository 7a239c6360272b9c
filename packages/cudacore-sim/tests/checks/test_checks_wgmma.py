# SPDX-License-Identifier: Apache-2.0
"""Undefined behaviour of programs with wgmma: ``checks/wgmma.cu``."""

from __future__ import annotations

from pathlib import Path

from running import Run, check_kernels, reports_of

NAME = "wgmma"


def test_kernels(run_python: Run, tmp_path: Path) -> None:
    """A missing wait or fence would not be found, or a correct kernel would be reported."""
    check_kernels(NAME, reports_of(NAME, run_python, tmp_path, "compute_90a", CHECK="race,sync"), planted=12)


def test_matrices_that_nobody_wrote(run_python: Run, tmp_path: Path) -> None:
    """Products of uninitialized memory would not be reported, or those of initialized memory would be."""
    reports = reports_of(NAME, run_python, tmp_path, "compute_90a", CHECK="init")
    assert "uninitialized read of 16 bytes" in reports["half_a_matrix"][0]
    assert "'half_a_matrix::left' + " in reports["half_a_matrix"][0]
    assert not {name: said for name, said in reports.items() if said and name.endswith("_right")}


def test_nothing_is_said_without(run_python: Run, tmp_path: Path) -> None:
    """Checks that were not requested would fail correct programs."""
    assert not any(reports_of(NAME, run_python, tmp_path, "compute_90a").values())
