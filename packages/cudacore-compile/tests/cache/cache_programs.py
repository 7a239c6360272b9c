# SPDX-License-Identifier: Apache-2.0
"""Programs, some with headers that change, for the tests of program caches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cudacore_compile import (
    FileStreamProgramCache,
    InMemoryProgramCache,
    Program,
    ProgramCacheResource,
    ProgramOptions,
    make_program_cache_key,
)
from cudacore_compile._cache import closure as _closure
from cudacore_compile._cache import states as _states
from cudacore_handles import ObjectCode

SOURCE = """
template <class T> __global__ void scale(T *out, T by, long n) { *out *= by; }
extern "C" __global__ void one(float *out) { int unused; *out = 1; }
"""
COMPILE = (Program, "_compile_now")
KERNEL = '\nextern "C" __global__ void k(int *p) { *p = VALUE; }'


@pytest.fixture
def in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start in an empty directory, with empty caches of files."""
    monkeypatch.chdir(tmp_path)
    forget()


def forget() -> None:
    """Clear what this process remembers about files, so that the next lookup begins as in a new process."""
    _states._known.clear()
    _closure.is_installed.cache_clear()
    _closure._scan_text.cache_clear()
    _closure.scan.cache_clear()


def key(code: str = KERNEL, *, headers: Any = None, extra: bytes | None = None, **options: Any) -> bytes:
    arguments: dict[str, Any] = {"code_type": "c++", "target_type": "ptx", "extra_digest": extra, "headers": headers}
    for name in ("target_type", "name_expressions"):
        if name in options:
            arguments[name] = options.pop(name)
    options.setdefault("arch", "sm_90")
    return make_program_cache_key(code=code, options=ProgramOptions(**options), **arguments)


def write(path: str, text: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    return path


def value_of(code: ObjectCode) -> int:
    assert isinstance(code.code, bytes)
    found = re.search(r", (1111|2222|3333);", code.code.decode())
    assert found is not None
    return int(found[1])


def check(includes: str, *, change: Callable[[int], object], headers: Any = None, **options: Any) -> None:
    """Compile with a cache while included files change, and compare a hit with a compilation without a cache."""
    cache = InMemoryProgramCache()
    options.setdefault("arch", "sm_90")
    for number in (1111, 2222, 2222, 3333):
        change(number)
        hits = cache.statistics.hits
        program = Program(includes + KERNEL, "c++", ProgramOptions(**options), headers=headers)
        cached = program.compile("ptx", cache=cache)
        assert value_of(cached) == number
        if cache.statistics.hits > hits:
            assert cached.code == program.compile("ptx").code
    assert (cache.statistics.hits, cache.statistics.misses, cache.statistics.uncacheable) == (1, 3, 0)


def program(source: str = SOURCE, **options: Any) -> Program:
    options.setdefault("arch", "sm_90")
    return Program(source, "c++", ProgramOptions(**options))


class UsersCache(ProgramCacheResource):
    """A cache that a user implemented, which stores only bytes."""

    def __init__(self) -> None:
        self.data: dict[Any, Any] = {}

    def __getitem__(self, key: bytes | str) -> bytes:
        return self.data[key.encode() if isinstance(key, str) else key]  # type: ignore[no-any-return]

    def __setitem__(self, key: bytes | str, value: bytes | bytearray | memoryview | ObjectCode) -> None:
        assert isinstance(value, bytes)
        self.data[key.encode() if isinstance(key, str) else key] = value

    def __delitem__(self, key: bytes | str) -> None:
        del self.data[key.encode() if isinstance(key, str) else key]

    def __len__(self) -> int:
        return len(self.data)

    def clear(self) -> None:
        self.data.clear()


@contextmanager
def meanwhile(
    before: Callable[[], object], after: Callable[[], object] = lambda: None, of: tuple[type, str] = COMPILE
) -> Iterator[None]:
    """Have something happen just before, and just after, the compiler or the linker runs."""
    real = getattr(*of)

    def run(*args: Any, **kwargs: Any) -> Any:
        before()
        result = real(*args, **kwargs)
        after()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*of, run)
        yield


def entry_files(cache: ProgramCacheResource) -> list[Path]:
    assert isinstance(cache, FileStreamProgramCache)
    return [path for path in (cache.directory / "v1" / "entries").rglob("*") if path.is_file() and not path.suffix]
