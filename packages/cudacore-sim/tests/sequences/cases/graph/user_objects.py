# SPDX-License-Identifier: Apache-2.0
"""User objects: references of the caller and of graphs, and when the destructor runs."""

from __future__ import annotations

import threading
import time
from ctypes import c_int, c_uint64, c_void_p

import graph_tools as tools
from ptx import KERNELS
from recorder import HOST_FUNCTION, Recorder, sequence
from structs import device_pool

NON_BLOCKING = 1
MOVE = 1


class Witness:
    """A destructor that lists the user objects for which it was called."""

    def __init__(self, cu: Recorder) -> None:
        self._cu = cu
        self.seen: list[object] = []
        self.function = tools.keep(HOST_FUNCTION(self.seen.append))

    def create(self, data: int = 1, count: int = 1) -> int:
        """Create a user object with the destructor. `data` identifies the object."""
        return int(self._cu.prepare("cuUserObjectCreate", c_void_p, data, self.function, count, 1))

    def see(self, what: str, count: int = 0) -> None:
        """Wait until `count` objects are destroyed, and a little longer; then list all destroyed objects."""
        for _ in range(1000):
            if len(self.seen) >= count:
                break
            time.sleep(0.01)
        time.sleep(0.05)
        self._cu.see(what, self.seen)


@sequence
def create(cu: Recorder) -> None:
    """Valid and refused arguments of cuUserObjectCreate."""
    witness = Witness(cu)
    function = witness.function
    for name, arguments in {
        "one": (5, function, 1, 1),
        "no flag": (5, function, 1, 0),
        "flags": (5, function, 1, 3),
        "no reference": (5, function, 0, 1),
        "many": (5, function, 1 << 30, 1),
        "too many": (5, function, 1 << 31, 1),
        "no function": (5, None, 1, 1),
        "no data": (None, function, 1, 1),
    }.items():
        cu.see("given", name)
        cu.call("cuUserObjectCreate", c_void_p, *arguments)
    cu.call("cuUserObjectCreate", None, 5, witness.function, 1, 1)
    witness.see("destroyed")


@sequence
def references(cu: Recorder) -> None:
    """The destructor runs when the last reference is released."""
    witness = Witness(cu)
    made = witness.create(7, 2)
    cu.call("cuUserObjectRetain", made, 2)
    cu.call("cuUserObjectRelease", made, 3)
    witness.see("destroyed")
    cu.call("cuUserObjectRetain", made, 0)
    cu.call("cuUserObjectRelease", made, 0)
    cu.call("cuUserObjectRetain", made, 1 << 31)
    cu.call("cuUserObjectRelease", made, 1 << 31)
    cu.call("cuUserObjectRelease", made, 1)
    witness.see("destroyed", 1)
    cu.call("cuUserObjectRetain", None, 1)
    cu.call("cuUserObjectRelease", None, 1)


@sequence
def references_of_graphs(cu: Recorder) -> None:
    """A graph has its own references to a user object, or takes over those of the caller."""
    witness, graph = Witness(cu), tools.graph(cu)
    one, two = witness.create(1), witness.create(2)
    cu.call("cuGraphRetainUserObject", graph, one, 1, 0)
    cu.call("cuGraphRetainUserObject", graph, two, 1, MOVE)
    cu.call("cuUserObjectRelease", one, 1)
    witness.see("destroyed")
    cu.call("cuGraphReleaseUserObject", graph, one, 1)
    witness.see("destroyed", 1)
    cu.call("cuGraphDestroy", graph)
    witness.see("destroyed", 2)


@sequence
def bad_references_of_graphs(cu: Recorder) -> None:
    """Refused arguments of cuGraphRetainUserObject and cuGraphReleaseUserObject."""
    witness, graph = Witness(cu), tools.graph(cu)
    made = witness.create(1, 2)
    cu.call_each(
        ("cuGraphRetainUserObject", None, made, 1, 0), ("cuGraphRetainUserObject", graph, None, 1, 0),
        ("cuGraphRetainUserObject", graph, made, 0, 0), ("cuGraphRetainUserObject", graph, made, 1 << 31, 0),
        ("cuGraphRetainUserObject", graph, made, 1, 2), ("cuGraphRetainUserObject", graph, made, 3, 0),
        ("cuGraphReleaseUserObject", graph, made, 0), ("cuGraphReleaseUserObject", graph, made, 3),
        ("cuGraphReleaseUserObject", None, made, 1), ("cuGraphReleaseUserObject", graph, None, 1),
    )  # fmt: skip
    witness.see("destroyed")


