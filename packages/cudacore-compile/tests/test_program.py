# SPDX-License-Identifier: Apache-2.0
"""Programs: their source code and options, their lifetime, and their use by several threads."""

from __future__ import annotations

import gc
import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compile_sources import TEMPLATES, Python

from cudacore_compile import Program, ProgramOptions
from cudacore_compile._compilers import nvrtc as _nvrtc
from cudacore_handles import Device, LaunchConfig, LegacyPinnedMemoryResource, launch, live_counts
from threads_at_once import in_threads

SM_90 = ProgramOptions(arch="sm_90")
KERNEL = 'extern "C" __global__ void k(int *p) { *p = 1234; }'


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


@pytest.mark.parametrize("source", ["\ufeff// ü\n", b"\xef\xbb\xbf// x\n"])
def test_byte_order_marks(source: str | bytes) -> None:
    """A file that an editor saved with a byte order mark would not compile, or not as a header."""
    program = Program(source, "c++", {"arch": "sm_90", "pre_include": "mark.h"}, headers={"mark.h": source})
    assert program.compile("ptx")
    with pytest.raises(ValueError, match="code is UTF-16: save it as UTF-8"):
        Program("int a;".encode("utf-16"), "c++")


def test_program_keeps_its_source() -> None:
    """Changing a bytearray or the headers would change a program that was already made from them."""
    source = bytearray(b'#include "a.h"\nstatic_assert(A == 1);')
    headers: dict[str, str | bytes] = {"a.h": "#define A 1"}
    program = Program(source, "c++", SM_90, headers=headers)
    source[:] = b"nonsense"
    headers["a.h"] = "#define A 2"
    assert program.compile("ptx").code


def test_program_keeps_its_options() -> None:
    """Changing the options, or a list in them, would change a program that was already made with them."""
    options = ProgramOptions(arch="sm_90", define_macro=["A=1"])
    program = Program("static_assert(A == 1);", "c++", options)
    assert isinstance(options.define_macro, list)
    options.define_macro.append("nonsense = 2")
    options.arch = "sm_80"
    assert b"sm_90" in program.compile("ptx").code


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"code": None}, TypeError, "code must be a str, bytes or bytearray, not NoneType"),
        ({"code": Path("kernel.cu")}, TypeError, "not PosixPath"),
        ({"code": memoryview(b"x")}, TypeError, "not memoryview"),
        ({"code": "int x;\0int y;"}, ValueError, "code has a NUL character at byte 6"),
        ({"code": "\ud800"}, ValueError, "code is not Unicode text"),
        ({"headers": "a.h"}, TypeError, "headers must be a mapping of names to contents, not str"),
        ({"headers": {b"a.h": ""}}, TypeError, "names in headers must be str, not bytes"),
        ({"headers": {"": ""}}, ValueError, "a name in headers is empty"),
        ({"headers": {"a\0.h": ""}}, ValueError, "a name in headers has a NUL character"),
        ({"headers": {"a.h": None}}, TypeError, r"headers\['a.h'\] must be a str, bytes or bytearray, not NoneType"),
        ({"headers": {"a.h": "x\0"}}, ValueError, r"headers\['a.h'\] has a NUL character at byte 1"),
        ({"options": "sm_90"}, TypeError, "options must be provided as an object of type ProgramOptions or as a dict"),
        ({"options": {"fast_math": True}}, TypeError, "unexpected .* 'fast_math' in options; did you mean 'use_fast_"),
        ({"code_type": "nvvm", "headers": {"a.h": ""}}, ValueError, "headers are for C[+][+] programs"),
        ({"code_type": "nvvm", "options": {"std": "c++17"}}, ValueError, r"\.std is not supported for NVVM programs"),
        ({"code_type": "nvvm", "code": b""}, ValueError, "code must not be empty: there is no nvvm to compile"),
        ({"code_type": "ptx", "code": ""}, ValueError, "code must not be empty: there is no ptx to compile"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], match: str) -> None:
    """The compiler would read only a part, an argument would be ignored, or the error would give no reason."""
    with pytest.raises(error, match=match):
        Program(**{"code": KERNEL, "code_type": "c++", "options": SM_90} | arguments)


@pytest.mark.parametrize("target", ["ptx", "cubin", "ltoir"])
def test_empty_program(target: str) -> None:
    """A library that compiles an empty program, as numba-cuda does to find the compiler, would not start."""
    for code in ("", b""):
        assert Program(code, "c++", SM_90).compile(target).code


def test_options_as_a_dict() -> None:
    """Options in a dict would not be accepted, or would not be checked."""
    given = {"arch": "sm_90", "lineinfo": True}
    code = Program(KERNEL, "c++", given).compile("ptx").code
    assert code == Program(KERNEL, "c++", ProgramOptions(arch="sm_90", lineinfo=True)).compile("ptx").code
    assert given == {"arch": "sm_90", "lineinfo": True}
    with pytest.raises(ValueError, match=r"ProgramOptions\.arch='hopper'"):
        Program(KERNEL, "c++", {"arch": "hopper"})


def test_headers() -> None:
    """Headers in memory would not be found, or not before files of the same name."""
    source = '#include "a.h"\n#include <dir/b.h>\nextern "C" __global__ void k(int *p) { p[0] = A; p[1] = B; }'
    headers: dict[str, str | bytes] = {"a.h": "#define A 1111 // ä", "dir/b.h": b"#define B 2222"}
    text = Program(source, "c++", SM_90, headers=headers).compile("ptx").code
    assert b"1111" in text
    assert b"2222" in text


# ---- architecture of the current device


def test_arch_without_device(python: Python) -> None:
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
    hint = 'There is no device to compile for: name an architecture, as in ProgramOptions(arch="sm_90")'
    assert result.stdout.splitlines() == [hint, "CCH_ENODRIVER"], result.stderr


def test_compiled_kernels_run(device: Device, target: str) -> None:
    """The compiled code would not be the code that the device runs, or would not be found by its name expression."""
    stream = device.create_stream()
    buffer = LegacyPinnedMemoryResource().allocate(4)
    value = np.asarray(buffer).view(np.int32)
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


def test_repr() -> None:
    """The repr of a program would not describe it."""
    assert repr(Program(KERNEL, "c++")) == f"<Program backend='NVRTC' name='default_program' bytes={len(KERNEL)}>"
    assert len(repr(Program(KERNEL, "c++", ProgramOptions(name="n" * 500)))) < 160


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
    """Closing a program would destroy NVRTC's program object while another thread compiles it."""
    before = live()
    program = Program(KERNEL, "c++", SM_90)
    compile_program = _nvrtc.NVRTC._compile
    started, closed = threading.Event(), threading.Event()

    def compile_when_closed(*args: Any) -> Any:
        started.set()
        assert closed.wait(60)
        return compile_program(*args)

    monkeypatch.setattr(_nvrtc.NVRTC, "_compile", compile_when_closed)

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
    compile_program = _nvrtc.NVRTC._compile
    meeting = threading.Barrier(3)

    def meet(*args: Any) -> Any:
        meeting.wait(60)
        return compile_program(*args)

    monkeypatch.setattr(_nvrtc.NVRTC, "_compile", meet)
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
    """A cubin would have no information about its kernels' parameters; 3 passed for a `float` would become 4.2e-45."""
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
