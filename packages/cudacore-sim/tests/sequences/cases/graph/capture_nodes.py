# SPDX-License-Identifier: Apache-2.0
"""Stream capture: the nodes that work becomes."""

from __future__ import annotations

import ctypes
from ctypes import c_uint32, c_uint64, c_void_p

import graph_tools as tools
from capture_tools import NON_BLOCKING, fill
from graph_tools import GLOBAL
from ptx import KERNELS
from recorder import Recorder, pointers, sequence
from structs import launch_configuration


@sequence
def kernels_are_captured(cu: Recorder) -> None:
    """A launch becomes a kernel node with its sizes, arguments and attributes."""
    stream, out = cu.stream(NON_BLOCKING), cu.memory(64, 0)
    store = cu.function(KERNELS, "store")
    kernel = cu.kernel(KERNELS, "nothing")
    tools.begin(cu, stream)
    value = c_uint32(5)
    cu.launch(store, c_uint64(out), value, grid=(2, 1, 1), block=(4, 1, 1), shared=16, stream=stream)
    value.value = 9
    cu.call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, stream, None, None)
    configuration = launch_configuration((4, (2, 1, 1)), (8, (-2 & 0xFFFFFFFF,)), grid=(4, 1, 1), stream=stream)
    cu.call("cuLaunchKernelEx", configuration, store, pointers(c_uint64(out + 4), c_uint32(6)), None)
    cu.call("cuLaunchCooperativeKernel", store, 1, 1, 1, 1, 1, 1, 0, stream, pointers(c_uint64(out + 8), c_uint32(7)))
    graph = tools.see_capture(cu, stream)
    for node in tools.nodes_of(cu, graph):
        params = tools.KernelNode()
        cu.call("cuGraphKernelNodeGetParams_v2", node, params)
        cu.see("params", (list(params.grid), list(params.block), params.shared, bool(params.kernelParams)))
        cu.see("function", "store" if params.func == store else "kernel" if params.func == kernel else "another")
        cu.see("kernel", "none" if not params.kern else "kernel" if params.kern == kernel else "another")
        words = (ctypes.c_uint * 16)()
        for attribute in (2, 4, 8):
            ctypes.memset(words, 0, 64)
            cu.prepare("cuGraphKernelNodeGetAttribute", node, attribute, words)
            cu.see("attribute", (attribute, list(words)[:3]))
    tools.see_run(cu, tools.instantiate(cu, graph), stream, "words", out, 3)


@sequence
def priority_of_the_stream(cu: Recorder) -> None:
    """A captured kernel has the priority of its stream."""
    stream = cu.prepare("cuStreamCreateWithPriority", c_void_p, NON_BLOCKING, -3)
    tools.begin(cu, stream)
    cu.launch(cu.function(KERNELS, "nothing"), stream=stream)
    graph = tools.end(cu, stream)
    words = (ctypes.c_uint * 16)()
    cu.call("cuGraphKernelNodeGetAttribute", tools.nodes_of(cu, graph)[0], 8, words)
    cu.see("priority", ctypes.c_int(words[0]).value)


@sequence
def copies_are_captured(cu: Recorder) -> None:
    """Copies become memcpy nodes. Pageable memory is read when the graph runs."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(64, 3)
    host = tools.keep(ctypes.create_string_buffer(b"a" * 16, 64))
    pinned = int(cu.prepare("cuMemHostAlloc", c_void_p, 64, 0))
    two = tools.copy_params(address + 16, address, 4, Height=2, srcPitch=8, dstPitch=8)
    tools.begin(cu, stream)
    cu.call("cuMemcpyDtoDAsync_v2", address + 32, address, 8, stream)
    cu.call("cuMemcpyHtoDAsync_v2", address, host, 8, stream)
    cu.call("cuMemcpyDtoHAsync_v2", pinned, address, 8, stream)
    cu.call("cuMemcpyAsync", address + 40, pinned, 8, stream)
    cu.call("cuMemcpyAsync", pinned, address + 40, 8, stream)
    cu.call("cuMemcpy3DAsync_v2", two, stream)
    graph = tools.see_capture(cu, stream)
    fields = ("srcMemoryType", "dstMemoryType", "srcPitch", "dstPitch", "srcHeight", "dstHeight", "WidthInBytes",
              "Height", "Depth")  # fmt: skip
    for node in tools.nodes_of(cu, graph):
        back = tools.Copy3D()
        cu.call("cuGraphMemcpyNodeGetParams", node, back)
        cu.see("back", [getattr(back, field) for field in fields])
    host.value = b"b" * 16
    tools.run(cu, tools.instantiate(cu, graph), stream)
    cu.see_bytes("bytes", address, 48)


@sequence
def memsets_are_captured(cu: Recorder) -> None:
    """Memsets become memset nodes."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(256, 0)
    tools.begin(cu, stream)
    cu.call("cuMemsetD8Async", address, 0x101, 5, stream)
    cu.call("cuMemsetD16Async", address, 2, 5, stream)
    cu.call("cuMemsetD32Async", address, 3, 5, stream)
    cu.call("cuMemsetD2D8Async", address, 16, 4, 3, 2, stream)
    cu.call("cuMemsetD2D32Async", address, 16, 5, 3, 2, stream)
    cu.call("cuMemsetD2D32Async", address, 16, 5, 3, 1, stream)
    cu.call("cuMemsetD32Async", address, 3, 0, stream)
    graph = tools.see_capture(cu, stream)
    for node in tools.nodes_of(cu, graph):
        back = tools.MemsetNode()
        if cu.call("cuGraphMemsetNodeGetParams", node, back) == 0:
            cu.see("back", (back.dst == address, back.pitch, back.value, back.elementSize, back.width, back.height))


