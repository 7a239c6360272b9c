# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of streams."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from foreign_objects import Gate

import cudacore_handles as ch


@pytest.fixture
def gate(stream: ch.Stream) -> Iterator[Gate]:
    """Give a gate on the stream, which is opened at the end of the test."""
    gate = Gate(stream)
    yield gate
    gate.open()
    stream.sync()
