/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor copies and other copies of the async proxy, for all checks. `planted.py` explains the marks. */

struct alignas(64) Map {
  char bytes[128];
};

/* These are macros so that reports name the line that uses them. Each box of a map is 8 rows of 32 numbers. */
#define BOX 1024
#define LOAD(map, to, row)                                                                                             \
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "                     \
               "[%0], [%1, {%2, %3}], [%4];" ::"r"(at(to)),                                                            \
               "l"(&map), "r"(0), "r"(row), "r"(at(&bar))                                                              \
               : "memory")
#define STORE(map, from, row)                                                                                          \
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(0), \
               "r"(row), "r"(at(from))                                                                                 \
               : "memory")
#define COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define WAIT_STORE() asm volatile("cp.async.bulk.wait_group 0;" ::: "memory")
#define WAIT_READ() asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")
#define PUBLISH() asm volatile("fence.proxy.async;" ::: "memory")
#define EXPECT(bytes)                                                                                                  \
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&bar)), "r"(bytes) : "memory")
#define MULTIPLY(d)                                                                                                    \
  asm volatile("wgmma.fence.sync.aligned; "                                                                            \
               "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0; "            \
               "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"                                     \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                        \
               : "l"(matrix(tile)), "l"(matrix(tile + 512))                                                            \
               : "memory")
/* A tile of three boxes, and an mbarrier for one thread's arrival. */
#define TILE()                                                                                                         \
  __shared__ alignas(128) int tile[768];                                                                               \
  __shared__ unsigned long long bar;                                                                                   \
  if (threadIdx.x == 0)                                                                                                \
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(at(&bar))         \
                 : "memory");                                                                                          \
  __syncthreads()
#define FILL()                                                                                                         \
  for (int i = threadIdx.x; i < 256; i += blockDim.x)                                                                  \
  tile[i] = i + 1000 * blockIdx.x

__device__ unsigned at(const void *shared) { return (unsigned)__cvta_generic_to_shared(shared); }
__device__ unsigned long long matrix(const void *shared) {
  return (at(shared) & 0x3ffff) >> 4 | 8ull << 16 | 16ull << 32;
}
__device__ void wait(const void *bar) {
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(at(bar))
                 : "memory");
}

//! block=64
extern "C" __global__ void polls_before_the_load_right(int *out, int *raw, const __grid_constant__ Map map,
                                                       const __grid_constant__ Map fresh) {
  TILE();
  if (threadIdx.x == 32) {
    EXPECT(BOX);
    LOAD(map, tile, 0);
  }
  if (threadIdx.x < 32) {
    wait(&bar);
    out[512 + threadIdx.x] = tile[threadIdx.x];
  }
}

//! block=64: race: ~ in shared memory: 'reads_without_a_wait::tile'
extern "C" __global__ void reads_without_a_wait(int *out, int *raw, const __grid_constant__ Map map,
                                                const __grid_constant__ Map fresh) {
  TILE();
  if (threadIdx.x == 32) {
    EXPECT(BOX);
    LOAD(map, tile, 0); // OTHER
  }
  __syncthreads();
  out[512 + threadIdx.x] = tile[threadIdx.x]; // FOUND
}

//! grid=2 block=32
extern "C" __global__ void stores_of_two_blocks_right(int *out, int *raw, const __grid_constant__ Map map,
                                                      const __grid_constant__ Map fresh) {
  TILE();
  FILL();
  PUBLISH();
  __syncthreads();
  if (threadIdx.x == 0) {
    STORE(map, tile, 8 * blockIdx.x);
    COMMIT();
    WAIT_STORE();
  }
}

//! grid=2 block=32: race: ~ in global memory
extern "C" __global__ void stores_that_overlap(int *out, int *raw, const __grid_constant__ Map map,
                                               const __grid_constant__ Map fresh) {
  TILE();
  FILL();
  PUBLISH();
  __syncthreads();
  if (threadIdx.x == 0) {
    STORE(map, tile, 4 * blockIdx.x); // FOUND
    COMMIT();
    WAIT_STORE();
  }
}

//! grid=2 block=32
extern "C" __global__ void a_store_beside_a_load_right(int *out, int *raw, const __grid_constant__ Map map,
                                                       const __grid_constant__ Map fresh) {
  TILE();
  FILL();
  PUBLISH();
  __syncthreads();
  if (threadIdx.x == 0 && blockIdx.x == 1) {
    STORE(map, tile, 8);
    COMMIT();
    WAIT_STORE();
  } else if (threadIdx.x == 0) {
    EXPECT(BOX);
    LOAD(map, tile, 0);
    wait(&bar);
  }
}

//! grid=2 block=32: race: ~ in global memory
extern "C" __global__ void a_store_over_a_load(int *out, int *raw, const __grid_constant__ Map map,
                                               const __grid_constant__ Map fresh) {
  TILE();
  FILL();
  PUBLISH();
  __syncthreads();
  if (threadIdx.x == 0 && blockIdx.x == 1) {
    STORE(map, tile, 4); // FOUND
    COMMIT();
    WAIT_STORE();
  } else if (threadIdx.x == 0) {
    EXPECT(BOX);
    LOAD(map, tile, 0); // OTHER
    wait(&bar);
  }
}

//! block=32
extern "C" __global__ void a_store_to_new_memory_right(int *out, int *raw, const __grid_constant__ Map map,
                                                       const __grid_constant__ Map fresh) {
  TILE();
  FILL();
  PUBLISH();
  __syncthreads();
  if (threadIdx.x == 0) {
    STORE(fresh, tile, 8);
    COMMIT();
    WAIT_STORE();
  }
  __syncthreads();
  out[threadIdx.x] = raw[256 + threadIdx.x];
}

