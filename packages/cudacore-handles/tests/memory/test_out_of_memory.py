# SPDX-License-Identifier: Apache-2.0
"""Allocations that fail because no memory is left: the second attempt, and the error."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from memory_kinds import RESOURCES

import cudacore_handles as ch
from cudacore_handles._memory import out_of_memory

MIB = 1 << 20
TOO_MUCH = 1 << 50
UNKNOWN, OUT_OF_MEMORY = 999, 2


@pytest.fixture
def limited(device: ch.Device) -> Iterator[ch.DeviceMemoryResource]:
    """Give a pool that is limited to 64 MiB."""
    mr = ch.DeviceMemoryResource(device, {"max_size": 64 * MIB})
    yield mr
    mr.close()


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """Give a list that gets an element for each full garbage collection."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            seen.append(1)

    gc.disable()
    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)
    gc.enable()


class Cycle:
    """An object that only the garbage collector frees."""

    def __init__(self, buffer: ch.Buffer) -> None:
        self.myself, self.buffer = self, buffer


def fails(call: Callable[[], object]) -> ch.OutOfMemoryError:
    with pytest.raises(ch.OutOfMemoryError) as caught:
        call()
    return caught.value


# ---- Device.memory_info


def test_memory_info(device: ch.Device) -> None:
    """Free and total memory would be wrong, or those of another device."""
    info = device.memory_info
    assert 0 < info.free <= info.total
    assert (info.free, info.total) == tuple(info)


def test_memory_info_of_a_device_that_is_not_current(in_new_thread: Callable[[Callable[[], Any]], Any]) -> None:
    """The memory of the current device would be reported, or a current device would be required."""
    for device in ch.Device.get_all_devices():
        assert in_new_thread(lambda device=device: device.memory_info.total) == device.memory_info.total  # type: ignore[misc]


def test_memory_info_of_two_devices(run_on_sim: Callable[..., str]) -> None:
    """memory_info would report the memory of the current device instead of its own device."""
    run_on_sim(
        """
        import cudacore_handles as ch
        device, other = ch.Device.get_all_devices()
        other.set_current()
        before, there = device.memory_info, other.memory_info
        device.set_current()
        buffer = ch.VirtualMemoryResource(device).allocate(1 << 26)
        other.set_current()
        assert device.memory_info.free == before.free - buffer.size
        assert other.memory_info == there
        assert ch.Device().device_id == 1
        """
    )


# ---- the error message


def test_error(device: ch.Device, stream: ch.Stream) -> None:
    """The error would lack the requested size, the free memory, or the objects that use memory."""
    resource = ch.DeviceMemoryResource(device, {})
    kept = [resource.allocate(n * MIB, stream=stream) for n in (96, 1, 2, 3, 4, 5, 64)]
    error = fails(lambda: device.allocate(TOO_MUCH, stream=stream))
    text = str(error)
    assert error.code_name == "CUDA_ERROR_OUT_OF_MEMORY"
    assert f"{TOO_MUCH:,} bytes were requested from device {device.device_id}" in text
    assert f"Device {device.device_id} has {device.memory_info.total:,} bytes" in text
    assert "are free" in text
    listed = text.partition("The largest buffers of this process")[2]
    sizes = [line.partition(" bytes")[0].strip() for line in listed.splitlines() if line.startswith("  ")]
    assert [f"{96 * MIB:,}", f"{64 * MIB:,}"] == [size for size in sizes if size in (f"{96 * MIB:,}", f"{64 * MIB:,}")]
    assert len(sizes) == 5
    assert f"<DeviceMemoryResource of device {device.device_id}>, pool {resource._pool._raw:#x}" in text
    assert "Pools of this process:" in text
    for buffer in kept:
        buffer.close(stream)


