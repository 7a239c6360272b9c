# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import gc
import io
import pickle
import re
import subprocess
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cudacore_compile import NVRTCError, Program, ProgramOptions
from cudacore_compile._compilers import nvrtc as _nvrtc
from cudacore_compile.typing import CompilerBackendType, ObjectCodeFormatType, PCHStatusType, SourceCodeType
from cudacore_handles import (
    CUDAError,
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    launch,
    live_counts,
)
from cudacore_handles._compiler import compilers
from threads_at_once import in_threads

Run = Callable[..., subprocess.CompletedProcess[str]]

SM_90 = ProgramOptions(arch="sm_90")
KERNEL = 'extern "C" __global__ void k(int *p) { *p = 1234; }'
TEMPLATES = """
template <typename T, int N = 1> __global__ void f(T *p) { *p = N; }
namespace n {
__device__ int variable;
__constant__ float constant;
}
"""
WARNING = 'extern "C" __global__ void k() { int unused; }'


def live() -> int:
    gc.collect()
    return live_counts()["nvrtc_program"]


# ---- source code


@pytest.mark.parametrize("kind", [str, str.encode, lambda text: bytearray(text, "ascii")])
def test_kinds_of_source(kind: Callable[[str], Any]) -> None:
    """Source code that is not a str would compile to other code."""
    assert b"1234" in Program(kind(KERNEL), "c++", SM_90).compile("ptx").code


def test_source_is_utf_8() -> None:
    """Characters that are not ASCII would be lost on the way to the compiler."""
    assert Program('static_assert(sizeof("ß") == 3);', "c++", SM_90).compile("ptx").code


def test_program_keeps_its_source() -> None:
    """Changing a bytearray or the headers would change the program that was made of it."""
    source = bytearray(b'#include "a.h"\nstatic_assert(A == 1);')
    headers: dict[str, str | bytes] = {"a.h": "#define A 1"}
    program = Program(source, "c++", SM_90, headers=headers)
    source[:] = b"nonsense"
    headers["a.h"] = "#define A 2"
    assert program.compile("ptx").code


def test_program_keeps_its_options() -> None:
    """Changing the options, or a list in them, would change the program that was made of them."""
    options = ProgramOptions(arch="sm_90", define_macro=["A=1"])
    program = Program("static_assert(A == 1);", "c++", options)
    assert isinstance(options.define_macro, list)
    options.define_macro.append("nonsense = 2")
    options.arch = "sm_80"
    assert b"sm_90" in program.compile("ptx").code


@pytest.mark.parametrize(
    ("code", "error", "match"),
    [
        (None, TypeError, "code must be a str, bytes or bytearray, not NoneType"),
        (Path("kernel.cu"), TypeError, "not PosixPath"),
        (memoryview(b"x"), TypeError, "not memoryview"),
        ("int x;\0int y;", ValueError, "code has a NUL character at byte 6"),
        ("\ud800", ValueError, "code is not Unicode text"),
    ],
)
def test_bad_source(code: Any, error: type[Exception], match: str) -> None:
    """The compiler would read only a part of the source, or the error would not give a reason."""
    with pytest.raises(error, match=match):
        Program(code, "c++", SM_90)


@pytest.mark.parametrize("target", ["ptx", "cubin", "ltoir"])
def test_empty_program(target: str) -> None:
    """A library that compiles an empty program, as numba-cuda does to find the compiler, would not start."""
    for code in ("", b""):
        assert Program(code, "c++", SM_90).compile(target).code
    with pytest.raises(ValueError, match="code must not be empty: there is no ptx to compile"):
        Program("", "ptx", SM_90)


