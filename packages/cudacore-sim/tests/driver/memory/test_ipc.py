# SPDX-License-Identifier: Apache-2.0
"""Sharing of memory, events, pools and physical memory between processes. The error codes are those of an H200."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kernels
import pytest
from peer import (
    CHUNK,
    DEVICE,
    HOST,
    HOST_NUMA,
    MANAGED,
    U64,
    Peer,
    Pointer,
    Size,
    export_physical,
    export_pool,
    handle_of,
    import_physical,
    import_pointer,
    import_pool,
    launch_store,
    map_physical,
    new_physical,
    new_pool,
    open_event,
    open_memory,
    read,
    write,
)

import cudacore_sim

INVALID_VALUE, INVALID_CONTEXT, MAP_FAILED, ALREADY_MAPPED = 1, 201, 205, 208
NOT_SUPPORTED, UNKNOWN = 801, 999
INVALID_HANDLE, NOT_FOUND, NOT_READY, ILLEGAL_ADDRESS = 400, 500, 600, 700
EVENT_FLAGS = 6  # CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS
GARBAGE = (bytes(64), bytes(range(64)), b"\xff" * 64)


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.end()


@pytest.fixture
def cu(cuda: Any) -> Any:
    return cuda.library


def memory_handle(cu: Any, pointer: Any) -> bytes:
    code, handle = handle_of(cu, "cuIpcGetMemHandle", pointer)
    assert code == 0
    return handle


def bad_descriptors(tmp_path: Any) -> Iterator[int]:
    """Yield descriptors of things other than memory, and numbers that are not descriptors."""
    (tmp_path / "file").write_bytes(bytes(1 << 16))
    same_name = os.memfd_create("cudacore-sim", os.MFD_ALLOW_SEALING)
    os.ftruncate(same_name, 1 << 16)
    near, far = socket.socketpair()
    pipe = os.pipe()
    opened = [
        *pipe,
        os.open("/", os.O_RDONLY),
        os.open("/dev/null", os.O_RDWR),
        os.open(tmp_path / "file", os.O_RDWR),
        os.memfd_create("other"),
        same_name,
    ]
    yield from (near.fileno(), *opened, 999, -1, 1 << 40)
    near.close()
    far.close()
    for descriptor in opened:
        os.close(descriptor)


def test_memory_is_one(cuda: Any, cu: Any, peer: Peer) -> None:
    """What kernels or copies write to shared memory would not be visible to the other process."""
    pointer = cuda.malloc(1 << 16)
    neighbour = cuda.malloc(64)
    write(cu, pointer, b"hello")
    write(cu, neighbour, b"other")
    assert peer("code, p = open_memory(cu, h); code", h=memory_handle(cu, pointer)) is None
    assert peer("code") == 0
    assert peer("read(cu, p, 5)") == b"hello"
    assert peer("launch_store(cu, ptx, p, 70)", ptx=kernels.PTX) == 0
    assert read(cu, pointer, 8) == (70).to_bytes(4, "little") + (71).to_bytes(4, "little")
    assert launch_store(cu, kernels.PTX, pointer, 90) == 0
    assert peer("read(cu, p, 4)") == (90).to_bytes(4, "little")
    assert read(cu, neighbour, 5) == b"other"
    assert peer("cu.cuIpcCloseMemHandle(p)") == 0
    cuda.cuMemFree_v2(pointer)
    assert cudacore_sim.reports() == []


def test_memory_handles(cuda: Any, cu: Any, peer: Peer) -> None:
    """Two handles of one allocation would differ, or a handle that was opened twice could be closed only once."""
    pointer = cuda.malloc(CHUNK)
    handle = memory_handle(cu, pointer)
    assert handle_of(cu, "cuIpcGetMemHandle", U64(pointer.value + 4096)) == (0, handle)
    assert open_memory(cu, handle)[0] == INVALID_CONTEXT  # this process has allocated the memory itself
    assert [peer("open_memory(cu, h, f)[0]", h=handle, f=flags) for flags in (0, 2)] == [INVALID_VALUE] * 2
    peer("(code, p), (again, q) = open_memory(cu, h), open_memory(cu, h)", h=handle)
    assert peer("code, again, p.value == q.value") == (0, 0, True)
    assert peer("cu.cuMemFree_v2(p), cu.cuMemFreeAsync(p, None)") == (INVALID_VALUE, INVALID_VALUE)
    assert peer("handle_of(cu, 'cuIpcGetMemHandle', p)[0]") == INVALID_VALUE
    assert [peer("cu.cuIpcCloseMemHandle(p)") for _ in range(3)] == [0, 0, INVALID_VALUE]
    assert peer("cu.cuMemcpyDtoH_v2(bytes(4), p, Size(4))") == INVALID_VALUE
    assert cu.cuIpcCloseMemHandle(pointer) == INVALID_VALUE


def test_memory_of_other_kinds_has_no_handle(cuda: Any, cu: Any) -> None:
    """Memory that another process cannot open would get a handle."""
    managed = U64(cuda.out("cuMemAllocManaged", Size(4096), 1, kind=U64))
    pinned = U64(cuda.out("cuMemHostAlloc", Size(4096), 0))
    pooled = U64(cuda.out("cuMemAllocAsync", Size(4096), None, kind=U64))
    for pointer in (managed, pinned, pooled, U64(0), U64(0x1234000)):
        assert handle_of(cu, "cuIpcGetMemHandle", pointer)[0] == INVALID_VALUE
    assert cu.cuIpcGetMemHandle(None, cuda.malloc(64)) == INVALID_VALUE


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_handles(cuda: Any, cu: Any, garbage: bytes) -> None:
    """Opening 64 bytes that are not a handle would crash the process, or succeed."""
    pool = new_pool(cu)[1]
    imported = import_pool(cu, export_pool(cu, pool)[1])[1]
    assert open_memory(cu, garbage)[0] == INVALID_VALUE
    assert open_event(cu, garbage)[0] == MAP_FAILED
    assert import_pointer(cu, imported, garbage)[0] == INVALID_VALUE


def test_handles_are_checked_byte_by_byte(cuda: Any, cu: Any, peer: Peer) -> None:
    """A handle with a changed byte would crash the process that opens the handle, or open other memory."""
    pointer = cuda.malloc(4096)
    handle = memory_handle(cu, pointer)
    changed = [handle[:i] + bytes([handle[i] ^ bit]) + handle[i + 1 :] for i in range(64) for bit in (1, 0x80)]
    assert peer("{open_memory(cu, h)[0] for h in all}", all=changed) <= {INVALID_VALUE, INVALID_CONTEXT}
    event = cuda.event(EVENT_FLAGS)
    _, other = handle_of(cu, "cuIpcGetEventHandle", event)
    assert peer("open_memory(cu, h)[0]", h=other) == INVALID_VALUE
    assert peer("open_event(cu, h)[0]", h=handle) == MAP_FAILED


def test_handles_name_one_way_to_a_file(cuda: Any, cu: Any, peer: Peer) -> None:
    """A handle in which the number of the process is replaced by the number of one of its threads would be accepted."""
    handle = memory_handle(cu, cuda.malloc(4096))
    process = os.getpid().to_bytes(4, "little")
    assert handle.count(process) == 1
    with ThreadPoolExecutor(1) as other:
        thread = other.submit(threading.get_native_id).result()
        changed = handle.replace(process, thread.to_bytes(4, "little"))
        assert peer("open_memory(cu, h)[0]", h=changed) == INVALID_VALUE
    assert peer("open_memory(cu, h)[0]", h=handle) == 0


def test_freed_memory_cannot_be_opened(cuda: Any, cu: Any, peer: Peer) -> None:
    """A handle of freed memory would open an allocation that now has the same address."""
    pointer = cuda.malloc(4096)
    handle = memory_handle(cu, pointer)
    cuda.cuMemFree_v2(pointer)
    assert peer("open_memory(cu, h)[0]", h=handle) == INVALID_VALUE
    assert cudacore_sim.reports() == []


def test_free_of_memory_that_is_open_is_reported(cuda: Any, cu: Any, peer: Peer) -> None:
    """Freeing memory that another process has open, which is undefined, would not be reported or change the data."""
    pointer = cuda.malloc(CHUNK)
    write(cu, pointer, b"data")
    peer("code, p = open_memory(cu, h)", h=memory_handle(cu, pointer))
    cuda.cuMemFree_v2(pointer)
    (report,) = cudacore_sim.reports()
    assert "cuMemFree_v2 frees memory that another process has open" in report
    cuda.malloc(CHUNK)
    assert peer("read(cu, p, 4)") == b"data"
    assert peer("cu.cuIpcCloseMemHandle(p)") == 0


def test_a_process_that_ended_holds_nothing(cuda: Any, cu: Any) -> None:
    """Memory that a crashed process had opened would still count as open in this process."""
    pointer = cuda.malloc(4096)
    peer = Peer()
    peer("code, p = open_memory(cu, h)", h=memory_handle(cu, pointer))
    peer.kill()
    cuda.cuMemFree_v2(pointer)
    assert cudacore_sim.reports() == []


@pytest.mark.parametrize("end", [Peer.end, Peer.kill])
def test_memory_outlives_its_process(cuda: Any, cu: Any, end: Any) -> None:
    """When the exporting process ends, the importer would lose the memory, crash, or could open the handle again."""
    peer = Peer()
    peer("p = U64(); cu.cuMemAlloc_v2(ctypes.byref(p), Size(4096)); write(cu, p, b'left')")
    handle = peer("handle_of(cu, 'cuIpcGetMemHandle', p)[1]")
    code, pointer = open_memory(cu, handle)
    end(peer)
    assert code == 0
    assert read(cu, pointer, 4) == b"left"
    assert launch_store(cu, kernels.PTX, pointer, 1) == 0
    assert open_memory(cu, handle)[0] == INVALID_VALUE
    assert cu.cuIpcCloseMemHandle(pointer) == 0


def test_faults_name_imported_memory(cuda: Any, cu: Any) -> None:
    """The report of an access beyond the end of another process's memory would not name the memory."""
    peer = Peer()
    peer("p = U64(); cu.cuMemAlloc_v2(ctypes.byref(p), Size(16))")
    _, pointer = open_memory(cu, peer("handle_of(cu, 'cuIpcGetMemHandle', p)[1]"))
    assert launch_store(cu, kernels.PTX, pointer, 1, threads=8) == ILLEGAL_ADDRESS
    (report,) = cudacore_sim.reports()
    assert "0 bytes past the end of the 16 bytes of imported device memory" in report
    peer.end()


