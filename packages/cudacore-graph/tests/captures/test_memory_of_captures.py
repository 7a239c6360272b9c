# SPDX-License-Identifier: Apache-2.0
"""Memory that is allocated in a capture belongs to the graph: who frees it, and when."""

from __future__ import annotations

import contextlib
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from graph_tools import MODES, ONE, Numbers, kinds_of, launch, on_another_thread

import cudacore_graph as cg
import cudacore_handles as ch


def memory_of_a_fork(device: ch.Device, builder: cg.GraphBuilder) -> tuple[ch.Buffer, cg.GraphBuilder, cg.GraphBuilder]:
    """Return memory that a fork of a fork has allocated and filled, and both forks, which are joined."""
    _, fork = builder.split(2)
    _, deeper = fork.split(2)
    memory = device.allocate(64, stream=deeper)
    memory.fill(0, stream=deeper)
    fork.join(fork, deeper)
    builder.join(builder, fork)
    return memory, fork, deeper


@pytest.mark.parametrize("mode", MODES)
def test_memory_of_a_capture(device: ch.Device, stream: ch.Stream, numbers: Numbers, mode: str) -> None:
    """Memory that is allocated and dropped in a capture would not belong to it, or the pools would become unusable."""
    # Only the relaxed mode allows the creation of a pool during the capture.
    pool = ch.DeviceMemoryResource(device, {}) if mode != "relaxed" else None
    builder = stream.create_graph_builder().begin_building(mode)
    pool = pool or ch.DeviceMemoryResource(device, {})
    memory = pool.allocate(64, stream=builder)
    late = pool.allocate(64, stream=builder)
    pool.close()
    result = ch.Buffer.from_handle(numbers.at(0), 64)
    for buffer in (memory, late):
        buffer.fill(1, stream=builder)
        result.copy_from(buffer, stream=builder)
    del buffer
    memory.close()
    builder.end_building()
    assert (
        kinds_of(builder.graph_definition) == ["AllocNode"] * 2 + ["FreeNode"] + ["MemcpyNode"] * 2 + ["MemsetNode"] * 2
    )
    builder.complete().launch(stream)
    stream.sync()
    assert numbers[0] == 0x01010101
    late.close()


@pytest.mark.parametrize(
    "way",
    [
        *("view", "view of a view", "part", "prepared"),
        *("copy of a view", "copy from a view", "borrowed", "DLPack"),
        pytest.param("body", marks=pytest.mark.needs_driver("12.3", "conditional nodes")),
    ],
)
def test_uses_of_memory_of_a_capture(
    device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, way: str
) -> None:
    """The graph, or a body in it, would keep memory that the graph allocates, so that the graph could run only once."""
    other = device.allocate(64, stream=stream)
    other.fill(5, stream=stream)
    with stream.create_graph_builder() as builder:
        memory = device.allocate(64, stream=builder)
        memory.fill(0, stream=builder)
        view: Any = memory[:32] if way == "part" else memory.view("uint32")
        if way == "view of a view":
            view = view.view(dtype="int32")
        if way == "prepared":
            add.prepare(builder, ONE, view, 5)()
        elif way == "copy of a view":
            memory.view("uint8").copy_from(other.view("uint8"), builder)
        elif way == "copy from a view":
            memory.copy_from(other, stream=builder)
            other.copy_from(view, stream=builder)
        elif way == "borrowed":
            ch.Buffer.from_handle(int(memory.handle), 64, owner=view).copy_from(other, stream=builder)
        elif way == "DLPack":
            tensor = ch.StridedMemoryView.from_dlpack(memory, stream_ptr=-1)
            tensor.copy_from(other.view("int8"), builder)
            del tensor
        elif way == "body":
            with builder.if_then(builder.create_condition(1)) as body:
                ch.launch(body, ONE, add, memory, 5)
        else:
            ch.launch(builder, ONE, add, view, 5)
        ch.Buffer.from_handle(numbers.at(0), 64).copy_from(memory, stream=builder)
        del view
        memory.close()
    copies = way in ("copy of a view", "copy from a view", "borrowed", "DLPack")
    use = "IfNode" if way == "body" else "MemcpyNode" if copies else "KernelNode"
    kinds = kinds_of(builder.graph_definition)
    assert list(dict.fromkeys(kinds)) == list(dict.fromkeys(["AllocNode", "FreeNode", use, "MemcpyNode", "MemsetNode"]))
    graph = builder.complete()
    for _ in range(2):
        launch(graph, stream)
    assert numbers[0] == (0x05050505 if copies else 5)


