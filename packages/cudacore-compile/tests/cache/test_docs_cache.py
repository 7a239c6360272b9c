# SPDX-License-Identifier: Apache-2.0
"""The examples of the guides to caches and batches, and to the command."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest

from cudacore_compile import NVFatbinError, NVJitLinkError
from cudacore_compile._command import main
from cudacore_compile._compilers import process_state as _process_state

DOCS = Path(__file__).resolve().parents[4] / "docs"
EXAMPLE = re.compile(
    r"^\.\. code-block:: (?P<language>python|console)\n(?P<link>   :class: (?:fatbin|link)\n)?\n"
    r"(?P<code>(?:   .*\n|\n)+)",
    re.MULTILINE,
)


def has_linkers() -> bool:
    from cudacore_compile._compilers import nvjitlink
    from cudacore_compile._fatbin import _load

    try:
        _load()
        nvjitlink.load()
    except (NVFatbinError, NVJitLinkError):
        return False
    return True


def run_guide(name: str, least_commands: int) -> None:
    """Run the examples of a guide: Python programs and commands."""
    names: dict[str, Any] = {"__name__": "guide"}
    commands = 0
    for example in EXAMPLE.finditer((DOCS / name).read_text(encoding="utf-8")):
        if example["link"] and not has_linkers():
            continue
        code = textwrap.dedent(example["code"])
        if example["language"] == "python":
            exec(compile(code, name, "exec"), names)
            continue
        for line in code.strip().splitlines():
            prompt, command, *words = shlex.split(line)
            assert (prompt, command) == ("$", "cudacore-compile")
            assert main(words) == 0, line
            commands += 1
    assert commands >= least_commands or not has_linkers()


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_process_state, "_left", set())


def test_guide_to_caches(capsys: pytest.CaptureFixture[str]) -> None:
    """The examples of the guide would not work."""
    run_guide("compile-cache.rst", 1)
    assert "1 of 2" in capsys.readouterr().out


def test_guide_to_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The examples of the guide would not work."""
    run_guide("command.rst", 12)
    out, err = capsys.readouterr()
    assert "function.cu, ptx for sm_90: hit" in out
    assert Path("build/function.sm_80.cubin").exists()
    if has_linkers():
        assert "void scale<float>(float*, float)" in out
        lines = (DOCS / "command.rst").read_text(encoding="utf-8").splitlines()
        assert next(line.strip() for line in lines if line.startswith("   kernel  arch")) in err
