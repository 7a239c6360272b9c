# SPDX-License-Identifier: Apache-2.0
"""Batches: many compilations in one call."""

from __future__ import annotations

import importlib.util
import io
import itertools
import multiprocessing
import os
import pickle
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
from compile_sources import Python

from cudacore_compile import (
    BatchError,
    CompileJob,
    InMemoryProgramCache,
    NVRTCError,
    Program,
    ProgramOptions,
    UncacheableError,
    _batch,
    compile_many,
)
from cudacore_compile._cache import digest as _digest
from cudacore_handles import CUDAError, ObjectCode

SOURCE = "template <class T, int N> __global__ void scale(T *out, T by) { out[N] *= by; }"
ARCHES = ("sm_80", "sm_90", "sm_120")


def jobs(*numbers: int, arch: str = "sm_90", target: str = "cubin") -> list[CompileJob]:
    return [CompileJob(SOURCE, {"arch": arch}, target, [f"scale<float, {number}>"]) for number in numbers]


class Immediate(Executor):
    """An executor whose submit() runs the call immediately. It counts the calls."""

    def __init__(self) -> None:
        self.count = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.count += 1
        future: Future[Any] = Future()
        try:
            # Pickles everything, like an executor of processes, so that objects that cannot be pickled are noticed.
            future.set_result(pickle.loads(pickle.dumps(fn(*pickle.loads(pickle.dumps(args)), **kwargs))))
        except Exception as error:
            future.set_exception(pickle.loads(pickle.dumps(error)))
        return future


def test_order_of_the_results() -> None:
    """A job would get the code of another job."""
    todo = [CompileJob(SOURCE, {"arch": arch}, "ptx", [f"scale<int, {n}>"]) for n in range(3) for arch in ARCHES]
    results = compile_many(todo)
    for job, result in zip(todo, results, strict=True):
        assert list(result.symbol_mapping) == list(job.name_expressions)
        assert f".target {job.options['arch']}".encode() in result.code  # type: ignore[index, operator]
    alone = Program(SOURCE, "c++", {"arch": "sm_80"}).compile("ptx", ["scale<int, 0>"])
    assert results[0].code == alone.code


def test_ways_to_say_a_job() -> None:
    """A job that is given as a tuple or a mapping would get wrong fields."""
    options = ProgramOptions(arch="sm_90")
    results = compile_many([(SOURCE, options, "ptx"), {"code": SOURCE, "options": options, "target_type": "ptx"}])
    assert results[0] is results[1]
    assert compile_many([]) == []
    assert compile_many(iter(jobs(1)))[0].symbol_mapping
    with pytest.raises(TypeError, match=r"jobs\[0\] must be a CompileJob, or a tuple or mapping for one, not str"):
        compile_many([SOURCE])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"jobs\[1\] is not a CompileJob: .*unexpected"):
        compile_many([(SOURCE,), {"code": SOURCE, "arch": "sm_90"}])


def test_the_same_is_compiled_once() -> None:
    """A thousand equal jobs would be compiled a thousand times, or different jobs only once."""
    executor = Immediate()
    same = CompileJob(SOURCE, {"arch": 90}, "ptx", ["scale<int, 1>", "scale<int, 2>"])
    again = CompileJob(SOURCE.encode(), ProgramOptions(arch="sm_90"), "PTX", [b"scale<int, 2>", "scale<int, 1>"])
    others = [
        CompileJob(SOURCE + " ", {"arch": 90}, "ptx", ["scale<int, 1>", "scale<int, 2>"]),
        CompileJob(SOURCE, {"arch": 80}, "ptx", ["scale<int, 1>", "scale<int, 2>"]),
        CompileJob(SOURCE, {"arch": 90}, "ltoir", ["scale<int, 1>", "scale<int, 2>"]),
        CompileJob(SOURCE, {"arch": 90}, "ptx", ["scale<int, 1>"]),
        CompileJob(SOURCE, {"arch": 90, "name": "n"}, "ptx", ["scale<int, 1>", "scale<int, 2>"]),
        CompileJob(SOURCE, {"arch": 90}, "ptx", ["scale<int, 1>", "scale<int, 2>"], headers={"h": ""}),
    ]
    results = compile_many([same, *others, again, same], executor=executor)
    assert executor.count == 1 + len(others)
    assert results[0] is results[-1] is results[-2]
    assert len(set(map(id, results))) == 1 + len(others)


