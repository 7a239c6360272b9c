# SPDX-License-Identifier: Apache-2.0
"""The attributes that the simulator reports, compared with those of an H200 with driver 13.0 (data/h200.json)."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from facts import H200

# Attributes of features that are not simulated: remote direct access, compression, multicast, decompression.
NOT_SIMULATED = {128, 107, 110, 116, 124}

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 b, .param .align 4 .b8 c[12], .param .f64 d)
{ .shared .align 4 .b8 s[100]; .reg .b32 %r<2>; mov.u32 %r1, s; ret; }
"""


def test_attributes(driver: Any) -> None:
    """An attribute of a device would differ from that of an H200."""
    for attribute, expected in H200["attributes"].items():
        value = driver.out("cuDeviceGetAttribute", int(attribute), 0, kind=ctypes.c_int)
        if int(attribute) not in NOT_SIMULATED:
            assert value == expected, attribute


def test_unknown_attribute(driver: Any) -> None:
    """An attribute that the driver does not have would be returned as garbage instead of an error."""
    assert driver.code("cuDeviceGetAttribute", ctypes.byref(ctypes.c_int()), 10_000, 0) == 1


def test_errors(driver: Any) -> None:
    """The name or the description of an error would differ from the real driver's."""
    for code, (name, meaning) in H200["errors"].items():
        for function, expected in (("cuGetErrorName", name), ("cuGetErrorString", meaning)):
            text = ctypes.c_char_p()
            driver.code(function, int(code), ctypes.byref(text))
            assert text.value == expected.encode()


def test_limits(cuda: Any) -> None:
    """A limit would have a wrong default value, or setting it would return a wrong error."""
    for limit, (code, value) in H200["limits"].items():
        size = ctypes.c_size_t()
        assert cuda.code("cuCtxGetLimit", ctypes.byref(size), int(limit)) == code
        assert size.value == value


@pytest.fixture
def function(cuda: Any) -> ctypes.c_void_p:
    library = ctypes.c_void_p(cuda.out("cuLibraryLoadData", PTX, None, None, 0, None, None, 0))
    kernel = ctypes.c_void_p(cuda.out("cuLibraryGetKernel", library, b"k"))
    return ctypes.c_void_p(cuda.out("cuKernelGetFunction", kernel))


def test_occupancy(cuda: Any, function: ctypes.c_void_p) -> None:
    """The occupancy of a kernel would differ from the one on an H200."""
    cuda.cuFuncSetAttribute(function, 8, 232448 - 100)
    for threads, shared, code, blocks in H200["occupancy"]:
        value = ctypes.c_int()
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        assert cuda.code(name, ctypes.byref(value), function, threads, ctypes.c_size_t(shared)) == code
        assert value.value == blocks, (threads, shared)


def test_potential_block(cuda: Any, function: ctypes.c_void_p) -> None:
    """The recommended block size would differ from the one on an H200."""
    for limit, shared, code, grid, block in H200["potential_block"]:
        sizes = ctypes.c_int(), ctypes.c_int()
        out = [ctypes.byref(size) for size in sizes]
        name = "cuOccupancyMaxPotentialBlockSize"
        assert cuda.code(name, *out, function, None, ctypes.c_size_t(shared), limit) == code
        assert [size.value for size in sizes] == [grid, block]


def test_available_shared(cuda: Any, function: ctypes.c_void_p) -> None:
    """The shared memory left for a block would differ from an H200's."""
    cuda.cuFuncSetAttribute(function, 8, 232448 - 100)
    for blocks, threads, code, size in H200["available_shared"]:
        value = ctypes.c_size_t()
        name = "cuOccupancyAvailableDynamicSMemPerBlock"
        assert cuda.code(name, ctypes.byref(value), function, blocks, threads) == code
        if not code:
            assert value.value == size


def test_parameters(cuda: Any, function: ctypes.c_void_p) -> None:
    """Arguments would be packed at offsets that differ from those at which the kernel reads them."""
    expected = [(0, 8), (8, 4), (12, 12), (24, 8)]
    for index, pair in enumerate(expected):
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        cuda.cuFuncGetParamInfo(function, ctypes.c_size_t(index), ctypes.byref(offset), ctypes.byref(size))
        assert (offset.value, size.value) == pair
    args = ctypes.c_size_t(len(expected)), ctypes.byref(ctypes.c_size_t()), ctypes.byref(ctypes.c_size_t())
    assert cuda.code("cuFuncGetParamInfo", function, *args) == 1
