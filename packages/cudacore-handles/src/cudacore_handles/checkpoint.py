# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of the GPU state of processes."""

from __future__ import annotations

import gc
import os
import string
import warnings
from collections.abc import Mapping
from typing import Any

from cudacore_handles._base import results
from cudacore_handles._base.address import check_int
from cudacore_handles._base.driver_calls import driver_status, need_driver
from cudacore_handles._base.errors import CUDAError, last_error
from cudacore_handles._base.handle import address
from cudacore_handles._base.module_attributes import finish_module as _finish_module
from cudacore_handles._cffi import ffi, lib
from cudacore_handles.typing import ProcessStateType

__all__ = ["Process"]

_finish_module(globals())


_STATES = tuple(ProcessStateType)  # in the order of CUprocessState
_MAX_TIMEOUT = 2**32 - 1
# CUcheckpointLockArgs begins with the timeout, CUcheckpointRestoreArgs with the address of pairs and their number.
_ARGUMENTS = "uint64_t[8]"
_ORDER = "A running process is locked, checkpointed, restored and unlocked, in this order"
_BUSY = (
    "Work that it submitted is still running. Wait longer (timeout_ms=0: as long as it takes), or lock the process "
    "when it has less to do"
)

_IS_CALLER = (
    "this process locks itself: from now on, every call of CUDA waits for ever, on all threads and in destructors, "
    "until unlock() or another process unlocks it; lock it from another process, or use nothing of CUDA in between"
)


