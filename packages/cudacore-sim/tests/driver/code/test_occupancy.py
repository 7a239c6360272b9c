# SPDX-License-Identifier: Apache-2.0
"""Occupancy: the parts of shared memory, the limits of registers, and what differs between compute capabilities."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

import pytest

CARVEOUT, REGISTERS = 9, 4
JIT_MAX_REGISTERS = 0
PTX_INPUT = 1


def kernel(name: str, directives: str = "", shared: int = 0) -> str:
    """Return a kernel that needs over a hundred registers, unless directives limit them."""
    values = "".join(f"ld.volatile.global.u32 %r{i}, [%rd+{4 * i}];\n" for i in range(120))
    values += "".join(f"st.volatile.global.u32 [%rd+{4 * i}], %r{119 - i};\n" for i in range(120))
    tile = f".shared .align 4 .b8 {name}_tile[{shared}]; st.shared.u32 [{name}_tile], 1;" if shared else ""
    return f""".visible .entry {name}(.param .u64 p) {directives} {{ .reg .b64 %rd; .reg .b32 %r<130>;
    ld.param.u64 %rd, [p]; {tile} {values} ret; }}\n"""


HEADER = ".version 7.0\n.target sm_75\n.address_size 64\n"
# The directives of a kernel, and its registers without an option, and with CU_JIT_MAX_REGISTERS=32: those of ptxas.
LIMITS = {
    "": (None, 32),
    ".maxnreg 40": (40, 40),
    ".maxnreg 8": (24, 24),
    ".maxntid 1024": (64, 64),
    ".maxntid 256 .minnctapersm 4": (64, 64),
    ".maxntid 256 .minnctapersm 4 .maxnreg 40": (40, 40),
    ".maxntid 256": (None, None),
    ".reqntid 64": (None, None),
}


FUNCTIONS = ["cuModuleLoadDataEx", "cuLibraryLoadData", "cuLibraryLoadFromFile", "cuLinkCreate_v2", "cuLinkAddData_v2"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_limits_of_registers(cuda: Any, tmp_path: Path, function: str) -> None:
    """.maxnreg and CU_JIT_MAX_REGISTERS would have no effect, or the option would replace a kernel's own limit."""
    code = (HEADER + "".join(kernel(f"k{i}", directives) for i, directives in enumerate(LIMITS))).encode()
    (tmp_path / "code.ptx").write_bytes(code)
    for limited in (False, True):
        options, values = (c_int * 1)(JIT_MAX_REGISTERS), (c_void_p * 1)(32)
        jit = (c_uint(int(limited)), options, values)
        module = c_void_p()
        if function == "cuModuleLoadDataEx":
            cuda.cuModuleLoadDataEx(byref(module), code, *jit)
        elif function.startswith("cuLink"):
            link, cubin, size = c_void_p(), c_void_p(), c_size_t()
            other = (jit[0], options, (c_void_p * 1)(64))  # the options of an input replace those of the linker
            of_link, of_input = (jit, (0, None, None)) if "Create" in function else (other, jit)
            cuda.cuLinkCreate_v2(*of_link, byref(link))
            cuda.cuLinkAddData_v2(link, PTX_INPUT, code, c_size_t(len(code) + 1), b"code", *of_input)
            cuda.cuLinkComplete(link, byref(cubin), byref(size))
            cuda.cuModuleLoadData(byref(module), cubin)
            cuda.cuLinkDestroy(link)
        else:
            library = c_void_p()
            source = code if function == "cuLibraryLoadData" else str(tmp_path / "code.ptx").encode()
            getattr(cuda, function)(byref(library), source, options, values, jit[0], None, None, c_uint(0))
            cuda.cuLibraryGetModule(byref(module), library)
        for i, expected in enumerate(LIMITS.values()):
            handle, count = c_void_p(), c_int()
            cuda.cuModuleGetFunction(byref(handle), module, f"k{i}".encode())
            cuda.cuFuncGetAttribute(byref(count), REGISTERS, handle)
            wanted = expected[limited]
            assert count.value == wanted if wanted else count.value > 100, (list(LIMITS)[i], limited)


@pytest.mark.parametrize(("preference", "blocks"), [(-1, 20), (0, 1), (25, 5), (50, 12), (100, 20)])
def test_the_preferred_part_of_shared_memory(cuda: Any, preference: int, blocks: int) -> None:
    """The preference for shared memory would not change how many blocks fit, as it does on an H200."""
    module, handle, count = c_void_p(), c_void_p(), c_int()
    cuda.cuModuleLoadData(byref(module), (HEADER + kernel("k", ".maxnreg 32", 10240)).encode())
    cuda.cuModuleGetFunction(byref(handle), module, b"k")
    cuda.cuFuncSetAttribute(handle, CARVEOUT, preference)
    cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(byref(count), handle, 32, c_size_t(0))
    assert count.value == blocks


def test_nothing_is_reserved_before_8_0(run_python: Callable[..., Any], tmp_path: Path) -> None:
    """On 7.5, a block with all of the shared memory would not fit, or shared memory would begin at 1,024."""
    source = tmp_path / "code.ptx"
    source.write_text(
        HEADER
        + """.extern .shared .align 4 .b8 tile[];
    .visible .entry k(.param .u64 p) { .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .b32 %size;
      ld.param.u64 %rd1, [p]; mov.u32 %r1, tile; mov.u32 %size, %total_smem_size;
      add.u32 %r2, %size, -4; st.shared.u32 [%r2], %r2; ld.shared.u32 %r2, [%r2];
      st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+4], %size; st.global.u32 [%rd1+8], %r2; ret; }"""
    )
    child = run_python(
        f"""
        module, handle, context, memory, value = c_void_p(), c_void_p(), c_void_p(), c_uint64(), c_int()
        assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
        assert cu.cuCtxSetCurrent(context) == 0 and cu.cuModuleLoad(byref(module), {str(source)!r}.encode()) == 0
        assert cu.cuModuleGetFunction(byref(handle), module, b"k") == 0
        assert cu.cuDeviceGetAttribute(byref(value), 111, 0) == 0
        print(value.value)
        assert cu.cuFuncSetAttribute(handle, 8, 65536) == 0
        assert cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(byref(value), handle, 64, c_size_t(65536)) == 0
        print(value.value)
        assert cu.cuMemAlloc_v2(byref(memory), c_size_t(12)) == 0
        words = (c_uint * 3)()
        for dynamic in (65536, 100):
            arguments = (c_void_p * 1)(addressof(memory))
            assert cu.cuLaunchKernel(handle, 1, 1, 1, 1, 1, 1, dynamic, None, arguments, None) == 0
            assert cu.cuMemcpyDtoH_v2(words, memory, c_size_t(12)) == 0
            print(*words)
        """,
        COMPUTE_CAPABILITY="7.5",
    )
    assert child.stdout.split("\n")[:-1] == ["0", "1", "0 65536 65532", "0 256 252"], child.stderr
