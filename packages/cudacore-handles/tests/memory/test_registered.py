# SPDX-License-Identifier: Apache-2.0
"""Existing host memory that is registered with the driver."""

from __future__ import annotations

import gc
import mmap
import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dlpack_producers import Exporter

import cudacore_handles as ch
from cudacore_handles import register_host_memory
from threads_at_once import in_threads

ALREADY_REGISTERED = 712


class Array(np.ndarray):
    """An array that can be referred to weakly, to detect when it is freed."""


def watched(values: Any) -> tuple[Array, weakref.ref[Array]]:
    array = np.array(values).view(Array)
    return array, weakref.ref(array)


def test_what_it_is(device: ch.Device) -> None:
    """The buffer would not be the array's own memory, or the host or the device could not use it."""
    array = np.arange(1000, dtype=np.int32)
    buffer = register_host_memory(array)
    assert (buffer.handle, buffer.size) == (array.ctypes.data, array.nbytes)
    assert buffer.owner is array
    assert buffer.memory_resource is None
    assert (buffer.is_device_accessible, buffer.is_host_accessible, buffer.device_id) == (True, True, -1)
    assert not buffer.is_read_only
    assert not buffer.is_managed
    view = buffer.__buffer__()
    view[:4] = b"\1\0\0\0"
    assert array[0] == 1
    assert buffer.__dlpack_device__() == (3, 0)


@pytest.mark.cuda_sim
def test_copies_do_not_wait(device: ch.Device, stream: ch.Stream) -> None:
    """A copy of registered memory would block the host, like a copy of an ordinary array."""
    go = threading.Event()
    array = np.ones(1 << 16, np.uint8)
    memory = device.allocate(array.nbytes, stream=stream)
    with register_host_memory(array) as buffer:
        stream.callback(lambda: go.wait(30) and None)
        buffer.copy_to(memory, stream=stream)
        memory.copy_to(buffer, stream=stream)
        assert not stream.record().is_done
        go.set()
        stream.sync()


def test_the_array_lives_as_long_as_its_memory_is_used(device: ch.Device, stream: ch.Stream) -> None:
    """The array would be freed, and its address reused, while its memory is registered."""
    array, gone = watched(np.arange(100.0))
    buffer = register_host_memory(array)
    part, view = buffer[8:16], buffer.view("float64")
    del array
    buffer.close()
    assert gone() is not None
    del view
    gc.collect()
    assert gone() is not None
    assert bytes(part.__buffer__()) == np.float64(1).tobytes()
    part.close()
    gc.collect()
    assert gone() is None


def test_a_dropped_buffer_unregisters_behind_its_work(device: ch.Device, stream: ch.Stream) -> None:
    """A pending copy would read memory that was released."""
    array, gone = watched(np.full(1 << 20, 7, np.uint8))
    memory = device.allocate(array.nbytes, stream=stream)
    stream.callback(lambda: time.sleep(0.05))
    buffer = register_host_memory(array)
    buffer.copy_to(memory, stream=stream)
    del buffer, array
    gc.collect()
    back = bytearray(1 << 20)
    memory.copy_to(back, stream=stream)
    assert set(back) == {7}
    assert gone() is None


def test_same_bytes_twice(device: ch.Device) -> None:
    """Registering the same bytes again would cancel the first registration, or the error would not name the memory."""
    array = np.zeros(10000)
    with register_host_memory(array) as buffer:
        for again in (array, array[10:20], array[::1][5000:]):
            with pytest.raises(ch.CUDAError, match="registered already, by register_host_memory") as caught:
                register_host_memory(again)
            assert caught.value.code == ALREADY_REGISTERED
        buffer[:8].fill(0, stream=ch.default_stream())
        device.sync()


def test_other_bytes_of_the_same_page(device: ch.Device, stream: ch.Stream) -> None:
    """Of several small arrays in one page of memory, only one could be registered."""
    whole = np.zeros(3 * mmap.PAGESIZE, np.uint8)
    start = -whole.ctypes.data % mmap.PAGESIZE
    first, second = whole[start + 3 : start + 100], whole[start + 100 : start + 5001]
    with register_host_memory(first) as a, register_host_memory(second) as b:
        a.fill(1, stream=stream)
        b.fill(2, stream=stream)
        stream.sync()
    assert set(first) == {1}
    assert set(second) == {2}


