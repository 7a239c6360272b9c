# SPDX-License-Identifier: Apache-2.0
"""The reasons for refused calls: on stderr, in `cudacore_sim.why` and `explanations`, and in notes of exceptions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_int, c_void_p
from typing import Any

import pytest
from kernels import PTX

import cudacore_sim

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"
INVALID_VALUE, INVALID_HANDLE, NOT_SUPPORTED, INVALID_PTX, INVALID_IMAGE, NO_BINARY = 1, 400, 801, 218, 200, 209


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("not code at all", INVALID_IMAGE, "neither PTX nor a cubin"),
        (".version 8.0\n.target sm_120\n.address_size 64\n", INVALID_PTX, "code for sm_120 does not run on sm_90"),
        (".version 8.0\n.address_size 64\n", INVALID_PTX, "a .target directive is missing"),
        (HEADER + ".entry f() { ret }\n", INVALID_PTX, "line 4: expected a number, found '}': .entry f() { ret }"),
        (
            HEADER + ".entry f() {\n  mov.u32 %r1, 5;\n ret; }\n",
            INVALID_PTX,
            "line 5: unknown name '%r1': mov.u32 %r1, 5;",
        ),
        (HEADER + ".entry f() {\n bra nowhere;\n}\n", INVALID_PTX, "line 5: unknown label 'nowhere': bra nowhere;"),
        (HEADER + ".extern .func g();\n.entry f() { call g; ret; }\n", INVALID_PTX, "unresolved function 'g': .extern"),
        (
            HEADER + ".extern .func cudaLaunchDeviceV2();\n.entry f() { call cudaLaunchDeviceV2; ret; }\n",
            INVALID_PTX,
            "unresolved function 'cudaLaunchDeviceV2', because launches from kernels are not simulated",
        ),
        (HEADER + ".extern .global .u32 x;\n.entry f() { ret; }\n", INVALID_PTX, "undefined reference to 'x'"),
        (
            HEADER + ".entry f() {\n .reg .b32 %r;\n add.u33 %r, %r, %r; }\n",
            INVALID_PTX,
            "line 6: unknown instruction 'add.u33'",
        ),
    ],
)
def test_code_that_cannot_be_loaded(cuda: Any, text: str, code: int, said: str) -> None:
    """Loading invalid code would return an error code without a reason."""
    module, library, kernel = c_void_p(), c_void_p(), c_void_p()
    assert cuda.code("cuModuleLoadData", byref(module), text.encode()) == code
    assert said in cudacore_sim.why()
    assert len(cudacore_sim.explanations()) == 1
    # A repeated refusal is not reported again, but why() still has the reason.
    assert cuda.code("cuModuleLoadData", byref(module), text.encode()) == code
    assert said in cudacore_sim.why()
    assert len(cudacore_sim.explanations()) == 1
    assert cudacore_sim.reports() == []
    if code != INVALID_IMAGE:
        cuda.cuLibraryLoadData(byref(library), text.encode(), None, None, 0, None, None, 0)
        assert cuda.code("cuLibraryGetKernel", byref(kernel), library, b"f") == code
        assert said in cudacore_sim.why()


def test_launches_that_cannot_be(cuda: Any) -> None:
    """The reason for a refused launch would not contain the invalid number."""
    module, function = c_void_p(), c_void_p()
    cuda.cuModuleLoadData(byref(module), PTX)
    cuda.cuModuleGetFunction(byref(function), module, b"small")  # .maxntid 64

    def launch(*sizes: int, shared: int = 0, parameters: Any = None, extra: Any = None) -> tuple[int, str]:
        return cuda.code("cuLaunchKernel", function, *sizes, shared, None, parameters, extra), cudacore_sim.why()

    for sizes, said in (((0, 1, 1, 1, 1, 1), "a grid of (0,1,1)"), ((1, 1, 1, 65, 1, 1), "at most 64")):
        code, why = launch(*sizes)
        assert code == INVALID_VALUE
        assert why.startswith("kernel 'small' cannot be launched so: ")
        assert said in why
    assert "bytes of dynamic shared memory" in launch(1, 1, 1, 1, 1, 1, shared=300_000)[1]
    cuda.cuModuleGetFunction(byref(function), module, b"store")
    assert "it has 2 parameters, and no arguments" in launch(1, 1, 1, 1, 1, 1)[1]
    value = ctypes.c_uint64()
    arguments = (c_void_p * 2)(ctypes.cast(byref(value), c_void_p), None)
    assert "there is no argument 2 of 2" in launch(1, 1, 1, 1, 1, 1, parameters=arguments)[1]


def test_what_went_wrong_before(cuda: Any) -> None:
    """The reason for an error would not name the kernel that caused the error, or the misused object."""
    module, function = c_void_p(), c_void_p()
    stream = cuda.stream()
    cuda.cuStreamDestroy_v2(stream)
    assert cuda.code("cuStreamQuery", stream) == INVALID_HANDLE
    assert "destroyed" in cudacore_sim.why()
    assert cuda.code("cuStreamCreate", None, 0) == INVALID_VALUE
    assert cudacore_sim.why() == ""  # the reason of the previous call is not returned
    cuda.cuModuleLoadData(byref(module), PTX)
    cuda.cuModuleGetFunction(byref(function), module, b"fail")
    cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    assert cuda.code("cuCtxSynchronize") == 719
    assert "kernel 'fail'" in cudacore_sim.why()
    name = ctypes.c_char_p()
    cuda.cuGetErrorName(719, byref(name))  # a successful call does not change the reason
    assert "kernel 'fail'" in cudacore_sim.why()


def test_what_is_not_simulated(cuda: Any) -> None:
    """Features that are not simulated would be refused without a reason."""
    assert cuda.code("cuTexRefCreate", None) == NOT_SUPPORTED
    assert cudacore_sim.why() == "cuTexRefCreate is not simulated, and answers CUDA_ERROR_NOT_SUPPORTED"
    for name in ("cuMemGetLocationInfo", "cuDeviceGetP2PAtomicCapabilities", "cuTensorMapEncodeIm2colWide"):
        assert cuda.code(name, *[None] * 16) == NOT_SUPPORTED
        assert cudacore_sim.why() == f"{name} is not simulated, and answers CUDA_ERROR_NOT_SUPPORTED"
    table = c_void_p()
    assert cuda.code("cuGetExportTable", byref(table), b"\0" * 16) == NOT_SUPPORTED
    assert "CUDA runtime (libcudart" in cudacore_sim.why()
    assert len([text for text in cudacore_sim.explanations() if "cuGetExportTable" in text]) == 1


def test_stderr_has_it_once(run_python: Callable[..., Any]) -> None:
    """The same refusal would be reported repeatedly on stderr, or not at all."""
    child = run_python(
        """
        context, module = c_void_p(), c_void_p()
        cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
        for _ in range(3):
            cu.cuModuleLoadData(byref(module), b".version 8.0\\n.target sm_90\\n.entry f( { }\\n")
            cu.cuTexRefCreate(None)
        size = c_uint64()
        for i in range(3):
            cu.cuMemAlloc_v2(byref(size), c_size_t((1 << 40) + i))
        """
    )
    assert [line.partition(":")[0] for line in child.stderr.splitlines()] == ["cudacore-sim"] * 3
    assert "line 3: expected a parameter, found '{': .entry f( { }" in child.stderr
    assert "device 0 has no 1099511627776 bytes left" in child.stderr


def test_exceptions_have_it_as_a_note(run_python: Callable[..., Any]) -> None:
    """A notebook, which shows exceptions but not stderr, would not show the reason for a refused call."""
    pytest.importorskip("cudacore_handles")
    child = run_python(
        r"""
        import cudacore_handles as ch
        ch.Device(0).set_current()
        stream = ch.Device(0).create_stream()
        text = b".version 8.0\n.target sm_90\n.entry f() {\n  mov.u32 %r1, 5;\n ret; }\n"
        def load():
            ch.ObjectCode.from_ptx(text).get_kernel("f")
        def allocate():
            ch.Device(0).allocate(1 << 50, stream=stream)
        for refused in (load, allocate):
            try:
                refused()
            except ch.CUDAError as error:
                print("\n".join([str(error), *getattr(error, "__notes__", [])]))
        """
    )
    assert "The driver says: code that cannot be loaded: line 4: unknown name '%r1': mov" in child.stdout
    assert "The driver says: device 0 has no 1125899906842624 bytes left" in child.stdout, child.stderr


def test_a_count_of_none(cuda: Any) -> None:
    """Reading an explanation that does not exist would return an empty text instead of raising an error."""
    library = cudacore_sim.load()
    library.cudasim_explanation.restype = ctypes.c_size_t
    assert library.cudasim_explanation(ctypes.c_size_t(99), None, ctypes.c_size_t(0)) == 0
    count = c_int()
    cuda.cuDeviceGetCount(byref(count))
    assert cudacore_sim.explanations() == []
