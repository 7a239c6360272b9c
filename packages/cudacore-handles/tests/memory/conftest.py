# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import pytest

import cudacore_handles as ch


@pytest.fixture
def buffer(device: ch.Device, stream: ch.Stream) -> ch.Buffer:
    """Give 64 bytes of device memory, from 0 to 63."""
    made = device.allocate(64, stream=stream)
    source = ch.LegacyPinnedMemoryResource().allocate(64)
    source.__buffer__()[:] = bytes(range(64))
    made.copy_from(source, stream=stream)
    stream.sync()
    return made


@pytest.fixture
def content(stream: ch.Stream) -> Callable[[ch.Buffer], bytes]:
    """Give a function that reads the bytes of a buffer."""

    def read(buffer: ch.Buffer) -> bytes:
        copy = ch.LegacyPinnedMemoryResource().allocate(buffer.size)
        buffer.copy_to(copy, stream=stream)
        stream.sync()
        return bytes(copy.__buffer__())

    return read
