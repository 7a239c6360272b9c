# SPDX-License-Identifier: Apache-2.0
"""Loading code, running its kernels, and reports of failures."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from collections.abc import Callable
from typing import Any

import kernels
import pytest

import cudacore_sim

INVALID_VALUE, INVALID_HANDLE, NOT_FOUND, ILLEGAL_ADDRESS, LAUNCH_FAILED = 1, 400, 500, 700, 719
Size = ctypes.c_size_t


def load(cuda: Any, code: bytes = kernels.PTX) -> ctypes.c_void_p:
    return ctypes.c_void_p(cuda.out("cuLibraryLoadData", code, None, None, 0, None, None, 0))


def kernel(cuda: Any, name: str, library: ctypes.c_void_p | None = None) -> ctypes.c_void_p:
    return ctypes.c_void_p(cuda.out("cuLibraryGetKernel", library or load(cuda), name.encode()))


def launch(
    cuda: Any,
    function: ctypes.c_void_p,
    *arguments: Any,
    grid: Any = (1, 1, 1),
    block: Any = (1, 1, 1),
    shared: int = 0,
    stream: Any = None,
) -> int:
    pointers = (ctypes.c_void_p * max(len(arguments), 1))(*map(ctypes.addressof, arguments))
    return int(cuda.code("cuLaunchKernel", function, *grid, *block, shared, stream, pointers, None))


def read(cuda: Any, memory: ctypes.c_uint64, count: int) -> list[int]:
    back = (ctypes.c_uint32 * count)()
    cuda.cuMemcpyDtoH_v2(back, memory, Size(4 * count))
    return list(back)


@pytest.mark.parametrize("form", ["kernel", "function", "module"])
def test_a_launch(cuda: Any, form: str) -> None:
    """A kernel would not run, or not get its arguments."""
    memory, library = cuda.malloc(32 * 4), load(cuda)
    function = kernel(cuda, "store", library)
    if form == "function":
        function = ctypes.c_void_p(cuda.out("cuKernelGetFunction", function))
    elif form == "module":
        module = ctypes.c_void_p(cuda.out("cuModuleLoadData", kernels.PTX))
        function = ctypes.c_void_p(cuda.out("cuModuleGetFunction", module, b"store"))
    assert launch(cuda, function, memory, ctypes.c_uint32(100), block=(32, 1, 1)) == 0
    assert read(cuda, memory, 32) == list(range(100, 132))


def test_an_argument_block(cuda: Any) -> None:
    """Arguments that are passed in one block would be read from the wrong place."""
    memory, block = cuda.malloc(4), ctypes.create_string_buffer(12)
    struct.pack_into("<QI", block, 0, memory.value, 9)
    size = Size(12)
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(block), 2, ctypes.addressof(size), 0)
    cuda.cuLaunchKernel(kernel(cuda, "store"), 1, 1, 1, 1, 1, 1, 0, None, None, extra)
    assert read(cuda, memory, 1) == [9]


def test_variables(cuda: Any) -> None:
    """A variable's initial value, its use by several kernels, or a pointer to the variable would be wrong."""
    library = load(cuda)
    address, size = ctypes.c_uint64(), Size()
    cuda.cuLibraryGetGlobal(ctypes.byref(address), ctypes.byref(size), library, b"counter")
    assert (size.value, read(cuda, address, 1)) == (4, [7])
    launch(cuda, kernel(cuda, "count", library), grid=(10, 1, 1), block=(32, 1, 1))
    assert read(cuda, address, 1) == [7 + 320]
    memory = cuda.malloc(4)
    launch(cuda, kernel(cuda, "follow", library), memory)
    assert read(cuda, memory, 1) == [327]


@pytest.mark.parametrize(
    ("grid", "block", "shared"),
    [((0, 1, 1), (1, 1, 1), 0), ((1, 65536, 1), (1, 1, 1), 0), ((1, 1, 1), (1, 0, 1), 0), ((1, 1, 1), (1025, 1, 1), 0),
     ((1, 1, 1), (1, 1, 65), 0), ((1, 1, 1), (65, 1, 1), 0), ((1, 1, 1), (1, 1, 1), 49153)],
)  # fmt: skip
def test_bad_sizes(cuda: Any, grid: Any, block: Any, shared: int) -> None:
    """A launch that no device supports would be accepted."""
    assert launch(cuda, kernel(cuda, "small"), grid=grid, block=block, shared=shared) == INVALID_VALUE


