# SPDX-License-Identifier: Apache-2.0
"""Calls with invalid arguments or closed objects: the error names the argument and what was given, and nothing changes.

An invalid argument would otherwise reach the driver, be truncated or ignored, or fail later.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch
from cudacore_handles import (
    Buffer,
    CopyOptions,
    DeviceMemoryResource,
    GraphicsResource,
    Host,
    IPCVirtualMemoryDescriptor,
    ManagedMemoryResource,
    PinnedMemoryResource,
    VirtualMemoryResource,
)  # fmt: skip
from cudacore_handles._memory.host import place_of

SIZE = 64


class World:
    """The objects of the calls, made when they are used."""

    def __init__(self, device: ch.Device, stream: ch.Stream, folder: Path) -> None:
        self.device, self.stream, self.folder = device, stream, folder
        self.on: dict[str, Any] = {"stream": stream}

    def closed(self, name: str) -> Any:
        """Return an object that was closed."""
        getattr(self, name).close()
        return getattr(self, name)

    @cached_property
    def buffer(self) -> Buffer:
        made = self.device.allocate(SIZE, stream=self.stream)
        made.copy_from(bytes(range(SIZE)), stream=self.stream)
        return made

    @cached_property
    def six(self) -> Buffer:
        return self.device.allocate(6, stream=self.stream)

    @cached_property
    def pinned(self) -> Buffer:
        return ch.LegacyPinnedMemoryResource().allocate(SIZE)

    @cached_property
    def small(self) -> Buffer:
        return self.pinned[:8]

    @cached_property
    def two(self) -> list[Buffer]:
        return [ch.LegacyPinnedMemoryResource().allocate(SIZE) for _ in range(2)]

    @cached_property
    def pool(self) -> DeviceMemoryResource:
        return DeviceMemoryResource(self.device, {})

    @cached_property
    def managed(self) -> Any:
        made = ManagedMemoryResource().allocate(1 << 16, stream=self.stream)
        self.accessed_by = made.accessed_by
        return made

    @cached_property
    def virtual(self) -> VirtualMemoryResource:
        return VirtualMemoryResource(self.device)

    @cached_property
    def private(self) -> VirtualMemoryResource:
        return VirtualMemoryResource(self.device, {"handle_type": None})

    @cached_property
    def mapped(self) -> Buffer:
        return self.virtual.allocate(1)

    @cached_property
    def exported(self) -> IPCVirtualMemoryDescriptor:
        return self.virtual.export_allocation(self.mapped)

    def descriptor(self, files: Any = None, sizes: Any = None, *more: int) -> IPCVirtualMemoryDescriptor:
        """Make a descriptor, by default of the exported memory."""
        return IPCVirtualMemoryDescriptor(files or self.exported.descriptors, sizes or self.exported.sizes, *more)

    @cached_property
    def stream_closed(self) -> ch.Stream:
        made = self.device.create_stream()
        made.close()
        return made


def batch(srcs: Callable[[World], Any], dsts: Callable[[World], Any], options: Any = None) -> Callable[[World], Any]:
    return lambda w: ch.copy_batch(w.stream, srcs(w), dsts(w), options=options)


def part(width: Any, **options: Any) -> Callable[[World], Any]:
    return lambda w: w.buffer.copy_part_from(w.pinned, width, stream=w.stream, **options)


def fill(value: Any) -> Callable[[World], Any]:
    return lambda w: w.buffer.fill(value, stream=w.stream)


def setting(name: str, value: Any) -> Callable[[World], Any]:
    return lambda w: setattr(w.pool.attributes, name, value)


ROWS: list[tuple[Callable[[World], Any], type[Exception], str]] = [
    # ---- Buffer.from_handle
    (lambda w: Buffer.from_handle(-1, 8), ValueError, "the memory's address; -1 is not an address"),
    (lambda w: Buffer.from_handle(2**64, 8), ValueError, "the memory's address; 18446744073709551616 is not an"),
    (lambda w: Buffer.from_handle("4096", 8), TypeError, "ptr must be an int, the memory's address, not str"),
    (lambda w: Buffer.from_handle(4096.0, 8), TypeError, "ptr must be an int, the memory's address, not float"),
    (lambda w: Buffer.from_handle(object(), 8), TypeError, "ptr must be an int, the memory's address, not object"),
    (lambda w: Buffer.from_handle(4096, -1), ValueError, "size is -1; it must be from 0"),
    (lambda w: Buffer.from_handle(4096, "8"), TypeError, "size must be an int"),
    (lambda w: Buffer.from_handle(4096, None), TypeError, "size must be an int"),
    (lambda w: Buffer.from_handle(4096, 8, "mr"), TypeError, "mr must be a MemoryResource, not str"),
    (lambda w: Buffer.from_handle(4096, 8, w.pool, object()), ValueError, "owner and memory resource cannot be both"),
    (lambda w: Buffer.from_handle(4096, 8, stream=0), TypeError, "a Stream is needed"),
    (lambda w: Buffer.from_handle(4096, 8, owner=w.closed("six")), ch.ClosedError, "closed"),
    # ---- the end of a buffer
    (lambda w: w.buffer.close(0), TypeError, "a Stream is needed"),
    (lambda w: w.buffer.close("stream"), TypeError, "a Stream is needed"),
    (lambda w: w.buffer.set_deallocation_stream(object()), TypeError, "a Stream is needed"),
    # ---- parts
    (lambda w: w.buffer[3], TypeError, r"a part of a Buffer is buffer\[start:stop\], not buffer\[3\]"),
    (lambda w: w.buffer[:1, :2], TypeError, r"a part of a Buffer is buffer\[start:stop\]"),
    (lambda w: w.buffer[...], TypeError, r"not buffer\[Ellipsis\]"),
    (lambda w: w.buffer[0:8:2], ValueError, "the step of a part is 2, and must be 1"),
    (lambda w: w.buffer[::-1], ValueError, "the step of a part is -1, and must be 1"),
    (lambda w: w.buffer[1.5:2], TypeError, "slice indices must be integers"),
    (lambda w: w.closed("buffer")[:4], ch.ClosedError, "Buffer has been closed"),
    (lambda w: list(w.buffer), TypeError, "not iterable"),
    (lambda w: 3 in w.buffer, TypeError, "not iterable|not a container"),
    # ---- fills
    (fill(-1), OverflowError, "value is -1; an int fills bytes, 0 to 255"),
    (fill(256), OverflowError, r"value is 256; an int fills bytes, 0 to 255; give np\.int32\(256\)"),
    (fill(2**31), OverflowError, r"give np\.uint32\(2147483648\)"),
    (fill(-(2**40)), OverflowError, r"give np\.int64\(-1099511627776\)"),
    (fill(2**63), OverflowError, r"give np\.uint64\(9223372036854775808\)"),
    (fill(10**30), OverflowError, "an int of 100 bits; .* no NumPy integer of up to 8 bytes can hold it"),
    (fill(10**5000), OverflowError, "an int of 16610 bits"),
    (fill(True), TypeError, "value must be an int from 0 to 255, or a value with a size, not bool"),
    (fill(1.0), TypeError, "value must be an int .* not float"),
    (fill("x"), TypeError, "value must be an int .* not str"),
    (fill(None), TypeError, "value must be an int .* not NoneType"),
    (fill(b""), ValueError, "value must be 1, 2, or 4 bytes, got 0; a buffer can also be filled with 8 bytes"),
    (fill(b"abc"), ValueError, "value must be 1, 2, or 4 bytes, got 3"),
    (fill(b"1234567890123456"), ValueError, "value must be 1, 2, or 4 bytes, got 16"),
    (lambda w: w.six.fill(b"abcd", stream=w.stream), ValueError, r"buffer size \(6\) must be divisible by 4"),
    (lambda w: w.six.fill(0, stream=None), TypeError, "a Stream is needed"),
    (lambda w: w.six[1:5].fill(b"ab", stream=w.stream), ValueError, "address of the buffer must be a multiple of 2,"),
    # ---- copies
    (lambda w: w.buffer.copy_to(w.six, **w.on), ValueError, r"mismatch between src and dst \(sizes are: src=64, dst=6"),
    (lambda w: w.buffer.copy_from(w.six, **w.on), ValueError, r"between src and dst \(sizes are: src=6, dst=64\)"),
    (lambda w: w.buffer.copy_to(64, **w.on), TypeError, "dst must be a Buffer, or an array .*not int"),
    (lambda w: w.buffer.copy_to(object(), **w.on), TypeError, "dst must be a Buffer, or an array .*not object"),
    (lambda w: w.buffer.copy_from("x", **w.on), TypeError, "src must be a Buffer, or an array .*not str"),
    (lambda w: w.buffer.copy_to(w.pinned, stream=None), TypeError, "a Stream is needed"),
    (lambda w: w.buffer.copy_from(w.pinned, stream=0), TypeError, "a Stream is needed"),
    (lambda w: w.buffer.copy_to(w.pinned, options={}, **w.on), TypeError, "copy_to: options must be CopyOptions, got"),
    (lambda w: w.buffer.copy_from(w.pinned, options={}, **w.on), TypeError, "copy_from: options must be CopyOptions"),
    (lambda w: w.buffer.copy_to(w.pinned, stream=w.stream_closed), ValueError, "Stream has been closed"),
    (lambda w: Buffer.from_handle(w.buffer.handle, 64).copy_to(**w.on), ValueError, "dst is missing, and this buffer"),
    (lambda w: w.buffer.copy_to(w.small, options=CopyOptions(), **w.on), ValueError, r"are: src=64, dst=8\)"),
    (lambda w: w.buffer.copy_to(w.closed("six"), options=CopyOptions(), **w.on), ch.ClosedError, "closed"),
    (lambda w: w.closed("six").copy_to(w.buffer, options=CopyOptions(), **w.on), ch.ClosedError, "closed"),
    (lambda w: w.closed("six").copy_to(options=CopyOptions(), **w.on), ch.ClosedError, "closed"),
    # ---- options of copies
    (lambda w: CopyOptions("x"), ValueError, "invalid src_access_order: 'x'; it must be one of 'stream', 'during"),
    (lambda w: CopyOptions(None), ValueError, "invalid src_access_order: None"),
    (lambda w: CopyOptions(overlap_mode=1), ValueError, "invalid overlap_mode: 1; it must be one of 'default',"),
    (lambda w: CopyOptions(src_location_hint=3), TypeError, r"CopyOptions.src_location_hint must be .* got int: 3"),
    (lambda w: CopyOptions(dst_location_hint="host"), TypeError, r"CopyOptions.dst_location_hint must be .* got str"),
    (lambda w: CopyOptions(dst_location_hint=Host(4095)), ValueError, "this machine has nodes"),
    # ---- copies of many buffers
    (batch(lambda w: [], lambda w: []), ValueError, "copy_batch: empty buffers sequence"),
    (batch(lambda w: w.two, lambda w: w.two[:1]), ValueError, "copy_batch: srcs length 2 does not match dsts length 1"),
    (batch(lambda w: w.two, lambda w: [w.buffer, w.small]), ValueError, r"mismatch at index 1 \(src=64, dst=8\)"),
    (batch(lambda w: w.pinned, lambda w: w.buffer), TypeError, "pass a sequence of Buffers; .* use Buffer.copy_to"),
    (batch(lambda w: [w.pinned, 3], lambda w: w.two), TypeError, "copy_batch: expected Buffer, got int"),
    (batch(lambda w: w.two, lambda w: [w.buffer, None]), TypeError, "copy_batch: expected Buffer, got NoneType"),
    (batch(lambda w: None, lambda w: w.two), TypeError, "buffers must be a sequence of Buffer, got NoneType"),
    (batch(lambda w: w.two, lambda w: iter(w.two)), TypeError, "copy_batch: buffers must be a sequence of Buffer"),
    (batch(lambda w: w.two, lambda w: [w.buffer, w.closed("six")]), ch.ClosedError, "Buffer has been closed"),
    (batch(lambda w: w.two, lambda w: w.two, {}), TypeError, "CopyOptions or a sequence of CopyOptions, got dict"),
    (batch(lambda w: w.two, lambda w: w.two, [CopyOptions()]), ValueError, "options length 1 does not match buffers"),
    (batch(lambda w: w.two, lambda w: w.two, [None] * 2), TypeError, "options element must be CopyOptions, got None"),
    (lambda w: ch.copy_batch(None, w.two, w.two), TypeError, "[sS]tream"),
    (lambda w: ch.copy_batch("stream", w.two, w.two), TypeError, "[sS]tream"),
    # ---- copies of parts
    (part(65), ValueError, "the part ends 65 bytes into dst, which has 64"),
    (part(8, height=9), ValueError, "the part ends 72 bytes into dst"),
    (part(8, src_offset=57), ValueError, "the part ends 65 bytes into src"),
    (part(8, dst_offset=2**63 - 1), ValueError, "bytes into dst"),
    (part(8, height=2, src_pitch=7), ValueError, "src_pitch is 7, less than the width, 8: rows would overlap"),
    (part(8, depth=2, dst_pitch=0), ValueError, "dst_pitch is 0, less than the width"),
    (part(4, height=2, depth=2, dst_height=1), ValueError, "dst_height is 1, less than the height, 2"),
    (part(8, height=2, src_pitch=2**30, src_height=2**62), ValueError, "bytes into src"),
    (part(8, height=2, dst_pitch=2**31), ValueError, "dst_pitch is 2147483648; CUDA's limit is 2147483647 bytes"),
    (part(0), ValueError, "the part has a width of 0, a height of 1, a depth of 1: it is empty"),
    (part(8, height=0), ValueError, "a height of 0"),
    (part(-1), ValueError, "width is -1"),
    (part(8, depth=1.5), TypeError, "depth must be an int"),
    (part(8, src_offset="1"), TypeError, "src_offset must be an int"),
    (part(8, dst_height=True), TypeError, "dst_height must be an int"),
    (lambda w: w.buffer.copy_part_from(np.zeros(8), 8, **w.on), TypeError, "src must be a Buffer, not ndarray; copy"),
    (lambda w: w.buffer.copy_part_from(w.pinned, 8, stream=None), TypeError, "stream is required"),
    (lambda w: w.buffer.copy_part_from(w.closed("six"), 6, **w.on), ch.ClosedError, "closed"),
    # ---- pools
    (lambda w: w.pool.trim(-1), ValueError, "min_bytes_to_keep is -1"),
    (lambda w: w.pool.trim(1.0), TypeError, "min_bytes_to_keep must be an int"),
    (lambda w: w.pool.trim(None), TypeError, "not NoneType"),
    (lambda w: DeviceMemoryResource(-1), ValueError, "device_id"),
    (lambda w: DeviceMemoryResource("0"), TypeError, "device_id"),
    (lambda w: ManagedMemoryResource("x"), TypeError, "must be .* an object of type ManagedMemoryResourceOptions"),
    (lambda w: ManagedMemoryResource({"size": 1}), TypeError, "unexpected keyword argument 'size'"),
    (lambda w: PinnedMemoryResource({"numa_id": -1}), ValueError, "numa_id must be >= 0, got -1"),
    (lambda w: PinnedMemoryResource({"numa_id": True}), TypeError, "numa_id must be an int"),
    (lambda w: PinnedMemoryResource({"numa_id": "0"}), TypeError, "not str"),
    (lambda w: PinnedMemoryResource({"numa_id": 4095}), ValueError, "numa_id is on NUMA node 4095; this machine has"),
    *(
        row
        for make in (lambda options: DeviceMemoryResource(0, options), PinnedMemoryResource)
        for row in (
            (
                lambda w, make=make: make("x"),
                TypeError,
                "must be provided as an object of type .*MemoryResourceOptions",
            ),
            (lambda w, make=make: make({"size": 1}), TypeError, "unexpected keyword argument 'size'"),
            (lambda w, make=make: make({"ipc_enabled": "x"}), TypeError, "ipc_enabled must be True or False"),
            (lambda w, make=make: make({"max_size": -1}), ValueError, "max_size"),
            (lambda w, make=make: make({"max_size": 1.5}), TypeError, "max_size"),
            (lambda w, make=make: make({"max_size": 2**63}), ValueError, "max_size"),
        )
    ),
    *(
        (lambda w, options=options: ManagedMemoryResource(options), error, message)
        for options, error, message in (
            ({"preferred_location": 0, "preferred_location_type": "host"}, ValueError, "must be None when .* got 0"),
            ({"preferred_location_type": "device"}, ValueError, r"must be a device ordinal \(>= 0\) when .* got None"),
            ({"preferred_location": -2}, ValueError, r"must be a device ordinal \(>= 0\) .* got -2"),
            ({"preferred_location": 99}, ValueError, "device_id must be within"),
            ({"preferred_location": True}, TypeError, "preferred_location must be an int or None, not bool"),
            ({"preferred_location": "a"}, TypeError, "not str"),
            ({"preferred_location_type": "x"}, ValueError, "'x' is not a valid .* 'device', 'host', 'host_numa'"),
            ({"preferred_location": -1, "preferred_location_type": "host_numa"}, ValueError, "a NUMA node"),
            ({"preferred_location": 4095, "preferred_location_type": "host_numa"}, ValueError, "machine has nodes"),
        )
    ),
    # ---- attributes of pools
    (setting("release_threshold", -1), ValueError, "release_threshold is -1; it can be set to values from 0"),
    (setting("release_threshold", 2**64), ValueError, "release_threshold"),
    (setting("release_threshold", 1.5), TypeError, "release_threshold must be int, not float"),
    (setting("reuse_allow_opportunistic", 2), TypeError, "must be True or False"),
    (setting("reuse_allow_opportunistic", None), TypeError, "must be bool, not NoneType"),
    (setting("used_mem_high", 1), ValueError, "used_mem_high is 1; it can be set to 0, which resets it"),
    (setting("used_mem_current", 0), AttributeError, "used_mem_current is read-only"),
    (setting("reserved_mem_current", 0), AttributeError, "reserved_mem_current is read-only"),
    # ---- managed memory
    (lambda w: w.managed.accessed_by.add(Host(0)), ValueError, "accessed_by does not distinguish NUMA nodes"),
    (lambda w: setattr(w.managed, "accessed_by", None), TypeError, "must be a set of Device or Host, not None"),
    (lambda w: w.managed.prefetch(None, **w.on), TypeError, "location must be a Device or a Host, got NoneType"),
    (lambda w: w.managed.prefetch(Host(), stream=None), TypeError, "stream is required"),
    (lambda w: ch.discard_batch(3, [w.managed]), TypeError, "Stream or GraphBuilder expected, got int"),
    (lambda w: w.closed("managed").read_mostly, ch.ClosedError, "closed"),
    (lambda w: w.closed("managed").preferred_location, ch.ClosedError, "closed"),
    (lambda w: w.closed("managed").last_prefetch_location, ch.ClosedError, "closed"),
    (lambda w: w.closed("managed").accessed_by, ch.ClosedError, "closed"),
    (lambda w: w.closed("managed") and len(w.accessed_by), ch.ClosedError, "closed"),
    (lambda w: w.closed("managed") and w.accessed_by.add(w.device), ch.ClosedError, "closed"),
    (lambda w: w.closed("managed").prefetch(w.device, **w.on), ch.ClosedError, "closed"),
    (lambda w: w.closed("managed").discard(**w.on), ch.ClosedError, "closed"),
    (lambda w: ch.discard_batch(w.stream, [w.closed("managed")]), ch.ClosedError, "closed"),
    # ---- the host as a location
    *(
        (lambda w, bad=bad: Host(bad), ValueError, "numa_id must be a non-negative int, got")
        for bad in (-1, "x", True, 1.5)
    ),
    (lambda w: Host(2**31), ValueError, "numa_id must be a non-negative int, got"),
    (lambda w: Host(1, is_numa_current=True), ValueError, "mutually exclusive"),
    (lambda w: Host(is_numa_current="no"), TypeError, "is_numa_current must be True or False, not 'no'"),
    *(
        (lambda w, bad=bad: place_of(bad, "where"), TypeError, "^where must be a Device or a Host, got")
        for bad in (0, None)
    ),
    (lambda w: place_of(Host(4095), "where"), ValueError, "^where is on NUMA node 4095; this machine has nodes 0"),
    # ---- virtual memory
    (lambda w: w.virtual.allocate(-1), ValueError, "^size is -1; it must be from 0"),
    (lambda w: w.virtual.modify_allocation(w.mapped, -1), ValueError, "^new_size is -1; it must be from 0"),
    (lambda w: w.virtual.modify_allocation(w.mapped, 2**63), ValueError, "^new_size is 9223372036854775808"),
    (lambda w: w.virtual.modify_allocation(w.mapped, 1.0), TypeError, "^new_size must be an int"),
    (lambda w: w.virtual.modify_allocation(w.mapped, True), TypeError, "^new_size must be an int"),
    (lambda w: w.virtual.modify_allocation(3, 1), TypeError, "buf must be a Buffer, not int"),
    (lambda w: w.virtual.modify_allocation(w.buffer, 128), ValueError, "buf is of another memory resource"),
    (lambda w: w.virtual.modify_allocation(w.closed("mapped"), 1 << 30), ch.ClosedError, "closed"),
    (lambda w: w.virtual.deallocate(b"x", 1), TypeError, "ptr must be an int"),
    (lambda w: w.private.export_allocation(w.private.allocate(1)), RuntimeError, "handle_type=None, and cannot be"),
    (lambda w: pickle.dumps(w.private.allocate(1)), RuntimeError, "made with handle_type=None, and cannot be shared"),
    (lambda w: w.virtual.export_allocation(w.buffer), ValueError, "of another memory resource"),
    (lambda w: w.virtual.export_allocation(3), TypeError, "buf must be a Buffer, not int"),
    (lambda w: w.virtual.export_allocation(w.closed("mapped")), ch.ClosedError, "closed"),
    (lambda w: w.virtual.import_allocation(3), TypeError, "descriptor must be an IPCVirtualMemoryDescriptor, not int"),
    (lambda w: w.virtual.import_allocation(w.closed("exported")), ch.ClosedError, "closed"),
    (lambda w: w.closed("exported").descriptors, ch.ClosedError, "closed"),
    (lambda w: w.private.import_allocation(w.descriptor(None, [2 * w.mapped.size])), ch.CUDAError, "with their sizes"),
    (lambda w: IPCVirtualMemoryDescriptor([1], ()), ValueError, "1 descriptors and 0 sizes"),
    (lambda w: w.descriptor(["x"]), ValueError, "'x', which is not a file descriptor"),
    (lambda w: w.descriptor((-1,)), ValueError, "-1, which is not a file descriptor"),
    (lambda w: w.descriptor((1 << 30,)), OSError, "Bad file descriptor"),
    (lambda w: w.descriptor(None, None, 5, w.mapped.size), ValueError, "are not within"),
    (lambda w: w.descriptor(None, None, w.mapped.size + 1), ValueError, "are not within"),
    (lambda w: w.descriptor(None, (-1,)), ValueError, "sizes is -1"),
    # ---- adaptors
    (lambda w: ch.LimitingResourceAdaptor(w.pool, 0), ValueError, "allocation_limit"),
    (lambda w: ch.LimitingResourceAdaptor(w.pool, -1), ValueError, "allocation_limit"),
    (lambda w: ch.LimitingResourceAdaptor(w.pool, "1"), TypeError, "allocation_limit"),
    (lambda w: ch.FailureCallbackResourceAdaptor(w.pool, 1), TypeError, "callback must be callable"),
    (lambda w: ch.LoggingResourceAdaptor(w.pool, w.folder / "no" / "log.csv"), FileNotFoundError, r"log\.csv"),
    (lambda w: ch.LoggingResourceAdaptor(w.pool, f"{w.folder}/log\0.csv"), ValueError, "null"),
    (lambda w: ch.LoggingResourceAdaptor(w.pool, 1), TypeError, "log_file_name"),
    (lambda w: ch.LoggingResourceAdaptor(w.pool, w.folder), IsADirectoryError, "directory"),
    # ---- registered memory
    *(
        (lambda w, make=make: ch.register_host_memory(make(w)), error, message)
        for make, error, message in (
            (lambda w: np.zeros((4, 4))[:, ::2], ValueError, "not C-contiguous"),
            (lambda w: np.float64(1), TypeError, "NumPy scalar"),
            (lambda w: 7, TypeError, "array must be a Buffer, or an array"),
            (lambda w: np.array([object()]), TypeError, "Python objects"),
            (lambda w: w.buffer, ValueError, "CUDA allocated or registered"),
            (lambda w: w.pinned.view("int8"), ValueError, "CUDA allocated or registered"),
            (lambda w: np.ma.array([1.0, 2.0], mask=[True, False]), TypeError, "masked"),
        )
    ),
    (lambda w: ch.register_host_memory(np.zeros(4), read_only="yes"), TypeError, "read_only"),
    (lambda w: ch.register_host_memory(np.zeros(4), portable="yes"), TypeError, "portable"),
    (lambda w: ch.register_host_memory(np.zeros(4), mapped="yes"), TypeError, "mapped"),
    (lambda w: ch.register_host_memory(np.zeros(4), iomemory="yes"), TypeError, "iomemory"),
    (lambda w: ch.register_host_memory(b"abc", read_only=False), ValueError, "is read-only, and must be writable"),
    # ---- objects of OpenGL
    (lambda w: GraphicsResource(), RuntimeError, "GraphicsResource objects cannot be instantiated directly"),
    (lambda w: GraphicsResource.from_gl_buffer("1"), TypeError, "gl_buffer must be an int, as OpenGL gives it"),
    (lambda w: GraphicsResource.from_gl_buffer(-1), ValueError, "gl_buffer must be an int of 32 bits.*not -1"),
    (lambda w: GraphicsResource.from_gl_image(1.0, 1), TypeError, "image must be an int"),
    (lambda w: GraphicsResource.from_gl_image(1, 0), ValueError, "target must be what OpenGL calls the image's"),
    (lambda w: GraphicsResource.from_gl_buffer(1, flags="x"), ValueError, "Unknown register flag 'x'"),
    (lambda w: GraphicsResource.from_gl_buffer(1, flags=["none", "y"]), ValueError, "Unknown register flag 'y'"),
    (lambda w: GraphicsResource.from_gl_buffer(1, flags=3), TypeError, "flags must be a str, or a list"),
    (lambda w: GraphicsResource.from_gl_buffer(1, stream=3), TypeError, "Stream"),
]


@pytest.mark.parametrize(("call", "error", "message"), ROWS, ids=[f"{row[1].__name__}: {row[2]}" for row in ROWS])
def test_bad_arguments(
    device: ch.Device,
    stream: ch.Stream,
    tmp_path: Path,
    call: Callable[[World], Any],
    error: type[Exception],
    message: str,
) -> None:
    """The call would not be refused, or an object or a change of the contents would remain."""
    world = World(device, stream, tmp_path)
    with pytest.raises(error, match=message):
        call(world)
    before = ch.live_counts()
    with pytest.raises(error, match=message):
        call(world)
    assert ch.live_counts() == before
    if "buffer" in vars(world) and not world.buffer.is_closed:
        back = bytearray(SIZE)
        world.buffer.copy_to(back, stream=stream)
        assert back == bytes(range(SIZE))