@sequence
def executables_keep_references(cu: Recorder) -> None:
    """An executable graph, and a launch in progress, keep the user objects of their graph alive."""
    witness, stream = Witness(cu), cu.stream(NON_BLOCKING)
    graph = owner(cu, witness, 1)
    executable = tools.instantiate(cu, graph)
    cu.call("cuGraphDestroy", graph)
    witness.see("graph destroyed")
    with cu.gate(stream):
        cu.call("cuGraphLaunch", executable, stream)
        cu.call("cuGraphExecDestroy", executable)
        witness.see("executable destroyed")
    cu.call("cuStreamSynchronize", stream)
    witness.see("done", 1)


@sequence
def clones_keep_references(cu: Recorder) -> None:
    """Clones and child graphs have references of their own to user objects, which are released separately."""
    witness, graph, parent = Witness(cu), tools.graph(cu), tools.graph(cu)
    one, two = witness.create(1), witness.create(2)
    cu.prepare("cuGraphRetainUserObject", graph, one, 1, MOVE)
    cu.prepare("cuGraphRetainUserObject", graph, two, 1, MOVE)
    copy = cu.prepare("cuGraphClone", c_void_p, graph)
    node = tools.child(cu, parent, graph)
    cu.call("cuGraphDestroy", graph)
    witness.see("graph destroyed")
    cu.call("cuGraphReleaseUserObject", copy, one, 1)
    cu.call("cuGraphReleaseUserObject", tools.child_graph(cu, node), one, 1)
    witness.see("one released", 1)
    cu.call("cuGraphDestroy", copy)
    witness.see("clone destroyed", 1)
    cu.call("cuGraphDestroyNode", node)
    witness.see("child destroyed", 2)


def owner(cu: Recorder, witness: Witness, data: int, nodes: int = 1) -> int:
    """Create a graph of empty nodes, which owns the only reference to a new user object."""
    graph = tools.graph(cu)
    for _ in range(nodes):
        tools.empty(cu, graph)
    cu.prepare("cuGraphRetainUserObject", graph, witness.create(data), 1, MOVE)
    return graph


def destroy(cu: Recorder, witness: Witness, graph: int, executable: int) -> None:
    """Destroy the graph from which an executable graph was updated, then the executable graph."""
    cu.call("cuGraphDestroy", graph)
    witness.see("new destroyed", 1)
    cu.call("cuGraphExecDestroy", executable)
    witness.see("executable destroyed", 2)


@sequence
def updates_replace_references(cu: Recorder) -> None:
    """An update replaces an executable graph's references to user objects by those of the new graph."""
    witness = Witness(cu)
    old, new = owner(cu, witness, 1), owner(cu, witness, 2)
    executable = tools.instantiate(cu, old)
    cu.call("cuGraphDestroy", old)
    witness.see("old destroyed")
    tools.see_update(cu, executable, new)
    witness.see("updated", 1)
    destroy(cu, witness, new, executable)


@sequence
def failed_updates_keep_references(cu: Recorder) -> None:
    """An update that fails does not change an executable graph's references to user objects."""
    witness = Witness(cu)
    old, new = owner(cu, witness, 1), owner(cu, witness, 2, nodes=0)
    executable = tools.instantiate(cu, old)
    cu.call("cuGraphDestroy", old)
    tools.see_update(cu, executable, new)
    destroy(cu, witness, new, executable)


@sequence
def updates_during_a_launch(cu: Recorder) -> None:
    """A launch in progress keeps the user objects that an update has replaced."""
    witness, new, stream = Witness(cu), tools.graph(cu), cu.stream(NON_BLOCKING)
    tools.empty(cu, new)
    old = owner(cu, witness, 1)
    executable = tools.instantiate(cu, old)
    cu.call("cuGraphDestroy", old)
    with cu.gate(stream):
        cu.call("cuGraphLaunch", executable, stream)
        tools.see_update(cu, executable, new)
        witness.see("updated")
    cu.call("cuStreamSynchronize", stream)
    witness.see("done", 1)


