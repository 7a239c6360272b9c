# SPDX-License-Identifier: Apache-2.0
"""Green contexts: how multiprocessors are split, the objects in such a context, and its end."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

import graph_tools as tools
from ptx import KERNELS
from recorder import Recorder, sequence
from structs import Resource

SM, QUEUE_CONFIGURATION, QUEUE = 1, 1000, 10000
DEFAULT_STREAM = 1
NON_BLOCKING = 1
LEGACY, PER_THREAD = 1, 2


def all_multiprocessors(cu: Recorder) -> Resource:
    """Return the resource of all multiprocessors of device 0."""
    resource = Resource()
    cu.prepare("cuDeviceGetDevResource", 0, resource, SM)
    return resource


def split(cu: Recorder, count: int, groups: int = 1) -> list[Resource]:
    """Split off `groups` groups of `count` multiprocessors. Return these groups; the last element is the rest."""
    parts, rest = (Resource * groups)(), Resource()
    cu.prepare("cuDevSmResourceSplitByCount", parts, c_uint(groups), all_multiprocessors(cu), rest, 0, count)
    return [*parts, rest]


def describe(cu: Recorder, *resources: Resource) -> int:
    """Generate a descriptor from resources."""
    array = (Resource * len(resources))(*resources)
    return int(cu.prepare("cuDevResourceGenerateDesc", c_void_p, array, len(resources)))


def create(cu: Recorder, count: int = 16) -> tuple[int, int]:
    """Create a green context with `count` multiprocessors; return its CUgreenCtx and its CUcontext."""
    green = int(cu.prepare("cuGreenCtxCreate", c_void_p, describe(cu, split(cu, count)[0]), 0, DEFAULT_STREAM))
    return green, int(cu.prepare("cuCtxFromGreenCtx", c_void_p, green))


def see_resource(cu: Recorder, what: str, resource: Resource) -> None:
    """List the type and the readable fields of a resource."""
    cu.see(what, f"type {resource.type} {list(resource.words)}")


def see_split(cu: Recorder, count: int, groups: int, flags: int = 0) -> None:
    """Split the multiprocessors of the device, and list the groups."""
    parts, rest, number = (Resource * max(groups, 1))(), Resource(), c_uint(groups)
    cu.see("count, groups, flags", (count, groups, flags))
    if cu.call("cuDevSmResourceSplitByCount", parts, number, all_multiprocessors(cu), rest, flags, count) == 0:
        cu.see("groups", [part.words[0] for part in parts[: number.value]])
        see_resource(cu, "first", parts[0])
        see_resource(cu, "rest", rest)


@sequence
def device_resources(cu: Recorder) -> None:
    """The resources of a device and its primary context, and resources that do not exist."""
    context = cu.prepare("cuCtxGetCurrent", c_void_p)
    for kind in (SM, QUEUE_CONFIGURATION, QUEUE, 0, 2, -1):
        resource = Resource()
        if cu.call("cuDeviceGetDevResource", 0, resource, kind) == 0:
            see_resource(cu, "of the device", resource)
        resource = Resource()
        if cu.call("cuCtxGetDevResource", context, resource, kind) == 0:
            see_resource(cu, "of the context", resource)
    cu.call("cuDeviceGetDevResource", 0, None, SM)
    cu.call("cuDeviceGetDevResource", 99, Resource(), SM)
    cu.call("cuCtxGetDevResource", context, None, SM)


@sequence
def split_counts(cu: Recorder) -> None:
    """The size of groups is rounded up. A split returns at most as many groups as the multiprocessors suffice for."""
    for count in (0, 1, 2, 7, 8, 9, 16, 20, 64, 66, 100, 128, 129, 132, 133, 1000):
        see_split(cu, count, 1)
    for count in (8, 16, 32, 44, 66):
        see_split(cu, count, 8)  # the number of possible groups of eight differs between chips
    see_split(cu, 8, 0)


@sequence
def split_flags(cu: Recorder) -> None:
    """Flags of a split: groups can be smaller without co-scheduling, and are larger for large clusters."""
    for flags in (1, 2, 3, 4):
        for count in (0, 1, 3, 8, 16, 17):
            see_split(cu, count, 8, flags)


@sequence
def split_queries(cu: Recorder) -> None:
    """The possible number of groups can be queried by a call without outputs. The output for the rest may be NULL."""
    resource = all_multiprocessors(cu)
    for count in (16, 20, 128, 132, 133):
        number = c_uint(77)
        if cu.call("cuDevSmResourceSplitByCount", None, number, resource, None, 0, count) == 0:
            cu.see("groups", number.value)
    cu.call("cuDevSmResourceSplitByCount", Resource(), c_uint(1), resource, None, 0, 8)
    cu.call("cuDevSmResourceSplitByCount", Resource(), c_uint(1), Resource(), None, 0, 8)
    cu.call("cuDevSmResourceSplitByCount", Resource(), None, resource, None, 0, 8)


@sequence
def split_again(cu: Recorder) -> None:
    """The groups of a split cannot be split again, except as resources of a green context."""
    part, rest = split(cu, 32)
    for resource in (part, rest):
        cu.call("cuDevSmResourceSplitByCount", Resource(), c_uint(1), resource, None, 0, 8)
    green, context = create(cu, 32)
    for name, owner in (("cuGreenCtxGetDevResource", green), ("cuCtxGetDevResource", context)):
        own, half, left = Resource(), Resource(), Resource()
        if cu.call(name, owner, own, SM) == 0:
            see_resource(cu, "own", own)
            cu.call("cuDevSmResourceSplitByCount", half, c_uint(1), own, left, 0, 16)
            see_resource(cu, "half", half)
            see_resource(cu, "left", left)
    cu.prepare("cuGreenCtxDestroy", green)


@sequence
def descriptors(cu: Recorder) -> None:
    """The resources that a descriptor for one context can combine."""
    whole = all_multiprocessors(cu)
    first, second, rest = split(cu, 16, 2)
    other = split(cu, 8)[0]
    for name, resources in {
        "one": [first],
        "two of a split": [first, second],
        "one and the rest": [first, rest],
        "the rest": [rest],
        "all": [whole],
        "all and one": [whole, first],
        "one twice": [first, first],
        "of two splits": [first, other],
        "nothing of a type": [Resource()],
    }.items():
        array = (Resource * len(resources))(*resources)
        cu.see("resources", name)
        descriptor = cu.new("cuDevResourceGenerateDesc", c_void_p, array, len(resources))
        if descriptor and (green := cu.new("cuGreenCtxCreate", c_void_p, descriptor, 0, DEFAULT_STREAM)):
            own = Resource()
            cu.prepare("cuGreenCtxGetDevResource", green, own, SM)
            cu.see("multiprocessors", own.words[0])
            cu.prepare("cuGreenCtxDestroy", green)
    cu.call("cuDevResourceGenerateDesc", None, first, 1)


@sequence
def create_arguments(cu: Recorder) -> None:
    """The flags of a green context, and a device that does not exist."""
    descriptor = describe(cu, split(cu, 16)[0])
    for flags in (0, 1, 2, 3):
        if green := cu.new("cuGreenCtxCreate", c_void_p, descriptor, 0, flags):
            cu.call("cuGreenCtxDestroy", green)
    cu.call("cuGreenCtxCreate", c_void_p, descriptor, 99, DEFAULT_STREAM)
    cu.call("cuGreenCtxCreate", None, descriptor, 0, DEFAULT_STREAM)
    cu.call("cuGreenCtxCreate", c_void_p, None, 0, DEFAULT_STREAM)
    cu.call("cuGreenCtxDestroy", None)
    cu.call("cuCtxFromGreenCtx", c_void_p, None)


@sequence
def what_is_current(cu: Recorder) -> None:
    """A current green context has a CUcontext of its own, and the properties of the primary context."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    green, context = create(cu)
    again = cu.new("cuCtxFromGreenCtx", c_void_p, green)
    cu.see("the same", again == context)
    cu.see("another than the primary one", context != primary)
    cu.call("cuCtxSetCurrent", green)
    cu.call("cuCtxSetCurrent", context)
    current = cu.new("cuCtxGetCurrent", c_void_p)
    cu.see("current", current == context)
    cu.read("cuCtxGetDevice", c_int)
    cu.read("cuCtxGetFlags", c_uint)
    cu.read("cuCtxGetLimit", c_size_t, 0)
    cu.call("cuCtxSetLimit", 0, 2048)
    cu.read("cuCtxGetStreamPriorityRange", c_int, c_int)
    cu.call("cuCtxSynchronize")
    cu.call("cuCtxGetApiVersion", context, c_uint)
    identifier = cu.new("cuCtxGetId", None, c_uint64)
    cu.see("identified as the primary one", identifier == cu.prepare("cuCtxGetId", primary, c_uint64))
    cu.call("cuGreenCtxGetId", green, c_uint64)
    cu.call("cuGreenCtxGetId", None, c_uint64)
    cu.call("cuCtxSetCurrent", primary)
    cu.read("cuCtxGetLimit", c_size_t, 0)
    cu.call("cuGreenCtxGetId", None, c_uint64)
    cu.call("cuCtxSynchronize_v2", context)
    cu.call("cuGreenCtxDestroy", green)


