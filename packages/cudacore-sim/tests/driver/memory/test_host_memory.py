# SPDX-License-Identifier: Apache-2.0
"""With unusable host memory (read-only, protected or unmapped), calls return error codes and do not crash."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import PTX

import cudacore_sim

INVALID_VALUE, ILLEGAL_ADDRESS = 1, 700
NONE, READ, WRITE = 0, 1, 3
PAGE = 4096
Size, Pointer = ctypes.c_size_t, ctypes.c_void_p

libc = ctypes.CDLL(None)
libc.mmap.restype = Pointer
libc.mmap.argtypes = (Pointer, Size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
libc.munmap.argtypes = (Pointer, Size)
libc.mprotect.argtypes = (Pointer, Size, ctypes.c_int)

Map = Callable[..., int]


@pytest.fixture
def pages() -> Iterator[Map]:
    """Yield a function that maps pages of host memory."""
    mapped = []

    def map_pages(count: int, protection: int = WRITE) -> int:
        address = libc.mmap(None, count * PAGE, protection, 0x22, -1, 0)
        mapped.append((address, count * PAGE))
        return int(address)

    yield map_pages
    for address, size in mapped:
        libc.munmap(address, size)


@pytest.mark.parametrize("count", [1, 4, 1000, 2000])
@pytest.mark.parametrize("protection", [NONE, READ])
def test_targets_that_cannot_be_written(cuda: Any, pages: Map, count: int, protection: int) -> None:
    """A copy into read-only memory, such as a mapped file, would end the process."""
    memory, size = cuda.malloc(count * PAGE), Size(count * PAGE)
    assert cuda.code("cuMemcpyDtoH_v2", Pointer(pages(count, protection)), memory, size) == INVALID_VALUE
    last = pages(count)
    libc.mprotect(last + (count - 1) * PAGE, PAGE, protection)
    assert cuda.code("cuMemcpyDtoHAsync_v2", Pointer(last), memory, size, None) == INVALID_VALUE
    cuda.cuCtxSynchronize()


@pytest.mark.parametrize("function", ["cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2"])
@pytest.mark.parametrize("count", [3, 1000, 2000])
def test_protected_pages_in_between(cuda: Any, pages: Map, function: str, count: int) -> None:
    """An unreadable page in the middle of the source of a copy would end the process."""
    memory, source = cuda.malloc(count * PAGE), pages(count)
    libc.mprotect(source + count // 2 * PAGE, PAGE, NONE)
    stream = (None,) if function.endswith("Async_v2") else ()
    assert cuda.code(function, memory, Pointer(source), Size(count * PAGE), *stream) == INVALID_VALUE
    cuda.cuCtxSynchronize()
    libc.mprotect(source + count // 2 * PAGE, PAGE, READ)
    assert cuda.code(function, memory, Pointer(source), Size(count * PAGE), *stream) == 0


def test_read_only_sources(cuda: Any, pages: Map) -> None:
    """Read-only host memory, such as a program's constants, could not be copied to the device."""
    memory, back = cuda.malloc(PAGE), ctypes.create_string_buffer(b"x" * PAGE, PAGE)
    cuda.cuMemcpyHtoD_v2(memory, Pointer(pages(1, READ)), Size(PAGE))
    cuda.cuMemcpyDtoH_v2(back, memory, Size(PAGE))
    assert back.raw == bytes(PAGE)


def test_registering_what_cannot_be_used(cuda: Any, pages: Map) -> None:
    """Inaccessible memory could be registered, so that the first copy would end the process."""
    for protection, flags, code in ((NONE, 0, 1), (NONE, 8, 1), (READ, 0, 1), (READ, 8, 0), (WRITE, 0, 0)):
        assert cuda.code("cuMemHostRegister_v2", Pointer(pages(2, protection)), Size(2 * PAGE), flags) == code


