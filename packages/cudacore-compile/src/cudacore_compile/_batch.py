# SPDX-License-Identifier: Apache-2.0
"""Many compilations at once."""

from __future__ import annotations

import contextvars
import dataclasses
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, NamedTuple

from cudacore_compile._batch_error import make_batch_error
from cudacore_compile._cache.compile import Lookup, Watch, check_cache, look_up
from cudacore_compile._cache.entry import Entry
from cudacore_compile._cache.resource import ProgramCacheResource
from cudacore_compile._compilers.errors import cancelled
from cudacore_compile._compilers.interrupt import run_interruptibly
from cudacore_compile._compilers.option_values import current_arch
from cudacore_compile._compilers.options import ProgramOptions
from cudacore_compile._compilers.request import Request, files_written
from cudacore_compile._compilers.sources import check_logs
from cudacore_compile._compilers.targets import BACKENDS
from cudacore_compile._job import Cancellation, CompileJob
from cudacore_compile._program import Program
from cudacore_handles import ObjectCode
from cudacore_handles._sdk import as_options


class _Outcome(NamedTuple):
    """What a worker returns for one job."""

    code: ObjectCode
    log: str
    key: bytes
    """bytes: The key that the worker has computed; empty without a cache, or if the key is not certain."""


def compile_many(
    jobs: Iterable[CompileJob | tuple[Any, ...] | Mapping[str, Any]],
    *,
    cache: ProgramCacheResource | None = None,
    executor: Executor | None = None,
    max_workers: int | None = None,
    progress: bool | None = None,
    logs: Any = None,
) -> list[ObjectCode]:
    """Compile many programs in parallel. Equal jobs are compiled once.

    Parameters
    ----------
    jobs : iterable of CompileJob
        The jobs. A job can also be a tuple or a mapping of its fields. All jobs are read before compilation starts.
        Then a cache examines each included file once for all jobs.
    cache : ProgramCacheResource, optional
        A cache in which the code is looked up first, and then stored. It is used in this process only, even if an
        executor has workers in other processes. Default none.
    executor : concurrent.futures.Executor, optional
        An executor with processes, or with a cluster (``dask.distributed.Client.get_executor()``). Jobs and results
        are pickled then. Workers must find headers under the same paths as this process. Default: threads, because
        NVRTC can compile on several threads at once.
    max_workers : int, optional
        The number of threads, without an executor. Default: the number of available cores.
    progress : bool, optional
        Whether to show a progress bar, on stderr or in a notebook. It needs the package rich, and in a notebook also
        ipywidgets. Default: True if stderr is a terminal or this is a notebook, and these packages are installed.
    logs : object with a ``write`` method, optional
        Receives the compilers' logs, in the order of the jobs. Default None.

    Returns
    -------
    list of ObjectCode
        The code, in the order of the jobs. Equal jobs share one object.

    Raises
    ------
    BatchError
        If jobs failed. It is raised when all other jobs are done, and has their results.
    TypeError, ValueError
        If an argument is invalid.

    Examples
    --------
    >>> from cudacore_compile import compile_many
    >>> programs = [f"__device__ int x = {number};" for number in range(3)]
    >>> codes = compile_many([{"code": code, "code_type": "c++", "target_type": "cubin"} for code in programs])
    >>> len(codes)
    3
    """
    if cache is not None:
        check_cache(cache)
    check_logs(logs)
    if callable(getattr(executor, "get_executor", None)):  # the submit() of a Dask client has another signature
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
    """Equal jobs, which are compiled once."""

    program: Program  # not set if the job is invalid
    request: Request  # with copies of what the caller can change; not set either

    def __init__(self) -> None:
        self.lookup: Lookup | None = None
        self.indices: list[int] = []
        self.cancellations: list[Cancellation] = []  # one for each job
        self.future: Future[_Outcome] | None = None
        self.code: ObjectCode | None = None
        self.error: Exception | None = None
        self.log = ""

    def submit(self, executor: Executor, *, is_here: bool) -> Future[_Outcome]:
        """Have an executor compile, which can be threads of this process."""
        is_cacheable = self.lookup is not None and bool(self.lookup.key)
        future = executor.submit(_compile_job, self.request, is_cacheable, *((self.program,) if is_here else ()))
        self.future = future
        if self.program._cancelled:  # cancel() may have come before there was a future
            future.cancel()
        return future

    def cancel(self) -> None:
        """Cancel the compilation, or prevent it from starting."""
        self.program.cancel()
        if self.future is not None:
            self.future.cancel()

    def cancel_if_all_are(self) -> None:
        """Cancel the compilation if all its jobs are cancelled."""
        if all(one.requested for one in self.cancellations):
            self.cancel()

    def done(self, outcome: _Outcome) -> None:
        self.code, self.log = outcome.code, outcome.log
        if self.lookup is not None:
            self.lookup.keep(Entry.of(outcome.code, outcome.log), outcome.key)

    def failed(self, error: Exception) -> None:
        # removes the frame that caught the exception, because that frame refers to this object
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next
        self.error, self.log = error, getattr(error, "log", "")
        note = f"in job {', '.join(map(str, self.indices))} of the batch"
        if sys.version_info >= (3, 11):
            error.add_note(note)


