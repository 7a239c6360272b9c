# SPDX-License-Identifier: Apache-2.0
"""The heap of kernels: malloc() and free() on the device."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 r) malloc(.param .b64 a);
.extern .func free(.param .b64 a);
.visible .entry take(.param .u64 out, .param .u64 size)
{
  .reg .b64 %rd<6>; .reg .pred %p1;
  .param .b64 a; .param .b64 r;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [size];
  st.param.b64 [a], %rd2;
  call.uni (r), malloc, (a);
  ld.param.b64 %rd3, [r];
  st.global.u64 [%rd1], %rd3;
  setp.eq.u64 %p1, %rd3, 0;
  @%p1 bra done;
  add.u64 %rd4, %rd3, %rd2;
  st.u64 [%rd3], %rd2;
  st.u64 [%rd4+-8], %rd2;
done:
  ret;
}
.visible .entry give(.param .u64 address)
{
  .reg .b64 %rd<2>;
  .param .b64 a;
  ld.param.u64 %rd1, [address];
  st.param.b64 [a], %rd1;
  call.uni free, (a);
  ret;
}
"""
HEAP_SIZE = 2  # CU_LIMIT_MALLOC_HEAP_SIZE
MIB = 1 << 20


class Heap:
    """The device's malloc() and free(), called in the current context."""

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda
        self.module = ctypes.c_void_p(cuda.out("cuModuleLoadData", PTX))
        self.out = cuda.malloc(8)

    def launch(self, name: bytes, *arguments: ctypes.c_uint64) -> None:
        function = ctypes.c_void_p(self.cuda.out("cuModuleGetFunction", self.module, name))
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        self.cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, pointers, None)
        self.cuda.cuCtxSynchronize()

    def malloc(self, size: int) -> int:
        self.launch(b"take", self.out, ctypes.c_uint64(size))
        address = ctypes.c_uint64()
        self.cuda.cuMemcpyDtoH_v2(ctypes.byref(address), self.out, ctypes.c_size_t(8))
        return address.value

    def free(self, address: int) -> None:
        self.launch(b"give", ctypes.c_uint64(address))


def test_the_limit(cuda: Any) -> None:
    """The heap would not have the size that the program has set."""
    cuda.cuCtxSetLimit(HEAP_SIZE, ctypes.c_size_t(512 * MIB))
    heap = Heap(cuda)
    assert heap.malloc(600 * MIB) == 0
    first = heap.malloc(300 * MIB)
    assert first
    assert heap.malloc(300 * MIB) == 0
    heap.free(first)
    assert heap.malloc(300 * MIB)


@pytest.mark.parametrize(("size", "fits"), [(8 * MIB, True), (8 * MIB + 1, False), (2**64 - 1, False)])
def test_the_default(cuda: Any, size: int, fits: bool) -> None:
    """A program that needs a larger heap than the default would succeed here, but fail on a GPU."""
    assert bool(Heap(cuda).malloc(size)) is fits


def test_contexts_have_heaps_of_their_own(cuda: Any) -> None:
    """The heaps of two contexts would share their memory or their limit."""
    heap = Heap(cuda)
    assert heap.malloc(5 * MIB)
    assert heap.malloc(5 * MIB) == 0
    other = ctypes.c_void_p(cuda.out("cuCtxCreate_v2", 0, 0))
    cuda.cuCtxSetLimit(HEAP_SIZE, ctypes.c_size_t(16 * MIB))
    assert Heap(cuda).malloc(12 * MIB)
    cuda.cuCtxDestroy_v2(other)
    assert heap.malloc(5 * MIB) == 0


LEAK = """
PTX = {ptx!r}
cu.cuInit(0)
context, module, function, out, size = c_void_p(), c_void_p(), c_void_p(), c_uint64(), c_uint64(96)
cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
cu.cuModuleLoadData(byref(module), PTX), cu.cuModuleGetFunction(byref(function), module, b"take")
cu.cuMemAlloc_v2(byref(out), c_size_t(8))
arguments = (c_void_p * 2)(addressof(out), addressof(size))
assert cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None) == 0
assert cu.cuCtxSynchronize() == 0
cu.cuMemFree_v2(out), cu.cuModuleUnload(module)
"""


def test_what_is_not_freed(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """Memory from malloc() that no kernel frees would not be reported, or be reported without a request for it."""
    leak, release = LEAK.format(ptx=PTX), "cu.cuDevicePrimaryCtxRelease_v2(0)"
    assert "1 piece of the device heap of context" in run_python(leak, LEAKS=1).stderr
    assert "alive in it: 1 x piece of the device heap" in run_python(leak + release, CHECK="init").stderr
    assert run_python(leak + release).stderr == ""
