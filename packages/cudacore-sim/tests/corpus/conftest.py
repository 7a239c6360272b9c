# SPDX-License-Identifier: Apache-2.0
"""Makes the package ``corpus`` importable, wherever pytest was started; fixtures for its kernels."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import cudacore_sim

if TYPE_CHECKING:
    from corpus.machine import Machine, Program

sys.path.append(str(Path(__file__).resolve().parents[1]))


@pytest.fixture(scope="module")
def machine(on_gpu: bool) -> Iterator[Machine]:
    """Yield a device of the driver that --cuda-driver selects; by default, of the simulated driver."""
    from corpus.machine import Machine

    with Machine(ctypes.CDLL("libcuda.so.1") if on_gpu else cudacore_sim.load()) as machine:
        yield machine


@pytest.fixture(scope="module")
def program(machine: Machine, request: pytest.FixtureRequest) -> Iterator[Program]:
    """Yield a loaded file of kernels. Each file is loaded only once, because pytest groups its tests by file."""
    with machine.load(request.param) as program:
        yield program
