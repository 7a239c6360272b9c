# SPDX-License-Identifier: Apache-2.0
"""Drivers for CUDA 12.0 to 12.3, which cannot report the parameters of kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import kernel_sources
import pytest
from kernel_sources import entry, fat_binary

import cudacore_handles as ch
from cudacore_handles._code.fat_binary import entries
from cudacore_handles._code.param_kinds import ParamKind
from cudacore_handles._code.parameters import by_values, places_in

pytestmark = pytest.mark.cuda_sim

# For the child processes: a kernel that writes all its parameters to `out`. Their driver cannot report parameters.
PTX = """
.version 7.0
.target sm_75
.address_size 64

.visible .entry mixed(.param .u64 out, .param .f32 single, .param .u8 small, .param .align 8 .b8 record[24],
                      .param .f64 number)
{
    .reg .u64 %p, %l;
    .reg .f32 %f;
    .reg .f64 %d;
    .reg .u32 %s;
    ld.param.u64 %p, [out];
    ld.param.f32 %f, [single];
    st.global.f32 [%p], %f;
    ld.param.u8 %s, [small];
    st.global.u32 [%p+4], %s;
    ld.param.u64 %l, [record+16];
    st.global.u64 [%p+8], %l;
    ld.param.f64 %d, [number];
    st.global.f64 [%p+16], %d;
    ret;
}

.visible .entry nothing()
{
    ret;
}
"""
PLACES = {"mixed": ((0, 8), (8, 4), (12, 1), (16, 24), (40, 8)), "nothing": ()}
START = f"""
import struct, warnings
import pytest
import cudacore_handles as ch

device = ch.Device(0)
device.set_current()
stream, one = device.create_stream(), ch.LaunchConfig(grid=1, block=1)
out = ch.LegacyPinnedMemoryResource().allocate(24)
record = struct.pack("qqq", 1, 2, 3)
def arrived():
    stream.sync()
    return struct.unpack("fIqd", out.__buffer__())
PTX = {PTX!r}.encode()
"""


def lz4_literals(code: bytes) -> bytes:
    """Return data as an LZ4 block that consists of literals, without matches."""
    rest = len(code) - 15
    return b"\xf0" + b"\xff" * (rest // 255) + bytes([rest % 255]) + code


@pytest.mark.parametrize("version", ["12.0", "12.1", "12.2", "12.3"])
def test_launches(run_on_sim: Callable[..., str], version: str) -> None:
    """Without cuKernelGetParamInfo, nothing could be launched, or parameters would have wrong sizes or kinds."""
    run_on_sim(
        f"""{START}
with warnings.catch_warnings():
    warnings.simplefilter("error")
    kernel = ch.ObjectCode.from_ptx(PTX).get_kernel("mixed")
    ch.launch(stream, one, kernel, out, 1.5, 7, record, 2.25)
    assert arrived() == (1.5, 7, 3, 2.25)
    prepared = kernel.prepare(stream, one, out, 2.5, 8, record, 3.25)
    prepared()
    assert arrived() == (2.5, 8, 3, 3.25)
    ch.launch(stream, one, ch.ObjectCode.from_ptx(PTX).get_kernel("nothing"))
assert [tuple(p) for p in kernel.arguments_info] == list({PLACES["mixed"]})
for args, error in (((out, 1.5, 7, record), "takes 5 arguments"), ((out, 1.5, 256, record, 0.5), "256")):
    with pytest.raises((TypeError, OverflowError), match=error):
        ch.launch(stream, one, kernel, *args)
""",
        CUDACORE_SIM_DRIVER_VERSION=version,
    )


@pytest.mark.parametrize("packed", [False, True], ids=["as it is", "LZ4"])
def test_fat_binaries(run_on_sim: Callable[..., str], tmp_path: Any, packed: bool) -> None:
    """The parameters of kernels in a fat binary would not be found."""
    code = PTX.encode()
    data = lz4_literals(code) if packed else code
    other = entry(1, 120, b".version 7.0\n.target sm_120\n")
    file = tmp_path / "a.fatbin"
    file.write_bytes(fat_binary(other, entry(1, 75, data, flags=0x2000 if packed else 0, size=len(code))))
    run_on_sim(
        f"""{START}
warnings.simplefilter("error")
kernel = ch.ObjectCode.from_fatbin({str(file)!r}).get_kernel("mixed")
ch.launch(stream, one, kernel, out, 1.5, 7, record, 2.25)
assert arrived() == (1.5, 7, 3, 2.25)
""",
        CUDACORE_SIM_DRIVER_VERSION="12.0",
    )


def test_cubins(run_on_sim: Callable[..., str], compile_cuda: Callable[[str, str, str], bytes], tmp_path: Any) -> None:
    """The parameters of kernels in a cubin would not be found."""
    file = tmp_path / "a.cubin"
    file.write_bytes(compile_cuda(kernel_sources.CUDA, "sm_90", "cubin"))
    run_on_sim(
        f"""
import cudacore_handles as ch
from cudacore_handles._code import object_code
sim.hide("cuKernelGetParamInfo")
object_code.driver_version = lambda: 12030  # the cubin can be one that only newer drivers read
device = ch.Device(0)
device.set_current()
stream, one = device.create_stream(), ch.LaunchConfig(grid=1, block=1)
code = ch.ObjectCode.from_cubin({str(file)!r})
out = ch.LegacyPinnedMemoryResource().allocate(8)
ch.launch(stream, one, code.get_kernel("echo_float64"), 1.5, out)
stream.sync()
assert out.__buffer__().cast("d")[0] == 1.5
infos = {{kernel.symbol: kernel.parameters for kernel in code.kernels}}
assert infos["mixed"] == tuple(code.get_kernel("mixed").arguments_info)
""",
    )


def test_values_where_nothing_is_known(run_on_sim: Callable[..., str]) -> None:
    """A foreign kernel with unknown parameters could not be launched, or no warning would name the missing checks."""
    run_on_sim(
        f"""{START}
