# SPDX-License-Identifier: Apache-2.0
"""Updates of executable graphs from another graph: each kind of difference, and the driver's result."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_uint, c_uint32, c_uint64, c_void_p

import graph_tools as tools
from graph_tools import Edge, array
from ptx import KERNELS
from recorder import Recorder, sequence

NON_BLOCKING = 1

Build = Callable[[Recorder, int, "Things"], object]


class Things:
    """The objects from which nodes are made."""

    def __init__(self, cu: Recorder) -> None:
        self.out = cu.memory(4096, 0)
        self.other = cu.memory(4096, 0)
        library = cu.library(KERNELS)

        def function(name: bytes) -> int:
            kernel = cu.prepare("cuLibraryGetKernel", c_void_p, library, name)
            return int(cu.prepare("cuKernelGetFunction", c_void_p, kernel))

        self.store, self.increase, self.nothing = map(function, (b"store", b"increase", b"nothing"))
        self.event, self.event2 = cu.event(), cu.event()
        self.pinned = int(cu.prepare("cuMemHostAlloc", c_void_p, 4096, 0))
        self.host = ctypes.addressof(tools.keep(ctypes.create_string_buffer(4096)))


def chain(*values: int) -> Build:
    """Return a function that builds a chain of memsets."""

    def build(cu: Recorder, graph: int, things: Things) -> None:
        last: tuple[int, ...] = ()
        for value in values:
            last = (tools.memset(cu, graph, things.out, value, 1, *last),)

    return build


def kernel(name: str = "store", value: int = 1, *, attribute: tuple[int, ...] | None = None, **sizes: object) -> Build:
    """Return a function that builds one kernel node."""

    def build(cu: Recorder, graph: int, things: Things) -> None:
        arguments = () if name == "nothing" else (c_uint64(things.out), c_uint32(value))
        node = tools.kernel(cu, graph, getattr(things, name), *arguments, **sizes)
        if attribute is not None:
            cu.prepare("cuGraphKernelNodeSetAttribute", node, attribute[0], (c_uint * 16)(*attribute[1:]))

    return build


def fan(order: str, swap: bool = False) -> Build:
    """Return a function that builds a memset, and nodes that depend on it: one for each letter of `order`."""

    def build(cu: Recorder, graph: int, things: Things) -> None:
        first = tools.memset(cu, graph, things.out, 1, 1)
        for letter in order:
            if letter == "m":
                tools.memset(cu, graph, things.out + 4, 2, 1, first)
            elif letter == "k":
                tools.kernel(cu, graph, things.store, c_uint64(things.out + 8), c_uint32(3), after=(first,))
            elif letter == "o":
                tools.empty(cu, graph, first)
            elif letter == "r":
                tools.empty(cu, graph)
        if swap:
            tools.empty(cu, graph)

    return build


def two(edge: bool, reverse: bool = False) -> Build:
    """Return a function that builds two memsets, with or without an edge between them."""

    def build(cu: Recorder, graph: int, things: Things) -> None:
        one, another = (tools.memset(cu, graph, things.out + 4 * i, 1, 1) for i in range(2))
        if edge:
            before, after = (another, one) if reverse else (one, another)
            cu.prepare("cuGraphAddDependencies_v2", graph, array(before), array(after), None, 1)

    return build


def diamond(reverse: bool = False) -> Build:
    """Return a function that builds a diamond. The order of the last node's dependencies can be reversed."""

    def build(cu: Recorder, graph: int, things: Things) -> None:
        first = tools.empty(cu, graph)
        left = tools.memset(cu, graph, things.out, 1, 1, first)
        right = tools.kernel(cu, graph, things.nothing, after=(first,))
        tools.empty(cu, graph, *((right, left) if reverse else (left, right)))

    return build


def memset(**shape: object) -> Build:
    """Return a function that builds one memset."""

    def build(cu: Recorder, graph: int, things: Things) -> None:
        fields = {"value": 1, "width": 4, **shape}
        address = getattr(things, str(fields.pop("where", "out")))
        value, width = fields.pop("value"), fields.pop("width")
        tools.memset(cu, graph, address, value, width, **fields)  # type: ignore[arg-type]

    return build