def test_leaks_name_imported_memory(cuda: Any, cu: Any) -> None:
    """Imported memory that is never closed would not be reported as a leak."""
    peer = Peer()
    peer("p = U64(); cu.cuMemAlloc_v2(ctypes.byref(p), Size(16))")
    _, pointer = open_memory(cu, peer("handle_of(cu, 'cuIpcGetMemHandle', p)[1]"))
    assert cudacore_sim.live()["device_memory"] == 1
    assert any("16 bytes of imported device memory" in line for line in cudacore_sim.describe_live())
    assert cu.cuIpcCloseMemHandle(pointer) == 0
    assert cudacore_sim.live()["device_memory"] == 0
    peer.end()


def test_event_orders_two_processes(cuda: Any, cu: Any, peer: Peer) -> None:
    """A process would see an event as done before the work that the event records in another process."""
    event, stream = cuda.event(EVENT_FLAGS), cuda.stream(1)
    flag = U64(cuda.out("cuMemHostAlloc", Size(64), 0))
    ctypes.memset(flag.value, 0, 64)
    assert handle_of(cu, "cuIpcGetEventHandle", event)[0] == 0
    peer("code, e = open_event(cu, h)", h=handle_of(cu, "cuIpcGetEventHandle", event)[1])
    assert peer("code, cu.cuEventQuery(e)") == (0, 0)  # the event was never recorded
    cuda.cuStreamWaitValue32_v2(stream, flag, 1, 0)
    cuda.cuEventRecord(event, stream)
    peer("s = Pointer(); cu.cuStreamCreate(ctypes.byref(s), 1)")
    assert peer("cu.cuStreamWaitEvent(s, e, 0), cu.cuStreamQuery(s), cu.cuEventQuery(e)") == (0, NOT_READY, NOT_READY)
    time.sleep(0.02)
    assert peer("cu.cuStreamQuery(s)") == NOT_READY
    ctypes.memset(flag.value, 1, 1)
    assert peer("cu.cuEventSynchronize(e), cu.cuStreamSynchronize(s), cu.cuEventQuery(e)") == (0, 0, 0)
    cuda.cuStreamSynchronize(stream)


