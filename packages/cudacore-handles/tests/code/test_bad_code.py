# SPDX-License-Identifier: Apache-2.0
"""Code that is truncated, damaged, too new, or for other devices. Each test ends by loading valid code."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_sources import CUDA, PTX, entry, fat_binary

import cudacore_handles as ch

LOADABLE = ["cubin", "ptx", "fatbin"]
ONE_BLOCK = ch.LaunchConfig(grid=1, block=1)


def make(kind: str, module: Any, **options: Any) -> ch.ObjectCode:
    return getattr(ch.ObjectCode, f"from_{kind}")(module, **options)


@pytest.fixture
def good(device: ch.Device, stream: ch.Stream) -> Callable[[], None]:
    """Give a function that loads and launches a valid kernel."""

    def check() -> None:
        ch.launch(stream, ONE_BLOCK, make("ptx", PTX).get_kernel("nothing"))
        stream.sync()

    return check


@pytest.mark.parametrize("kind", LOADABLE)
@pytest.mark.parametrize("module", [b"", b"\0", b"\x7fELF", b"\x7fELF" + bytes(60), b"not code", bytes(4096), PTX[:40]])
def test_what_is_no_code(device: ch.Device, good: Callable[[], None], kind: str, module: bytes) -> None:
    """An empty file, or a file of another kind, would reach the driver, which reads beyond its end."""
    code = make(kind, module)
    for _ in "ab":
        with pytest.raises(ch.CUDAError):
            code.get_kernel("add")
    good()


@pytest.fixture(scope="session")
def cubin(first_device: ch.Device, compile_cuda: Any) -> bytes:
    return compile_cuda(CUDA, f"sm_{first_device.arch}", "cubin")


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_truncated_cubin(device: ch.Device, cubin: bytes, data: st.DataObject) -> None:
    """A truncated file would crash the process, because the driver is not given the file's length."""
    end = data.draw(st.integers(0, len(cubin) - 1))
    with pytest.raises(ch.CUDAError, match=r"CCH_EIMAGE .*(truncated|not a cubin)"):
        make("cubin", cubin[:end]).get_kernel("nothing")


def test_errors_of_the_driver_say_what_to_do(run_on_sim: Any) -> None:
    """For a cubin for another architecture, or PTX that is too new, the error would have only a code."""
    run_on_sim(
        """
        import cudacore_handles as ch
        import pytest
        from kernel_sources import PTX

        ch.Device(0).set_current()
        for step in ("cuLibraryLoadData", "cuLibraryGetKernel"):
            for result, hint in (
                (222, "The PTX is of version 7.0, which is newer than the driver, for CUDA 12.8, can compile"),
                (209, "The current device is sm_90: compile for the device"),
            ):
                sim.fail(step, 1, result)
                code = ch.ObjectCode.from_ptx(PTX)
                with pytest.raises(ch.CUDAError) as caught:
                    code.get_kernel("add")
                error = caught.value
                assert (error.operation, error.code, error.hint[: len(hint)]) == (step, result, hint), error
                code.get_kernel("add")
        """,
        CUDACORE_SIM_DRIVER_VERSION="12.8",
    )


@pytest.mark.parametrize("arch", ["sm_75", "sm_120"])
def test_a_cubin_for_another_architecture(
    device: ch.Device, good: Callable[[], None], compile_cuda: Any, arch: str
) -> None:
    """The error would not name the architectures of the code and of the device."""
    if arch == f"sm_{device.arch}":
        pytest.skip(f"this device is {arch}")
    try:
        cubin = compile_cuda(CUDA, arch, "cubin")
    except RuntimeError as error:
        pytest.skip(f"this NVRTC does not compile for {arch}: {error}")
    with pytest.raises(ch.CUDAError, match="CUDA_ERROR_NO_BINARY_FOR_GPU") as caught:
        make("cubin", cubin).get_kernel("nothing")
    assert f"The current device is sm_{device.arch}, and the cubin was compiled for {arch}" in caught.value.hint
    good()


