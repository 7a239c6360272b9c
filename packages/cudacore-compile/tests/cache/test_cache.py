# SPDX-License-Identifier: Apache-2.0
"""Program caches as mappings, and as the storage of Program.compile."""

from __future__ import annotations

import io
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cache_programs import SOURCE, UsersCache, program

from cudacore_compile import (
    CompileJob,
    FileStreamProgramCache,
    InMemoryProgramCache,
    NVRTCError,
    Program,
    ProgramCacheResource,
    ProgramOptions,
    compile_many,
)
from cudacore_compile._cache.resource import LOCK
from cudacore_compile._compilers import nvrtc
from cudacore_handles import ObjectCode
from threads_at_once import in_threads

Make = Callable[..., ProgramCacheResource]


@pytest.fixture(params=["memory", "files"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Make caches in memory, or in files; the caches in files share a directory."""
    if request.param == "memory":
        return InMemoryProgramCache
    return lambda **options: FileStreamProgramCache(tmp_path / "cache", **options)


# -- mappings


def test_mapping(make: Make) -> None:
    """A cache would not be a mapping of keys to bytes, like a cache of cuda.core."""
    with make() as cache:
        cache["a"] = b"first"
        assert (cache[b"a"], cache.get("a"), len(cache)) == (b"first", b"first", 1)
        assert (cache.get("b"), cache.get("b", b"default")) == (None, b"default")
        cache.update({"b": bytearray(b"2"), b"c": memoryview(b"3")})
        cache.update([("d", b"")])
        assert [cache[key] for key in "bcd"] == [b"2", b"3", b""]
        cache["a"] = b"second"
        assert (cache["a"], len(cache)) == (b"second", 4)
        del cache["b"]
        with pytest.raises(KeyError, match="b"):
            cache["b"]
        with pytest.raises(KeyError, match="b"):
            del cache["b"]
        cache.clear()
        assert (len(cache), cache.get("a")) == (0, None)
    cache["closed"] = b"still works"
    assert cache["closed"] == b"still works"


def test_wrong_keys_and_values(make: Make) -> None:
    """An invalid key or value would be stored, and never found again."""
    cache = make()
    with pytest.raises(TypeError, match="key must be bytes or a str, not int"):
        cache[3]  # type: ignore[index]
    with pytest.raises(TypeError, match=r"value must be bytes, .* not str"):
        cache["a"] = "text"  # type: ignore[assignment]
    with pytest.raises(TypeError):
        "a" in cache  # type: ignore[operator]  # noqa: B015
    for wrong, message in ((0, "positive"), (-1, "positive")):
        with pytest.raises(ValueError, match=f"max_size_bytes must be {message}"):
            make(max_size_bytes=wrong)
    for wrong in ("1", True, 1.0):
        with pytest.raises(TypeError, match="max_size_bytes must be an int or None"):
            make(max_size_bytes=wrong)
    with pytest.raises(TypeError, match="path must be a str or a path, not int"):
        FileStreamProgramCache(3)  # type: ignore[arg-type]


def test_object_code_as_value(make: Make, tmp_path: Path) -> None:
    """The cache would store the path of an ObjectCode instead of its code."""
    file = tmp_path / "code.ptx"
    file.write_bytes(b"// code in a file")
    cache = make()
    cache["file"] = ObjectCode.from_ptx(file)
    cache["memory"] = ObjectCode.from_cubin(b"code")
    file.unlink()
    assert (cache["file"], cache["memory"]) == (b"// code in a file", b"code")


def test_least_recently_used_goes(make: Make) -> None:
    """A bounded cache would grow, or remove the entries that are used most."""
    size = 4000
    cache = make(max_size_bytes=3 * size + 500)  # an entry in a file also has a footer
    for key in "abc":
        cache[key] = key.encode() * size
        time.sleep(0.01)  # entries that are written in the same tick of the clock are equally old
    assert cache["a"] == b"a" * size
    cache["d"] = b"d" * size
    assert [cache.get(key) is not None for key in "abcd"] == [True, False, True, True]
    assert (cache.statistics.evictions, len(cache)) == (1, 3)
    cache["a"] = b"too large" * size
    assert cache.get("a") is None
    assert len(cache) == 2
    assert cache.statistics.evictions == 1


def test_threads(make: Make) -> None:
    """Threads that share a cache would read the entry of another key, or let the cache exceed its limit."""
    cache = make(max_size_bytes=40_000)

    def work(number: int) -> None:
        for i in range(60):
            key = f"{(number + i) % 12}"
            found = cache.get(key)
            assert found is None or found == key.encode() * (1000 + int(key)), key
            cache[key] = key.encode() * (1000 + int(key))

    in_threads(work, range(4))
    assert cache.size_bytes <= 40_000  # type: ignore[attr-defined]


# -- compilation


def test_templates_hit(make: Make) -> None:
    """Code from a cache would lack its lowered names or the kinds of its kernels' parameters."""
    cache = make()
    for target in ("cubin", "ptx", "ltoir"):
        cold = program().compile(target, ["scale<float>", "scale<double>"], cache=cache)
        if isinstance(cache, FileStreamProgramCache):
            cache = make()  # a new object has read nothing yet, like a cache of another process
        hits = cache.statistics.hits
        warm = program().compile(target, ["scale<double>", "scale<float>"], cache=cache)
        assert cache.statistics.hits == hits + 1
        for attribute in ("code", "code_type", "name", "symbol_mapping", "_signatures"):
            assert getattr(warm, attribute) == getattr(cold, attribute)
        assert set(warm.symbol_mapping) == {"scale<float>", "scale<double>"}
        assert pickle.loads(pickle.dumps(warm)).symbol_mapping == cold.symbol_mapping


def test_log_is_kept(make: Make) -> None:
    """The compiler's warnings would be missing from the log when the code comes from the cache."""
    cache = make()
    logs = [io.StringIO(), io.StringIO()]
    for log in logs:
        program().compile("ptx", logs=log, cache=cache)
    assert "unused" in logs[0].getvalue()
    assert logs[0].getvalue() == logs[1].getvalue()


def test_failures_are_not_kept(make: Make) -> None:
    """A program that does not compile would get a cache entry, or its error would be lost."""
    cache = make()
    for _ in range(2):
        log = io.StringIO()
        with pytest.raises(NVRTCError, match="does not compile"):
            program("nonsense").compile("ptx", logs=log, cache=cache)
        assert "error" in log.getvalue()
    assert (len(cache), cache.statistics.misses) == (0, 2)


def test_what_the_mapping_has(make: Make) -> None:
    """A cache would not map a key to the code itself, as a cache of cuda.core does."""
    from cudacore_compile import make_program_cache_key

    cache = make()
    options = ProgramOptions(arch="sm_90")
    code = Program(SOURCE, "c++", options).compile("cubin", ["scale<int>"], cache=cache).code
    key = make_program_cache_key(
        code=SOURCE, code_type="c++", options=options, target_type="cubin", name_expressions=["scale<int>"]
    )
    assert cache[key] == code
    # Bytes that a user stores have no lowered names, so a compilation that needs lowered names does not use the bytes.
    cache[key] = b"bytes of a user's"
    assert Program(SOURCE, "c++", options).compile("cubin", ["scale<int>"], cache=cache).code == code


def test_cache_of_a_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a user's cache that stores only bytes, lowered names would be lost, or damaged entries would be returned."""
    cache = UsersCache()
    cold = program().compile("cubin", ["scale<int>"], cache=cache)
    warm = program().compile("cubin", ["scale<int>"], cache=cache)
    assert (warm.code, warm.symbol_mapping) == (cold.code, cold.symbol_mapping)
    (key,) = cache.data
    cache.data[key] = cache.data[key].replace(b"scale", b"stale", 1)
    assert program().compile("cubin", ["scale<int>"], cache=cache).code == cold.code
    assert (cache.statistics.hits, cache.statistics.misses, cache.statistics.corrupt) == (1, 2, 1)
    with pytest.raises(TypeError, match="cache must be a ProgramCacheResource or None, not dict"):
        program().compile("cubin", cache={})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ([{"restrict": True}, {}, {"restrict": True, "lineinfo": True}], ["1", "1", "2"]),
        ([{"use_fast_math": True}, {}, {"lineinfo": True}], ["1", "2", "3"]),  # it does not affect the others
    ],
)
def test_process_with_options_that_nvrtc_keeps(
    python: Callable[..., Any], options: list[dict[str, Any]], kept: list[str]
) -> None:
    """Code that an earlier compilation in the process has affected would be cached for other processes, or none be."""
    result = python(f"""
        import warnings
        from cudacore_compile import *

        cache = InMemoryProgramCache()
        for options in {options}:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                Program("__global__ void f() {{}}", "c++", dict(options, arch="sm_90")).compile("ptx", cache=cache)
            print(len(cache))
    """)
    assert (result.stdout.split(), result.stderr) == (kept, "")