@pytest.mark.parametrize("forks_are", ["alive", "dropped"])
@pytest.mark.parametrize("way", ["close", "collect"])
@pytest.mark.parametrize("mode", MODES)
def test_memory_of_a_joined_fork(
    device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, mode: str, way: str, forks_are: str
) -> None:
    """Memory of a fork would be freed on a fork that is never joined, so that the graph is lost."""
    builder = stream.create_graph_builder().begin_building(mode)
    memory, *forks = memory_of_a_fork(device, builder)
    if forks_are == "dropped":
        forks.clear()
    ch.launch(builder, ONE, add, memory, 1)
    if way == "close":
        memory.close()
    else:
        del memory
        gc.collect()
    graph = builder.end_building().complete()
    assert kinds_of(builder.graph_definition) == ["AllocNode", "FreeNode", "KernelNode", "MemsetNode"]
    (free,) = (node for node in builder.graph_definition.nodes() if isinstance(node, cg.FreeNode))
    assert [type(node) for node in free.pred] == [cg.KernelNode]
    for _ in range(2):
        graph.launch(stream)
        stream.sync()


def test_memory_of_a_joined_fork_after_its_capture(
    device: ch.Device, stream: ch.Stream, numbers: Numbers, add: ch.Kernel
) -> None:
    """Memory of a fork would be freed on the fork's stream, which waits for nothing, while the graph still uses it."""
    go = threading.Event()
    with stream.create_graph_builder() as builder:
        builder.callback(go.wait)
        _, fork = builder.split(2)
        _, deeper = fork.split(2)
        memory, more = device.allocate(64, stream=fork), device.allocate(64, stream=deeper)
        fork.join(fork, deeper)
        builder.join(builder, fork)
        for buffer in (memory, more):
            buffer.fill(0, stream=builder)
            ch.launch(builder, ONE, add, buffer, 4)
        ch.Buffer.from_handle(numbers.at(0), 64).copy_from(memory, stream=builder)
        ch.Buffer.from_handle(numbers.at(16), 64).copy_from(more, stream=builder)
    del buffer
    graph = builder.complete()
    graph.launch(stream)
    order = memory.__cuda_array_interface__["stream"]
    memory.close()
    del more
    go.set()
    stream.sync()
    assert (numbers[0], numbers[16]) == (4, 4)
    assert order == int(stream.handle)


def test_streams_of_joined_forks_are_closed_during_the_capture(
    device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers
) -> None:
    """Each fork would hold half a megabyte of device memory until the capture ends."""
    before = ch.live_counts()["stream"]
    with stream.create_graph_builder() as builder:
        for _ in range(20):
            _, fork = builder.split(2)
            ch.launch(fork, ONE, add, numbers.buffer, 1)
            builder.join(builder, fork)
        del _, fork
        assert ch.live_counts()["stream"] <= before + 2
        forks = builder.split(20)
        for fork in forks[1:]:
            _, deeper = fork.split(2)
            ch.launch(deeper, ONE, add, numbers.buffer.view("i4", (4,)), 0)
            fork.join(fork, deeper)
        builder.join(*forks)
        del _, fork, deeper, forks
        builder.join(builder, builder.split(2)[1])
        assert ch.live_counts()["stream"] <= before + 2
    launch(builder.complete(), stream)
    assert numbers[0] == 20


def test_streams_of_forks_go(device: ch.Device, stream: ch.Stream) -> None:
    """A graph would keep a stream for each fork of its capture."""
    gc.collect()
    before = ch.live_counts()["stream"]
    with stream.create_graph_builder() as builder:
        for _ in range(3):
            memory, *forks = memory_of_a_fork(device, builder)
            memory.close()
    graph = builder.complete()
    forks.clear()
    gc.collect()
    assert ch.live_counts()["stream"] == before
    graph.launch(stream)
    stream.sync()


