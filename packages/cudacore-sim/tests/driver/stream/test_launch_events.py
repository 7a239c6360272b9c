# SPDX-License-Identifier: Apache-2.0
"""Events that cuLaunchKernelEx records."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from kernels import PTX
from structs import launch_configuration

INVALID_VALUE, INVALID_HANDLE = 1, 400
PROGRAMMATIC, COMPLETION = 7, 12
DISABLE_TIMING, INTERPROCESS = 2, 4


def launch(cuda: Any, kind: int, event: ctypes.c_void_p, flags: int = 0) -> int:
    """Launch a kernel that records an event; return the result code."""
    module = ctypes.c_void_p(cuda.out("cuModuleLoadData", PTX))
    function = ctypes.c_void_p(cuda.out("cuModuleGetFunction", module, b"empty"))
    handle = event.value or 0
    configuration = launch_configuration((kind, (handle & 0xFFFFFFFF, handle >> 32, flags)))
    return int(cuda.code("cuLaunchKernelEx", ctypes.byref(configuration), function, None, None))


@pytest.mark.parametrize("kind", [PROGRAMMATIC, COMPLETION])
def test_launch_events(cuda: Any, kind: int) -> None:
    """A launch would accept events that it cannot record, so that another process would wait for them forever."""
    event = cuda.event(DISABLE_TIMING)
    assert launch(cuda, kind, event) == 0
    cuda.cuEventSynchronize(event)
    assert launch(cuda, kind, event, flags=1) == INVALID_VALUE
    assert launch(cuda, kind, cuda.event()) == INVALID_VALUE
    assert launch(cuda, kind, cuda.event(DISABLE_TIMING | INTERPROCESS)) == INVALID_VALUE


def test_event_of_another_context(cuda: Any) -> None:
    """A launch would record an event that belongs to another context."""
    event = cuda.event(DISABLE_TIMING)
    other = ctypes.c_void_p(cuda.out("cuCtxCreate_v2", 0, 0))
    try:
        assert launch(cuda, COMPLETION, event) == INVALID_HANDLE
    finally:
        cuda.cuCtxDestroy_v2(other)
