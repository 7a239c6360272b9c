# SPDX-License-Identifier: Apache-2.0
"""Green contexts: their multiprocessors, their streams, and everything that they share with the primary context."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p
from typing import Any

import graph_tools as tools
import pytest
from kernels import PTX
from ptx import KERNELS
from structs import Resource

import cudacore_sim

SM, QUEUES = 1, 1000
NON_BLOCKING, DEFAULT_STREAM, LEGACY = 1, 1, c_void_p(1)
NOT_READY, INVALID_HANDLE, INVALID_CONTEXT, DESTROYED = 600, 400, 201, 709
TOO_LARGE, BAD_CONFIGURATION, NOT_PERMITTED, UPDATE_FAILURE = 720, 915, 800, 910
FUNCTION_CHANGED, PARAMETERS_CHANGED = 7, 5  # CUgraphExecUpdateResult
Run = Callable[[Callable[[], None], c_void_p], None]


class Green:
    """A green context, created with a group of multiprocessors."""

    def __init__(self, cuda: Any, count: int = 16, device: int = 0) -> None:
        self.cuda = cuda
        self.part = self.split(self.resource(device), count)
        description = c_void_p(cuda.out("cuDevResourceGenerateDesc", byref(self.part), 1))
        self.handle = c_void_p(cuda.out("cuGreenCtxCreate", description, device, DEFAULT_STREAM))
        self.context = c_void_p(cuda.out("cuCtxFromGreenCtx", self.handle))

    def resource(self, device: int) -> Resource:
        found = Resource()
        self.cuda.cuDeviceGetDevResource(device, byref(found), SM)
        return found

    def split(self, resource: Resource, count: int) -> Resource:
        part = Resource()
        self.cuda.cuDevSmResourceSplitByCount(byref(part), byref(c_uint(1)), byref(resource), None, 0, count)
        return part

    def stream(self) -> c_void_p:
        return c_void_p(self.cuda.out("cuGreenCtxStreamCreate", self.handle, NON_BLOCKING, 0))

    def destroy(self) -> None:
        self.cuda.cuGreenCtxDestroy(self.handle)


def primary(cuda: Any) -> c_void_p:
    return c_void_p(cuda.out("cuCtxGetCurrent"))


def test_it_keeps_the_primary_context(cuda: Any) -> None:
    """The primary context would end before its green context, or would not end with its green context."""
    green = Green(cuda)
    assert cudacore_sim.live()["context"] == 2
    assert ["green" in line for line in cudacore_sim.describe_live()] == [False, True]
    cuda.cuDevicePrimaryCtxRelease_v2(0)
    assert cudacore_sim.live()["context"] == 2
    green.stream()
    green.destroy()
    assert cudacore_sim.live()["context"] == 0


def test_its_handles_are_not_taken_for_each_other(cuda: Any) -> None:
    """cuCtxDestroy would destroy a green context, or the error would not name the function that does."""
    green = Green(cuda)
    assert cuda.code("cuGreenCtxDestroy", green.context) == INVALID_CONTEXT
    assert not cudacore_sim.reports()
    assert cuda.code("cuCtxDestroy_v2", green.context) == INVALID_CONTEXT
    (report,) = cudacore_sim.reports()
    assert "cuCtxDestroy was given a green context, which cuGreenCtxDestroy destroys" in report


def test_destroyed_twice(cuda: Any) -> None:
    """Destroying a green context twice, which a GPU may not detect, would not be reported."""
    green = Green(cuda)
    green.destroy()
    assert cuda.code("cuGreenCtxDestroy", green.handle) == DESTROYED
    (report,) = cudacore_sim.reports()
    assert "cuGreenCtxDestroy was given a green context that was destroyed" in report


def test_only_streams_are_its_own(cuda: Any) -> None:
    """Destroying a green context would destroy memory, events or code made in this context, or leak its streams."""
    home, green = primary(cuda), Green(cuda)
    cuda.cuCtxSetCurrent(green.context)
    address, event = cuda.malloc(64), cuda.event()
    module = c_void_p(cuda.out("cuModuleLoadData", PTX))
    stream = cuda.stream(NON_BLOCKING)
    owner = c_void_p()
    cuda.cuPointerGetAttribute(byref(owner), 1, address)
    assert owner.value == home.value
    cuda.cuStreamGetCtx(stream, byref(owner))
    assert owner.value == green.context.value
    found = c_void_p()
    cuda.cuStreamGetCtx_v2(stream, byref(owner), byref(found))
    assert (owner.value, found.value) == (home.value, green.handle.value)
    cuda.cuEventRecord(event, stream)
    cuda.cuCtxSetCurrent(home)
    green.destroy()
    cuda.cuMemsetD8_v2(address, 1, 64)
    cuda.cuMemFree_v2(address)
    cuda.cuEventSynchronize(event)
    cuda.cuEventDestroy_v2(event)
    cuda.cuModuleUnload(module)
    assert cudacore_sim.live()["stream"] == 1
    assert cuda.code("cuStreamQuery", stream) == DESTROYED
    assert cuda.code("cuStreamDestroy_v2", stream) == DESTROYED
    assert cudacore_sim.live()["stream"] == 0
    assert not cudacore_sim.reports()


def test_streams_do_not_block(cuda: Any) -> None:
    """Streams of a green context would wait for the default stream of the primary context."""
    green = Green(cuda)
    cuda.cuCtxSetCurrent(green.context)
    assert cuda.code("cuGreenCtxStreamCreate", byref(c_void_p()), green.handle, 0, 0) == 1
    flags = c_uint()
    cuda.cuStreamGetFlags(cuda.stream(0), byref(flags))
    assert flags.value == NON_BLOCKING
    assert cuda.code("cuStreamQuery", c_void_p(2)) == INVALID_HANDLE  # a green context has no per-thread default stream


def test_who_waits_for_whom(cuda: Any, run_in_stream: Run) -> None:
    """Synchronising a green context would wait for other contexts, or the primary context would not wait for all."""
    home, green, other = primary(cuda), Green(cuda), Green(cuda)
    mine, theirs = green.stream(), other.stream()
    opened = threading.Event()
    done: list[str] = []
    run_in_stream(lambda: (opened.wait(20), done.append("theirs"))[0] and None, theirs)
    run_in_stream(lambda: done.append("mine"), mine)
    cuda.cuCtxSynchronize_v2(green.context)
    assert done == ["mine"]
    event = cuda.event()
    cuda.cuGreenCtxRecordEvent(other.handle, event)
    assert cuda.code("cuEventQuery", event) == NOT_READY
    cuda.cuGreenCtxWaitEvent(green.handle, event)
    run_in_stream(lambda: done.append("behind"), mine)
    assert cuda.code("cuStreamQuery", mine) == NOT_READY
    opened.set()
    cuda.cuCtxSynchronize_v2(home)
    assert done == ["mine", "theirs", "behind"]


def test_destroying_it_waits_for_its_work(cuda: Any, run_in_stream: Run) -> None:
    """Work of a green context would continue after its multiprocessors were released."""
    green = Green(cuda)
    done: list[int] = []
    run_in_stream(lambda: done.append(1), green.stream())
    green.destroy()
    assert done == [1]


def test_destroying_it_leaves_captures(cuda: Any) -> None:
    """Destroying a green context would end the captures that its streams had joined, unlike on a GPU."""
    green, ordinary, event = Green(cuda), cuda.stream(NON_BLOCKING), cuda.event()
    stream = green.stream()
    cuda.cuStreamBeginCapture_v2(ordinary, 2)
    cuda.cuEventRecord(event, ordinary)
    cuda.cuStreamWaitEvent(stream, event, 0)
    green.destroy()
    cuda.cuStreamEndCapture(ordinary, byref(c_void_p()))


@pytest.mark.parametrize(
    ("work", "to_green", "to_primary"),
    [
        ("launch", FUNCTION_CHANGED, FUNCTION_CHANGED),
        ("node", FUNCTION_CHANGED, FUNCTION_CHANGED),
        ("copy", 0, PARAMETERS_CHANGED),
        ("fill", 0, 0),
    ],
)
@pytest.mark.parametrize("current", ["primary", "green"])
def test_updates_between_contexts(
    cuda: Any, calls: Any, work: str, to_green: int, to_primary: int, current: str
) -> None:
    """An executable graph could be updated with a node of another context that a GPU refuses, or could not with one
    that it accepts. For captured work, which context is current would count.
    """
    home, green = primary(cuda), Green(cuda)
    kernel = calls.kernel(KERNELS, "nothing")
    memory = calls.memory(64, 0)

    def make(context: c_void_p, stream: c_void_p) -> int:
        if work == "node":
            cuda.cuCtxSetCurrent(context)
            made = tools.graph(calls)
            tools.kernel(calls, made, None, kern=kernel, ctx=context.value)
            return made
        cuda.cuCtxSetCurrent(home if current == "primary" else green.context)
        cuda.cuStreamBeginCapture_v2(stream, 2)
        if work == "launch":
            calls.launch(kernel, stream=stream.value)
        elif work == "copy":
            calls.prepare("cuMemcpyDtoDAsync_v2", memory, memory + 32, 32, stream.value)
        else:
            calls.prepare("cuMemsetD8Async", memory, 1, 64, stream.value)
        return int(cuda.out("cuStreamEndCapture", stream, last=True))

    def update(first: tuple[c_void_p, c_void_p], second: tuple[c_void_p, c_void_p]) -> tuple[int, int]:
        executable, graph, info = tools.instantiate(calls, make(*first)), make(*second), tools.UpdateInfo()
        code = calls.call("cuGraphExecUpdate_v2", executable, graph, info)
        return code, info.result

    own, its = (home, cuda.stream(NON_BLOCKING)), (green.context, green.stream())
    assert update(own, own) == update(its, its) == (0, 0)
    assert update(own, its) == (UPDATE_FAILURE if to_green else 0, to_green)
    assert update(its, own) == (UPDATE_FAILURE if to_primary else 0, to_primary)


def test_kernel_nodes_report_it(cuda: Any, calls: Any) -> None:
    """A kernel node that was captured in a green context would report the primary context, also with new attributes."""
    green, kernel = Green(cuda), calls.kernel(KERNELS, "nothing")
    stream = green.stream()
    cuda.cuStreamBeginCapture_v2(stream, 2)
    calls.launch(kernel, stream=stream.value)
    graph = c_void_p(cuda.out("cuStreamEndCapture", stream, last=True))
    nodes, count = (c_void_p * 1)(), ctypes.c_size_t(1)
    cuda.cuGraphGetNodes(graph, nodes, byref(count))
    node, params = c_void_p(nodes[0]), tools.KernelNode()
    for _ in range(2):
        cuda.cuGraphKernelNodeGetParams_v2(node, byref(params))
        assert params.ctx == green.context.value
        cuda.cuGraphKernelNodeSetAttribute(node, 8, byref((c_int * 16)(-1)))


def test_of_no_use_when_it_is_destroyed(cuda: Any) -> None:
    """A green context could still be used on a thread where it was current when it was destroyed."""
    green = Green(cuda)
    cuda.cuCtxSetCurrent(green.context)
    green.destroy()
    assert cuda.code("cuMemAlloc_v2", byref(c_uint64()), ctypes.c_size_t(64)) == DESTROYED
    assert cuda.code("cuStreamCreate", byref(c_void_p()), 1) == DESTROYED
    assert cuda.code("cuCtxSynchronize") == DESTROYED


def test_no_reset_beside_it(cuda: Any) -> None:
    """The primary context could be reset while a green context exists, which a driver for CUDA 13.0 refuses."""
    green = Green(cuda)
    stream = green.stream()
    assert cuda.code("cuDevicePrimaryCtxReset_v2", 0) == NOT_PERMITTED
    cuda.cuStreamQuery(stream)
    cuda.cuStreamDestroy_v2(stream)
    green.destroy()
    cuda.cuDevicePrimaryCtxReset_v2(0)
    assert cudacore_sim.live()["context"] == 0


def test_cooperative_launches_have_its_multiprocessors(cuda: Any) -> None:
    """A cooperative grid that is too large for its green context, and hangs on a GPU, would be launched."""
    green = Green(cuda, 16)
    library = c_void_p(cuda.out("cuLibraryLoadData", PTX, None, None, 0, None, None, 0))
    kernel = c_void_p(cuda.out("cuLibraryGetKernel", library, b"empty"))
    size = [1, 1, 1024, 1, 1, 0]

    def launch(blocks: int, stream: c_void_p) -> int:
        return int(cuda.code("cuLaunchCooperativeKernel", kernel, blocks, *size, stream, None))

    assert launch(32, green.stream()) == 0
    assert launch(33, green.stream()) == TOO_LARGE
    assert launch(33, cuda.stream(NON_BLOCKING)) == 0


def test_what_was_changed_is_no_resource(cuda: Any) -> None:
    """A resource that the program has changed or made up would be accepted as one from the driver."""
    green = Green(cuda)
    resource = green.resource(0)
    resource.words[0] = 200
    made_up = Resource(type=SM)
    made_up.words[0] = 8
    for bad in (resource, made_up):
        assert cuda.code("cuDevResourceGenerateDesc", byref(c_void_p()), byref(bad), 1) == 1
        assert cuda.code("cuDevSmResourceSplitByCount", None, byref(c_uint()), byref(bad), None, 0, 8) == 1
    assert cuda.code("cuGreenCtxCreate", byref(c_void_p()), c_void_p(0x1234), 0, DEFAULT_STREAM) == 1


def test_two_devices(run_python: Any) -> None:
    """A green context would be created on one device with multiprocessors of another device."""
    result = run_python(
        """
        class Resource(Structure):
            _fields_ = [("type", c_int), ("internal", c_ubyte * 92), ("words", c_uint * 10), ("next", c_void_p)]

        cu.cuInit(0)
        both = (Resource * 2)()
        desc, green = c_void_p(), c_void_p()
        for device in range(2):
            assert cu.cuDeviceGetDevResource(device, byref(both[device]), 1) == 0
        assert cu.cuDevResourceGenerateDesc(byref(desc), both, 2) == 915
        assert cu.cuDevResourceGenerateDesc(byref(desc), byref(both[1]), 1) == 0
        assert cu.cuGreenCtxCreate(byref(green), desc, 0, 1) == 1
        assert cu.cuGreenCtxCreate(byref(green), desc, 1, 1) == 0
        assert cu.cuGreenCtxDestroy(green) == 0
        """,
        DEVICES=2,
    )
    told = [line for line in result.stderr.splitlines() if "answers CUDA_ERROR_NOT_SUPPORTED" not in line]
    assert (result.returncode, told) == (0, [])


RESOURCE = """
class Resource(Structure):
    _fields_ = [("type", c_int), ("internal", c_ubyte * 92), ("words", c_uint * 10), ("next", c_void_p)]

