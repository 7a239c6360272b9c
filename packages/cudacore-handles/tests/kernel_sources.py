# SPDX-License-Identifier: Apache-2.0
"""Kernels that the tests load."""

from __future__ import annotations

import struct
from pathlib import Path

# PTX for child processes that have no compiler. Every supported driver can load it.
PTX = (Path(__file__).resolve().parents[3] / "tests" / "kernels.ptx").read_bytes()

CUDA = r"""
struct half_bits { unsigned short bits; };  // as __half, without its header
struct record { int id; double weight; char tag[3]; };

#define ECHO(name, type) extern "C" __global__ void echo_##name(type value, type *out) { *out = value; }
ECHO(int8, signed char)
ECHO(uint8, unsigned char)
ECHO(int16, short)
ECHO(uint16, unsigned short)
ECHO(int32, int)
ECHO(uint32, unsigned)
ECHO(int64, long long)
ECHO(uint64, unsigned long long)
ECHO(float16, half_bits)
ECHO(float32, float)
ECHO(float64, double)
ECHO(bool, bool)
ECHO(complex64, float2)
ECHO(complex128, double2)
ECHO(record, record)
ECHO(pointer, void *)

extern "C" __global__ void nothing() {}

// Arithmetic, so that a value that arrives in the wrong format shows.
extern "C" __global__ void half_to_float(half_bits value, float *out) {
  asm("cvt.f32.f16 %0, %1;" : "=f"(*out) : "h"(value.bits));
}

extern "C" __global__ void mixed(char a, double b, short c, float *out, int d) {
  *out = (float)(a + b * 10 + c * 100 + d * 1000);
}

extern "C" __global__ void add(int *out, int amount) { *out += amount; }

extern "C" __global__ void geometry(unsigned *out) {
  unsigned clusters = 0;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(clusters));
#endif
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    out[0] = gridDim.x; out[1] = gridDim.y; out[2] = gridDim.z;
    out[3] = blockDim.x; out[4] = blockDim.y; out[5] = blockDim.z;
    out[6] = clusters;
  }
}

// Every block waits for all others: without a cooperative launch nothing says that they run at the same time.
extern "C" __global__ void grid_sync(unsigned *arrived, unsigned *out) {
  __threadfence();
  atomicAdd(arrived, 1);
  while (atomicAdd(arrived, 0) < gridDim.x) {}
  if (blockIdx.x == 0) *out = atomicAdd(arrived, 0);
}

extern "C" __global__ void dynamic_shared(unsigned *out, unsigned bytes) {
  extern __shared__ unsigned char memory[];
  for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) memory[i] = (unsigned char)(i % 251);
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned sum = 0;
    for (unsigned i = 0; i < bytes; i++) sum += memory[i];
    *out = sum;
  }
}

extern "C" __global__ void __launch_bounds__(64) small_blocks(int *out) { *out = 64; }

extern "C" __global__ void spin(unsigned long long nanoseconds) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - begin < nanoseconds);
}

template <typename T> __global__ void templated(T *out, T value) { *out = value; }
template __global__ void templated<float>(float *, float);
"""


def entry(kind: int, arch: int, code: bytes, *, flags: int = 0, size: int = 0) -> bytes:
    """Return one image of a fat binary, with the image's header."""
    padded = code + bytes(-len(code) % 8)
    return struct.pack(
        "<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(padded), len(code), 0, 0, 7, arch, 0, 0, flags, 0, size
    ) + (padded)


def fat_binary(*entries: bytes) -> bytes:
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, sum(map(len, entries))) + b"".join(entries)
