# SPDX-License-Identifier: Apache-2.0
"""Cubins that NVRTC and nvJitLink make in the process: each contains the PTX from which it was made."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import pytest
from kernels import run_f

import cudacore_sim

CALLER = b'extern "C" __device__ int g(int); extern "C" __global__ void f(int *p) { *p = g(40); }'
CALLED = b'extern "C" __device__ int g(int x) { return x + 2; }'
WHOLE = b'extern "C" __global__ void f(int *p) { *p = 42; }'
CUBIN, PTX, LTOIR = 1, 2, 3  # types of inputs of nvJitLink


class Library:
    """A compiler's library, in which the simulator replaces functions."""

    def __init__(self, name: str) -> None:
        pathfinder = pytest.importorskip("cuda.pathfinder")
        self.handle = c_void_p(pathfinder.load_nvidia_dynamic_lib(name)._handle_uint)
        self.symbol = cudacore_sim.load().cudasim_symbol
        self.symbol.restype = c_void_p

    def __getattr__(self, name: str) -> Callable[..., None]:
        function = ctypes.CFUNCTYPE(c_int)(self.symbol(self.handle, name.encode(), None))

        def call(*arguments: Any) -> None:
            assert function(*arguments) == 0, name

        return call

    def output(self, name: str, program: c_void_p) -> bytes:
        size = c_size_t()
        getattr(self, f"{name}Size")(program, byref(size))
        code = ctypes.create_string_buffer(size.value)
        getattr(self, name)(program, code)
        return code.raw


@pytest.fixture
def compile_to(cuda: Any) -> Callable[..., bytes]:
    """Return a function that compiles C++ to a given format by NVRTC."""
    nvrtc = Library("nvrtc")

    def compiled(source: bytes, kind: str, *options: bytes) -> bytes:
        program = c_void_p()
        nvrtc.nvrtcCreateProgram(byref(program), source, b"a.cu", 0, None, None)
        nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        code = nvrtc.output(f"nvrtcGet{kind}", program)
        nvrtc.nvrtcDestroyProgram(byref(program))
        return code

    return compiled


def link(inputs: list[tuple[int, bytes]], *options: bytes) -> bytes:
    """Link code by nvJitLink."""
    linker, library = c_void_p(), Library("nvJitLink")
    library.nvJitLinkCreate(byref(linker), len(options), (ctypes.c_char_p * len(options))(*options))
    for number, (kind, code) in enumerate(inputs):
        library.nvJitLinkAddData(linker, kind, code, c_size_t(len(code)), b"input %d" % number)
    library.nvJitLinkComplete(linker)
    code = library.output("nvJitLinkGetLinkedCubin", linker)
    assert code == library.output("nvJitLinkGetLinkedCubin", linker)
    library.nvJitLinkDestroy(byref(linker))
    return code


def test_a_program(cuda: Any, compile_to: Callable[..., bytes]) -> None:
    """A cubin that NVRTC has compiled would not run."""
    assert run_f(cuda, compile_to(WHOLE, "CUBIN", b"-arch=sm_90")) == 42


def test_linked_ptx_and_cubins(cuda: Any, compile_to: Callable[..., bytes]) -> None:
    """Code that nvJitLink has linked would not run or would lack a part, for example after it is linked again."""
    texts = [compile_to(source, "PTX", b"-arch=compute_90", b"-rdc=true") for source in (CALLER, CALLED)]
    cubins = [compile_to(source, "CUBIN", b"-arch=sm_90", b"-rdc=true") for source in (CALLER, CALLED)]
    assert run_f(cuda, link([(PTX, text) for text in texts], b"-arch=sm_90")) == 42
    assert run_f(cuda, link([(CUBIN, cubin) for cubin in cubins], b"-arch=sm_90")) == 42
    assert run_f(cuda, link([(CUBIN, cubins[0]), (PTX, texts[1])], b"-arch=sm_90")) == 42


def test_linked_ltoir(cuda: Any, compile_to: Callable[..., bytes]) -> None:
    """Linked LTO-IR would not run, because it has no PTX before it is linked."""
    parts = [compile_to(source, "LTOIR", b"-arch=sm_90", b"-dlto") for source in (CALLER, CALLED)]
    assert run_f(cuda, link([(LTOIR, part) for part in parts], b"-arch=sm_90", b"-lto")) == 42