@sequence
def streams(cu: Recorder) -> None:
    """Streams that are created in a green context, and the contexts that the driver reports for such streams."""
    green, context = create(cu)
    for flags in (0, NON_BLOCKING, 2):
        cu.call("cuGreenCtxStreamCreate", c_void_p, green, flags, 0)
    cu.call("cuGreenCtxStreamCreate", None, green, NON_BLOCKING, 0)
    cu.call("cuGreenCtxStreamCreate", c_void_p, None, NON_BLOCKING, 0)
    made = [cu.new("cuGreenCtxStreamCreate", c_void_p, green, NON_BLOCKING, -100)]
    cu.prepare("cuCtxSetCurrent", context)
    made += [cu.new("cuStreamCreate", c_void_p, flags) for flags in (NON_BLOCKING, 0)]
    for stream in [*filter(None, made), None, LEGACY, PER_THREAD]:
        cu.read("cuStreamGetFlags", stream, c_uint)
        cu.read("cuStreamGetPriority", stream, c_int)
        owner = cu.new("cuStreamGetCtx", stream, c_void_p)
        cu.see("its context", owner == context)
        found = cu.new("cuStreamGetGreenCtx", stream, c_void_p)
        cu.see("the green one", found == green)
        cu.call("cuStreamQuery", stream)
        cu.call("cuStreamSynchronize", stream)
        cu.call("cuStreamBeginCapture_v2", stream, 2)
        cu.call("cuStreamEndCapture", stream, c_void_p)


