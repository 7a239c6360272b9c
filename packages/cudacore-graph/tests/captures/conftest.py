# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of captures."""

from __future__ import annotations

import pytest
from graph_tools import Numbers

import cudacore_handles as ch


@pytest.fixture
def numbers(device: ch.Device) -> Numbers:
    """Give 48 numbers in device memory."""
    return Numbers(48)
