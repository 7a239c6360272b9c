# SPDX-License-Identifier: Apache-2.0
"""Code that is invalid or incomplete, in separate processes, because the libraries could crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from compile_sources import FUNCTION, FUNCTION_IR, Python

from cudacore_compile import Linker, LinkerOptions, Program, ProgramOptions

TRY = """
import collections, random, sys
from cudacore_compile import CompilerError, Linker, LinkerOptions, Program, ProgramOptions
from cudacore_handles import CUDAError, ObjectCode

def attempt(kind, data):
    if kind in ("c++", "nvvm", "ptx program"):
        program = Program(data, kind.partition(" ")[0], ProgramOptions(arch="sm_90"))
        for target in ("ptx", "ltoir") if kind != "ptx program" else ("cubin",):
            program.compile(target)
    else:
        Linker(getattr(ObjectCode, f"from_{kind}")(data), options=LinkerOptions(arch="sm_90")).link("cubin")

def count(kind, inputs):
    results = collections.Counter()
    for data in inputs:
        try:
            attempt(kind, data)
            results["fine"] += 1
        except CompilerError as error:
            assert error.code_name and (error.log or error.hint), repr(error)
            results["refused"] += 1
        except (ValueError, CUDAError):  # of the driver's linker, where PTX says that it is of a newer version
            results["refused"] += 1
    print(results["fine"], results["refused"])
"""


@pytest.mark.parametrize("kind", ["c++", "nvvm", "ptx program", "ptx", "cubin", "ltoir", "fatbin", "object", "library"])
def test_random_bytes(kind: str, python: Python) -> None:
    """Bytes that are not code would crash the process, be compiled, or be refused without a clear error."""
    result = python(
        TRY
        + f"""
rng = random.Random(1)
count({kind!r}, [rng.randbytes(rng.randrange(1, 300)) for _ in range(30)])
"""
    )
    assert (result.returncode, result.stdout) == (0, "0 30\n"), result.stderr


@pytest.mark.parametrize("kind", ["nvvm", "ptx program", "ptx", "cubin", "ltoir"])
def test_truncated_code(kind: str, python: Python, tmp_path: Path) -> None:
    """A file that was not completely written would end the process, or be treated as complete."""
    path = tmp_path / "code"
    if kind == "nvvm":
        path.write_text(FUNCTION_IR)
    else:
        options = ProgramOptions(arch="sm_90", relocatable_device_code=True)
        target = kind.partition(" ")[0]
        path.write_bytes(bytes(Program(FUNCTION, "c++", options).compile(target).code))
    result = python(
        TRY
        + f"""
data = open({str(path)!r}, "rb").read()
rng = random.Random(1)
count({kind!r}, [data[: rng.randrange(1, len(data) * 9 // 10)] for _ in range(30)])
"""
    )
    assert result.returncode == 0, result.stderr
    fine, refused = map(int, result.stdout.split())
    assert fine + refused == 30
    # A text that happens to be cut off after a complete declaration is valid.
    assert fine <= (3 if kind in ("ptx", "ptx program", "nvvm") else 0)


def test_truncated_cubin_is_told() -> None:
    """A truncated cubin would be passed to nvJitLink, which reads beyond the cubin's end."""
    code = Program(FUNCTION, "c++", ProgramOptions(arch="sm_90", relocatable_device_code=True)).compile("cubin")
    for length in (10, 63, len(code.code) - 1):
        part = type(code).from_cubin(bytes(code.code)[:length], name="part")
        with pytest.raises(ValueError, match=f"^'part' is a truncated cubin: it has {length} bytes, and must have"):
            Linker(part, options=LinkerOptions(arch="sm_90")).link("cubin")
