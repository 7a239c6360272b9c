# SPDX-License-Identifier: Apache-2.0
"""Programs of NVIDIA's cuda.core, unmodified, on the simulated driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cudacore_sim

PROGRAMS = Path(__file__).with_name("programs")


@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="AddressSanitizer's frames hide that it is NVRTC that asks for cuGetExportTable, which is reported then",
)
@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.2.6", reason="NumPy 2.2.0 and older cannot write to cuda.core's buffers"
)
@pytest.mark.parametrize("program", ["vector_add.py", "saxpy.py", "graphs.py"])
def test_programs(program: str) -> None:
    """A program that uses cuda.core would not run on the simulator, or misuse by the program would go unreported."""
    # cuda.core warns if the compiler is newer than the driver.
    settings = {"CUDACORE_SIM_LIBRARY": cudacore_sim.get_library(), "CUDACORE_SIM_DRIVER_VERSION": "13.9"}
    command = [sys.executable, "-m", "cudacore_sim", sys.executable, str(PROGRAMS / program)]
    result = subprocess.run(
        command, env=os.environ | settings, capture_output=True, text=True, timeout=120, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "right\n", "")
