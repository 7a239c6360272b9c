# SPDX-License-Identifier: Apache-2.0
"""The examples of the guide."""

from __future__ import annotations

import html
import os
import re
import textwrap
from pathlib import Path

import pytest
from graph_tools import ONE, Numbers

import cudacore_handles as ch
from cudacore_graph import GraphDefinition

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "graph" / "index.rst"
PICTURES = {"definition.svg": "definition", "loop.svg": "looping"}  # of what the guide builds
_ADDRESS = re.compile(r"\.\.[0-9a-f]{6}|0x[0-9a-f]+")


def test_guide(
    device: ch.Device,
    stream: ch.Stream,
    add: ch.Kernel,
    conditional: ch.ObjectCode,
    numbers: Numbers,
    capsys: pytest.CaptureFixture[str],
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
        "add": add,
        "count_down": conditional.get_kernel("count_down"),
        "counted": counted,
    }
    for example in examples:
        exec(compile(textwrap.dedent(example), GUIDE.name, "exec"), names)
    stream.sync()
    assert "GraphDefinition" in capsys.readouterr().out
    for picture, name in PICTURES.items():
        check_picture(GUIDE.with_name(picture), names[name])
    names.clear()


def check_picture(file: Path, definition: GraphDefinition) -> None:
    """Compare a picture of the guide with what it shows; CUDACORE_DRAW=1 draws it anew, with Graphviz."""
    if os.environ.get("CUDACORE_DRAW"):
        file.write_text(definition.to_svg(), encoding="utf-8")
    labels = re.findall(r'label="(.*?)"', definition.to_dot())
    drawn = re.findall(r"<text [^>]*>(.*?)</text>", file.read_text(encoding="utf-8"))
    assert sorted(_ADDRESS.sub("", html.unescape(line)) for line in drawn) == sorted(
        _ADDRESS.sub("", line) for label in labels for line in label.split("\\n") if line
    )
