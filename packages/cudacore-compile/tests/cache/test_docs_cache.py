# SPDX-License-Identifier: Apache-2.0
"""The examples of the guides to caches and batches, and to the command."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cudacore_compile import NVFatbinError, NVJitLinkError
from cudacore_compile._command import main
from cudacore_compile._compilers import process_state as _process_state
from guide_programs import DOCS, blocks_of


def has_linkers() -> bool:
    from cudacore_compile._compilers import nvjitlink
    from cudacore_compile._fatbin import _load

    try:
        _load()
        nvjitlink.load()
    except (NVFatbinError, NVJitLinkError):
        return False
    return True


def run_guide(name: str, least_commands: int) -> None:
    """Run the examples of a guide: Python programs and commands."""
    names: dict[str, Any] = {"__name__": "guide"}
    commands = 0
    for block in blocks_of(name, "python", "console"):
        if "class" in block.options and not has_linkers():
            continue
        if block.language == "python":
            exec(compile(block.code, name, "exec"), names)
            continue
        for line in block.code.strip().splitlines():
            prompt, command, *words = shlex.split(line)
            assert (prompt, command) == ("$", "cudacore-compile")
            assert main(words) == 0, line
            commands += 1
    assert commands >= least_commands or not has_linkers()


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_process_state, "_left", set())


def test_guide_to_caches(capsys: pytest.CaptureFixture[str]) -> None:
    """The examples of the guide would not work."""
    run_guide("compile-cache", 1)
    assert "1 of 2" in capsys.readouterr().out


def test_guide_to_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The examples of the guide would not work."""
    run_guide("command", 12)
    out, err = capsys.readouterr()
    assert "function.cu, ptx for sm_90: hit" in out
    assert Path("build/function.sm_80.cubin").exists()
    if has_linkers():
        assert "void scale<float>(float*, float)" in out
        lines = (DOCS / "command.rst").read_text(encoding="utf-8").splitlines()
        assert next(line.strip() for line in lines if line.startswith("   kernel  arch")) in err


def test_guide_to_clusters(tmp_path: Path) -> None:
    """Instances of CUB would not compile on a cluster, or users of a shared cache would compile them again."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    names: dict[str, Any] = {"__name__": "guide"}
    for block in blocks_of("compile-cluster", "python"):
        exec(compile(block.code, "compile-cluster", "exec"), names)
    try:
        jobs = names["make_jobs"](["int", "float"], [32], range(1, 3))
    except FileNotFoundError as error:  # there are no headers
        pytest.skip(str(error))
    jobs = [replace(job, target_type="ptx") for job in jobs]  # only this process has the simulator's cubins
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        codes, first = names["build"](client, jobs, tmp_path / "shared")
        again, second = names["build"](client, jobs, tmp_path / "shared")
    assert (first.hits, first.stores, second.hits, second.misses) == (0, len(jobs), len(jobs), 0)
    assert [code.code for code in again] == [code.code for code in codes]
    assert sorted(again[0].symbol_mapping) == ["sum<int, 32, 1>", "sum<int, 32, 2>"]
