# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N803, N806
# mypy: ignore-errors
"""Kernels for the subjects of Triton's tutorials, and for the rest of its language."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def add(x, y, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < count) + tl.load(y + i, mask=i < count), mask=i < count)


@triton.jit
def add_after(x, y, out, count, BLOCK: tl.constexpr):
    """Add after the previous kernel has written its results: programmatic dependent launch."""
    gdc_wait()
    add(x, y, out, count, BLOCK)
    gdc_launch_dependents()


@triton.jit
def softmax(x, out, rows, columns, stride, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        values = tl.load(x + row * stride + column, mask=column < columns, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + row * stride + column, powers / tl.sum(powers, axis=0), mask=column < columns)


@triton.jit
def dropout(x, out, count, probability, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, i) > probability
    tl.store(out + i, tl.where(kept, tl.load(x + i, mask=i < count) / (1 - probability), 0.0), mask=i < count)


@triton.jit
def arc_sine(x, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, libdevice.asin(tl.load(x + i, mask=i < count)), mask=i < count)


@triton.jit
def layer_norm(x, weight, bias, out, means, deviations, columns, epsilon, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < columns
    values = tl.load(x + row * columns + column, mask=inside, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    inverse = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    tl.store(means + row, mean)
    tl.store(deviations + row, inverse)
    scaled = centred * inverse * tl.load(weight + column, mask=inside) + tl.load(bias + column, mask=inside)
    tl.store(out + row * columns + column, scaled, mask=inside)


@triton.jit
def layer_norm_gradient(x, weight, grad, means, deviations, grad_x, sums, lock, columns, BLOCK: tl.constexpr):
    """Compute the gradient of x, and add this row's part of the gradient of the weights under a lock."""
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < columns
    inverse = tl.load(deviations + row)
    normal = (tl.load(x + row * columns + column, mask=inside, other=0.0) - tl.load(means + row)) * inverse
    normal = tl.where(inside, normal, 0.0)
    above = tl.load(grad + row * columns + column, mask=inside, other=0.0)
    weighted = above * tl.load(weight + column, mask=inside, other=0.0)
    along = tl.sum(normal * weighted, axis=0) / columns
    result = (weighted - (normal * along + tl.sum(weighted, axis=0) / columns)) * inverse
    tl.store(grad_x + row * columns + column, result, mask=inside)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.debug_barrier()
    tl.store(sums + column, tl.load(sums + column, mask=inside) + above * normal, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def tile_of(tile, rows, columns, GROUP: tl.constexpr):
    """Return the row and the column of a tile; GROUP rows of tiles share the columns that they read."""
    first = tile // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    return first + tile % (GROUP * columns) % height, tile % (GROUP * columns) // height


@triton.jit
def product_of_tile(a, b, i, j, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row, column, depth = i * M + tl.arange(0, M), j * N + tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    for begin in tl.range(0, k, K):
        left = (row < m)[:, None] & (begin + depth < k)[None, :]
        right = (begin + depth < k)[:, None] & (column < n)[None, :]
        part_a = tl.load(a + row[:, None] * k + (begin + depth)[None, :], mask=left, other=0.0)
        part_b = tl.load(b + (begin + depth)[:, None] * n + column[None, :], mask=right, other=0.0)
        total = tl.dot(part_a, part_b, total)
    return total


@triton.jit
def store_tile(c, total, i, j, m, n, M: tl.constexpr, N: tl.constexpr):
    row, column = i * M + tl.arange(0, M), j * N + tl.arange(0, N)
    inside = (row < m)[:, None] & (column < n)[None, :]
    tl.store(c + row[:, None] * n + column[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr):
    i, j = tile_of(tl.program_id(0), tl.cdiv(m, M), tl.cdiv(n, N), GROUP)
    total = product_of_tile(a, b, i, j, m, n, k, M, N, K)
    store_tile(c, tl.where(total >= 0, total, 0.01 * total), i, j, m, n, M, N)


@triton.jit
def matmul_persistent(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr):
    tiles = tl.cdiv(m, M) * tl.cdiv(n, N)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        i, j = tile_of(tile, tl.cdiv(m, M), tl.cdiv(n, N), GROUP)
        store_tile(c, product_of_tile(a, b, i, j, m, n, k, M, N, K), i, j, m, n, M, N)


@triton.jit
def matmul_tma(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, SPECIALIZE: tl.constexpr):
    """Multiply by tensor descriptors, which the host made; b is transposed."""
    tiles = tl.cdiv(m, M) * tl.cdiv(n, N)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), warp_specialize=SPECIALIZE):
        i, j = tile_of(tile, tl.cdiv(m, M), tl.cdiv(n, N), 8)
        total = tl.zeros((M, N), dtype=tl.float32)
        for begin in range(0, k, K):
            total = tl.dot(a.load([i * M, begin]), b.load([j * N, begin]).T, total)
        c.store([i * M, j * N], total.to(tl.float16))


@triton.jit
def grouped(pointers, sizes, problems, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TMA: tl.constexpr):
    """Multiply the matrices of several problems; with TMA, by descriptors that the kernel makes."""
    tile, end = tl.program_id(0), 0
    for problem in range(problems):
        m, n = tl.load(sizes + 3 * problem), tl.load(sizes + 3 * problem + 1)
        k = tl.load(sizes + 3 * problem + 2)
        begin, columns = end, tl.cdiv(n, N)
        end += tl.cdiv(m, M) * columns
        a = tl.load(pointers + 3 * problem).to(tl.pointer_type(tl.float16))
        b = tl.load(pointers + 3 * problem + 1).to(tl.pointer_type(tl.float16))
        c = tl.load(pointers + 3 * problem + 2).to(tl.pointer_type(tl.float16))
        if TMA:
            tiles_a = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[M, K])
            tiles_b = tl.make_tensor_descriptor(b, shape=[k, n], strides=[n, 1], block_shape=[K, N])
            tiles_c = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[M, N])
        while tile >= begin and tile < end:
            i, j = (tile - begin) // columns, (tile - begin) % columns
            if TMA:
                total = tl.zeros((M, N), dtype=tl.float32)
                for depth in range(0, k, K):
                    total = tl.dot(tiles_a.load([i * M, depth]), tiles_b.load([depth, j * N]), total)
                tiles_c.store([i * M, j * N], total.to(tl.float16))
            else:
                store_tile(c, product_of_tile(a, b, i, j, m, n, k, M, N, K), i, j, m, n, M, N)
            tile += tl.num_programs(0)


