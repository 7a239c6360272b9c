# SPDX-License-Identifier: Apache-2.0
"""The examples of all READMEs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cudacore as core

PACKAGES = Path(__file__).resolve().parents[2]
README = PACKAGES.parent / "README.md"


def examples(readme: Path) -> list[str]:
    """Return the Python code of a README."""
    return re.findall(r"^```python\n(.*?)^```$", readme.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run(readme: Path, names: dict[str, Any], change: Callable[[str], str] = str) -> dict[str, Any]:
    """Run the examples of a README, one after the other, with the given names as global variables."""
    found = examples(readme)
    assert found
    for example in found:
        exec(compile(change(example), str(readme), "exec"), names)
    return names


def test_all_are_here() -> None:
    """A README with examples would have no test in this file."""
    tried = {"cudacore", "cudacore-compile", "cudacore-graph", "cudacore-sim"}
    assert {readme.parent.name for readme in PACKAGES.glob("*/README.md") if examples(readme)} == tried
    for readme in (README, *PACKAGES.glob("*/README.md")):
        text = readme.read_text(encoding="utf-8")
        assert len(examples(readme)) == text.count("```") / 2, f"{readme}: code that is not Python"


def test_example_runs(device: core.Device, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A newcomer's first program, pasted from the README, would fail."""
    assert len(examples(README)) == 1
    run(README, {}, lambda code: code.replace('"cubin"', repr(target)))
    assert capsys.readouterr().out == "[3. 3. 3. 3.]\n"


def test_umbrella() -> None:
    """PyPI's page of cudacore would begin with another text than the repository's README."""
    first_page, _, rest = README.read_text(encoding="utf-8").partition("New to CUDA?")
    assert rest
    assert (PACKAGES / "cudacore" / "README.md").read_text(encoding="utf-8").startswith(first_page)


def test_compile(capsys: pytest.CaptureFixture[str]) -> None:
    """The examples of the compilers would not compile, or not link."""
    try:
        names = run(PACKAGES / "cudacore-compile" / "README.md", {})
    except core.CUDAError as error:
        if "pip install" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])  # the error names a compiler that is not installed
    assert len(names["cubin"].code) > 0
    assert "scale<float>" in capsys.readouterr().out


def test_graph(device: core.Device, capsys: pytest.CaptureFixture[str]) -> None:
    """The README's example of graphs would call functions that do not exist."""
    names = run(PACKAGES / "cudacore-graph" / "README.md", {})
    values = bytearray(names["result"].size)
    names["result"].copy_to(values, stream=names["stream"])
    assert list(memoryview(values).cast("i")) == [1] * 16
    assert "3 nodes, 2 edges" in capsys.readouterr().out
    assert names["picture"].startswith("<svg")
    names.clear()


def test_simulator(device: core.Device, cuda_sim: Any) -> None:
    """The tests that the simulator's README shows would not pass."""
    names = run(PACKAGES / "cudacore-sim" / "README.md", {})
    names["test_speed"]()
    names["test_no_memory"](cuda_sim)
