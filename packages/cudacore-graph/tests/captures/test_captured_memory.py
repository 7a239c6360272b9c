# SPDX-License-Identifier: Apache-2.0
"""Captured copies and host functions: the graph contains them, and keeps what they use."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import pytest
from graph_tools import launch

import cudacore_handles as ch

SIZE = 64


def host(mr: ch.MemoryResource, value: int) -> ch.Buffer:
    buffer = mr.allocate(SIZE)  # type: ignore[call-arg]
    buffer.__buffer__()[:] = bytes([value]) * SIZE
    return buffer


@pytest.mark.parametrize("way", ["batch", "options", "part"])
def test_copies(device: ch.Device, stream: ch.Stream, way: str) -> None:
    """Copies would not be captured, or their memory would be reused while the graph uses it."""
    mr = ch.LegacyPinnedMemoryResource()
    sources, middle = [host(mr, 1), host(mr, 2)], [host(mr, 0), host(mr, 0)]
    out = [host(mr, 0), host(mr, 0)]
    with device.create_graph_builder() as builder:
        if way == "batch":
            ch.copy_batch(builder, sources, middle, options=ch.CopyOptions("any"))  # type: ignore[arg-type]
            ch.copy_batch(builder, middle, out)  # type: ignore[arg-type]
        for source, between, target in zip(sources, middle, out, strict=True):
            if way == "options":
                source.copy_to(between, stream=builder, options=ch.CopyOptions())
                target.copy_from(between, stream=builder, options=ch.CopyOptions("any"))
            elif way == "part":
                between.copy_part_from(source, 8, height=8, stream=builder)
                target.copy_part_from(between, SIZE, stream=builder)
    graph = builder.complete()
    del sources, between, source
    for buffer in middle:
        buffer.close()
    gc.collect()
    fresh = [host(mr, 9) for _ in range(8)]  # if the graph's memory had been freed, these buffers would get it
    launch(graph, stream)
    assert [buffer.__buffer__()[SIZE - 1] for buffer in out] == [1, 2]
    assert all(buffer.__buffer__()[0] == 9 for buffer in fresh)


def test_a_source_is_read_when_the_graph_runs(device: ch.Device, stream: ch.Stream) -> None:
    """A copy that must read its source at once would be captured, and read the source when the graph runs."""
    buffer, out = (host(ch.LegacyPinnedMemoryResource(), 1) for _ in range(2))
    options = ch.CopyOptions("during_api_call")
    with device.create_graph_builder() as builder:
        for use in (
            lambda: buffer.copy_to(out, stream=builder, options=options),
            lambda: out.copy_from(buffer, stream=builder, options=options),
            lambda: ch.copy_batch(builder, [buffer], [out], options=[options]),  # type: ignore[arg-type]
        ):
            with pytest.raises(ValueError, match="the stream is being captured: the graph reads the source"):
                use()
        builder.callback(lambda: None)
    launch(builder.complete(), stream)


def test_functions(device: ch.Device, stream: ch.Stream) -> None:
    """A function would be called at once and not by each launch, or be released before the graph."""
    seen: list[Any] = []
    take = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: seen.append(ctypes.string_at(data, 3)))

    class Function:
        def __call__(self) -> None:
            seen.append("called")

    with stream.create_graph_builder() as builder:
        stream.callback(Function())
        stream.callback(take, user_data=b"abc")
        assert seen == []
    first, second = builder.graph_definition.sorted_nodes()
    assert (type(first.function), second.function) == (Function, None)  # type: ignore[attr-defined]
    del first, second
    graph = builder.complete()
    builder.close()
    del take
    gc.collect()
    launch(graph, stream)
    launch(graph, stream)
    assert seen == ["called", b"abc"] * 2
