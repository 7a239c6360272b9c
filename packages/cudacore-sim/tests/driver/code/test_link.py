# SPDX-License-Identifier: Apache-2.0
"""The linker (cuLink*): several PTX texts linked to one module, and texts that cannot be linked."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import pytest
from kernels import run_f
from ptx import entry

import cudacore_sim

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"
FUNCTION = "(.reg .u32 %out) g(.reg .u32 %in)"
KERNEL = """
.visible .entry f(.param .u64 where)
{
  .reg .b64 %rd<2>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [where];
  mov.u32 %r1, 40;
  call (%r2), g, (%r1);
  st.global.u32 [%rd1], %r2;
  ret;
}
"""
PTX_INPUT, CUBIN_INPUT, LIBRARY_INPUT = 1, 0, 4
INVALID_IMAGE, INVALID_PTX, INVALID_SOURCE, NOT_SUPPORTED, FILE_NOT_FOUND, INVALID_HANDLE = 200, 218, 300, 801, 301, 400


class Link:
    """A state of the driver's linker, with an error log."""

    def __init__(self, cuda: Any, room: int = 2000) -> None:
        self.cuda, self.handle = cuda, c_void_p()
        self.log = ctypes.create_string_buffer(b"x" * 10, room)
        self.options = (c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
        self.values = (c_void_p * 2)(ctypes.addressof(self.log), room)
        cuda.cuLinkCreate_v2(2, self.options, self.values, byref(self.handle))

    def add(self, text: str | bytes, name: str = "", kind: int = PTX_INPUT) -> int:
        code = text.encode() + b"\0" if isinstance(text, str) else text
        return int(
            self.cuda.code(
                "cuLinkAddData_v2", self.handle, kind, code, c_size_t(len(code)), name.encode() or None, 0, None, None
            )
        )

    def complete(self) -> int:
        self.cubin, self.size = c_void_p(), c_size_t()
        return int(self.cuda.code("cuLinkComplete", self.handle, byref(self.cubin), byref(self.size)))

    def code(self) -> bytes:
        """Return the linked code."""
        assert self.complete() == 0, self.log.value
        return ctypes.string_at(self.cubin, self.size.value)


def adding(number: int, linkage: str = ".visible") -> str:
    """Return the PTX of a function g that adds `number`."""
    return f"{linkage} .func {FUNCTION}\n{{\n  add.u32 %out, %in, {number};\n  ret;\n}}\n"


def test_functions_of_another_text(cuda: Any) -> None:
    """A kernel could not call a function in another text if the texts are added in one of the two orders."""
    kernel, function = HEADER + f".extern .func {FUNCTION};" + KERNEL, HEADER + adding(2)
    for texts in ((kernel, function), (function, kernel)):
        link = Link(cuda)
        assert [link.add(text) for text in texts] == [0, 0]
        assert run_f(cuda, link.code()) == 42
        cuda.cuLinkDestroy(link.handle)
        assert link.complete() == INVALID_HANDLE
    assert cudacore_sim.reports()


@pytest.mark.parametrize(
    ("first", "second", "sum_"),
    [(".weak", ".visible", 42), (".visible", ".weak", 41), (".weak", ".weak", 41)],
)
def test_weak_definitions(cuda: Any, first: str, second: str, sum_: int) -> None:
    """A weak function would replace an ordinary one, or a later weak function would replace the first."""
    link = Link(cuda)
    assert link.add(HEADER + adding(1, first) + KERNEL) == 0
    assert link.add(HEADER + adding(2, second)) == 0
    assert run_f(cuda, link.code()) == sum_


def test_variables_of_another_text(cuda: Any) -> None:
    """Each text would have its own copy of a shared variable, or the variable's initial value would be lost."""
    uses = """
.extern .global .align 4 .u32 shared_number;
.global .align 8 .u64 pointer = shared_number;
""" + entry("f", "u64 where", "ld.global.u64 %rd2, [pointer]; ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd1], %r1;")
    link = Link(cuda)
    assert link.add(HEADER + uses) == 0
    assert link.add(HEADER + ".visible .global .align 4 .u32 shared_number = 43;\n") == 0
    assert run_f(cuda, link.code()) == 43


def test_internal_names(cuda: Any) -> None:
    """Texts that use the same internal names, as compilers do, would not be linked, or the names would be mixed up."""
    own = ".global .u32 own = {};\n.func (.reg .u32 %out) read()\n{{\n  ld.global.u32 %out, [own];\n  ret;\n}}\n"
    function = f".visible .func {FUNCTION}\n{{\n  call (%out), read, ();\n  add.u32 %out, %out, %in;\n  ret;\n}}\n"
    # The kernel has a label with the name of the function `read`. The linker must not mistake the label for the
    # function.
    kernel = f".extern .func {FUNCTION};" + KERNEL.replace("  ret;", "  bra read;\nread:\n  ret;")
    link = Link(cuda)
    assert link.add(HEADER + own.format(1) + kernel) == 0
    assert link.add(HEADER + own.format(5) + function) == 0
    assert run_f(cuda, link.code()) == 45


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (adding(1), adding(2), "Multiple definition of 'g' in 'b', first defined in 'a'"),
        (".visible .global .u32 x;\n", ".visible .global .u32 x;\n", "Multiple definition of 'x' in 'b'"),
        (
            ".visible .global .u32 x;\n",
            ".extern .global .u64 x;\n",
            "Size doesn't match for 'x' in 'b', first specified in 'a'",
        ),
        (".visible .global .u32 x;\n", ".extern .const .u32 x;\n", "Memory space doesn't match for 'x' in 'b'"),
        (adding(1), ".extern .func g();\n", "Prototype doesn't match for 'g' in 'b', first specified in 'a'"),
    ],
)
def test_conflicts(cuda: Any, first: str, second: str, said: str) -> None:
    """If a function is defined twice, one of the definitions would be chosen silently."""
    link = Link(cuda)
    assert link.add(HEADER + first, "a") == 0
    assert link.add(HEADER + second, "b") == INVALID_SOURCE
    assert said in link.log.value.decode()
    assert link.values[1] == len(link.log.value)
    assert said in cudacore_sim.why()
    assert link.add(HEADER + "// nothing\n") == INVALID_SOURCE
    assert link.complete() == INVALID_SOURCE