def test_options_as_a_dict() -> None:
    """Options in a dict would not be accepted, or would not be checked."""
    given = {"arch": "sm_90", "lineinfo": True}
    code = Program(KERNEL, "c++", given).compile("ptx").code
    assert code == Program(KERNEL, "c++", ProgramOptions(arch="sm_90", lineinfo=True)).compile("ptx").code
    assert given == {"arch": "sm_90", "lineinfo": True}
    with pytest.raises(ValueError, match=r"ProgramOptions\.arch='hopper'"):
        Program(KERNEL, "c++", {"arch": "hopper"})


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ("sm_90", "The Program options must be provided as an object of type ProgramOptions or as a dict of its"),
        (
            {"fast_math": True},
            "ProgramOptions got an unexpected keyword argument 'fast_math' in options; did you mean 'use_fast_math'",
        ),
    ],
)
def test_bad_options(options: Any, match: str) -> None:
    """Values that are not options would be accepted."""
    with pytest.raises(TypeError, match=match):
        Program(KERNEL, "c++", options)


def test_options_of_other_languages() -> None:
    """Options that this program does not support would be refused only at the compilation, or ignored silently."""
    with pytest.raises(ValueError, match=r"^extra_sources is not supported by the NVRTC backend"):
        Program(KERNEL, "c++", ProgramOptions(extra_sources=[("a", b"source")]))
    with pytest.warns(RuntimeWarning, match=r"^ProgramOptions.use_libdevice: without effect on C\+\+ programs"):
        Program(KERNEL, "c++", ProgramOptions(arch="sm_90", use_libdevice=True)).compile("ptx")


def test_headers() -> None:
    """Headers in memory would not be found, or not before files of the same name."""
    source = '#include "a.h"\n#include <dir/b.h>\nextern "C" __global__ void k(int *p) { p[0] = A; p[1] = B; }'
    headers: dict[str, str | bytes] = {"a.h": "#define A 1111 // ä", "dir/b.h": b"#define B 2222"}
    text = Program(source, "c++", SM_90, headers=headers).compile("ptx").code
    assert b"1111" in text
    assert b"2222" in text


@pytest.mark.parametrize(
    ("headers", "error", "match"),
    [
        ("a.h", TypeError, "headers must be a mapping of names to contents, not str"),
        ({b"a.h": ""}, TypeError, "names in headers must be str, not bytes"),
        ({"": ""}, ValueError, "a name in headers is empty"),
        ({"a\0.h": ""}, ValueError, "a name in headers has a NUL character"),
        ({"a.h": None}, TypeError, r"headers\['a.h'\] must be a str, bytes or bytearray, not NoneType"),
        ({"a.h": "x\0"}, ValueError, r"headers\['a.h'\] has a NUL character at byte 1"),
    ],
)
def test_bad_headers(headers: Any, error: type[Exception], match: str) -> None:
    """The compiler would read only a part of a header, or fail without naming the header."""
    with pytest.raises(error, match=match):
        Program(KERNEL, "c++", SM_90, headers=headers)


# ---- compiling


def test_targets() -> None:
    """A target would produce code of another format, PTX with a NUL at its end, or code without its type."""
    program = Program(KERNEL, SourceCodeType.CXX, ProgramOptions(name="my program", arch="sm_90"))
    ptx, cubin, ltoir = (program.compile(target) for target in ("ptx", ObjectCodeFormatType.CUBIN, "ltoir"))
    starts = {"ptx": b"//\n// Generated by NVIDIA NVVM", "cubin": b"\x7fELF", "ltoir": b"\xedCN\x7f"}
    for code, kind in ((ptx, "ptx"), (cubin, "cubin"), (ltoir, "ltoir")):
        assert (code.code_type, type(code.code_type), code.name) == (kind, str, "my program")
        assert isinstance(code.code, bytes)
        assert code.code.startswith(starts[kind])
        assert kind != "ptx" or code.code.endswith(b"\n")


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
    """Each character would be treated as a name, or the error would not give a reason."""
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
    """Warnings would be lost, or something would be written although there is no log."""
    logs = io.StringIO()
    Program(WARNING, "c++", SM_90).compile("ptx", logs=logs)
    assert logs.getvalue().startswith('default_program(1): warning #177-D: variable "unused"')
    assert "\0" not in logs.getvalue()
    Program(KERNEL, "c++", SM_90).compile("ptx", (), NotToBeWritten())


