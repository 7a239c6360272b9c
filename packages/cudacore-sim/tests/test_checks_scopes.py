# SPDX-License-Identifier: Apache-2.0
"""Races of what atomics and fences order for the threads of their scope alone: ``checks/scopes.cu``."""

from __future__ import annotations

from pathlib import Path

from test_checks import Run, kernels_of, problem_with, reports_of

NAME = "scopes"


def test_kernels(run_python: Run, tmp_path: Path) -> None:
    """What orders threads of one block would hide races of several, or be no order where it is one."""
    reports = reports_of(NAME, run_python, tmp_path, CHECK="race")
    problems = {one.name: problem_with(one, reports[one.name], f"{NAME}.cu") for one in kernels_of(NAME)}
    assert not "\n".join(f"{name}: {problem}" for name, problem in problems.items() if problem)
    assert sum(bool(one.text) for one in kernels_of(NAME)) >= 8
