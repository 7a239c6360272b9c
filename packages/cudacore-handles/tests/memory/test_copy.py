# SPDX-License-Identifier: Apache-2.0
"""Options of copies, batches, copies of parts of buffers, and memory of every kind. More tests: test_buffer_copy.py."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch
from cudacore_handles import CopyOptions, Host, MemcpyOverlapMode, MemcpySrcAccessOrder
from pytest_cudacore import driver_version

Pinned = Callable[[int], ch.Buffer]
SIZE = 64


@pytest.fixture
def sources(pinned: Pinned) -> list[ch.Buffer]:
    """Give three buffers, filled with ones, twos and threes."""
    made = [pinned(SIZE) for _ in range(3)]
    for i, buffer in enumerate(made):
        buffer.__buffer__()[:] = bytes([i + 1]) * SIZE
    return made


def first_bytes(buffers: list[ch.Buffer], stream: ch.Stream) -> list[int]:
    stream.sync()
    return [buffer.__buffer__()[0] for buffer in buffers]


# ---- options


def test_options() -> None:
    """Options would be mixed up, or strings be converted to the wrong enumeration members."""
    default = CopyOptions()
    assert default == CopyOptions("stream", overlap_mode="default")
    assert default.src_access_order is MemcpySrcAccessOrder.STREAM
    made = CopyOptions(src_access_order="any", overlap_mode="prefer_overlap_with_compute", src_location_hint=Host())
    assert made.src_access_order is MemcpySrcAccessOrder.ANY
    assert made.overlap_mode is MemcpyOverlapMode.PREFER_OVERLAP_WITH_COMPUTE
    assert f"{made.src_access_order}" == "any"
    with pytest.raises(AttributeError):
        made.overlap_mode = "default"  # type: ignore[misc]


@pytest.mark.parametrize("order", list(MemcpySrcAccessOrder))
def test_a_copy_with_options(
    device: ch.Device, stream: ch.Stream, sources: list[ch.Buffer], pinned: Pinned, order: MemcpySrcAccessOrder
) -> None:
    """A copy with options would not be made, or would copy wrong bytes, for example on a default stream."""
    for on, hint in itertools.product((stream, ch.LEGACY_DEFAULT_STREAM, ch.PER_THREAD_DEFAULT_STREAM), (None, device)):
        options = CopyOptions(order, src_location_hint=Host(), dst_location_hint=hint)
        out = pinned(SIZE)
        assert sources[1].copy_to(out, stream=on, options=options) is out
        assert first_bytes([out], on) == [2]
        out.copy_from(sources[2], stream=on, options=options)
        assert first_bytes([out], on) == [3]
        copied = sources[0].copy_to(stream=on, options=options)
        assert first_bytes([copied], on) == [1]
        array = np.zeros(SIZE, np.uint8)
        sources[1].copy_to(array, stream=on, options=options)
        assert array[-1] == 2
        out.copy_from(np.full(SIZE, 9, np.uint8), stream=on, options=options)
        assert first_bytes([out], on) == [9]


@pytest.mark.parametrize(
    "batch", [pytest.param(True, marks=pytest.mark.cuda_gpu), False]
)  # the simulated driver reads the source of a batch only when the copy runs
def test_a_source_that_changes_after_the_call(stream: ch.Stream, pinned: Pinned, batch: bool) -> None:
    """A source would be read after the call, when its memory may already be used for something else."""
    source, out = pinned(1 << 16), pinned(1 << 16)
    on = stream if batch else ch.LEGACY_DEFAULT_STREAM
    view = source.__buffer__()
    for value in range(1, 6):
        view[:] = bytes([value]) * len(view)
        out.copy_from(source, stream=on, options=CopyOptions("during_api_call"))
        view[:] = bytes(len(view))
        on.sync()
        assert bytes(out.__buffer__()) == bytes([value]) * len(view)
    view.release()


# ---- batches


def test_batch(device: ch.Device, stream: ch.Stream, sources: list[ch.Buffer], pinned: Pinned) -> None:
    """A buffer of a batch would be copied to the wrong destination, or not at all."""
    middle = [device.allocate(SIZE, stream=stream) for _ in sources]
    out = [pinned(SIZE) for _ in sources]
    streams = [stream, ch.PER_THREAD_DEFAULT_STREAM, ch.LEGACY_DEFAULT_STREAM]
    if driver_version() >= (12, 5):
        # A driver for CUDA 13.0 ends the process if it copies a batch on a stream of a green context.
        (group,), _ = device.resources.sm.split(ch.SMResourceOptions(count=16))
        streams.append(device.create_context(ch.ContextOptions([group])).create_stream())
    for on in streams:
        ch.copy_batch(on, sources, middle)
        ch.copy_batch(on, tuple(middle), out)
        assert first_bytes(out, on) == [1, 2, 3]
        ch.copy_batch(on, sources, out[::-1], options=CopyOptions("any"))
        assert first_bytes(out, on) == [3, 2, 1]
        ch.copy_batch(on, sources, out, options=[CopyOptions(order) for order in MemcpySrcAccessOrder])
        assert first_bytes(out, on) == [1, 2, 3]
        for buffer in out:
            buffer.fill(0, stream=on)
        on.sync()


def test_a_batch_in_stream_order(device: ch.Device, stream: ch.Stream, pinned: Pinned) -> None:
    """A batch would begin before earlier work is done, or later work would begin before the batch is done."""
    middle, out = device.allocate(1 << 20, stream=stream), pinned(1 << 20)
    for value in range(1, 6):
        middle.fill(value, stream=stream)
        ch.copy_batch(stream, [middle], [out])
        middle.fill(0, stream=stream)
        stream.sync()
        assert set(bytes(out.__buffer__())) == {value}


def test_empty_buffers_in_a_batch(stream: ch.Stream, sources: list[ch.Buffer], pinned: Pinned) -> None:
    """A buffer without memory would make the driver refuse the batch."""
    mr, out = ch.LegacyPinnedMemoryResource(), pinned(SIZE)
    ch.copy_batch(stream, [mr.allocate(0), sources[1], mr.allocate(0)], [mr.allocate(0), out, mr.allocate(0)])
    ch.copy_batch(stream, [mr.allocate(0)], [mr.allocate(0)])
    assert first_bytes([out], stream) == [2]


@pytest.mark.cuda_sim
@pytest.mark.needs_driver("12.8", "copies in batches")
def test_a_batch_is_one_call(device: ch.Device, stream: ch.Stream, sources: list[ch.Buffer], pinned: Pinned) -> None:
    """A batch would make one driver call for each copy."""
    import cudacore_sim as sim

    out = [pinned(SIZE) for _ in sources]
    with sim.logging() as made:
        ch.copy_batch(stream, sources, out, options=[CopyOptions(), CopyOptions(), CopyOptions("any")])
    assert [call.name for call in made if call.name.startswith("cuMemcpy")] in (
        ["cuMemcpyBatchAsync"],
        ["cuMemcpyBatchAsync_v2"],
    )
    stream.sync()
    with sim.logging() as made:
        ch.copy_batch(ch.LEGACY_DEFAULT_STREAM, sources, out)
    assert [call.name for call in made if call.name.startswith("cuMemcpy")] == ["cuMemcpyAsync"] * 3
    device.sync()


@pytest.mark.cuda_sim
@pytest.mark.parametrize(("version", "calls"), [("12.9", "cuMemcpyBatchAsync"), ("12.4", "cuMemcpyAsync")])
def test_older_drivers(run_on_sim: Callable[..., str], version: str, calls: str) -> None:
    """On a driver without batches, nothing would be copied; or a driver for CUDA 12 would get CUDA 13's arguments."""
    out = run_on_sim(
        """
        import cudacore_handles as ch
        device = ch.Device(0)
        device.set_current()
        stream, mr = device.create_stream(), ch.LegacyPinnedMemoryResource()
        sources, out = ([mr.allocate(64) for _ in range(3)] for _ in range(2))
        for i, buffer in enumerate(sources):
            buffer.__buffer__()[:] = bytes([i + 1]) * 64
        with sim.logging() as made:
            ch.copy_batch(stream, sources, out, options=ch.CopyOptions("during_api_call"))
        print(*{call.name for call in made if call.name.startswith("cuMemcpy")})
        stream.sync()
        print([buffer.__buffer__()[63] for buffer in out])
        """,
        CUDACORE_SIM_DRIVER_VERSION=version,
    )
    assert out.splitlines() == [calls, "[1, 2, 3]"]


