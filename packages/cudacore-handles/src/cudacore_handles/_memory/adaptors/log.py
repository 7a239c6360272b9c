# SPDX-License-Identifier: Apache-2.0
"""An adaptor that writes a log."""

from __future__ import annotations

import os
import weakref

from cudacore_handles._base.errors import CUDAError, check
from cudacore_handles._base.handle import hold
from cudacore_handles._base.module_attributes import public
from cudacore_handles._cffi import lib
from cudacore_handles._memory.adaptors.base import ResourceAdaptor, Tracker, new_tracker
from cudacore_handles._memory.resource import MemoryResource


@public
class LoggingResourceAdaptor(ResourceAdaptor):
    """A memory resource that writes the allocations and frees of another one to a file, as RMM does.

    The file has lines of comma-separated values under the header ``Thread,Time,Action,Pointer,Size,Stream``: the number
    of the thread, the local time with microseconds, ``allocate``, ``free`` or ``allocate failure``, the address, the
    number of bytes, and the handle of the stream. Lines are appended to the file. They are written when many have
    accumulated, by :meth:`flush`, when the adaptor and its buffers no longer exist, and when the interpreter ends.

    Parameters
    ----------
    upstream_mr : MemoryResource
        The resource to allocate from.
    log_file_name : str or os.PathLike
        The file. It is created if it does not exist. Several adaptors can write to one file.

    Raises
    ------
    OSError
        If the file cannot be opened.
    """

    def __init__(self, upstream_mr: MemoryResource, log_file_name: str | os.PathLike[str]) -> None:
        if not isinstance(log_file_name, (str, os.PathLike)):
            raise TypeError(f"log_file_name must be a str or a path, not {type(log_file_name).__name__}")
        self._file_name = os.path.abspath(os.fspath(log_file_name))
        with open(self._file_name, "ab"):  # raises an OSError if the file cannot be written
            pass
        self._tracker = new_tracker(log=os.fsencode(self._file_name))
        super().__init__(upstream_mr, self._tracker)
        weakref.finalize(self, _flush_at_end, self._tracker)

    @property
    def file_name(self) -> str:
        """str: The absolute path of the file."""
        return self._file_name

    def flush(self) -> None:
        """Write all lines to the file."""
        check(lib.cch_tracker_flush(hold(self._tracker)))


def _flush_at_end(tracker: Tracker) -> None:
    try:
        check(lib.cch_tracker_flush(hold(tracker)))
    except CUDAError:  # no caller is left to whom the error could be reported
        pass
