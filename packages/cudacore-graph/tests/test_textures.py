# SPDX-License-Identifier: Apache-2.0
"""Textures, surfaces and arrays that graphs use: a graph keeps them, and what they read."""

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

# out[x] = the texel x of a texture of an array, of a texture of linear memory, of a surface
PTX = b"""
.version 7.0
.target sm_75
.address_size 64

.visible .entry read_array(.param .u64 texture, .param .u64 out)
{
    .reg .u64 %t, %p, %offset;
    .reg .u32 %x;
    .reg .f32 %c, %v<4>;
    ld.param.u64 %t, [texture];
    ld.param.u64 %p, [out];
    mov.u32 %x, %tid.x;
    mul.wide.u32 %offset, %x, 4;
    add.u64 %p, %p, %offset;
    cvt.rn.f32.u32 %c, %x;
    add.f32 %c, %c, 0f3F000000;
    tex.1d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [%t, {%c}];
    st.global.f32 [%p], %v0;
    ret;
}

.visible .entry read_memory(.param .u64 texture, .param .u64 out)
{
    .reg .u64 %t, %p, %offset;
    .reg .u32 %x;
    .reg .f32 %v<4>;
    ld.param.u64 %t, [texture];
    ld.param.u64 %p, [out];
    mov.u32 %x, %tid.x;
    mul.wide.u32 %offset, %x, 4;
    add.u64 %p, %p, %offset;
    tex.1d.v4.f32.s32 {%v0, %v1, %v2, %v3}, [%t, {%x}];
    st.global.f32 [%p], %v0;
    ret;
}

.visible .entry read_surface(.param .u64 surface, .param .u64 out)
{
    .reg .u64 %t, %p, %offset;
    .reg .u32 %x;
    .reg .b32 %v;
    ld.param.u64 %t, [surface];
    ld.param.u64 %p, [out];
    mov.u32 %x, %tid.x;
    mul.wide.u32 %offset, %x, 4;
    add.u64 %p, %p, %offset;
    shl.b32 %x, %x, 2;
    suld.b.1d.b32.trap {%v}, [%t, {%x}];
    st.global.b32 [%p], %v;
    ret;
}
"""
CONFIG = ch.LaunchConfig(grid=1, block=WIDTH)
KINDS = {"array": "read_array", "linear": "read_memory", "surface": "read_surface"}


def make_array(device: ch.Device, stream: ch.Stream, values: Any) -> OpaqueArray:
    options = OpaqueArrayOptions((WIDTH,), "float32", 1, is_surface_load_store=True)
    array = device.create_opaque_array(options)
    array.copy_from(np.asarray(values, np.float32), stream=stream)
    return array


def make(kind: str, device: ch.Device, stream: ch.Stream, first: int) -> tuple[Any, Any]:
    """Return a texture or surface of the values from `first` on, and what it reads."""
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
    """Close what a test has made: nothing but the graph can keep it now."""
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
    """Give the kernel that reads what is of a kind."""
    code = ch.ObjectCode.from_ptx(PTX)
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
    """The kernel of a graph would sample an array or memory that is freed, and belongs to somebody else."""
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
    """Return how many more textures, surfaces, arrays and buffers there are."""
    kinds = ("texture", "surface", "array", "deviceptr")
    return {kind: counts[kind] - before[kind] for kind in kinds if counts[kind] != before[kind]}


@pytest.mark.parametrize("kind", KINDS)
def test_another_texture(
    device: ch.Device, stream: ch.Stream, out: ch.Buffer, kernel_of: Callable[[str], ch.Kernel], kind: str
) -> None:
    """An updated node would sample what it sampled before, or what nobody keeps; or keep the old for good."""
    before = ch.live_counts()
    name = {"array": "texture", "linear": "texture", "surface": "surface"}[kind]
    kernel, definition = kernel_of(kind), cg.GraphDefinition()
    first, second, third = (make(kind, device, stream, value) for value in (0, 10, 20))
    node = definition.launch(CONFIG, kernel, first[0], out)
    graph = definition.instantiate()
    node.update(args=(second[0], out))
    close(*first, *second)
    assert kept_of(ch.live_counts(), before)[name] == 3  # the first is the executable graph's
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


def test_a_closed_texture(
    device: ch.Device, stream: ch.Stream, out: ch.Buffer, kernel_of: Callable[[str], ch.Kernel]
) -> None:
    """A node would be added whose texture was destroyed."""
    made, source = make("array", device, stream, 0)
    made.close()
    with pytest.raises(ch.ClosedError):
        cg.GraphDefinition().launch(CONFIG, kernel_of("array"), made, out)
    source.close()
