# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a file again, with the work of the simulated device in shuffled orders."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from plugin_runs import EDITABLE, PLUGINS


def run_shuffled(path: str, *, seeds: tuple[int, ...]) -> None:
    """Run a test file once for each seed. In these runs, skip the test that calls this function."""
    if "CUDACORE_SIM_SHUFFLE" in os.environ:
        pytest.skip("this is one of the runs in another order")
    for seed in seeds:
        command = [sys.executable, "-m", "pytest", "-q", *PLUGINS, *EDITABLE, path]
        settings = {"CUDACORE_SIM_SHUFFLE": str(seed), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        result = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout[-4000:]