def copy(to: str = "out", source: str = "other", size: int = 16, **fields: object) -> Build:
    """Return a function that builds one copy. `to` and `source` name the memory: a field of `Things`."""

    def build(cu: Recorder, graph: int, things: Things) -> None:
        types = {"to_type": 1 if to in ("pinned", "host") else 2, "from_type": 1 if source in ("pinned", "host") else 2}
        tools.copy(cu, graph, getattr(things, to), getattr(things, source), size, **types, **fields)

    return build


def single(kind: str) -> Build:
    """Return a function that builds one node of a type."""

    def build(cu: Recorder, graph: int, things: Things) -> None:
        if kind == "empty":
            tools.empty(cu, graph)
        elif kind == "host":
            tools.host(cu, graph, lambda _: None)
        elif kind == "record":
            tools.record(cu, graph, things.event)
        elif kind == "record2":
            tools.record(cu, graph, things.event2)
        elif kind == "wait":
            tools.wait(cu, graph, things.event)
        elif kind == "wait2":
            tools.wait(cu, graph, things.event2)
        elif kind == "alloc":
            tools.alloc(cu, graph, 64)
        elif kind == "alloc large":
            tools.alloc(cu, graph, 4096)
        elif kind == "none":
            pass

    return build


def child(*values: int) -> Build:
    """Return a function that builds a child graph node with a chain of memsets."""

    def build(cu: Recorder, graph: int, things: Things) -> None:
        inner = tools.graph(cu)
        chain(*values)(cu, inner, things)
        tools.child(cu, graph, inner)

    return build


def programmatic(annotated: bool) -> Build:
    """Return a function that builds two kernels with an edge, which is programmatic if `annotated`."""

    def build(cu: Recorder, graph: int, things: Things) -> None:
        one, another = (tools.kernel(cu, graph, things.nothing) for _ in range(2))
        data = (Edge * 1)(Edge(1, 0, 1) if annotated else Edge())
        cu.prepare("cuGraphAddDependencies_v2", graph, array(one), array(another), data, 1)

    return build


def with_condition(kind: int, size: int, value: int = 1, default: int | None = 0) -> Build:
    """Return a function that builds a conditional node with a memset in its first body."""

    def build(cu: Recorder, graph: int, things: Things) -> None:
        handle = tools.condition(cu, graph, default)
        _, bodies = tools.conditional(cu, graph, handle, kind, size)
        tools.memset(cu, bodies[0], things.out, value, 1)

    return build


