# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from compile_sources import FUNCTION_IR

from cudacore_compile import SUPPORTED_TARGETS, Program, ProgramOptions, typing
from cudacore_compile.typing import ObjectCodeFormatType, SourceCodeType
from cudacore_handles import UnsupportedCodeError

TABLE = re.escape(
    "this release compiles 'c++' to 'ptx', 'cubin', 'ltoir', 'optixir'; 'ptx' to 'cubin'; 'nvvm' to 'ptx', 'ltoir'"
)
SOURCES = {
    "c++": "__device__ int x;",
    "ptx": ".version 7.8\n.target sm_90\n.address_size 64\n.visible .global .align 4 .u32 x;\n",
    "nvvm": FUNCTION_IR,
}
STARTS = {"ptx": b"//\n", "cubin": b"\x7fELF", "ltoir": b"\xedCN\x7f", "optixir": b""}


@pytest.mark.parametrize("code_type", list(SourceCodeType))
def test_table_is_what_works(code_type: SourceCodeType) -> None:
    """The table would have targets that cannot be compiled, or lack targets that can be compiled."""
    program = Program(SOURCES[code_type], code_type, ProgramOptions(arch="sm_90", name="my program"))
    for target in ObjectCodeFormatType:
        if target in SUPPORTED_TARGETS[code_type]:
            code = program.compile(target)
            assert (code.code_type, type(code.code_type), code.name) == (target, str, "my program")
            assert code.code.startswith(STARTS[target])
            assert target != "ptx" or code.code.endswith(b"\n")  # and not with a NUL
        else:
            what = rf"target_type=\"{target}\" for code_type='{re.escape(code_type)}'"
            with pytest.raises(UnsupportedCodeError, match=f"^Unsupported {what}: {TABLE}$"):
                program.compile(target)


def test_table_takes_strings_and_cannot_be_changed() -> None:
    """The table could not be used with plain strings, or could be changed by callers."""
    assert "cubin" in SUPPORTED_TARGETS["c++"]  # type: ignore[index]
    with pytest.raises(TypeError):
        SUPPORTED_TARGETS["c++"] = ()  # type: ignore[index]


@pytest.mark.parametrize("code_type", ["fortran", "cubin", ""])
def test_code_types_that_are_not_there(code_type: str) -> None:
    """An unknown type of source code would not be refused before it reaches the compiler."""
    with pytest.raises(UnsupportedCodeError, match=rf"^Unsupported code_type='{code_type}': {TABLE}$"):
        Program("__device__ int x;", code_type)


@pytest.mark.parametrize("value", [None, 1, b"ptx"])
def test_wrong_types(value: Any) -> None:
    """A name that is not a str would be looked up instead of being refused."""
    with pytest.raises(TypeError, match="code_type must be a str or SourceCodeType"):
        Program("__device__ int x;", value)
    program = Program("__device__ int x;", "c++", ProgramOptions(arch="sm_90"))
    with pytest.raises(TypeError, match="target_type must be a str or ObjectCodeFormatType"):
        program.compile(value)


def test_case_does_not_matter() -> None:
    """Programs that write "C++" or "PTX" in capitals would not run."""
    assert Program("__device__ int x;", "C++", ProgramOptions(arch="sm_90")).compile("PTX").code_type == "ptx"


GUIDE = Path(__file__).resolve().parents[4] / "docs" / "compile.rst"


def test_table_in_the_guide() -> None:
    """The guide's table would have targets that do not exist, or would lack existing ones."""
    guide = GUIDE.read_text(encoding="utf-8")
    rows = re.findall(r"   \* - ``\"([\w+]+)\"``.*\n     - .*\n     - (.*)\n", guide)
    shown = {name: tuple(re.findall(r'"(\w+)"', targets)) for name, targets in rows}
    assert shown == {str(name): tuple(map(str, targets)) for name, targets in SUPPORTED_TARGETS.items()}


@pytest.mark.parametrize(
    ("member", "value"),
    [
        (typing.SourceCodeType.CXX, "c++"),
        (typing.ObjectCodeFormatType.LTOIR, "ltoir"),
        (typing.CompilerBackendType.NVJITLINK, "nvJitLink"),
        (typing.PCHStatusType.NOT_ATTEMPTED, "not_attempted"),
    ],
)
def test_members_are_their_strings(member: str, value: str) -> None:
    """On some versions of Python, a member would not print, compare or hash like its string."""
    assert member == value
    assert str(member) == f"{member}" == value
    assert f"{member:>14}" == f"{value:>14}"
    assert {value: 1}[member] == 1
    assert isinstance(member, str)
