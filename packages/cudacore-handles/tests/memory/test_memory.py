# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from memory_kinds import EXACT, RESOURCES

import cudacore_handles as ch


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: seen.append((args.exc_type, str(args.exc_value))))
    return seen


@pytest.fixture(params=EXACT)
def resource(request: pytest.FixtureRequest, device: ch.Device) -> Any:
    return RESOURCES[request.param].make(device)


# ---- every memory resource


@pytest.mark.parametrize("size", [1, 3, 512, 1 << 20, np.int32(8)])
def test_allocate(resource: Any, stream: ch.Stream, size: int) -> None:
    """Memory would not be allocated, have a wrong size, or be unusable."""
    buffer = resource.allocate(size, stream=stream)
    assert (buffer.size, buffer.memory_resource) == (size, resource)
    assert type(buffer.size) is int
    assert buffer.handle > 0
    buffer.fill(7, stream=stream)
    stream.sync()


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (-1, ValueError, "size is -1; it must be from 0"),
        (2**63, ValueError, r"size is 9223372036854775808; it must be from 0 to 2\*\*63 - 1"),
        (2**64 + 1, ValueError, "size is 18446744073709551617"),
        (True, TypeError, "size must be an int, the number of bytes, not bool"),
        (1.0, TypeError, "size must be an int, the number of bytes, not float"),
        ("1", TypeError, "size must be an int, the number of bytes, not str"),
        (None, TypeError, "size must be an int, the number of bytes, not NoneType"),
    ],
)
def test_bad_size(resource: Any, stream: ch.Stream, size: Any, error: type[Exception], message: str) -> None:
    """An invalid size would reach the driver, or be changed."""
    with pytest.raises(error, match=message):
        resource.allocate(size, stream=stream)
    assert resource.allocate(1, stream=stream).size == 1


def test_no_bytes(resource: Any, stream: ch.Stream) -> None:
    """Allocating 0 bytes would fail, so that programs need a special case for empty data."""
    buffer = resource.allocate(0, stream=stream)
    assert (buffer.size, buffer.handle, buffer.is_closed) == (0, 0, False)
    buffer.close()