class _Batch:
    """The work of one call of :func:`compile_many`."""

    def __init__(self, jobs: Iterable[CompileJob], cache: ProgramCacheResource | None) -> None:
        self.groups: list[_Group] = []
        self._count = 0
        self._is_cancelled = False
        known: dict[Any, _Group] = {}
        arch: str | None = None
        for index, job in enumerate(jobs):
            self._count += 1
            try:
                options = as_options(ProgramOptions, job.options)
                if options.arch is None:
                    arch = arch or f"sm_{current_arch()}"
                    options = dataclasses.replace(options, arch=arch)
                program = Program(job.code, job.code_type, options, headers=job.headers)
                request = program._request(job.target_type, job.name_expressions)
                identity: Any = index if files_written(options) else request.identity()
            except Exception as error:
                self.groups.append(_Group())
                self.groups[-1].indices.append(index)
                self.groups[-1].failed(error)
                continue
            if identity not in known:
                known[identity] = group = _Group()
                group.program, group.request = program, request
                self.groups.append(group)
            known[identity].indices.append(index)
            known[identity].cancellations.append(job._cancellation)
        if cache is not None:  # after all jobs are known, because the caller can write headers while it yields jobs
            self._look_up(cache, known.values())

    def _look_up(self, cache: ProgramCacheResource, groups: Iterable[_Group]) -> None:
        """Look up all code in the cache."""
        for group in groups:
            try:
                group.lookup = look_up(cache, group.request)
            except Exception as error:
                group.failed(error)
                continue
            entry = group.lookup.find()
            if entry is not None:
                group.code, group.log = entry.object_code(group.request.options.name), entry.log

    def run(self, executor: Executor | None, workers: int, step: Callable[[], None]) -> None:
        """Compile all code that is not in the cache."""
        todo = [group for group in self.groups if group.code is None and group.error is None]
        for _ in range(len(self.groups) - len(todo)):
            step()
        if not todo:
            return
        # Signal handlers run on the main thread. If one raised an exception just after a lock of a future or of an
        # executor was acquired, in Python code, the executor's threads would wait for the lock forever.
        events: SimpleQueue[Future[_Outcome] | None] = SimpleQueue()
        context = contextvars.copy_context()  # has the filters of warnings

        def compile_all() -> None:
            if executor is not None:
                self._run_on(todo, events, step, lambda group: group.submit(executor, is_here=False))
                return
            pool = ThreadPoolExecutor(min(workers, len(todo)), thread_name_prefix="cudacore-compile")
            try:
                self._run_on(todo, events, step, lambda group: group.submit(pool, is_here=True))
            finally:  # after an interrupt, the threads end soon; the interpreter waits for them at exit
                pool.shutdown(wait=False)

        def cancel() -> None:
            self._is_cancelled = True
            events.put(None)

        listeners = [(one, group.cancel_if_all_are) for group in todo for one in group.cancellations]
        try:
            for cancellation, listener in listeners:
                cancellation.add(listener)
                listener()
            run_interruptibly(lambda: context.run(compile_all), cancel)
        finally:
            for cancellation, listener in listeners:
                cancellation.remove(listener)

    def _run_on(
        self,
        groups: Sequence[_Group],
        events: SimpleQueue[Future[_Outcome] | None],
        step: Callable[[], None],
        submit: Callable[[_Group], Future[_Outcome]],
    ) -> None:
        futures: dict[Future[_Outcome] | None, _Group] = {}
        try:
            for group in groups:
                try:
                    future = submit(group)
                except Exception as error:  # for example, the workers of the executor have ended
                    group.failed(error)
                    step()
                    continue
                futures[future] = group
                future.add_done_callback(events.put)
                if self._is_cancelled:
                    break
            while futures and (done := events.get()) is not None:
                group = futures.pop(done)
                try:
                    group.done(done.result())
                except CancelledError:
                    group.failed(cancelled(BACKENDS[group.request.code_type]))
                except Exception as error:
                    group.failed(error)
                step()
        finally:  # some are left after an interrupt of this process or of a worker
            for group in futures.values():
                group.cancel()

    def finish(self, logs: Any) -> list[ObjectCode]:
        """Return the results, or raise the errors of all failed jobs."""
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


def _compile_job(request: Request, is_cacheable: bool, program: Program | None = None) -> _Outcome:
    """Compile. The workers of an executor call this function, too; they make the program from the request."""
    if program is None:
        headers = {name.decode(): content for name, content in request.headers.items()}
        program = Program(request.code, request.code_type, request.options, headers=headers or None)
    log = io.StringIO()
    try:
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
        raise TypeError(f"jobs[{index}] is not a CompileJob: {error}") from None
    raise TypeError(f"jobs[{index}] must be a CompileJob, or a tuple or mapping for one, not {type(job).__name__}")


@contextmanager
def _bar(wanted: bool | None, total: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar, if wanted. Yield a function that advances it by one step."""
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
    """Return whether progress can be shown: stderr is a terminal, or this is a suitable notebook."""
    return sys.stderr.isatty() or ("ipykernel" in sys.modules and importlib.util.find_spec("ipywidgets") is not None)