@pytest.mark.parametrize("way", ["not completed", "not launched", "lost", "closed", "dropped", "in another capture"])
def test_memory_that_a_graph_never_allocated(device: ch.Device, stream: ch.Stream, way: str) -> None:
    """Memory that was never allocated would be freed, which the simulated driver reports."""
    before = ch.live_counts()["deviceptr"]
    builder = stream.create_graph_builder().begin_building()
    memory = device.allocate(64, stream=builder)
    memory.fill(0, stream=builder)
    graph = None
    if way == "lost":
        with pytest.raises(ch.CUDAError):
            stream.sync()
        memory.close()
        with pytest.raises(ch.CUDAError):
            builder.end_building()
    elif way == "closed":
        builder.close()
    elif way == "dropped":
        del builder
        gc.collect()
    else:
        builder.end_building()
        graph = builder.complete() if way == "not launched" else None
        if way == "in another capture":
            with stream.create_graph_builder() as other:
                other.callback(lambda: None)
                memory.close()
            assert kinds_of(other.graph_definition) == ["HostCallbackNode"]
    memory.close()
    if graph is not None:
        graph.close()
    gc.collect()
    assert ch.live_counts()["deviceptr"] == before


@pytest.mark.parametrize("way", ["closed", "set", "set on another thread", "in another capture"])
def test_memory_that_is_freed_outside_of_its_capture(device: ch.Device, stream: ch.Stream, way: str) -> None:
    """Nothing would free the memory, so the graph could be launched only once, and would leave the memory behind."""
    other = device.create_stream()
    with stream.create_graph_builder() as builder:
        memory = device.allocate(64, stream=builder)
        memory.fill(0, stream=builder)
        if way == "in another capture":
            with other.create_graph_builder() as second:
                second.callback(lambda: None)
                memory.close(second)
            assert kinds_of(second.graph_definition) == ["HostCallbackNode"]
        elif way == "closed":
            memory.close(other)
        elif way == "set":
            memory.set_deallocation_stream(other)
        else:
            on_another_thread(lambda memory=memory: memory.set_deallocation_stream(ch.PER_THREAD_DEFAULT_STREAM))
        del memory
    assert kinds_of(builder.graph_definition) == ["AllocNode", "MemsetNode"]
    graph = builder.complete()
    for _ in range(3):
        graph.launch(stream)
    stream.sync()


def test_a_builder_that_is_dropped_in_a_host_function(device: ch.Device, stream: ch.Stream) -> None:
    """The driver would be queried about the capture in a function in which CUDA must not be called."""
    builder = stream.create_graph_builder().begin_building()
    _, fork = builder.split(2)
    held = [device.allocate(64, stream=fork), fork, builder]
    del builder, fork, _
    other = device.create_stream()
    other.callback(held.clear)  # the simulated driver reports CUDA calls in host functions
    other.sync()
    assert not held
    stream.create_graph_builder().begin_building().close()


@pytest.mark.parametrize("where", ["a host function", "another thread"])
def test_an_invalidated_capture_with_memory_ends(device: ch.Device, where: str) -> None:
    """The free would wait for the end of the capture, and the end of the capture for the free: neither would happen."""
    held: list[Any] = []

    def begin(stream: ch.Stream) -> None:
        builder = stream.create_graph_builder().begin_building()
        held.extend((device.allocate(64, stream=builder), builder))
        with pytest.raises(ch.CUDAError):
            stream.sync()  # invalidates the capture

    def ends(stream: ch.Stream) -> None:
        stream.create_graph_builder().begin_building().close()
        stream.sync()

    if where == "a host function":
        stream, other = device.create_stream(), device.create_stream()
        begin(stream)
        other.callback(held.clear)
        other.sync()
        ends(stream)
    else:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(device.set_current).result()
            thread.submit(begin, ch.PER_THREAD_DEFAULT_STREAM).result()
            held.clear()
            gc.collect()
            thread.submit(ends, ch.PER_THREAD_DEFAULT_STREAM).result()


def test_memory_of_a_graph_that_has_gone(device: ch.Device, stream: ch.Stream) -> None:
    """A buffer would not keep its graph, whose address may then be in use by other memory when the buffer is freed."""
    with stream.create_graph_builder() as builder:
        memory = device.allocate(64, stream=builder)
    gc.collect()
    graphs = ch.live_counts()["graph"]
    graph = builder.complete()
    builder.close()
    del builder
    gc.collect()
    assert ch.live_counts()["graph"] == graphs
    graph.launch(stream)
    memory.close()
    gc.collect()
    assert ch.live_counts()["graph"] == graphs - 1
    stream.sync()