def test_bad_launches(cuda: Any) -> None:
    """A launch without a kernel or without its arguments would crash."""
    assert launch(cuda, ctypes.c_void_p()) == INVALID_HANDLE
    assert cuda.code("cuLaunchKernel", kernel(cuda, "store"), *[1] * 6, 0, None, None, None) == INVALID_VALUE
    assert cuda.code("cuLaunchCooperativeKernel", kernel(cuda, "empty"), 10**6, 1, 1, 64, 1, 1, 0, None, None) == 720


def test_out_of_bounds_where_memory_was_freed(cuda: Any) -> None:
    """The report would describe a freed allocation instead of the one that now has the same address."""
    freed = set()
    for _ in range(10_000):  # repeat until the driver reuses an address
        memory = cuda.malloc(128)
        freed.add(memory.value)
        cuda.cuMemFree_v2(memory)
        memory = cuda.malloc(40)
        if memory.value in freed:
            break
        cuda.cuMemFree_v2(memory)
    assert memory.value in freed
    assert launch(cuda, kernel(cuda, "store"), memory, ctypes.c_uint32(1), block=(32, 1, 1)) == 0
    assert cuda.code("cuCtxSynchronize") == ILLEGAL_ADDRESS
    assert "0 bytes past the end of the 40 bytes of device" in cudacore_sim.reports()[-1]


def test_out_of_bounds(cuda: Any) -> None:
    """A kernel could write beyond an allocation, or the report would not name the line and the allocation."""
    memory = cuda.malloc(40)
    assert launch(cuda, kernel(cuda, "store"), memory, ctypes.c_uint32(1), block=(32, 1, 1)) == 0
    assert cuda.code("cuCtxSynchronize") == ILLEGAL_ADDRESS
    report = cudacore_sim.reports()[-1]
    for part in (
        "kernel 'store'",
        "thread (10,0,0)",
        "write of 4 bytes",
        "0 bytes past the end of the 40 bytes of device",
    ):
        assert part in report
    for name, arguments in {"cuStreamSynchronize": [None], "cuMemFree_v2": [memory], "cuCtxSynchronize": []}.items():
        assert cuda.code(name, *arguments) == ILLEGAL_ADDRESS, "the error does not stick"
    cudacore_sim.reset_device()
    context = ctypes.c_void_p(cuda.out("cuDevicePrimaryCtxRetain", 0))
    cuda.cuCtxSetCurrent(context)
    cuda.cuCtxSynchronize()


def test_use_after_free(cuda: Any) -> None:
    """A kernel could use freed memory, or the report would not say that the memory was freed."""
    memory = cuda.malloc(400)
    cuda.cuMemFree_v2(memory)
    launch(cuda, kernel(cuda, "store"), memory, ctypes.c_uint32(1))
    assert cuda.code("cuCtxSynchronize") == ILLEGAL_ADDRESS
    assert "freed by cuMemFree_v2" in cudacore_sim.reports()[-1]


def test_trap(cuda: Any) -> None:
    """A trap would go unnoticed."""
    launch(cuda, kernel(cuda, "fail"))
    assert cuda.code("cuCtxSynchronize") == LAUNCH_FAILED


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (b"hello world", 200),
        (b"", 200),
        (b"\x7fELF" + bytes(200), 200),
        (kernels.PTX[: len(kernels.PTX) // 2], 218),
        (kernels.PTX.replace(b"8.0", b"99.0", 1), 222),
        (kernels.PTX.replace(b"sm_90", b"sm_120", 1), 218),
        (kernels.PTX.replace(b"sm_90", b"sm_70", 1), 0),
        (struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0), 209),
        (struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 40), 200),
    ],
)
def test_bad_code(cuda: Any, code: bytes, error: int) -> None:
    """Code that cannot be loaded would give a different error than on an H200, or end the process."""
    library = load(cuda, code + b"\0")
    out = ctypes.byref(ctypes.c_void_p())
    assert cuda.code("cuLibraryGetKernel", out, library, b"empty") == error
    assert cuda.code("cuModuleLoadData", out, code + b"\0") == error


def fat_binary(code: bytes, kind: int, capability: int, packed: bool) -> bytes:
    if packed:  # one LZ4 sequence of literals
        rest = len(code) - 15
        body = b"\xf0" + b"\xff" * (rest // 255) + bytes([rest % 255]) + code
    else:
        body = code
    padded = body + bytes(-len(body) % 8)
    entry = struct.pack("<HHIQIIHHIIIQQQ", kind, 0, 72, len(padded), len(body), 0, 0, 8, capability, 0, 0,
                        0x2000 if packed else 0, 0, len(code))  # fmt: skip
    entry += bytes(72 - len(entry))
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry) + len(padded)) + entry + padded


