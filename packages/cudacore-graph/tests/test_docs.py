# SPDX-License-Identifier: Apache-2.0
"""The examples of the guide."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from graph_tools import ONE, Numbers

import cudacore_handles as ch

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "graph" / "index.rst"


def test_guide(
    device: ch.Device, stream: ch.Stream, code: ch.ObjectCode, numbers: Numbers, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the guide shows would not work."""
    examples = re.findall(
        r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", GUIDE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(examples) > 8
    counted = memoryview(bytearray(8)).cast("I")
    counted[1] = 3
    names = {
        "device": device,
        "stream": stream,
        "one": ONE,
        "numbers": numbers.buffer,
        "add": code.get_kernel("add"),
        "count_down": code.get_kernel("count_down"),
        "counted": counted,
    }
    for example in examples:
        exec(compile(textwrap.dedent(example), GUIDE.name, "exec"), names)
    stream.sync()
    assert "GraphDefinition" in capsys.readouterr().out
    names.clear()
