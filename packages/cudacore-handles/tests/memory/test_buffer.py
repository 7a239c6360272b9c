# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import gc
import re
import sys
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from closing import check_closing
from dlpack_producers import Exporter

import cudacore_handles as ch
from cudacore_handles._base.handle import hold

Pinned = Callable[[int], ch.Buffer]
Content = Callable[[ch.Buffer], bytes]


# ---- identity


def test_properties(device: ch.Device, buffer: ch.Buffer) -> None:
    """A buffer would not report its size, location and owner."""
    assert buffer.size == 64
    assert type(buffer.handle) is int
    assert buffer.handle > 0
    assert repr(buffer) == f"<Buffer ptr={buffer.handle:#x} size=64>"
    assert buffer.memory_resource is device.memory_resource
    assert buffer.owner is None
    assert (buffer.device_id, buffer.is_mapped, buffer.is_managed) == (0, False, False)
    assert (buffer.is_device_accessible, buffer.is_host_accessible) == (True, False)


def test_pinned_properties(pinned: Pinned) -> None:
    """Host memory would not be reported as accessible by the host."""
    buffer = pinned(16)
    assert (buffer.device_id, buffer.is_mapped, buffer.is_managed) == (-1, False, False)
    assert (buffer.is_device_accessible, buffer.is_host_accessible) == (True, True)


def test_identity(device: ch.Device, buffer: ch.Buffer, pinned: Pinned) -> None:
    """Buffers of the same memory would be unequal, or buffers of different memory would be equal."""
    view, half = ch.Buffer.from_handle(buffer.handle, 64), ch.Buffer.from_handle(buffer.handle, 32)
    assert buffer == view
    assert hash(buffer) == hash(view)
    assert buffer != half
    assert buffer != pinned(64)
    assert buffer != buffer.handle
    assert len({buffer, view, half}) == 2


def test_closed(buffer: ch.Buffer, stream: ch.Stream, pinned: Pinned) -> None:
    """The memory of a closed buffer would be used, or freed twice."""
    other = pinned(64)
    uses: list[Callable[[], Any]] = [
        lambda: buffer.copy_to(stream=stream),
        lambda: buffer.copy_to(other, stream=stream),
        lambda: buffer.copy_from(other, stream=stream),
        lambda: other.copy_to(buffer, stream=stream),
        lambda: other.copy_from(buffer, stream=stream),
        lambda: buffer.fill(0, stream=stream),
        lambda: buffer.set_deallocation_stream(stream),
        lambda: buffer.device_id,
        lambda: buffer.is_device_accessible,
        lambda: buffer.is_host_accessible,
        lambda: buffer.is_managed,
        buffer.__dlpack__,
        buffer.__dlpack_device__,
        buffer.__buffer__,
    ]
    check_closing(buffer, uses)
    buffer.close(stream)
    assert buffer.is_closed
    assert (buffer.handle, buffer.size) == (0, 0)
    assert buffer != other
    other.fill(1, stream=stream)


@pytest.mark.cuda_sim
def test_query_of_a_buffer_that_another_thread_closes(cuda_sim: Any) -> None:
    """If another thread closed a buffer during a query of its memory, the driver would report about freed memory."""
    owner = ch.LegacyPinnedMemoryResource().allocate(64)
    buffer = ch.Buffer.from_handle(owner.handle, 64, owner=owner)
    del owner
    call = "cuPointerGetAttributes"
    cuda_sim.hold(call)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(lambda: buffer.is_device_accessible)
        while not cuda_sim.held(call) and not future.done():
            time.sleep(1e-3)
        buffer.close()
        cuda_sim.let_go(call)
        assert future.result()


def test_properties_are_asked_of_the_resource_each_time() -> None:
    """The answers of a program's own memory resource can change; an old one could be remembered."""

    class Moving(ch.MemoryResource):
        is_device_accessible, is_host_accessible, device_id, is_managed = True, True, 3, False

        def deallocate(self, ptr: int, size: int, *, stream: Any) -> None:
            """Free nothing."""

    resource = Moving()
    buffer = ch.Buffer.from_handle(0, 0, mr=resource)
    assert (buffer.device_id, buffer.is_host_accessible, buffer.__dlpack_device__()) == (3, True, (3, 0))
    resource.is_host_accessible = False
    assert (buffer.is_host_accessible, buffer.__dlpack_device__()) == (False, (2, 3))
    resource.is_managed = True
    assert (buffer.is_managed, buffer.__dlpack_device__()) == (True, (13, 0))