def test_no_bytes(device: ch.Device) -> None:
    """Registering an array without elements would raise an error of the driver."""
    for array in (np.zeros(0), np.zeros((3, 0, 2)), b"", bytearray()):
        with register_host_memory(array) as buffer:
            assert buffer.size == 0
            assert (buffer.is_device_accessible, buffer.is_host_accessible) == (True, True)
            assert buffer.owner is array


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros((4, 4), order="F").T,
        lambda: bytearray(100),
        lambda: memoryview(bytearray(9)),
        lambda: np.zeros(3, "M8[s]"),
    ],
)
def test_kinds_of_arrays(device: ch.Device, stream: ch.Stream, make: Callable[[], Any]) -> None:
    """Objects other than NumPy's arrays of numbers would be refused."""
    array = make()
    with register_host_memory(array) as buffer:
        buffer.fill(1, stream=stream)
        stream.sync()
        assert set(bytes(buffer.__buffer__())) == {1}


def test_flags(device: ch.Device) -> None:
    """A flag would not reach the driver."""
    from bindings import call_bindings

    array = np.zeros(100)
    for portable in (True, False):  # closing the buffer unregisters the memory
        with register_host_memory(array, portable=portable, mapped=False) as buffer:
            assert bool(call_bindings("cuMemHostGetFlags", buffer.handle) & 1) is portable


class TestReadOnly:
    """Memory that is registered for reading only."""

    @pytest.fixture
    def array(self) -> np.ndarray[Any, Any]:
        array = np.arange(64, dtype=np.uint8)
        array.flags.writeable = False
        return array

    def test_copy_from_it(self, device: ch.Device, stream: ch.Stream, array: Any) -> None:
        """A constant array could not be registered for copies to the device."""
        memory, back = device.allocate(64, stream=stream), bytearray(64)
        with register_host_memory(array) as buffer:
            assert buffer.is_read_only
            buffer.copy_to(memory, stream=stream)
            memory.copy_to(back, stream=stream)
        assert back == array.tobytes()

    def test_writable_memory_that_is_only_read(self, device: ch.Device) -> None:
        """The option `read_only` would have no effect on a writable array."""
        with register_host_memory(bytearray(64), read_only=True) as buffer:
            assert buffer.is_read_only
            assert buffer[8:].is_read_only

    def test_writes(self, device: ch.Device, stream: ch.Stream, array: Any) -> None:
        """A write to read-only memory would reach the device, and cause a fault, after which nothing works."""
        memory = device.allocate(64, stream=stream)
        with register_host_memory(array) as buffer:
            for write in (
                lambda: buffer.fill(1, stream=stream),
                lambda: buffer.copy_from(memory, stream=stream),
                lambda: memory.copy_to(buffer, stream=stream),
                lambda: buffer[32:].fill(1, stream=stream),
                lambda: buffer[:8].copy_from(b"12345678", stream=stream),
                lambda: ch.copy_batch(stream, [memory], [buffer]),
                lambda: buffer.copy_part_from(memory, 8, stream=stream),
            ):
                with pytest.raises(ValueError, match="registered read-only"):
                    write()
            with pytest.raises(ValueError, match="read-only"):
                buffer.view("uint8").copy_from(memory.view("uint8"), stream)
            stream.sync()
        assert array[1] == 1

    def test_exports(self, device: ch.Device, array: Any) -> None:
        """Another library would write to read-only memory."""
        with register_host_memory(array) as buffer:
            assert buffer.__buffer__().readonly
            assert buffer.view("uint8").readonly
            assert buffer.__cuda_array_interface__["data"] == (array.ctypes.data, True)
            with pytest.raises(BufferError, match="read-only"):
                buffer.__dlpack__()
            capsule = buffer.view("uint8").__dlpack__(max_version=(1, 0))
            assert ch.StridedMemoryView.from_dlpack(Exporter(capsule)).readonly


def test_mapped_files(device: ch.Device, stream: ch.Stream, tmp_path: Any) -> None:
    """A file that is mapped for reading could not be registered."""
    path = tmp_path / "data"
    path.write_bytes(bytes(range(256)) * 32)
    memory, back = device.allocate(8192, stream=stream), bytearray(8192)
    for mode in ("r", "c"):
        array = np.memmap(path, np.uint8, mode)
        buffer = register_host_memory(array)
        buffer.copy_to(memory, stream=stream)
        memory.copy_to(back, stream=stream)
        assert back == path.read_bytes()
        buffer.close()


