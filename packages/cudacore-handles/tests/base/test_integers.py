# SPDX-License-Identifier: Apache-2.0
"""Integers that callers pass: integers of any library are accepted, and bools are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch
from cudacore_handles._base.address import as_address, as_integer, is_bool


class OldBool:
    """A bool like NumPy's before version 2.3, which can also be converted to int and float."""

    dtype = np.dtype(bool)

    def __index__(self) -> int:
        return 1

    __int__ = __index__

    def __float__(self) -> float:
        return 1.0


BOOLS = [True, np.bool_(True), np.array(True), OldBool()]

CALLS: dict[str, Callable[[Any], object]] = {
    "Buffer.from_handle": lambda n: ch.Buffer.from_handle(n, 16),
    "Buffer.from_handle, size": lambda n: ch.Buffer.from_handle(16, n),
    "Stream.from_handle": ch.Stream.from_handle,
    "Kernel.from_handle": ch.Kernel.from_handle,
    "Device": ch.Device,
    "Host": ch.Host,
    "LaunchConfig.grid": lambda n: ch.LaunchConfig(grid=n, block=1),
    "LaunchConfig.block": lambda n: ch.LaunchConfig(grid=1, block=(1, n)),
    "LaunchConfig.shmem_size": lambda n: ch.LaunchConfig(grid=1, block=1, shmem_size=n),
    "LaunchConfig.priority": lambda n: ch.LaunchConfig(grid=1, block=1, priority=n),
    "StreamOptions.priority": lambda n: ch.Device().create_stream(ch.StreamOptions(priority=n)),
    "Device.allocate": lambda n: ch.Device().allocate(n, stream=ch.LEGACY_DEFAULT_STREAM),
    "LegacyPinnedMemoryResource.allocate": lambda n: ch.LegacyPinnedMemoryResource().allocate(n),
    "from_buffer, itemsize": lambda n: ch.StridedMemoryView.from_buffer(
        ch.LegacyPinnedMemoryResource().allocate(4), (1,), itemsize=n
    ),
    "stream_ptr": lambda n: ch.StridedMemoryView.from_any_interface(np.zeros(1), n),
    "stream": lambda n: ch.LegacyPinnedMemoryResource().allocate(4).__dlpack__(stream=n),
}


@pytest.mark.parametrize("value", BOOLS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_no_bool_is_an_integer(device: ch.Device, call: Callable[[Any], object], value: Any) -> None:
    """A bool that is passed by mistake would be used as address 1, as a byte of memory, or as device 1."""
    with pytest.raises((TypeError, ValueError)):
        call(value)


def test_fill_takes_the_byte_of_a_bool(
    device: ch.Device, stream: ch.Stream, pinned: Callable[[int], ch.Buffer]
) -> None:
    """A fill would refuse NumPy's bools, which have one byte, or accept Python's bools, whose size is undefined."""
    buffer = pinned(4)
    buffer.fill(np.bool_(True), stream=stream)
    stream.sync()
    assert bytes(buffer.__buffer__()) == b"\1\1\1\1"
    with pytest.raises(TypeError, match="value must be an int from 0 to 255, or a value with a size, not bool"):
        buffer.fill(True, stream=stream)


def test_integers_of_other_libraries() -> None:
    """NumPy's integers, and handles that convert to integers, could not be passed."""
    for value in (5, np.int8(5), np.uint64(5), np.array(5)):
        assert as_integer(value) == as_address(value, "what") == 5
    for value in (5.0, "5", None, np.float32(5), np.array([5, 6]), 5j, [5]):
        assert as_integer(value) is None
        with pytest.raises(TypeError, match=r"what, not "):
            as_address(value, "what")
    assert [is_bool(value) for value in BOOLS] == [True] * len(BOOLS)
    with pytest.raises(ValueError, match="what; -1 is not an address"):
        as_address(np.int64(-1), "what")


def test_addresses_of_cuda_bindings() -> None:
    """A handle of ``cuda.bindings`` could not be wrapped."""
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    assert as_address(driver.CUstream(5), "what") == 5
