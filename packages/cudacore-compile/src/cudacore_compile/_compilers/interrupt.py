# SPDX-License-Identifier: Apache-2.0
"""Runs long calls of a compiler so that signals can interrupt them."""

from __future__ import annotations

from collections.abc import Callable

from cudacore_handles import CUDAError
from cudacore_handles._sdk.compile import call_interruptibly

_Work = Callable[[], None]


def run_interruptibly(work: _Work, cancel: _Work) -> None:
    """Call a function; if a signal handler raises an exception meanwhile, cancel the function and raise that exception.

    Python handles signals on the main thread, between two bytecodes, so Ctrl-C would wait for a call in C. If the
    caller is the main thread, `work` therefore runs on another thread (``call_interruptibly``).

    The function that NVRTC calls while it compiles (nvrtcSetFlowCallback) is not called often enough to check for
    signals there. NVRTC 13.5 does not call it for 3 seconds while it compiles a kernel with 4,096 inlined calls, nor
    for 2 minutes while it compiles a kernel of 1,500 long lines. NVRTC 12.9 does not call it in the second half of a
    compilation of 2 seconds.

    Parameters
    ----------
    work : callable
        The call in C. After an exception it can still run, so it must own what it uses. The interpreter waits for it
        before it exits.
    cancel : callable
        Ends `work` soon, even if it has not begun. It does nothing if `work` cannot be ended.
    """
    try:
        call_interruptibly(work)
    except CUDAError:  # the exception of `work` itself
        raise
    except BaseException:
        cancel()
        raise