def test_max_size_is_named(limited: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """An error that is caused by a pool's limit would say that the device is full."""
    with limited.allocate(MIB, stream=stream):
        assert "The limit is the max_size of the pool, 67,108,864 bytes (64 MiB)" in str(
            fails(lambda: limited.allocate(65 * MIB, stream=stream))
        )
    assert "max_size" not in str(fails(lambda: ch.DeviceMemoryResource(0, {}).allocate(TOO_MUCH, stream=stream)))


def test_parts_count_once(limited: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """Parts of a buffer would be listed beside the buffer, as if they had their own memory."""
    buffer = limited.allocate(48 * MIB, stream=stream)
    part = buffer[MIB:]
    buffer.close()
    text = str(fails(lambda: limited.allocate(65 * MIB, stream=stream)))
    assert f"{48 * MIB:,} bytes (48 MiB) at {part.handle - MIB:#x}" in text
    assert f"{47 * MIB:,}" not in text
    part.close()


def test_class(limited: ch.DeviceMemoryResource, stream: ch.Stream) -> None:
    """Programs that catch CUDAError, RuntimeError or MemoryError would not catch an OutOfMemoryError."""
    error = fails(lambda: limited.allocate(65 * MIB, stream=stream))
    assert isinstance(error, ch.CUDAError)
    assert isinstance(error, RuntimeError)
    assert isinstance(error, MemoryError)
    assert error.__context__ is None
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is ch.OutOfMemoryError
    assert str(copy) == str(error)


def test_resource_of_a_user_that_raises(limited: ch.DeviceMemoryResource, stream: ch.Stream, host_memory: Any) -> None:
    """A defective memory resource would raise an error that hides the OutOfMemoryError."""

    class Broken(type(host_memory)):  # type: ignore[misc]
        @property
        def device_id(self) -> int:
            raise ValueError("broken")

    broken = Broken()
    buffer = broken.allocate(100)
    fails(lambda: limited.allocate(65 * MIB, stream=stream))
    buffer.close()


@pytest.mark.cuda_sim
@pytest.mark.parametrize("call", ["cuMemGetInfo", "cuMemPoolGetAttribute"])
def test_report_without_answers(cuda_sim: Any, device: ch.Device, stream: ch.Stream, call: str) -> None:
    """If a query for the report fails, the failure would replace the error about memory."""
    cuda_sim.fail(call, 0)
    assert "were requested from device 0" in str(fails(lambda: device.allocate(TOO_MUCH, stream=stream)))


@pytest.mark.cuda_sim
def test_report_at_exit(run_on_driver: Callable[..., str]) -> None:
    """At the interpreter's exit, where imports fail, the error would be replaced by an error of the report."""
    out = run_on_driver(
        """
        import cudacore_handles as ch

        device = ch.Device()
        device.set_current()
        mr = ch.DeviceMemoryResource(device, {"max_size": 64 << 20})
        stream = device.create_stream()

        class Finalized:
            def __init__(self, buffer):
                self.myself, self.buffer = self, buffer

            def __del__(self, error=ch.OutOfMemoryError, mr=mr, stream=stream):
                try:
                    mr.allocate(65 << 20, stream=stream)
                except error:
                    print("out of memory")

        kept = Finalized(mr.allocate(1, stream=stream))
        """
    )
    assert out == "out of memory\n"


def test_name_that_raises(stream: ch.Stream, host_memory: Any) -> None:
    """The error would be replaced by an error of a memory resource's repr()."""

    class Nameless(type(host_memory)):  # type: ignore[misc]
        def __repr__(self) -> str:
            raise ValueError

    fails(lambda: ch.LimitingResourceAdaptor(Nameless(), 5).allocate(6, stream=stream))


def test_other_operations(cuda_sim: Any, device: ch.Device, stream: ch.Stream) -> None:
    """For an allocation that is not a buffer, the error would have no information about memory."""
    with cuda_sim.failing("cuStreamCreateWithPriority", error=OUT_OF_MEMORY):
        assert "Device 0 has" in str(fails(device.create_stream))


def test_after_a_fault(on_sim: bool, run_python: Callable[..., Any]) -> None:
    """When an allocation reports the fault of an earlier kernel, the error would be about memory."""
    result = run_python(
        """
        import os
        import cudacore_handles as ch
        device = ch.Device()
        device.set_current()
        stream = device.create_stream()
        ptx = b'''
        .version 7.0
        .target sm_70
        .address_size 64
        .visible .entry bad() {
          .reg .u64 %a; .reg .u32 %b;
          mov.u64 %a, 16; mov.u32 %b, 1; st.global.u32 [%a], %b; ret;
        }'''
        kernel = ch.ObjectCode.from_ptx(ptx).get_kernel("bad")
        ch.launch(stream, ch.LaunchConfig(grid=1, block=1), kernel)
        try:
            stream.sync()
        except ch.CUDAError:
            pass
        resources = [device.memory_resource, ch.LegacyPinnedMemoryResource(), ch.PinnedMemoryResource()]
        for resource in resources:
            for size in (256, 1 << 50):
                try:
                    resource.allocate(size, stream=stream)
                except ch.CUDAError as error:
                    assert type(error) is ch.CUDAError, repr(error)
                    assert error.code_name == "CUDA_ERROR_ILLEGAL_ADDRESS", error
                    assert "A kernel that ran earlier read or wrote memory" in str(error), error
                else:
                    raise AssertionError(resource)
        os._exit(0)
        """,
        **({"CUDACORE_DRIVER": "sim"} if on_sim else {}),
    )
    assert result.returncode == 0, result.stderr


# ---- the second attempt to allocate


def test_garbage_is_collected(limited: ch.DeviceMemoryResource, stream: ch.Stream, collections: list[int]) -> None:
    """An allocation would fail although garbage collection can free enough memory."""
    for _ in range(4):
        Cycle(limited.allocate(48 * MIB, stream=stream))
    assert len(collections) == 3
    fails(lambda: limited.allocate(65 * MIB, stream=stream))
    assert len(collections) == 4


def test_garbage_that_another_thread_collects(
    limited: ch.DeviceMemoryResource, stream: ch.Stream, collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If several threads run out of memory, all but one would fail: gc.collect() does nothing during a collection."""
    results: list[object] = []

    def allocate() -> None:
        stream.device.set_current()
        try:
            results.append(limited.allocate(48 * MIB, stream=stream))
        except ch.OutOfMemoryError as error:
            results.append(error)

    class Finalized(Cycle):
        patience = 0.2

        def __del__(self) -> None:
            other.start()
            other.join(self.patience)

    other = threading.Thread(target=allocate)
    Finalized(limited.allocate(48 * MIB, stream=stream))
    gc.collect()
    other.join()
    (buffer,) = results
    assert isinstance(buffer, ch.Buffer), buffer

    # Now the finalizer waits for the other thread, so the other thread must not wait for the finalizer.
    monkeypatch.setattr(out_of_memory, "_PATIENCE", 0.01)
    monkeypatch.setattr(Finalized, "patience", None)
    Finalized(buffer)
    del buffer, results[:]
    other = threading.Thread(target=allocate)
    limited.allocate(48 * MIB, stream=stream).close()
    assert len(results) == 1


def test_finalizer_that_allocates(limited: ch.DeviceMemoryResource, stream: ch.Stream, collections: list[int]) -> None:
    """A finalizer that runs out of memory during a garbage collection would wait forever for that collection to end."""
    errors: list[str] = []

    class Finalized(Cycle):
        def __del__(self) -> None:
            try:
                limited.allocate(48 * MIB, stream=stream)
            except ch.OutOfMemoryError as error:  # kept as text, because the traceback would keep this object alive
                errors.append(str(error))

    Finalized(limited.allocate(48 * MIB, stream=stream))
    limited.allocate(48 * MIB, stream=stream).close()
    assert len(errors) == 1


def test_garbage_is_not_collected_without_need(
    limited: ch.DeviceMemoryResource, stream: ch.Stream, collections: list[int]
) -> None:
    """An allocation that succeeds would run a garbage collection."""
    for _ in range(10):
        limited.allocate(MIB, stream=stream).close()
    assert not collections


def test_option(limited: ch.DeviceMemoryResource, stream: ch.Stream, collections: list[int]) -> None:
    """A program could not disable the garbage collection before a second attempt."""
    limited.collects_garbage = False
    cycle = Cycle(limited.allocate(48 * MIB, stream=stream))
    del cycle
    fails(lambda: limited.allocate(48 * MIB, stream=stream))
    assert not collections
    limited.collects_garbage = True
    limited.allocate(48 * MIB, stream=stream).close()
    assert len(collections) == 1


def test_option_for_all(
    limited: ch.DeviceMemoryResource, stream: ch.Stream, collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`collects_garbage` could not be set on the class, for all memory resources."""
    monkeypatch.setattr(ch.MemoryResource, "collects_garbage", False)
    fails(lambda: limited.allocate(65 * MIB, stream=stream))
    fails(lambda: ch.VirtualMemoryResource(0).allocate(TOO_MUCH))
    assert not collections


def grow(device: ch.Device) -> Callable[[], ch.Buffer]:
    virtual = ch.VirtualMemoryResource(device)
    small = virtual.allocate(1)
    return lambda: virtual.modify_allocation(small, small.size + 1)


def allocating(kind: str, device: ch.Device) -> tuple[str, Callable[[], ch.Buffer]]:
    """Return the name of the driver's function, and a function that allocates 256 bytes of a kind."""
    if kind == "growing":
        return "cuMemCreate", grow(device)
    call, make = RESOURCES[kind.removeprefix("adaptor of ")]
    resource, stream = make(device), device.create_stream()
    if kind.startswith("adaptor"):
        limit = 1 << 21  # of one allocation of virtual memory
        resource = ch.StatisticsResourceAdaptor(ch.LimitingResourceAdaptor(resource, limit))
    return call, lambda: resource.allocate(256, stream=stream)


KINDS = (*RESOURCES, "growing", "adaptor of pool", "adaptor of virtual")


@pytest.mark.cuda_sim
@pytest.mark.parametrize("kind", KINDS)
def test_each_resource_tries_twice(cuda_sim: Any, device: ch.Device, collections: list[int], kind: str) -> None:
    """A failed allocation of some kind of memory would not be tried again, or would be tried more than twice."""
    call, allocate = allocating(kind, device)
    with cuda_sim.failing(call, error=OUT_OF_MEMORY):
        allocate().close()
    assert len(collections) == 1
    cuda_sim.fail(call, 1, OUT_OF_MEMORY)
    cuda_sim.fail(call, 2, OUT_OF_MEMORY)
    assert "256 bytes were requested" in str(fails(allocate)) or kind == "growing"
    assert len(collections) == 2
    cuda_sim.reset()
    allocate().close()


@pytest.mark.cuda_sim
@pytest.mark.parametrize("kind", KINDS)
def test_other_errors_are_not_tried_again(cuda_sim: Any, device: ch.Device, collections: list[int], kind: str) -> None:
    """A failure that is not a lack of memory would be hidden by a second attempt."""
    call, allocate = allocating(kind, device)
    with cuda_sim.failing(call, error=UNKNOWN), pytest.raises(ch.CUDAError, match="CUDA_ERROR_UNKNOWN"):
        allocate()
    assert not collections
    cuda_sim.fail(call, 1, OUT_OF_MEMORY)
    cuda_sim.fail(call, 2, UNKNOWN)
    with pytest.raises(ch.CUDAError, match="CUDA_ERROR_UNKNOWN"):
        allocate()
    assert len(collections) == 1


def test_nothing_is_collected_during_a_capture(
    limited: ch.DeviceMemoryResource, device: ch.Device, stream: ch.Stream, collections: list[int]
) -> None:
    """During a capture, a garbage collection would run finalizers, which could invalidate the capture."""
    from cuda.bindings import driver

    captured = device.create_stream()
    (code,) = driver.cuStreamBeginCapture(captured.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    assert code == 0
    fails(lambda: device.allocate(TOO_MUCH, stream=captured))
    assert not collections
    code, graph = driver.cuStreamEndCapture(captured.handle)
    if graph:
        driver.cuGraphDestroy(graph)
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    with device.create_graph_builder():
        fails(lambda: device.allocate(TOO_MUCH, stream=stream))
    assert not collections
