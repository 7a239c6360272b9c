# SPDX-License-Identifier: Apache-2.0
"""Reads of uninitialized memory are reported where their values matter: ``unused.cu``."""

from __future__ import annotations

from pathlib import Path

from running import Run, check_kernels, reports_of


def test_values_that_matter(run_python: Run, tmp_path: Path) -> None:
    """An uninitialized value that affects results would not be reported, or one that affects nothing would be."""
    check_kernels("unused", reports_of("unused", run_python, tmp_path, CHECK="init"), planted=6)