COMPILE_ELSEWHERE = """
    import ctypes, os, warnings
    from cudacore_compile import *
    from cudacore_compile._compilers.nvrtc import load

    def compile_elsewhere(*flags):
        program = ctypes.c_void_p()
        # Another program each time: NVRTC compiles nothing, and so keeps nothing, for one that the driver's cache has.
        source = b"__global__ void f_" + os.urandom(8).hex().encode() + b"() {}"
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"name", 0, None, None)
        assert not nvrtc.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))

    nvrtc = ctypes.CDLL(load().path)
    cache = InMemoryProgramCache()
"""


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ([b"--restrict"], {}),
        ([b"--optimization-info=inline"], {}),
        ([b"--restrict"], {"use_fast_math": True}),
        ([b"--use_fast_math", b"--gpu-architecture=compute_100"], {"arch": "sm_100"}),
    ],
)
def test_process_that_another_library_has_spoiled(
    python: Callable[..., Any], nvrtc_version: tuple[int, ...], flags: list[bytes], options: dict[str, Any]
) -> None:
    """Code with options that cuda.core, CuPy or numba have set would be returned to processes without these options."""
    if "arch" in options and nvrtc_version < (13, 5):
        pytest.skip("NVRTC 13.5 keeps --use_fast_math")
    result = python(
        COMPILE_ELSEWHERE
        + f"""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(4):
            if number == 2:
                compile_elsewhere(*{flags})
            source = "__global__ void f() {{}} //" + str(number)
            Program(source, "c++", {{"arch": "sm_90", **{options}}}).compile("ptx", cache=cache)
            print(len(cache), len(caught))
    print("NVRTC keeps these" in str(caught[0].message))
    """
    )
    assert (result.stdout.split(), result.stderr) == (["1", "0", "2", "0", "2", "1", "2", "1", "True"], "")