//! block=32: uninitialized read of 4 bytes ~ in global memory
extern "C" __global__ void a_store_elsewhere(int *out, int *raw, const __grid_constant__ Map map,
                                             const __grid_constant__ Map fresh) {
  TILE();
  FILL();
  PUBLISH();
  __syncthreads();
  if (threadIdx.x == 0) {
    STORE(fresh, tile, 8);
    COMMIT();
    WAIT_STORE();
  }
  __syncthreads();
  int value = raw[threadIdx.x]; // FOUND
  out[threadIdx.x] = value + 1; // OTHER
}

//! block=32: race: ~ in shared memory: 'a_store_without_a_fence::tile' ~ with no fence.proxy.async between the two
extern "C" __global__ void a_store_without_a_fence(int *out, int *raw, const __grid_constant__ Map map,
                                                   const __grid_constant__ Map fresh) {
  TILE();
  FILL(); // OTHER
  __syncthreads();
  if (threadIdx.x == 0) {
    STORE(map, tile, 0); // FOUND
    COMMIT();
    WAIT_STORE();
  }
}

//! block=32
extern "C" __global__ void fills_again_right(int *out, int *raw, const __grid_constant__ Map map,
                                             const __grid_constant__ Map fresh) {
  TILE();
  for (int i = 0; i < 2; ++i) {
    FILL();
    PUBLISH();
    __syncthreads();
    if (threadIdx.x == 0) {
      STORE(map, tile, 8 * i);
      COMMIT();
      WAIT_READ();
    }
    __syncthreads();
  }
}

//! block=32: race: ~ in shared memory: 'fills_too_early::tile'
extern "C" __global__ void fills_too_early(int *out, int *raw, const __grid_constant__ Map map,
                                           const __grid_constant__ Map fresh) {
  TILE();
  FILL();
  PUBLISH();
  __syncthreads();
  if (threadIdx.x == 0) {
    STORE(map, tile, 0); // FOUND
    COMMIT();
  }
  __syncthreads();
  tile[threadIdx.x] = 7; // OTHER
}

//! block=32: race: ~ in global memory
extern "C" __global__ void reads_before_the_store_is_done(int *out, int *raw, const __grid_constant__ Map map,
                                                          const __grid_constant__ Map fresh) {
  TILE();
  FILL();
  PUBLISH();
  __syncthreads();
  if (threadIdx.x == 0) {
    STORE(map, tile, 0); // FOUND
    COMMIT();
    WAIT_READ();
  }
  __syncthreads();
  out[512 + threadIdx.x] = out[threadIdx.x]; // OTHER
}

//! block=128
extern "C" __global__ void multiplies_what_was_loaded_right(int *out, int *raw, const __grid_constant__ Map map,
                                                            const __grid_constant__ Map fresh) {
  TILE();
  float d[4] = {};
  if (threadIdx.x == 0) {
    EXPECT(3 * BOX);
    LOAD(map, tile, 0);
    LOAD(map, tile + 256, 8);
    LOAD(map, tile + 512, 16);
  }
  wait(&bar);
  MULTIPLY(d);
  out[768 + threadIdx.x] = d[0];
}

//! block=128: race: ~ in shared memory: 'multiplies_too_early::tile'
extern "C" __global__ void multiplies_too_early(int *out, int *raw, const __grid_constant__ Map map,
                                                const __grid_constant__ Map fresh) {
  TILE();
  float d[4] = {};
  if (threadIdx.x == 0) {
    EXPECT(3 * BOX);
    LOAD(map, tile, 0);
    LOAD(map, tile + 256, 8);
    LOAD(map, tile + 512, 16);
  }
  __syncthreads();
  MULTIPLY(d); // FOUND
  out[768 + threadIdx.x] = d[0];
}

//! block=32: uninitialized read of 4 bytes ~ in shared memory: 'loads_what_nobody_wrote::tile'
extern "C" __global__ void loads_what_nobody_wrote(int *out, int *raw, const __grid_constant__ Map map,
                                                   const __grid_constant__ Map fresh) {
  TILE();
  if (threadIdx.x == 0) {
    EXPECT(BOX);
    LOAD(fresh, tile, 0);
  }
  wait(&bar);
  int value = tile[threadIdx.x]; // FOUND
  out[threadIdx.x] = value + 1;  // OTHER
}

//! block=32: uninitialized read of 4 bytes ~ in shared memory: 'copies_what_nobody_wrote::tile'
extern "C" __global__ void copies_what_nobody_wrote(int *out, int *raw, const __grid_constant__ Map map,
                                                    const __grid_constant__ Map fresh) {
  TILE();
  if (threadIdx.x == 0) {
    EXPECT(BOX);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     at(tile)),
                 "l"(raw), "r"(BOX), "r"(at(&bar))
                 : "memory");
  }
  wait(&bar);
  int value = tile[threadIdx.x]; // FOUND
  out[threadIdx.x] = value + 1;  // OTHER
}

//! block=32: uninitialized read of 4 bytes ~ in shared memory: 'copies_words_that_nobody_wrote::tile'
extern "C" __global__ void copies_words_that_nobody_wrote(int *out, int *raw, const __grid_constant__ Map map,
                                                          const __grid_constant__ Map fresh) {
  TILE();
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.wait_all;" ::"r"(at(tile + threadIdx.x)),
               "l"(raw + threadIdx.x)
               : "memory");
  int value = tile[threadIdx.x]; // FOUND
  out[threadIdx.x] = value + 1;  // OTHER
}
