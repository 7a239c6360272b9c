# SPDX-License-Identifier: Apache-2.0
"""A program that uses cuda.core: graphs with every type of node, defined or captured; conditionals; and updates."""

from __future__ import annotations

import contextlib
import ctypes
import tempfile
from pathlib import Path

import numpy as np
from cuda.core import (
    Device,
    GraphMemoryResource,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)
from cuda.core.graph import GraphBuilder, GraphCompleteOptions, GraphDebugPrintOptions, GraphDefinition

SOURCE = r"""
extern "C" __device__ __cudart_builtin__ void CUDARTAPI
cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned int value);

extern "C" __global__ void add(int *where, int value) { atomicAdd(where, value); }

extern "C" __global__ void set_condition(cudaGraphConditionalHandle handle, unsigned int value) {
    cudaGraphSetConditional(handle, value);
}

extern "C" __global__ void count_down(cudaGraphConditionalHandle handle, int *counter) {
    cudaGraphSetConditional(handle, --*counter);
}
"""

device = Device()
device.set_current()
stream = device.create_stream()
program = Program(SOURCE, code_type="c++", options=ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
code = program.compile("ptx")
add, set_condition, count_down = (code.get_kernel(name) for name in ("add", "set_condition", "count_down"))
one = LaunchConfig(grid=1, block=1)
buffer = LegacyPinnedMemoryResource().allocate(64, stream=stream)
values = np.from_dlpack(buffer).view(np.int32)
address = int(buffer.handle)


def run(graph, count: int = 1) -> list[int]:
    """Set `values` to zero, launch a graph `count` times, and return the new values."""
    values[:] = 0
    for _ in range(count):
        graph.launch(stream)
    stream.sync()
    return values.tolist()


def capture() -> None:
    """Capture work of one stream, and of two streams that fork and join."""
    builder = device.create_graph_builder().begin_building()
    launch(builder, one, add, address, 1)
    left, right = builder.split(2)
    launch(left, one, add, address, 10)
    launch(right, one, add, address + 4, 100)
    builder = GraphBuilder.join(left, right)
    called = []
    builder.callback(lambda: called.append(1))
    launch(builder, one, add, address, 1000)
    graph = builder.end_building().complete()
    assert run(graph, 2)[:2] == [2022, 200]
    assert len(called) == 2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.dot"
        builder.debug_dot_print(str(path), GraphDebugPrintOptions(verbose=True))
        assert path.read_text().count("add") >= 4
    builder.close()


def captured_conditionals() -> None:
    """Capture the bodies of conditional nodes: if, if with else, switch, while."""
    builder = device.create_graph_builder().begin_building()
    condition = builder.create_condition(default_value=0)
    launch(builder, one, set_condition, condition.handle, 1)
    body = builder.if_then(condition).begin_building()
    launch(body, one, add, address, 1)
    body.end_building()
    condition = builder.create_condition(default_value=0)
    then, otherwise = builder.if_else(condition)
    launch(then.begin_building(), one, add, address + 4, 1)
    then.end_building()
    launch(otherwise.begin_building(), one, add, address + 4, 2)
    otherwise.end_building()
    condition = builder.create_condition(default_value=2)
    for number, case in enumerate(builder.switch(condition, 3)):
        launch(case.begin_building(), one, add, address + 8, 10 + number)
        case.end_building()
    launch(builder, one, add, address + 16, 5)
    condition = builder.create_condition(default_value=1)
    loop = builder.while_loop(condition).begin_building()
    launch(loop, one, add, address + 12, 1)
    launch(loop, one, count_down, condition.handle, address + 16)
    loop.end_building()
    graph = builder.end_building().complete()
    assert run(graph)[:5] == [1, 2, 12, 5, 0]


def definition() -> None:
    """Add a node of each type after the previous one, and check the parameters that the nodes report."""
    event = device.create_event()
    stream.record(event)
    definition, inner = GraphDefinition(), GraphDefinition()
    inner.launch(one, add, address, 7)
    seen = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def function(_: object) -> None:
        seen.append(1)

    node = definition.allocate(64)
    memory = node
    node = node.memset(memory.dptr, 3, 16)
    node = node.memcpy(address, memory.dptr, 16)
    node = node.deallocate(memory.dptr)
    node = node.launch(one, add, address, 1)
    node = node.embed(inner)
    node = node.wait(event)
    node = node.record(event)
    node = node.callback(function)
    node = node.join(definition.empty())
    condition = definition.create_condition(1)
    choice = node.if_then(condition)
    choice.then.launch(one, add, address + 32, 4)
    kinds = sorted(type(node).__name__ for node in definition.nodes())
    assert kinds == [
        "AllocNode", "ChildGraphNode", "EmptyNode", "EmptyNode", "EventRecordNode", "EventWaitNode", "FreeNode",
        "HostCallbackNode", "IfNode", "KernelNode", "MemcpyNode", "MemsetNode",
    ], kinds  # fmt: skip
    assert len(definition.edges()) == 11
    graph = definition.instantiate()
    result = run(graph)
    assert result[:4] == [0x03030303 + 8, 0x03030303, 0x03030303, 0x03030303], result
    assert result[8] == 4
    assert len(seen) == 1


def updates() -> None:
    """Update a whole executable graph, and one node of an executable graph."""

    def build(value: int):
        definition = GraphDefinition()
        return definition, definition.launch(one, add, address, value)

    first, node = build(1)
    second, _ = build(20)
    graph = first.instantiate()
    graph.upload(stream)
    assert run(graph)[0] == 1
    graph.update(second)
    assert run(graph)[0] == 20
    first, node = build(1)
    graph = first.instantiate(GraphCompleteOptions(auto_free_on_launch=True))
    graph[node].update(config=one, kernel=add, args=(address, 300))
    assert run(graph)[0] == 300
    third = GraphDefinition()
    third.launch(one, add, address, 1).launch(one, add, address, 1)
    with contextlib.suppress(Exception):
        graph.update(third)
        raise SystemExit("a graph of another shape was taken")
    assert run(graph)[0] == 300


def memory() -> None:
    """Capture an allocation and its free."""
    resource = GraphMemoryResource(device)
    builder = device.create_graph_builder().begin_building("thread_local")
    temporary = resource.allocate(64, stream=builder)
    launch(builder, one, add, int(temporary.handle), 5)
    launch(builder, one, add, address, 6)
    temporary.close(builder)
    graph = builder.end_building().complete()
    assert run(graph, 3)[0] == 18
    resource.trim()


capture()
captured_conditionals()
definition()
updates()
memory()
values = None  # a view of the memory, which close() frees
buffer.close()
print("right")