@sequence
def host_functions_are_captured(cu: Recorder) -> None:
    """Host functions become host nodes."""
    stream = cu.stream(NON_BLOCKING)
    seen: list[object] = []
    function = tools.keep(tools.HOST_FUNCTION(seen.append))
    tools.begin(cu, stream)
    cu.call("cuLaunchHostFunc", stream, function, 5)
    cu.call("cuLaunchHostFunc", stream, function, 6)
    graph = tools.see_capture(cu, stream)
    cu.see("seen", seen)
    tools.run(cu, tools.instantiate(cu, graph), stream)
    cu.see("seen", seen)


@sequence
def memory_is_captured(cu: Recorder) -> None:
    """Stream-ordered allocations and frees become memory nodes."""
    stream, out = cu.stream(NON_BLOCKING), cu.memory(16, 0)
    tools.begin(cu, stream)
    address = cu.new("cuMemAllocAsync", c_uint64, 64, stream)
    cu.call("cuMemsetD32Async", address, 7, 4, stream)
    cu.call("cuMemcpyDtoDAsync_v2", out, address, 16, stream)
    cu.call("cuMemFreeAsync", address, stream)
    cu.call("cuMemFreeAsync", address, stream)
    tools.status(cu, stream)
    graph = tools.see_capture(cu, stream)
    if graph:
        back = tools.AllocNode()
        cu.call("cuGraphMemAllocNodeGetParams", tools.nodes_of(cu, graph)[0], back)
        cu.see("back", (back.bytesize, back.dptr == address, back.poolProps.location.type, back.accessDescCount))
        executable = tools.instantiate(cu, graph)
        tools.run(cu, executable, stream)
        tools.see_run(cu, executable, stream, "words", out, 4)


@sequence
def memory_is_not_freed_in_the_capture(cu: Recorder) -> None:
    """Memory that was allocated in a capture is freed outside of the capture, and in another capture."""
    stream = cu.stream(NON_BLOCKING)
    tools.begin(cu, stream)
    address = cu.new("cuMemAllocAsync", c_uint64, 64, stream)
    first = tools.instantiate(cu, tools.end(cu, stream))
    tools.run(cu, first, stream)
    cu.call("cuMemFreeAsync", address, stream)
    tools.begin(cu, stream)
    cu.call("cuMemFreeAsync", address, stream)
    tools.status(cu, stream)
    graph = tools.see_capture(cu, stream)
    if graph:
        second = tools.instantiate(cu, graph)
        tools.run(cu, first, stream)
        tools.run(cu, second, stream)


@sequence
def graphs_are_captured(cu: Recorder) -> None:
    """A graph is launched in a stream that captures."""
    stream, address, inner = cu.stream(NON_BLOCKING), cu.memory(16, 0), tools.graph(cu)
    node = tools.memset(cu, inner, address, 5, 1)
    executable = tools.instantiate(cu, inner)
    context = tools.context(cu)
    cu.prepare("cuGraphExecMemsetNodeSetParams", executable, node, tools.memset_params(address, 6, 1), context)
    cu.prepare("cuGraphMemsetNodeSetParams", node, tools.memset_params(address, 7, 1))
    tools.begin(cu, stream)
    cu.call("cuGraphLaunch", executable, stream)
    cu.attempt("cuMemsetD32Async", address + 4, 2, 1, stream)
    graph = tools.see_capture(cu, stream)
    if graph:
        tools.see_graph(cu, tools.child_graph(cu, tools.nodes_of(cu, graph)[0]))
        tools.see_run(cu, tools.instantiate(cu, graph), stream, "words", address, 2)


@sequence
def graphs_with_memory_are_captured(cu: Recorder) -> None:
    """A graph with memory nodes, and a graph with conditional nodes, are launched in a stream that captures."""
    stream, inner, other = cu.stream(NON_BLOCKING), tools.graph(cu), tools.graph(cu)
    node, address = tools.alloc(cu, inner, 64)
    tools.free(cu, inner, address, node)
    executable = tools.instantiate(cu, inner)
    tools.begin(cu, stream)
    cu.call("cuGraphLaunch", executable, stream)
    tools.status(cu, stream)
    tools.see_capture(cu, stream)
    tools.conditional(cu, other, tools.condition(cu, other, 1), tools.IF)
    executable = tools.instantiate(cu, other)
    tools.begin(cu, stream)
    cu.call("cuGraphLaunch", executable, stream)
    tools.status(cu, stream)
    tools.see_capture(cu, stream)


@sequence
def captured_chain(cu: Recorder) -> None:
    """Work of different types in one stream becomes a chain of nodes."""
    stream, address = cu.stream(NON_BLOCKING), cu.memory(64, 0)
    function = tools.keep(tools.HOST_FUNCTION(lambda _: None))
    kernel = cu.function(KERNELS, "nothing")
    tools.begin(cu, stream, GLOBAL)
    fill(cu, stream, address)
    cu.launch(kernel, stream=stream)
    cu.call("cuMemcpyDtoDAsync_v2", address, address + 16, 16, stream)
    cu.call("cuLaunchHostFunc", stream, function, None)
    cu.call("cuStreamWriteValue32_v2", stream, address, 5, 0)
    cu.call("cuStreamWaitValue32_v2", stream, address, 5, 0)
    tools.see_capture(cu, stream)