@pytest.mark.parametrize("packed", [False, True])
def test_fat_binaries(cuda: Any, packed: bool) -> None:
    """PTX in a fat binary would not be found."""
    memory = cuda.malloc(4)
    library = load(cuda, fat_binary(kernels.PTX, 1, 90, packed))
    launch(cuda, kernel(cuda, "store", library), memory, ctypes.c_uint32(3))
    assert read(cuda, memory, 1) == [3]


def test_names(cuda: Any) -> None:
    """The list of kernels would be wrong, or a kernel that does not exist would be found."""
    library = load(cuda)
    assert cuda.out("cuLibraryGetKernelCount", library, kind=ctypes.c_uint) == 6
    handles = (ctypes.c_void_p * 6)()
    cuda.cuLibraryEnumerateKernels(handles, 6, library)
    names = {cuda.out("cuKernelGetName", ctypes.c_void_p(handle), kind=ctypes.c_char_p) for handle in handles}
    assert names == {b"empty", b"store", b"count", b"follow", b"fail", b"small"}
    assert cuda.code("cuLibraryGetKernel", ctypes.byref(ctypes.c_void_p()), library, b"nope") == NOT_FOUND


def test_unloading(cuda: Any) -> None:
    """Kernels and variables would outlive their library."""
    library = load(cuda)
    function = kernel(cuda, "count", library)
    launch(cuda, function)
    cuda.cuLibraryUnload(library)
    assert launch(cuda, function) == INVALID_HANDLE
    assert cuda.code("cuLibraryUnload", library) == INVALID_HANDLE
    assert cudacore_sim.live()["library"] == 0


@pytest.mark.cuda_sim
@pytest.mark.parametrize(("setting", "answers"), [("1", "719 719\n"), ("0", "0 719\n")])
def test_launches_that_block(
    setting: str,
    answers: str,
    monkeypatch: pytest.MonkeyPatch,
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """CUDA_LAUNCH_BLOCKING=1 would have no effect, so that the launch that fails could not be found."""
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", setting)
    child = run_python(
        f"""
        context, module, function = c_void_p(), c_void_p(), c_void_p()
        cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
        cu.cuModuleLoadData(byref(module), {kernels.PTX!r}), cu.cuModuleGetFunction(byref(function), module, b"fail")
        print(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None), cu.cuCtxSynchronize())
        """
    )
    assert child.stdout == answers, child.stderr


PACKED = """
.version 8.0
.target sm_75
.address_size 64
.global .align 4 .u32 x[3] = {7, 8, 9};
.global .align 1 .u8 s[18] = {1, %s, 2, %s};
.visible .entry f(.param .u64 out)
{
  .reg .b64 %%a, %%b, %%p; .reg .b32 %%r<10>;
  ld.param.u64 %%a, [out]; mov.u64 %%b, s;
  mov.b64 %%p, 0; mov.b32 %%r1, 8;
next:
  ld.global.u8 %%r2, [%%b+8]; shl.b64 %%p, %%p, 8; cvt.u64.u32 %%a, %%r2; or.b64 %%p, %%p, %%a;
  add.u64 %%b, %%b, -1; add.u32 %%r1, %%r1, -1;
  .reg .pred %%q; setp.ne.u32 %%q, %%r1, 0;
  @%%q bra next;
  ld.u32 %%r3, [%%p];
  mov.u64 %%b, s; ld.global.u8 %%r2, [%%b]; ld.global.u8 %%r4, [%%b+9];
  add.u32 %%r3, %%r3, %%r2; add.u32 %%r3, %%r3, %%r4;
  ld.param.u64 %%a, [out]; st.global.u32 [%%a], %%r3; ret;
}
"""


def bytes_of(address: str, count: int = 8) -> str:
    """Return the bytes of an address as NVRTC writes them in initialisers of packed structures."""
    return ", ".join(f"0x{'FF' + '00' * byte}({address})" for byte in range(count))


def test_addresses_in_packed_structures(cuda: Any) -> None:
    """An initialiser of a packed structure with pointers would be refused, or a pointer would be wrong."""
    code = PACKED % (bytes_of("generic(x)+4"), bytes_of("generic(x)+8"))
    assert kernels.run_f(cuda, code.encode()) == 8 + 1 + 2
    module = ctypes.c_void_p()
    part = PACKED % (bytes_of("generic(x)", 7), bytes_of("generic(x)+8"))
    assert cuda.code("cuModuleLoadData", ctypes.byref(module), part.encode()) == 218
    assert "'s' has only some bytes of an address" in cudacore_sim.why()
