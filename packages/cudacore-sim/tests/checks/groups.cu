/* SPDX-License-Identifier: Apache-2.0 */
/* Cooperative groups, for the checks race and sync. `planted.py` explains the marks. */

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>

namespace cg = cooperative_groups;

//! block=32 grid=4 cooperative=1
extern "C" __global__ void grid_right(int *out, int *raw) {
  raw[blockIdx.x * 32 + threadIdx.x] = threadIdx.x;
  cg::this_grid().sync();
  out[blockIdx.x * 32 + threadIdx.x] = raw[(3 - blockIdx.x) * 32 + threadIdx.x];
}

//! block=32 grid=4 cooperative=1: race: ~ of block
extern "C" __global__ void block_instead_of_grid(int *out, int *raw) {
  raw[blockIdx.x * 32 + threadIdx.x] = threadIdx.x; // FOUND
  cg::this_thread_block().sync();
  out[blockIdx.x * 32 + threadIdx.x] = raw[(3 - blockIdx.x) * 32 + threadIdx.x]; // OTHER
  cg::this_grid().sync();
}

//! block=32
extern "C" __global__ void tile_right(int *out, int *raw) {
  __shared__ int part[32];
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  part[threadIdx.x] = threadIdx.x;
  tile.sync();
  out[threadIdx.x] = part[threadIdx.x ^ 7];
}

//! block=32: race: ~ in shared memory: 'tile_that_is_too_small::part'
extern "C" __global__ void tile_that_is_too_small(int *out, int *raw) {
  __shared__ int part[32];
  auto tile = cg::tiled_partition<4>(cg::this_thread_block());
  part[threadIdx.x] = threadIdx.x; // FOUND
  tile.sync();
  out[threadIdx.x] = part[threadIdx.x ^ 7]; // OTHER
}

//! block=128
extern "C" __global__ void two_warps_right(int *out, int *raw) {
  __shared__ int part[128];
  __shared__ cg::block_tile_memory<128> memory;
  auto tile = cg::tiled_partition<64>(cg::this_thread_block(memory));
  part[threadIdx.x] = threadIdx.x;
  tile.sync();
  out[threadIdx.x] = part[threadIdx.x ^ 63];
}

//! block=128: race: ~ in shared memory: 'two_warps_of_four::part'
extern "C" __global__ void two_warps_of_four(int *out, int *raw) {
  __shared__ int part[128];
  __shared__ cg::block_tile_memory<128> memory;
  auto tile = cg::tiled_partition<64>(cg::this_thread_block(memory));
  part[threadIdx.x] = threadIdx.x; // FOUND
  tile.sync();
  out[threadIdx.x] = part[threadIdx.x ^ 127]; // OTHER
}

//! block=64
extern "C" __global__ void copy_right(int *out, int *raw) {
  __shared__ alignas(16) int tile[64];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, tile, out, sizeof tile);
  cg::wait(block);
  out[64 + threadIdx.x] = tile[63 - threadIdx.x];
}

//! block=64: race: ~ in shared memory: 'copy_without_a_wait::tile'
extern "C" __global__ void copy_without_a_wait(int *out, int *raw) {
  __shared__ alignas(16) int tile[64];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, tile, out, sizeof tile);
  block.sync();
  out[64 + threadIdx.x] = tile[63 - threadIdx.x]; // FOUND
  cg::wait(block);
}