def test_event_is_recorded_by_the_importer(cuda: Any, cu: Any, peer: Peer) -> None:
    """The exporting process would not wait for work that the importing process has recorded in the event."""
    event = cuda.event(EVENT_FLAGS)
    peer("code, e = open_event(cu, h)", h=handle_of(cu, "cuIpcGetEventHandle", event)[1])
    peer("s, f = Pointer(), Pointer(); cu.cuStreamCreate(ctypes.byref(s), 1)")
    peer("cu.cuMemHostAlloc(ctypes.byref(f), Size(64), 0); ctypes.memset(f, 0, 64)")
    assert peer("cu.cuStreamWaitValue32_v2(s, U64(f.value), 1, 0), cu.cuEventRecord(e, s)") == (0, 0)
    assert cu.cuEventQuery(event) == NOT_READY
    stream = cuda.stream(1)
    cuda.cuStreamWaitEvent(stream, event, 0)
    assert cu.cuStreamQuery(stream) == NOT_READY
    peer("ctypes.memset(f, 1, 1)")
    cuda.cuEventSynchronize(event)
    cuda.cuStreamSynchronize(stream)
    assert cu.cuEventQuery(event) == 0


def test_event_of_a_process_that_ended(cuda: Any, cu: Any) -> None:
    """Waiting for an event would hang if the process that recorded the event has ended."""
    peer = Peer()
    peer("e, s, f = Pointer(), Pointer(), Pointer(); cu.cuEventCreate(ctypes.byref(e), 6)")
    peer("cu.cuStreamCreate(ctypes.byref(s), 1); cu.cuMemHostAlloc(ctypes.byref(f), Size(64), 0)")
    peer("ctypes.memset(f, 0, 64); cu.cuStreamWaitValue32_v2(s, U64(f.value), 1, 0); cu.cuEventRecord(e, s)")
    code, event = open_event(cu, peer("handle_of(cu, 'cuIpcGetEventHandle', e)[1]"))
    assert (code, cu.cuEventQuery(event)) == (0, NOT_READY)
    stream = cuda.stream(1)
    cuda.cuStreamWaitEvent(stream, event, 0)
    peer.process.kill()  # the process has ended, but is not reaped yet
    cuda.cuStreamSynchronize(stream)
    assert any("ended before the work was done" in report for report in cudacore_sim.reports())
    assert cu.cuEventDestroy_v2(event) == 0
    peer.end()