CASES: dict[str, tuple[Build, Build]] = {
    "same": (chain(1, 2), chain(3, 4)),
    "nothing": (single("none"), single("none")),
    "node_more": (chain(1, 2), chain(1, 2, 3)),
    "node_less": (chain(1, 2), chain(1)),
    "no_node": (chain(1), single("none")),
    "first_node": (single("none"), chain(1)),
    "edge_more": (two(edge=False), two(edge=True)),
    "edge_less": (two(edge=True), two(edge=False)),
    "edge_reversed": (two(edge=True), two(edge=True, reverse=True)),
    "siblings_swapped": (fan("mk"), fan("km")),
    "siblings_same": (fan("mko"), fan("mko")),
    "sibling_of_other_type": (fan("mk"), fan("mo")),
    "sibling_is_root": (fan("mko"), fan("mkr")),
    "dependencies_swapped": (diamond(), diamond(reverse=True)),
    "kernel_value": (kernel(), kernel(value=2)),
    "kernel_function": (kernel(), kernel("increase")),
    "kernel_other_arguments": (kernel(), kernel("nothing")),
    "kernel_grid": (kernel(), kernel(grid=(2, 2, 1))),
    "kernel_block": (kernel(), kernel(block=(32, 1, 1))),
    "kernel_shared": (kernel(), kernel(shared=1024)),
    "kernel_cooperative": (kernel(), kernel(attribute=(2, 1))),
    "kernel_not_cooperative": (kernel(attribute=(2, 1)), kernel()),
    "kernel_priority": (kernel(), kernel(attribute=(8, -2 & 0xFFFFFFFF))),
    "kernel_cluster": (kernel(grid=(2, 1, 1)), kernel(grid=(2, 1, 1), attribute=(4, 2, 1, 1))),
    "kernel_to_memset": (kernel(), memset()),
    "memset_to_copy": (memset(), copy()),
    "empty_to_memset": (single("empty"), memset()),
    "host_to_empty": (single("host"), single("empty")),
    "record_to_wait": (single("record"), single("wait")),
    "memset_value": (memset(), memset(value=2)),
    "memset_address": (memset(), memset(where="other")),
    "memset_width": (memset(), memset(width=8)),
    "memset_narrower": (memset(), memset(width=2)),
    "memset_bytes": (memset(), memset(size=1)),
    "memset_rows": (memset(), memset(height=2, pitch=64)),
    "memset_rows_value": (memset(height=2, pitch=64), memset(height=2, pitch=64, value=3)),
    "memset_rows_pitch": (memset(height=2, pitch=64), memset(height=2, pitch=32)),
    "memset_rows_more": (memset(height=2, pitch=64), memset(height=3, pitch=64)),
    "memset_to_pinned": (memset(), memset(where="pinned")),
    "copy_size": (copy(), copy(size=32)),
    "copy_smaller": (copy(), copy(size=4)),
    "copy_swapped": (copy(), copy("other", "out")),
    "copy_to_pinned": (copy(), copy("pinned", "out")),
    "copy_to_host": (copy(), copy("host", "out")),
    "copy_host_to_pinned": (copy("host", "out"), copy("pinned", "out")),
    "copy_direction": (copy("host", "out"), copy("out", "host")),
    "copy_rows": (copy(), copy(size=4, Height=2, srcPitch=8, dstPitch=8)),
    "copy_of_rows": (copy(size=4, Height=2, srcPitch=8, dstPitch=8), copy(size=4, Height=2, srcPitch=8, dstPitch=8)),
    "copy_of_rows_higher": (copy(size=4, Height=2, srcPitch=8, dstPitch=8),
                            copy(size=4, Height=3, srcPitch=8, dstPitch=8)),
    "host_function": (single("host"), single("host")),
    "record_event": (single("record"), single("record2")),
    "wait_event": (single("wait"), single("wait2")),
    "alloc_same": (single("alloc"), single("alloc")),
    "alloc_size": (single("alloc"), single("alloc large")),
    "child_same": (child(1, 2), child(3, 4)),
    "child_node_more": (child(1, 2), child(3, 4, 5)),
    "child_to_memset": (child(1), memset()),
    "programmatic_same": (programmatic(annotated=True), programmatic(annotated=True)),
    "programmatic_more": (programmatic(annotated=False), programmatic(annotated=True)),
    "programmatic_less": (programmatic(annotated=True), programmatic(annotated=False)),
    "conditional_same": (with_condition(tools.IF, 1), with_condition(tools.IF, 1, 2)),
    "conditional_default": (with_condition(tools.IF, 1), with_condition(tools.IF, 1, 2, 1)),
    "conditional_no_default": (with_condition(tools.IF, 1), with_condition(tools.IF, 1, 2, None)),
    "conditional_type": (with_condition(tools.IF, 1), with_condition(tools.WHILE, 1)),
    "conditional_else": (with_condition(tools.IF, 1), with_condition(tools.IF, 2)),
    "conditional_switch": (with_condition(tools.SWITCH, 2), with_condition(tools.SWITCH, 3)),
}  # fmt: skip


def _make(before: Build, after: Build) -> Callable[[Recorder], None]:
    def sequence_of_case(cu: Recorder) -> None:
        things, stream = Things(cu), cu.stream(NON_BLOCKING)
        old, new = tools.graph(cu), tools.graph(cu)
        before(cu, old, things)
        executable = tools.instantiate(cu, old)
        after(cu, new, things)
        tools.see_update(cu, executable, new)
        tools.see_run(cu, executable, stream, "words", things.out, 4)

    return sequence_of_case


