# SPDX-License-Identifier: Apache-2.0
"""Blocks that write to the same place: a race if the values differ, or if another block reads."""

from __future__ import annotations

from pathlib import Path

from running import Run, check_kernels, reports_of


def test_writes_of_blocks(run_python: Run, tmp_path: Path) -> None:
    """Blocks that all write the same value would be reported, or blocks that write different values would not be."""
    check_kernels("blocks", reports_of("blocks", run_python, tmp_path, CHECK="race"), planted=2)
