# SPDX-License-Identifier: Apache-2.0
"""Multiply matrices whose tiles are copied by the tensor memory accelerator (TMA)."""

import numpy as np

import cudacore as core
from cudacore.utils import StridedMemoryView

TILE = 16
SOURCE = r"""
constexpr int TILE = 16;

// CUtensorMap of cuda.h
struct alignas(128) TensorMap { unsigned long long opaque[16]; };

__device__ unsigned shared(const void *p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Makes a barrier that one thread arrives at.
__device__ void init(unsigned barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\t"
                 "fence.mbarrier_init.release.cluster;" :: "r"(barrier) : "memory");
}

// Arrives, and has the barrier wait for so many bytes.
__device__ void expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(barrier), "r"(bytes) : "memory");
}

// Begins the copy of a tile, whose bytes the barrier counts.
__device__ void load(void *tile, const TensorMap *map, int column, int row,
                     unsigned barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared(tile)), "l"(map), "r"(column), "r"(row),
                    "r"(barrier) : "memory");
}

__device__ void wait(unsigned barrier, unsigned parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
}

extern "C" __global__ void multiply(const __grid_constant__ TensorMap a,
                                    const __grid_constant__ TensorMap b,
                                    float *c, int n) {
    __shared__ alignas(128) float tile_a[TILE][TILE], tile_b[TILE][TILE];
    __shared__ unsigned long long arrived;
    int x = threadIdx.x, y = threadIdx.y;
    int column = blockIdx.x * TILE, row = blockIdx.y * TILE;
    unsigned barrier = shared(&arrived);
    bool first = x == 0 && y == 0;
    if (first)
        init(barrier);
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        if (first) {
            expect(barrier, sizeof tile_a + sizeof tile_b);
            load(tile_a, &a, k, row, barrier);
            load(tile_b, &b, column, k, barrier);
        }
        wait(barrier, k / TILE % 2);
        for (int i = 0; i < TILE; i++)
            sum += tile_a[y][i] * tile_b[i][x];  // outside of the matrices: zeros
        __syncthreads();
    }
    if (row + y < n && column + x < n)
        c[(row + y) * n + column + x] = sum;
}
"""


def main() -> None:
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    kernel = core.Program(SOURCE, "c++").compile("cubin").get_kernel("multiply")

    n = 40  # not a multiple of the tile's size
    numbers = np.random.default_rng(0).integers(-9, 9, (2, n, n)).astype(np.float32)
    maps = []
    for matrix in numbers:
        buffer = device.allocate(matrix.nbytes, stream=stream)
        buffer.copy_from(matrix, stream=stream)
        view = StridedMemoryView.from_buffer(buffer, matrix.shape, dtype=np.float32)
        maps.append(view.as_tensor_map((TILE, TILE)))
    product = np.empty((n, n), np.float32)
    out = device.allocate(product.nbytes, stream=stream)

    blocks = -(-n // TILE)
    config = core.LaunchConfig(grid=(blocks, blocks), block=(TILE, TILE))
    core.launch(stream, config, kernel, *maps, out, n)
    out.copy_to(product, stream=stream)
    stream.sync()
    print(maps[0])
    print("as NumPy says:", np.array_equal(product, numbers[0] @ numbers[1]))


if __name__ == "__main__":
    main()
