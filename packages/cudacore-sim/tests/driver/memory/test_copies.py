# SPDX-License-Identifier: Apache-2.0
"""Copies and fills: when they are complete, and which access to memory they need."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64
from typing import Any

import pytest

import cudacore_sim

INVALID_VALUE = 1
SIZE = 4096


class Attributes(ctypes.Structure):
    """``CUmemcpyAttributes``."""

    _fields_ = (("order", c_int), ("source", c_int * 2), ("target", c_int * 2), ("flags", c_uint))


def host_memory(cuda: Any, kind: str) -> c_uint64:
    address = c_uint64()
    if kind == "pinned":
        cuda.cuMemHostAlloc(byref(address), c_size_t(SIZE), 0)
    elif kind == "managed":
        cuda.cuMemAllocManaged(byref(address), c_size_t(SIZE), 1)
    else:
        buffer = (ctypes.c_char * (3 * SIZE))()
        address.value = (ctypes.addressof(buffer) + SIZE - 1) // SIZE * SIZE
        cuda.kept = buffer
        cuda.cuMemHostRegister_v2(address, c_size_t(SIZE), 0)
    return address


@pytest.mark.parametrize("function", ["cuMemsetD8_v2", "cuMemsetD16_v2", "cuMemsetD32_v2"])
@pytest.mark.parametrize("kind", ["pinned", "managed", "registered"])
def test_fills_of_host_memory_are_synchronous(
    cuda: Any, run_in_stream: Callable[..., None], kind: str, function: str
) -> None:
    """A synchronous fill of memory that the host can read would return before the fill is done."""
    memory = host_memory(cuda, kind)
    run_in_stream(lambda: time.sleep(0.1), None)
    unit = int(function[9 : function.index("_")]) // 8
    getattr(cuda, function)(memory, 0x41, c_size_t(SIZE // unit))
    assert ctypes.string_at(memory.value, SIZE) == (b"A" + bytes(unit - 1)) * (SIZE // unit)
    cuda.cuCtxSynchronize()
    if kind == "registered":
        cuda.cuMemHostUnregister(memory)


def test_other_fills_are_not(cuda: Any, run_in_stream: Callable[..., None]) -> None:
    """A fill of device memory, or an asynchronous fill, would return only after earlier work is done."""
    device, pinned, go = cuda.malloc(SIZE), host_memory(cuda, "pinned"), threading.Event()
    stream = cuda.stream()
    run_in_stream(lambda: go.wait(20), None)
    begin = time.perf_counter()
    cuda.cuMemsetD8_v2(device, 1, c_size_t(SIZE))
    cuda.cuMemsetD8Async(pinned, 0x41, c_size_t(SIZE), stream)
    assert time.perf_counter() - begin < 10
    go.set()
    cuda.cuCtxSynchronize()
    assert ctypes.string_at(pinned.value, 1) == b"A"


@pytest.mark.parametrize(("offset", "is_reported"), [(0, False), (1, True), (-63, True), (64, False), (-64, False)])
def test_overlapping_copies(cuda: Any, offset: int, is_reported: bool) -> None:
    """A copy that overlaps itself, which a GPU makes wrongly, would not be reported; or another copy would be."""
    memory = cuda.malloc(SIZE)
    to, origin = c_uint64(memory.value + 1024 + offset), c_uint64(memory.value + 1024)
    before = cudacore_sim.count_reports()
    cuda.cuMemcpyDtoD_v2(to, origin, c_size_t(64))
    reports = cudacore_sim.reports(after=before)
    assert len(reports) == is_reported
    if is_reported:
        assert f"a copy from {origin.value:#x} to {to.value:#x}, of 64 bytes in each of 1 rows" in reports[0]


@pytest.mark.parametrize("kind", ["pinned", "managed", "registered"])
def test_sources_that_are_read_during_the_call(cuda: Any, run_in_stream: Callable[..., None], kind: str) -> None:
    """A batch would read its sources after the call, although their attributes demand a read during the call."""
    source, memory, stream = host_memory(cuda, kind), cuda.malloc(2 * SIZE), cuda.stream(1)
    go = threading.Event()
    run_in_stream(lambda: go.wait(20), stream)
    ctypes.memset(source.value, 0x41, SIZE)
    half = SIZE // 2
    targets = (c_uint64 * 3)(memory.value, memory.value + half, memory.value + SIZE)
    sources = (c_uint64 * 3)(source.value, source.value + half, source.value)
    attributes = (Attributes * 2)(Attributes(order=2), Attributes(order=1))  # 2: read in the call, 1: in stream order
    cuda.cuMemcpyBatchAsync_v2(
        *(targets, sources, (c_size_t * 3)(half, half, half), c_size_t(3), attributes),
        *((c_size_t * 2)(0, 2), c_size_t(2), stream),
    )
    ctypes.memset(source.value, 0x42, SIZE)
    go.set()
    cuda.cuStreamSynchronize(stream)
    back = ctypes.create_string_buffer(SIZE + half)
    cuda.cuMemcpyDtoH_v2(back, memory, c_size_t(SIZE + half))
    assert back.raw == b"A" * SIZE + b"B" * half
    if kind == "registered":
        cuda.cuMemHostUnregister(source)


def test_pools_of_another_device(run_python: Callable[..., Any]) -> None:
    """Copies to or from a pool of another device would work without access to this pool."""
    child = run_python(
        """
        class Location(Structure):
            _fields_ = [("type", c_int), ("id", c_int)]
        class Access(Structure):
            _fields_ = [("location", Location), ("flags", c_int)]
        contexts = [c_void_p(), c_void_p()]
        cu.cuInit(0)
        for i in (0, 1):
            cu.cuDevicePrimaryCtxRetain(byref(contexts[i]), i)
        cu.cuCtxSetCurrent(contexts[1])
        far, near, pool = c_uint64(), c_uint64(), c_void_p()
        cu.cuDeviceGetDefaultMemPool(byref(pool), 1)
        assert cu.cuMemAllocAsync(byref(far), c_size_t(64), None) == 0
        assert cu.cuCtxSynchronize() == 0
        cu.cuCtxSetCurrent(contexts[0])
        cu.cuMemAlloc_v2(byref(near), c_size_t(64))
        def copy():
            return [cu.cuMemcpy(far, near, c_size_t(64)), cu.cuMemcpyDtoD_v2(near, far, c_size_t(64)),
                    cu.cuMemsetD8_v2(far, 0, c_size_t(64)), cu.cuCtxSynchronize()]
        print(copy(), "cuMemPoolSetAccess" in cudacore_sim.why())
        # With the contexts named, no access is needed.
        print(cu.cuMemcpyPeer(far, contexts[1], near, contexts[0], c_size_t(64)),
              cu.cuMemcpyPeerAsync(near, contexts[0], far, contexts[1], c_size_t(64), None), cu.cuCtxSynchronize())
        assert cu.cuMemPoolSetAccess(pool, byref(Access(Location(1, 0), 3)), c_size_t(1)) == 0
        print(copy())
        """,
        DEVICES=2,
    )
    assert child.stdout.splitlines() == ["[1, 1, 1, 0] True", "0 0 0", "[0, 0, 0, 0]"], child.stderr
    assert "device 0 has not been given access" in child.stderr


def test_between_devices_in_a_capture(run_python: Callable[..., Any]) -> None:
    """A capture would accept a copy between devices, which a GPU refuses, or would be ended by the refused copy."""
    child = run_python(
        """
        contexts, stream, graph = [c_void_p(), c_void_p()], c_void_p(), c_void_p()
        cu.cuInit(0)
        pointers = []
        for i in (0, 1):
            cu.cuDevicePrimaryCtxRetain(byref(contexts[i]), i), cu.cuCtxSetCurrent(contexts[i])
            plain, pooled = c_uint64(), c_uint64()
            assert cu.cuMemAlloc_v2(byref(plain), c_size_t(64)) == 0
            assert cu.cuMemAllocAsync(byref(pooled), c_size_t(64), None) == 0
            assert cu.cuCtxSynchronize() == 0
            pointers.append((plain, pooled))
        cu.cuStreamCreate(byref(stream), 1)
        class Box(Structure):
            _fields_ = [(side + name, kind) for side in "sd" for name, kind in (
                ("x", c_size_t), ("y", c_size_t), ("z", c_size_t), ("level", c_size_t), ("type", c_int),
                ("host", c_void_p), ("device", c_uint64), ("array", c_void_p), ("context", c_void_p),
                ("pitch", c_size_t), ("height", c_size_t))] + [("width", c_size_t), ("h", c_size_t), ("d", c_size_t)]
        for kind in (0, 1):
            (src, dst) = pointers[0][kind], pointers[1][kind]
            box = Box(stype=4, sdevice=src.value, scontext=contexts[0].value, dtype=4, ddevice=dst.value,
                      dcontext=contexts[1].value, width=64, h=1, d=1)
            for call in (lambda: cu.cuMemcpyAsync(dst, src, c_size_t(64), stream),
                         lambda: cu.cuMemcpyPeerAsync(dst, contexts[1], src, contexts[0], c_size_t(64), stream),
                         lambda: cu.cuMemcpy3DPeerAsync(byref(box), stream)):
                assert cu.cuStreamBeginCapture_v2(stream, 0) == 0
                print(call(), cu.cuStreamEndCapture(stream, byref(graph)), end="; ")
        """,
        DEVICES=2,
    )
    assert child.stdout == "0 0; 900 901; 900 901; 1 0; 900 901; 900 901; ", child.stderr


def test_addresses_where_they_are_wanted(cuda: Any) -> None:
    """A growing buffer could not reserve the addresses that follow its own, or reserved ranges would overlap."""
    mib = 2 << 20

    def reserve(size: int, hint: int) -> int:
        return int(
            cuda.out("cuMemAddressReserve", c_size_t(size), c_size_t(0), c_uint64(hint), c_uint64(0), kind=c_uint64)
        )

    for _ in range(100):  # other tests can have left small ranges in between
        first = reserve(mib, 0)
        second = reserve(3 * mib, first + mib)
        if second == first + mib:
            break
    assert second == first + mib
    third = reserve(mib, second + 3 * mib)
    assert third == second + 3 * mib
    assert reserve(mib, second) not in {second, 0}  # these addresses are reserved already
    assert reserve(mib, second + 1) != second + 1  # this address is not aligned
    assert reserve(mib, 0x1000000) not in {0x1000000, 0}  # this is not a device address
    cuda.cuMemAddressFree(c_uint64(second), c_size_t(3 * mib))
    cuda.cuMemAddressFree(c_uint64(first), c_size_t(mib))
    cuda.cuMemAddressFree(c_uint64(third), c_size_t(mib))
    # Without a hint, a reserved range must not be adjacent to an allocation.
    block = cuda.malloc(mib)
    last = reserve(mib, 0)
    assert abs(block.value - last) >= 2 * mib


def test_the_host_has_an_end(run_python: Callable[..., Any]) -> None:
    """Writes to device memory would use up the host's memory, beyond the limit that the user has set."""
    child = run_python(
        """
        context, blocks, mib = c_void_p(), [], 1 << 20
        cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
        def allocate(size):
            address = c_uint64()
            return cu.cuMemAlloc_v2(byref(address), c_size_t(size)), address
        # What is never touched costs nothing, nor does what is zero.
        code, large = allocate(100 << 30)
        print(code, cu.cuMemsetD8_v2(large, 0, c_size_t(100 << 30)), cu.cuCtxSynchronize())
        for i in range(20):
            code, address = allocate(100 * mib)
            if code:
                break
            blocks.append(address)
            cu.cuMemsetD8_v2(address, 1, c_size_t(100 * mib)), cu.cuCtxSynchronize()
        print(code, 5 <= i <= 10, "CUDACORE_SIM_HOST_MEMORY" in cudacore_sim.why(), cu.cuCtxSynchronize())
        # The same bytes again need no more; others are not written.
        print(cu.cuMemsetD8_v2(blocks[0], 2, c_size_t(100 * mib)), cu.cuCtxSynchronize())
        print(cu.cuMemsetD8_v2(large, 1, c_size_t(2 << 30)), cu.cuCtxSynchronize())
        print("CUDACORE_SIM_HOST_MEMORY" in cudacore_sim.why(), len(cudacore_sim.reports()))
        """,
        HOST_MEMORY="1G",
    )
    assert child.stdout.splitlines() == ["0 0 0", "2 True True 0", "0 0", "0 2", "True 1"], child.stderr


