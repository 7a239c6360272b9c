# SPDX-License-Identifier: Apache-2.0
"""The examples of the guide to caches, batches and the command."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest

from cudacore_compile import NVFatbinError
from cudacore_compile._command import main
from cudacore_compile._compilers import process_state as _process_state

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "compile-cache.rst"
EXAMPLE = re.compile(
    r"^\.\. code-block:: (?P<language>python|console)\n(?P<fatbin>   :class: fatbin\n)?\n(?P<code>(?:   .*\n|\n)+)",
    re.MULTILINE,
)


def has_nvfatbin() -> bool:
    from cudacore_compile._fatbin import _load

    try:
        _load()
    except NVFatbinError:
        return False
    return True


def test_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What the guide shows would not work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_process_state, "_left", set())
    examples = list(EXAMPLE.finditer(GUIDE.read_text(encoding="utf-8")))
    assert len(examples) > 10
    names: dict[str, Any] = {"__name__": "guide"}
    commands = 0
    for example in examples:
        if example["fatbin"] and not has_nvfatbin():
            continue
        code = textwrap.dedent(example["code"])
        if example["language"] == "python":
            exec(compile(code, GUIDE.name, "exec"), names)
            continue
        for line in code.strip().splitlines():
            prompt, command, *words = shlex.split(line)
            assert (prompt, command) == ("$", "cudacore-compile")
            assert main(words) == 0, line
            commands += 1
    assert commands >= 6
    out = capsys.readouterr().out
    assert "1 of 2" in out
    assert "void scale<float>(float*, float)" in out
    assert Path("build/kernel.sm_80.cubin").exists()