@pytest.mark.parametrize("folder", ["disk", "memory"])
def test_registering_mapped_files(cuda: Any, folder: str, tmp_path: Path) -> None:
    """A mapped file that Linux does not let devices write could be registered, unlike on an H200."""
    place = Path("/dev/shm") if folder == "memory" else tmp_path
    if not place.is_dir() or (os.major(place.stat().st_dev) == 0) != (folder == "memory"):
        pytest.skip(f"{place} is not known to be on a {folder}" if folder == "disk" else "there is no /dev/shm")
    shared, private = 1, 2
    with tempfile.NamedTemporaryFile(dir=place) as file:
        file.write(bytes(2 * PAGE))
        file.flush()
        for sharing, protection, flags, accepted in (
            (shared, WRITE, 0, folder == "memory"),
            (shared, WRITE, 8, True),
            (shared, READ, 8, True),
            (private, WRITE, 0, True),
            (private, READ, 8, True),
        ):
            address = libc.mmap(None, 2 * PAGE, protection, sharing, file.fileno(), 0)
            code = cuda.code("cuMemHostRegister_v2", Pointer(address), Size(2 * PAGE), flags)
            assert code == (0 if accepted else INVALID_VALUE), (sharing, protection, flags)
            if accepted:
                cuda.cuMemHostUnregister(Pointer(address))
            libc.munmap(address, 2 * PAGE)


def test_memory_that_was_registered_to_be_read(cuda: Any, pages: Map) -> None:
    """Copies into memory that was registered as read-only would succeed, unlike on an H200."""
    address, memory = pages(2, WRITE), cuda.malloc(PAGE)
    cuda.cuMemHostRegister_v2(Pointer(address), Size(PAGE), 8)
    cuda.cuMemHostRegister_v2(Pointer(address + PAGE), Size(PAGE), 0)
    stream = cuda.stream(1)
    for place, code in ((address, INVALID_VALUE), (address + PAGE, 0)):
        assert cuda.code("cuMemcpyDtoHAsync_v2", Pointer(place), memory, Size(PAGE), stream) == code
        assert cuda.code("cuMemsetD8Async", ctypes.c_uint64(place), 1, Size(PAGE), stream) == code
        assert cuda.code("cuMemcpyHtoDAsync_v2", memory, Pointer(place), Size(PAGE), stream) == 0
    cuda.cuCtxSynchronize()
    for place in (address, address + PAGE):
        cuda.cuMemHostUnregister(Pointer(place))


@pytest.mark.parametrize("use", ["kernel", "copy", "fill"])
def test_registered_memory_that_was_unmapped(cuda: Any, use: str) -> None:
    """Memory that is unmapped while it is registered would end the process at its next use."""
    address = libc.mmap(None, PAGE, WRITE, 0x22, -1, 0)
    memory = cuda.malloc(PAGE)
    cuda.cuMemHostRegister_v2(Pointer(address), Size(PAGE), 0)
    libc.munmap(address, PAGE)
    if use == "kernel":
        module = Pointer(cuda.out("cuModuleLoadData", PTX))
        store = Pointer(cuda.out("cuModuleGetFunction", module, b"store"))
        arguments = (ctypes.c_uint64(address), ctypes.c_uint32(1))
        pointers = (Pointer * 2)(*(ctypes.addressof(argument) for argument in arguments))
        cuda.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, None, pointers, None)
    elif use == "copy":
        cuda.code("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(address), memory, Size(PAGE), None)
    else:
        cuda.code("cuMemsetD8Async", ctypes.c_uint64(address), 1, Size(PAGE), None)
    assert cuda.code("cuCtxSynchronize") == ILLEGAL_ADDRESS
    assert "unmapped" in "".join(cudacore_sim.reports())


def test_large_pageable_sources_are_not_duplicated(cuda: Any, run_in_stream: Callable[..., None]) -> None:
    """An asynchronous copy from a large pageable buffer would copy the whole buffer first, instead of waiting."""
    memory, source = cuda.malloc(1 << 20), ctypes.create_string_buffer(1 << 20)
    go, stream = threading.Event(), cuda.stream(1)
    run_in_stream(lambda: go.wait(60) and None, stream)
    cuda.cuMemcpyHtoDAsync_v2(memory, source, Size(65536), stream)
    timer = threading.Timer(0.1, go.set)
    timer.start()
    cuda.cuMemcpyHtoDAsync_v2(memory, source, Size(65537), stream)
    assert go.is_set()
    assert cuda.code("cuStreamQuery", stream) == 0