def test_event_handles(cuda: Any, cu: Any, peer: Peer) -> None:
    """An event that lacks the interprocess flag, belongs to the same process, or was destroyed could be opened."""
    event = cuda.event(EVENT_FLAGS)
    _, handle = handle_of(cu, "cuIpcGetEventHandle", event)
    assert handle_of(cu, "cuIpcGetEventHandle", cuda.event(2))[0] == INVALID_HANDLE
    assert handle_of(cu, "cuIpcGetEventHandle", None)[0] == INVALID_VALUE
    assert cu.cuIpcGetEventHandle(None, event) == INVALID_VALUE
    assert cu.cuEventCreate(ctypes.byref(Pointer()), 4) == INVALID_VALUE  # an interprocess event must not measure time
    assert open_event(cu, handle)[0] == INVALID_CONTEXT
    peer("(code, e), (again, f) = open_event(cu, h), open_event(cu, h)", h=handle)
    assert peer("code, again, e.value != f.value") == (0, 0, True)
    assert peer("handle_of(cu, 'cuIpcGetEventHandle', e)[0]") == INVALID_HANDLE
    assert peer("cu.cuEventElapsedTime_v2(ctypes.byref(ctypes.c_float()), e, f)") == INVALID_HANDLE
    cuda.cuEventDestroy_v2(event)
    assert peer("open_event(cu, h)[0]", h=handle) == MAP_FAILED
    assert peer("cu.cuEventQuery(e), cu.cuEventDestroy_v2(e), cu.cuEventDestroy_v2(f)") == (0, 0, 0)


