# SPDX-License-Identifier: Apache-2.0
"""Copies whose source and destination overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch
from cudacore_handles import CopyOptions

Pinned = Callable[[int], ch.Buffer]
SIZE = 64


def bytes_of(offset: int, pitch: int, rows: int, part: tuple[int, int, int]) -> set[int]:
    width, height, depth = part
    return {offset + (k * rows + j) * pitch + i for k in range(depth) for j in range(height) for i in range(width)}


@pytest.mark.parametrize("seed", range(8))
def test_parts_that_overlap(stream: ch.Stream, pinned: Pinned, seed: int) -> None:
    """Parts of one buffer that overlap would be copied wrongly, or parts that do not overlap would be refused."""
    random, buffer, refused = np.random.default_rng(seed), pinned(512), 0
    memory = np.frombuffer(buffer.__buffer__(), np.uint8)
    for _ in range(60):
        part = width, height, depth = tuple(int(n) for n in random.integers(1, (9, 5, 4)))
        sides = [
            (int(random.integers(100)), width + int(random.integers(20)), height + int(random.integers(3)))
            for _ in range(2)
        ]
        if random.integers(2):
            sides[1] = (int(random.integers(100)), *sides[0][1:])
        (to, to_pitch, to_rows), (origin, pitch, rows) = sides
        written, read = (bytes_of(*side, part) for side in sides)
        if max(written | read) >= buffer.size:
            continue
        memory[:] = random.integers(0, 256, buffer.size)
        wanted = memory.copy()
        arguments: dict[str, Any] = {
            "width": width, "height": height, "depth": depth, "dst_offset": to, "dst_pitch": to_pitch,
            "dst_height": to_rows, "src_offset": origin, "src_pitch": pitch, "src_height": rows,
        }  # fmt: skip
        if written & read and sides[0] != sides[1]:
            refused += 1
            with pytest.raises(ValueError, match="overlap; copy through another allocation"):
                buffer.copy_part_from(buffer, stream=stream, **arguments)
        else:
            wanted[sorted(written)] = wanted[sorted(read)]
            buffer.copy_part_from(buffer, stream=stream, **arguments)
            stream.sync()
        assert np.array_equal(memory, wanted)
    assert refused > 5


def test_buffers_that_overlap(device: ch.Device, stream: ch.Stream, pinned: Pinned) -> None:
    """Parts of a buffer that overlap would be copied, and the destination would have wrong bytes."""
    for whole in (device.allocate(SIZE, stream=stream), pinned(SIZE)):
        for options in (None, CopyOptions()):
            with pytest.raises(ValueError, match="overlap"):
                whole[8:40].copy_to(whole[:32], stream=stream, options=options)
            with pytest.raises(ValueError, match="overlap"):
                whole[8:40].copy_from(whole[32:64], stream=stream, options=options)
            whole[:32].copy_to(whole[32:], stream=stream, options=options)
            whole.copy_to(whole, stream=stream, options=options)
            whole.copy_part_from(whole, width=2, height=3, dst_pitch=4, src_pitch=4, stream=stream)


def test_batches_that_overlap(stream: ch.Stream, pinned: Pinned) -> None:
    """A batch would copy to memory that it reads or writes elsewhere, in an order that is not defined."""
    whole, other = pinned(SIZE), pinned(SIZE)
    parts, others = ([memory[i : i + 16] for i in range(0, SIZE, 16)] for memory in (whole, other))
    ch.copy_batch(stream, parts, others[::-1])
    ch.copy_batch(stream, parts[:2], parts[2:])
    ch.copy_batch(stream, [parts[0], parts[0]], parts[1:3])
    empty = whole[:0]
    for sources, targets, message in (
        (parts[:2], parts[1:3], "copies 0 and 1 overlap: one writes bytes that the other reads"),
        (parts[1:3], parts[:2], "copies 1 and 0 overlap"),
        (parts[:2], [others[3], others[3]], "copies 0 and 1 overlap: they write the same"),
        ([empty, *parts[:2]], [empty, *parts[1:3]], "copies 1 and 2 overlap"),
        ([parts[0]], [whole[8:24]], "the source at .* overlap; copy through"),
    ):
        with pytest.raises(ValueError, match=message):
            ch.copy_batch(stream, sources, targets)
