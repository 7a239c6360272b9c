# SPDX-License-Identifier: Apache-2.0
"""Runs the output of every compiler and linker: it must load, and give the right results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compile_sources import FUNCTION, FUNCTION_IR, KERNEL, KERNEL_IR, SINE_IR, WHOLE, run_map

from cudacore_compile import Linker, Program, compile_many, make_fatbin
from cudacore_compile._command import main
from cudacore_compile._compilers import nvjitlink as _nvjitlink
from cudacore_compile._compilers.choose_linker import ptx_of
from cudacore_handles import CUDAError, Device, ObjectCode
from cudacore_handles._compiler.driver_linker import driver_cuda_version

VALUES = np.random.default_rng(9).uniform(-2, 2, 1000).astype(np.float32)
# Doubling is exact. So the result is rounded only once, whether or not the compiler fuses multiplication and addition.
TWICE_PLUS_ONE = np.float32(2) * VALUES + np.float32(1)


def build(arch: str, source: str | bytes, target: str, code_type: str = "c++", **options: Any) -> ObjectCode:
    return Program(source, code_type, {"arch": arch, **options}).compile(target)


def parts(arch: str, target: str, **options: Any) -> list[ObjectCode]:
    options = {"relocatable_device_code": True, **options}
    return [build(arch, source, target, **options) for source in (KERNEL, FUNCTION)]


def intermediate_ptx(arch: str) -> ObjectCode:
    program = Program(WHOLE, "c++", {"arch": arch})
    program.compile("cubin")
    ptx = program.intermediate_ptx
    assert ptx is not None
    return ptx


def linked_ltoir(arch: str) -> ObjectCode:
    if _nvjitlink.load().version < (13, 2):
        pytest.skip("needs nvJitLink 13.2")
    half = Linker(*parts(arch, "ltoir"), options={"arch": arch}).link("ltoir")
    return Linker(half, options={"arch": arch}).link("cubin")


def two_languages(arch: str) -> ObjectCode:
    function = build(arch, FUNCTION_IR, "ltoir", "nvvm")
    return Linker(build(arch, KERNEL, "ltoir"), function, options={"arch": arch}).link("cubin")


def fatbin(arch: str) -> ObjectCode:
    arches = dict.fromkeys(["sm_80", arch, "sm_120"])
    return make_fatbin(compile_many([(WHOLE, {"arch": each}) for each in arches]))


BACKENDS: dict[str, Callable[[str], ObjectCode]] = {
    "NVRTC, cubin": lambda arch: build(arch, WHOLE, "cubin"),
    "NVRTC, PTX": lambda arch: build(arch, WHOLE, "ptx"),
    "NVRTC, PTX beside a cubin": intermediate_ptx,
    "nvJitLink, PTX program": lambda arch: build(arch, build(arch, WHOLE, "ptx").code, "cubin", "ptx"),
    "nvJitLink, PTX": lambda arch: Linker(*parts(arch, "ptx"), options={"arch": arch}).link("cubin"),
    "nvJitLink, cubins": lambda arch: Linker(*parts(arch, "cubin"), options={"arch": arch}).link("cubin"),
    "nvJitLink, LTO-IR": lambda arch: Linker(*parts(arch, "ltoir"), options={"arch": arch}).link("cubin"),
    "nvJitLink, LTO-IR to PTX": lambda arch: Linker(*parts(arch, "ltoir"), options={"arch": arch}).link("ptx"),
    "nvJitLink, LTO-IR twice": linked_ltoir,
    "nvJitLink, C++ and NVVM IR": two_languages,
    "nvFatbin, cubins": fatbin,
    "nvFatbin, PTX": lambda arch: make_fatbin([build("compute_80", WHOLE, "ptx")]),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends(device: Device, backend: str) -> None:
    """The output of this compiler or linker would not load, not run, or give wrong results."""
    code = BACKENDS[backend](f"sm_{device.arch}")
    assert run_map(device, code, VALUES).tobytes() == TWICE_PLUS_ONE.tobytes()


@pytest.mark.parametrize("way", ["ptx", "ltoir"])
def test_kernel_in_nvvm_ir(device: Device, way: str) -> None:
    """A kernel that libNVVM has compiled would not load, not run, or calculate something else."""
    if device.compute_capability >= (10, 0):
        pytest.skip("the kernel has typed pointers, which NVVM IR for compute capability 10.0 and later does not have")
    arch = f"sm_{device.arch}"
    if way == "ptx":
        code = build(arch, KERNEL_IR, "ptx", "nvvm", extra_sources=[("function", FUNCTION_IR)])
    else:
        kernel, function = build(arch, KERNEL_IR, "ltoir", "nvvm"), build(arch, FUNCTION, "ltoir")
        code = Linker(kernel, function, options={"arch": arch}).link("cubin")
    assert run_map(device, code, VALUES[:1], count=False).tobytes() == TWICE_PLUS_ONE[:1].tobytes()


def test_libdevice(device: Device) -> None:
    """A function of libdevice would be missing, or another function would be linked."""
    arch = f"sm_{device.arch}"
    sine = build(arch, SINE_IR, "ltoir", "nvvm", use_libdevice=True)
    code = Linker(build(arch, KERNEL, "ltoir"), sine, options={"arch": arch}).link("cubin")
    np.testing.assert_allclose(run_map(device, code, VALUES), np.sin(VALUES), rtol=1e-5, atol=1e-6)


# With fma=False, each operation is rounded. The order of operations is also fixed, so results are equal in each bit.
ROUNDING = 'extern "C" __device__ float f(float x) { return sqrtf(fabsf(x)) / 3.0f + x * 0.1f; }'
ROUNDING_KERNEL = KERNEL.replace("p[i] = f(p[i])", "p[i] = f(p[i]) * 0.7f + f(p[i] + 0.3f)")


def test_linked_as_a_whole_is_as_linked_separately(device: Device) -> None:
    """Link-time optimization would change results, in the last bit or altogether."""
    arch = f"sm_{device.arch}"
    options = {"arch": arch, "fma": False}

    def f(x: Any) -> Any:
        return np.sqrt(np.abs(x)) / np.float32(3) + x * np.float32(0.1)

    expected = f(VALUES) * np.float32(0.7) + f(VALUES + np.float32(0.3))
    assert expected.dtype == np.float32
    sources = (ROUNDING_KERNEL, ROUNDING)
    codes = {}
    for target in ("ptx", "cubin", "ltoir"):
        made = [build(arch, text, target, fma=False, relocatable_device_code=True) for text in sources]
        codes[target] = Linker(*made, options=options if target == "ltoir" else {"arch": arch}).link("cubin")
    codes["LTO-IR to PTX"] = Linker(*made, options=options).link("ptx")
    for way, code in codes.items():
        assert run_map(device, code, VALUES).tobytes() == expected.tobytes(), way


LISTED = """
template <class T> __global__ void reverse(T *p, unsigned n) {
  __shared__ T all[256];
  if (threadIdx.x < n) all[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n) p[threadIdx.x] = all[n - 1 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(64) many(double *p) {
  double a[16];
  for (int i = 0; i < 16; ++i) a[i] = p[i * 64 + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < 16; ++i) p[i * 64 + threadIdx.x] = a[i] * a[15 - i];
}
extern "C" __global__ void none() {}
"""


def test_listed_kernels_are_as_the_driver_has_them(
    device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--list-kernels`` would differ from the driver's information about a cubin."""
    code = Program(LISTED, "c++", {"arch": f"sm_{device.arch}"}).compile("cubin", ["reverse<float>", "reverse<double>"])
    path = tmp_path / "listed.cubin"
    assert isinstance(code.code, bytes)
    path.write_bytes(code.code)
    assert main([str(path), "--list-kernels", "--format", "json"]) == 0
    listing = {kernel["symbol"]: kernel for kernel in json.loads(capsys.readouterr().out)}
    assert set(listing) == {*code.symbol_mapping.values(), "many", "none"}
    for symbol, listed in listing.items():
        kernel = code.get_kernel(symbol)
        attributes = kernel.attributes
        assert listed["registers"] == attributes.num_regs
        assert listed["shared_bytes"] == attributes.shared_size_bytes
        assert listed["max_threads"] in (None, attributes.max_threads_per_block)
        assert [(p["offset"], p["size"]) for p in listed["parameters"]] == [tuple(p) for p in kernel.arguments_info]
    assert listing[code.symbol_mapping["reverse<double>"]]["shared_bytes"] == 2048
    assert listing["many"]["max_threads"] == 64


@pytest.mark.cuda_gpu  # the simulator accepts PTX of any version
def test_ptx_newer_than_the_driver(device: Device) -> None:
    """If the driver is too old for PTX, the error would lack a version, or what to do."""
    major, minor = ptx_of(driver_cuda_version())
    newer = f"{major}.{minor + 1}"
    code = build("sm_80", WHOLE, "ptx").code
    assert isinstance(code, bytes)
    ptx = re.sub(rb"\.version [\d.]+", b".version " + newer.encode(), code)
    with pytest.raises(CUDAError, match="CUDA_ERROR_UNSUPPORTED_PTX_VERSION") as caught:
        ObjectCode.from_ptx(ptx).get_kernel("map")
    cuda = ".".join(map(str, driver_cuda_version()))
    assert f"The PTX is of version {newer}, which is newer than the driver, for CUDA {cuda}" in caught.value.hint
    assert 'compile to "cubin" for the device instead' in caught.value.hint
