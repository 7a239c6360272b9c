# SPDX-License-Identifier: Apache-2.0
"""Compilations of programs: targets, names, logs, errors and precompiled headers."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compile_sources import TEMPLATES

from cudacore_compile import NVRTCError, Program, ProgramOptions
from cudacore_compile._compilers import nvrtc as _nvrtc
from cudacore_compile.typing import PCHStatusType
from cudacore_handles import CUDAError
from cudacore_handles._sdk.compile import Compiler

SM_90 = ProgramOptions(arch="sm_90")
KERNEL = 'extern "C" __global__ void k(int *p) { *p = 1234; }'
WARNING = 'extern "C" __global__ void k() { int unused; }'


def test_compiling_again_gives_the_same() -> None:
    """A program could be compiled only once, or its second compilation would depend on the first."""
    program = Program(TEMPLATES, "c++", SM_90)
    first = program.compile("ptx", ["f<int>"])
    other = program.compile("ptx", ["f<char>"])
    again = program.compile("ptx", ["f<int>"])
    assert first.code == again.code != other.code
    assert other.symbol_mapping.keys() == {"f<char>"}


@pytest.mark.parametrize("target", ["ptx", "cubin", "ltoir"])
def test_name_expressions(target: str) -> None:
    """Templates would not be instantiated, or not be found by the name that was given."""
    names = ("f<int>", b"f<float, 2>", "f< double >", "&n::variable", "&n::constant", "f<int>")
    code = Program(TEMPLATES, "c++", SM_90).compile(target, names)
    assert code.symbol_mapping == {
        "f<int>": "_Z1fIiLi1EEvPT_",
        "f<float, 2>": "_Z1fIfLi2EEvPT_",
        "f< double >": "_Z1fIdLi1EEvPT_",
        "&n::variable": "_ZN1n8variableE",
        "&n::constant": "_ZN1n8constantE",
    }
    if target != "ltoir":
        assert all(symbol.encode() in code.code for symbol in code.symbol_mapping.values())


def test_wrong_name_expressions() -> None:
    """The error would not tell which of many name expressions is wrong."""
    names = ["f<int>", "g< int >", "f<nonsense>", "n::variable"]
    with pytest.raises(NVRTCError) as caught:
        Program(TEMPLATES, "c++", SM_90).compile("ptx", names)
    assert "name nothing in the program: 'g< int >', 'f<nonsense>', 'n::variable'. " in caught.value.hint
    assert 'identifier "g" is undefined' in caught.value.log


@pytest.mark.parametrize(
    ("names", "error", "match"),
    [
        ("f<int>", TypeError, r"must be a list or tuple, not str; write \['f<int>'\]"),
        (3, TypeError, "name_expressions must be a list or tuple, not int"),
        ([1], TypeError, "items of name_expressions must be str or bytes, not int"),
        ([" "], ValueError, "a name expression is empty"),
        (["f\0"], ValueError, "a name expression has a NUL character"),
        ([b"\xff"], ValueError, "a name expression is not UTF-8"),
    ],
)
def test_bad_name_expressions(names: Any, error: type[Exception], match: str) -> None:
    """Each character of a str would be treated as a name, or the error would not give a reason."""
    program = Program(TEMPLATES, "c++", SM_90)
    with pytest.raises(error, match=match):
        program.compile("ptx", names)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (None, []),
        ((), []),
        ({"f<int>"}, ["f<int>"]),
        ({"f<int>": 1}, ["f<int>"]),
        (iter(["f<int>"]), ["f<int>"]),
        ([bytearray(b"f<int>")], ["f<int>"]),
    ],
)
def test_kinds_of_name_expressions(names: Any, found: list[str]) -> None:
    """No names, or names in a collection other than a list, would cause an error or be lost."""
    assert list(Program(TEMPLATES, "c++", SM_90).compile("ptx", names).symbol_mapping) == found


def test_logs_of_success() -> None:
    """Warnings would be lost, or something would be written although the log is empty."""
    logs = io.StringIO()
    Program(WARNING, "c++", SM_90).compile("ptx", logs=logs)
    assert logs.getvalue().startswith('default_program(1): warning #177-D: variable "unused"')
    assert "\0" not in logs.getvalue()
    Program(KERNEL, "c++", SM_90).compile("ptx", (), NotToBeWritten())


class NotToBeWritten:
    def write(self, text: str) -> None:
        raise AssertionError(text)


def test_log_of_several_phases() -> None:
    """NULs between the outputs of the compiler's phases would stay in the log."""
    logs = io.StringIO()
    options = ProgramOptions(arch="sm_90", ptxas_options="-v", no_cache=True)  # NVRTC's cache has no logs
    Program(WARNING, "c++", options).compile("cubin", logs=logs)
    assert "warning #177-D" in logs.getvalue()
    assert re.search("(ptxas )?info +:", logs.getvalue())  # the name of the phase depends on the compiler's version
    assert "\0" not in logs.getvalue()