def test_too_much_memory(resource: Any, stream: ch.Stream) -> None:
    """Running out of memory would not be reported, or would break the memory resource."""
    with pytest.raises(ch.CUDAError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        resource.allocate(2**50, stream=stream)
    resource.allocate(64, stream=stream).fill(1, stream=stream)
    stream.sync()


@pytest.mark.parametrize("bad", [0, "stream", object()])
def test_bad_stream(resource: Any, stream: ch.Stream, bad: Any) -> None:
    """Memory would be allocated with an invalid stream, or would leak when the stream is refused."""
    with pytest.raises(TypeError, match="a Stream is needed, or an object with __cuda_stream__"):
        resource.allocate(64, stream=bad)
    closed = ch.Device().create_stream()
    closed.close()
    with pytest.raises(ValueError, match="Stream has been closed"):
        resource.allocate(64, stream=closed)
    assert resource.allocate(64, stream=stream).size == 64


def test_any_stream(resource: Any, stream: ch.Stream) -> None:
    """A foreign stream or a default stream could not be used for an allocation."""

    class Offer:
        def __cuda_stream__(self) -> tuple[int, int]:
            return stream.__cuda_stream__()

    for other in (Offer(), ch.LEGACY_DEFAULT_STREAM, ch.PER_THREAD_DEFAULT_STREAM):
        resource.allocate(64, stream=other).close()
        resource.allocate(64, stream=other).close(other)


def test_a_buffer_keeps_what_it_needs(resource: Any, device: ch.Device) -> None:
    """The pool of the memory, or the stream on which it is freed, would be destroyed before the memory."""
    before = ch.live_counts()
    stream = device.create_stream()
    buffer = resource.allocate(64, stream=stream)
    stream.close()
    if isinstance(resource, ch.DeviceMemoryResource) and resource.is_handle_owned:
        resource.close()
    gc.collect()
    assert ch.live_counts()["stream"] == before["stream"] + 1
    assert ch.live_counts()["pool"] == before["pool"]
    device.sync()
    buffer.fill(1, stream=device.create_stream())
    device.sync()
    buffer.close()
    assert ch.live_counts()["stream"] == before["stream"]


def test_frees_come_after_the_work(run_on_sim: Any) -> None:
    """Memory would be freed while work uses it, because the free is ordered on no stream or on the wrong one."""
    run_on_sim("""
        import cudacore_handles as ch
        from cudacore_handles._memory.resource import _SynchronousMemoryResource

        device = ch.Device(0)
        device.set_current()
        stream = device.create_stream()
        pinned, plain = ch.LegacyPinnedMemoryResource(), _SynchronousMemoryResource(0)
        managed = ch.LegacyManagedMemoryResource()
        for buffer, calls in (
            (device.allocate(64, stream=stream), ["cuMemFreeAsync"]),
            (pinned.allocate(64), ["cuMemFreeHost"]),
            (pinned.allocate(64, stream=stream), ["cuStreamSynchronize", "cuMemFreeHost"]),
            (plain.allocate(64), ["cuMemFree_v2"]),
            (managed.allocate(64, stream=stream), ["cuStreamSynchronize", "cuMemFree_v2"]),
            (plain.allocate(64, stream=stream), ["cuStreamSynchronize", "cuMemFree_v2"]),
        ):
            sim.reset()
            buffer.close()
            questions = ("cuCtx", "cuThreadExchange", "cuStreamIsCapturing")
            assert [call.name for call in sim.log() if not call.name.startswith(questions)] == calls
    """)


def test_from_another_thread(resource: Any, device: ch.Device, in_new_thread: Any) -> None:
    """Memory could not be allocated or freed on a thread that has no current context."""
    stream = device.create_stream()
    buffer = in_new_thread(lambda: resource.allocate(64, stream=stream))
    in_new_thread(lambda: buffer.fill(1, stream=stream))
    in_new_thread(buffer.close)
    stream.sync()


# ---- pools


def test_the_devices_pool(device: ch.Device, other_device: ch.Device) -> None:
    """A pool would belong to another device, or the device's own pool would be destroyed with our object."""
    resource = ch.DeviceMemoryResource(1)
    assert resource.device_id == 1
    assert resource.handle != device.memory_resource.handle  # type: ignore[attr-defined]
    assert not resource.is_handle_owned
    assert resource.attributes.release_threshold > 0
    resource.close()
    other_device.allocate(64, stream=other_device.create_stream()).close()


def test_deallocate_of_memory_from_elsewhere(device: ch.Device, stream: ch.Stream) -> None:
    """Memory that was allocated through cuda.bindings could not be freed through a memory resource."""
    from cuda.bindings import driver

    pool: Any = device.memory_resource
    status, ptr = driver.cuMemAllocFromPoolAsync(64, pool.handle, stream.handle)
    assert int(status) == 0
    pool.deallocate(int(ptr), 64, stream=stream)
    status, ptr = driver.cuMemHostAlloc(64, 0)
    assert int(status) == 0
    ch.LegacyPinnedMemoryResource().deallocate(int(ptr), 64, stream=stream)
    stream.sync()


# ---- allocators in Python


def test_the_base_class_says_what_is_missing() -> None:
    """An allocator that lacks a method would fail without naming the method."""

    class Mine(ch.MemoryResource):
        pass

    uses: dict[str, Callable[[], Any]] = {
        r"allocate\(\)": lambda: Mine().allocate(1, stream=ch.LEGACY_DEFAULT_STREAM),
        r"deallocate\(\)": lambda: Mine().deallocate(1, 1, stream=ch.LEGACY_DEFAULT_STREAM),
        "is_device_accessible": lambda: Mine().is_device_accessible,
        "is_host_accessible": lambda: Mine().is_host_accessible,
        "device_id": lambda: Mine().device_id,
    }
    for name, use in uses.items():
        with pytest.raises(TypeError, match=f"Mine does not implement {name}"):
            use()
    assert Mine().is_managed is False


@pytest.mark.parametrize("made", [None, 5, "buffer"])
def test_an_allocator_that_returns_no_buffer(device: ch.Device, stream: ch.Stream, made: object) -> None:
    """If an allocator has no return statement, `allocate` would return None, and the program would fail elsewhere."""

    class Mine(ch.LegacyPinnedMemoryResource):
        def allocate(self, size: int, *, stream: Any = None) -> Any:
            return made

    resource, before = Mine(), device.memory_resource
    says = rf"Mine.allocate\(\) returned {type(made).__name__}, and must return a Buffer: end it with return "
    device.memory_resource = resource
    try:
        with pytest.raises(TypeError, match=says):
            device.allocate(8, stream=stream)
    finally:
        device.memory_resource = before
    block = np.zeros(8, np.uint8)
    buffer = ch.Buffer.from_handle(block.ctypes.data, 8, mr=resource)
    with pytest.raises(TypeError, match=says):
        buffer.copy_to(stream=stream)
    resource.deallocate = lambda *args, **options: None  # type: ignore[method-assign]
    buffer.close()


@pytest.mark.parametrize("allocated_on", [None, "a"])
@pytest.mark.parametrize("closed_on", [None, "b", "not closed"])
def test_deallocate_is_called_once(
    host_memory: Any, device: ch.Device, allocated_on: str | None, closed_on: str | None
) -> None:
    """Memory of an allocator in Python would be freed twice, never, or on another stream."""
    streams = {"a": device.create_stream(), "b": device.create_stream(), None: None, "not closed": None}
    buffer = host_memory.allocate(32, stream=streams[allocated_on])
    ptr = buffer.handle
    if closed_on != "not closed":
        buffer.close(streams[closed_on])
        buffer.close()
    del buffer
    gc.collect()
    assert host_memory.freed == [(ptr, 32, streams[closed_on] or streams[allocated_on] or ch.default_stream())]


def test_the_buffer_takes_its_properties_from_the_allocator(host_memory: Any) -> None:
    """A buffer would query the driver about its memory, instead of using the properties of its Python allocator."""
    buffer = host_memory.allocate(4)
    assert (buffer.device_id, buffer.is_managed) == (-1, False)
    assert (buffer.is_device_accessible, buffer.is_host_accessible) == (False, True)
    assert buffer.memory_resource is host_memory
    assert buffer.__dlpack_device__() == (1, 0)
    buffer.__buffer__()[:] = b"abcd"
    assert np.from_dlpack(buffer).tolist() == list(b"abcd")
    gc.collect()
    ch.Device().sync()


def test_an_error_in_deallocate_is_reported_once(host_memory: Any, unraisable: list[Any], stream: ch.Stream) -> None:
    """A failure of an allocator would not be reported, would abort the process, or would break later calls."""
    host_memory.error = LookupError("lost")
    host_memory.allocate(8).close()
    buffer = host_memory.allocate(8)
    assert unraisable == [(LookupError, "lost")]
    del buffer
    gc.collect()
    assert unraisable == [(LookupError, "lost")] * 2
    host_memory.error = None
    host_memory.allocate(8).close(stream)
    assert len(unraisable) == 2


def test_a_pool_that_was_not_made(stream: ch.Stream) -> None:
    """If a subclass does not call our __init__, the error or the object's repr() would name a private attribute."""

    class Mine(ch.DeviceMemoryResource):
        def __init__(self) -> None:
            pass

    mr = Mine()
    assert repr(mr) == "<Mine closed>"
    with pytest.raises(ch.ClosedError, match="Mine has been closed"):
        mr.allocate(8, stream=stream)
    mr.close()
