# SPDX-License-Identifier: Apache-2.0
"""Check that programs that need the CUDA runtime fail with an error that gives the reason: ``refused.py cupy|warp``."""

from __future__ import annotations

import subprocess
import sys

PROGRAMS = {
    "cupy": "import cupy; print(int(cupy.arange(10).sum()))",
    "warp": "import warp; warp.init(); print(warp.array([1.0], device='cuda:0').numpy())",
}

done = subprocess.run([sys.executable, "-c", PROGRAMS[sys.argv[1]]], capture_output=True, text=True, check=False)
said = done.stdout + done.stderr
assert "cuGetExportTable" in said, said
assert "is not offered" in said, said
print("refused, and told why")
