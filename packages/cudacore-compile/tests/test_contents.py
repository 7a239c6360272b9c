# SPDX-License-Identifier: Apache-2.0
"""The contents that are read from compiled code, compared with its source and with the driver."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cudacore_compile import Program
from cudacore_handles import Buffer, CUDAError, Device, ObjectCode, UnsupportedCodeError

SOURCE = """
struct S { char c; double d; };
namespace n {
__device__ int counter;
template <class T> __global__ void f(T *p, T v, S s, bool b, short q) {
  __shared__ T sh[64];
  sh[threadIdx.x] = v;
  __syncthreads();
  p[0] = sh[3] + s.c + b + q + counter;
}
}
__constant__ float table[16];
__device__ double data[4] = {1, 2, 3, 4};
extern "C" __global__ void __launch_bounds__(128) plain(const float *x, int n, float4 v, float *y) {
  y[n] = x[n] + v.x + table[n] + data[n];
}
extern "C" __global__ void none() {}
"""
NAMES = ["n::f<float>", "n::f<unsigned int>", "&n::counter"]
ARCHES = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"]


def build(target: str, arch: str = "sm_90", source: str = SOURCE, **options: Any) -> ObjectCode:
    return Program(source, "c++", {"arch": arch, **options}).compile(target, NAMES if source == SOURCE else ())


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("target", ["cubin", "ptx"])
def test_kernels(target: str, arch: str) -> None:
    """A kernel would be missing, or its parameters would differ from the compiler's."""
    code = build(target, arch)
    kernels = {kernel.name: kernel for kernel in code.kernels}
    f = "void n::f<float>(float*, float, S, bool, short)"
    assert set(kernels) == {f, f.replace("float", "unsigned int"), "plain", "none"}
    assert kernels[f].symbol == code.symbol_mapping["n::f<float>"]
    assert [tuple(p) for p in kernels[f].parameters] == [(0, 8), (8, 4), (16, 16), (32, 1), (34, 2)]
    assert [p.kind.value for p in kernels[f].parameters] == ["pointer", "float", "bytes", "bool", "int"]
    assert [tuple(p) for p in kernels["plain"].parameters] == [(0, 8), (8, 4), (16, 16), (32, 8)]
    assert [p.kind.value for p in kernels["plain"].parameters[1:3]] == ["bits", "bytes"]
    assert kernels["none"].parameters == ()
    if target == "cubin":
        assert (kernels[f].shared_bytes, kernels["plain"].shared_bytes) == (256, 0)
        assert (kernels[f].max_threads, kernels["plain"].max_threads) == (None, 128)
        assert all(kernel.local_bytes == 0 and kernel.registers in range(2, 40) for kernel in kernels.values())
    else:
        assert {k.registers for k in kernels.values()} | {k.shared_bytes for k in kernels.values()} == {None}


@pytest.mark.parametrize("target", ["cubin", "ptx"])
def test_globals(target: str) -> None:
    """A variable would be missing, or have another size."""
    found = {v.name: (v.size, v.space) for v in build(target).globals}
    assert found == {"n::counter": (4, "global"), "table": (64, "constant"), "data": (32, "global")}


def test_stack_and_registers() -> None:
    """The local memory and registers of a kernel would be missing, or be those of another kernel."""
    source = """
    extern "C" __global__ void deep(int *p, int n) { volatile int a[256]; for (int i = 0; i < n; ++i) a[i] = p[i];
                                                     p[0] = a[n - 1]; }
    extern "C" __global__ void flat(int *p) { *p = 1; }
    """
    kernels = {kernel.name: kernel for kernel in build("cubin", source=source).kernels}
    assert kernels["deep"].local_bytes == 1024
    assert kernels["flat"].local_bytes == 0
    limited = Program(
        'extern "C" __global__ void k(double *p) {'
        + "".join(f"double a{i} = p[{i}];" for i in range(60))
        + "__syncthreads();"
        + "".join(f"p[{i} * 7] = a{i} * a{59 - i};" for i in range(60))
        + "}",
        "c++",
        {"arch": "sm_90", "max_register_count": 40},
    ).compile("cubin")
    assert limited.kernels[0].registers in range(30, 41)


@pytest.mark.cuda_gpu
def test_attributes_as_the_driver_has_them(device: Device) -> None:
    """The registers and memory that are read from the code would differ from those that the driver reports."""
    code = build("cubin", f"sm_{device.arch}")
    for info in code.kernels:
        attributes = code.get_kernel(info.symbol).attributes
        assert attributes.num_regs == info.registers
        assert attributes.local_size_bytes == info.local_bytes
        if info.max_threads is not None:
            assert attributes.max_threads_per_block == info.max_threads