class Group(Structure):
    _fields_ = [(name, c_uint) for name in ("count", "together", "preferred", "flags")] + [("rest", c_uint * 12)]

cu.cuInit(0)
all, rest = Resource(), Resource()
assert cu.cuDeviceGetDevResource(0, byref(all), 1) == 0

def split(*groups, into=True):
    array, parts = (Group * len(groups))(*groups), (Resource * len(groups))()
    code = cu.cuDevSmResourceSplit(parts if into else None, len(groups), byref(all), byref(rest), 0, array)
    return code or [group.count for group in array]
"""


def run_at_13_1(run_python: Any, code: str) -> None:
    result = run_python(RESOURCE + code, DRIVER_VERSION="13.1")
    told = [line for line in result.stderr.splitlines() if "answers CUDA_ERROR_NOT_SUPPORTED" not in line]
    assert (result.returncode, told) == (0, [])


def test_groups_as_they_are_asked_for(run_python: Any) -> None:
    """cuDevSmResourceSplit of CUDA 13.1 would round counts, or assign more multiprocessors than the device has."""
    run_at_13_1(
        run_python,
        """
assert list(all.words[:4]) == [132, 8, 8, 0]
assert split(Group(16), Group(32)) == [16, 32]
assert rest.words[0] == 84
assert split(Group(16), Group(0)) == [16, 112]
assert rest.words[0] == 4
assert split(Group(10, 2), Group(0, 2)) == [10, 122]
assert rest.type == 0
assert split(Group(12, 0, 0, 1)) == [12]
assert split(Group(128), Group(0), into=False) == [128, 0]
assert split(Group(128), Group(0)) == 915
assert split(Group(12)) == 915
assert split(Group(128), Group(8)) == 915
assert split(Group(7)) == split(Group(134)) == split(Group(8, 3)) == split(Group(64, 64)) == 1
assert split(Group(8, 8, 12)) == split(Group(8, 0, 0, 4)) == 1
assert cu.cuDevSmResourceSplit(None, 0, byref(all), None, 0, byref(Group(8))) == 1
assert cu.cuDevSmResourceSplit(None, 1, byref(all), None, 1, byref(Group(8))) == 1
""",
    )


def test_ended_at_13_1(run_python: Any) -> None:
    """Streams of a destroyed green context could not be destroyed, or could still be used."""
    run_at_13_1(
        run_python,
        """
