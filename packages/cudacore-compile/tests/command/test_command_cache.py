# SPDX-License-Identifier: Apache-2.0
"""The cache of the command: its listing, clearing and explanations."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cache_programs import entry_files
from compile_sources import Python, Run

from cudacore_compile import FileStreamProgramCache
from cudacore_compile._command import explain as _explain
from cudacore_compile._command.arguments import make_parser, parse
from cudacore_compile._command.plan import make_plan
from cudacore_compile._command.subcommands import _STATISTICS

WORDS = ("k.cu", "-arch=sm_90", "-ptx")


@pytest.fixture(autouse=True)
def _sources(_own_folder: None) -> None:
    Path("k.cu").write_text('#include "h.h"\nextern "C" __global__ void f() {}\n')
    Path("h.h").write_text("")


def test_statistics(run: Run) -> None:
    """The cache's benefit could not be seen, because each command would forget the number of its cache hits."""
    assert run("cache")[1].splitlines()[1].startswith("0 hits, 0 misses (0% hits)")
    for _ in range(3):
        assert run(*WORDS)[0] == 0
    assert run("cache")[1].splitlines()[1].startswith("2 hits, 1 misses (67% hits), 0 uncacheable, 1 stored")
    statistics = json.loads(run("cache", "--format", "json")[1])["statistics"]
    assert (statistics["hits"], statistics["misses"], round(statistics["hit_rate"], 2)) == (2, 1, 0.67)
    assert run("cache", "clear")[0] == 0
    assert json.loads(run("cache", "--format", "json")[1])["statistics"]["hits"] == 0


def test_names_that_are_not_utf8(process: Python) -> None:
    """For a source or a directory whose name is not UTF-8, the command would end with a traceback."""
    name = os.fsdecode(b"k\xff")
    for prefix, words in (
        (f"{name}/cache\n", ["cache", "path", "--cache-dir", f"{name}/cache"]),
        (f"{name}.cu, ptx for sm_90: miss\n", ["cache", "explain", f"{name}.cu", "-arch=sm_90", "-ptx"]),
        (f"{name}.cu, cubin for sm_90:\n", [f"{name}.cu", "-arch=sm_90", "--list-kernels"]),
        (f"{name}.ptx: \\\n {name}.cu", [f"{name}.cu", "-arch=sm_90", "-ptx", "-MD", "-MF", "-"]),
    ):
        Path(f"{name}.cu").write_text(Path("k.cu").read_text())
        result = process(*words, PYTHONUTF8="1")
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.startswith(prefix)


@pytest.mark.parametrize("text", [b"", b"damaged", b"\xff", b"[]", b'{"hits": []}', b'{"hits": "3", "unknown": 1}'])
def test_damaged_statistics(run: Run, text: bytes) -> None:
    """A damaged file of statistics would make builds fail."""
    FileStreamProgramCache()._save_note(_STATISTICS, text)
    assert run(*WORDS)[::2] == (0, "")
    assert json.loads(run("cache", "--format", "json")[1])["statistics"]["misses"] == 1


def test_clear_makes_nothing(run: Run) -> None:
    """Clearing a cache in a directory that does not exist would create the directory, perhaps with a misspelt name."""
    status, out, _ = run("cache", "clear", "--cache-dir", "typo")
    assert (status, out.startswith("0 entries, 0.0 MB, removed from"), Path("typo").exists()) == (0, True, False)


def test_errors_in_json(run: Run) -> None:
    """A program that reads the state of the cache would get text instead of JSON."""
    Path("file").write_text("")
    status, _, err = run("cache", "--cache-dir", "file/cache", "--format", "json")
    (message,) = json.loads(err)
    assert (status, message["severity"], "cannot be made there" in message["message"]) == (1, "error", True)


def explain(run: Run, *words: str) -> dict[str, Any]:
    status, out, _ = run("cache", "explain", *(words or WORDS), "--format", "json")
    assert status == 0
    (answer,) = json.loads(out)
    return answer