def test_ltoir_of_which_nothing_calls_a_part(cuda: Any, compile_to: Callable[..., bytes]) -> None:
    """Functions in LTO-IR that only PTX or a cubin calls would be missing from the linked code."""
    called = (LTOIR, compile_to(CALLED, "LTOIR", b"-arch=sm_90", b"-dlto"))
    text = (PTX, compile_to(CALLER, "PTX", b"-arch=compute_90", b"-rdc=true"))
    cubin = (CUBIN, compile_to(CALLER, "CUBIN", b"-arch=sm_90", b"-rdc=true"))
    for caller in (text, cubin):
        assert run_f(cuda, link([caller, called], b"-arch=sm_90", b"-lto")) == 42


def test_ltoir_that_calls_others(cuda: Any, compile_to: Callable[..., bytes]) -> None:
    """Kernels in LTO-IR could not call functions in PTX."""
    caller = (LTOIR, compile_to(CALLER, "LTOIR", b"-arch=sm_90", b"-dlto"))
    called = (PTX, compile_to(CALLED, "PTX", b"-arch=compute_90", b"-rdc=true"))
    assert run_f(cuda, link([caller, called], b"-arch=sm_90", b"-lto")) == 42


def test_registers_are_the_machine_code_s(cuda: Any, compile_to: Callable[..., bytes]) -> None:
    """The driver would report an estimated number of registers although the cubin contains the exact one."""
    code = compile_to(WHOLE, "CUBIN", b"-arch=sm_90", b"-maxrregcount=16")
    module, function = c_void_p(), c_void_p()
    cuda.cuModuleLoadData(byref(module), code)
    cuda.cuModuleGetFunction(byref(function), module, b"f")
    section = code.rindex(b".nv.info")  # raises ValueError if the cubin lacks this section
    assert section
    assert cuda.out("cuFuncGetAttribute", 4, function, kind=c_int) in range(4, 17)
    assert cuda.out("cuFuncGetAttribute", 6, function, kind=c_int) == 90


def test_ptx_that_cannot_run(cuda: Any, compile_to: Callable[..., bytes]) -> None:
    """A cubin whose PTX the simulator cannot run would not load, or a launch would not report the reason."""
    source = b'extern "C" __global__ void f() { asm volatile("multimem.red.global.add.u32 [%0], 1;" ::"l"(0ull)); }'
    code = compile_to(source, "CUBIN", b"-arch=sm_90")
    module, function = c_void_p(), c_void_p()
    cuda.cuModuleLoadData(byref(module), code)
    cuda.cuModuleGetFunction(byref(function), module, b"f")
    assert cuda.code("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 801
    assert "its PTX has an instruction that the simulator does not have: line " in cudacore_sim.reports()[-1]


PROGRAM = """
from cuda.bindings import driver, nvrtc
import ctypes
def check(result):
    assert int(result[0]) == 0, result
    return result[1] if len(result) == 2 else result[2:]
check(driver.cuInit(0)), check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(0))))
program = check(nvrtc.nvrtcCreateProgram(b'extern "C" __global__ void f(int *p) { *p = 42; }', b"", 0, [], []))
check(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_90"]))
code = bytes(check(nvrtc.nvrtcGetCUBINSize(program)))
check(nvrtc.nvrtcGetCUBIN(program, code))
kernel = check(driver.cuLibraryGetKernel(check(driver.cuLibraryLoadData(code, [], [], 0, [], [], 0)), b"f"))
memory = check(driver.cuMemAlloc(4))
arguments = ((int(memory),), (ctypes.c_void_p,))
check(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0))
out = ctypes.c_int()
check(driver.cuMemcpyDtoH(ctypes.addressof(out), memory, 4))
print(out.value)
"""


def test_other_programs(tmp_path: Path) -> None:
    """Programs that compile to cubins and know nothing of the simulator could not run on it."""
    pytest.importorskip("cuda.bindings")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "cudacore_sim", sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("42\n", 0), done.stderr


# Two libraries define number(). The first library's function calls the second library's. A program calls number().
FIRST = """
#define _GNU_SOURCE
#include <dlfcn.h>
int number(void) { int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "number"); return next ? next() + 1 : -1; }
"""
SECOND = "int number(void) { return 41; }"
CALLS = """
#include <stdio.h>
int number(void);
int main(void) { printf("%d\\n", number()); return 0; }
"""


def test_dlsym_knows_its_caller(tmp_path: Path) -> None:
    """A library that looks up the next definition of its own function (RTLD_NEXT) would find its own definition."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    for name, source in (("first", FIRST), ("second", SECOND), ("calls", CALLS)):
        (tmp_path / f"{name}.c").write_text(source)
    for command in (
        ["-shared", "-fPIC", "-o", "libfirst.so", "first.c", "-ldl"],
        ["-shared", "-fPIC", "-o", "libsecond.so", "second.c"],
        ["-o", "calls", "calls.c", "-L.", "-Wl,--no-as-needed,-rpath,$ORIGIN", "-lfirst", "-lsecond"],
    ):
        subprocess.run([compiler, *command], cwd=tmp_path, check=True, timeout=60)
    command = [sys.executable, "-m", "cudacore_sim", str(tmp_path / "calls")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("42\n", "")


SHARED = b"""
extern "C" __global__ void one(int *p) { __shared__ int a[8]; a[threadIdx.x] = *p; __syncthreads(); *p = a[1]; }
extern "C" __global__ void two(int *p) { __shared__ int a[100]; a[threadIdx.x] = *p; __syncthreads(); *p = a[1]; }
extern "C" __global__ void none(int *p) { *p = 1; }
"""


def test_shared_memory_of_any_cubin(cuda: Any) -> None:
    """Shared memory that the system reserves would count as the kernel's, unlike on a GPU."""
    nvrtc = pytest.importorskip(
        "cuda.bindings.nvrtc"
    )  # the simulator does not replace this compiler's functions, so the cubin carries no PTX
    _, program = nvrtc.nvrtcCreateProgram(SHARED, b"a.cu", 0, [], [])
    nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_90"])
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    code = b" " * size
    nvrtc.nvrtcGetCUBIN(program, code)
    module = c_void_p(cuda.out("cuModuleLoadData", code))
    sizes = {}
    for name in (b"one", b"two", b"none"):
        function = c_void_p(cuda.out("cuModuleGetFunction", module, name))
        sizes[name] = cuda.out("cuFuncGetAttribute", 1, function, kind=c_int)
    cuda.cuModuleUnload(module)
    assert sizes == {b"one": 32, b"two": 400, b"none": 0}


LOAD = """
import ctypes, sys
import cudacore_sim

cuda = cudacore_sim.load()
code, out = open(sys.argv[1], "rb").read() + bytes(1), ctypes.c_int()
context, module, function, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == cuda.cuCtxSetCurrent(context) == 0
failed = cuda.cuModuleLoadData(ctypes.byref(module), code)
if failed:
    sys.exit(print(failed))
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"f") == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4)) == 0
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None) == 0
assert cuda.cuMemcpyDtoH_v2(ctypes.byref(out), memory, ctypes.c_size_t(4)) == 0
print("runs" if out.value == 42 else out.value)
"""


def fat_binary(*images: tuple[int, bytes]) -> bytes:
    """Put images for sm_90 into a fat binary. The kind of an image is 1 for PTX and 2 for a cubin."""
    entries = b""
    for kind, code in images:
        code += bytes(-len(code) % 8)
        entries += struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(code), 0, 0, 0, 0, 90, 0, 0, 0, 0, 0) + code
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