@pytest.mark.parametrize("location", [DEVICE, HOST_NUMA])
def test_pool_is_one(cuda: Any, cu: Any, peer: Peer, location: int) -> None:
    """Memory of a pool would have different contents in the process that has imported the memory."""
    pool = new_pool(cu, location=location)[1]
    code, descriptor = export_pool(cu, pool)
    assert code == 0
    pointer = U64(cuda.out("cuMemAllocFromPoolAsync", Size(4096), pool, None, kind=U64))
    cuda.cuCtxSynchronize()
    write(cu, pointer, b"pool")
    code, data = handle_of(cu, "cuMemPoolExportPointer", pointer)
    assert code == 0
    peer("code, pool = import_pool(cu, fds[0])", fds=[descriptor])
    os.close(descriptor)
    assert peer("code") == 0
    peer("code, p = import_pointer(cu, pool, d)", d=data)
    assert peer("code, read(cu, p, 4)") == (0, b"pool")
    if location == HOST_NUMA:
        assert peer("ctypes.string_at(p.value, 4)") == b"pool"
        peer("a = Access(Location(1, 0), 3); code = cu.cuMemPoolSetAccess(pool, ctypes.byref(a), Size(1))")
    assert peer("launch_store(cu, ptx, p, 50)", ptx=kernels.PTX) == 0
    assert read(cu, pointer, 4) == (50).to_bytes(4, "little")
    assert peer("cu.cuMemFreeAsync(p, None), cu.cuCtxSynchronize(), cu.cuMemPoolDestroy(pool)") == (0, 0, 0)
    cuda.cuMemFreeAsync(pointer, None)
    cuda.cuCtxSynchronize()
    cuda.cuMemPoolDestroy(pool)
    assert cudacore_sim.reports() == []


def test_imported_pool(cuda: Any, cu: Any, peer: Peer) -> None:
    """An imported pool would allow operations that only the process that created the pool may do."""
    pool = new_pool(cu)[1]
    descriptor = export_pool(cu, pool)[1]
    peer("(code, pool), (again, same) = import_pool(cu, fds[0]), import_pool(cu, fds[0])", fds=[descriptor])
    assert peer("code, again, pool.value == same.value") == (0, 0, True)
    assert peer("cu.cuMemAllocFromPoolAsync(ctypes.byref(U64()), Size(64), pool, None)") == INVALID_VALUE
    assert peer("cu.cuDeviceSetMemPool(0, pool)") == INVALID_VALUE
    assert peer("export_pool(cu, pool)[0]") == INVALID_VALUE
    assert peer("import_pool(cu, fds[0], 0)[0], import_physical(cu, fds[0])[0]", fds=[descriptor]) == (1, NOT_SUPPORTED)
    assert [peer("cu.cuMemPoolDestroy(pool)") for _ in range(3)] == [0, 0, INVALID_VALUE]
    os.close(descriptor)


def test_pool_memory_handles(cuda: Any, cu: Any, peer: Peer) -> None:
    """Memory of a pool could be imported through an invalid handle, or after the memory was freed."""
    pool = new_pool(cu)[1]
    private = new_pool(cu, handles=0)[1]
    descriptor = export_pool(cu, pool)[1]
    pointer, other = (
        U64(cuda.out("cuMemAllocFromPoolAsync", Size(4096), which, None, kind=U64)) for which in (pool, private)
    )
    _, data = handle_of(cu, "cuMemPoolExportPointer", pointer)
    for bad in (other, U64(pointer.value + 16), U64(0), cuda.malloc(64)):
        assert handle_of(cu, "cuMemPoolExportPointer", bad)[0] == INVALID_VALUE
    assert import_pointer(cu, pool, data)[0] == INVALID_VALUE  # this process has not imported the pool
    peer("code, pool = import_pool(cu, fds[0])", fds=[descriptor])
    os.close(descriptor)
    peer("(a, p), (b, q) = import_pointer(cu, pool, d), import_pointer(cu, pool, d)", d=data)
    assert peer("a, b, p.value == q.value") == (0, 0, True)
    assert peer("handle_of(cu, 'cuMemPoolExportPointer', p)[0]") == INVALID_VALUE
    assert peer("cu.cuMemFree_v2(p), cu.cuMemFree_v2(q)") == (0, INVALID_VALUE)  # the first free ends the import
    peer("a, p = import_pointer(cu, pool, d)", d=data)
    assert peer("a, cu.cuMemFree_v2(p)") == (0, 0)
    cuda.cuMemFreeAsync(pointer, None)
    cuda.cuCtxSynchronize()
    assert peer("import_pointer(cu, pool, d)[0]", d=data) == INVALID_VALUE
    assert cudacore_sim.reports() == []