def test_a_fat_binary_without_code_for_the_device(
    device: ch.Device, good: Callable[[], None], compile_cuda: Any
) -> None:
    """The error would not say which architectures a fat binary has code for."""
    others = [number for number in (75, 80, 120) if number != int(device.arch)]
    try:
        parts = [entry(2, number, compile_cuda(CUDA, f"sm_{number}", "cubin")) for number in others]
    except RuntimeError as error:
        pytest.skip(f"this NVRTC does not compile for them: {error}")
    parts += [entry(1, 120, PTX.replace(b".target sm_75", b".target sm_120"))] * (device.arch != "120")
    with pytest.raises(ch.CUDAError, match=r"NO_BINARY_FOR_GPU|INVALID_IMAGE|INVALID_PTX|NOT_FOUND") as caught:
        make("fatbin", fat_binary(*parts)).get_kernel("nothing")
    print(caught.value)
    names = ", ".join(f"sm_{number} (cubin)" for number in others)
    assert f"The current device is sm_{device.arch}, and the fat binary has code for {names}" in caught.value.hint
    good()


def test_a_cubin_of_newer_cuda_than_the_driver(run_python: Any, compile_cuda: Any, tmp_path: Path) -> None:
    """The error for a cubin of CUDA 13 would be that it is invalid, where the driver is for CUDA 12."""
    cubin = compile_cuda(CUDA, "sm_90", "cubin")
    if cubin[8] < 8:
        pytest.skip("this NVRTC is of CUDA 12")
    (tmp_path / "k.cubin").write_bytes(cubin)
    out = run_python(
        """
        import cudacore_handles as ch

        ch.Device(0).set_current()
        try:
            ch.ObjectCode.from_cubin("k.cubin").get_kernel("nothing")
        except ch.CUDAError as error:
            print(error)
        """,
        CUDACORE_DRIVER="sim",
        CUDACORE_SIM_DRIVER_VERSION="12.9",
    ).stdout
    assert "CUDA_ERROR_INVALID_IMAGE" in out
    assert "compiled for sm_90 by a compiler of CUDA 13, whose cubins the driver, for CUDA 12.9, cannot load" in out
    assert 'compile with CUDA 12 (python -m pip install "cudacore-compile[cu12]")' in out


def test_ptx_that_is_too_new(device: ch.Device, good: Callable[[], None]) -> None:
    """The error would lack the PTX version of the code, or the version that the driver supports."""
    with pytest.raises(ch.CUDAError, match="CUDA_ERROR_UNSUPPORTED_PTX_VERSION") as caught:
        make("ptx", PTX.replace(b".version 7.0", b".version 99.9")).get_kernel("nothing")
    assert caught.value.hint.startswith("The PTX is of version 99.9, which is newer than the driver, for CUDA 1")
    # The hint does not advise compiling a cubin, because the simulated driver cannot run one.
    assert caught.value.hint.endswith("or update the driver")
    good()


@pytest.mark.cuda_misuse_ok("an instruction that is none is reported")
def test_ptx_with_an_error(device: ch.Device, good: Callable[[], None]) -> None:
    """The error would name neither the problem in the PTX nor its line."""
    with pytest.raises(ch.CUDAError, match="CUDA_ERROR_INVALID_PTX") as caught:
        make("ptx", PTX.replace(b"red.global.add.u32 [%p], %n;", b"frobnicate %n;")).get_kernel("nothing")
    assert "frobnicate" in caught.value.log
    assert "line" in caught.value.log
    assert caught.value.log in str(caught.value)
    good()


def test_a_failure_is_not_remembered(device: ch.Device, tmp_path: Path) -> None:
    """After a failed load, valid code could not be loaded, or a library would leak."""
    before = ch.live_counts()["library"]
    path = tmp_path / "k.ptx"
    path.write_bytes(b"not code")
    code = make("ptx", path)
    with pytest.raises(ch.CUDAError, match="the 8 bytes are not a cubin, a fatbin or PTX"):
        code.get_kernel("add")
    gc.collect()
    assert ch.live_counts()["library"] == before
    path.write_bytes(PTX)
    assert code.get_kernel("add").num_arguments == 2