def test_what_nothing_defines(cuda: Any) -> None:
    """Code that calls an undefined function would be linked."""
    link = Link(cuda)
    assert link.add(HEADER + ".global .u32 y;\n", "a") == 0
    assert link.add(HEADER + f".extern .func {FUNCTION};" + KERNEL, "b") == 0
    assert link.complete() == INVALID_SOURCE
    assert b"line 4 of 'b': unresolved function 'g'" in link.log.value
    assert link.complete() == INVALID_SOURCE
    assert link.add(HEADER) == 1
    link = Link(cuda, room=12)
    assert link.add(HEADER + ".extern .global .u32 x;\n") == 0
    assert link.complete() == INVALID_SOURCE
    assert link.log.value == b"error   : u"


def test_inputs_that_cannot_be_linked(cuda: Any, tmp_path: Path) -> None:
    """Inputs that cannot be linked would be skipped without an error."""
    link = Link(cuda)
    assert link.add(HEADER + "nonsense\n", "a") == INVALID_PTX
    assert b"in 'a', line 4" in link.log.value
    assert link.add(b"!<arch>\n", "lib.a", LIBRARY_INPUT) == NOT_SUPPORTED
    assert "'lib.a' cannot be linked" in cudacore_sim.why()
    assert link.add(b"\177ELF of something", "o.cubin", CUBIN_INPUT) == NOT_SUPPORTED
    assert "no PTX of 'o.cubin'" in cudacore_sim.why()
    assert link.add("", kind=77) == 1
    missing = str(tmp_path / "no.ptx").encode()
    assert cuda.code("cuLinkAddFile_v2", link.handle, PTX_INPUT, missing, 0, None, None) == FILE_NOT_FOUND
    for kind in (PTX_INPUT, CUBIN_INPUT):
        text = HEADER if kind == CUBIN_INPUT else "nothing"
        assert link.add(text, "x", kind) == INVALID_IMAGE
    assert link.complete() == 0  # all inputs were refused, so there is nothing to link


def test_files_and_what_was_linked_before(cuda: Any, tmp_path: Path) -> None:
    """The linker would not accept its own output, or a file, as an input."""
    file = tmp_path / "g.ptx"
    file.write_text(HEADER + adding(2))
    first = Link(cuda)
    cuda.cuLinkAddFile_v2(first.handle, PTX_INPUT, str(file).encode(), 0, None, None)
    second = Link(cuda)
    assert second.add(first.code(), kind=CUBIN_INPUT) == 0
    assert second.add(HEADER + f".extern .func {FUNCTION};" + KERNEL) == 0
    assert run_f(cuda, second.code()) == 42


def test_device_runtime(cuda: Any) -> None:
    """Kernels that synchronise the grid could not be linked: they call a library of the toolkit that has no PTX."""
    kernel = """
.extern .func (.param .b64 out) cudaCGGetIntrinsicHandle(.param .b32 scope);
.extern .func (.param .b32 out) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);
.global .align 4 .u32 arrived;
.visible .entry f(.param .u64 where)
{
  .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %rd<4>;
  mov.u32 %r1, 0;
again:
  atom.global.add.u32 %r2, [arrived], 1;
  { .param .b32 scope; .param .b64 out;
    st.param.b32 [scope], 1;
    call (out), cudaCGGetIntrinsicHandle, (scope);
    ld.param.b64 %rd1, [out]; }
  { .param .b64 handle; .param .b32 flags; .param .b32 out;
    st.param.b64 [handle], %rd1;
    st.param.b32 [flags], 0;
    call (out), cudaCGSynchronize, (handle, flags);
    ld.param.b32 %r3, [out]; }
  add.u32 %r1, %r1, 1;
  mul.lo.u32 %r4, %r1, 256; // 4 blocks of 64 threads
  ld.volatile.global.u32 %r5, [arrived];
  setp.lt.u32 %p, %r5, %r4;
  @%p trap;
  setp.lt.u32 %p, %r1, 3;
  @%p bra again;
  ld.param.u64 %rd2, [where];
  st.global.u32 [%rd2], %r3;
  ret;
}
"""
    link = Link(cuda)
    assert link.add(HEADER + kernel) == 0
    assert link.add(b"!<arch>\n", "/usr/local/cuda/lib64/libcudadevrt.a", LIBRARY_INPUT) == 0
    module, function = c_void_p(), c_void_p()
    cuda.cuModuleLoadData(byref(module), link.code())
    cuda.cuModuleGetFunction(byref(function), module, b"f")
    memory, out = cuda.malloc(4), c_int(-1)
    arguments = (c_void_p * 1)(ctypes.addressof(memory))
    cuda.cuLaunchCooperativeKernel(function, 4, 1, 1, 64, 1, 1, 0, None, arguments)
    cuda.cuMemcpyDtoH_v2(byref(out), memory, c_size_t(4))
    assert out.value == 0