def test_host_memory_is_imported_once(cuda: Any, cu: Any, peer: Peer) -> None:
    """A second import of the same host memory would not fail, and register one address twice."""
    pool = new_pool(cu, location=HOST_NUMA)[1]
    descriptor = export_pool(cu, pool)[1]
    pointer = U64(cuda.out("cuMemAllocFromPoolAsync", Size(4096), pool, None, kind=U64))
    _, data = handle_of(cu, "cuMemPoolExportPointer", pointer)
    peer("code, pool = import_pool(cu, fds[0])", fds=[descriptor])
    os.close(descriptor)
    peer("(a, p), (b, q) = import_pointer(cu, pool, d), import_pointer(cu, pool, d)", d=data)
    assert peer("a, b") == (0, ALREADY_MAPPED)


def test_pool_outlives_its_process(cuda: Any, cu: Any) -> None:
    """When the exporting process ends, the pool would become unusable in the process that imported it."""
    peer = Peer()
    peer("_, pool = new_pool(cu); _, fd = export_pool(cu, pool); p = U64()")
    peer("cu.cuMemAllocFromPoolAsync(ctypes.byref(p), Size(4096), pool, None); write(cu, p, b'left')")
    descriptor = os.open(f"/proc/{peer.process.pid}/fd/{peer('fd')}", os.O_RDWR)
    data = peer("handle_of(cu, 'cuMemPoolExportPointer', p)[1]")
    peer.kill()
    code, pool = import_pool(cu, descriptor)
    os.close(descriptor)
    assert code == 0
    code, pointer = import_pointer(cu, pool, data)
    assert code == 0
    assert cu.cuMemPoolDestroy(pool) == 1  # the memory of the pool must be freed first
    assert read(cu, pointer, 4) == b"left"
    cuda.cuMemFreeAsync(pointer, None)
    cuda.cuMemPoolDestroy(pool)


def test_free_of_pool_memory_that_is_open_is_reported(cuda: Any, cu: Any, peer: Peer) -> None:
    """Freeing memory of a pool while another process has this memory open would not be reported."""
    pool = new_pool(cu)[1]
    descriptor = export_pool(cu, pool)[1]
    pointer = U64(cuda.out("cuMemAllocFromPoolAsync", Size(4096), pool, None, kind=U64))
    _, data = handle_of(cu, "cuMemPoolExportPointer", pointer)
    peer("_, pool = import_pool(cu, fds[0]); _, p = import_pointer(cu, pool, d)", fds=[descriptor], d=data)
    os.close(descriptor)
    cuda.cuMemFreeAsync(pointer, None)
    cuda.cuCtxSynchronize()
    (report,) = cudacore_sim.reports()
    assert "cuMemFreeAsync frees memory that another process has open" in report
    assert peer("cu.cuMemFree_v2(p)") == 0


@pytest.mark.parametrize(
    ("location", "kind", "good"),
    [(DEVICE, 1, {0, 1}), (HOST, 1, {0}), (HOST_NUMA, 1, {0, 1}), (4, 1, set()), (DEVICE, 2, {0}), (0, 2, {0})],
)
def test_pools_that_there_are(cuda: Any, cu: Any, location: int, kind: int, good: set[int]) -> None:
    """Properties of a pool that an H200 refuses would be accepted, or properties that an H200 accepts be refused."""
    made = {handles for handles in (0, 1, 2, 4) if new_pool(cu, handles, location, kind)[0] == 0}
    assert made == good


def test_descriptors_of_other_things(cuda: Any, cu: Any, tmp_path: Any) -> None:
    """A descriptor of something other than memory would make an import crash, wait forever, or succeed."""
    for descriptor in bad_descriptors(tmp_path):
        assert import_pool(cu, descriptor)[0] == import_physical(cu, descriptor)[0] == UNKNOWN  # as on an H200
    assert import_pool(cu, export_physical(cu, new_physical(cu)[1])[1])[0] == NOT_SUPPORTED


