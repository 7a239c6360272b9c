# SPDX-License-Identifier: Apache-2.0
"""The table of entry points, compared with the ``cuda.h`` that is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"
ROW = re.compile(r"^SIM_(?:FUNCTION|PER_THREAD|VERSION)\((.*)$", re.MULTILINE)
VERSION = re.compile(r"(?:cuda\.h of CUDA|#define CUDA_VERSION) (\d+)")

pytestmark = [
    pytest.mark.skipif(not TOOLS.is_dir(), reason="needs the sources"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
]


def test_every_function_is_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of a newer cuda.h would be missing, so programs would not even get an error that names it."""
    monkeypatch.syspath_prepend(TOOLS)
    from generate_entry_points import TABLE, table_of

    found = subprocess.run([sys.executable, TOOLS / "find_cuda_headers.py"], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(found.stderr)
    folder, table = Path(found.stdout.strip()), TABLE.read_text(encoding="utf-8")
    ours, theirs = (int(VERSION.findall(text)[0]) for text in (table, (folder / "cuda.h").read_text(encoding="utf-8")))
    if theirs < ours:
        pytest.skip(f"cuda.h is older, of CUDA {theirs}")
    assert sorted(set(ROW.findall(table_of(folder))) - set(ROW.findall(table))) == []
