# SPDX-License-Identifier: Apache-2.0
"""The examples of the guide."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from cudacore_compile import SUPPORTED_TARGETS, cuda_include_path
from cudacore_handles import Device

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "compile.rst"

EXAMPLE = re.compile(r"^\.\. code-block:: python\n(   :class: headers\n)?\n((?:   .*\n|\n)+)", re.MULTILINE)


def has_headers() -> bool:
    try:
        return bool(cuda_include_path())
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def guide() -> str:
    return GUIDE.read_text(encoding="utf-8")


def test_guide(guide: str, device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    """What the guide shows would not work."""
    examples = EXAMPLE.findall(guide)
    assert len(examples) > 8
    names: dict[str, Any] = {"__name__": "guide"}  # whose child processes are not started
    for needs_headers, example in examples:
        if needs_headers and not has_headers():
            continue
        exec(compile(textwrap.dedent(example), GUIDE.name, "exec"), names)
    assert names["numbers"][63] == 127
    assert b".entry twice" in names["compile_elsewhere"](names["source"]).code
    out = capsys.readouterr().out
    assert "Nothing that is linked defines 'f': link what does" in out
    assert "info    :" in out
    names.clear()


def test_table(guide: str) -> None:
    """The guide's table would promise what is not there, or hide what is."""
    rows = re.findall(r"   \* - ``\"([\w+]+)\"``.*\n     - .*\n     - (.*)\n", guide)
    shown = {name: tuple(re.findall(r'"(\w+)"', targets)) for name, targets in rows}
    assert shown == {str(name): tuple(map(str, targets)) for name, targets in SUPPORTED_TARGETS.items()}
