# SPDX-License-Identifier: Apache-2.0
"""Many compilations at once."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import Any, NamedTuple

from cudacore_compile._batch_error import make_batch_error
from cudacore_compile._cache.compile import CachedCompilation, Watch, check_cache
from cudacore_compile._cache.identity import Look
from cudacore_compile._cache.resource import ProgramCacheResource
from cudacore_compile._compilers.errors import cancelled
from cudacore_compile._compilers.interrupt import get_interruptibly, start_thread
from cudacore_compile._compilers.option_values import current_arch
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._compilers.request import BACKENDS, Request, files_written
from cudacore_compile._job import Cancellation, CompileJob
from cudacore_compile._program import Program
from cudacore_compile.typing import SourceCodeType
from cudacore_handles import ObjectCode
from cudacore_handles._sdk import as_options


class _Outcome(NamedTuple):
    """What a worker gives back."""

    code: ObjectCode
    log: str
    key: bytes
    """bytes: The key that the worker has found; empty without a cache, or where it is not certain."""


def compile_many(
    jobs: Iterable[CompileJob | tuple[Any, ...] | Mapping[str, Any]],
    *,
    cache: ProgramCacheResource | None = None,
    executor: Executor | None = None,
    max_workers: int | None = None,
    progress: bool | None = None,
    logs: Any = None,
) -> list[ObjectCode]:
    """Compile many programs, each different one once, in parallel.

    Parameters
    ----------
    jobs : iterable of CompileJob
        What to compile; also tuples of what a job has, in its order, and mappings. All jobs are taken before anything
        is compiled, and a cache looks at the files that they include after that, once.
    cache : ProgramCacheResource, optional
        Where to look first, and to keep what was compiled. It is used in this process only, also when an executor's
        workers are elsewhere. Default none.
    executor : concurrent.futures.Executor, optional
        Where to compile: processes, or a cluster's (``dask.distributed.Client.get_executor()``). Jobs and results are
        pickled then. Workers that read headers must find them where this process does. Default: threads, because NVRTC
        compiles in several at once.
    max_workers : int, optional
        How many threads to use, without an executor. Default: as many as there are cores to run on.
    progress : bool, optional
        Whether to show the progress, on stderr or in a notebook, which needs the package rich, and in a notebook
        ipywidgets. Default: if stderr is a terminal, or this a notebook, and what it needs is installed.
    logs : object with a ``write`` method, optional
        Receives the compilers' logs, in the order of the jobs. Default None.

    Returns
    -------
    list of ObjectCode
        In the order of the jobs. Jobs that are the same share one.

    Raises
    ------
    BatchError
        When jobs failed, after all others are done; it has the results of those.
    TypeError, ValueError
        For arguments that are no such things.
    """
    if cache is not None:
        check_cache(cache)
    if logs is not None and not callable(getattr(logs, "write", None)):
        raise TypeError(f"logs must have a write method, which {type(logs).__name__} has not")
    if callable(getattr(executor, "get_executor", None)):  # it has a submit of another kind
        raise TypeError(
            f"executor must be a concurrent.futures.Executor, and this is a {type(executor).__name__} of Dask's: "
            "give its executor, client.get_executor()"
        )
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor must be a concurrent.futures.Executor or None, not {type(executor).__name__}")
    if executor is not None and max_workers is not None:
        raise ValueError("max_workers is for threads: an executor has its own number of workers")
    if not isinstance(max_workers, (int, type(None))) or isinstance(max_workers, bool):
        raise TypeError(f"max_workers must be an int or None, not {type(max_workers).__name__}")
    if max_workers is not None and max_workers < 1:
        raise ValueError(f"max_workers must be at least 1, not {max_workers}")
    batch = _Batch((_as_job(index, job) for index, job in enumerate(jobs)), cache)
    with _bar(progress, len(batch.groups)) as step:
        batch.run(executor, max_workers or len(os.sched_getaffinity(0)), step)
    return batch.finish(logs)


class _Group:
    """Jobs that are the same, of which one is compiled."""

    def __init__(self, job: CompileJob) -> None:
        self.job = job
        self.cached: CachedCompilation | None = None
        self.indices: list[int] = []
        self.cancellations: list[Cancellation] = []  # of all its jobs
        self._lock = threading.Lock()  # of the three attributes below
        self._future: Future[_Outcome] | None = None
        self._program: Program | None = None
        self._cancelled = False
        self.code: ObjectCode | None = None
        self.error: Exception | None = None
        self.log = ""

    @property
    def is_cacheable(self) -> bool:
        """bool: Whether a cache will keep the code."""
        return self.cached is not None and self.cached.is_cacheable

    def compile(self) -> _Outcome:
        """Compile on a thread of this process, so that the compilation can be cancelled."""
        return _compile_job(self.job, self.is_cacheable, self._begin)

    def _begin(self, program: Program) -> None:
        with self._lock:
            self._program = program
            cancelled = self._cancelled
        if cancelled:
            program.cancel()

    def submitted(self, future: Future[_Outcome]) -> None:
        """Remember the future of the compilation."""
        with self._lock:
            self._future = future
            cancelled = self._cancelled
        if cancelled:
            future.cancel()

    def cancel(self) -> None:
        """End the compilation, or keep it from beginning."""
        with self._lock:
            self._cancelled = True
            program, future = self._program, self._future
        if future is not None:
            future.cancel()
        if program is not None:
            program.cancel()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Cancel the compilation as soon as all its jobs are cancelled."""

        def cancel_if_all_are() -> None:
            if all(one.requested for one in self.cancellations):
                self.cancel()

        for one in self.cancellations:
            one.add(cancel_if_all_are)
        try:
            cancel_if_all_are()
            yield
        finally:
            for one in self.cancellations:
                one.remove(cancel_if_all_are)

    def done(self, outcome: _Outcome) -> None:
        self.code, self.log = outcome.code, outcome.log
        if self.cached is not None:
            self.cached.keep(outcome.code, outcome.log, outcome.key)

    def failed(self, error: Exception) -> None:
        if error.__traceback__ is not None:  # without the frame that caught it, which leads to this object
            error.__traceback__ = error.__traceback__.tb_next
        self.error, self.log = error, getattr(error, "log", "")
        note = f"in job {', '.join(map(str, self.indices))} of the batch"
        if sys.version_info >= (3, 11):
            error.add_note(note)


