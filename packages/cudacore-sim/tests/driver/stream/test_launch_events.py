# SPDX-License-Identifier: Apache-2.0
"""Events that cuLaunchKernelEx records."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from kernels import PTX

INVALID_VALUE, INVALID_HANDLE = 1, 400
PROGRAMMATIC, COMPLETION = 7, 12
DISABLE_TIMING, INTERPROCESS = 2, 4


class Attribute(ctypes.Structure):
    """CUlaunchAttribute of an event."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("event", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("rest", ctypes.c_ubyte * 52),
    )


class Configuration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("sizes", ctypes.c_uint * 6),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    )


def launch(cuda: Any, kind: int, event: ctypes.c_void_p, flags: int = 0) -> int:
    """Launch a kernel that records an event; return the result."""
    module = ctypes.c_void_p(cuda.out("cuModuleLoadData", PTX))
    function = ctypes.c_void_p(cuda.out("cuModuleGetFunction", module, b"empty"))
    attribute = Attribute(kind, 0, event, flags)
    configuration = Configuration((1, 1, 1, 1, 1, 1), 0, None, ctypes.pointer(attribute), 1)
    return int(cuda.code("cuLaunchKernelEx", ctypes.byref(configuration), function, None, None))


@pytest.mark.parametrize("kind", [PROGRAMMATIC, COMPLETION])
def test_launch_events(cuda: Any, kind: int) -> None:
    """Events that no launch can record would be accepted, so that another process waits for them forever."""
    event = cuda.event(DISABLE_TIMING)
    assert launch(cuda, kind, event) == 0
    cuda.cuEventSynchronize(event)
    assert launch(cuda, kind, event, flags=1) == INVALID_VALUE
    assert launch(cuda, kind, cuda.event()) == INVALID_VALUE
    assert launch(cuda, kind, cuda.event(DISABLE_TIMING | INTERPROCESS)) == INVALID_VALUE


def test_event_of_another_context(cuda: Any) -> None:
    """An event would be recorded by work of a context that it does not belong to."""
    event = cuda.event(DISABLE_TIMING)
    other = ctypes.c_void_p(cuda.out("cuCtxCreate_v2", 0, 0))
    try:
        assert launch(cuda, COMPLETION, event) == INVALID_HANDLE
    finally:
        cuda.cuCtxDestroy_v2(other)
