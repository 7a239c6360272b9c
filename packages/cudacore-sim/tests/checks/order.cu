/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that the programs of order.py launch: each accesses memory in one way. */

extern "C" __global__ void fill(int *to, int value) {
  to[threadIdx.x] = value;
}

extern "C" __global__ void copy(int *to, const int *from) {
  to[threadIdx.x] = from[threadIdx.x];
}

extern "C" __global__ void count(int *counter) {
  atomicAdd(counter, 1);
}

// Writes data, then sets a flag.
extern "C" __global__ void produce(int *data, int *flag) {
  data[threadIdx.x] = 7;
  __syncthreads();
  __threadfence();
  if (threadIdx.x == 0)
    atomicExch(flag, 1);
}

extern "C" __global__ void consume(int *to, const int *data, int *flag) {
  if (threadIdx.x == 0)
    while (atomicAdd(flag, 0) == 0)
      ;
  __syncthreads();
  __threadfence();
  to[threadIdx.x] = data[threadIdx.x];
}

// Runs long enough that work on another stream begins before it ends.
extern "C" __global__ void slow_fill(int *to, int value, int turns) {
  int one = value;
#pragma unroll 1
  for (int i = 0; i < turns; ++i)
    one = one * 5 + i;
  to[threadIdx.x] = one;
}
