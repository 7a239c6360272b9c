# SPDX-License-Identifier: Apache-2.0
"""The functions that CUDA's headers declare: what NVRTC makes of calls of them loads on the simulator.

With SWEEP_ALL_HEADERS=1, as in the weekly workflow, all of them are compiled for more targets; otherwise a sample.
"""

from __future__ import annotations

import os

import pytest
from harness import Engine
from intrinsics import calls, compile_calls

SWEEP = bool(os.environ.get("SWEEP_ALL_HEADERS"))
TARGETS = ("75", "80", "86", "89", "90", "100", "100a", "120", "120a") if SWEEP else ("75", "90")


@pytest.mark.parametrize("target", TARGETS)
def test_functions_of_headers(engine: Engine, target: str) -> None:
    """A kernel that calls an intrinsic function could not be loaded."""
    expressions = calls() if SWEEP else calls()[::25]
    assert len(expressions) > (800 if SWEEP else 30)
    loaded = 0
    for first in range(0, len(expressions), 150):
        text = compile_calls(expressions[first : first + 150], f"compute_{target}")
        loaded += len(engine.ptx(text).kernels)
    assert loaded > len(expressions) * 0.7  # not all targets have all functions
