# SPDX-License-Identifier: Apache-2.0
"""The types that the pointers of ``extern "C"`` kernels point to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cudacore_handles as ch
from cudacore_compile import Program
from cudacore_compile._compilers.pointees import add_pointees, pointees
from cudacore_compile.typing import CompileTargetName


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("float *x", "float32"),
        ("const float* __restrict__ x", "float32"),
        ("float const *const x", "float32"),
        ("float x[]", "float32"),
        ("const double &x", "float64"),
        ("double*", "float64"),
        ("bool *x", "bool"),
        ("unsigned *x", "uint32"),
        ("long long unsigned int *x", "uint64"),
        ("short int *x", "int16"),
        ("long *x", "int64"),
        ("size_t *x", "uint64"),
        ("std::int32_t *x", "int32"),
        ("cuda::std::uint16_t *x", "uint16"),
        ("signed char *x", "int8"),
        ("__half *x", "float16"),
        ("const half *x", "float16"),
        ("nv_bfloat16 *x", "bfloat16"),
        ("__nv_fp8_e4m3 *x", "float8_e4m3fn"),
        ("cuda::std::complex<float> *x", "complex64"),
        ("thrust::complex< double > *x", "complex128"),
        # pointers to anything, and types that are not known
        ("void *x", ""),
        ("char *x", ""),
        ("unsigned char *x", ""),
        ("uint8_t *x", ""),
        ("std::byte *x", ""),
        ("float4 *x", ""),
        ("real *x", ""),
        ("long double *x", ""),
        ("float **x", ""),
        ("float *x[2]", ""),
        ("float x", ""),
        ("mine::half *x", ""),
        ("T<int> *x", ""),
        ("", ""),
    ],
)
def test_types(parameter: str, expected: str) -> None:
    """A wrong type would be read, and an array that the kernel takes would be refused; or none would be read."""
    assert pointees(f'extern "C" __global__ void f({parameter}) {{}}') == {"f": [expected]}


@pytest.mark.parametrize(
    "declaration",
    [
        'extern "C" __global__ void f(float *x, int n) {}',
        'extern "C" __global__ __launch_bounds__(128, 2) void f(float *x, int n) {}',
        'extern "C" __global__ void __launch_bounds__(128) f(float *x, int n) {}',
        'extern "C" {\n__global__ void\nf(\n  float *x, // the values\n  int n /* how many, */)\n{}\n}',
        'extern "C" __global__ void f(float *x, int n);\nextern "C" __global__ void f(float *y, int n) {}',
        '// __global__ void f(double *x, int n)\nextern "C" __global__ void f(float *x, int n) {}',
    ],
)
def test_declarations(declaration: str) -> None:
    """A kernel with launch bounds, comments or a prototype would not be found."""
    assert pointees(declaration) == {"f": ["float32", ""]}


@pytest.mark.parametrize(
    "source",
    [
        "#define float double\n__global__ void f(float *x) {}",
        "typedef unsigned short half;\n__global__ void f(half *x) {}",
        "struct half { short bits; };\n__global__ void f(half *x) {}",
        "using half = short;\n__global__ void f(half *x) {}",
        "__global__ void f(float *x) {}\n#if 0\n#else\n__global__ void f(double *x) {}\n#endif",
        "__global__ void f(REAL(float) *x) {}",
        "__global__ void f(MACRO) {}",
        "",
    ],
)
def test_types_that_are_not_certain(source: str) -> None:
    """A type that the source defines itself, or that depends on the preprocessor, would be taken for another."""
    assert not any(map(any, pointees(source).values()))


def test_signatures() -> None:
    """Types would be added to other parameters than pointers, or to those of another kernel of the same name."""
    found = {"f": ["float32", ""], "g": ["float32"], "h": ["int32", "int32"]}
    signatures = {"f": "p8 n4", "g": "p8 n4", "h": "b8 a8", "i": ""}
    assert add_pointees(signatures, found) == {"f": "p8*float32 n4", "g": "p8 n4", "h": "b8 a8*int32", "i": ""}


@settings(deadline=None)  # a busy machine can be slow
@given(st.text(alphabet='__global__ void f(float*x,int){}<>/*"\n', max_size=120))
def test_any_text(text: str) -> None:
    """A source that cannot be read would fail with another error than the compiler's."""
    pointees(text)
    pointees("__global__ void f(" + text)


@pytest.mark.parametrize("target", ["cubin", "ptx"])
def test_launches(target: CompileTargetName, device: ch.Device) -> None:
    """A float64 array for `float *` of an extern "C" kernel would give wrong numbers, as every beginner writes it."""
    source = 'extern "C" __global__ void twice(float *x, const double *factors, char *c) { x[0] *= 2; }'
    code = Program(source, "c++").compile(target)
    twice = code.get_kernel("twice")
    assert [p.pointee for p in twice.arguments_info] == ["float32", "float64", ""]
    assert [p.pointee for p in code.kernels[0].parameters] == ["float32", "float64", ""]
    stream = device.create_stream()
    buffer = device.allocate(64, stream=stream)
    singles, doubles = buffer.view("float32"), buffer.view("float64")
    one = ch.LaunchConfig(grid=1, block=1)
    ch.launch(stream, one, twice, singles, doubles, doubles)
    ch.launch(stream, one, twice, buffer, buffer, buffer)
    with pytest.raises(TypeError, match=r"argument 0: .* array of float64, but the parameter is a pointer to float;"):
        ch.launch(stream, one, twice, doubles, doubles, doubles)
    stream.sync()
