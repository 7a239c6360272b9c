# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch


def test_an_owner_is_kept_exactly_as_long_as_the_memory(device: ch.Device) -> None:
    """Memory of another library would be released while it is in use, or never."""

    class Owner:
        pass

    owner = Owner()
    gone = weakref.ref(owner)
    buffer = ch.Buffer.from_handle(4096, 16, owner=owner)
    assert buffer.owner is owner
    assert buffer.memory_resource is None
    del owner
    gc.collect()
    assert gone() is not None
    buffer.close()
    buffer.close()
    gc.collect()
    assert gone() is None
    assert buffer.owner is None


def test_handles_of_cuda_bindings(device: ch.Device) -> None:
    """A buffer could not be made from an address of cuda.bindings, from NULL, or with a size of 0 bytes."""
    from cuda.bindings import driver

    for ptr, address in ((driver.CUdeviceptr(4096), 4096), (np.uint64(4096), 4096), (None, 0), (0, 0)):
        buffer = ch.Buffer.from_handle(ptr, 0)  # type: ignore[arg-type]
        assert (buffer.handle, buffer.size, buffer.is_closed) == (address, 0, False)


def test_what_the_driver_knows_of_memory(device: ch.Device, stream: ch.Stream, pinned: Any) -> None:
    """A borrowed buffer would not report where its memory is, or would be exported as another kind of memory."""
    from cuda.bindings import driver

    host = np.zeros(16, np.uint8)
    allocation, page_locked = device.allocate(16, stream=stream), pinned(16)
    status, managed = driver.cuMemAllocManaged(16, int(driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL))
    assert int(status) == 0
    table = [
        # ptr, device_id, device accessible, host accessible, managed, DLPack
        (allocation.handle, 0, True, False, False, (2, 0)),
        (page_locked.handle, -1, True, True, False, (3, 0)),
        (int(managed), 0, True, True, True, (13, 0)),
        (host.ctypes.data, -1, False, True, False, (1, 0)),
    ]
    for ptr, device_id, on_device, on_host, is_managed, dlpack in table:
        buffer = ch.Buffer.from_handle(ptr, 16)
        assert buffer.device_id == device_id
        assert (buffer.is_device_accessible, buffer.is_host_accessible) == (on_device, on_host)
        assert buffer.is_managed is is_managed
        assert buffer.__dlpack_device__() == dlpack
        if on_host:
            buffer.__buffer__()[:] = bytes(range(16))
    assert host.tolist() == list(range(16))
    (status,) = driver.cuMemFree(managed)
    assert int(status) == 0


@pytest.mark.parametrize("export", [ch.Buffer.__buffer__, np.from_dlpack, ch.Buffer.__dlpack__])
def test_an_owner_is_kept_by_what_was_exported(pinned: Any, export: Callable[[ch.Buffer], Any]) -> None:
    """Memory of another library would be freed while there is a view of it."""

    class Owner:
        def __init__(self) -> None:
            self.memory = pinned(8)

    owner = Owner()
    gone = weakref.ref(owner)
    buffer = ch.Buffer.from_handle(owner.memory.handle, 8, owner=owner)
    view = export(buffer)
    buffer.close()
    del owner, buffer
    gc.collect()
    assert gone() is not None
    del view
    gc.collect()
    assert gone() is None


def test_an_owner_on_another_device(device: ch.Device, other_device: ch.Device, stream: ch.Stream) -> None:
    """Memory would be taken for memory of the device on which its owner is, and copies would fail."""
    there = ch.DeviceMemoryResource(other_device, {}).allocate(64, stream=stream)
    here = device.allocate(64, stream=stream)
    array = np.arange(64, dtype=np.uint8)
    result = np.zeros_like(array)
    ch.Buffer.from_handle(array.ctypes.data, 64, owner=there).copy_to(here, stream=stream)
    stream.sync()
    ch.Buffer.from_handle(here.handle, 64, owner=there).copy_to(result, stream=stream)
    assert np.array_equal(result, array)
    ch.Buffer.from_handle(there.handle, 64, owner=here).copy_from(here, stream=stream)
    there.copy_to(here, stream=stream)
    here.copy_to(result, stream=stream)
    assert np.array_equal(result, array)


def test_an_owner_that_is_read_only(device: ch.Device, stream: ch.Stream) -> None:
    """Memory could not be written because its owner is other memory, which is read-only."""
    constant = np.zeros(4096, dtype=np.uint8)
    constant.flags.writeable = False
    with ch.register_host_memory(constant) as owner:
        buffer = device.allocate(64, stream=stream)
        assert not ch.Buffer.from_handle(buffer.handle, 64, owner=owner).is_read_only
        assert ch.Buffer.from_handle(owner.handle + 64, 64, owner=owner).is_read_only
        ch.Buffer.from_handle(buffer.handle, 64, owner=owner).fill(1, stream=stream)
        stream.sync()
