# SPDX-License-Identifier: Apache-2.0
"""Tests of the engine alone.

``meson.build`` in this folder builds the engine as a separate library, whose path is in $CUDACORE_SIM_ENGINE.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

# The tests import the helper module harness, but pytest does not add their folder to ``sys.path``.
sys.path.append(str(Path(__file__).parent))

from harness import Engine, load


@pytest.fixture(scope="session")
def engine() -> Engine:
    """Return the kernel engine of the simulator, which is called through its C interface."""
    library = os.environ.get("CUDACORE_SIM_ENGINE")
    if not library:
        pytest.skip("needs the engine alone, libengine.so: build with -Dtests=true and name it in CUDACORE_SIM_ENGINE")
    return Engine(load(Path(library)))


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator of random numbers, which are the same in every run."""
    return np.random.default_rng(20240229)