@sequence
def retained_after_instantiation(cu: Recorder) -> None:
    """Objects that a graph retains after its instantiation are not retained by the executable graph."""
    witness, graph = Witness(cu), tools.graph(cu)
    executable = tools.instantiate(cu, graph)
    cu.prepare("cuGraphRetainUserObject", graph, witness.create(1), 1, MOVE)
    cu.call("cuGraphDestroy", graph)
    witness.see("graph destroyed", 1)
    cu.call("cuGraphExecDestroy", executable)


@sequence
def references_of_captures(cu: Recorder) -> None:
    """The graph of a capture can retain user objects. If the capture is invalidated, they are released."""
    witness, stream = Witness(cu), cu.stream(NON_BLOCKING)
    tools.begin(cu, stream)
    graph = cu.prepare("cuStreamGetCaptureInfo_v2", stream, c_int, None, c_void_p, None, None)[1]
    cu.call("cuGraphRetainUserObject", graph, witness.create(1), 1, MOVE)
    cu.attempt("cuStreamSynchronize", stream)
    tools.end(cu, stream)
    witness.see("ended", 1)


@sequence
def calls_in_destructors(cu: Recorder) -> None:
    """The calls of the driver that a destructor can make, and the thread on which the destructor runs."""
    event, spare, graph, address = cu.event(), cu.stream(NON_BLOCKING), tools.graph(cu), cu.memory(64)
    done = threading.Event()
    threads: list[object] = []

    def inside(_: object) -> None:
        threads.append(threading.get_ident())
        cu.call_each(
            ("cuCtxGetCurrent", c_void_p), ("cuCtxSetCurrent", None), ("cuDeviceGetCount", c_int),
            ("cuStreamQuery", spare), ("cuEventQuery", event), ("cuMemFree_v2", address),
            ("cuMemFreeAsync", address, spare), ("cuGraphCreate", c_void_p, 0), ("cuGraphDestroy", graph),
            ("cuUserObjectRelease", None, 1), ("cuLibraryUnload", None), ("cuEventCreate", c_void_p, 0),
            ("cuEventDestroy_v2", event), ("cuStreamDestroy_v2", spare), ("cuDriverGetVersion", c_int),
        )  # fmt: skip
        done.set()

    function = tools.keep(HOST_FUNCTION(inside))
    made = cu.prepare("cuUserObjectCreate", c_void_p, None, function, 1, 1)
    cu.call("cuUserObjectRelease", made, 1)
    cu.see("done", done.wait(10))
    cu.see("another thread", threads[0] != threading.get_ident() if threads else None)


@sequence
def many(cu: Recorder) -> None:
    """Many user objects are destroyed in the order in which they are released."""
    witness, graph = Witness(cu), tools.graph(cu)
    for i in range(1, 20):
        cu.prepare("cuGraphRetainUserObject", graph, witness.create(i), 1, MOVE)
    cu.call("cuGraphDestroy", graph)
    time.sleep(0.3)
    cu.see("all", sorted(map(str, witness.seen), key=int))


