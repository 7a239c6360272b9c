/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that write to the same place of global memory. `planted.py` explains the marks. */

//! grid=2 block=32
extern "C" __global__ void two_blocks_write_the_same(int *out, int *raw) {
  out[threadIdx.x] = 1; // both blocks write the same value, so their order does not matter
}

//! grid=2 block=32: in global memory
extern "C" __global__ void two_blocks_write_different(int *out, int *raw) {
  out[threadIdx.x] = blockIdx.x + 1; // FOUND OTHER
}

//! grid=3 block=1: in global memory
extern "C" __global__ void third_block_reads(int *out, int *raw) {
  if (blockIdx.x < 2)
    out[0] = 1; // FOUND OTHER both write the same value, but the reader can see the old one
  else
    out[1] = out[0]; // FOUND OTHER
}