@sequence
def streams_of_the_primary_context(cu: Recorder) -> None:
    """Streams of the primary context belong to no green context."""
    create(cu)
    for stream in (cu.stream(), None, LEGACY, PER_THREAD):
        found = cu.new("cuStreamGetGreenCtx", stream, c_void_p)
        cu.see("none", not found)


@sequence
def events(cu: Recorder) -> None:
    """Events belong to the primary context, whichever context was current."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    green, context = create(cu)
    other, _ = create(cu)
    stream = cu.prepare("cuGreenCtxStreamCreate", c_void_p, green, NON_BLOCKING, 0)
    beside = cu.prepare("cuGreenCtxStreamCreate", c_void_p, other, NON_BLOCKING, 0)
    ordinary = cu.stream()
    made = [cu.event()]
    cu.prepare("cuCtxSetCurrent", context)
    made.append(cu.event())
    cu.prepare("cuCtxSetCurrent", primary)
    for event in made:
        for where in (stream, beside, ordinary, None):
            cu.call("cuEventRecord", event, where)
            cu.call("cuStreamWaitEvent", stream, event, 0)
            cu.call("cuStreamWaitEvent", ordinary, event, 0)
        cu.call("cuGreenCtxRecordEvent", green, event)
        cu.call("cuGreenCtxWaitEvent", other, event)
        cu.call("cuCtxRecordEvent", context, event)
        cu.call("cuCtxWaitEvent", context, event)
        cu.call("cuEventSynchronize", event)
    cu.prepare("cuEventRecord", made[0], stream)
    cu.prepare("cuEventRecord", made[1], ordinary)
    cu.prepare("cuCtxSynchronize")
    cu.call("cuEventElapsedTime", c_float, *made)


@sequence
def what_an_event_waits_for(cu: Recorder) -> None:
    """An event that a green context records covers the work of all of its streams, and of no other streams."""
    green, _ = create(cu)
    stream = cu.prepare("cuGreenCtxStreamCreate", c_void_p, green, NON_BLOCKING, 0)
    ordinary, event = cu.stream(NON_BLOCKING), cu.event()
    for held in (stream, ordinary):
        with cu.gate(held):
            cu.call("cuGreenCtxRecordEvent", green, event)
            cu.call("cuEventQuery", event)
        cu.call("cuCtxSynchronize")
        cu.call("cuEventQuery", event)


@sequence
def code_and_memory(cu: Recorder) -> None:
    """Memory and code of the primary context are used in a green context, and the reverse."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    green, context = create(cu)
    stream = cu.prepare("cuGreenCtxStreamCreate", c_void_p, green, NON_BLOCKING, 0)
    kernel = cu.kernel(KERNELS, "nothing")
    function = cu.prepare("cuKernelGetFunction", c_void_p, kernel)
    cu.launch(kernel, stream=stream)
    cu.launch(function, stream=stream)
    first = cu.memory(64, 1)
    cu.prepare("cuCtxSetCurrent", context)
    second = cu.memory(64, 2)
    cu.launch(kernel)
    cu.launch(function)
    again = cu.new("cuKernelGetFunction", c_void_p, kernel)
    cu.see("the same function", again == function)
    for address in (first, second):
        owner = cu.new("cuPointerGetAttribute", c_void_p, 1, address)
        cu.see("of the primary context", owner == primary)
        cu.call("cuMemsetD8Async", address, 3, 64, stream)
    cu.call("cuStreamSynchronize", stream)
    cu.prepare("cuCtxSetCurrent", primary)
    cu.see_bytes("second", second, 4)
    cu.call("cuMemFree_v2", second)
    pooled = cu.new("cuMemAllocAsync", c_uint64, 64, stream)
    cu.call("cuMemFreeAsync", pooled, stream)
    cu.call("cuStreamSynchronize", stream)