@pytest.mark.parametrize("location", [DEVICE, HOST_NUMA])
def test_physical_memory_is_one(cuda: Any, cu: Any, peer: Peer, location: int) -> None:
    """Two processes would not share physical memory, or it would be freed when its creator releases its handle."""
    handle = new_physical(cu, location=location)[1]
    code, descriptor = export_physical(cu, handle)
    assert code == 0
    address = map_physical(cu, handle, DEVICE)
    write(cu, address, b"page")
    peer("code, h = import_physical(cu, fds[0])", fds=[descriptor])
    os.close(descriptor)
    assert peer("code") == 0
    peer("a = map_physical(cu, h, 1)")
    assert peer("read(cu, a, 4)") == b"page"
    cuda.cuMemUnmap(address, Size(CHUNK))
    cuda.cuMemRelease(handle)
    assert peer("launch_store(cu, ptx, a, 7), read(cu, a, 4)", ptx=kernels.PTX) == (0, (7).to_bytes(4, "little"))
    assert peer("export_physical(cu, h)[0]") == INVALID_VALUE
    assert peer("cu.cuMemUnmap(a, Size(CHUNK)), cu.cuMemRelease(h)") == (0, 0)
    assert export_physical(cu, new_physical(cu, handles=0)[1])[0] == INVALID_VALUE


def test_physical_memory_of_the_host(cuda: Any, cu: Any) -> None:
    """Host code could not use physical host memory while this memory is mapped, or could still use it later."""
    handle = new_physical(cu, 0, HOST)[1]
    address = map_physical(cu, handle, DEVICE, HOST)
    ctypes.memset(address.value, 7, 4)
    assert read(cu, address, 4) == b"\x07" * 4
    assert launch_store(cu, kernels.PTX, address, 9) == 0
    assert ctypes.string_at(address.value, 4) == (9).to_bytes(4, "little")
    cuda.cuMemUnmap(address, Size(CHUNK))
    pipe = os.pipe()
    with pytest.raises(OSError, match="Bad address"):  # the read fails, because the memory is unmapped
        os.write(pipe[1], (ctypes.c_char * 4).from_address(address.value))


def test_import_without_device(cuda: Any, cu: Any) -> None:
    """A process that imports memory of a device that the process does not have would crash."""
    peer = Peer(DEVICES=2)
    peer("c, p, e = Pointer(), U64(), Pointer(); cu.cuCtxCreate_v2(ctypes.byref(c), 0, 1)")
    peer("cu.cuMemAlloc_v2(ctypes.byref(p), Size(64)); cu.cuEventCreate(ctypes.byref(e), 6)")
    assert open_memory(cu, peer("handle_of(cu, 'cuIpcGetMemHandle', p)[1]"))[0] == INVALID_VALUE
    assert open_event(cu, peer("handle_of(cu, 'cuIpcGetEventHandle', e)[1]"))[0] == MAP_FAILED
    peer.end()


def test_attributes_of_shared_memory(cuda: Any, cu: Any, peer: Peer) -> None:
    """The attributes of memory would report wrong types of handles by which the memory can be shared."""
    legacy_capable, handle_types, pool_handle = 10, 14, 17

    def attribute(which: int, pointer: Any) -> int:
        value = U64()
        cuda.cuPointerGetAttribute(ctypes.byref(value), which, pointer)
        return value.value

    pool, private = new_pool(cu)[1], new_pool(cu, handles=0)[1]
    shared, kept = (
        U64(cuda.out("cuMemAllocFromPoolAsync", Size(64), which, None, kind=U64)) for which in (pool, private)
    )
    plain, mapped = cuda.malloc(64), map_physical(cu, new_physical(cu)[1], DEVICE)
    assert [attribute(legacy_capable, p) for p in (plain, shared, mapped)] == [1, 0, 0]
    assert [attribute(handle_types, p) for p in (plain, shared, kept, mapped)] == [0, 1, 0, 1]
    assert attribute(pool_handle, shared) == pool.value
    peer("_, p = open_memory(cu, h); v = ctypes.c_int(7)", h=memory_handle(cu, plain))
    assert peer("cu.cuPointerGetAttribute(ctypes.byref(v), 10, p), v.value") == (0, 0)
    value = ctypes.c_int()
    cuda.cuDeviceGetAttribute(ctypes.byref(value), 119, 0)  # MEMPOOL_SUPPORTED_HANDLE_TYPES
    assert value.value & 1


