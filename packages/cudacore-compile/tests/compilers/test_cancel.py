# SPDX-License-Identifier: Apache-2.0
"""Compilations that are no longer needed: Ctrl-C, timeouts, cancelled jobs."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from compile_sources import SLOW

from cudacore_compile import BatchError, CompileJob, NVRTCError, Program, compile_many
from cudacore_compile._compilers.interrupt import run_interruptibly
from cudacore_handles import _native, live_counts
from cudacore_handles._sdk.compile import Compiler

QUICK = 'extern "C" __global__ void quick() {}'
SLOW_JOB = (SLOW, {"arch": "sm_90"})


class Alarm(Exception):
    pass


@contextmanager
def alarm(handler: Callable[[], None], delay: float = 0.4) -> Iterator[None]:
    """Send a signal to the main thread after a moment."""
    before = signal.signal(signal.SIGALRM, lambda *_: handler())
    signal.setitimer(signal.ITIMER_REAL, delay)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def soon() -> Iterator[None]:
    """Fail if the block takes as long as the program's compilation; the block usually takes a tenth of that.

    The time of the processor counts, because a busy machine can take any time for the block.
    """
    start = time.process_time()
    yield
    assert time.process_time() - start < 4


@pytest.fixture(autouse=True)
def _compilers_end() -> Iterator[None]:
    """Wait for compilations that end in a moment, as the interpreter does at its exit."""
    before = live_counts()["nvrtc_program"]
    yield
    for _ in range(600):
        gc.collect()
        if live_counts()["nvrtc_program"] <= before:
            return
        time.sleep(0.05)
    pytest.fail("a compilation that was cancelled goes on")


def raise_alarm() -> None:
    raise Alarm


def test_signal_ends_a_compilation() -> None:
    """Ctrl-C, or a timeout by a signal, would wait until the compiler is done."""
    program = Program(*SLOW_JOB[:1], "c++", SLOW_JOB[1])
    with alarm(raise_alarm), soon(), pytest.raises(Alarm):
        program.compile("cubin")
    assert not program._running
    assert Program(QUICK, "c++", {"arch": "sm_90"}).compile("ptx").code


def test_signal_that_raises_nothing() -> None:
    """A signal handler would run late, or cancel a compilation that should continue."""
    handled: list[float] = []
    source = SLOW[: SLOW.index("k100(")] + "k() {}"
    program = Program(source, "c++", {"arch": "sm_90", "no_cache": True})
    with alarm(lambda: handled.append(time.monotonic()), 0.01):
        assert program.compile("ptx").code
        end = time.monotonic()
    assert handled[0] < end - 0.02


def test_no_more_threads(python: Callable[..., Any]) -> None:
    """Nothing could be compiled if no thread can be started."""
    result = python(
        """
        import resource
        from cudacore_compile._compilers.interrupt import run_interruptibly

        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (4 << 20), resource.RLIM_INFINITY))
        run_interruptibly(lambda: print("called"), lambda: None)
        """
    )
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "called\n")


def test_cancelled_from_another_thread() -> None:
    """A compilation could not be cancelled."""
    program = Program(*SLOW_JOB[:1], "c++", SLOW_JOB[1])
    threading.Timer(0.4, program.cancel).start()
    with soon(), pytest.raises(NVRTCError, match="the compilation was cancelled") as caught:
        program.compile("cubin")
    assert (caught.value.code_name, caught.value.log) == ("NVRTC_ERROR_CANCELLED", "")
    with soon(), pytest.raises(NVRTCError, match="Make another program") as caught:
        program.compile("cubin")
    assert caught.value.code_name == "NVRTC_ERROR_CANCELLED"


def test_older_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    """An NVRTC that cannot be interrupted would fail at each compilation, or when it is cancelled."""
    monkeypatch.setattr(Compiler, "has", lambda _, name: name != "nvrtcSetFlowCallback")
    program = Program(QUICK, "c++", {"arch": "sm_90"})
    assert program.compile("ptx").code
    program.cancel()
    with pytest.raises(NVRTCError, match="the program was cancelled"):
        program.compile("ptx")


def test_signal_ends_a_batch() -> None:
    """Ctrl-C would not end the running compilations of a batch."""
    with alarm(raise_alarm), soon(), pytest.raises(Alarm):
        compile_many([SLOW_JOB, (SLOW, {"arch": "sm_80"}), (SLOW, {"arch": "sm_120"})], max_workers=2)


def test_cancelled_job() -> None:
    """A cancelled job would be compiled, or would cancel other jobs."""
    running, waiting, other = (
        CompileJob(*SLOW_JOB),
        CompileJob("waiting", {"arch": 80}),
        CompileJob(QUICK, {"arch": 90}),
    )
    before = CompileJob(QUICK, {"arch": 80})
    before.cancel()
    threading.Timer(0.4, lambda: (waiting.cancel(), running.cancel())).start()
    with soon(), pytest.raises(BatchError) as caught:
        compile_many([running, waiting, other, before], max_workers=1)
    assert {i: getattr(error, "code_name", error) for i, error in caught.value.errors.items()} == dict.fromkeys(
        (0, 1, 3), "NVRTC_ERROR_CANCELLED"
    )
    assert caught.value.results[2] is not None


def test_cancelled_twin() -> None:
    """A job would fail because an equal job was cancelled."""
    first, second = CompileJob(QUICK, {"arch": 90}), CompileJob(QUICK, {"arch": 90})
    first.cancel()
    assert all(code.code for code in compile_many([first, second]))
    second.cancel()
    with pytest.raises(BatchError):
        compile_many([first, second])
    assert not first._cancellation._listeners
    assert (pickle.loads(pickle.dumps(first)) == first, pickle.loads(pickle.dumps(first))._cancellation.requested) == (
        True,
        False,
    )


def test_cancelled_job_of_an_executor() -> None:
    """A job that waits in an executor would be compiled although it was cancelled."""

    class Slow(ThreadPoolExecutor):
        def submit(self, *arguments: Any, **named: Any) -> Future[Any]:  # type: ignore[override]
            return super().submit(lambda: (job.cancel(), time.sleep(0.1), arguments[0](*arguments[1:]))[2])

    job = CompileJob("waiting", {"arch": 90})
    with Slow(1) as executor, pytest.raises(BatchError) as caught:
        compile_many([CompileJob(QUICK, {"arch": 90}), job], executor=executor)
    assert [getattr(error, "code_name", error) for error in caught.value.errors.values()] == ["NVRTC_ERROR_CANCELLED"]


def test_a_compiler_that_cannot_be_cancelled() -> None:
    """Ctrl-C would wait for a compiler that cannot be cancelled, or free data that it still uses."""
    ended = threading.Event()

    def work() -> None:
        time.sleep(0.3)
        ended.set()

    with alarm(raise_alarm, 0.05), pytest.raises(Alarm):
        run_interruptibly(work, lambda: None)
    assert not ended.is_set()
    assert ended.wait(30)


def count_threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_after_fork() -> None:
    """A forked child would wait for a thread that only its parent has, or fork() would warn of that thread."""
    before = count_threads()
    assert Program(QUICK, "c++", {"arch": "sm_90"}).compile("ptx").code
    assert count_threads() <= before  # a thread of an earlier test can end meanwhile
    go_on = threading.Event()
    with alarm(raise_alarm, 0.05), pytest.raises(Alarm):
        run_interruptibly(lambda: bool(go_on.wait(30)), lambda: None)
    child = os.fork()
    if child == 0:
        try:  # after an exception, the child would go on with the tests of its parent
            signal.alarm(60)
            calls: list[int] = []
            run_interruptibly(lambda: calls.append(1), lambda: None)
            _native.join_threads()  # as at the end of the interpreter: the thread of the parent is not in this process
            os._exit(len(calls))
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    go_on.set()
    _native.join_threads()


def test_threads_that_are_left() -> None:
    """Each interrupted compilation would leave a thread forever."""
    before = count_threads()
    go_on = threading.Event()
    with alarm(raise_alarm, 0.05), pytest.raises(Alarm):
        run_interruptibly(lambda: bool(go_on.wait(30)), go_on.set)
    _native.join_threads()
    end = time.monotonic() + 30
    while count_threads() > before and time.monotonic() < end:  # the thread has left the interpreter, and ends soon
        time.sleep(0.01)
    assert count_threads() == before


SMALL_STACKS = """
    import os, threading
    from cudacore_compile import CompileJob, Linker, LinkerOptions, Program, compile_many

    options = {"arch": "sm_90"}
    depth = 2000
    if os.environ["LIMIT"] == "small":  # Python 3.15 runs no threads with much less
        threading.stack_size(256 << 10)
        depth = 500
    code = 'extern "C" __global__ void deep(int *x) { *x = ' + "(" * depth + "*x" + " + 1)" * depth + "; }"
    other = 'extern "C" __device__ int other() { return 1; }'

    def everything():
        print(len(Program(code, "c++", options).compile("ptx").code) > 0)
        print(len(compile_many([CompileJob(code, options), CompileJob(other, options)])))
        parts = [Program(part, "c++", options).compile("ltoir") for part in (code, other)]
        linker = Linker(*parts, options=LinkerOptions(arch="sm_90", link_time_optimization=True))
        print(len(linker.link("cubin").code) > 0)

    everything()
    thread = threading.Thread(target=everything)
    thread.start()
    thread.join()
    print("all")
