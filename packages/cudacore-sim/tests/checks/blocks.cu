/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that write to the same place of global memory. test_checks.py says how to read this. */

//! grid=2 block=32
extern "C" __global__ void two_blocks_write_the_same(int *out, int *raw) {
  out[threadIdx.x] = 1; // the same from both: whichever is the last, the result is the same
}

//! grid=2 block=32: in global memory
extern "C" __global__ void two_blocks_write_different(int *out, int *raw) {
  out[threadIdx.x] = blockIdx.x + 1; // FOUND OTHER
}

//! grid=3 block=1: in global memory
extern "C" __global__ void third_block_reads(int *out, int *raw) {
  if (blockIdx.x < 2)
    out[0] = 1; // FOUND OTHER the same from both, but a reader can see the old value
  else
    out[1] = out[0]; // FOUND OTHER
}
