# SPDX-License-Identifier: Apache-2.0
"""Graphics resources, with simulated OpenGL buffers."""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import cudacore_sim as sim

INVALID_VALUE, ALREADY_MAPPED, NOT_MAPPED, NOT_MAPPED_AS_POINTER = 1, 208, 211, 213
INVALID_GRAPHICS_CONTEXT, INVALID_HANDLE, INVALID_CONTEXT = 219, 400, 201
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, NOT_READY = 900, 901, 600
GL_TEXTURE_2D = 0x0DE1


@pytest.fixture
def buffer() -> Iterator[sim.GLBuffer]:
    made = sim.GLBuffer(64)
    yield made
    made.delete()


def register(cuda: Any, name: int, flags: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(cuda.out("cuGraphicsGLRegisterBuffer", name, flags))


def call(cuda: Any, what: str, resource: ctypes.c_void_p, stream: Any = None) -> int:
    return int(cuda.code(f"cuGraphics{what}Resources", 1, ctypes.byref(resource), stream))


def pointer(cuda: Any, resource: ctypes.c_void_p) -> tuple[int, int, int]:
    address, size = ctypes.c_uint64(), ctypes.c_size_t()
    name = "cuGraphicsResourceGetMappedPointer_v2"
    return cuda.code(name, ctypes.byref(address), ctypes.byref(size), resource), address.value, size.value


def test_contents(cuda: Any, buffer: sim.GLBuffer) -> None:
    """Kernels and OpenGL would see different bytes, or OpenGL would see results of kernels too early."""
    resource, stream = register(cuda, buffer.name), cuda.stream(1)
    buffer.data[:] = bytes(range(64))
    assert call(cuda, "Map", resource, stream) == 0
    code, address, size = pointer(cuda, resource)
    assert (code, size) == (0, 64)
    seen = (ctypes.c_ubyte * 64)()
    cuda.cuMemcpyDtoHAsync_v2(seen, ctypes.c_uint64(address), ctypes.c_size_t(64), stream)
    cuda.cuMemsetD8Async(ctypes.c_uint64(address), 9, ctypes.c_size_t(32), stream)
    cuda.cuStreamSynchronize(stream)
    assert bytes(seen) == bytes(range(64)) == bytes(buffer.data)
    assert call(cuda, "Unmap", resource, stream) == 0
    cuda.cuStreamSynchronize(stream)
    assert bytes(buffer.data) == bytes([9]) * 32 + bytes(range(32, 64))
    assert cuda.code("cuMemsetD8_v2", ctypes.c_uint64(address), 1, ctypes.c_size_t(1)) != 0  # the memory is unmapped
    cuda.cuGraphicsUnregisterResource(resource)
    assert sim.live()["graphics"] == 0


@pytest.fixture
def word(cuda: Any) -> Iterator[ctypes.c_uint64]:
    """A word of host memory, by which a test holds up a stream that waits for the value 1."""
    made = ctypes.c_uint64(cuda.out("cuMemHostAlloc", ctypes.c_size_t(4096), 0))
    ctypes.memset(made.value, 0, 4)
    yield made
    ctypes.memset(made.value, 1, 1)
    cuda.cuMemFreeHost(made)


def test_unmapped_in_another_stream(cuda: Any, buffer: sim.GLBuffer, word: ctypes.c_uint64) -> None:
    """If one stream maps a buffer and another unmaps it, the unmapping would not wait: contents would be lost."""
    resource, first, second = register(cuda, buffer.name), cuda.stream(1), cuda.stream(1)
    buffer.data[:] = bytes(range(64))
    cuda.cuStreamWaitValue32_v2(first, word, 1, 0)
    assert call(cuda, "Map", resource, first) == 0
    assert call(cuda, "Unmap", resource, second) == 0
    time.sleep(0.01)
    assert cuda.code("cuStreamQuery", second) == NOT_READY
    ctypes.memset(word.value, 1, 1)
    cuda.cuCtxSynchronize()
    assert bytes(buffer.data) == bytes(range(64))
    cuda.cuGraphicsUnregisterResource(resource)


@pytest.mark.parametrize("again", [False, True], ids=["other resource", "registered again"])
def test_resources_of_one_buffer(cuda: Any, buffer: sim.GLBuffer, word: ctypes.c_uint64, again: bool) -> None:
    """A resource of the same buffer would be mapped with contents from before another one was unmapped."""
    resource, first, second = register(cuda, buffer.name), cuda.stream(1), cuda.stream(1)
    assert call(cuda, "Map", resource, first) == 0
    address = ctypes.c_uint64(pointer(cuda, resource)[1])
    cuda.cuMemsetD8Async(address, 9, ctypes.c_size_t(64), first)
    cuda.cuStreamWaitValue32_v2(first, word, 1, 0)
    assert call(cuda, "Unmap", resource, first) == 0
    if again:
        cuda.cuGraphicsUnregisterResource(resource)
    other = register(cuda, buffer.name)
    assert call(cuda, "Map", other, second) == 0
    time.sleep(0.01)
    assert cuda.code("cuStreamQuery", second) == NOT_READY
    ctypes.memset(word.value, 1, 1)
    seen = (ctypes.c_ubyte * 64)()
    cuda.cuMemcpyDtoHAsync_v2(seen, ctypes.c_uint64(pointer(cuda, other)[1]), ctypes.c_size_t(64), second)
    cuda.cuCtxSynchronize()
    assert bytes(seen) == bytes([9]) * 64
    assert call(cuda, "Unmap", other, second) == 0
    for one in [other] if again else [resource, other]:
        cuda.cuGraphicsUnregisterResource(one)


def test_misuse(cuda: Any, buffer: sim.GLBuffer) -> None:
    """A call would have a different result than on a GPU (13.0, H200)."""
    resource = register(cuda, buffer.name)
    out = ctypes.byref(ctypes.c_void_p())
    assert cuda.code("cuGraphicsGLRegisterBuffer", out, 4711, 0) == INVALID_HANDLE
    assert cuda.code("cuGraphicsGLRegisterBuffer", out, 0, 0) == INVALID_VALUE
    for flags in (3, 4, 8, 16):
        assert cuda.code("cuGraphicsGLRegisterBuffer", out, buffer.name, flags) == INVALID_VALUE
    twice = (ctypes.c_void_p * 2)(resource, resource)
    assert cuda.code("cuGraphicsMapResources", 2, twice, None) == ALREADY_MAPPED
    assert pointer(cuda, resource)[0] == NOT_MAPPED
    assert call(cuda, "Unmap", resource) == NOT_MAPPED
    assert call(cuda, "Map", resource) == 0
    assert call(cuda, "Map", resource) == ALREADY_MAPPED
    assert cuda.code("cuGraphicsUnregisterResource", resource) == ALREADY_MAPPED
    address = pointer(cuda, resource)[1]
    assert cuda.code("cuMemFree_v2", ctypes.c_uint64(address)) == INVALID_VALUE
    assert call(cuda, "Unmap", resource) == 0
    cuda.cuGraphicsGLRegisterImage(out, buffer.name, GL_TEXTURE_2D, 0)
    image = out._obj
    assert call(cuda, "Map", image) == 0
    assert pointer(cuda, image)[0] == NOT_MAPPED_AS_POINTER
    for null in (ctypes.c_void_p(), ctypes.c_void_p(0)):
        assert call(cuda, "Map", null) == INVALID_HANDLE
        assert cuda.code("cuGraphicsUnregisterResource", null) == INVALID_HANDLE
    assert cuda.code("cuGraphicsMapResources", 0, None, None) == INVALID_VALUE
    assert cuda.code("cuGraphicsMapResources", 1, None, None) == INVALID_VALUE
    sim.reset()


def test_what_is_not_a_resource_is_reported(cuda: Any, buffer: sim.GLBuffer) -> None:
    """Passing an invalid resource, which crashes a real driver, would not be reported."""
    resource = register(cuda, buffer.name)
    cuda.cuGraphicsUnregisterResource(resource)
    assert cuda.code("cuGraphicsUnregisterResource", resource) == INVALID_HANDLE
    assert call(cuda, "Map", ctypes.c_void_p(0x1234)) == INVALID_HANDLE
    stale, wrong = sim.reports()
    assert "was given a graphics resource that was destroyed" in stale
    assert "0x1234, which is not a graphics resource: here the driver crashes" in wrong
    sim.reset()


def test_without_opengl(cuda: Any) -> None:
    """Without an OpenGL context, buffers and images could be registered, or the error would not give the reason."""
    out = ctypes.byref(ctypes.c_void_p())
    assert cuda.code("cuGraphicsGLRegisterBuffer", out, 1, 0) == INVALID_GRAPHICS_CONTEXT
    assert cuda.code("cuGraphicsGLRegisterImage", out, 1, GL_TEXTURE_2D, 0) == INVALID_GRAPHICS_CONTEXT
    assert "there is no OpenGL on the simulated driver" in sim.why()
    cuda.cuCtxSetCurrent(None)
    assert cuda.code("cuGraphicsGLRegisterBuffer", out, 1, 0) == INVALID_CONTEXT


def test_captures(cuda: Any, buffer: sim.GLBuffer) -> None:
    """A call that invalidates a capture on a GPU (13.0, H200) would seem to work."""
    resource, stream = register(cuda, buffer.name), cuda.stream(1)
    cuda.cuStreamBeginCapture_v2(stream, 0)
    assert call(cuda, "Map", resource, stream) == CAPTURE_UNSUPPORTED
    assert cuda.code("cuStreamEndCapture", stream, ctypes.byref(ctypes.c_void_p())) == CAPTURE_INVALIDATED
    cuda.cuStreamBeginCapture_v2(stream, 0)
    assert call(cuda, "Map", resource) == CAPTURE_UNSUPPORTED
    assert cuda.code("cuGraphicsUnregisterResource", resource) == CAPTURE_UNSUPPORTED
    assert cuda.code("cuStreamEndCapture", stream, ctypes.byref(ctypes.c_void_p())) == CAPTURE_INVALIDATED
    cuda.cuGraphicsUnregisterResource(resource)


def test_order_of_copies_that_are_done(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The check of order would report work before an unmapping, and after the next mapping, once the copy is done."""
    result = run_python(
        """
        import time

        def call(name, *arguments):
            code = getattr(cu, name)(*arguments)
            assert code == 0, (name, code)

        context, resource, streams = c_void_p(), c_void_p(), (c_void_p(), c_void_p())
        memory, other, size = c_uint64(), c_uint64(), c_size_t(64)
        call("cuInit", 0)
        call("cuDevicePrimaryCtxRetain", byref(context), 0)
        call("cuCtxSetCurrent", context)
        for stream in streams:
            call("cuStreamCreate", byref(stream), 1)
        call("cuMemAlloc_v2", byref(memory), size)
        call("cuMemAlloc_v2", byref(other), size)
        buffer = cudacore_sim.GLBuffer(64)
        call("cuGraphicsGLRegisterBuffer", byref(resource), buffer.name, 0)
        for stream in streams:
            call("cuGraphicsMapResources", 1, byref(resource), stream)
            call("cuMemsetD8Async", memory, 1, size, stream)
            call("cuGraphicsUnmapResources", 1, byref(resource), stream)
            call("cuMemsetD8Async", c_uint64(other.value), 1, size, streams[0])
            time.sleep(0.2)
        call("cuCtxSynchronize")
        print(cudacore_sim.reports())
        """,
        CHECK="order",
    )
    assert (result.stdout, result.stderr) == ("[]\n", "")