# ---- parts


def test_parts(device: ch.Device, stream: ch.Stream, pinned: Pinned) -> None:
    """A part would be read from, or written to, a wrong place."""
    shape = (4, 6, 8)
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    source, out = device.allocate(array.nbytes, stream=stream), pinned(array.nbytes)
    source.copy_from(array, stream=stream)
    # A copy in two dimensions: a window of a plane.
    out.copy_part_from(source, 3, height=2, src_offset=8 + 2, src_pitch=8, dst_offset=5, dst_pitch=10, stream=stream)
    stream.sync()
    view = np.frombuffer(out.__buffer__(), np.uint8)
    assert (view[5:8] == array[0, 1, 2:5]).all()
    assert (view[15:18] == array[0, 2, 2:5]).all()
    assert view.sum() == int(array[0, 1:3, 2:5].sum())
    # A copy in three dimensions, to adjacent rows.
    offset = array[1, 2, 3:].ctypes.data - array.ctypes.data
    out.copy_part_from(
        source, 4, height=3, depth=2, src_offset=offset, src_pitch=8, src_height=6, dst_offset=0, stream=stream
    )
    stream.sync()
    assert (view[:24].reshape(2, 3, 4) == array[1:3, 2:5, 3:7]).all()
    out.copy_part_from(source, array.nbytes, stream=stream)
    stream.sync()
    assert (view == array.ravel()).all()
    # These copies need no pitch or no height. The driver would refuse the given values if they were passed on.
    view[:] = 0
    for pitch, height in ((0, 0), (1, 1), (2**63 - 1, 2**63 - 1)):
        out.copy_part_from(source, 4, src_pitch=pitch, dst_pitch=pitch, src_height=height, stream=stream)
        out.copy_part_from(source, 4, height=2, src_pitch=8, dst_height=height, stream=stream)
    stream.sync()
    assert view[:8].tolist() == [0, 1, 2, 3, 8, 9, 10, 11]