def test_explanations(run: Run) -> None:
    """A user with slow builds would not learn why code is compiled again."""
    assert explain(run)["reasons"] == ["this command has not compiled it for this architecture and format yet"]
    assert run(*WORDS)[0] == 0
    assert (explain(run)["state"], explain(run)["reasons"]) == ("hit", [])
    assert run("cache", "explain", *WORDS)[1] == "k.cu, ptx for sm_90: hit\n"
    Path("h.h").write_text("// changed")
    assert (explain(run)["state"], explain(run)["reasons"]) == ("miss", ["h.h has changed"])
    Path("h.h").write_text("")
    answer = explain(run, *WORDS, "-D", "N=1", "-std=c++17")
    assert answer["reasons"] == ["options are new: --define-macro=N=1 --std=c++17"]
    Path("k.cu").write_text('extern "C" __global__ void f() {}\n')
    assert explain(run)["reasons"] == ["the source has changed", "h.h is included no more"]
    assert run(*WORDS)[0] == 0
    for path in entry_files(FileStreamProgramCache()):
        path.unlink()
    assert explain(run)["reasons"][0].startswith("nothing has changed: the entry was removed to make room")
    Path("k.cu").write_text("__device__ const char *now = __TIME__; __global__ void f() {}")
    answer = explain(run)
    assert (answer["state"], "__TIME__" in answer["reasons"][0]) == ("uncacheable", True)
    assert explain(run, *WORDS, "-X", "time=-")["state"] == "uncacheable"
    assert run("cache", "explain", *WORDS, "--no-cache")[0] == 2
    status, _, err = run("cache", "explain", "missing.cu", "-arch=sm_90")
    assert (status, err) == (1, "cudacore-compile: error: [Errno 2] No such file or directory: 'missing.cu'\n")


def test_records_belong_to_the_cache(run: Run) -> None:
    """The data for explanations would grow for ever, whatever the limit of the cache is."""
    assert run(*WORDS)[0] == 0
    cache = FileStreamProgramCache()
    names = {path.name for path in cache.directory.iterdir()}
    assert names == {"v1"}
    with_records = cache.size_bytes
    assert explain(run)["state"] == "hit"
    (item,) = _explain._compilations(make_plan(parse(make_parser(), WORDS)))
    record = _explain._record_key(item)
    assert json.loads(cache._load_note(record) or b"")["names"] == []
    small = FileStreamProgramCache(max_size_bytes=with_records)
    small["another"] = b"entry" * (with_records // 5 - 20)
    assert small.size_bytes <= with_records
    assert cache._load_note(record) is None


@pytest.mark.usefixtures("_nvjitlink")
def test_explanations_of_links(run: Run) -> None:
    """A user with slow links would not learn why code is linked again."""
    Path("g.cu").write_text("__device__ int g() { return 1; }")
    words = ["k.cu", "g.cu", "--link", "-arch=sm_90", "-o", "all.cubin"]

    def explain_link(*more: str) -> tuple[str, list[str]]:
        status, out, _ = run("cache", "explain", *words, *more, "--format", "json")
        answers = json.loads(out)
        assert (status, [one["file"] for one in answers]) == (0, ["k.cu", "g.cu", "all.cubin"])
        return answers[-1]["state"], answers[-1]["reasons"]

    state, (reason,) = explain_link()
    assert (state, reason.endswith("these must be compiled first: k.cu, g.cu")) == ("unknown", True)
    assert run(*words)[0] == 0
    assert explain_link() == ("hit", [])
    text = run("cache", "explain", *words)[1]
    assert text.splitlines()[-1] == "all.cubin, cubin for sm_90: hit"
    assert explain_link("-maxrregcount=32")[0] == "unknown"
    Path("g.cu").write_text("__device__ int g() { return 2; }")
    assert run("g.cu", "-arch=sm_90", "-rdc=true", "--to", "cubin")[0] == 0
    assert explain_link() == ("miss", ["the code of g.cu has changed"])
    assert run(*words)[0] == 0
    answers = json.loads(run("cache", "explain", "g.cu", "k.cu", *words[2:], "--format", "json")[1])
    assert answers[-1]["reasons"] == ["files are linked in another order"]
    answers = json.loads(run("cache", "explain", "k.cu", *words[2:], "--format", "json")[1])
    assert answers[-1]["reasons"] == ["g.cu is linked no more"]
    FileStreamProgramCache().clear()
    Path("all.cubin").unlink()
    assert explain_link()[0] == "unknown"


def test_explanations_of_what_cannot_be_compiled(run: Run) -> None:
    """``cache explain`` would end in a traceback for a command whose options contradict each other."""
    for words in (
        ("k.cu", "-arch=compute_90", "--to", "cubin"),
        ("k.cu", "-arch=compute_90", "--link", "-o", "a.cubin"),
    ):
        status, _, err = run("cache", "explain", *words)
        assert (status, "Traceback" in err) == (1, False)
        assert "virtual architecture" in err
