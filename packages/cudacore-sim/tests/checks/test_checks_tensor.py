# SPDX-License-Identifier: Apache-2.0
"""Tensor copies on two streams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from planted import FOLDER
from running import RUN, Run, compile_to_ptx

STORE = """
//! block=32
extern "C" __global__ void store(int *out, int *raw, const __grid_constant__ Map map, int row) {
  TILE();
  FILL();
  PUBLISH();
  __syncthreads();
  if (threadIdx.x == 0) {
    STORE(map, tile, row);
    COMMIT();
    WAIT_STORE();
  }
}
"""
TWO_STREAMS = """
import ctypes
from planted import tensor_map
module = cuda.out("cuModuleLoadData", open(PATH, "rb").read() + b"\\0")
out = cuda.allocate(4096)
cuda.cuMemsetD32_v2(out, 0, ctypes.c_size_t(1024))
cuda.cuCtxSynchronize()
for row in (0, ROW):
    stream = cuda.out("cuStreamCreate", 1)
    cuda.launch(module, "store", 1, 32, 0, out, out, tensor_map(cuda, out), ctypes.c_int(row), stream=stream)
cuda.cuCtxSynchronize()
print(json.dumps(cudacore_sim.reports()))
"""


@pytest.mark.parametrize(("row", "found"), [(8, False), (4, True)])
def test_two_streams(row: int, found: bool, run_python: Run, tmp_path: Path) -> None:
    """Stores of different boxes on two streams would be reported, or those of the same rows would not be."""
    path = tmp_path / "store.ptx"
    prelude = (FOLDER / "tensor.cu").read_text().partition("//! ")[0]
    path.write_text(compile_to_ptx(prelude + STORE, "store.cu"))
    result = run_python(RUN + TWO_STREAMS.replace("PATH", repr(str(path))).replace("ROW", str(row)), CHECK="order")
    assert result.returncode == 0, result.stderr
    assert any("order: " in one for one in json.loads(result.stdout)) is found, result.stdout