def test_log_that_is_not_utf_8() -> None:
    """Instead of the compiler's error, a program that is not UTF-8 would get an error about the encoding of the log."""
    with pytest.raises(NVRTCError, match="NVRTC_ERROR_COMPILATION") as caught:
        Program(b'#error "caf\xe9 \xff"\n__device__ int x = undefined;', "c++", SM_90).compile("ptx")
    assert 'identifier "undefined"' in caught.value.log or "caf" in caught.value.log


def test_logs_without_write() -> None:
    """An invalid `logs` would be detected only after the compilation."""
    with pytest.raises(TypeError, match="logs must have a write method, which list lacks"):
        Program(KERNEL, "c++", SM_90).compile("ptx", logs=[])


def test_empty_log_leaves_interpreter_alone() -> None:
    """NVRTC would write the NUL of an empty log into Python's shared object for that bytes value."""
    Program(KERNEL, "c++", SM_90).compile("ptx", logs=io.StringIO())
    assert [bytes([n])[0] for n in range(256)] == list(range(256))


def test_error() -> None:
    """An error would not have the operation, the options and the compiler's log."""
    options = ProgramOptions(name="a b.cu", arch="sm_90", define_macro=("X", "1 + 2"))
    logs = io.StringIO()
    with pytest.raises(NVRTCError) as caught:
        Program("__device__ int x = X + undefined;", "c++", options).compile("ptx", logs=logs)
    error = caught.value
    assert logs.getvalue() == error.log
    assert isinstance(error, CUDAError)
    assert (error.operation, error.code, error.code_name) == ("nvrtcCompileProgram", 6, "NVRTC_ERROR_COMPILATION")
    assert error.log.startswith('a b.cu(1): error: identifier "undefined" is undefined')
    assert error.command == "nvrtc -arch=compute_90 '--define-macro=X=1 + 2' 'a b.cu'"
    lines = str(error).splitlines()
    assert lines[0] == "nvrtcCompileProgram: NVRTC_ERROR_COMPILATION (6): the program does not compile"
    assert lines[-1] == f"The command was: {error.command}"


def test_program_is_usable_after_error() -> None:
    """One failure would make a program, or the compiler, unusable."""
    program = Program(TEMPLATES, "c++", SM_90)
    with pytest.raises(NVRTCError):
        program.compile("ptx", ["nonsense"])
    with pytest.raises(ValueError, match='Unsupported target_type="fatbin"'):
        program.compile("fatbin")
    assert program.compile("ptx", ["f<int>"]).code


@pytest.mark.parametrize(
    ("options", "status"),
    [({}, None), ({"pch": False}, None), ({"pch": True}, "created"), ({"create_pch": "a.pch"}, "created")],
)
def test_pch_status(options: dict[str, Any], status: str | None, tmp_path: Path) -> None:
    """The status would not tell whether a precompiled header was created."""
    program = Program(KERNEL, "c++", ProgramOptions(arch="sm_90", pch_dir=tmp_path, **options))
    assert program.pch_status is None
    program.compile("ptx")
    assert program.pch_status == (None if status is None else PCHStatusType(status))


PRECOMPILE = """
import io, os, sys
from cudacore_compile import Program
logs = io.StringIO()
source = '#include <header.h>\\nextern "C" __global__ void k(int *p) { *p = VALUE; }'
options = {"arch": "sm_90", "pch": True, "pch_dir": sys.argv[1], "include_path": sys.argv[1]}
assert b"1234" in Program(source, "c++", options).compile("ptx", logs=logs).code
print([word for word in logs.getvalue().split('"') if word.startswith(sys.argv[1])][0])
"""