class _Batch:
    """The work of one call."""

    def __init__(self, jobs: Iterable[CompileJob], cache: ProgramCacheResource | None) -> None:
        self.groups: list[_Group] = []
        self._count = 0
        known: dict[Any, _Group] = {}
        requests: list[tuple[_Group, Request]] = []
        arch: str | None = None
        for index, job in enumerate(jobs):
            self._count += 1
            identity: Any = index
            cancellation = job._cancellation
            try:
                options = as_options(ProgramOptions, job.options)
                if options.arch is None:
                    arch = arch or f"sm_{current_arch()}"
                    options = dataclasses.replace(options, arch=arch)
                program = Program(job.code, job.code_type, options, headers=job.headers)
                request = program._request(job.target_type, job.name_expressions)
                job = CompileJob(  # of copies: what the caller changes meanwhile, or has for reading once, is the same
                    request.code,
                    program._options,
                    request.target,
                    request.names,
                    request.code_type,
                    None if job.headers is None else dict(job.headers),
                )
                if not files_written(options):
                    identity = request.identity()
            except Exception as error:
                group = _Group(job)
                group.indices.append(index)
                group.failed(error)
                self.groups.append(group)
                continue
            if identity not in known:
                known[identity] = _Group(job)
                self.groups.append(known[identity])
                requests.append((known[identity], request))
            known[identity].indices.append(index)
            known[identity].cancellations.append(cancellation)
        if cache is not None:
            self._look_up(cache, requests)

    def _look_up(self, cache: ProgramCacheResource, requests: Sequence[tuple[_Group, Request]]) -> None:
        """Find the keys, once there are all jobs: who makes them one after the other may write headers meanwhile."""
        look = Look()
        for group, request in requests:
            try:
                group.cached = CachedCompilation(cache, request, look)
            except Exception as error:
                group.failed(error)

    def run(self, executor: Executor | None, workers: int, step: Callable[[], None]) -> None:
        """Compile what is not cached."""
        todo = []
        for group in self.groups:
            found = None if group.cached is None else group.cached.find()
            if found is not None:
                group.code, group.log = found
            if group.code is None and group.error is None:
                todo.append(group)
            else:
                step()
        if not todo:
            return
        with ExitStack() as stack:
            for group in todo:
                stack.enter_context(group.listening())
            if executor is not None:
                self._run_on(todo, lambda group: executor.submit(_compile_job, group.job, group.is_cacheable), step)
                return
            pool = ThreadPoolExecutor(min(workers, len(todo)), thread_name_prefix="cudacore-compile")
            try:
                self._run_on(todo, lambda group: pool.submit(group.compile), step)
            finally:  # after an interrupt, the threads end in a moment, which the interpreter waits for when it exits
                pool.shutdown(wait=False)

    def _run_on(
        self, groups: Sequence[_Group], submit: Callable[[_Group], Future[_Outcome]], step: Callable[[], None]
    ) -> None:
        calls = _Calls(groups, submit)
        try:
            calls.start()
            for group, outcome in calls.completed():
                if isinstance(outcome, Exception):
                    group.failed(outcome)
                else:
                    group.done(outcome)
                step()
        except BaseException:  # Ctrl-C, mostly
            calls.cancel()
            raise

    def finish(self, logs: Any) -> list[ObjectCode]:
        """Return the results, or raise what failed."""
        results: list[ObjectCode | None] = [None] * self._count
        errors: dict[int, Exception] = {}
        for group in self.groups:
            if logs is not None and group.log:
                logs.write(group.log)
            for index in group.indices:
                results[index] = group.code
                if group.error is not None:
                    errors[index] = group.error
        if errors:
            exceptions = [group.error for group in self.groups if group.error is not None]
            raise make_batch_error(f"{len(errors)} of {self._count} compilations failed", exceptions, errors, results)
        return [code for code in results if code is not None]


