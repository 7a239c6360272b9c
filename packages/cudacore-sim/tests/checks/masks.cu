/* SPDX-License-Identifier: Apache-2.0 */
/* Masks that name lanes which went elsewhere, whichever lanes run first. `planted.py` explains the marks. */

/* The lanes that go elsewhere run first, and have ended when the others come. */
//! block=32: the mask 0xffffffff names lane 16, which never came
extern "C" __global__ void elsewhere_first(int *out, int *raw) {
  if (threadIdx.x >= 16) {
    out[threadIdx.x] = 1;
    return; // FOUND
  }
  __syncwarp(); // FOUND
  out[threadIdx.x] = 2;
}

//! block=32: the mask 0xffffffff names lane 16, which never came
extern "C" __global__ void elsewhere_last(int *out, int *raw) {
  if (threadIdx.x < 16)
    __syncwarp(); // FOUND
  else
    out[threadIdx.x + 64] = 1;
  out[threadIdx.x] = 2;
}

/* The work elsewhere has a loop, which ends with a branch. */
//! block=32: names lane 16, which never came
extern "C" __global__ void elsewhere_in_a_loop(int *out, int *raw) {
  if (threadIdx.x >= 16) {
#pragma unroll 1
    for (int i = 0; i < out[100] + 3; i++)
      out[threadIdx.x] += i;
    return; // FOUND
  }
  out[threadIdx.x] = __shfl_xor_sync(0xffffffff, threadIdx.x, 1); // FOUND
}

/* Lanes that leave a loop earlier than others go on with other work. */
//! block=32: names lane 0, which never came
extern "C" __global__ void fewer_rounds(int *out, int *raw) {
#pragma unroll 1
  for (int i = out[100]; i < threadIdx.x / 16 + 1; i++)
    __syncwarp(); // FOUND
  out[threadIdx.x] = 2;
}

/* The lanes end, but do nothing else, as programs do that check their bounds. */
//! block=32
extern "C" __global__ void only_end_right(int *out, int *raw) {
  out[threadIdx.x] = 1;
  if (threadIdx.x >= 16)
    return;
  __syncwarp();
  out[threadIdx.x] = 2;
}

/* Before they end, the lanes execute their part together with the others. */
//! block=32
extern "C" __global__ void end_after_it_right(int *out, int *raw) {
  if (threadIdx.x >= 16)
    out[threadIdx.x] = 1;
  else
    out[threadIdx.x] = 2;
  __syncwarp();
  if (threadIdx.x >= 16)
    return;
  out[threadIdx.x] += __shfl_xor_sync(0xffff, threadIdx.x, 1);
  __syncwarp(0xffff);
}
