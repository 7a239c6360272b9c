# SPDX-License-Identifier: Apache-2.0
"""The example of the README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cudacore as core

README = Path(__file__).resolve().parents[3] / "README.md"


def example() -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return code


def test_example_compiles() -> None:
    """The README's example would not be Python, or its kernel would not be CUDA C++."""
    code = example()
    compile(code, README.name, "exec")
    (source,) = re.findall(r'source = """(.*?)"""', code, re.DOTALL)
    module = core.Program(source, "c++", core.ProgramOptions(std="c++17", arch="sm_90")).compile(
        "cubin", name_expressions=("axpy<float>",)
    )
    assert module.symbol_mapping.keys() == {"axpy<float>"}


def test_example_runs(device: core.Device, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A newcomer's first program, pasted from the README, would fail."""
    exec(compile(example().replace('"cubin"', repr(target)), README.name, "exec"), {})
    assert capsys.readouterr().out == "[3. 3. 3. 3.]\n"
