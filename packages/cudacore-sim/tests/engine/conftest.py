# SPDX-License-Identifier: Apache-2.0
"""Tests of the engine alone.

``meson.build`` in this folder builds it as a separate library, whose path is in $CUDACORE_SIM_ENGINE.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

# For the helper module harness: pytest imports test files without adding their folder to the path.
sys.path.append(str(Path(__file__).parent))

from harness import Engine, load


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The kernel engine of the simulator, through its C interface."""
    library = os.environ.get("CUDACORE_SIM_ENGINE")
    if not library:
        pytest.skip("needs the engine alone, libengine.so: build with -Dtests=true and name it in CUDACORE_SIM_ENGINE")
    return Engine(load(Path(library)))


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(20240229)
