# SPDX-License-Identifier: Apache-2.0
"""Projects whose tests run in separate processes, with the pytest plugin."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

import cudacore_sim

# Whether pytest loads the plugin on its own, which it does if the wheel is installed.
INSTALLED = any(point.name == "cudacore_sim" for point in entry_points(group="pytest11"))
PLUGINS = ["-p", "no:cacheprovider", "-p", "no:randomly", *([] if INSTALLED else ["-p", "cudacore_sim.pytest_plugin"])]

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
    return pytester


def run(project: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    project.makepyfile(PRELUDE + tests)
    return project.runpytest_subprocess(*PLUGINS, *options)
