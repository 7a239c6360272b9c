# SPDX-License-Identifier: Apache-2.0
"""All operations on graphs, with their preparation and their end, for test_failures.py."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from graph_tools import ONE, Numbers

import cudacore_graph as cg
import cudacore_handles as ch
from bindings import call_bindings
from cudacore_handles._stream.stream import is_capturing
from failing_calls import ON_THE_WAY, Operation
from pytest_cudacore import driver_version

BIG = ch.LaunchConfig(grid=2, block=1)
CLUSTER = ch.LaunchConfig(grid=2, block=1, cluster=2)

# The calls by which an executable graph finds that replaced bundles are no longer used.
WAITING = (*ON_THE_WAY, "cuEventQuery", "cuEventCreate", "cuEventRecord")
# If there are several devices, a copy or a fill finds by these calls a device that has access to the memory. If a call
# fails, the current device is used.
PLACES = ("cuCtxGetDevice", "cuPointerGetAttribute", "cuPointerGetAttributes", "cuMemRetainAllocationHandle")
# Queries for messages and other texts. If a query fails, the text omits its result.
NAMES = ("cuKernelGetName", "cuGetProcAddress_v2", "cuKernelGetLibrary", "cuDriverGetVersion")
# The query of a stream's capture has one of these names, depending on the driver.
CAPTURE_INFO = ("cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v3")


def host_function(*args: object) -> None:
    pass


class Exported:
    """An array of another library, in device memory."""

    def __init__(self, buffer: ch.Buffer) -> None:
        self.__cuda_array_interface__ = buffer.__cuda_array_interface__


class World:
    """The objects of an operation. Each operation leaves them unchanged."""

    def __init__(self, device: ch.Device, add: ch.Kernel, numbers: Numbers) -> None:
        self.device, self.add, self.numbers = device, add, numbers
        self.stream, self.other_stream = device.create_stream(), device.create_stream()
        self.event, self.other_event = device.create_event(), device.create_event()
        self.definition, self.child, self.other_child = (cg.GraphDefinition() for _ in range(3))
        self.child.launch(ONE, add, numbers.at(8), 1)
        self.other_child.launch(ONE, add, numbers.at(8), 2)
        self.kernel = self.definition.launch(ONE, add, numbers.buffer, 1)
        self.empty = self.kernel.join()
        self.fill = self.definition.memset(numbers.at(1), 7, 4)
        self.copy = self.fill.memcpy(numbers.at(2), numbers.at(1), 4, src_owner=numbers.buffer)
        self.call = self.definition.callback(host_function)
        self.inner = self.definition.embed(self.child)
        self.record = self.definition.record(self.event)
        self.wait = self.record.wait(self.event)
        self.graph = self.definition.instantiate()
        self.view = view(self, "kernel")
        self.view.update(config=ONE, kernel=add, args=(numbers.buffer, 1))
        with self.stream.create_graph_builder() as self.built:
            ch.launch(self.built, ONE, add, numbers.buffer, 1)
        self.memory = cg.GraphMemoryResource(device)

    @functools.cached_property
    def branch(self) -> cg.IfNode:
        # The node is in a separate graph, which is neither cloned nor instantiated twice. It is made at first use,
        # because drivers before CUDA 12.3 have no conditions.
        conditional = cg.GraphDefinition()
        branch = conditional.if_then(conditional.create_condition(1))
        branch.then.launch(ONE, self.add, self.numbers.at(3), 1)
        return branch

    def state(self) -> tuple[object, ...]:
        """Return the state that each operation must leave unchanged."""
        self.stream.sync()
        for index in range(16):
            self.numbers[index] = 0
        self.graph.launch(self.stream)
        self.stream.sync()
        results = [self.numbers[index] for index in range(16)]
        with self.definition.instantiate() as fresh:
            fresh.launch(self.stream)
            self.stream.sync()
        results += [self.numbers[index] for index in range(16)]
        config = self.kernel.config
        return (
            results,
            self.definition.nodes(),
            self.definition.edges(),
            self.branch.then.nodes() if driver_version() >= (12, 3) else (),
            (config.grid, config.cluster or (1, 1, 1), self.kernel.kernel),
            (self.fill.dptr, self.fill.value, self.fill.width, self.copy.dst, self.copy.src, self.copy.size),
            (self.call.function, self.record.event, self.wait.event),
            self.view.is_enabled,
            self.inner.child_graph.nodes(),
            (is_capturing(self.stream), is_capturing(self.other_stream)),
            ch.Device().device_id,
        )


OPERATIONS: dict[str, Operation] = {}
OTHERS = "a capture of others"


def operation(name: str, do: Callable[[World, Any], Any], **more: Any) -> None:
    assert name not in OPERATIONS
    OPERATIONS[name] = Operation(name, do, **more)


def adds(name: str, do: Callable[[World, Any], cg.GraphNode], quiet: tuple[str, ...] = ()) -> None:
    operation(name, do, undo=lambda w, node: node.destroy(), quiet=quiet)


# ---- nodes ----

adds("launch", lambda w, _: w.kernel.launch(ONE, w.add, w.numbers.buffer, 1))
adds("launch with attributes", lambda w, _: w.kernel.launch(CLUSTER, w.add, w.numbers.buffer, 1))
adds("memset", lambda w, _: w.kernel.memset(w.numbers.buffer, 0, 4), quiet=PLACES)
adds("memcpy", lambda w, _: w.kernel.memcpy(w.numbers.buffer, w.numbers.at(4), 4), quiet=PLACES)
adds("callback", lambda w, _: w.kernel.callback(host_function))
adds("embed", lambda w, _: w.kernel.embed(w.child))
adds("record", lambda w, _: w.kernel.record(w.event))
adds("wait", lambda w, _: w.kernel.wait(w.event))
adds("empty", lambda w, _: w.definition.empty())
adds("join", lambda w, _: w.kernel.join(w.fill))
# Each of these operations has its own graph: a graph with a condition that no node uses cannot be instantiated.
for name in ("if_then", "if_else", "while_loop"):
    operation(
        name,
        lambda w, own, name=name: getattr(own, name)(own.create_condition()),  # type: ignore[misc]
        undo=lambda w, node: node.destroy(),
        begin=lambda w: cg.GraphDefinition(),
    )
operation("switch", lambda w, own: own.switch(own.create_condition(), 2), begin=lambda w: cg.GraphDefinition())
operation("create_condition", lambda w, own: own.create_condition(3), begin=lambda w: cg.GraphDefinition())
# Memory nodes cannot be removed from a graph that has been instantiated, so each of these operations has its own graph.
operation("allocate", lambda w, own: own.allocate(64), begin=lambda w: cg.GraphDefinition())
operation(
    "deallocate",
    lambda w, memory: memory.deallocate(memory.dptr),
    begin=lambda w: cg.GraphDefinition().allocate(64),
)
operation(
    "add_many",
    lambda w, _: w.definition.add_many(
        [("launch", w.kernel, ONE, w.add, w.numbers.buffer, 1), ("empty", (0, w.fill)), ("callback", 1, host_function)]
    ),
    undo=lambda w, nodes: [node.destroy() for node in nodes],
)
operation(
    "launch_many",
    lambda w, _: w.definition.launch_many(
        (CLUSTER, ONE), w.add, [w.numbers.buffer, w.numbers.buffer], 1, edges=[(0, 1)], after=w.kernel
    ),
    undo=lambda w, nodes: [node.destroy() for node in nodes],
)
operation(
    "destroy_many",
    lambda w, made: made["definition"].destroy_many(made["definition"].nodes()),
    begin=lambda w: sample(w),
)
operation("copy", lambda w, _: w.definition.copy())
for name in ("kernel", "copy", "inner"):
    # A node of a copy is destroyed, because other operations need the nodes of the original.
    operation(
        f"destroy {name}",
        lambda w, made: made[1].destroy(),
        begin=lambda w, name=name: (own := sample(w), own[name]),  # type: ignore[misc]
    )
operation(
    "destroy branch",
    lambda w, made: made[1].destroy(),
    begin=lambda w: (own := cg.GraphDefinition(), own.if_then(own.create_condition())),
)


def sample(w: World) -> dict[str, Any]:
    own = cg.GraphDefinition()
    return {
        "definition": own,
        "kernel": own.launch(ONE, w.add, w.numbers.buffer, 1).join(),
        "copy": own.memcpy(w.numbers.buffer, w.numbers.at(1), 4),
        "inner": own.embed(w.child),
    }


def two_kernels(w: World) -> tuple[cg.KernelNode, cg.KernelNode]:
    first = cg.GraphDefinition().launch(ONE, w.add, w.numbers.buffer, 1)
    return first, first.launch(ONE, w.add, w.numbers.buffer, 1)


# ---- edges, lists, properties ----

operation("pred.add", lambda w, _: w.empty.pred.add(w.fill), undo=lambda w, _: w.empty.pred.discard(w.fill))
operation(
    "pred.add of another type",
    lambda w, made: made[1].pred.add(made[0], "programmatic"),
    begin=lambda w: two_kernels(w),
    end=lambda w, made: made[0].graph.edge_types(),
)
operation(
    "pred.replace",
    lambda w, _: w.empty.pred.replace({w.fill, w.copy}),
    undo=lambda w, _: w.empty.pred.replace({w.kernel}),
)
operation("pred.clear", lambda w, _: w.empty.pred.clear(), undo=lambda w, _: w.empty.pred.add(w.kernel))
operation(
    "succ.update",
    lambda w, _: w.call.succ.update({w.empty, w.copy}),
    undo=lambda w, _: w.call.succ.clear(),
)
operation("nodes", lambda w, _: w.definition.nodes())
operation("edges", lambda w, _: (w.definition.edges(), w.definition.edge_types()))
operation("pred and succ", lambda w, _: (set(w.empty.pred), set(w.kernel.succ), len(w.copy.pred)))
operation("nodes that are new", lambda w, own: (own.nodes(), own.edges()), begin=lambda w: w.definition.clone()[0])
operation("properties of a kernel", lambda w, _: (w.kernel.config, w.kernel.kernel, w.kernel.args), quiet=NAMES)
operation("properties of fill and copy", lambda w, _: (w.fill.value, w.copy.size))
operation("properties of events and functions", lambda w, _: (w.record.event, w.wait.event, w.call.function))
operation("child and bodies", lambda w, _: (w.inner.child_graph.nodes(), w.branch.branches, w.branch.cond_type))
operation("str", lambda w, _: str(w.definition), quiet=NAMES)
operation("to_dot", lambda w, _: w.definition.to_dot(), quiet=NAMES)
operation("to_mermaid", lambda w, _: w.definition.to_mermaid(), quiet=NAMES)
operation("debug_dot_print", lambda w, _: w.definition.debug_dot_print("/dev/null"))
operation("GraphDefinition", lambda w, _: cg.GraphDefinition())
operation(
    "close of a definition", lambda w, own: own.close(), begin=lambda w: w.definition.clone()[0], quiet=ON_THE_WAY
)
operation(  # from here on, other code can use the graph, so CUDA's user objects keep what the nodes use
    "handle", lambda w, own: int(own["definition"].handle), begin=sample
)
operation("clone", lambda w, _: w.definition.clone()[0])

# ---- parameters ----

operation(
    "update of a configuration",
    lambda w, _: w.kernel.update(config=BIG),
    undo=lambda w, _: w.kernel.update(config=ONE),
)
operation(
    "update_many",
    lambda w, _: w.definition.update_many([w.kernel], w.numbers.at(5), 2),
    undo=lambda w, _: w.kernel.update(args=(w.numbers.buffer, 1)),
    quiet=NAMES,
)
operation(
    "update_many with attributes",
    lambda w, _: w.definition.update_many([w.kernel], w.numbers.at(5), 2, config=CLUSTER),
    undo=lambda w, _: w.kernel.update(config=ONE, args=(w.numbers.buffer, 1)),
    quiet=NAMES,
)
operation(
    "Graph.update_many",
    lambda w, _: w.graph.update_many([w.kernel], w.numbers.at(5), 2, config=ONE),
    undo=lambda w, _: w.view.update(args=(w.numbers.buffer, 1)),
    quiet=(*WAITING, *NAMES),
)
operation(
    "update of attributes",
    lambda w, _: w.kernel.update(config=CLUSTER, args=(w.numbers.at(5), 2)),
    undo=lambda w, _: w.kernel.update(config=ONE, args=(w.numbers.buffer, 1)),
    quiet=NAMES,
)
operation(
    "update of attributes away",
    lambda w, _: w.kernel.update(config=ONE, args=(w.numbers.buffer, 1)),
    begin=lambda w: w.kernel.update(config=CLUSTER, args=(w.numbers.buffer, 1)),
    end=lambda w, _: w.kernel.update(config=ONE, args=(w.numbers.buffer, 1)),
    quiet=NAMES,
)
operation(
    "update of a child",
    lambda w, made: made["inner"].update(w.other_child),
    begin=sample,
)

# ---- executable graphs ----

for title, options in (
    ("", {}),
    (", freeing", {"auto_free_on_launch": True}),
    (", with priorities", {"use_node_priority": True}),
    (", for the device", {"device_launch": True}),
):
    operation(
        f"instantiate{title}",
        lambda w, own, options=options: own.instantiate(options),  # type: ignore[misc]
        begin=lambda w: w.child,
    )
operation("instantiate, uploaded", lambda w, _: w.definition.instantiate({"upload_stream": w.stream}))
# The query for replaced bundles depends on when launches are done.
operation("Graph.update", lambda w, _: w.graph.update(w.definition), quiet=(*WAITING, "cuEventDestroy_v2"))
operation("Graph.update from a builder", lambda w, graph: graph.update(w.built), begin=lambda w: w.built.complete())
operation("Graph.upload", lambda w, _: w.graph.upload(w.stream), end=lambda w, _: w.stream.sync())
operation("Graph.launch", lambda w, _: w.graph.launch(w.stream), end=lambda w, _: w.stream.sync())
operation("Graph.close", lambda w, graph: graph.close(), begin=lambda w: w.definition.instantiate(), quiet=ON_THE_WAY)
operation(
    "launch and close",
    lambda w, graph: (graph.launch(w.stream), graph.close()),
    begin=lambda w: updated(w),
    end=lambda w, _: w.stream.sync(),
    quiet=(*WAITING, "cuEventDestroy_v2"),  # when these calls are made depends on when the launch is done
)


def updated(w: World) -> cg.Graph:
    graph = w.definition.instantiate()
    view: Any = graph[w.kernel]
    view.update(config=ONE, kernel=w.add, args=(w.numbers.buffer, 2))
    graph.launch(w.stream)
    view.update(config=ONE, kernel=w.add, args=(w.numbers.buffer, 3))
    return graph


# For each node: other parameters, and its own.
for name, change, back, quiet in (
    (
        "kernel",
        lambda w: {"config": ONE, "kernel": w.add, "args": (w.numbers.at(5), 9)},
        lambda w: {"config": ONE, "kernel": w.add, "args": (w.numbers.buffer, 1)},
        NAMES,  # the kernel's kinds of arguments are found by its name
    ),
    (
        "fill",
        lambda w: {"dst": w.numbers.at(1), "value": 9, "width": 4},
        lambda w: {"dst": w.numbers.at(1), "value": 7, "width": 4},
        PLACES,
    ),
    (
        "copy",
        lambda w: {"dst": w.numbers.at(4), "src": w.numbers.at(8), "size": 4},
        lambda w: {"dst": w.numbers.at(2), "src": w.numbers.at(1), "size": 4, "src_owner": w.numbers.buffer},
        PLACES,
    ),
    ("call", lambda w: {"fn": int}, lambda w: {"fn": host_function}, ON_THE_WAY),
    ("inner", lambda w: {"child": w.other_child}, lambda w: {"child": w.child}, ()),
    ("record", lambda w: {"event": w.other_event}, lambda w: {"event": w.event}, ()),
    ("wait", lambda w: {"event": w.other_event}, lambda w: {"event": w.event}, ()),
):
    operation(
        f"view of {name}",
        lambda w, _, name=name, change=change: view(w, name).update(**change(w)),  # type: ignore[misc]
        undo=lambda w, _, name=name, back=back: view(w, name).update(**back(w)),  # type: ignore[misc]
        quiet=(*WAITING, *quiet) if quiet is PLACES else WAITING,
    )
    if name != "inner":  # the nodes of its graph would be others
        operation(
            f"update of {name}",
            lambda w, _, name=name, change=change: getattr(w, name).update(**change(w)),  # type: ignore[misc]
            undo=lambda w, _, name=name, back=back: getattr(w, name).update(**back(w)),  # type: ignore[misc]
            quiet=quiet,
        )


def view(w: World, name: str) -> Any:
    return w.graph[getattr(w, name)]


operation("disable", lambda w, _: w.view.disable(), undo=lambda w, _: w.view.enable())
operation(
    "enable",
    lambda w, _: w.view.enable(),
    begin=lambda w: w.view.disable(),
    end=lambda w, _: w.view.enable(),
)
operation("is_enabled", lambda w, _: w.view.is_enabled)
operation("trim", lambda w, _: w.memory.trim())
operation("attributes", lambda w, _: repr(w.memory.attributes))
operation("reset of an attribute", lambda w, _: setattr(w.memory.attributes, "used_mem_high", 0))

# ---- builders ----


def building(w: World, mode: str = "relaxed") -> cg.GraphBuilder:
    return w.stream.create_graph_builder().begin_building(mode)


def finish(w: World, builder: cg.GraphBuilder) -> None:
    """A builder remains usable after a failure, and its graph runs."""
    assert builder.is_building
    builder.end_building().complete().launch(w.stream)
    w.stream.sync()


def captures(name: str, do: Callable[[World, Any], Any], **more: Any) -> None:
    operation(f"builder: {name}", do, begin=building, end=finish, **more)


operation("create_graph_builder", lambda w, _: (w.stream.create_graph_builder(), w.device.create_graph_builder()))
for mode in ("relaxed", "thread_local", "global"):
    operation(
        f"begin_building, {mode}",
        lambda w, builder, mode=mode: builder.begin_building(mode),  # type: ignore[misc]
        begin=lambda w: w.stream.create_graph_builder(),
    )
    operation(
        f"end_building, {mode}",
        lambda w, builder: builder.end_building(),
        begin=lambda w, mode=mode: building(w, mode),  # type: ignore[misc]
    )
    operation(
        f"close while building, {mode}",
        lambda w, builder: builder.close(),
        begin=lambda w, mode=mode: building(w, mode),  # type: ignore[misc]
        quiet=(*ON_THE_WAY, *CAPTURE_INFO, "cuStreamEndCapture"),
    )
captures("launch", lambda w, b: ch.launch(b, ONE, w.add, w.numbers.buffer, 1))
captures("prepared launch", lambda w, b: w.add.prepare(b, ONE, w.numbers.buffer, 1)())
captures("fill", lambda w, b: w.numbers.buffer.fill(1, stream=b))
captures("copy", lambda w, b: w.numbers.buffer.copy_from(w.numbers.buffer, stream=b))
captures(
    "copy from an array",
    lambda w, b: w.numbers.buffer.copy_from(Exported(w.numbers.buffer), stream=b),
    kept=("deviceptr",),
)


def begin_foreign(w: World) -> str:
    from cuda.bindings import driver

    call_bindings("cuStreamBeginCapture", w.stream.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    return OTHERS


def end_foreign(w: World, _: object) -> None:
    call_bindings("cuGraphDestroy", call_bindings("cuStreamEndCapture", w.stream.handle))


# If another library began the capture, a CUDA user object keeps what the graph uses.
for name, use in {
    "launch": lambda w: ch.launch(w.stream, ONE, w.add, w.numbers.buffer, 1),
    "prepared launch": lambda w: w.add.prepare(w.stream, ONE, w.numbers.buffer, 1)(),
    "fill": lambda w: w.numbers.buffer.fill(1, stream=w.stream),
    "callback": lambda w: w.stream.callback(host_function),
}.items():
    operation(
        f"capture of others: {name}",
        lambda w, _, use=use: use(w),  # type: ignore[misc]
        begin=begin_foreign,
        end=end_foreign,
        kept=("bundle", "user_object"),
    )
# For a stream that joined a capture through an event, the driver is queried for the capture.
for name, do in {
    "copy": lambda b, stream: b.copy_from(b, stream=stream),
    "copy_part_from": lambda b, stream: b.copy_part_from(b, 4, src_offset=8, stream=stream),
    "copy_batch": lambda b, stream: ch.copy_batch(stream, [b], [b]),
}.items():
    operation(
        f"builder: {name} on another stream",
        lambda w, b, do=do: do(w.numbers.buffer, w.other_stream),  # type: ignore[misc]
        begin=lambda w: draw_in(w, building(w)),
        end=lambda w, b: (b.stream.wait(w.other_stream), finish(w, b)),
    )


def draw_in(w: World, builder: cg.GraphBuilder) -> cg.GraphBuilder:
    w.other_stream.wait(builder.stream)
    return builder


captures("callback", lambda w, b: b.callback(host_function))
captures("record", lambda w, b: b.record(w.event))
captures("wait", lambda w, b: b.wait(w.event))
captures("embed", lambda w, b: b.embed(w.built))
operation("builder: create_condition", lambda w, b: b.create_condition(1), begin=building, end=lambda w, b: b.close())
for name, count in (("if_then", ()), ("if_else", ()), ("while_loop", ()), ("switch", (3,))):
    operation(
        f"builder: {name}",
        lambda w, made, name=name, count=count: getattr(made[0], name)(made[1], *count),  # type: ignore[misc]
        begin=lambda w: (builder := building(w), builder.create_condition()),
        end=lambda w, made, name=name, count=count: finish_conditional(w, *made, name, *count),  # type: ignore[misc]
    )
captures(
    "split",
    lambda w, b: b.split(3),
    undo=lambda w, forks: forks[0].join(*forks),
    quiet=ON_THE_WAY,
    kept=("stream",),  # the forks' memory is freed on the stream that they are joined into
)
operation(  # the graph is not launched, because the free is not captured if the query for the capture fails
    "builder: memory",
    lambda w, b: w.memory.allocate(64, stream=b).close(b),
    begin=building,
    end=lambda w, b: b.close(),
    quiet=(*ON_THE_WAY, "cuStreamGetCaptureInfo", *CAPTURE_INFO),
)
operation(
    "builder: join",
    lambda w, forks: forks[0].join(*forks),
    begin=lambda w: building(w).split(3),
    end=lambda w, forks: finish_forks(w, forks),
    quiet=ON_THE_WAY,
)


def finish_forks(w: World, forks: tuple[cg.GraphBuilder, ...]) -> None:
    left = [fork for fork in forks if not fork.is_closed]
    finish(w, forks[0].join(*left) if len(left) > 1 else left[0])


def finish_conditional(
    w: World, builder: cg.GraphBuilder, condition: cg.GraphCondition, name: str, *count: int
) -> None:
    """Add a node that uses the condition if the operation has not added one, then end the capture."""
    with contextlib.suppress(ValueError):
        getattr(builder, name)(condition, *count)
    finish(w, builder)


operation(
    "builder: begin of a body",
    lambda w, made: made[1].begin_building(),
    begin=lambda w: (builder := building(w), builder.if_then(builder.create_condition(1))),
    undo=lambda w, body: body.end_building(),
    end=lambda w, made: finish(w, made[0]),
)
operation(
    "builder: end of a body",
    lambda w, made: made[1].end_building(),
    begin=lambda w: (builder := building(w), builder.if_then(builder.create_condition(1)).begin_building()),
)
for name in ("end_building", "close"):
    operation(
        f"builder: {name}, with a condition",
        lambda w, made, name=name: getattr(made[0], name)(),  # type: ignore[misc]
        begin=lambda w: (builder := building(w), builder.create_condition()),
        quiet=(*ON_THE_WAY, *CAPTURE_INFO, "cuStreamEndCapture") if name == "close" else (),
    )
operation("builder: complete", lambda w, _: w.built.complete())
operation("builder: debug_dot_print", lambda w, _: w.built.debug_dot_print("/dev/null"))
operation("builder: graph_definition", lambda w, _: w.built.graph_definition.nodes())