@triton.jit
def attention(q, k, v, out, scale, length, WIDTH: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """Compute causal attention of a head for M queries, with a sum that is scaled again with each block of N keys."""
    head, first = tl.program_id(1) * length * WIDTH, tl.program_id(0) * M
    row, column, feature = first + tl.arange(0, M), tl.arange(0, N), tl.arange(0, WIDTH)
    query = tl.load(q + head + row[:, None] * WIDTH + feature[None, :])
    largest = tl.full((M,), -float("inf"), tl.float32)
    divisor = tl.zeros((M,), tl.float32)
    total = tl.zeros((M, WIDTH), tl.float32)
    for begin in tl.range(0, first + M, N):
        key = tl.load(k + head + (begin + column)[None, :] * WIDTH + feature[:, None])
        weights = tl.dot(query, key) * (scale * 1.44269504)
        weights = tl.where(row[:, None] >= (begin + column)[None, :], weights, -float("inf"))
        higher = tl.maximum(largest, tl.max(weights, 1))
        powers = tl.exp2(weights - higher[:, None])
        factor = tl.exp2(largest - higher)
        divisor = divisor * factor + tl.sum(powers, 1)
        value = tl.load(v + head + (begin + column)[:, None] * WIDTH + feature[None, :])
        total = tl.dot(powers.to(tl.float16), value, total * factor[:, None])
        largest = higher
    tl.store(out + head + row[:, None] * WIDTH + feature[None, :], (total / divisor[:, None]).to(tl.float16))


@triton.jit
def block_scaled(a, scale_a, b, scale_b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FORMAT: tl.constexpr):
    """Multiply one tile of numbers of 8 or 4 bits with a scale for each 32 of them."""
    row, column = tl.arange(0, M), tl.arange(0, N)
    PACKED: tl.constexpr = K // 2 if FORMAT == "e2m1" else K
    packed, group = tl.arange(0, PACKED), tl.arange(0, K // 32)
    left = tl.load(a + row[:, None] * PACKED + packed[None, :])
    right = tl.load(b + column[None, :] * PACKED + packed[:, None])
    left_scale = tl.load(scale_a + row[:, None] * (K // 32) + group[None, :])
    right_scale = tl.load(scale_b + column[:, None] * (K // 32) + group[None, :])
    total = tl.dot_scaled(left, left_scale, FORMAT, right, right_scale, FORMAT)
    tl.store(c + row[:, None] * N + column[None, :], total)


@triton.jit
def sums(a, b):
    return a + b


@triton.jit
def language(x, sorted_x, scanned, counts, largest, swapped, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    values = tl.load(x + i)
    tl.store(sorted_x + i, tl.sort(values))
    tl.store(scanned + i, tl.associative_scan(values, 0, sums))
    tl.atomic_add(counts + values % 16, 1)
    tl.atomic_max(largest, tl.max(values, 0))
    tl.store(swapped + i, tl.gather(values, i ^ 1, 0))
    tl.device_assert(values >= 0, "negative")


@triton.jit
def prints(x, BLOCK: tl.constexpr):
    tl.device_print("value", tl.load(x + tl.arange(0, BLOCK)))