for _name, (_before, _after) in CASES.items():
    tools.register("graph_updates", _name, f"An executable graph is updated: {_name}.", _make(_before, _after))


@sequence
def bad_updates(cu: Recorder) -> None:
    """NULL as arguments of cuGraphExecUpdate."""
    graph = tools.graph(cu)
    tools.empty(cu, graph)
    executable = tools.instantiate(cu, graph)
    cu.call("cuGraphExecUpdate_v2", executable, graph, None)
    for which, of in ((None, graph), (executable, None)):
        info = tools.UpdateInfo(77, 78, 79)
        cu.call("cuGraphExecUpdate_v2", which, of, info)
        cu.see("info", (info.result, info.node, info.from_node))
    node, result = c_void_p(77), ctypes.c_int(77)
    cu.call("cuGraphExecUpdate", executable, graph, node, result)
    cu.see("version 1", (node.value, result.value))


@sequence
def update_by_its_own_graph(cu: Recorder) -> None:
    """A graph is changed, and the executable graph that was made from it is updated from it."""
    graph, out, stream = tools.graph(cu), cu.memory(16, 0), cu.stream(NON_BLOCKING)
    node = tools.memset(cu, graph, out, 1, 1)
    executable = tools.instantiate(cu, graph)
    cu.call("cuGraphMemsetNodeSetParams", node, tools.memset_params(out, 2, 1))
    tools.see_update(cu, executable, graph)
    tools.see_run(cu, executable, stream, "words", out, 1)
    tools.memset(cu, graph, out + 4, 3, 1)
    tools.see_update(cu, executable, graph)
    tools.see_run(cu, executable, stream, "words", out, 2)


@sequence
def nodes_after_an_update(cu: Recorder) -> None:
    """Whether nodes of the old graph or of the new one identify the nodes of an updated executable graph."""
    old, new, out = tools.graph(cu), tools.graph(cu), cu.memory(16, 0)
    one, another = tools.memset(cu, old, out, 1, 1), tools.memset(cu, new, out, 2, 1)
    executable = tools.instantiate(cu, old)
    tools.see_update(cu, executable, new)
    context = tools.context(cu)
    for name, node in (("old", one), ("new", another)):
        cu.see("node", name)
        cu.call("cuGraphExecMemsetNodeSetParams", executable, node, tools.memset_params(out, 3, 1), context)
        cu.call("cuGraphNodeSetEnabled", executable, node, 1)


@sequence
def failed_updates_change_nothing(cu: Recorder) -> None:
    """If the second node of an update cannot be changed, the first one does not change, either."""
    old, new, out, stream = tools.graph(cu), tools.graph(cu), cu.memory(4096, 0), cu.stream(NON_BLOCKING)
    tools.memset(cu, old, out + 64, 1, 2, tools.memset(cu, old, out, 1, 1), height=2, pitch=64)
    tools.memset(cu, new, out + 64, 2, 2, tools.memset(cu, new, out, 2, 1), height=3, pitch=64)
    executable = tools.instantiate(cu, old)
    tools.see_update(cu, executable, new)
    tools.see_run(cu, executable, stream, "words", out, 1)


@sequence
def update_of_a_running_graph(cu: Recorder) -> None:
    """An update of an executable graph that is running affects only later launches."""
    old, new, out, stream = tools.graph(cu), tools.graph(cu), cu.memory(16, 0), cu.stream(NON_BLOCKING)
    tools.memset(cu, old, out, 1, 1)
    tools.memset(cu, new, out + 4, 2, 1)
    executable = tools.instantiate(cu, old)
    with cu.gate(stream):
        cu.call("cuGraphLaunch", executable, stream)
        tools.see_update(cu, executable, new)
    cu.call("cuStreamSynchronize", stream)
    cu.see_words("words", out, 2)
    tools.see_run(cu, executable, stream, "words", out, 2)