def test_other_code() -> None:
    """Code whose contents cannot be read would seem to be empty."""
    for target in ("ltoir",):
        with pytest.raises(UnsupportedCodeError, match=f'"{target}": its contents cannot be listed'):
            build(target).kernels  # noqa: B018
    with pytest.raises(ValueError, match="not a cubin"):
        ObjectCode.from_cubin(b"nothing").kernels  # noqa: B018
    assert ObjectCode.from_ptx(b"nothing").kernels == ()
    zero = b".target sm_90\n.visible .entry f(.param .align 0 .b8 a[4], .param .u32 b) { ret; }"
    assert [(p.offset, p.size) for p in ObjectCode.from_ptx(zero).kernels[0].parameters] == [(0, 4), (4, 4)]
    assert ObjectCode.from_ptx(b"").globals == ()


def test_damaged_cubins() -> None:
    """A damaged cubin would crash the process, loop forever, or raise an unexpected error."""
    whole = build("cubin").code
    assert isinstance(whole, bytes)
    choose = random.Random(3)
    intact = 0
    for _ in range(1500):
        image = bytearray(whole[: choose.randrange(len(whole))] if choose.random() < 0.3 else whole)
        for _ in range(choose.randrange(1, 30)):
            if image:
                image[choose.randrange(len(image))] = choose.randrange(256)
        for at in choose.sample(range(40, 64), 3):  # the fields of the ELF header that locate the table of sections
            if choose.random() < 0.2 and len(image) > at:
                image[at] = choose.randrange(256)
        code = ObjectCode.from_cubin(bytes(image))
        try:
            intact += len(code.kernels) > 0
            code.globals  # noqa: B018
        except ValueError:
            pass
    assert intact > 50


# -- names


SPACINGS = ["n::f<float>", "n::f< float >", " n :: f<float>", "n::f<float >\t"]


@pytest.mark.parametrize("spaced", SPACINGS)
@pytest.mark.parametrize("target", ["cubin", "ptx"])
def test_templates_however_they_are_spaced(device: Device, target: str, spaced: str) -> None:
    """A kernel would not be found if its name is written with other spaces."""
    code = build(target, f"sm_{device.arch}")
    assert code.get_kernel(spaced) == code.get_kernel("n::f<float>")
    two = "n :: f < unsigned  int >"
    assert code.get_kernel(two) == code.get_kernel("n::f<unsigned int>") != code.get_kernel("n::f<float>")


def test_names_that_the_compiler_was_not_given(device: Device) -> None:
    """A kernel without a name expression could not be found by its C++ name, or an ambiguous name would be accepted."""
    source = """
    namespace n { __global__ void g(int *p) { *p = 1; } __global__ void h(int) {} __global__ void h(float) {} }
    """
    code = build("ptx", f"sm_{device.arch}", source)
    assert code.get_kernel("n::g") == code.get_kernel("_ZN1n1gEPi") == code.get_kernel("n::g(int*)")
    assert code.get_kernel("n::h(int)") != code.get_kernel("n::h( float )")
    with pytest.raises(CUDAError, match="has no kernel 'n::h'"):
        code.get_kernel("n::h")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("plan", "did you mean 'plain'?"),
        ("n::f<floats>", "did you mean 'n::f<float>'"),
        ("f<float>", "did you mean 'n::f<float>'"),
        ("completely different", "it has: n::f<float>"),
    ],
)
def test_suggestions(device: Device, name: str, meant: str) -> None:
    """The error for a misspelt name would not suggest the right one, or would have a long list."""
    code = build("cubin", f"sm_{device.arch}")
    with pytest.raises(CUDAError) as caught:
        code.get_kernel(name)
    assert caught.value.hint.startswith(f"The code has no kernel {name!r}; {meant}")
    assert "none, plain" in caught.value.hint


@pytest.mark.parametrize("name", ["n::counter", "&n::counter", "& n::counter", "_ZN1n7counterE"])
def test_global(device: Device, name: str) -> None:
    """A variable could not be read and written, or another variable would be returned."""
    stream = device.create_stream()
    code = build("cubin", f"sm_{device.arch}")
    buffer = code.get_global(name)
    assert isinstance(buffer, Buffer)
    assert buffer.size == 4
    buffer.copy_from(bytearray(b"\x07\0\0\0"), stream=stream)
    del code  # the view keeps the code loaded
    out = bytearray(4)
    buffer.copy_to(out, stream=stream)
    assert out == b"\x07\0\0\0"
    buffer.close()


def test_global_that_is_not_there(device: Device) -> None:
    """For a misspelt name of a variable, the error would only have the driver's code NOT_FOUND."""
    code = build("cubin", f"sm_{device.arch}")
    with pytest.raises(CUDAError) as caught:
        code.get_global("tables")
    assert caught.value.code_name == "CUDA_ERROR_NOT_FOUND"
    assert caught.value.hint == (
        "The code has no variable 'tables'; did you mean 'table'? It has: &n::counter, data, table"
    )
