# SPDX-License-Identifier: Apache-2.0
"""The table of targets in the guide to compiling."""

from __future__ import annotations

import re
from pathlib import Path

from cudacore_compile import SUPPORTED_TARGETS

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "compile.rst"


def test_table() -> None:
    """The guide's table would have targets that do not exist, or would lack existing ones."""
    guide = GUIDE.read_text(encoding="utf-8")
    rows = re.findall(r"   \* - ``\"([\w+]+)\"``.*\n     - .*\n     - (.*)\n", guide)
    shown = {name: tuple(re.findall(r'"(\w+)"', targets)) for name, targets in rows}
    assert shown == {str(name): tuple(map(str, targets)) for name, targets in SUPPORTED_TARGETS.items()}