def test_default_pools(cuda: Any, cu: Any) -> None:
    """A location would have no default pool, or memory of this pool could not be used where an H200 allows it."""
    for location, kind in ((HOST, 1), (HOST_NUMA, 1), (DEVICE, MANAGED), (0, MANAGED)):
        where = (ctypes.c_int * 2)(location, 0)
        pool, again = Pointer(), Pointer()
        cuda.cuMemGetDefaultMemPool(ctypes.byref(pool), where, kind)
        cuda.cuMemGetMemPool(ctypes.byref(again), where, kind)
        assert pool.value == again.value
        pointer = U64(cuda.out("cuMemAllocFromPoolAsync", Size(64), pool, None, kind=U64))
        cuda.cuCtxSynchronize()
        ctypes.memset(pointer.value, 1, 4)
        own = new_pool(cu, 0, location, kind)[1]
        cuda.cuMemSetMemPool(where, kind, own)
        cuda.cuMemGetMemPool(ctypes.byref(again), where, kind)
        assert again.value == own.value
        cuda.cuMemPoolDestroy(own)
        cuda.cuMemGetMemPool(ctypes.byref(again), where, kind)
        assert again.value == pool.value
    assert cu.cuMemGetMemPool(ctypes.byref(pool), (ctypes.c_int * 2)(4, 0), 1) == 801
    assert cu.cuMemGetMemPool(ctypes.byref(pool), (ctypes.c_int * 2)(0, 0), 1) == INVALID_VALUE
    base, size = U64(), Size()
    pool = new_pool(cu, 0, HOST)[1]
    host = U64(cuda.out("cuMemAllocFromPoolAsync", Size(64), pool, None, kind=U64))
    assert cu.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), host) == NOT_FOUND
    cuda.cuMemPoolSetAccess(pool, (ctypes.c_int * 3)(DEVICE, 0, 3), Size(1))
    assert cu.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), host) == 0
    assert (base.value, size.value) == (host.value, 64)


def test_access_of_the_host(cuda: Any, cu: Any) -> None:
    """The host would have access to a pool of a device, or no access to a pool of the host, unlike on an H200."""
    access = ctypes.c_int(7)
    for place, expected in ((DEVICE, 0), (HOST, 3), (HOST_NUMA, 3)):
        pool = new_pool(cu, 0, place)[1]
        for asked in (HOST, HOST_NUMA):
            cuda.cuMemPoolGetAccess(ctypes.byref(access), pool, (ctypes.c_int * 2)(asked, 0))
            assert access.value == expected


def test_kernels_need_access_to_host_pools(cuda: Any, cu: Any) -> None:
    """A kernel whose device has no access to a host pool could use the pool's memory, which faults on a GPU."""
    pool = new_pool(cu, 0, HOST)[1]
    pointer = U64(cuda.out("cuMemAllocFromPoolAsync", Size(64), pool, None, kind=U64))
    access = (ctypes.c_int * 3)(DEVICE, 0, 3)
    cuda.cuMemPoolSetAccess(pool, access, Size(1))
    assert launch_store(cu, kernels.PTX, pointer, 1) == 0
    access[2] = 0
    cuda.cuMemPoolSetAccess(pool, access, Size(1))
    assert launch_store(cu, kernels.PTX, pointer, 1) == ILLEGAL_ADDRESS


def test_nothing_is_left_behind(cuda: Any, cu: Any) -> None:
    """Processes that crash would leave shared memory behind."""
    before = set(os.listdir("/dev/shm"))
    peer = Peer()
    peer("p = U64(); cu.cuMemAlloc_v2(ctypes.byref(p), Size(1 << 20)); _, pool = new_pool(cu); _, h = new_physical(cu)")
    peer("handle_of(cu, 'cuIpcGetMemHandle', p), export_pool(cu, pool)[0], export_physical(cu, h)[0]")
    peer.kill()
    assert not {name for name in set(os.listdir("/dev/shm")) - before if "cudacore" in name}


def test_child_of_fork_has_no_driver(run_python: Any) -> None:
    """A forked child would use its parent's driver, and destroy it for both processes."""
    result = run_python(
        """
        import os
        cu.cuInit(0)
        context = c_void_p()
        assert cu.cuDevicePrimaryCtxRetain(byref(context), 0) == cu.cuCtxSetCurrent(context) == 0
        if (child := os.fork()) == 0:
            codes = [cu.cuInit(0), cu.cuCtxSynchronize(), cu.cuMemAlloc_v2(byref(c_uint64()), c_size_t(64))]
            os._exit(0 if codes == [3, 3, 3] else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert cu.cuCtxSynchronize() == 0
        """
    )
    assert result.returncode == 0, result.stderr