def test_jobs_that_change() -> None:
    """Names from an iterator, or options that a loop changes, would not be the same for the worker as in the key."""
    cache = InMemoryProgramCache()
    source = "template <class T> __global__ void f(T *p) { *p = N; }"
    options = ProgramOptions(arch="sm_90")

    def all_jobs() -> Iterator[CompileJob]:
        for number in (1111, 2222):
            options.define_macro = {"N": number}
            yield CompileJob(source, options, "ptx", (name for name in ["f<int>"]))  # type: ignore[arg-type]

    for _ in range(2):
        codes = compile_many(all_jobs(), cache=cache)
        assert [code.symbol_mapping for code in codes] == [{"f<int>": "_Z1fIiEvPT_"}] * 2
        assert [str(number).encode() in bytes(code.code) for number, code in zip((1111, 2222), codes, strict=True)] == [
            True, True,
        ]  # fmt: skip
    assert (cache.statistics.hits, cache.statistics.misses) == (2, 2)


def test_with_a_cache() -> None:
    """Cached code would be compiled again, or compiled code would not be stored."""
    cache, executor = InMemoryProgramCache(), Immediate()
    cold = compile_many(jobs(1, 2, 3), cache=cache, executor=executor)
    warm = compile_many(jobs(3, 1, 2, 4), cache=cache, executor=executor)
    assert executor.count == 4
    assert [code.code for code in warm[:3]] == [cold[i].code for i in (2, 0, 1)]
    assert warm[0].symbol_mapping == cold[2].symbol_mapping
    assert (cache.statistics.hits, cache.statistics.misses, len(cache)) == (3, 4, 4)
    one = Program(SOURCE, "c++", {"arch": "sm_90"}).compile("cubin", ["scale<float, 4>"], cache=cache)
    assert (one.code, cache.statistics.hits) == (warm[3].code, 4)


@pytest.mark.parametrize("executor", [None, "immediate"])
def test_failures(executor: Any) -> None:
    """One failure would lose the results of other jobs, or hide other failures."""
    good, bad = jobs(1, 2), CompileJob("nonsense", {"arch": "sm_90"})
    wrong = [CompileJob(SOURCE, {"arch": "nonsense"}), CompileJob(SOURCE, {"arch": 90}, "exe")]
    logs = io.StringIO()
    with pytest.raises(BatchError, match="4 of 6 compilations failed") as caught:
        compile_many([good[0], bad, *wrong, good[1], bad], executor=executor and Immediate(), logs=logs)
    error = caught.value
    assert list(error.errors) == [1, 2, 3, 5]
    assert isinstance(error.errors[1], NVRTCError)
    assert error.errors[1] is error.errors[5]
    assert [type(error.errors[i]) for i in (2, 3)] == [
        ValueError,
        pytest.importorskip("cudacore_handles").UnsupportedCodeError,
    ]
    assert len(error.exceptions) == 3
    assert [code is None for code in error.results] == [False, True, True, True, False, True]
    assert error.results[4].symbol_mapping  # type: ignore[union-attr]
    assert "nonsense" in logs.getvalue()
    copy = pickle.loads(pickle.dumps(error))
    assert (list(copy.errors), str(copy)) == (list(error.errors), str(error))


def test_group_of_exceptions() -> None:
    """The error of a batch would not be an exception group on Python 3.11 and later, or be incomplete on 3.10."""
    with pytest.raises(BatchError) as caught:
        compile_many([CompileJob("nonsense 1", {"arch": 90}), CompileJob(SOURCE, {"arch": "2"})])
    error = caught.value
    assert isinstance(error, Exception)
    if sys.version_info >= (3, 11):
        assert isinstance(error, ExceptionGroup)  # noqa: F821
        part = error.subgroup(NVRTCError)
        assert isinstance(part, BatchError)
        assert list(part.errors) == [0]
        assert error.errors[1].__notes__ == ["in job 1 of the batch"]
    else:
        assert "nonsense 1" in str(error)
        assert "is not an architecture" in str(error)


def test_architecture_of_the_current_device(device: Any) -> None:
    """Workers would compile for their own devices, or for none."""
    executor = Immediate()
    (code,) = compile_many([CompileJob(SOURCE, None, "ptx", ["scale<int, 1>"])], executor=executor)
    assert f".target sm_{device.arch}".encode() in code.code  # type: ignore[operator]


