# SPDX-License-Identifier: Apache-2.0
"""Check that programs that need the CUDA runtime fail, and say why: ``refused.py cupy|jax|warp``."""

from __future__ import annotations

import subprocess
import sys

PROGRAMS = {
    "cupy": "import cupy; print(int(cupy.arange(10).sum()))",
    "jax": """
import os
os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"  # which looks for cuDNN and other large libraries first
from jax._src import xla_bridge
from jaxlib import xla_client
xla_bridge.discover_pjrt_plugins()
print(xla_client.make_c_api_client("cuda", {}, None))""",
    "warp": "import warp; warp.init(); print(warp.array([1.0], device='cuda:0').numpy())",
}

done = subprocess.run([sys.executable, "-c", PROGRAMS[sys.argv[1]]], capture_output=True, text=True, check=False)
said = done.stdout + done.stderr
assert "cuGetExportTable" in said, said
assert "is not offered" in said, said
print("refused, and told why")