class Process:
    """A process that uses CUDA, whose GPU state can be saved and restored.

    The process is locked, checkpointed, restored and unlocked, in this order, usually by another process. While it is
    locked, its CUDA calls wait. A checkpoint copies its GPU memory to the memory of the host and releases the GPU, so
    that others can use it. Restored memory has its old addresses, so pointers, streams and graphs of the process remain
    valid.

    Needs a driver for CUDA 12.8 or newer, and permission to access the process: it must belong to the same user.

    Parameters
    ----------
    pid : int
        The process id. The first call checks whether the process exists and uses CUDA.

    Raises
    ------
    ValueError
        If `pid` is not a valid process id.
    """

    __slots__ = ("_pid",)
    _pid: int

    def __init__(self, pid: int) -> None:
        number = check_int("pid", pid, "an int, the id of a process")
        if not 0 < number < 2**31:
            raise ValueError(f"pid must be a positive int of 31 bits, the id of a process, not {number}")
        self._pid = number

    def __repr__(self) -> str:
        return f"<Process {self._pid}>"

    def __hash__(self) -> int:
        return hash((Process, self._pid))

    def __eq__(self, other: object) -> bool:
        return self._pid == other._pid if isinstance(other, Process) else NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return Process, (self._pid,)

    @property
    def pid(self) -> int:
        """int: the process id."""
        return self._pid

    @property
    def state(self) -> ProcessStateType:
        """ProcessStateType: The state of the process (cuCheckpointProcessGetState)."""
        return _STATES[self._get("cuCheckpointProcessGetState")]

    @property
    def restore_thread_id(self) -> int:
        """int: The id of the thread that restores the process (cuCheckpointProcessGetRestoreThreadId).

        Programs that save the memory of the host, such as CRIU, need this id.
        """
        return self._get("cuCheckpointProcessGetRestoreThreadId")

    def lock(self, timeout_ms: int = 0) -> None:
        """Lock the process: from then on, its CUDA calls wait (cuCheckpointProcessLock).

        The call returns when the work that the process has submitted is done.

        A process that locks itself must not use CUDA before :meth:`unlock`, on any thread, not even by dropping an
        object of CUDA: the next call would wait for ever. Therefore there is a warning, and garbage is collected first.

        Parameters
        ----------
        timeout_ms : int, optional
            How long to wait for that work, in milliseconds. Default 0: as long as it takes.

        Raises
        ------
        CUDAError
            When the process is not running, or its work took longer (``CUDA_ERROR_NOT_READY``). In the latter case, the
            process continues to run.
        ValueError
            If `timeout_ms` is out of range.

        Warns
        -----
        RuntimeWarning
            If it is the calling process.
        """
        timeout = check_int("timeout_ms", timeout_ms, "an int, in milliseconds")
        if not 0 <= timeout <= _MAX_TIMEOUT:
            raise ValueError(f"timeout_ms must be from 0 (no limit) to {_MAX_TIMEOUT}, not {timeout}")
        if self._pid == os.getpid():
            warnings.warn(_IS_CALLER, RuntimeWarning, stacklevel=2)
            gc.collect()
        status = driver_status("cuCheckpointProcessLock", self._pid, ffi.new(_ARGUMENTS, [timeout]))
        if status == lib.CCH_NOT_READY:
            meaning = f"process {self._pid} was not locked within {timeout} ms, and runs on"
            raise CUDAError("cuCheckpointProcessLock", status, "CUDA_ERROR_NOT_READY", meaning, hint=_BUSY)
        self._check(status)

    def checkpoint(self) -> None:
        """Copy the GPU memory of the locked process to the host, and release its GPUs (cuCheckpointProcessCheckpoint).

        Raises
        ------
        CUDAError
            When the process is not locked.
        """
        self._check(driver_status("cuCheckpointProcessCheckpoint", self._pid, 0))

    def restore(self, gpu_mapping: Mapping[Any, Any] | None = None) -> None:
        """Restore the GPU state of the checkpointed process, and leave it locked (cuCheckpointProcessRestore).

        Parameters
        ----------
        gpu_mapping : mapping, optional
            For each GPU of the machine on which the process was checkpointed, the GPU that takes its place: each a
            :class:`~cudacore_handles.Device`, a UUID as text, or an object with the 16 ``bytes`` of a UUID, such as
            `uuid.UUID` and ``CUuuid``. The mapping must have all GPUs of the driver, including those that
            ``CUDA_VISIBLE_DEVICES`` hides. The new GPU must be of the same type. Needs a driver for CUDA 13.0. Default:
            the same GPUs.

        Raises
        ------
        CUDAError
            When the process is not checkpointed, or the driver refuses the mapping.
        """
        pairs = b"" if gpu_mapping is None else _uuids_of(gpu_mapping)
        if pairs:
            need_driver(13000, "cuCheckpointProcessRestore", "Older ones restore to the same GPUs: omit gpu_mapping")
        uuids = ffi.from_buffer(pairs)
        mapping = ffi.new(_ARGUMENTS, [address(uuids), len(pairs) // 32]) if pairs else ffi.NULL
        self._check(driver_status("cuCheckpointProcessRestore", self._pid, mapping))

    def unlock(self) -> None:
        """Let the locked process run (cuCheckpointProcessUnlock).

        Raises
        ------
        CUDAError
            When the process is not locked.
        """
        self._check(driver_status("cuCheckpointProcessUnlock", self._pid, 0))

    def _get(self, function: str) -> int:
        out = ffi.new("int *")
        self._check(driver_status(function, self._pid, out))
        return int(out[0])

    def _check(self, status: int) -> None:
        if status:
            raise last_error(status, self._hint(status))

    def _hint(self, status: int) -> str:
        """Return the hint for a call that the driver refused."""
        if status == results.NOT_INITIALIZED:
            return f"Process {self._pid} does not use CUDA: it has not initialised the driver"
        if status == results.OPERATING_SYSTEM:
            return f"There is no process {self._pid}, or it belongs to another user"
        if status != results.ILLEGAL_STATE:
            return ""
        out = ffi.new("int *")
        if driver_status("cuCheckpointProcessGetState", self._pid, out):
            return _ORDER
        return f"The process is {_STATES[out[0]]}. {_ORDER}"


def _uuids_of(mapping: Mapping[Any, Any]) -> bytes:
    """Return the pairs of UUIDs of a mapping of devices."""
    if not isinstance(mapping, Mapping):
        raise TypeError(f"gpu_mapping must be a mapping of old devices to new ones, not {type(mapping).__name__}")
    pairs = [(_uuid_of(old), _uuid_of(new)) for old, new in mapping.items()]
    if len({old for old, _ in pairs}) < len(pairs):
        raise ValueError("gpu_mapping has the same old device twice, spelled differently: each can have one new device")
    return b"".join(old + new for old, new in pairs)


def _uuid_of(device: Any) -> bytes:
    """Return the 16 bytes of a device's UUID."""
    given = getattr(device, "uuid", device)
    if isinstance(given, str):
        digits = given.removeprefix("GPU-").replace("-", "")
        if len(digits) == 32 and set(digits) <= set(string.hexdigits):
            return bytes.fromhex(digits)
        raise ValueError(f"gpu_mapping must have UUIDs of devices, 32 hexadecimal digits; {given!r} is not one")
    given = getattr(given, "bytes", None)
    if isinstance(given, (bytes, bytearray)) and len(given) == 16:
        return bytes(given)
    raise TypeError(f"gpu_mapping must have devices or their UUIDs, not {type(device).__name__}")
