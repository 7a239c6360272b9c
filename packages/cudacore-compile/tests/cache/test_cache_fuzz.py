# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("seed", [11, 20])
def test_random_programs(seed: int) -> None:
    """A cache would return old code for programs that hide what they include, or a file would not be in the key.

    ``nox -s fuzz_cache`` tries more.
    """
    script = Path(__file__).with_name("fuzz_cache.py")
    result = subprocess.run([sys.executable, str(script), "1", str(seed)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert " hits" in result.stdout