class NotToBeWritten:
    def write(self, text: str) -> None:
        raise AssertionError(text)


def test_logs_of_failure() -> None:
    """The log would be lost on the way when the program does not compile."""
    logs = io.StringIO()
    with pytest.raises(NVRTCError) as caught:
        Program("nonsense", "c++", SM_90).compile("cubin", logs=logs)
    assert logs.getvalue() == caught.value.log != ""


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
    with pytest.raises(TypeError, match="logs must have a write method, which list has not"):
        Program(KERNEL, "c++", SM_90).compile("ptx", logs=[])


def test_empty_log_leaves_interpreter_alone() -> None:
    """An empty log, which is one NUL, would be written into the bytes object that all of Python shares."""
    Program(KERNEL, "c++", SM_90).compile("ptx", logs=io.StringIO())
    assert [bytes([n])[0] for n in range(256)] == list(range(256))


def test_error() -> None:
    """An error would not have the operation, the options and the compiler's log."""
    options = ProgramOptions(name="a b.cu", arch="sm_90", define_macro=("X", "1 + 2"))
    with pytest.raises(NVRTCError) as caught:
        Program("__device__ int x = X + undefined;", "c++", options).compile("ptx")
    error = caught.value
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


def test_unknown_architecture() -> None:
    """An architecture that this NVRTC does not support would be refused without a list of the supported ones."""
    with pytest.raises(NVRTCError, match=r"what NVRTC \d+\.\d+ compiles for: .*\b90\b.*\b100\b") as caught:
        Program(KERNEL, "c++", ProgramOptions(arch="sm_999")).compile("cubin")
    assert caught.value.code_name == "NVRTC_ERROR_INVALID_OPTION"


def test_missing_header() -> None:
    """A missing header would be reported without the ways to provide it."""
    with pytest.raises(NVRTCError, match=r'To find "none\.h", set ProgramOptions\.include_path, or give it.*headers='):
        Program("#include <none.h>", "c++", SM_90).compile("ptx")


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


def test_pch_that_is_not_made_again(tmp_path: Path) -> None:
    """The status would not distinguish a precompiled header that is used from a new one."""
    program = Program(KERNEL, "c++", ProgramOptions(arch="sm_90", pch=True, pch_dir=tmp_path))
    statuses = []
    for _ in range(2):
        program.compile("ptx")
        statuses.append(program.pch_status)
    assert statuses == [PCHStatusType.CREATED, PCHStatusType.NOT_ATTEMPTED]


@pytest.mark.parametrize("options", [{"pch": True}, {"create_pch": "a.pch"}])
def test_pch_heap_grows(options: dict[str, Any], tmp_path: Path) -> None:
    """A precompiled header that NVRTC's heap is too small for would never be made."""
    nvrtc = _nvrtc.load()._library
    before = nvrtc.pch_heap()
    logs = io.StringIO()
    program = Program(KERNEL, "c++", ProgramOptions(arch="sm_90", pch_dir=tmp_path, **options))
    nvrtc.set_pch_heap(4096)
    try:
        code = program.compile("ptx", logs=logs)
        assert 4096 < nvrtc.pch_heap() < before
    finally:
        nvrtc.set_pch_heap(before)
    assert program.pch_status is PCHStatusType.CREATED
    assert "insufficient" not in logs.getvalue()
    assert any(tmp_path.iterdir())
    assert b"1234" in code.code