desc, green, stream = c_void_p(), c_void_p(), c_void_p()
assert cu.cuDevResourceGenerateDesc(byref(desc), byref(all), 1) == 0
assert cu.cuGreenCtxCreate(byref(green), desc, 0, 0) == 0
assert cu.cuGreenCtxStreamCreate(byref(stream), green, 1, 0) == 0
assert cu.cuGreenCtxDestroy(green) == 0
assert cu.cuStreamQuery(stream) == 917
assert cu.cuStreamDestroy_v2(stream) == 0
""",
    )


def test_work_queues(run_python: Any) -> None:
    """The settings of work queues in a green context would be lost."""
    run_at_13_1(
        run_python,
        """
queues, desc, green, found = Resource(), c_void_p(), c_void_p(), Resource()
assert cu.cuDeviceGetDevResource(0, byref(queues), 1000) == 0
assert list(queues.words[:3]) == [0, 8, 0]
queues.words[1], queues.words[2] = 3, 1
assert cu.cuDevResourceGenerateDesc(byref(desc), byref(queues), 1) == 0
assert cu.cuGreenCtxCreate(byref(green), desc, 0, 0) == 0
assert cu.cuGreenCtxGetDevResource(green, byref(found), 1000) == 0
assert list(found.words[:3]) == [0, 3, 1]
assert cu.cuGreenCtxGetDevResource(green, byref(found), 1) == 0
assert found.words[0] == 132
stream = c_void_p()
assert cu.cuGreenCtxStreamCreate(byref(stream), green, 1, 0) == 0
assert cu.cuStreamGetDevResource(stream, byref(found), 1) == 0
assert cu.cuStreamGetDevResource(stream, byref(found), 1000) == 914
assert cu.cuStreamDestroy_v2(stream) == cu.cuGreenCtxDestroy(green) == 0
queues.words[2] = 2
assert cu.cuDevResourceGenerateDesc(byref(desc), byref(queues), 1) == 1
both = (Resource * 2)(found, found)
assert cu.cuDeviceGetDevResource(0, byref(queues), 10000) == 0
assert cu.cuDevResourceGenerateDesc(byref(desc), byref(queues), 1) == 801
""",
    )


def test_before_13_1(cuda: Any) -> None:
    """A driver before CUDA 13.1 would have functions or types of resources that CUDA 13.1 introduced."""
    resource = Resource()
    assert cuda.code("cuDeviceGetDevResource", 0, byref(resource), QUEUES) == 914
    cuda.cuDeviceGetDevResource(0, byref(resource), SM)
    assert list(resource.words) == [132, 8, 8] + [0] * 7
    found = [byref(c_void_p()), 13010, c_uint64(0), byref(c_int())]
    assert cuda.code("cuGetProcAddress_v2", b"cuDevSmResourceSplit", *found) == 1


@pytest.mark.parametrize("count", [1, 7, 9, 20, 129, 132, 133])
def test_counts_are_rounded_up(cuda: Any, count: int) -> None:
    """Groups would have fewer multiprocessors than on a GPU of compute capability 9, which rounds up."""
    resource, parts, groups = Resource(), (Resource * 32)(), c_uint(32)
    cuda.cuDeviceGetDevResource(0, byref(resource), SM)
    code = cuda.code("cuDevSmResourceSplitByCount", parts, byref(groups), byref(resource), None, 0, count)
    if count == 133:
        assert code == BAD_CONFIGURATION
        return
    size = min((count + 7) // 8 * 8, 132)
    assert [part.words[0] for part in parts[: groups.value]] == [size] * (132 // size)
