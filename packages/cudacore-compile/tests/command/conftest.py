# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of the command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from compile_sources import Python


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give one cache for all tests of a file, because they compile the same sources."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def process() -> Python:
    """Run the command, or other code that stands for it, in a process of its own."""

    def process(*words: str, code: str = "", given: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *(("-c", code) if code else ("-m", "cudacore_compile")), *words],
            env=os.environ | env,
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=120,
            check=False,
        )

    return process


@pytest.fixture
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test in a folder of its own, with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def _shared_cache(_own_folder: None, monkeypatch: pytest.MonkeyPatch, shared_cache: str) -> None:
    """Run the test in a folder of its own, with the cache of its file."""
    monkeypatch.setenv("XDG_CACHE_HOME", shared_cache)