import ctypes
import numpy as np
from cuda.bindings import driver
library = driver.cuLibraryLoadData(PTX, [], [], 0, [], [], 0)[1]
foreign = driver.cuLibraryGetKernel(library, b"mixed")[1]
kernel = ch.Kernel.from_handle(int(foreign))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for single, small in ((np.float32(1.5), 7), (ctypes.c_float(2.5), np.uint8(8)), (np.float32(3.5), True)):
        ch.launch(stream, one, kernel, out, single, small, record, 2.25)
        expected = float(getattr(single, "value", single))
        assert arrived() == (expected, int(small), 3, 2.25), arrived()
    prepared = kernel.prepare(stream, one, out, np.float32(4.5), 9, record, 3.25)
    prepared()
    assert arrived() == (4.5, 9, 3, 3.25)
    prepared(out, np.float32(5.5), 10, record, 4.25)
    assert arrived() == (5.5, 10, 3, 4.25)
(warning,) = caught
assert warning.category is RuntimeWarning and "arguments_info" not in str(warning.message)
assert warning.filename.endswith("child.py"), warning.filename
with pytest.raises(ch.CUDAError, match="needs a driver for CUDA 12.4 or newer"):
    kernel.arguments_info
del prepared, kernel
driver.cuLibraryUnload(library)
""",
        CUDACORE_SIM_DRIVER_VERSION="12.0",
    )


def test_the_warning_is_at_the_callers_line(run_on_sim: Callable[..., str]) -> None:
    """The warning about unknown parameters would point into the library, and not at the program's own line."""
    for call in ("ch.launch(stream, one, kernel)", "kernel.prepare(stream, one)"):
        run_on_sim(
            f"""{START}
from cuda.bindings import driver
library = driver.cuLibraryLoadData(PTX, [], [], 0, [], [], 0)[1]
kernel = ch.Kernel.from_handle(int(driver.cuLibraryGetKernel(library, b"nothing")[1]))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    {call}
assert [warning.filename for warning in caught] == [__file__], caught
""",
            CUDACORE_SIM_DRIVER_VERSION="12.0",
        )


def test_a_kernel_of_ours_by_its_handle(run_on_sim: Callable[..., str]) -> None:
    """A kernel's code would not be found by the kernel's handle, because older drivers do not report the library."""
    run_on_sim(
        f"""{START}
warnings.simplefilter("error")
made = ch.ObjectCode.from_ptx(PTX).get_kernel("mixed")
again = ch.Kernel.from_handle(int(made.handle))
assert again == made
del made
ch.launch(stream, one, again, out, 1.5, 7, record, 2.25)
assert arrived() == (1.5, 7, 3, 2.25)
""",
        CUDACORE_SIM_DRIVER_VERSION="12.0",
    )


# ---- reading parameters from code


def test_places_in_ptx() -> None:
    """Parameters would get other offsets than the driver's."""
    assert places_in(PTX.encode(), "ptx") == PLACES
    arrays = (
        b".entry k(.param .u8 a, .param .align 4 .f32 g[4][2], .param .u64 .ptr .global .align 1 p, .param .b16 h[5])"
    )
    assert places_in(arrays, "ptx") == {"k": ((0, 1), (4, 32), (40, 8), (48, 10))}


def test_images_of_a_fat_binary() -> None:
    """Damaged fat binaries would be read beyond their end, or valid data before the damage would be lost."""
    good = fat_binary(entry(2, 80, b"\x7fELF...."), entry(1, 75, b".version 7.0"))
    found = [(image.code_type, image.arch, image.unpack()) for image in entries(good)]
    assert found == [("cubin", 80, b"\x7fELF...."), ("ptx", 75, b".version 7.0")]
    for end in range(len(good)):
        assert list(entries(good[:end])) == list(entries(good))[: len(list(entries(good[:end])))]
    assert list(entries(b"")) == list(entries(b"no fat binary at all, but long enough")) == []


@pytest.mark.parametrize(
    "packed", [b"", b"\xf0", b"\x14a\x05\x00\x80bcdefghi", b"\x14a\x01", b"\x14a\x01\x00\x70bcdefgh"]
)
def test_damaged_lz4(packed: bytes) -> None:
    """Damaged code would be accepted, or code with matches would be refused as damaged."""
    good, damaged = (entry(1, 75, code, flags=0x2000, size=17) for code in (b"\x14a\x01\x00\x80bcdefghi", packed))
    assert [image.unpack() for image in entries(fat_binary(damaged, good))] == [None, b"a" * 9 + b"bcdefghi"]


def test_sizes_of_values(device: ch.Device) -> None:
    """For parameters of unknown size, values would overlap, or be passed as numbers of another kind."""
    np = pytest.importorskip("numpy")
    buffer = ch.LegacyPinnedMemoryResource().allocate(100)
    values = (1, 1.0, True, None, 1j, np.float32(1), np.complex64(1), ctypes.c_short(1), b"x" * 20, buffer)
    made = by_values(values)
    assert [p.size for p in made] == [8, 8, 8, 8, 16, 4, 8, 2, 20, 8]
    assert [p.offset for p in made] == [16 * n for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10)]
    assert [p.kind for p in made if p.kind is not ParamKind.UNKNOWN] == [ParamKind.FLOAT]
    buffer.close()