MANAGED_POOL = """
class Properties(Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", c_int * 2), ("rest", c_char * 72)]
pool = c_void_p()
assert cu.cuMemPoolCreate(byref(pool), byref(Properties(2, 0, (c_int * 2)(1, 0)))) == 0
"""


@pytest.mark.parametrize("is_pooled", [False, True])
def test_managed_memory_is_counted(run_python: Callable[..., Any], is_pooled: bool) -> None:
    """Writes to managed memory would use up the host's memory, beyond the limit that the user has set."""
    pooled = "cu.cuMemAllocFromPoolAsync(byref(address), c_size_t(size), pool, None)"
    plain = "cu.cuMemAllocManaged(byref(address), c_size_t(size), 1)"
    child = run_python(
        f"""
        context, blocks, mib = c_void_p(), [], 1 << 20
        cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
        {"exec(MANAGED_POOL)" if is_pooled else ""}
        def allocate(size):
            address = c_uint64()
            return {pooled if is_pooled else plain}, address
        code, large = allocate(100 << 30)
        print(code)
        for i in range(10):
            code, address = allocate(60 * mib)
            if code:
                break
            blocks.append(address)
            if i % 2:
                memset(address.value, 1, 60 * mib)
            else:
                cu.cuMemsetD8_v2(address, 1, c_size_t(60 * mib)), cu.cuCtxSynchronize()
        print(code, 5 <= i <= 10, "CUDACORE_SIM_HOST_MEMORY" in cudacore_sim.why(), cu.cuCtxSynchronize())
        device = c_uint64()
        print(cu.cuMemAlloc_v2(byref(device), c_size_t(240 * mib)), "has no memory left" in cudacore_sim.why())
        # The same bytes again need no more, and what is freed is had again.
        print(cu.cuMemsetD8_v2(blocks[0], 2, c_size_t(60 * mib)), cu.cuCtxSynchronize())
        for block in blocks:
            cu.cuMemFree_v2(block)
        print(cu.cuMemAlloc_v2(byref(device), c_size_t(240 * mib)))
        print(cu.cuMemsetD8_v2(large, 1, c_size_t(1 << 30)), cu.cuCtxSynchronize())
        print("CUDACORE_SIM_HOST_MEMORY" in cudacore_sim.why())
        """.replace("exec(MANAGED_POOL)", f"exec({MANAGED_POOL!r})"),
        HOST_MEMORY="512M",
    )
    assert child.stdout.splitlines() == ["0", "2 True True 0", "2 True", "0 0", "0", "2 2", "True"], child.stderr