@pytest.mark.parametrize("kind", ["cubin", "ptx", "cubin and ptx", "ptx alone"])
def test_code_of_a_newer_compiler(compile_to: Callable[..., bytes], tmp_path: Path, kind: str) -> None:
    """A driver would refuse a newer compiler's cubin of the same major version, or accept PTX newer than the driver."""
    cubin, ptx = compile_to(WHOLE, "CUBIN", b"-arch=sm_90"), compile_to(WHOLE, "PTX", b"-arch=compute_90")
    codes = {
        "cubin": cubin,
        "ptx": ptx,
        "cubin and ptx": fat_binary((1, ptx), (2, cubin)),
        "ptx alone": fat_binary((1, ptx)),
    }
    (file := tmp_path / "code").write_bytes(codes[kind])
    version = re.search(rb"\.version (\d+)\.(\d+)", ptx)
    assert version is not None
    major = int(version[1]) + 4  # PTX 8.0 came with CUDA 12.0, 9.0 with 13.0
    if version[2] == b"0":
        pytest.skip("this compiler is not newer than the first of its major version")

    def load(driver: str) -> str:
        settings = {"CUDACORE_SIM_LIBRARY": cudacore_sim.get_library(), "CUDACORE_SIM_DRIVER_VERSION": driver}
        command = [sys.executable, "-c", LOAD, str(file)]
        return subprocess.run(
            command, env=os.environ | settings, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ).stdout.strip()

    has_cubin = kind.startswith("cubin")
    assert load(f"{major}.0") == ("runs" if has_cubin else "222")  # CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    if major == 13:  # the form of cubins differs between CUDA 12 and CUDA 13
        assert load("12.9") == ("200" if kind == "cubin" else "222")  # CUDA_ERROR_INVALID_IMAGE