def test_no_device(python: Python) -> None:
    """Without a device, a job without an architecture would fail the whole batch with an obscure error."""
    result = python(
        """
        from cudacore_compile import *
        try:
            compile_many([("__global__ void f() {}",), ("__global__ void f() {}", {"arch": 90})])
        except BatchError as error:
            print(*error.errors, "name an architecture" in str(error.errors[0]), error.results[1].code_type)
        """,
        CUDACORE_DRIVER="/nonexistent/libcuda.so",
    )
    assert (result.stdout, result.stderr) == ("0 True cubin\n", "")


def test_logs() -> None:
    """Warnings of a batch would be lost, or would not be in the order of the jobs."""
    todo = [CompileJob(f"__global__ void f() {{ int unused{i}; }}", {"arch": 90}, "ptx") for i in range(4)]
    logs = io.StringIO()
    compile_many(todo, logs=logs)
    places = [logs.getvalue().index(f"unused{i}") for i in range(4)]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_workers": 0}, ValueError, "max_workers must be at least 1, not 0"),
        ({"max_workers": "2"}, TypeError, "max_workers must be an int or None, not str"),
        ({"max_workers": 2, "executor": Immediate()}, ValueError, "max_workers is for threads"),
        ({"executor": 3}, TypeError, r"executor must be a concurrent\.futures\.Executor or None, not int"),
        ({"executor": type("Client", (), {"submit": print, "get_executor": print})()}, TypeError,
         r"of Dask.s: give its executor, client\.get_executor\(\)"),
        ({"cache": {}}, TypeError, "cache must be a ProgramCacheResource"),
        ({"logs": 3}, TypeError, "logs must have a write method"),
    ],
)  # fmt: skip
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """An invalid number of workers, log or cache would fail late, or not at all."""
    with pytest.raises(error, match=message):
        compile_many([], **arguments)


def test_uncacheable_jobs() -> None:
    """A job without a key would fail, or be stored under a wrong key."""
    cache = InMemoryProgramCache()
    source = "__device__ const char *now = __TIME__; __global__ void f() {}"
    for _ in range(2):
        assert compile_many([(source, {"arch": 90})], cache=cache)[0].code
    assert (len(cache), cache.statistics.uncacheable) == (0, 2)
    assert issubclass(UncacheableError, ValueError)


def test_threads_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs of a batch would be compiled one after another."""
    together = threading.Barrier(2, timeout=60)
    compile_job = _batch._compile_job

    def meet(*job: Any) -> Any:
        together.wait()
        return compile_job(*job)

    monkeypatch.setattr(_batch, "_compile_job", meet)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    compile_many(jobs(1, 2))


def test_jobs_that_write_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If a generator of jobs changes a header, the cache would return old code for the later jobs."""
    monkeypatch.chdir(tmp_path)
    cache = InMemoryProgramCache()
    sources = [f'#include "v.h"\n__device__ int v{n} = VALUE;' for n in range(2)]

    def jobs() -> Iterator[CompileJob]:
        for source in sources:
            Path("v.h").write_text(f"#define VALUE {1111 if source is sources[0] else 2222}\n")
            yield CompileJob(source, {"arch": "sm_90"}, "ptx")

    for source in sources:
        Path("v.h").write_text("#define VALUE 1111\n")
        Program(source, "c++", {"arch": "sm_90"}).compile("ptx", cache=cache)
    for code in compile_many(jobs(), cache=cache):
        assert b"= 2222" in bytes(code.code)
    assert cache.statistics.hits == 0


@pytest.mark.parametrize("difference", ["compiler", "environment", "header"])
def test_worker_that_is_different(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, difference: str) -> None:
    """A worker with another NVRTC, environment or header would store its code under the keys of this process."""
    (tmp_path / "v.h").write_text("#define VALUE 1")

    class Elsewhere(Immediate):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            with pytest.MonkeyPatch.context() as patch:
                if difference == "compiler":
                    patch.setattr(_digest, "compiler_identity", lambda *args: b"another")
                elif difference == "environment":
                    patch.setenv("LLVM_OVERRIDE_PRODUCER", "somebody")
                else:
                    (tmp_path / "v.h").write_text("#define VALUE 2")
                return super().submit(fn, *args, **kwargs)

    cache = InMemoryProgramCache()
    job = CompileJob('#include "v.h"\n__device__ int n = VALUE;', {"arch": "sm_90", "name": f"{tmp_path}/a.cu"}, "ptx")
    compile_many([job], cache=cache, executor=Elsewhere())
    assert len(cache) == 0
    compile_many([job], cache=cache, executor=Immediate())
    assert len(cache) == 1


