# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct
from typing import Any

import pytest
from foreign_objects import CudaArray

import cudacore_handles as ch

ONE_BLOCK = ch.LaunchConfig(grid=1, block=1)


@pytest.mark.parametrize("wrapped", [False, True], ids=["Buffer", "array"])
@pytest.mark.parametrize("on", ["a stream", "a stream of another device than the current one", "legacy", "per thread"])
def test_memory_of_another_device(
    device: ch.Device, other_device: ch.Device, code: ch.ObjectCode, stream: ch.Stream, wrapped: bool, on: str
) -> None:
    """A kernel would get memory that its device cannot access: that of the stream, or for a default stream the current.

    Or memory would be refused because of the current device.
    """
    mine, theirs = (d.allocate(64, stream=d.create_stream()) for d in (device, other_device))
    kernel, make = code.get_kernel("add"), CudaArray if wrapped else lambda buffer: buffer
    device.sync()
    current = other_device if on.endswith("current one") else device
    current.set_current()
    used = {"legacy": ch.LEGACY_DEFAULT_STREAM, "per thread": ch.PER_THREAD_DEFAULT_STREAM}.get(on, stream)
    for launch in (ch.launch, lambda stream, config, kernel, *args: kernel.prepare(stream, config, *args)()):
        with pytest.raises(ch.CUDAError, match=r"CCH_EMISMATCH .* is memory of device 1") as caught:
            launch(used, ONE_BLOCK, kernel, make(theirs), 1)
        assert caught.value.hint.startswith("Argument 0: ")
        assert "is given to a launch on device 0: copy it there" in caught.value.hint
        launch(used, ONE_BLOCK, kernel, make(mine), 1)
    assert ch.Device() is current
    used.sync()
    device.set_current()


@pytest.mark.parametrize("wrapped", [False, True], ids=["Buffer", "array"])
def test_memory_that_a_device_was_given_access_to(
    device: ch.Device, other_device: ch.Device, code: ch.ObjectCode, stream: ch.Stream, wrapped: bool
) -> None:
    """Memory of another device would be refused although the kernel can access it, or accepted although it cannot."""
    if not device.can_access_peer(other_device):
        pytest.skip("needs two devices that can reach each other's memory")
    resource = ch.DeviceMemoryResource(other_device, ch.DeviceMemoryResourceOptions())
    there = other_device.create_stream()
    buffer = resource.allocate(64, stream=there)
    kernel = code.get_kernel("add")
    argument = CudaArray(buffer) if wrapped else buffer
    with pytest.raises(ch.CUDAError, match="CCH_EMISMATCH"):
        ch.launch(stream, ONE_BLOCK, kernel, argument, 1)
    resource.peer_accessible_by = [device]
    there.sync()
    ch.launch(stream, ONE_BLOCK, kernel, argument, 1)
    stream.sync()
    resource.peer_accessible_by = []
    with pytest.raises(ch.CUDAError, match="CCH_EMISMATCH"):
        ch.launch(stream, ONE_BLOCK, kernel, argument, 1)
    buffer.close()
    resource.close()


@pytest.mark.parametrize("wrapped", [False, True], ids=["Buffer", "address"])
@pytest.mark.parametrize("location", ["device", "host"])
def test_virtual_memory_has_its_own_access(
    device: ch.Device, other_device: ch.Device, code: ch.ObjectCode, stream: ch.Stream, location: str, wrapped: bool
) -> None:
    """A kernel would get virtual memory, even of the host, that was made for another device: the context would end."""
    kernel = code.get_kernel("add")

    def allocate(on: ch.Device, **options: Any) -> ch.Buffer:
        resource = ch.VirtualMemoryResource(on, {"location_type": location, "handle_type": None} | options)
        return resource.allocate(64)

    def given(buffer: ch.Buffer) -> ch.Buffer:
        return ch.Buffer.from_handle(int(buffer.handle), 64, owner=object()) if wrapped else buffer

    mine, theirs = allocate(device), allocate(other_device)
    ours = allocate(other_device, peers=[device])
    with pytest.raises(ch.CUDAError, match=r"CCH_EMISMATCH .*the current device is 0"):
        ch.launch(stream, ONE_BLOCK, kernel, given(theirs), 1)
    for buffer in (mine, ours):
        buffer.fill(0, stream=stream)
        ch.launch(stream, ONE_BLOCK, kernel, given(buffer), 3)
        out = bytearray(buffer.size)
        buffer.copy_to(out, stream=stream)
        assert struct.unpack_from("i", out) == (3,)


def test_pinned_memory_on_any_device(
    other_device: ch.Device, device: ch.Device, make_code: Any, pinned: Any, code: ch.ObjectCode
) -> None:
    """Host memory that was allocated for one device would be refused on another."""
    if other_device.arch != device.arch:
        pytest.skip("needs two devices of one architecture")
    out, there = pinned(4), other_device.create_stream()
    for argument in (out, CudaArray(out)):
        ch.launch(there, ONE_BLOCK, code.get_kernel("add"), argument, 2)
    there.sync()
    assert bytes(out.__buffer__()) == struct.pack("=i", 4)


@pytest.mark.parametrize("asked", ["never", "here"])
def test_from_a_thread_without_a_context(
    code: ch.ObjectCode, stream: ch.Stream, pinned: Any, in_new_thread: Any, asked: str
) -> None:
    """A launch on a thread that has no current context would fail, or leave a context current."""
    out, kernel = pinned(4), code.get_kernel("add")
    if asked == "here":
        _ = kernel.num_arguments

    def launch() -> None:
        ch.launch(stream, ONE_BLOCK, kernel, out, 3)
        kernel.prepare(stream, ONE_BLOCK, out, 4)()
        with pytest.raises(ch.CUDAError, match="CUDA_ERROR_INVALID_CONTEXT"):
            _ = ch.LEGACY_DEFAULT_STREAM.context

    in_new_thread(launch)
    stream.sync()
    assert struct.unpack("=i", out.__buffer__()) == (7,)


def test_on_the_streams_device(
    device: ch.Device, other_device: ch.Device, code: ch.ObjectCode, stream: ch.Stream, pinned: Any
) -> None:
    """A launch would run on the current device, or would change the current device to the stream's."""
    out = pinned(4)
    other_device.set_current()
    ch.launch(stream, ONE_BLOCK, code.get_kernel("add"), out, 3)
    stream.sync()
    assert ch.Device() is other_device
    device.set_current()
    there = other_device.create_stream()
    if other_device.arch == device.arch:
        ch.launch(there, ONE_BLOCK, code.get_kernel("add"), out, 3)
        there.sync()
    assert ch.Device() is device


def test_on_any_stream(code: ch.ObjectCode, stream: ch.Stream, pinned: Any) -> None:
    """A kernel could not be launched on a foreign or a default stream."""

    class Offer:
        def __cuda_stream__(self) -> tuple[int, int]:
            return stream.__cuda_stream__()

    out, kernel = pinned(4), code.get_kernel("add")
    for other in (Offer(), ch.LEGACY_DEFAULT_STREAM, ch.PER_THREAD_DEFAULT_STREAM):
        ch.launch(other, ONE_BLOCK, kernel, out, 1)
        kernel.prepare(other, ONE_BLOCK, out, 1)()
        ch.Device().sync()
    assert struct.unpack("=i", out.__buffer__()) == (6,)
