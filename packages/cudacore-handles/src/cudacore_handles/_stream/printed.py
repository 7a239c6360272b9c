# SPDX-License-Identifier: Apache-2.0
"""Output of printf in kernels, for programs whose ``sys.stdout`` is not file descriptor 1, such as notebooks."""

from __future__ import annotations

import atexit
import sys

from cudacore_handles._base.errors import check
from cudacore_handles._base.options import as_flag
from cudacore_handles._cffi import ffi, lib

_chosen = False  # whether the program has called set_printf_to_stdout()
_SIZE = 65_536


def set_printf_to_stdout(enabled: bool) -> bool:
    """Choose where ``printf`` in kernels writes: to ``sys.stdout`` of Python, or to file descriptor 1 of the process.

    The driver writes to file descriptor 1. In a notebook, that is not the output of the cell. With `enabled`, the
    output is collected, and written to ``sys.stdout`` at the end of the next wait of this library, such as
    :meth:`Stream.sync`. To collect it, launches, waits, and calls that allocate or free memory replace the descriptor
    while the driver is called. What other threads write to the descriptor in that time is collected, too, and so is
    the output of a process that they start in that time: give it a standard output of its own (``stdout=``).

    Parameters
    ----------
    enabled : bool
        Whether the output goes to ``sys.stdout``. If this function was not called, it does so in IPython, unless
        ``sys.stdout`` is file descriptor 1.

    Returns
    -------
    bool
        The previous setting.

    Examples
    --------
    >>> previous = core.set_printf_to_stdout(True)
    >>> core.set_printf_to_stdout(previous)
    True
    """
    global _chosen
    enabled = as_flag("enabled", enabled)
    _chosen = True
    return _collect(enabled)


def collect_in_notebooks() -> None:
    """Collect the output from now on if this is a notebook, and the program has not chosen."""
    if not _chosen and _is_notebook():
        _collect(True)


def _collect(enabled: bool) -> bool:
    previous = bool(lib.cch_printed_is_collected())
    if enabled != previous:
        check(lib.cch_printed_collect(enabled))
        show_printed()
        atexit.unregister(show_printed)
        if enabled:
            atexit.register(show_printed)
    return previous


def _is_notebook() -> bool:
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if get_ipython is None or get_ipython() is None:
        return False
    try:
        return sys.stdout.fileno() != 1
    except (AttributeError, OSError, ValueError):  # it has no descriptor
        return True


def show_printed() -> None:
    """Write the output that was collected to ``sys.stdout``."""
    buffer, count = ffi.new("char[]", _SIZE), ffi.new("size_t *")
    parts = []
    while lib.cch_printed_read(count, buffer, _SIZE) == 0 and count[0]:
        parts.append(bytes(ffi.buffer(buffer, count[0])))
    if parts and sys.stdout is not None:
        sys.stdout.write(b"".join(parts).decode("utf-8", "replace"))
        sys.stdout.flush()