class _Calls:
    """The compilations of an executor, which a thread submits and awaits.

    The locks of futures and executors are Python code. A signal handler that raises an exception right behind the call
    that locks leaves them locked, and the executor's threads wait forever, also when the process exits. Python calls
    signal handlers on the main thread, which therefore uses queues alone: these are C code.
    """

    def __init__(self, groups: Sequence[_Group], submit: Callable[[_Group], Future[_Outcome]]) -> None:
        self._groups = groups
        self._submit = submit
        self._events: SimpleQueue[Future[_Outcome] | None] = SimpleQueue()
        self._outcomes: SimpleQueue[tuple[_Group | None, _Outcome | BaseException]] = SimpleQueue()
        self._is_cancelled = False

    def start(self) -> None:
        """Start the thread."""
        start_thread(threading.Thread(target=self._run, name="cudacore-compile-batch"))

    def cancel(self) -> None:
        """Have the thread cancel all compilations, and end."""
        self._is_cancelled = True
        self._events.put(None)

    def completed(self) -> Iterator[tuple[_Group, _Outcome | Exception]]:
        """Yield groups with what became of them; signals are handled meanwhile."""
        left = len(self._groups)
        while left:
            group, outcome = get_interruptibly(self._outcomes)
            if group is not None and isinstance(outcome, (_Outcome, Exception)):
                left -= 1
                yield group, outcome
                continue
            assert isinstance(outcome, BaseException)
            failures = [outcome]
            del group, outcome  # so that this frame, which is in its traceback, does not have it
            raise failures.pop()

    def _run(self) -> None:
        try:
            self._wait_for(self._submit_all())
            if self._is_cancelled:
                for group in self._groups:
                    group.cancel()
        except BaseException as error:
            self._outcomes.put((None, error))

    def _submit_all(self) -> dict[Future[_Outcome], _Group]:
        futures = {}
        for group in self._groups:
            if self._is_cancelled:
                break
            try:
                future = self._submit(group)
            except Exception as error:  # an executor whose workers have died takes no more
                self._outcomes.put((group, error))
                continue
            futures[future] = group
            group.submitted(future)
            future.add_done_callback(self._events.put)
        return futures

    def _wait_for(self, futures: dict[Future[_Outcome], _Group]) -> None:
        while futures and not self._is_cancelled:
            future = self._events.get()
            if future is None:
                continue
            group = futures.pop(future)
            try:
                self._outcomes.put((group, future.result()))
            except CancelledError:
                self._outcomes.put((group, cancelled(BACKENDS[SourceCodeType(group.job.code_type)])))
            except BaseException as error:
                self._outcomes.put((group, error))


def _compile_job(job: CompileJob, is_cacheable: bool, begin: Callable[[Program], None] | None = None) -> _Outcome:
    """Compile, in a worker."""
    log = io.StringIO()
    program = Program(job.code, job.code_type, job.options, headers=job.headers)
    if begin is not None:
        begin(program)
    try:
        request = program._request(job.target_type, job.name_expressions)
        watch = Watch(request) if is_cacheable else None
        code = program._compile_now(request, log, is_kept=is_cacheable)
    finally:
        program.close()
    return _Outcome(code, log.getvalue(), b"" if watch is None else watch.end())


def _as_job(index: int, job: object) -> CompileJob:
    if isinstance(job, CompileJob):
        return job
    try:
        if isinstance(job, tuple):
            return CompileJob(*job)
        if isinstance(job, Mapping):
            return CompileJob(**job)
    except TypeError as error:
        raise TypeError(f"jobs[{index}] is no CompileJob: {error}") from None
    raise TypeError(f"jobs[{index}] must be a CompileJob, or a tuple or mapping for one, not {type(job).__name__}")


@contextmanager
def _bar(wanted: bool | None, total: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar, if wanted; give a function that moves it by one."""
    if wanted is False or (wanted is None and (total < 2 or not _is_watched())):
        yield lambda: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        if wanted:
            raise ImportError(
                'progress=True needs the package rich: python -m pip install "cudacore-compile[terminal]"'
            ) from None
        yield lambda: None
        return
    columns = (TextColumn("compiling"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)


def _is_watched() -> bool:
    """Return whether there is a terminal, or a notebook that shows what changes."""
    return sys.stderr.isatty() or ("ipykernel" in sys.modules and importlib.util.find_spec("ipywidgets") is not None)