def test_pch_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If the heap cannot grow, programs would be compiled again and again, or the status would be wrong."""
    nvrtc = _nvrtc.load()._library
    before = nvrtc.pch_heap()
    monkeypatch.setattr(compilers.NVRTC, "pch_heap_required", lambda *_: 4096)
    program = Program(KERNEL, "c++", ProgramOptions(arch="sm_90", pch_dir=tmp_path, pch=True))
    nvrtc.set_pch_heap(4096)
    try:
        program.compile("ptx")
    finally:
        nvrtc.set_pch_heap(before)
    assert program.pch_status is PCHStatusType.FAILED


@pytest.mark.parametrize("options", [{}, {"debug": True}, {"lineinfo": True}, {"relocatable_device_code": True}])
def test_intermediate_ptx(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The PTX beside a cubin would need another compilation, or belong to another one."""
    program = Program(TEMPLATES, "c++", ProgramOptions(arch="sm_90", **options))
    assert program.intermediate_ptx is None
    expected = program.compile("ptx", ["f<int>"])
    assert program.intermediate_ptx is None
    program.compile("cubin", ["f<int>"])
    with monkeypatch.context() as patch:
        patch.setattr(compilers.NVRTC, "compile", None)
        found = program.intermediate_ptx
    assert found is not None
    assert (found.code_type, found.code, found.symbol_mapping) == ("ptx", expected.code, expected.symbol_mapping)
    program.compile("ltoir", ["f<int>"])
    assert program.intermediate_ptx is None
    program.close()
    with pytest.raises(ValueError, match="Program has been closed"):
        program.intermediate_ptx  # noqa: B018


# ---- architecture of the current device


def test_arch_without_device(python: Run) -> None:
    """Without an architecture and a GPU, the error would not say what to do."""
    result = python(
        """
        from cudacore_compile import Program, ProgramOptions
        from cudacore_handles import CUDAError
        program = Program("__device__ int x;", "c++")
        try:
            program.compile("ptx")
        except CUDAError as error:
            print(error.hint)
        try:
            ProgramOptions().as_bytes("nvrtc")
        except CUDAError as error:
            print(error.code_name)
        """,
        CUDACORE_DRIVER="/no/such/driver",
    )
    hint = 'There is no device to compile for: say what to compile for, as in ProgramOptions(arch="sm_90")'
    assert result.stdout.splitlines() == [hint, "CCH_ENODRIVER"], result.stderr


def test_arch_of_device(device: Device) -> None:
    """A program without an architecture would be compiled for another GPU than the current one."""
    assert f".target sm_{device.arch}\n".encode() in Program(KERNEL, "c++").compile("ptx").code


def test_compiled_kernels_run(device: Device, target: str) -> None:
    """The compiled code would not be the code that the device runs, or would not be found by its name expression."""
    stream = device.create_stream()
    buffer = LegacyPinnedMemoryResource().allocate(4)
    value = np.from_dlpack(buffer).view(np.int32)
    for code_type in sorted({"ptx", target}):
        value[0] = 0
        kernel = Program(TEMPLATES, "c++").compile(code_type, ["f<int, 77>"]).get_kernel("f<int, 77>")
        launch(stream, LaunchConfig(grid=1, block=1), kernel, buffer)
        stream.sync()
        assert value[0] == 77


# ---- lifetime


def test_handle() -> None:
    """The handle would belong to another program than the compiled one, and be useless to cuda.bindings."""
    from cuda.bindings import nvrtc

    program = Program(TEMPLATES, "c++", SM_90)
    handle = program.handle
    assert isinstance(handle, nvrtc.nvrtcProgram)
    assert int(program.handle) == int(handle)
    nvrtc.nvrtcAddNameExpression(handle, b"f<short>")
    program.compile("ptx")
    assert int(program.handle) == int(handle)
    assert nvrtc.nvrtcGetLoweredName(handle, b"f<short>")[1] == b"_Z1fIsLi1EEvPT_"
    program.compile("ptx")
    status, _ = nvrtc.nvrtcGetLoweredName(program.handle, b"f<short>")
    assert status != 0


def test_program_lives_as_long_as_it_is_used() -> None:
    """NVRTC programs would leak, pile up with each compilation, or be made before they are needed."""
    before = live()
    program = Program(TEMPLATES, "c++", SM_90)
    assert live() == before
    for _ in range(3):
        program.compile("ptx", ["f<int>"])
        assert live() == before + 1
    del program
    assert live() == before