def test_files_that_the_device_cannot_write(tmp_path: Path) -> None:
    """The error would not explain that a file on a disk can be registered only for reading."""
    if os.major(tmp_path.stat().st_dev) == 0:
        pytest.skip("the folder for temporary files is not known to be on a disk")
    path = tmp_path / "data"
    path.write_bytes(bytes(8192))
    array = np.memmap(path, np.uint8, "r+")
    with pytest.raises(ch.CUDAError, match="a file that is mapped for writing, need read_only=True"):
        register_host_memory(array)
    with register_host_memory(array, read_only=True) as buffer:
        assert buffer.is_read_only


def test_a_capture_keeps_it(device: ch.Device, stream: ch.Stream) -> None:
    """The array would be freed before the graph runs."""
    pytest.importorskip("cudacore_graph")
    array, gone = watched(np.full(64, 5, np.uint8))
    memory = device.allocate(64, stream=stream)
    buffer = register_host_memory(array)
    builder = device.create_graph_builder()
    builder.begin_building()
    buffer.copy_to(memory, stream=builder)
    executable = builder.end_building().complete()
    builder.close()
    del array
    buffer.close()
    gc.collect()
    assert gone() is not None
    executable.launch(stream)
    back = bytearray(64)
    memory.copy_to(back, stream=stream)
    assert set(back) == {5}
    executable.close()
    device.sync()
    gc.collect()
    assert gone() is None


def test_a_node_does_not_write_read_only_memory(device: ch.Device, stream: ch.Stream) -> None:
    """A node of a graph could write to read-only memory."""
    graph = pytest.importorskip("cudacore_graph")
    memory = device.allocate(8, stream=stream)
    definition = graph.GraphDefinition()
    with register_host_memory(b"12345678") as buffer:
        definition.memcpy(memory, buffer, 8)
        with pytest.raises(ValueError, match="dst is host memory that was registered read-only"):
            definition.memcpy(buffer, memory, 8)
        with pytest.raises(ValueError, match="dst is host memory that was registered read-only"):
            definition.memset(buffer, 0, 8)


@pytest.mark.cuda_sim
def test_a_reset_of_the_context(run_python: Callable[..., Any]) -> None:
    """After a reset of the context, the array would be kept forever, or the unregistered memory could still be used."""
    child = run_python(
        """
        import gc, weakref, numpy as np, cudacore_handles as ch
        from cuda.bindings import driver
        device = ch.Device(); device.set_current()
        class Array(np.ndarray): pass
        array = np.zeros(64).view(Array); gone = weakref.ref(array)
        buffer = ch.register_host_memory(array)
        driver.cuDevicePrimaryCtxReset(0)
        device.set_current()
        stream = device.create_stream()
        try:
            buffer.fill(0, stream=stream)
        except ch.GoneError as error:
            print("gone")
        again = ch.register_host_memory(array)
        again.close(); buffer.close(); del array, again, buffer
        ch.live_counts(); stream.sync(); gc.collect()
        print(gone())
        """,
        CUDACORE_DRIVER="sim",
    )
    assert (child.returncode, child.stdout) == (0, "gone\nNone\n"), child.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_fork(run_on_driver: Callable[..., str]) -> None:
    """A forked child would unregister the parent's memory, or could not read the memory."""
    printed = run_on_driver(
        """
        import os, numpy as np, cudacore_handles as ch
        device = ch.Device(); device.set_current()
        array = np.full(5000, 7)
        buffer = ch.register_host_memory(array)
        child = os.fork()
        if child == 0:
            assert (array == 7).all()
            buffer.close()
            os._exit(0)
        print(os.waitpid(child, 0)[1])
        stream = device.create_stream()
        buffer.fill(0, stream=stream); stream.sync()
        print(array.any())
        buffer.close()
        """
    )
    assert printed == "0\nFalse\n"


def test_threads(device: ch.Device, stream: ch.Stream) -> None:
    """Threads that register memory and drop it would unregister the memory of other threads."""

    def work(_: int) -> None:
        device.set_current()
        for size in range(1, 40):
            array = np.zeros(size * 100, np.uint8)
            with register_host_memory(array) as buffer:
                buffer[5:50].fill(3, stream=stream)
                stream.sync()
            assert set(array[5:50]) == {3}

    in_threads(work, range(4))
