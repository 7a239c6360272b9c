# SPDX-License-Identifier: Apache-2.0
"""Queries of the atomics that the link to the host supports itself."""

from __future__ import annotations

from ctypes import c_int, c_uint
from typing import Any

import pytest

INVALID_VALUE, INVALID_DEVICE, OPERATIONS, NATIVE = 1, 101, 13, 86  # 86: ..._HOST_NATIVE_ATOMIC_SUPPORTED


def test_atomics_of_the_host(cuda: Any) -> None:
    """The query would fail, or contradict the attribute of the device."""
    out = (c_uint * OPERATIONS)(*[77] * OPERATIONS)
    cuda.cuDeviceGetHostAtomicCapabilities(out, (c_int * OPERATIONS)(*range(OPERATIONS)), OPERATIONS, 0)
    assert any(out) == bool(cuda.out("cuDeviceGetAttribute", NATIVE, 0, kind=c_int))


@pytest.mark.parametrize(
    ("operation", "count", "device", "code"),
    [
        (0, 0, 0, INVALID_VALUE),
        (OPERATIONS, 1, 0, INVALID_VALUE),
        (-1, 1, 0, INVALID_VALUE),
        (0, 1, 99, INVALID_DEVICE),
    ],
)
def test_wrong_queries(cuda: Any, operation: int, count: int, device: int, code: int) -> None:
    """A wrong query would be answered."""
    assert cuda.code("cuDeviceGetHostAtomicCapabilities", (c_uint * 1)(), (c_int * 1)(operation), count, device) == code
    assert cuda.code("cuDeviceGetHostAtomicCapabilities", None, (c_int * 1)(0), 1, 0) == INVALID_VALUE
