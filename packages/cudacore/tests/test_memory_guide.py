# SPDX-License-Identifier: Apache-2.0
"""The examples of the memory guide."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

import cudacore as core
import cudacore.utils

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "memory.rst"


def test_guide(device: Any) -> None:
    """What the guide shows would not work."""
    text = GUIDE.read_text(encoding="utf-8")
    examples = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    assert len(examples) == 9
    names: dict[str, Any] = {"core": core, "np": np, "device": device, "stream": device.create_stream()}
    for example in examples:
        exec(compile(textwrap.dedent(example), GUIDE.name, "exec"), names)
    names["stream"].sync()
    assert cudacore.utils is core.utils
    names.clear()
