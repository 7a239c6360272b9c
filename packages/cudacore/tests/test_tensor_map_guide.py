# SPDX-License-Identifier: Apache-2.0
"""The example of the guide about tensor maps."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

import cudacore

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "tensor-maps.rst"


def test_guide() -> None:
    """What the guide shows would not work."""
    device = cudacore.Device()
    device.set_current()
    if not device.properties.tensor_map_access_supported:
        pytest.skip("needs tensor maps: compute capability 9.0")
    text = GUIDE.read_text(encoding="utf-8")
    examples = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    assert examples
    names = {"device": device, "stream": device.create_stream()}
    for example in examples:
        exec(compile(textwrap.dedent(example), GUIDE.name, "exec"), names)
    assert "swizzle=SWIZZLE_128B" in repr(names["tensor_map"])
    names.clear()
