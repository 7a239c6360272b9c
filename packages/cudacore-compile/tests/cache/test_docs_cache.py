# SPDX-License-Identifier: Apache-2.0
"""The examples of the guides to caches and batches, and to the command."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from cudacore_compile import NVFatbinError, NVJitLinkError
from cudacore_compile._command import main
from cudacore_compile._compilers import process_state as _process_state
from guide_programs import DOCS, blocks_of


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
    for block in blocks_of(name, "python", "console"):
        if "class" in block.options and not has_linkers():
            continue
        if block.language == "python":
            exec(compile(block.code, name, "exec"), names)
            continue
        for line in block.code.strip().splitlines():
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
    run_guide("compile-cache", 1)
    assert "1 of 2" in capsys.readouterr().out


def test_guide_to_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The examples of the guide would not work."""
    run_guide("command", 12)
    out, err = capsys.readouterr()
    assert "function.cu, ptx for sm_90: hit" in out
    assert Path("build/function.sm_80.cubin").exists()
    if has_linkers():
        assert "void scale<float>(float*, float)" in out
        lines = (DOCS / "command.rst").read_text(encoding="utf-8").splitlines()
        assert next(line.strip() for line in lines if line.startswith("   kernel  arch")) in err