"""


@pytest.mark.usefixtures("_nvjitlink")
@pytest.mark.parametrize("limit", ["small", "unlimited"])
def test_small_stacks(python: Callable[..., Any], limit: str) -> None:
    """Compilers would end the process where threads have small stacks: 2 MiB with ``ulimit -s unlimited``."""
    before = resource.getrlimit(resource.RLIMIT_STACK)
    if limit == "unlimited":
        if before[1] != resource.RLIM_INFINITY:
            pytest.skip("the size of stacks has a hard limit")
        resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY, before[1]))
    try:
        result = python(SMALL_STACKS, LIMIT=limit)
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, before)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split() == [*["True", "2", "True"] * 2, "all"]


def test_signal_handler_that_compiles() -> None:
    """A signal handler that compiles would wait for the compilation that it interrupts."""
    codes: list[bytes] = []
    go_on = threading.Event()

    def handle() -> None:
        codes.append(Program(QUICK, "c++", {"arch": "sm_90"}).compile("ptx").code)
        go_on.set()

    with alarm(handle, 0.05):
        run_interruptibly(lambda: bool(go_on.wait(30)), lambda: None)
    assert codes


def test_errors_keep_nothing() -> None:
    """An exception would keep the program alive, or the compiling thread would keep the exception alive."""

    class Used:
        pass

    used = Used()
    references = [weakref.ref(used)]

    def fail(used: Used) -> None:
        raise Alarm

    gc.disable()
    try:
        with pytest.raises(Alarm) as caught:
            run_interruptibly(partial(fail, used), lambda: None)
        names = [entry.name for entry in caught.traceback]
        assert names[-1] == "fail"
        references.append(weakref.ref(caught.value))
        del used, caught
        assert [reference() for reference in references] == [None, None]
    finally:
        gc.enable()


def test_end_of_the_process(python: Callable[..., Any]) -> None:
    """A process would end while NVRTC compiles, wait forever for a thread, or be unable to compile at its end."""
    result = python(
        """
        import atexit, os, signal, sys

        def late():
            print(len(Program(quick, "c++", {"arch": "sm_90"}).compile("ptx").code) > 0)

        atexit.register(late)  # runs after what the package has registered
        from cudacore_compile import Program
        from cudacore_compile._compilers import interrupt
        quick = 'extern "C" __global__ void k() {}'
        atexit.register(late)
        late()

        def handle(*_):
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        import time
        try:
            interrupt.run_interruptibly(lambda: (time.sleep(0.5), print("over"), None)[2], lambda: None)
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split() == ["True", "interrupted", "True", "over", "True"]


def test_daemon_threads_at_the_end_of_the_process(python: Callable[..., Any]) -> None:
    """A daemon thread that compiles while the process ends would crash in what the compiler has destroyed.

    Instead of a compiler, the thread calls system(). The shell writes to a pipe that only the process can read: first
    to report that the call has begun, and again after the interpreter has ended. If the process did not wait for the
    call, the second write fails.
    """
    result = python(
        """
        import atexit, os

        at_end, shell_stdin = os.pipe()[::-1]
        os.dup2(shell_stdin, 0)
        atexit.register(os.write, at_end, b"\\n")  # runs after what the package has registered

        import ctypes, threading
        from cudacore_handles._sdk.compile import Compiler

        messages, to_process = os.pipe()
        os.dup2(to_process, 9)
        command = b"echo >&9; read line; sleep 0.3; echo >&9 && echo waited"
        compiler = Compiler("NVRTC", ctypes.CDLL(None)._handle, {"system": "12.0"})
        threading.Thread(target=compiler.result, args=("system", command), daemon=True).start()
        os.read(messages, 1)
        """
    )
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "waited\n")