def test_processes() -> None:
    """Jobs, results or failures of a batch could not be pickled for other processes."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        cache = InMemoryProgramCache()
        results = compile_many(jobs(1, 2, 3, target="ptx"), executor=pool, cache=cache)
        assert [list(code.symbol_mapping) for code in results] == [[f"scale<float, {n}>"] for n in (1, 2, 3)]
        assert len(cache) == 3
        with pytest.raises(BatchError) as caught:
            compile_many([*jobs(1, target="ptx"), CompileJob("nonsense", {"arch": 90})], executor=pool, cache=cache)
        assert isinstance(caught.value.errors[1], CUDAError)
        assert "nonsense" in caught.value.errors[1].log
        assert cache.statistics.hits == 1


def test_interrupt_right_behind_a_lock() -> None:
    """Ctrl-C in a lock that is Python code would leave it locked, so that the executor's threads wait forever."""

    class Interrupt(BaseException):
        pass

    class Daemon(Executor):
        """An executor whose thread does not keep the process from exiting."""

        def __init__(self) -> None:
            self.queue: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
            threading.Thread(target=self.run, daemon=True).start()

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            self.queue.put(future)
            return future

        def run(self) -> None:
            while True:
                future = self.queue.get()
                if future.set_running_or_notify_cancel():
                    future.set_result(_batch._Outcome(ObjectCode.from_ptx(b"// nothing"), "", b""))

    locks = {threading.Condition.__enter__.__code__, threading.Condition.__exit__.__code__}
    calls = 0

    def trace(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        if event == "call" and frame.f_code in locks:
            calls += 1
            if calls == stop:
                raise Interrupt

    executor, previous = Daemon(), sys.gettrace()
    for stop in itertools.count(1):
        calls = 0
        sys.settrace(trace)
        try:
            compile_many(jobs(1, 2, 3), executor=executor, progress=False)
        except Interrupt:
            pass
        finally:
            sys.settrace(previous)
        assert isinstance(executor.submit(int).result(10), _batch._Outcome)
        if calls < stop:
            break


def test_interrupted_worker() -> None:
    """After Ctrl-C in a worker, the jobs that have not begun would be compiled."""

    class Interrupted(Executor):
        """An executor whose first call is interrupted."""

        def __init__(self) -> None:
            self.futures: list[Future[Any]] = []

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.futures.append(Future())
            if len(self.futures) == 1:
                self.futures[0].set_exception(KeyboardInterrupt())
            return self.futures[-1]

    executor = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        compile_many(jobs(1, 2, 3), executor=executor)
    assert [future.cancelled() for future in executor.futures] == [False, True, True]


def test_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The progress would not be shown, or would be written to a file."""
    compile_many(jobs(1, 2))
    assert capsys.readouterr() == ("", "")
    pytest.importorskip("rich")
    compile_many(jobs(1, 2), progress=True)
    out, err = capsys.readouterr()
    assert (out, "2/2" in err) == ("", True)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert len(compile_many(jobs(1, 2))) == 2
    with pytest.raises(ImportError, match=r"pip install .cudacore-compile\[terminal\]"):
        compile_many(jobs(1, 2), progress=True)


def test_progress_in_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook, whose stderr is not a terminal, would show no progress, or print a warning."""
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert not _batch._is_watched()
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    for spec, watched in ((None, False), (ModuleSpec("ipywidgets", None), True)):
        monkeypatch.setattr(importlib.util, "find_spec", {"ipywidgets": spec}.get)
        assert _batch._is_watched() == watched


def test_a_pool_that_breaks() -> None:
    """If a worker is killed, a batch would wait forever, or raise only an error of the pool."""
    pool = ThreadPoolExecutor(1, initializer=lambda: 1 / 0)
    with pytest.raises(BatchError) as caught:
        compile_many(jobs(1, 2), executor=pool)
    assert "BrokenThreadPool" in repr(caught.value.errors[0])
    pool.shutdown()


def test_a_pool_that_takes_no_more() -> None:
    """Code that was compiled before the pool broke would be lost."""

    class Once(Immediate):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            if self.submitted:
                raise RuntimeError("no more")
            self.submitted += 1
            return super().submit(fn, *args, **kwargs)

        submitted = 0

    with pytest.raises(BatchError) as caught:
        compile_many(jobs(1, 2, 3), executor=Once())
    assert [type(error) for error in caught.value.errors.values()] == [RuntimeError, RuntimeError]
    assert [code is None for code in caught.value.results] == [False, True, True]
