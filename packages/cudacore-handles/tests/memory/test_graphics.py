# SPDX-License-Identifier: Apache-2.0
"""Buffers and images of OpenGL: imitations on the simulated driver, and those of EGL on a GPU."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import kernel_sources
import pytest
from opengl import SIZE, OpenGL

import cudacore_handles as ch
from cudacore_handles import CUDAError, GoneError, GraphicsResource
from threads_at_once import in_threads

GL_TEXTURE_2D = 0x0DE1


@pytest.fixture
def gl(on_sim: bool, device: ch.Device) -> Iterator[OpenGL]:
    opengl = OpenGL(on_sim)
    yield opengl
    opengl.close()


@pytest.fixture
def resource(gl: OpenGL) -> Iterator[GraphicsResource]:
    with GraphicsResource.from_gl_buffer(gl.buffer().name) as resource:
        yield resource


@pytest.fixture
def add(device: ch.Device, stream: ch.Stream) -> Callable[[ch.Buffer, int], None]:
    """Give a function that launches a kernel, which adds to the first number in a buffer."""
    kernel = ch.ObjectCode.from_ptx(kernel_sources.PTX).get_kernel("add")
    return lambda buffer, amount: ch.launch(stream, ch.LaunchConfig(grid=1, block=1), kernel, buffer, amount)


def numbers(data: bytes) -> tuple[int, int]:
    """Return the first number, and the number at byte 256."""
    return int.from_bytes(data[:4], "little"), int.from_bytes(data[256:260], "little")


def test_a_kernel_writes_and_opengl_reads(gl: OpenGL, stream: ch.Stream, add: Callable[..., None]) -> None:
    """OpenGL would not see the output of a kernel, or a kernel would not see the output of OpenGL."""
    ours = gl.buffer((5).to_bytes(4, "little") * (SIZE // 4))
    with GraphicsResource.from_gl_buffer(ours.name) as resource:
        with resource.map(stream=stream) as buffer:
            assert isinstance(buffer, ch.Buffer)
            assert buffer.size == SIZE
            assert buffer.is_device_accessible
            assert resource.is_mapped
            add(buffer, 2)
            add(buffer[256:], 30)
        assert not resource.is_mapped
        assert buffer.is_closed
        stream.sync()
        assert numbers(ours.read()) == (7, 35)
        ours.write(bytes(SIZE))
        with resource.map(stream=stream) as again:
            add(again, 1)
        stream.sync()
        assert numbers(ours.read()) == (1, 0)
    assert resource.is_closed


def test_mapped_by_a_with_statement(gl: OpenGL, stream: ch.Stream, add: Callable[..., None]) -> None:
    """A ``with`` statement would not map the resource, or would leave it registered."""
    ours = gl.buffer()
    resource = GraphicsResource.from_gl_buffer(ours.name, flags="write_discard", stream=stream)
    with resource as buffer:
        buffer.fill(0, stream=stream)
        add(buffer, 9)
    assert resource.is_closed
    assert buffer.is_closed
    stream.sync()
    assert numbers(ours.read()) == (9, 0)


def test_an_unmapped_buffer(resource: GraphicsResource, stream: ch.Stream, add: Callable[..., None]) -> None:
    """Memory that was given back to OpenGL would be used by a launch, a copy or a graph."""
    buffer = resource.map(stream=stream)
    part, of_part = buffer[256:], buffer[256:][:8]
    view = buffer.view("int32")
    resource.unmap()
    assert not resource.is_mapped
    for use in (
        lambda: add(buffer, 1),
        lambda: buffer.fill(1, stream=stream),
        lambda: buffer[:8],
        lambda: buffer.copy_to(bytearray(SIZE), stream=stream),
        lambda: buffer.view("int8"),
    ):
        with pytest.raises(ch.ClosedError):
            use()
    other = ch.Device().allocate(8, stream=stream)
    for part_of in (part, of_part):
        for use_part in (
            lambda part=part_of: part.fill(1, stream=stream),
            lambda part=part_of: part[:8],
            lambda part=part_of: part[:8].copy_to(other, stream=stream),
        ):
            with pytest.raises(GoneError, match="graphics resource was unmapped"):
                use_part()
    del view, part, of_part
    again = resource.map(stream=stream)
    add(again, 1)
    stream.sync()


def test_a_prepared_launch(resource: GraphicsResource, stream: ch.Stream) -> None:
    """A prepared launch would write to memory that was given back to OpenGL."""
    kernel = ch.ObjectCode.from_ptx(kernel_sources.PTX).get_kernel("add")
    buffer = resource.map(stream=stream)
    prepared = kernel.prepare(stream, ch.LaunchConfig(grid=1, block=1), buffer, 1)
    prepared()
    buffer.close()
    assert not resource.is_mapped
    with pytest.raises(ch.ClosedError):
        prepared()


def test_who_drops_the_buffer_unmaps(resource: GraphicsResource, stream: ch.Stream) -> None:
    """Dropping the mapped buffer would not unmap the resource, so that OpenGL waits for it or draws garbage."""
    buffer = resource.map(stream=stream)
    part = buffer[8:16]
    del buffer
    gc.collect()
    assert resource.is_mapped  # a part is still in use, so the memory is mapped
    part.close()
    assert not resource.is_mapped
    resource.map(stream=stream).close(stream)
    assert not resource.is_mapped


@pytest.mark.parametrize("order", ["resource first", "buffer first", "part last", "all at once"])
def test_dropped_in_any_order(gl: OpenGL, stream: ch.Stream, order: str) -> None:
    """A resource would be unregistered while it is mapped, or never."""
    resource: Any = GraphicsResource.from_gl_buffer(gl.buffer().name)
    buffer: Any = resource.map(stream=stream)
    part: Any = buffer[8:]
    if order == "resource first":
        resource = None
    elif order == "buffer first":
        buffer = None
        resource.close()
        with pytest.raises(GoneError):
            part.fill(0, stream=stream)
    elif order == "part last":
        resource = buffer = None
    resource = buffer = part = None
    gc.collect()


def test_closing_unmaps(gl: OpenGL, stream: ch.Stream) -> None:
    """A closed resource would leave its memory mapped."""
    resource = GraphicsResource.from_gl_buffer(gl.buffer().name)
    buffer = resource.map(stream=stream)
    handle = resource.handle
    assert handle == resource.resource_handle != 0
    assert repr(resource) == f"<GraphicsResource handle={handle:#x} mapped>"
    resource.close(stream)
    resource.close()
    assert (resource.handle, resource.resource_handle, resource.is_mapped) == (0, 0, False)
    assert repr(resource) == "<GraphicsResource closed>"
    assert buffer.is_closed
    for use in (lambda: resource.map(stream=stream), resource.unmap):
        with pytest.raises(ch.ClosedError, match="GraphicsResource has been closed"):
            use()


def test_mapped_twice(resource: GraphicsResource, stream: ch.Stream) -> None:
    """A resource would be given back to OpenGL while a buffer of its memory is in use."""
    with pytest.raises(RuntimeError, match="is not mapped: map"):
        resource.unmap()
    buffer = resource.map(stream=stream)
    with pytest.raises(RuntimeError, match="is already mapped"):
        resource.map(stream=stream)
    assert not buffer.is_closed


def test_streams(resource: GraphicsResource, device: ch.Device) -> None:
    """A resource would be unmapped before the work of the stream given to map() or unmap() is done."""
    first, second = device.create_stream(), device.create_stream()
    with pytest.raises(TypeError):
        resource.map(stream=3)  # type: ignore[arg-type]
    buffer = resource.map(stream=device.default_stream)
    buffer.fill(1, stream=first)
    buffer.set_deallocation_stream(first)
    first.sync()
    buffer.close(second)
    again = resource.map(stream=ch.PER_THREAD_DEFAULT_STREAM)
    resource.unmap(stream=second)
    assert again.is_closed
    device.sync()


def test_threads(gl: OpenGL, stream: ch.Stream) -> None:
    """Threads that map and unmap one resource would unmap it twice, or never."""
    resource = GraphicsResource.from_gl_buffer(gl.buffer().name)

    def use(_: int) -> None:
        for _ in range(40):
            try:
                with resource.map(stream=stream) as buffer:
                    buffer.fill(0, stream=stream)
            except RuntimeError:  # another thread has mapped it
                pass

    in_threads(use, range(4))
    assert not resource.is_mapped
    resource.close()


def test_images(gl: OpenGL, stream: ch.Stream) -> None:
    """Mapping an image, which has no address, would return other memory instead of an error."""
    if gl.on_sim:
        name = gl.buffer().name
    else:
        texture = gl.context.texture((32, 8), 4, dtype="f4")
        name = texture.glo
    with GraphicsResource.from_gl_image(name, GL_TEXTURE_2D, flags=["read_only"]) as image:
        with pytest.raises(CUDAError, match=r"cuGraphicsResourceGetMappedPointer.*An image has no address"):
            image.map(stream=stream)
        assert not image.is_mapped


def test_there_is_no_opengl(device: ch.Device, on_sim: bool) -> None:
    """If there is no OpenGL, the error would not say that the thread needs a current OpenGL context."""
    if not on_sim and "moderngl" in sys.modules:
        pytest.skip("a context of OpenGL stays current on this thread: run this test alone")
    with pytest.raises(CUDAError) as caught:
        GraphicsResource.from_gl_buffer(1)
    hints = {
        "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT": "OpenGL must have a context current on this thread",
        "CUDA_ERROR_OPERATING_SYSTEM": "it needs the library libGL.so.1",  # from a driver without OpenGL
    }
    assert hints[caught.value.code_name] in str(caught.value)
    assert not on_sim or caught.value.code_name == "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT"
    assert caught.value.operation == "cuGraphicsGLRegisterBuffer"
    with pytest.raises(CUDAError, match="cuGraphicsGLRegisterImage"):
        GraphicsResource.from_gl_image(1, GL_TEXTURE_2D)


@pytest.mark.cuda_sim
def test_dropped_in_a_host_function(gl: OpenGL, stream: ch.Stream) -> None:
    """Mapped memory whose last reference is dropped where CUDA calls are forbidden would stay mapped forever."""
    import cudacore_sim as sim

    kept = [GraphicsResource.from_gl_buffer(gl.buffer().name)]
    kept.append(kept[0].map(stream=stream))  # type: ignore[arg-type]
    with sim.forbidding():
        kept.clear()
        gc.collect()
    assert sim.live()["graphics"] == 1
    stream.sync()
    assert sim.live()["graphics"] == 0
