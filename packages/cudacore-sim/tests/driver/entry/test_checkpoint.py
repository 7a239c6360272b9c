# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: calls that wait in a locked process, and work that is in progress when a process is locked."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import cudacore_sim as sim

RUNNING, LOCKED, CHECKPOINTED = 0, 1, 2
INVALID_VALUE, NOT_INITIALIZED, OPERATING_SYSTEM = 1, 3, 304
ILLEGAL_STATE, NOT_READY, NOT_SUPPORTED = 401, 600, 801
SELF = os.getpid()


class LockArgs(ctypes.Structure):
    _fields_ = [("timeout", ctypes.c_uint), ("reserved", ctypes.c_uint), ("more", ctypes.c_uint64 * 7)]


def lock(cuda: Any, timeout: int, pid: int = SELF) -> int:
    return int(cuda.code("cuCheckpointProcessLock", pid, ctypes.byref(LockArgs(timeout))))


def state(cuda: Any, pid: int = SELF) -> int:
    value = ctypes.c_int(77)
    cuda.cuCheckpointProcessGetState(pid, ctypes.byref(value))
    return value.value


@pytest.fixture(autouse=True)
def _runs_at_the_end(cuda: Any) -> Iterator[None]:
    """Unlock the process after each test. In a locked process, all later tests would wait."""
    yield
    cuda.code("cuCheckpointProcessRestore", SELF, None)
    cuda.code("cuCheckpointProcessUnlock", SELF, None)


@pytest.fixture
def locked(cuda: Any) -> Any:
    """Lock this process, and return the driver."""
    assert lock(cuda, 1000) == 0
    return cuda


@contextlib.contextmanager
def in_thread(function: Callable[[], object]) -> Iterator[threading.Event]:
    """Run a function on another thread. Yield an event that is set when it returns, which it must do in time."""
    done = threading.Event()
    thread = threading.Thread(target=lambda: (function(), done.set()))
    thread.start()
    yield done
    thread.join(20)
    assert done.is_set()


def test_calls_wait(locked: Any) -> None:
    """Calls in a locked process would not wait."""
    with in_thread(lambda: locked.code("cuStreamSynchronize", None)) as done:
        assert not done.wait(0.05)
        locked.cuCheckpointProcessCheckpoint(SELF, None)
        assert not done.wait(0.05)
        locked.cuCheckpointProcessRestore(SELF, None)
        assert not done.wait(0.05)
        locked.cuCheckpointProcessUnlock(SELF, None)


def test_calls_of_checkpoints_do_not_wait(locked: Any) -> None:
    """Checkpoint functions, called in or for a locked process, would wait until the process is unlocked."""
    assert state(locked) == LOCKED
    assert lock(locked, 10) == ILLEGAL_STATE
    version = ctypes.c_int()
    locked.cuDriverGetVersion(ctypes.byref(version))


def test_work_is_done_first(cuda: Any, run_in_stream: Callable[..., None]) -> None:
    """A process would be locked before its work is done, or stay locked although the time limit has passed."""
    stream, go = cuda.stream(1), threading.Event()
    run_in_stream(lambda: go.wait(20), stream)
    assert lock(cuda, 20) == NOT_READY
    assert state(cuda) == RUNNING
    with in_thread(lambda: cuda.cuCheckpointProcessLock(SELF, None)) as done:
        assert not done.wait(0.05)
        answers: list[int] = []
        with in_thread(lambda: answers.extend((lock(cuda, 10), state(cuda)))) as asked:  # both wait for the first lock
            assert not asked.wait(0.05)
            go.set()
        assert answers == [ILLEGAL_STATE, LOCKED]
        assert done.wait(20)
    cuda.cuCheckpointProcessUnlock(SELF, None)


def test_a_wait_in_memory_is_work(cuda: Any) -> None:
    """A process would be locked while one of its streams waits for a value in memory."""
    stream, memory = cuda.stream(1), cuda.malloc(4)
    cuda.cuMemsetD32_v2(memory, 0, ctypes.c_size_t(1))
    cuda.cuCtxSynchronize()  # the stream does not wait for work of the default stream
    cuda.cuStreamWaitValue32_v2(stream, memory, 1, 0)
    assert lock(cuda, 20) == NOT_READY
    cuda.cuMemsetD32_v2(memory, 1, ctypes.c_size_t(1))
    cuda.cuStreamSynchronize(stream)
    assert lock(cuda, 1000) == 0
    cuda.cuCheckpointProcessUnlock(SELF, None)


def test_a_call_under_way_is_done_first(cuda: Any, run_in_stream: Callable[..., None]) -> None:
    """The process would be locked while a call of another thread still waits for its stream."""
    stream, go = cuda.stream(1), threading.Event()
    run_in_stream(lambda: go.wait(20), stream)
    with in_thread(lambda: cuda.cuStreamSynchronize(stream)) as done:
        time.sleep(0.3)  # long enough that the thread waits, even on a busy machine
        with in_thread(lambda: cuda.cuCheckpointProcessLock(SELF, None)):
            time.sleep(0.02)
            go.set()
        assert done.wait(20)
    cuda.cuCheckpointProcessUnlock(SELF, None)


CHILD = """
import sys, cudacore_sim
driver = cudacore_sim.load()
if len(sys.argv) > 1:
    driver.cuInit(0)
print(flush=True)
input()
"""


def test_other_processes(cuda: Any) -> None:
    """A process without CUDA, a process that has ended, or a forked child would be treated as a process with CUDA."""
    for arguments, expected in (([], NOT_INITIALIZED), (["init"], 0)):
        pipe = subprocess.PIPE
        child = subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdin=pipe, stdout=pipe)
        assert child.stdout is not None
        child.stdout.readline()
        assert lock(cuda, 1000, child.pid) == expected
        if expected == 0:
            assert state(cuda, child.pid) == LOCKED
            assert state(cuda) == RUNNING
        child.kill()
        child.communicate()
        assert lock(cuda, 1000, child.pid) == OPERATING_SYSTEM
    for pid, code in ((0, OPERATING_SYSTEM), (-1, OPERATING_SYSTEM), (1, NOT_INITIALIZED)):
        assert lock(cuda, 10, pid) == code
    child_of_fork = os.fork()
    if child_of_fork == 0:
        time.sleep(20)
        os._exit(0)
    assert lock(cuda, 10, child_of_fork) == NOT_INITIALIZED  # although the child inherits this process's descriptors
    assert state(cuda) == RUNNING
    os.kill(child_of_fork, 9)
    os.waitpid(child_of_fork, 0)


def test_what_is_not_simulated(locked: Any) -> None:
    """A checkpoint to storage, or a restore to another device, would do nothing and succeed."""
    storage = (ctypes.c_uint64 * 8)(4096)
    assert locked.code("cuCheckpointProcessCheckpoint", SELF, storage) == NOT_SUPPORTED
    assert locked.code("cuCheckpointProcessGetRestoreThreadId", SELF, ctypes.byref(ctypes.c_int())) == NOT_SUPPORTED
    assert locked.code("cuCheckpointProcessGetState", SELF, None) == INVALID_VALUE
    locked.cuCheckpointProcessCheckpoint(SELF, None)
    pairs = (ctypes.c_ubyte * 32)(*range(32))
    restore = (ctypes.c_uint64 * 8)(ctypes.addressof(pairs), 1)
    assert locked.code("cuCheckpointProcessRestore", SELF, restore) == INVALID_VALUE
    restore[0] = 0
    assert locked.code("cuCheckpointProcessRestore", SELF, restore) == INVALID_VALUE
    assert "here the driver crashes" in sim.reports()[0]
    sim.reset()