def test_close() -> None:
    """A closed program would keep memory, or some of its methods would still work."""
    before = live()
    program = Program(KERNEL, "c++", SM_90)
    assert not program.is_closed
    code = program.compile("ptx")
    program.close()
    assert live() == before
    assert program.is_closed
    program.close()
    for use in (lambda: program.compile("ptx"), lambda: program.handle):
        with pytest.raises(ValueError, match="Program has been closed"):
            use()
    assert program.backend is CompilerBackendType.NVRTC
    assert code.code


def test_close_without_compilation() -> None:
    """A program that was never compiled could not be closed."""
    program = Program(KERNEL, "c++", SM_90)
    program.close()
    assert program.is_closed
    assert repr(program) == (
        f"<Program backend='NVRTC' name='default_program' arch='sm_90' bytes={len(KERNEL)} closed>"
    )


def test_error_does_not_keep_the_program() -> None:
    """A caught error would keep the memory of the program that failed."""
    before = live()
    program = Program("nonsense", "c++", SM_90)
    with pytest.raises(NVRTCError) as caught:
        program.compile("ptx")
    program.close()
    assert live() == before
    assert caught.value.__traceback__ is not None


@pytest.mark.parametrize("method", ["add_name", "compile", "log", "lowered_name", "output"])
def test_no_leak_when_a_call_fails(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program would leak when a step of NVRTC fails, or the failure would be lost."""

    def fail(*_: object) -> None:
        raise CUDAError("nvrtcCall", 1, "NVRTC_ERROR_OUT_OF_MEMORY", "host memory ran out")

    before = live()
    program = Program(TEMPLATES, "c++", SM_90)
    monkeypatch.setattr(compilers.NVRTC, method, fail)
    with pytest.raises(NVRTCError, match=r"^nvrtcCall: NVRTC_ERROR_OUT_OF_MEMORY \(1\): host memory ran out"):
        program.compile("ptx", ["f<int>"])
    program.close()
    assert live() == before


def test_weak_reference() -> None:
    """Programs could not be in weak containers, or would keep themselves alive."""
    program = Program(KERNEL, "c++", SM_90)
    program.compile("ptx")
    reference = weakref.ref(program)
    del program
    assert reference() is None


def test_repr() -> None:
    """The repr of a program would not describe it."""
    assert repr(Program(KERNEL, "c++")) == f"<Program backend='NVRTC' name='default_program' bytes={len(KERNEL)}>"
    assert len(repr(Program(KERNEL, "c++", ProgramOptions(name="n" * 500)))) < 160


def test_no_copies() -> None:
    """A copy would share the compiler's program, which can be compiled only once."""
    program = Program(KERNEL, "c++", SM_90)
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a Program cannot be pickled or copied"):
            make(program)


# ---- threads


def test_threads_compile_one_program() -> None:
    """Threads that compile one program would mix up their names, or destroy each other's NVRTC program."""
    before = live()
    program = Program(TEMPLATES, "c++", SM_90)
    expected = {number: program.compile("ptx", [f"f<int, {number}>"]).code for number in range(4)}

    def work(number: int) -> None:
        for _ in range(5):
            code = program.compile("ptx", [f"f<int, {number}>"])
            assert code.symbol_mapping == {f"f<int, {number}>": f"_Z1fIiLi{number}EEvPT_"}
            assert code.code == expected[number]

    in_threads(work, range(4))
    program.close()
    assert live() == before


def test_close_while_another_thread_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing a program would destroy it during a running compilation."""
    before = live()
    program = Program(KERNEL, "c++", SM_90)
    compile_program = compilers.NVRTC.compile
    started, closed = threading.Event(), threading.Event()

    def compile_when_closed(*args: Any) -> Any:
        started.set()
        assert closed.wait(60)
        return compile_program(*args)

    monkeypatch.setattr(compilers.NVRTC, "compile", compile_when_closed)

    def work(number: int) -> None:
        if number == 0:
            assert b"1234" in program.compile("ptx").code
        else:
            assert started.wait(60)
            program.close()
            closed.set()

    in_threads(work, range(2))
    assert live() == before


def test_threads_are_in_the_compiler_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one thread at a time could compile, or two compilations of one program would be serialised."""
    compile_program = compilers.NVRTC.compile
    meeting = threading.Barrier(3)

    def meet(*args: Any) -> Any:
        meeting.wait(60)
        return compile_program(*args)

    monkeypatch.setattr(compilers.NVRTC, "compile", meet)
    shared = Program(KERNEL, "c++", SM_90)
    programs = [shared, shared, Program(KERNEL, "c++", SM_90)]
    in_threads(lambda number: programs[number].compile("ptx"), range(3))


def test_compiler_runs_without_the_gil() -> None:
    """All other Python threads would wait while one compiles."""
    source = "".join(
        f'extern "C" __global__ void k{i}(double *p) {{ *p = sin(*p) * cos({i} * *p) + pow(*p, 1.5); }}'
        for i in range(20)
    )
    thread = threading.Thread(target=Program(source, "c++", SM_90).compile, args=("cubin",))
    thread.start()
    ticks = 0
    while thread.is_alive():
        time.sleep(0.001)
        ticks += 1
    thread.join()
    assert ticks >= 5


# ---- the parameters of kernels

TYPED = """
extern "C" __global__ void scale(float *out, float factor, int n, double bias) {
  *out = factor * n + (float)bias;
}
template <typename T> __global__ void fill(T *out, T value, bool on, unsigned times) { if (on) *out = value * times; }
"""


@pytest.mark.parametrize("format_", ["cubin", "ptx"])
@pytest.mark.parametrize("pickled", [False, True])
def test_kinds_of_parameters(device: Device, on_sim: bool, format_: str, pickled: bool) -> None:
    """A cubin would have no information about its kernels' parameters; 3 for a `float` would become 4.2e-45."""
    code = Program(TYPED, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile(format_, ["fill<float>"])
    if pickled:
        code = pickle.loads(pickle.dumps(code))
    scale, fill = code.get_kernel("scale"), code.get_kernel("fill<float>")
    first, *others = (p.kind for p in scale.arguments_info)
    assert (first in ("pointer", "address"), others) == (True, ["float", "bits", "float"])
    assert [p.kind for p in fill.arguments_info] == ["pointer", "float", "bool", "uint"]
    stream, out = device.create_stream(), LegacyPinnedMemoryResource().allocate(4)
    for arguments, message in (
        ((out, 1.5, 2.5, 0), "argument 2: 2.5 is not an integer"),
        ((out, out, 2, 0), "argument 1: .*Buffer is passed as a pointer"),
        ((out, 1.5, out, 0), "argument 2: .*Buffer is passed as a pointer"),
        ((out, 1.5, 2, out), "argument 3: .*Buffer is passed as a pointer .* is a floating-point number"),
        ((out, 1.5, 2, None), "argument 3: None is a null pointer"),
    ):
        with pytest.raises(TypeError, match=message):
            launch(stream, LaunchConfig(grid=1, block=1), scale, *arguments)
    if format_ == "cubin" and on_sim:  # the simulator runs only PTX
        return
    result = np.frombuffer(out.__buffer__(), np.float32)
    for factor, n, bias in ((3, 2.0, 1), (np.int32(3), np.float32(2), np.uint8(1))):
        launch(stream, LaunchConfig(grid=1, block=1), scale, out, factor, n, bias)
        stream.sync()
        assert result[0] == 7
    launch(stream, LaunchConfig(grid=1, block=1), fill, out, 2, 1, 4)
    stream.sync()
    assert result[0] == 8


def test_no_kinds_of_code_to_be_linked() -> None:
    """LTO-IR, which has no PTX, could not be compiled."""
    assert Program(TYPED, "c++", SM_90).compile("ltoir").code