# ---- between devices


def read_back(buffer: ch.Buffer, stream: ch.Stream) -> Any:
    """Return the bytes of a buffer on the device of the stream."""
    out = np.zeros(buffer.size, np.uint8)
    buffer.copy_to(out, stream=stream)
    return out


@pytest.mark.cuda_sim
@pytest.mark.needs_driver("12.8", "copies in batches")
def test_between_memory_that_any_device_copies(device: ch.Device, other_device: ch.Device, pinned: Pinned) -> None:
    """A copy within one device would use the slower driver function for two contexts."""
    sim = pytest.importorskip("cudacore_sim", reason="needs cudacore-sim")
    stream = device.create_stream()
    made = device.allocate(SIZE, stream=stream)
    with sim.logging() as calls:
        made.copy_from(pinned(SIZE), stream=stream)
        made.copy_part_from(pinned(SIZE), SIZE, stream=stream)
        ch.copy_batch(stream, [made], [pinned(SIZE)])
    names = [call.name.removesuffix("_v2") for call in calls if call.name.startswith("cuMemcpy")]
    assert names == ["cuMemcpyAsync", "cuMemcpy3DAsync", "cuMemcpyBatchAsync"]
    stream.sync()


def test_between_devices_in_a_capture(device: ch.Device, other_device: ch.Device) -> None:
    """If CUDA cannot capture a copy because a device lacks access to memory, the error would not say so."""
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    stream, other_stream = device.create_stream(), other_device.create_stream()
    here = ch.DeviceMemoryResource(device, {}).allocate(SIZE, stream=stream)
    there = ch.DeviceMemoryResource(other_device, {}).allocate(SIZE, stream=other_stream)
    other_stream.sync()
    builder = stream.create_graph_builder()
    builder.begin_building()
    for copy in (
        lambda: there.copy_from(here, stream=builder),
        lambda: there.copy_part_from(here, 4, height=2, dst_pitch=8, src_pitch=8, stream=builder),
        lambda: ch.copy_batch(builder, [here], [there]),
    ):
        with pytest.raises(ch.CUDAError, match=r"CUDA_ERROR_INVALID_VALUE.*graph.*access.*peer_accessible_by"):
            copy()
    here.fill(5, stream=builder)
    graph = builder.end_building().complete()
    graph.launch(stream)
    assert (read_back(here, stream) == 5).all()