def test_view_of_a_buffer_that_another_thread_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """If another thread closes a buffer while a view of it is made, the view could be empty, without an error."""
    buffer = ch.LegacyPinnedMemoryResource().allocate(64)

    def hold_and_close(face: ch.Buffer) -> Any:
        box = hold(face)
        buffer.close()
        return box

    monkeypatch.setattr("cudacore_handles._memory.buffer.hold", hold_and_close)
    view = buffer.__buffer__()
    assert buffer.is_closed
    view[:] = bytes(range(64))
    assert bytes(view) == bytes(range(64))


# ---- when the memory is freed


# ---- access by the host


def test_buffer_protocol(pinned: Pinned) -> None:
    """The buffer protocol would not let the host read and write memory that it can access."""
    buffer = pinned(8)
    view = buffer.__buffer__()
    assert (view.nbytes, view.format, view.readonly) == (8, "B", False)
    np.frombuffer(view, np.uint16)[:] = [1, 2, 3, 4]
    assert ctypes.string_at(buffer.handle, 8) == b"\1\0\2\0\3\0\4\0"
    if sys.version_info >= (3, 12):
        assert bytes(buffer) == memoryview(buffer).tobytes() == view.tobytes()


def test_device_memory_has_no_host_view(buffer: ch.Buffer, stream: ch.Stream, content: Content) -> None:
    """The host would read device memory, and crash."""
    uses: list[Callable[[], Any]] = [buffer.__buffer__]
    if sys.version_info >= (3, 12):
        uses.append(lambda: memoryview(buffer))
    for use in uses:
        with pytest.raises(BufferError, match=r"the host cannot reach this memory: buffer\.copy_to"):
            use()
    assert content(buffer) == bytes(range(64))


def test_dlpack_arguments(buffer: ch.Buffer, pinned: Pinned) -> None:
    """A DLPack consumer that requests another device, or an invalid stream, would get no error."""
    assert buffer.__dlpack_device__() == (2, 0)
    assert pinned(8).__dlpack_device__() == (3, 0)
    buffer.__dlpack__(stream=1, max_version=(1, 0), dl_device=(2, 0), copy=False)
    with pytest.raises(BufferError, match=r"dl_device is \(1, 0\), and the memory is on \(2, 0\)"):
        buffer.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match=r"dl_device is \(2, 9\), and the memory is on \(2, 0\)"):
        buffer.__dlpack__(dl_device=(2, 9))
    with pytest.raises(TypeError, match="stream must be an int or None, not str"):
        buffer.__dlpack__(stream="1")  # type: ignore[arg-type]


def test_dlpack_copies(buffer: ch.Buffer, stream: ch.Stream) -> None:
    """np.from_dlpack(array, device="cpu") and copy=True would fail, or share memory with the original."""
    buffer.fill(7, stream=stream)
    matrix = buffer.view("int32", (4, 4))[1:, 2:]
    for view, shape in ((buffer, (64,)), (matrix, (3, 2))):
        on_host = Exporter(view.__dlpack__(dl_device=(1, 0)))
        assert (np.from_dlpack(on_host).reshape(-1).view(np.uint8) == 7).all()
        copied = view.__dlpack__(stream=int(stream.handle), copy=True)
        taken = ch.StridedMemoryView.from_dlpack(Exporter(copied), stream)
        assert taken.ptr != (view.ptr if view is matrix else int(buffer.handle))
        host = np.zeros(shape, taken.dtype)
        taken.copy_to(host, stream)
        assert (host.reshape(-1).view(np.uint8) == 7).all()


def test_dlpack_streams(buffer: ch.Buffer) -> None:
    """A stream of 0, which DLPack forbids, would be a default stream, and 2**64 - 1 would mean no order, as -1 does."""
    for memory in (buffer, buffer.view("int8")):
        for stream in (0, -2, 2**64 - 1, 2**64):
            with pytest.raises(
                BufferError, match=f"stream is {stream}; it must be a stream's address, 1 for the legacy"
            ):
                memory.__dlpack__(stream=stream)


@pytest.mark.parametrize("pair", [(1,), 3, (1, 0, 0), ("1", "0"), (1.5, 0), "10", ()])
def test_dlpack_pairs(buffer: ch.Buffer, pair: Any) -> None:
    """An invalid max_version or dl_device would be accepted, or the error would not name the argument."""
    with pytest.raises(
        TypeError, match=re.escape(f"max_version must be two ints, (major, minor), or None, not {pair!r}")
    ):
        buffer.__dlpack__(max_version=pair)
    with pytest.raises(
        TypeError, match=re.escape(f"dl_device must be two ints, (type, ordinal), or None, not {pair!r}")
    ):
        buffer.__dlpack__(dl_device=pair)


def test_can_be_referred_to_weakly(buffer: ch.Buffer) -> None:
    """A cache could not refer to buffers without keeping them alive."""
    assert weakref.ref(buffer)() is buffer


# ---- memory of others


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