@sequence
def destroyed_with_streams(cu: Recorder) -> None:
    """After a green context is destroyed, calls with the context or with its streams fail; its events stay valid."""
    green, context = create(cu)
    stream = cu.prepare("cuGreenCtxStreamCreate", c_void_p, green, NON_BLOCKING, 0)
    event = cu.event()
    cu.prepare("cuEventRecord", event, stream)
    cu.call_each(
        ("cuGreenCtxDestroy", green), ("cuStreamQuery", stream), ("cuStreamSynchronize", stream),
        ("cuStreamGetFlags", stream, c_uint), ("cuStreamGetCtx", stream, c_void_p),
        ("cuStreamGetGreenCtx", stream, c_void_p), ("cuEventRecord", event, stream),
        ("cuStreamWaitEvent", stream, event, 0), ("cuEventQuery", event), ("cuStreamDestroy_v2", stream),
        ("cuGreenCtxDestroy", green), ("cuCtxFromGreenCtx", c_void_p, green), ("cuCtxSetCurrent", context),
    )  # fmt: skip


@sequence
def destroyed_while_current(cu: Recorder) -> None:
    """A green context that is destroyed while it is current cannot be used."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    green, context = create(cu)
    cu.prepare("cuCtxPushCurrent_v2", context)
    cu.call("cuGreenCtxDestroy", green)
    current = cu.new("cuCtxGetCurrent", c_void_p)
    cu.see("current", "green" if current == context else "primary" if current == primary else "another")
    cu.call("cuStreamCreate", c_void_p, NON_BLOCKING)
    cu.call("cuMemAlloc_v2", c_uint64, 16)
    cu.call("cuCtxSynchronize")
    cu.call("cuCtxGetDevice", c_int)
    cu.call("cuCtxGetId", None, c_uint64)


@sequence
def destroyed_while_captured(cu: Recorder) -> None:
    """Destroying a green context does not affect a capture that one of its streams has joined."""
    green, _ = create(cu)
    stream = cu.prepare("cuGreenCtxStreamCreate", c_void_p, green, NON_BLOCKING, 0)
    ordinary, event = cu.stream(NON_BLOCKING), cu.event()
    cu.prepare("cuStreamBeginCapture_v2", ordinary, 2)
    cu.prepare("cuEventRecord", event, ordinary)
    cu.prepare("cuStreamWaitEvent", stream, event, 0)
    cu.call("cuGreenCtxDestroy", green)
    cu.call("cuStreamEndCapture", ordinary, c_void_p)
    cu.call("cuStreamDestroy_v2", stream)


def both_contexts(cu: Recorder) -> dict[str, int]:
    """Return the primary context, which is current, and a green one."""
    return {"primary": cu.prepare("cuCtxGetCurrent", c_void_p), "green": create(cu)[1]}


def captured(cu: Recorder, context: int, work: Callable[[int], None], current: int = 0) -> tuple[int, int, int]:
    """Capture one piece of work in a new stream of a context. Return the graph, its node and an executable graph.

    While it is captured, the context of the stream is current, or another one if that is given.
    """
    cu.prepare("cuCtxSetCurrent", context)
    stream = cu.stream(NON_BLOCKING)
    cu.prepare("cuCtxSetCurrent", current or context)
    tools.begin(cu, stream)
    work(stream)
    graph = int(cu.prepare("cuStreamEndCapture", stream, c_void_p))
    nodes, count = (c_void_p * 1)(), c_size_t(1)
    cu.prepare("cuGraphGetNodes", graph, nodes, count)
    return graph, int(nodes[0] or 0), tools.instantiate(cu, graph)


def see_changes(cu: Recorder, work: Callable[[int], None], function: str, params: object) -> None:
    """Change and update captured work of one context in the same or in the other one."""
    both = both_contexts(cu)
    for name, context in both.items():
        for other_name, other in both.items():
            for current_name, current in both.items():
                _, node, executable = captured(cu, context, work, current)
                cu.see("of a stream, captured in, changed in", (name, current_name, other_name))
                cu.call(function, executable, node, params, other)
    for name, context in both.items():
        for other_name, other in both.items():
            for current_name, current in both.items():
                for last_name, last in both.items():
                    graph, _, executable = captured(cu, context, work, current)
                    now, _, _ = captured(cu, other, work, current)
                    cu.prepare("cuCtxSetCurrent", last)
                    cu.see("of streams, captured in, updated in", (name, other_name, current_name, last_name))
                    cu.call("cuGraphExecUpdate_v2", executable, now, tools.UpdateInfo())
                    cu.call("cuGraphExecUpdate_v2", executable, graph, tools.UpdateInfo())


@sequence
def fills_in_another_context(cu: Recorder) -> None:
    """A fill of an executable graph is changed or updated in another context than that in which it was captured."""
    address = cu.memory(64, 0)
    params = tools.memset_params(address, 2, 16)
    see_changes(
        cu,
        lambda stream: cu.prepare("cuMemsetD8Async", address, 1, 64, stream),
        "cuGraphExecMemsetNodeSetParams",
        params,
    )


@sequence
def copies_in_another_context(cu: Recorder) -> None:
    """A copy of an executable graph is changed or updated in another context than that in which it was captured."""
    address = cu.memory(64, 0)
    params = tools.copy_params(address, address + 16, 16, to_type=4, from_type=4)  # 4: unified, as that of captures
    see_changes(
        cu,
        lambda stream: cu.prepare("cuMemcpyAsync", address, address + 32, 16, stream),
        "cuGraphExecMemcpyNodeSetParams",
        params,
    )


@sequence
def launches_in_another_context(cu: Recorder) -> None:
    """A launch of a graph, or an executable graph, is changed in another context than that in which it was captured."""
    function = cu.kernel(KERNELS, "nothing")

    def launch(stream: int) -> None:
        cu.prepare("cuLaunchKernel", function, *(1,) * 6, 0, stream, None, None)

    both = both_contexts(cu)
    for name, context in both.items():
        for current_name, current in both.items():
            for given_name, given in {"none": None, **both}.items():
                for form in ("kern", "func"):
                    _, node, executable = captured(cu, context, launch)
                    cu.prepare("cuCtxSetCurrent", current)
                    params = tools.KernelNode()
                    cu.prepare("cuGraphKernelNodeGetParams_v2", node, params)
                    setattr(params, "func" if form == "kern" else "kern", None)
                    params.ctx = given
                    cu.see("captured in, current, given, by", (name, current_name, given_name, form))
                    cu.call("cuGraphExecKernelNodeSetParams_v2", executable, node, params)
                    cu.call("cuGraphKernelNodeSetParams_v2", node, params)
                    cu.prepare("cuGraphKernelNodeGetParams_v2", node, params)
                    cu.see("is in the green context", params.ctx == both["green"])


@sequence
def the_primary_context_is_kept(cu: Recorder) -> None:
    """A green context retains the primary context."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    green, _ = create(cu)
    cu.call("cuDevicePrimaryCtxRelease_v2", 0)
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    cu.call("cuStreamCreate", c_void_p, 0)
    cu.call("cuGreenCtxDestroy", green)
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    cu.call("cuStreamCreate", c_void_p, 0)
    cu.see("handle", bool(primary))


assert ctypes.sizeof(Resource) == 144