def test_processes_that_share_a_pch_dir(tmp_path: Path) -> None:
    """NVRTC of one process would delete the precompiled headers that another one uses: errors, or the process ends."""
    (tmp_path / "header.h").write_text("#define VALUE 1234\n")
    command = [sys.executable, "-c", PRECOMPILE, str(tmp_path)]
    made = [Path(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout) for _ in range(2)]
    assert {path.parent.parent for path in made} == {tmp_path}
    assert made[0].parent != made[1].parent
    assert [path.name for path in tmp_path.iterdir()] == ["header.h"]  # the processes remove what they made


def test_pch_that_is_not_made_again(tmp_path: Path) -> None:
    """The status would not distinguish between an existing precompiled header that was used and a new one."""
    program = Program(KERNEL, "c++", ProgramOptions(arch="sm_90", pch=True, pch_dir=tmp_path))
    statuses = []
    for _ in range(2):
        program.compile("ptx")
        statuses.append(program.pch_status)
    assert statuses == [PCHStatusType.CREATED, PCHStatusType.NOT_ATTEMPTED]


@pytest.mark.parametrize("options", [{"pch": True}, {"create_pch": "a.pch"}])
def test_pch_heap_grows(options: dict[str, Any], tmp_path: Path) -> None:
    """A precompiled header that NVRTC's heap is too small for would never be made."""
    nvrtc = _nvrtc.load()
    before = nvrtc.number("nvrtcGetPCHHeapSize")
    logs = io.StringIO()
    program = Program(KERNEL, "c++", ProgramOptions(arch="sm_90", pch_dir=tmp_path, **options))
    nvrtc.call("nvrtcSetPCHHeapSize", 4096)
    try:
        code = program.compile("ptx", logs=logs)
        assert 4096 < nvrtc.number("nvrtcGetPCHHeapSize") < before
    finally:
        nvrtc.call("nvrtcSetPCHHeapSize", before)
    assert program.pch_status is PCHStatusType.CREATED
    assert "insufficient" not in logs.getvalue()
    assert any(tmp_path.iterdir())
    assert b"1234" in code.code


def test_pch_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If the heap cannot grow, programs would be compiled again and again, or the status would be wrong."""
    nvrtc = _nvrtc.load()
    before = nvrtc.number("nvrtcGetPCHHeapSize")
    number = Compiler.number

    def no_more_is_required(library: Compiler, name: str, *arguments: Any) -> int:
        return 4096 if name == "nvrtcGetPCHHeapSizeRequired" else number(library, name, *arguments)

    monkeypatch.setattr(Compiler, "number", no_more_is_required)
    program = Program(KERNEL, "c++", ProgramOptions(arch="sm_90", pch_dir=tmp_path, pch=True))
    nvrtc.call("nvrtcSetPCHHeapSize", 4096)
    try:
        program.compile("ptx")
    finally:
        nvrtc.call("nvrtcSetPCHHeapSize", before)
    assert program.pch_status is PCHStatusType.FAILED


@pytest.mark.parametrize("options", [{}, {"debug": True}, {"lineinfo": True}, {"relocatable_device_code": True}])
def test_intermediate_ptx(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The PTX of a cubin would need a second compilation, or would come from a compilation of other code."""
    program = Program(TEMPLATES, "c++", ProgramOptions(arch="sm_90", **options))
    assert program.intermediate_ptx is None
    expected = program.compile("ptx", ["f<int>"])
    assert program.intermediate_ptx is None
    program.compile("cubin", ["f<int>"])
    with monkeypatch.context() as patch:
        patch.setattr(_nvrtc.NVRTC, "_compile", None)
        found = program.intermediate_ptx
    assert found is not None
    assert (found.code_type, found.code, found.symbol_mapping) == ("ptx", expected.code, expected.symbol_mapping)
    program.compile("ltoir", ["f<int>"])
    assert program.intermediate_ptx is None
    program.close()
    with pytest.raises(ValueError, match="Program has been closed"):
        program.intermediate_ptx  # noqa: B018
