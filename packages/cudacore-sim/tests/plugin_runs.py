# SPDX-License-Identifier: Apache-2.0
"""Runs of pytest in separate processes, with the pytest plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

import cudacore_sim

# Without the other plugins that are installed: importing them takes longer than the tests of these projects. For the
# same reason, pytest is not started again with the preloaded library, unless a test asks for it.
PLUGINS = ["-p", "no:cacheprovider", "-p", "cudacore_sim", "-o", "cuda_preload=false"]

# pytest warns that an editable install has imported a module before pytest could rewrite its assertions.
EDITABLE = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
STRICT = ["-W", "error", *EDITABLE]

PRELUDE = """
import ctypes
import pytest

cu = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cu.cuCtxSetCurrent(context)

def stream():
    made = ctypes.c_void_p()
    assert cu.cuStreamCreate(ctypes.byref(made), 0) == 0
    return made
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Return a project whose tests run in separate processes, with the plugin and without this run's settings."""
    monkeypatch.setenv("CUDACORE_SIM_LIBRARY", cudacore_sim.get_library())
    monkeypatch.setenv("PYTHONPATH", str(Path(cudacore_sim.__file__).parents[1]))
    monkeypatch.delenv("CUDACORE_DRIVER", raising=False)
    monkeypatch.delenv("CUDACORE_SIM_INSTRUCTION_LIMIT", raising=False)
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(EDITABLE))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    # A bytecode file is found by the time and the size of its source: two tests of a second can have the same.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return pytester


def run(project: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    project.makepyfile(PRELUDE + tests)
    return project.runpytest_subprocess(*PLUGINS, *options)