@pytest.mark.parametrize(
    "allocate", ["cuMemAlloc_v2(byref(memory), size)", "cuMemAllocManaged(byref(memory), size, 1)"]
)
def test_kernels_end_where_the_host_does(run_python: Callable[..., Any], allocate: str) -> None:
    """The writes of a kernel would use up the host's memory, beyond the limit that the user has set."""
    child = run_python(
        '''
        PTX = b""".version 8.0
        .target sm_90
        .address_size 64
        .visible .entry touch(.param .u64 where) {
          .reg .b64 %a; .reg .b32 %r; .reg .pred %p;
          ld.param.u64 %a, [where]; mov.u32 %r, 0;
        L: st.global.u8 [%a], 1; add.u64 %a, %a, 4096; add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 4194304; @%p bra L;
          ret; }"""
        context, module, function, memory = c_void_p(), c_void_p(), c_void_p(), c_uint64()
        cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
        cu.cuModuleLoadData(byref(module), PTX), cu.cuModuleGetFunction(byref(function), module, b"touch")
        size = c_size_t(16 << 30)
        cu.ALLOCATE
        arguments = (c_void_p * 1)(cast(byref(memory), c_void_p))
        print(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None), cu.cuCtxSynchronize())
        print(cudacore_sim.why())
        '''.replace("ALLOCATE", allocate),
        HOST_MEMORY="512M",
    )
    assert child.stdout.startswith("0 2\nkernel 'touch' was stopped: the host has no memory left"), child.stderr
