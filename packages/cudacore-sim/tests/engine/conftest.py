# SPDX-License-Identifier: Apache-2.0
"""The engine, built for its tests."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

# The helper module beside the tests: pytest imports test files without changing the path.
sys.path.append(str(Path(__file__).parent))

from harness import Engine, build_shim, load


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The kernel engine of the simulator, behind its C interface."""
    return Engine(load(build_shim(Path(tmp_path_factory.mktemp("engine")))))


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(20240229)
