/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of memory that was never written, and correct reads that look similar. `planted.py` explains the marks. */

#define ZERO out[1000] /* 0, which the compiler cannot assume */

//! block=32: uninitialized read of 4 bytes ~ in global memory, 0 bytes into the 4096 bytes of device memory
extern "C" __global__ void global_memory(int *out, int *raw) {
  out[threadIdx.x] = raw[threadIdx.x]; // FOUND
}

//! block=32
extern "C" __global__ void global_memory_right(int *out, int *raw) {
  raw[threadIdx.x] = out[threadIdx.x]; // the host has filled `out`
  out[threadIdx.x] = raw[threadIdx.x];
}

//! block=32: 256 bytes into
extern "C" __global__ void beyond_what_was_written(int *out, int *raw) {
  for (int i = 0; i < 2; ++i)
    raw[i * 32 + threadIdx.x] = i;
  out[threadIdx.x] = raw[64 + threadIdx.x]; // FOUND
}

//! block=32: uninitialized read of 16 bytes
extern "C" __global__ void vector(int *out, int *raw) {
  int4 four = reinterpret_cast<int4 *>(raw)[threadIdx.x]; // FOUND
  out[threadIdx.x] = four.x + four.w;
}

//! block=32
extern "C" __global__ void vector_right(int *out, int *raw) {
  raw[threadIdx.x * 4] = 1; // one element of four: the others may be padding
  int4 four = reinterpret_cast<int4 *>(raw)[threadIdx.x];
  out[threadIdx.x] = four.x;
}

//! block=32: uninitialized read of 4 bytes ~ in global memory
extern "C" __global__ void counter(int *out, int *raw) {
  atomicAdd(raw + 3, 1); // FOUND
}

//! block=32
extern "C" __global__ void counter_right(int *out, int *raw) {
  atomicExch(raw + 3, 0);
  atomicAdd(raw + 3, 1);
}

//! block=32: uninitialized read of 4 bytes ~ in shared memory: 'shared_memory::tile'
extern "C" __global__ void shared_memory(int *out, int *raw) {
  __shared__ int tile[32];
  if (threadIdx.x == 40)
    tile[0] = 1;
  out[threadIdx.x] = tile[threadIdx.x]; // FOUND
}

//! block=32: in shared memory: 'last_element::tile' + 124
extern "C" __global__ void last_element(int *out, int *raw) {
  __shared__ int tile[32];
  if (threadIdx.x < 31)
    tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[31 - threadIdx.x]; // FOUND
}

//! block=32 grid=2
extern "C" __global__ void last_element_right(int *out, int *raw) {
  __shared__ int tile[32];
  tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[31 - threadIdx.x];
}

//! block=32 grid=2: block (1,0,0)
extern "C" __global__ void written_by_another_block(int *out, int *raw) {
  __shared__ int tile[32];
  if (blockIdx.x == 0)
    tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x]; // FOUND
}

//! block=32 shared=256: in shared memory: 'dynamic' + 128
extern "C" __global__ void dynamic_shared(int *out, int *raw) {
  extern __shared__ int dynamic[];
  dynamic[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = dynamic[threadIdx.x + 32]; // FOUND
}

//! block=32: in local memory
extern "C" __global__ void local_memory(int *out, int *raw) {
  int mine[8];
#pragma unroll 1
  for (int i = 0; i < 4; ++i)
    mine[ZERO + i] = i;
  out[threadIdx.x] = mine[4 + ZERO]; // FOUND
}

//! block=32
extern "C" __global__ void local_memory_right(int *out, int *raw) {
  int mine[8];
#pragma unroll 1
  for (int i = 0; i < 8; ++i)
    mine[ZERO + i] = i;
  out[threadIdx.x] = mine[ZERO + 7];
}

struct Padded {
  char letter;
  double number;
  short rest;
};
__device__ __noinline__ void move(Padded *to, const Padded *from) { *to = *from; }
__device__ __noinline__ Padded make(int i) {
  Padded one;
  one.letter = 'a';
  one.number = i;
  one.rest = 2;
  return one;
}
__device__ __noinline__ double number_of(Padded one) { return one.number; }

//! block=32
extern "C" __global__ void padding_right(int *out, int *raw) {
  __shared__ Padded tile[32];
  Padded mine = make(threadIdx.x), copy[2];
  move(&copy[ZERO], &mine);
  move(tile + threadIdx.x, &copy[ZERO]);
  __syncthreads();
  move(reinterpret_cast<Padded *>(raw) + threadIdx.x, tile + 31 - threadIdx.x);
  out[threadIdx.x] = number_of(reinterpret_cast<Padded *>(raw)[threadIdx.x]);
}

__device__ __noinline__ int first_of(const int *list) { return list[0]; /* FOUND in behind_a_pointer */ }

//! block=32: in local memory
extern "C" __global__ void behind_a_pointer(int *out, int *raw) {
  int mine[2];
  mine[1 - ZERO] = 5;
  out[threadIdx.x] = first_of(mine + ZERO); // FOUND: the compiler may inline the read
}

//! block=32: in heap memory
extern "C" __global__ void device_heap(int *out, int *raw) {
  int *list = static_cast<int *>(malloc(16));
  list[0] = 1;
  out[threadIdx.x] = list[0] + list[3 - ZERO]; // FOUND
  free(list);
}

//! block=32: in heap memory: it was given back by free()
extern "C" __global__ void heap_after_free(int *out, int *raw) {
  int *list = static_cast<int *>(malloc(16));
  list[0] = 1;
  free(list);
  out[threadIdx.x] = *static_cast<volatile int *>(list); // FOUND
}

//! block=32: in heap memory: it is in nothing that malloc() gave
extern "C" __global__ void heap_beyond_its_end(int *out, int *raw) {
  char *list = static_cast<char *>(malloc(10));
  for (int i = 0; i <= 10; ++i)
    list[i] = 1; // FOUND
  out[threadIdx.x] = list[5];
  free(list);
}

//! block=32
extern "C" __global__ void device_heap_right(int *out, int *raw) {
  for (int i = 0; i < 3; ++i) {
    int *list = static_cast<int *>(malloc(16));
    list[ZERO] = i;
    out[threadIdx.x] = list[0];
    free(list);
  }
}

__device__ __noinline__ int with_a_frame(int *list, int at) {
  int mine[16];
#pragma unroll 1
  for (int i = 0; i < 16; ++i)
    mine[(i + at) % 16] = list[i];
  return mine[at] + mine[15 - at];
}

//! block=32
extern "C" __global__ void frame_of_a_callee_right(int *out, int *raw) {
  out[threadIdx.x] = with_a_frame(out + 100, threadIdx.x % 16);
}

//! block=32: uninitialized read of 16 bytes ~ in shared memory: 'matrix_of_nothing::tile'
extern "C" __global__ void matrix_of_nothing(int *out, int *raw) {
  __shared__ alignas(16) int tile[32];
  const unsigned row = __cvta_generic_to_shared(tile + threadIdx.x % 8 * 4);
  int part;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(part) : "r"(row) : "memory"); // FOUND
  out[threadIdx.x] = part;
}

//! block=32
extern "C" __global__ void matrix_of_a_matrix(int *out, int *raw) {
  __shared__ alignas(16) int tile[32];
  const unsigned row = __cvta_generic_to_shared(tile + threadIdx.x % 8 * 4);
  int part = threadIdx.x;
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(row), "r"(part) : "memory");
  __syncwarp();
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(part) : "r"(row) : "memory");
  out[threadIdx.x] = part;
}