def test_what_is_kept_does_not_come_from_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code from the driver's cache would be stored: it has no log, and perhaps the options of other libraries."""
    given: list[Sequence[bytes]] = []
    compile_now = nvrtc.NVRTC.compile

    def remember(self: nvrtc.NVRTC, box: Any, request: Any, flags: list[bytes]) -> Any:
        given.append(flags)
        return compile_now(self, box, request, flags)

    monkeypatch.setattr(nvrtc.NVRTC, "compile", remember)
    program().compile("ptx")
    program().compile("ptx", cache=InMemoryProgramCache())
    compile_many([CompileJob(SOURCE, {"arch": "sm_90"}, "ptx")], cache=FileStreamProgramCache(tmp_path))
    compile_many([CompileJob(SOURCE, {"arch": "sm_90"}, "ptx")])
    with_option = nvrtc.load().version >= (12, 9)
    assert [b"--no-cache" in flags for flags in given] == [False, with_option, with_option, False]


def test_fork_while_another_thread_uses_a_cache() -> None:
    """A child process could wait for ever for a lock that a thread of its parent had when it was forked."""
    cache = InMemoryProgramCache()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            cache["a"] = b"1"
            assert cache["a"] == b"1"

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(200):
            child = os.fork()
            if child == 0:
                try:
                    signal.alarm(5)
                    cache["b"] = b"2"
                    os._exit(0 if cache["b"] == b"2" else 1)
                finally:
                    os._exit(99)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


def test_finalizer_that_uses_a_cache() -> None:
    """A garbage collection inside a cache that runs a finalizer which uses the cache would never end."""
    cache = InMemoryProgramCache()
    with LOCK:
        cache["a"] = b"1"
    assert cache["a"] == b"1"