@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.parametrize("kind", ["whole", "slice", "of a resource", "of a fork"])
def test_memory_that_is_dropped_around_launches(
    device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers, kind: str, when: str
) -> None:
    """Memory would be freed while the graph runs on another stream, or nobody could free it between two launches."""
    reached, go = threading.Event(), threading.Event()
    other = device.create_stream()
    builder = stream.create_graph_builder().begin_building()
    if kind == "of a fork":
        _, fork = builder.split(2)
        memory = device.allocate(64, stream=fork)
        builder.join(builder, fork)
        del _, fork
    else:
        resource = cg.GraphMemoryResource(device) if kind == "of a resource" else device
        memory = resource.allocate(64, stream=builder)
    memory.fill(0, stream=builder)
    builder.callback(lambda: (reached.set(), go.wait(10)))
    ch.launch(builder, ONE, add, memory, 4)
    ch.Buffer.from_handle(numbers.at(0), 64).copy_from(memory, stream=builder)
    graph = builder.end_building().complete()
    if kind == "slice":
        memory = memory[16:]
    if when == "before":
        memory.close()
    graph.launch(other)
    if when == "during":
        assert reached.wait(10)
        memory.close()
        stream.sync()  # the captured stream does not wait for the launch
    go.set()
    other.sync()
    if when == "after":
        memory.close()
    for _ in range(3):
        assert numbers[0] == 4
        numbers.buffer.fill(0, stream=other)
        graph.launch(other)
        other.sync()
    del builder
    graph.launch(stream)  # on a stream that was not used for a launch before
    stream.sync()


def test_memory_of_a_graph_that_is_launched_by_two_threads(
    device: ch.Device, stream: ch.Stream, add: ch.Kernel, numbers: Numbers
) -> None:
    """The last launch would be forgotten with the executable graph, or freed memory would be freed again."""
    go = threading.Event()
    with stream.create_graph_builder() as builder:
        memory = device.allocate(64, stream=builder)
        builder.callback(lambda: go.wait(10))
        memory.fill(4, stream=builder)
        ch.Buffer.from_handle(numbers.at(0), 64).copy_from(memory, stream=builder)
    graph = builder.complete()
    graph.launch(ch.PER_THREAD_DEFAULT_STREAM)
    graph.close()
    del graph
    on_another_thread(memory.close)
    go.set()
    ch.PER_THREAD_DEFAULT_STREAM.sync()
    assert numbers[0] == 0x04040404
    stream.sync()
    graph = builder.complete()
    for _ in range(2):
        launch(graph, stream)


@pytest.mark.parametrize("streams", [1, 2])
def test_launches_behind_a_free(device: ch.Device, stream: ch.Stream, streams: int) -> None:
    """A launch that is queued before its memory is freed on another stream would use freed memory."""
    with stream.create_graph_builder() as builder:
        memory = device.allocate(64, stream=builder)
        memory.fill(4, stream=builder)
    graph = builder.complete()
    on = [device.create_stream() for _ in range(streams)]
    go = threading.Event()
    on[0].callback(lambda: bool(go.wait(10)))
    graph.launch(on[0])
    memory.close()
    for i in range(1, 5):
        graph.launch(on[i % streams])
    go.set()
    for each in on:
        each.sync()


def test_memory_that_is_dropped_during_launches(device: ch.Device, stream: ch.Stream) -> None:
    """Memory would be freed before the run that has just allocated it, or by nobody."""
    for _ in range(50):
        with device.create_graph_builder() as builder:
            memory = device.allocate(64, stream=builder)
            memory.fill(4, stream=builder)
        graph = builder.complete()

        def launch_again(graph: cg.Graph = graph) -> None:
            for _ in range(3):
                with contextlib.suppress(ch.CUDAError):  # as long as the memory is not dropped
                    graph.launch(stream)

        graph.launch(stream)
        with ThreadPoolExecutor(2) as threads:
            launches = threads.submit(launch_again)
            threads.submit(memory.close).result()
            launches.result()
        for _ in range(2):
            graph.launch(stream)
    stream.sync()
