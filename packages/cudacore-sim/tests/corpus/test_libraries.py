# SPDX-License-Identifier: Apache-2.0
"""Each kernel of the corpus that uses CUDA's libraries of headers gives the recorded results of a GPU."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from corpus.catalogue import Kernel, themes
from corpus.kernel_tests import check_reports, check_results, parameters_of
from corpus.machine import Program

FILES = [theme for theme in themes() if theme.folder == "libraries"]


@pytest.mark.parametrize(("program", "kernel"), parameters_of(FILES), indirect=["program"])
def test_kernel(program: Program, kernel: Kernel) -> None:
    """A kernel's results would differ from those of the GPU by more than its documented errors allow."""
    check_results(program, kernel)


@pytest.mark.cuda_sim
def test_checks_find_nothing(tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The simulator's checks would report a kernel that is correct."""
    check_reports(FILES, tmp_path, run_python)