@sequence
def threads_of_destructors(cu: Recorder) -> None:
    """Whether a destructor runs on the releasing thread before the call returns, or on another thread."""
    here = threading.get_ident()
    stream = cu.stream(NON_BLOCKING)
    seen: list[int] = []
    function = tools.keep(HOST_FUNCTION(lambda _: seen.append(threading.get_ident())))

    def look(what: str, name: str, *arguments: object) -> None:
        seen.clear()
        cu.prepare(name, *arguments)
        at_once = int(seen == [here])  # 0 if the destructor runs on another thread
        for _ in range(100):
            if seen:
                break
            time.sleep(0.01)
        cu.see(what, (at_once, "this thread" if seen == [here] else "another thread" if seen else "not at all"))

    def made() -> int:
        return int(cu.prepare("cuUserObjectCreate", c_void_p, None, function, 1, 1))

    def owning() -> int:
        graph = tools.graph(cu)
        tools.empty(cu, graph)
        cu.prepare("cuGraphRetainUserObject", graph, made(), 1, MOVE)
        return graph

    def instantiated() -> int:
        graph = owning()
        executable = tools.instantiate(cu, graph)
        cu.prepare("cuGraphDestroy", graph)
        return executable

    look("released", "cuUserObjectRelease", made(), 1)
    graph, kept = tools.graph(cu), made()
    cu.prepare("cuGraphRetainUserObject", graph, kept, 1, MOVE)
    look("released by a graph", "cuGraphReleaseUserObject", graph, kept, 1)
    look("graph destroyed", "cuGraphDestroy", owning())
    parent, inner = tools.graph(cu), owning()
    node = tools.child(cu, parent, inner)
    cu.prepare("cuGraphDestroy", inner)
    look("child node destroyed", "cuGraphDestroyNode", node)
    look("executable destroyed", "cuGraphExecDestroy", instantiated())
    executable = instantiated()
    cu.prepare("cuGraphLaunch", executable, stream)
    cu.prepare("cuStreamSynchronize", stream)
    look("executable destroyed after a launch", "cuGraphExecDestroy", executable)
    other = tools.graph(cu)
    tools.empty(cu, other)
    look("updated", "cuGraphExecUpdate_v2", instantiated(), other, tools.UpdateInfo())
    executable = instantiated()
    with cu.gate(stream):
        cu.prepare("cuGraphLaunch", executable, stream)
        cu.prepare("cuGraphExecDestroy", executable)
    look("launch done", "cuStreamSynchronize", stream)
    tools.begin(cu, stream)
    graph = cu.prepare("cuStreamGetCaptureInfo_v2", stream, c_int, None, c_void_p, None, None)[1]
    cu.prepare("cuGraphRetainUserObject", graph, made(), 1, MOVE)
    cu.attempt("cuStreamSynchronize", stream)
    seen.clear()
    cu.attempt("cuStreamEndCapture", stream, c_void_p)
    cu.see("capture lost", seen == [here])


@sequence
def frees_in_destructors(cu: Recorder) -> None:
    """The objects that a destructor can free."""
    stream, spare, library = cu.stream(NON_BLOCKING), cu.stream(NON_BLOCKING), cu.library(KERNELS)
    pool = cu.prepare("cuMemPoolCreate", c_void_p, device_pool())
    module = cu.prepare("cuModuleLoadData", c_void_p, KERNELS)
    pooled = cu.prepare("cuMemAllocAsync", c_uint64, 64, stream)
    cu.prepare("cuStreamSynchronize", stream)
    other = Witness(cu)
    second = other.create(2)
    done = threading.Event()

    def inside(_: object) -> None:
        cu.call_each(
            ("cuUserObjectRetain", second, 1), ("cuUserObjectRelease", second, 2),
            ("cuStreamIsCapturing", stream, c_int), ("cuMemFreeAsync", pooled, stream), ("cuMemPoolDestroy", pool),
            ("cuModuleUnload", module), ("cuLibraryUnload", library), ("cuEventRecord", None, stream),
            ("cuStreamSynchronize", stream), ("cuStreamDestroy_v2", spare), ("cuCtxSynchronize",),
        )  # fmt: skip
        done.set()

    made = cu.prepare("cuUserObjectCreate", c_void_p, None, tools.keep(HOST_FUNCTION(inside)), 1, 1)
    cu.call("cuUserObjectRelease", made, 1)
    cu.see("done", done.wait(10))
    other.see("second", 1)


@sequence
def frees_in_host_functions(cu: Recorder) -> None:
    """The objects that a host function can free. Unloading a module is not tried: it would wait for the function."""
    stream, spare, library = cu.stream(NON_BLOCKING), cu.stream(NON_BLOCKING), cu.library(KERNELS)
    other = Witness(cu)
    second = other.create(2)
    event = cu.event()

    def inside() -> None:
        cu.call_each(
            ("cuUserObjectRelease", second, 1), ("cuLibraryUnload", library), ("cuEventDestroy_v2", event),
            ("cuStreamDestroy_v2", spare), ("cuMemPoolDestroy", None),
            ("cuStreamGetCaptureInfo_v2", stream, c_int, None, None, None, None),
            ("cuStreamEndCapture", stream, c_void_p),
        )  # fmt: skip

    cu.prepare("cuLaunchHostFunc", stream, cu.host_function(inside), None)
    cu.prepare("cuStreamSynchronize", stream)
    other.see("second", 1)
