# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of views."""

from __future__ import annotations

from collections.abc import Iterator

import dlpack_producers
import pytest

from cudacore_handles import Buffer, Device, Stream, StridedMemoryView


@pytest.fixture
def buffer(device: Device, stream: Stream) -> Iterator[Buffer]:
    """Give 64 bytes of device memory."""
    buffer = device.allocate(64, stream=stream)
    yield buffer
    buffer.close()


@pytest.fixture
def producer_stream(device: Device) -> Iterator[Stream]:
    """Give the stream that arrays with the C exchange API report."""
    stream = device.create_stream()
    dlpack_producers.current_stream = int(stream.handle)
    yield stream
    dlpack_producers.current_stream = 0


@pytest.fixture
def api() -> dlpack_producers.ExchangeAPI:
    """Give our C exchange API, looked up as other libraries do."""
    assert Buffer.__dlpack_c_exchange_api__ is StridedMemoryView.__dlpack_c_exchange_api__
    address = dlpack_producers.get_pointer(StridedMemoryView.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    return dlpack_producers.ExchangeAPI.from_address(address)
