# SPDX-License-Identifier: Apache-2.0
"""The files of program caches: damage, failures, limits, and what other processes leave."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest
from cache_programs import UsersCache, entry_files, forget, program

from cudacore_compile import FileStreamProgramCache
from cudacore_compile._cache import closure
from cudacore_compile._cache.entry import Entry


def test_damaged_files(tmp_path: Path) -> None:
    """A damaged entry would be loaded as code: cut off, changed, empty, of another kind, or of another version."""
    cache = FileStreamProgramCache(tmp_path)
    expected = program().compile("cubin", ["scale<int>"], cache=cache).code
    (file,) = entry_files(cache)
    whole = file.read_bytes()
    middle = len(whole) // 2
    damages = [b"", whole[:-1], whole[:middle], whole[1:], whole + b"\0", b"\0" * len(whole), os.urandom(len(whole))]
    damages += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in (0, middle, len(whole) - 1)]
    damages += [whole[: at % len(whole)] + whole[at % len(whole) + 1 :] for at in range(3, 4000, 333)]
    for count, damage in enumerate(damages, 1):
        (file,) = entry_files(cache)
        file.write_bytes(damage)
        assert program().compile("cubin", ["scale<int>"], cache=cache).code == expected
        assert cache.statistics.corrupt == count
    assert entry_files(cache)[0].read_bytes() == whole


def test_disk_is_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A compilation would fail because its code cannot be stored, or an incomplete entry would remain."""
    cache = FileStreamProgramCache(tmp_path)
    # A process's first compilation stores facts about the compiler and the source. It runs before the disk is full.
    program().compile("ptx", cache=FileStreamProgramCache(tmp_path / "other"))

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.warns(RuntimeWarning, match="could not be written: .*No space left"):
            code = program().compile("ptx", cache=cache)
        with pytest.raises(OSError, match="No space left"):
            cache["a"] = code
    assert code.code
    assert not list(tmp_path.rglob("*.tmp"))
    assert (len(cache), cache.statistics.failures) == (0, 1)


@pytest.mark.parametrize(("method", "verb"), [("__getitem__", "read"), ("__setitem__", "written")])
def test_cache_of_a_user_that_fails(monkeypatch: pytest.MonkeyPatch, method: str, verb: str) -> None:
    """A cache on a server that cannot be reached, with errors that are not OSErrors, would prevent compilations."""

    def fail(*_: object) -> None:
        raise RuntimeError("the server is away")

    monkeypatch.setattr(UsersCache, method, fail)
    cache = UsersCache()
    with pytest.warns(RuntimeWarning, match=f"could not be {verb}: .*the server is away"):
        assert program().compile("ptx", cache=cache).code
    assert cache.statistics.failures >= 1


def test_directory_that_cannot_be_read(tmp_path: Path) -> None:
    """An entry that cannot be opened would fail the compilation."""
    cache = FileStreamProgramCache(tmp_path)
    expected = program().compile("ptx", cache=cache).code
    (file,) = entry_files(cache)
    file.unlink()
    file.mkdir()
    with pytest.warns(RuntimeWarning, match="could not be"):
        assert program().compile("ptx", cache=cache).code == expected


def test_directory_that_goes(tmp_path: Path) -> None:
    """Removing the directory by hand would break the caches that use it."""
    cache = FileStreamProgramCache(tmp_path / "cache", max_size_bytes=10_000)
    cache["a"] = b"1"
    import shutil

    for path in ("v1/entries", "v1/entries/tmp", "v1", "."):
        shutil.rmtree(tmp_path / "cache" / path)
        assert len(cache) == path.endswith("tmp")
        assert cache.get("a") == (b"2" if path.endswith("tmp") else None)
        cache["a"] = b"2"
        assert cache["a"] == b"2"


def test_files_of_a_program_are_kept_for_other_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each process would read all headers, only to find that they are unchanged."""
    monkeypatch.chdir(tmp_path)
    Path("v.h").write_text("#define VALUE 1111")
    cache = FileStreamProgramCache("cache", max_size_bytes=100_000)
    code = '#include "v.h"\n__global__ void k(int *p) { *p = VALUE; }'
    first = program(code).compile("ptx", cache=cache)
    assert (len(cache), cache.statistics.stores) == (1, 1)
    assert cache.size_bytes > len(first.code) + 100
    forget()
    with monkeypatch.context() as patch:
        patch.setattr(closure, "_read", None)
        assert program(code).compile("ptx", cache=cache).code == first.code
    notes = [path for path in Path("cache").rglob("*.note") if b"v.h" in zlib.decompress(cache._read(str(path)).code)]
    for forged in (b"", b"short", b"\xff" * 100, bytes(100)):
        notes[0].write_bytes(Entry(zlib.compress(forged), {}).pack())
        forget()
        assert program(code).compile("ptx", cache=cache).code == first.code
    for damaged in (Entry(b"not compressed", {}).pack(), b"damaged"):
        notes[0].write_bytes(damaged)
        forget()
        assert program(code).compile("ptx", cache=cache).code == first.code
    notes[0].unlink()
    notes[0].mkdir()
    forget()
    assert program(code).compile("ptx", cache=cache).code == first.code
    notes[0].rmdir()
    forget()
    Path("v.h").write_text("#define VALUE 2222")
    assert "2222" in program(code).compile("ptx", cache=cache).code.decode()
    cache.clear()
    assert cache.size_bytes == 0


@pytest.mark.parametrize("place", ["entry", "note"])
def test_pipe_in_the_cache(tmp_path: Path, place: str) -> None:
    """A named pipe that somebody has put into the cache would block each process that opens it."""
    cache = FileStreamProgramCache(tmp_path, max_size_bytes=100_000)
    expected = program().compile("ptx", cache=cache).code
    for path in entry_files(cache) if place == "entry" else list(tmp_path.rglob("*.note")):
        path.unlink()
        os.mkfifo(path)
    forget()
    cache = FileStreamProgramCache(tmp_path, max_size_bytes=100_000)
    assert program().compile("ptx", cache=cache).code == expected
    cache["another"] = b"entry"
    assert cache["another"] == b"entry"


def test_what_a_killed_process_leaves(tmp_path: Path) -> None:
    """Incomplete files would fill the disk, or files that others write would be taken from them."""
    cache = FileStreamProgramCache(tmp_path, max_size_bytes=10_000)
    cache["a"] = b"1" * 3000
    abandoned, written = (tmp_path / "v1" / "entries" / "tmp" / name for name in ("abandoned.tmp", "written.tmp"))
    for path in (abandoned, written):
        path.write_bytes(b"half" * 1000)
    os.utime(abandoned, (0, 0))
    cache["b"] = b"2" * 3000
    assert (abandoned.exists(), written.exists(), len(cache), cache.statistics.evictions) == (False, True, 1, 1)
    cache.clear()
    assert (written.exists(), len(cache), cache.size_bytes) == (True, 0, 4000)


def test_processes_that_store_at_the_same_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The files of several processes would remain larger than the limit."""
    cache, other = (FileStreamProgramCache(tmp_path, max_size_bytes=10_000) for _ in range(2))
    cache["a"] = b"1" * 3000
    replace = os.replace

    def meanwhile(source: str, target: str) -> None:
        monkeypatch.setattr(os, "replace", replace)
        other["b"] = b"2" * 6000
        replace(source, target)

    monkeypatch.setattr(os, "replace", meanwhile)
    cache["c"] = b"3" * 6000
    assert cache.size_bytes <= 10_000
    assert cache["c"] == b"3" * 6000
