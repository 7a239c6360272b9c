# SPDX-License-Identifier: Apache-2.0
"""Textures, surfaces and arrays that graphs use: a graph keeps them, and the memory that they read."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_handles.texture import (
    OpaqueArray,
    OpaqueArrayOptions,
    ResourceDescriptor,
)

WIDTH = 8

# Each kernel sets out[x] to texel x: of a texture of an array, of a texture of linear memory, or of a surface.
READ = {
    "read_array": """
    .reg .f32 %c, %v<4>;
    cvt.rn.f32.u32 %c, %x;
    add.f32 %c, %c, 0f3F000000;
    tex.1d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%c}];
    st.global.f32 [%p], %v0;""",
    "read_memory": """
    .reg .f32 %v<4>;
    tex.1d.v4.f32.s32 {%v0, %v1, %v2, %v3}, [%t, {%x}];
    st.global.f32 [%p], %v0;""",
    "read_surface": """
    .reg .b32 %v;
    shl.b32 %x, %x, 2;
    suld.b.1d.b32.trap {%v}, [%t, {%x}];
    st.global.b32 [%p], %v;""",
}
ENTRY = """
.visible .entry NAME(.param .u64 resource, .param .u64 out)
{
    .reg .u64 %t, %p, %offset;
    .reg .u32 %x;
    ld.param.u64 %t, [resource];
    ld.param.u64 %p, [out];
    mov.u32 %x, %tid.x;
    mul.wide.u32 %offset, %x, 4;
    add.u64 %p, %p, %offset;READ
    ret;
}
"""
PTX = ".version 7.0\n.target sm_75\n.address_size 64\n"
PTX += "".join(ENTRY.replace("NAME", name).replace("READ", read) for name, read in READ.items())
CONFIG = ch.LaunchConfig(grid=1, block=WIDTH)
KINDS = {"array": "read_array", "linear": "read_memory", "surface": "read_surface"}


def make_array(device: ch.Device, stream: ch.Stream, values: Any) -> OpaqueArray:
    options = OpaqueArrayOptions((WIDTH,), "float32", 1, is_surface_load_store=True)
    array = device.create_opaque_array(options)
    array.copy_from(np.asarray(values, np.float32), stream=stream)
    return array


def make(kind: str, device: ch.Device, stream: ch.Stream, first: int) -> tuple[Any, Any]:
    """Return a texture or surface of the values from `first` on, and the objects that it reads."""
    values = np.arange(first, first + WIDTH, dtype=np.float32)
    source: Any
    if kind == "linear":
        source = device.allocate(4 * WIDTH, stream=stream)
        source.copy_from(values, stream=stream)
        stream.sync()
        resource = ResourceDescriptor.from_linear(source, format="float32", num_channels=1)
        return device.create_texture_object(resource=resource), source
    source = make_array(device, stream, values)
    resource = ResourceDescriptor.from_opaque_array(source)
    if kind == "surface":
        return device.create_surface_object(resource=resource), source
    return device.create_texture_object(resource=resource), source


def close(*faces: Any) -> None:
    """Close the objects of a test, so that only the graph can keep them."""
    for face in faces:
        face.close()
    gc.collect()


def values_of(out: ch.Buffer, stream: ch.Stream) -> list[float]:
    stream.sync()
    return np.asarray(out).view(np.float32).tolist()  # type: ignore[no-any-return]


@pytest.fixture
def out() -> ch.Buffer:
    """Give pinned memory for the results."""
    return ch.LegacyPinnedMemoryResource().allocate(4 * WIDTH)


@pytest.fixture
def kernel_of() -> Callable[[str], ch.Kernel]:
    """Give a function that returns the kernel for a kind of resource."""
    code = ch.ObjectCode.from_ptx(PTX.encode())
    return lambda kind: code.get_kernel(KINDS[kind])


def launch_node(device: ch.Device, kernel: ch.Kernel, *arguments: Any) -> cg.Graph:
    definition = cg.GraphDefinition()
    definition.launch(CONFIG, kernel, *arguments)
    return definition.instantiate()


def launch_captured(device: ch.Device, kernel: ch.Kernel, *arguments: Any) -> cg.Graph:
    with device.create_graph_builder() as builder:
        ch.launch(builder, CONFIG, kernel, *arguments)
        return builder.end_building().complete()


def launch_prepared(device: ch.Device, kernel: ch.Kernel, *arguments: Any) -> cg.Graph:
    with device.create_graph_builder() as builder:
        kernel.prepare(builder, CONFIG, *arguments)()
        return builder.end_building().complete()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("build", [launch_node, launch_captured, launch_prepared])
def test_a_graph_keeps_what_it_samples(
    device: ch.Device, stream: ch.Stream, out: ch.Buffer, kernel_of: Callable[[str], ch.Kernel], build: Any, kind: str
) -> None:
    """The kernel of a graph would sample an array or memory that was freed and allocated to other code."""
    before = ch.live_counts()
    made, source = make(kind, device, stream, 10)
    graph = build(device, kernel_of(kind), made, out)
    close(made, source)
    for _ in range(2):
        out.fill(0, stream=stream)
        graph.launch(stream)
        assert values_of(out, stream) == [10, 11, 12, 13, 14, 15, 16, 17]
    graph.close()
    del made, source, graph
    gc.collect()
    assert kept_of(ch.live_counts(), before) == {}


def kept_of(counts: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    """Return how many more textures, surfaces, arrays and buffers are alive than before."""
    kinds = ("texture", "surface", "array", "deviceptr")
    return {kind: counts[kind] - before[kind] for kind in kinds if counts[kind] != before[kind]}


@pytest.mark.parametrize("kind", KINDS)
def test_another_texture(
    device: ch.Device, stream: ch.Stream, out: ch.Buffer, kernel_of: Callable[[str], ch.Kernel], kind: str
) -> None:
    """An updated node would read its old or a freed resource, or keep the old resource alive forever."""
    before = ch.live_counts()
    name = {"array": "texture", "linear": "texture", "surface": "surface"}[kind]
    kernel, definition = kernel_of(kind), cg.GraphDefinition()
    first, second, third = (make(kind, device, stream, value) for value in (0, 10, 20))
    node = definition.launch(CONFIG, kernel, first[0], out)
    graph = definition.instantiate()
    node.update(args=(second[0], out))
    close(*first, *second)
    assert kept_of(ch.live_counts(), before)[name] == 3  # the executable graph keeps the first resource
    graph.launch(stream)
    assert values_of(out, stream) == list(range(8))
    other = definition.instantiate()
    graph[node].update(config=CONFIG, kernel=kernel, args=(third[0], out))
    close(*third)
    graph.launch(stream)
    assert values_of(out, stream) == list(range(20, 28))
    other.launch(stream)
    assert values_of(out, stream) == list(range(10, 18))
    definition.close()
    other.close()
    graph.close()
    del node, definition, first, second, third, graph, other
    gc.collect()
    stream.sync()
    assert kept_of(ch.live_counts(), before) == {}


# ---- copies of arrays


def test_copies_of_arrays(device: ch.Device, stream: ch.Stream, out: ch.Buffer) -> None:
    """A node would copy the wrong texels, or texels of a freed array."""
    before = ch.live_counts()
    source, target = make_array(device, stream, range(8)), make_array(device, stream, [0] * 8)
    memory = device.allocate(4 * WIDTH, stream=stream)
    stream.sync()
    definition = cg.GraphDefinition()
    first = definition.memcpy(memory, source)
    second = first.memcpy(target, memory)
    third = second.memcpy(target, source)
    assert (first.size, first.height, first.depth) == (32, 1, 1)
    assert (first.dst, first.src, second.dst, third.src) == (
        int(memory.handle),
        source.handle,
        target.handle,
        source.handle,
    )
    third.memcpy(out, target)
    graph = definition.instantiate()
    source.copy_from(np.arange(20, 28, dtype=np.float32), stream=stream)
    close(source, target, memory)
    graph.launch(stream)
    assert values_of(out, stream) == list(range(20, 28))
    graph.close()
    definition.close()
    del source, target, memory, graph, definition, first, second, third
    gc.collect()
    assert kept_of(ch.live_counts(), before) == {}


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 2)])
def test_rows_and_planes(device: ch.Device, stream: ch.Stream, shape: tuple[int, ...]) -> None:
    """A copy would use the wrong rows or planes if the memory has gaps between rows."""
    array = device.create_opaque_array(OpaqueArrayOptions(shape, "uint16", 2))
    texels = np.arange(array.size_bytes // 2, dtype=np.uint16)
    array.copy_from(texels, stream=stream)
    stream.sync()
    pinned = ch.LegacyPinnedMemoryResource()
    dense, apart = pinned.allocate(array.size_bytes), pinned.allocate(64 * 6)
    np.asarray(apart)[:] = 0
    definition = cg.GraphDefinition()
    definition.memcpy(dense, array)
    definition.memcpy(apart, array, dst_pitch=64)
    definition.instantiate().launch(stream)
    stream.sync()
    assert (np.asarray(dense).view(np.uint16) == texels).all()
    rows = texels.reshape(-1, 2 * shape[0])
    assert (np.asarray(apart).view(np.uint16).reshape(6, 32)[: len(rows), : rows.shape[1]] == rows).all()
    with pytest.raises(ValueError, match="dst has"):
        definition.memcpy(pinned.allocate(8), array)


def test_updates_of_copies(device: ch.Device, stream: ch.Stream, out: ch.Buffer) -> None:
    """An updated copy would still copy the old array."""
    arrays = [make_array(device, stream, range(first, first + 8)) for first in (0, 10, 20)]
    stream.sync()
    definition = cg.GraphDefinition()
    node = definition.memcpy(out, arrays[0])
    graph = definition.instantiate()
    node.update(src=arrays[1])
    assert node.src == arrays[1].handle
    other = definition.instantiate()
    graph[node].update(dst=out, src=arrays[2])
    for made, first in ((graph, 20), (other, 10)):
        made.launch(stream)
        assert values_of(out, stream) == list(range(first, first + 8))
    target = ch.LegacyPinnedMemoryResource().allocate(4 * WIDTH)
    node.update(dst=target)
    close(*arrays)
    definition.instantiate().launch(stream)
    assert values_of(target, stream) == list(range(10, 18))
    node.update(dst=out, src=target, size=8)
    np.asarray(out)[:] = 0
    definition.instantiate().launch(stream)
    assert values_of(out, stream) == [10, 11, 0, 0, 0, 0, 0, 0]
    with pytest.raises(TypeError, match=r"memcpy\(\) needs size"):
        definition.memcpy(out, target)


def test_bad_copies(device: ch.Device, stream: ch.Stream, out: ch.Buffer) -> None:
    """The driver would refuse a copy without an explanation, or copy something else."""
    array, other = (
        make_array(device, stream, range(8)),
        device.create_opaque_array(OpaqueArrayOptions((4,), "uint8", 2)),
    )
    definition = cg.GraphDefinition()
    for arguments, message in (
        ({"size": 32}, "src is an array, all of which is copied: leave size out"),
        ({"height": 2}, "leave height out"),
        ({"src_pitch": 64}, "leave src_pitch out"),
        ({"src_owner": array}, "leave src_owner out"),
        ({"dst_pitch": 16}, "less than the row's 32"),
    ):
        with pytest.raises(ValueError, match=message):
            definition.memcpy(out, array, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"dst has 8 x 1 x 1 texels of 4 bytes, and src 4 x 1 x 1 of 2"):
        definition.memcpy(array, other)
    array.close()
    with pytest.raises(ch.ClosedError):
        definition.memcpy(out, array)
