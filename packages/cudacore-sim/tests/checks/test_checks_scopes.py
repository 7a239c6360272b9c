# SPDX-License-Identifier: Apache-2.0
"""Races of atomics and fences that order only the threads of their scope: ``checks/scopes.cu``."""

from __future__ import annotations

from pathlib import Path

from running import Run, check_kernels, reports_of

NAME = "scopes"


def test_kernels(run_python: Run, tmp_path: Path) -> None:
    """Atomics with block scope would hide races between blocks, or would not order the threads of one block."""
    check_kernels(NAME, reports_of(NAME, run_python, tmp_path, CHECK="race"), planted=8)
