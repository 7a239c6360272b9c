# SPDX-License-Identifier: Apache-2.0
"""Builds, edits, clones, updates and launches graphs at random, and compares them with a model in Python.

Nodes work on numbers in memory; each node has its own number. The numbers after a launch show whether everything ran,
with which parameters, and in which order. If the edges do not determine the order, the result is not compared. The
model also predicts what the driver refuses, and that the graph is unchanged then.

The examples are the same in every run. ``CUDACORE_EXAMPLES=2000`` in the environment tries 2000 examples, which differ
each time (``--hypothesis-seed=N`` repeats a run). Hypothesis then reduces a failing example, which takes minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import graph_tools
import hypothesis.strategies as st
import pytest
from graph_model import MASK, Exec, Level, Node, Op, evaluate, is_for_the_host
from graph_tools import ONE, Numbers
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import cudacore_graph as cg
import cudacore_handles as ch
from pytest_cudacore import driver_version

EXAMPLES = int(os.environ.get("CUDACORE_EXAMPLES", "0"))
SETTINGS = settings(
    max_examples=EXAMPLES or 100,
    stateful_step_count=40,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink) if EXAMPLES else (Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
CELLS = 400
MAX_NODES, MAX_ROOTS, MAX_EXECS = 14, 4, 4

# The types of conditional nodes, and the first version of CUDA whose driver supports each.
CONDITIONALS = {"if_then": (12, 3), "if_else": (12, 8), "while_loop": (12, 3), "switch": (12, 8)}

small = st.integers(0, 9)


class Machine(RuleBasedStateMachine):
    def __init__(self, device: ch.Device, code: ch.ObjectCode) -> None:
        super().__init__()
        self.stream, self.event = device.create_stream(), device.create_event()
        self.mix = code.get_kernel("mix")
        self.conditionals = [name for name, since in CONDITIONALS.items() if driver_version() >= since]
        if self.conditionals:
            self.turn = ch.ObjectCode.from_ptx(graph_tools.CONDITIONAL).get_kernel("turn")
        self.numbers = Numbers(CELLS)
        self.cells: dict[int, int | None] = dict.fromkeys(range(CELLS), 0)
        self.free_cell = 1  # the next unused cell; cell 0 stays 0
        self.memory: dict[int, int] = {}  # by negative cell: the address of memory that a graph allocates
        self.roots: list[Level] = []
        self.execs: list[Exec] = []

    def teardown(self) -> None:
        for graph in self.execs:
            graph.face.close()
        for root in self.roots:
            self.forget(root)

    # These methods draw the arguments of the rules.

    @staticmethod
    def pick(data: st.DataObject, things: Iterable[Any]) -> Any:
        # Indices are drawn, because hypothesis would keep references to drawn objects.
        known = list(things)
        return known[data.draw(st.integers(0, len(known) - 1))]

    @staticmethod
    def some(data: st.DataObject, things: list[Any], most: int = 3) -> list[Any]:
        numbers = st.lists(st.integers(0, len(things) - 1), max_size=most, unique=True)
        return [things[number] for number in data.draw(numbers)] if things else []

    def levels(self) -> list[Level]:
        return [level for root in self.roots for level in root.levels()]

    def nodes(self, *kinds: str) -> list[Node]:
        return [node for level in self.levels() for node in level.nodes if not kinds or node.op.kind in kinds]

    def new_cell(self) -> int:
        self.free_cell += 1
        return self.free_cell - 1

    def at(self, cell: int) -> int:
        return self.numbers.at(cell) if cell >= 0 else self.memory[cell]

    def draw_op(self, data: st.DataObject, kind: str, cell: int, readable: list[int]) -> Op:
        """Draw parameters of a node that works on a cell and can read others."""
        sources: list[int] = []
        if kind in ("mix", "copy") and readable:
            sources = self.some(data, readable)
        if kind == "copy":
            sources = (sources or [0])[:1]
        return Op(kind, cell, data.draw(small), data.draw(small), tuple(sources))

    def readable(self, level: Level, before: Iterable[Node]) -> list[int]:
        return [n.op.cell for n in level.ancestors(before) if (n.op.writes or -1) > 0]

    def function(self, op: Op) -> Callable[[], None]:
        numbers = self.numbers

        def call() -> None:
            numbers[op.cell] = (numbers[op.cell] * op.factor + op.addend) & MASK

        return call

    def arguments(self, op: Op) -> tuple[Any, ...]:
        """Return the name of the method that adds a node for `op`, and the arguments of the method."""
        cell = self.at(op.cell)
        if op.kind == "mix":
            sources = [self.at(source) for source in (*op.sources, 0, 0, 0)[:3]]
            return ("launch", ONE, self.mix, cell, op.factor, op.addend, *sources)
        if op.kind == "fill":
            return "memset", cell, op.addend.to_bytes(4, "little"), 1
        if op.kind == "copy":
            return "memcpy", cell, self.at(op.sources[0]), 4
        return {"call": ("callback", self.function(op)), "empty": ("empty",), "record": ("record", self.event)}[op.kind]

    def enter(self, level: Level, face: Any, op: Op, arguments: tuple[Any, ...], before: Iterable[Node]) -> Node:
        node = Node(level, face, op)
        node.function = arguments[1] if op.kind == "call" else None
        level.connect(before, node)
        return node

    def leaf_kinds(self, level: Level) -> list[str]:
        in_body = level.owner is not None
        return ["mix", "mix", "fill", "copy", "empty"] + ([] if in_body else ["call", "record"])

    def room(self) -> list[Level]:
        return [level for level in self.levels() if len(level.nodes) < MAX_NODES]

    def forget(self, root: Level) -> None:
        """Drop all objects of a graph."""
        for level in root.levels():
            level.face = None
            for node in level.nodes:
                node.face = node.function = None

    # Building.

    @initialize(data=st.data())
    def two_definitions(self, data: st.DataObject) -> None:
        for _ in range(2):
            self.new_definition(data)

    @precondition(lambda self: len(self.roots) < MAX_ROOTS and self.free_cell < CELLS - 20)
    @rule(data=st.data())
    def new_definition(self, data: st.DataObject) -> None:
        self.roots.append(Level(cg.GraphDefinition()))
        self.add_batch(data, self.roots[-1], data.draw(st.integers(3, 7)))

    @precondition(lambda self: self.room() and self.free_cell < CELLS - 20)
    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        level = self.pick(data, self.room())
        before = self.some(data, level.nodes)
        op = self.draw_op(data, self.pick(data, self.leaf_kinds(level)), self.new_cell(), self.readable(level, before))
        name, *arguments = self.arguments(op)
        if op.kind == "empty":
            face = level.face.join(*(node.face for node in before))
        else:
            face = getattr(before[0].face if before else level.face, name)(*arguments)
            face.pred |= {node.face for node in before}
        self.enter(level, face, op, (name, *arguments), before)

    @precondition(lambda self: self.room() and self.free_cell < CELLS - 20)
    @rule(data=st.data(), count=st.integers(1, 5))
    def add_many(self, data: st.DataObject, count: int) -> None:
        self.add_batch(data, self.pick(data, self.room()), count)

    def add_batch(self, data: st.DataObject, level: Level, count: int) -> None:
        ops: list[Op] = []
        after: list[list[Any]] = []
        items = []
        for index in range(count):
            old = self.some(data, level.nodes, 2)
            earlier = self.some(data, list(range(index)), 2)
            readable = self.readable(level, old) + [ops[i].cell for i in earlier if ops[i].writes]
            ops.append(self.draw_op(data, self.pick(data, self.leaf_kinds(level)), self.new_cell(), readable))
            after.append([*old, *earlier])
            name, *arguments = self.arguments(ops[-1])
            items.append((name, tuple(getattr(thing, "face", thing) for thing in after[-1]), *arguments))
        made: list[Node] = []
        for face, op, things, item in zip(level.face.add_many(items), ops, after, items, strict=True):
            before = [made[thing] if isinstance(thing, int) else thing for thing in things]
            made.append(self.enter(level, face, op, (item[0], *item[2:]), before))

    @precondition(lambda self: self.room() and len(self.roots) > 1)
    @rule(data=st.data())
    def embed(self, data: st.DataObject) -> None:
        level = self.pick(data, self.room())
        child = self.pick(data, [root for root in self.roots if root is not level.root])
        before = self.some(data, level.nodes)
        add = (before[0].face if before else level.face).embed
        if child.is_single:
            with pytest.raises(ch.CUDAError, match="NOT_SUPPORTED"):
                add(child.face)
            return
        face = add(child.face)
        child.was_copied = True
        face.pred |= {node.face for node in before}
        self.enter(level, face, Op("embed"), (), before).part = child.steps()

    @precondition(lambda self: self.nodes("embed") and len(self.roots) > 1 and driver_version() >= (12, 2))
    @rule(data=st.data())
    def update_child(self, data: st.DataObject) -> None:
        node = self.pick(data, self.nodes("embed"))
        children = [root for root in self.roots if root is not node.level.root]
        if not children:
            return
        child = self.pick(data, children)
        inside = node.face.child_graph
        if child.is_single or node.level.root.has_memory:
            with pytest.raises(ch.CUDAError):
                node.face.update(child.face)
            assert inside.is_valid
            return
        node.face.update(child.face)
        child.was_copied = True
        assert not inside.is_valid
        node.part = child.steps()
        node.level.root.version += 1

    @precondition(lambda self: self.conditionals and self.room() and self.free_cell < CELLS - 20)
    @rule(data=st.data(), value=st.integers(0, 3))
    def add_conditional(self, data: st.DataObject, value: int) -> None:
        level = self.pick(data, self.room())
        if level.owner is not None and level.owner.level.owner is not None:
            return  # deep enough
        kind = self.pick(data, self.conditionals)
        before = self.some(data, level.nodes)
        condition = level.root.face.create_condition(value)
        face = getattr(before[0].face if before else level.face, kind)(condition, *((2,) if kind == "switch" else ()))
        face.pred |= {node.face for node in before}
        node = self.enter(level, face, Op(kind, addend=value), (), before)
        node.bodies = [Level(body, node) for body in face.branches]
        if kind == "while_loop":  # its body gets a kernel that ends the loop after some iterations
            body, cell = node.bodies[0], self.new_cell()
            period = max(value, 1)
            inner = body.face.launch(ONE, self.turn, condition, self.at(cell), period)
            Node(body, inner, Op("turn", cell, addend=period), pinned=True)
        for body in node.bodies:
            self.add_batch(data, body, data.draw(st.integers(0, 3)))

    @precondition(lambda self: self.roots and self.free_cell < CELLS - 20)
    @rule(data=st.data(), value=small)
    def add_memory(self, data: st.DataObject, value: int) -> None:
        roots = [root for root in self.roots if len(root.nodes) < MAX_NODES and not root.execs]
        if not roots:
            return
        level = self.pick(data, roots)
        before = self.some(data, level.nodes, 1)
        alloc = (before[0].face if before else level.face).allocate(4)
        memory, cell = -1 - len(self.memory), self.new_cell()
        self.memory[memory] = alloc.dptr
        last = self.enter(level, alloc, Op("allocate"), (), before)
        for op in (Op("fill", memory, addend=value), Op("copy", cell, sources=(memory,))):
            name, *arguments = self.arguments(op)
            last = self.enter(level, getattr(last.face, name)(*arguments), op, (), [last])
        self.enter(level, last.face.deallocate(alloc.dptr), Op("deallocate"), (), [last])
        level.has_memory = True

    # Editing.

    @precondition(lambda self: any(len(level.nodes) > 1 for level in self.levels()))
    @rule(data=st.data(), how=st.sampled_from(["pred.add", "succ.add", "pred.update", "succ |="]))
    def add_edges(self, data: st.DataObject, how: str) -> None:
        level = self.pick(data, [level for level in self.levels() if len(level.nodes) > 1])
        node = self.pick(data, level.nodes)
        most = 1 if how.endswith("add") else 3
        others = self.some(data, [other for other in level.nodes if other is not node], most)
        if not others:
            return
        forward = how.startswith("succ")
        new = {(node, other) if forward else (other, node) for other in others}
        is_cycle = any(b in level.ancestors([a]) for a, b in new)
        if is_cycle and level.root.has_memory:  # the driver could not remove the edges again
            return
        view = node.face.succ if forward else node.face.pred
        faces = [other.face for other in others]
        if how == "succ |=":
            view |= set(faces)
        else:
            view.add(faces[0]) if most == 1 else view.update(faces)
        if is_cycle:
            with pytest.raises(ch.CUDAError, match="the first for the last"):
                level.root.face.instantiate()
            for a, b in new - level.edges:
                b.face.pred.remove(a.face)
        if not is_cycle and new - level.edges:
            level.edges |= new
            level.root.version += 1

    @precondition(lambda self: any(level.edges for level in self.levels()))
    @rule(data=st.data(), how=st.sampled_from(["pred.discard", "succ.remove", "pred.clear", "succ -=", "pred ="]))
    def remove_edges(self, data: st.DataObject, how: str) -> None:
        level = self.pick(data, [level for level in self.levels() if level.edges])
        a, b = self.pick(data, sorted(level.edges, key=lambda edge: [*map(level.nodes.index, edge)]))
        lost = {(a, b)}
        if how in ("pred.clear", "pred ="):
            lost = {(other, b) for other in level.before(b)}

        def remove() -> None:
            if how == "pred.discard":
                b.face.pred.discard(a.face)
            elif how == "succ.remove":
                a.face.succ.remove(b.face)
            elif how == "pred.clear":
                b.face.pred.clear()
            elif how == "pred =":
                b.face.pred = set()
            else:
                a.face.succ -= {b.face}

        if level.root.has_memory:
            if level is level.root:
                with pytest.raises(ch.CUDAError, match="NOT_SUPPORTED"):
                    remove()
            return
        remove()
        level.edges -= lost
        level.root.version += 1

    @precondition(lambda self: self.nodes("mix", "fill", "copy", "call"))
    @rule(data=st.data())
    def update_node(self, data: st.DataObject) -> None:
        node = self.pick(data, self.nodes("mix", "fill", "copy", "call"))
        if node.op.cell < 0 or any(source < 0 for source in node.op.sources):
            return
        level = node.level
        op = self.draw_op(data, node.op.kind, node.op.cell, self.readable(level, level.before(node)))
        _, *arguments = self.arguments(op)
        if op.kind == "mix":
            node.face.update(args=tuple(arguments[2:]))
            if data.draw(st.booleans()):
                node.face.update(config=ONE)  # keeps them
        elif op.kind == "fill":
            node.face.update(value=arguments[1])
        elif op.kind == "copy":
            node.face.update(src=arguments[1])
        else:
            node.face.update(arguments[0])
            node.function = arguments[0]
        node.op = op

    def destructible(self) -> list[Node]:
        return [node for node in self.nodes() if not node.pinned and len(node.level.nodes) > 2]

    @precondition(lambda self: self.destructible())
    @rule(data=st.data())
    def destroy(self, data: st.DataObject) -> None:
        node = self.pick(data, self.destructible())
        level = node.level
        if level.root.has_memory:
            if level is level.root:
                with pytest.raises(ch.CUDAError, match="NOT_SUPPORTED"):
                    node.face.destroy()
                assert node.face.is_valid
            return
        inside = [inner.face for body in node.bodies for inner in body.levels()]
        inside += [inner.face for body in node.bodies for deep in body.levels() for inner in deep.nodes]
        inside += [node.face.child_graph] if node.op.kind == "embed" else []
        node.face.destroy()
        assert not any(face.is_valid for face in (node.face, *inside))
        level.nodes.remove(node)
        level.edges = {edge for edge in level.edges if node not in edge}
        level.root.version += 1
        level.root.has_lost_condition |= bool(node.bodies)

    @precondition(lambda self: 0 < len(self.roots) < MAX_ROOTS)
    @rule(data=st.data())
    def clone(self, data: st.DataObject) -> None:
        root = self.pick(data, self.roots)
        if root.is_single:
            with pytest.raises(ch.CUDAError, match="NOT_SUPPORTED"):
                root.face.clone()
            return
        face, became = root.face.clone()
        root.was_copied = True
        copy = Level(face)
        assert became.keys() == {node.face for node in root.nodes}
        pairs = {}
        for node in root.nodes:
            pairs[node] = Node(copy, became[node.face], node.op)
            pairs[node].function, pairs[node].part = node.function, node.part
        copy.edges = {(pairs[a], pairs[b]) for a, b in root.edges}
        self.roots.append(copy)

    @precondition(lambda self: len(self.roots) < MAX_ROOTS and self.free_cell < CELLS - 20)
    @rule(data=st.data(), count=st.integers(1, 4))
    def capture(self, data: st.DataObject, count: int) -> None:
        ops: list[Op] = []
        with self.stream.create_graph_builder() as builder:
            for _ in range(count):
                ops.append(self.draw_op(data, "mix", self.new_cell(), [op.cell for op in ops]))
                ch.launch(builder, *self.arguments(ops[-1])[1:])
        root = Level(builder.graph_definition)
        (face,) = (node for node in root.face.nodes() if not node.pred)
        for op in ops:
            self.enter(root, face, op, (), root.nodes[-1:])
            face = next(iter(face.succ), None)
        self.roots.append(root)

    @precondition(lambda self: len(self.roots) > 2)
    @rule(data=st.data())
    def drop_definition(self, data: st.DataObject) -> None:
        self.drop(self.pick(data, self.roots))

    def drop(self, root: Level) -> None:
        self.roots.remove(root)
        self.forget(root)
        for graph in root.execs:
            graph.has_views = False

    # Running.

    @precondition(lambda self: self.roots and len(self.execs) < MAX_EXECS)
    @rule(data=st.data(), upload=st.booleans())
    def instantiate(self, data: st.DataObject, upload: bool) -> None:
        root = self.pick(data, self.roots)
        options = cg.GraphCompleteOptions(upload_stream=self.stream) if upload else None
        if root.has_lost_condition:
            with pytest.raises(ch.CUDAError, match="a condition of the graph is not used by a conditional node"):
                root.face.instantiate(options)
            self.drop(root)  # the graph can never be instantiated
        elif any(node.level.owner and is_for_the_host(node.part) for level in root.levels() for node in level.nodes):
            with pytest.raises(ch.CUDAError, match="is not allowed in a graph launched from the device"):
                root.face.instantiate(options)
        elif root.is_single and root.was_copied:
            return  # the graph can be instantiated only after all its copies are destroyed
        elif root.is_single and root.execs:
            if root.latest not in root.execs:
                return  # if the latest executable graph is closed and older ones exist, the result is undefined
            with pytest.raises(ch.CUDAError, match="NOT_SUPPORTED"):
                root.face.instantiate(options)
        else:
            graph = Exec(root.face.instantiate(options), root)
            self.execs.append(graph)
            root.execs.append(graph)
            root.latest = graph
            self.run(graph)

    @precondition(lambda self: self.execs)
    @rule(data=st.data(), times=st.integers(1, 2))
    def launch(self, data: st.DataObject, times: int) -> None:
        self.run(self.pick(data, self.execs), times)

    def run(self, graph: Exec, times: int = 1) -> None:
        for _ in range(times):
            graph.face.launch(self.stream)
            evaluate(graph.steps, graph.disabled, self.cells)
        self.stream.sync()
        self.compare()

    def compare(self) -> None:
        for cell in range(self.free_cell):
            expected, found = self.cells[cell], self.numbers[cell]
            assert expected is None or expected == found, f"cell {cell}: {found}, not {expected}"
            self.cells[cell] = found

    @precondition(lambda self: self.execs and self.roots)
    @rule(data=st.data())
    def update_exec(self, data: st.DataObject) -> None:
        graph = self.pick(data, self.execs)
        root = self.pick(data, [root for root in self.roots if root is graph.root] or self.roots)
        if root.is_single or graph.root.is_single:
            return
        same = root is graph.root and root.version == graph.version
        try:
            graph.face.update(root.face)
        except ch.CUDAError:
            assert not same
            return
        assert len(root.nodes) == len(graph.steps)
        assert len(root.edges) == sum(len(step.before) for step in graph.steps)
        graph.steps = root.steps()
        graph.has_views &= same
        graph.disabled = {
            step.node
            for step in graph.steps
            if same and step.op.kind in ("mix", "fill", "copy") and not graph.face[step.node.face].is_enabled
        }
        self.run(graph)

    def views(self) -> list[tuple[Exec, Node]]:
        """Return the nodes of executable graphs that can be changed."""
        return [
            (graph, step.node)
            for graph in self.execs
            if graph.has_views
            for step in graph.steps
            if step.node in graph.root.nodes
            and step.op.kind in ("mix", "fill", "copy", "call")
            and step.op.cell > 0
            and not any(source < 0 for source in step.op.sources)
        ]

    @precondition(lambda self: self.views())
    @rule(data=st.data())
    def update_view(self, data: st.DataObject) -> None:
        graph, node = self.pick(data, self.views())
        index = graph.step_of(node)
        step = graph.steps[index]
        readable = [graph.steps[i].op.cell for i in step.before if (graph.steps[i].op.writes or -1) > 0]
        op = self.draw_op(data, node.op.kind, node.op.cell, readable)
        _, *arguments = self.arguments(op)
        view = graph.face[node.face]
        if op.kind == "mix":
            view.update(config=ONE, kernel=self.mix, args=tuple(arguments[2:]))
        elif op.kind == "fill":
            view.update(dst=arguments[0], value=arguments[1], width=1)
        elif op.kind == "copy":
            view.update(dst=arguments[0], src=arguments[1], size=4)
        else:
            view.update(arguments[0])
        graph.steps[index] = step._replace(op=op)
        self.run(graph)

    @precondition(lambda self: self.views())
    @rule(data=st.data(), enable=st.booleans())
    def switch_view(self, data: st.DataObject, enable: bool) -> None:
        graph, node = self.pick(data, self.views())
        view = graph.face[node.face]
        if node.op.kind == "call":
            assert not hasattr(view, "enable")
        elif enable:
            view.enable()
            graph.disabled.discard(node)
            assert view.is_enabled
        else:
            view.disable()
            graph.disabled.add(node)
            assert not view.is_enabled
        self.run(graph)

    @precondition(lambda self: self.execs)
    @rule(data=st.data(), running=st.booleans())
    def close(self, data: st.DataObject, running: bool) -> None:
        graph = self.pick(data, self.execs)
        if running:
            graph.face.launch(self.stream)
            evaluate(graph.steps, graph.disabled, self.cells)
        graph.face.close()
        self.execs.remove(graph)
        graph.root.execs.remove(graph)
        self.stream.sync()
        self.compare()

    # Invariants.

    @invariant()
    def is_as_the_model_says(self) -> None:
        for level in self.levels():
            assert level.face.is_valid
            assert level.face.nodes() == {node.face for node in level.nodes}
            assert level.face.edges() == {(a.face, b.face) for a, b in level.edges}
            for node in level.nodes:
                self.check_node(node)

    def check_node(self, node: Node) -> None:
        face, op = node.face, node.op
        assert face.pred == {a.face for a, b in node.level.edges if b is node}
        assert face.succ == {b.face for a, b in node.level.edges if a is node}
        if op.kind == "fill":
            assert (face.dptr, face.value, face.width, face.element_size) == (self.at(op.cell), op.addend, 1, 4)
        elif op.kind == "copy":
            assert (face.dst, face.src, face.size) == (self.at(op.cell), self.at(op.sources[0]), 4)
        elif op.kind == "call":
            assert face.function is node.function
        elif op.kind == "embed":
            assert len(face.child_graph.nodes()) == len(node.part)
            assert len(face.child_graph.edges()) == sum(len(step.before) for step in node.part)
        elif node.bodies:
            assert face.branches == tuple(body.face for body in node.bodies)


def test_against_a_model(device: ch.Device, code: ch.ObjectCode) -> None:
    """A graph that is built, edited and run in some order would differ from the model."""
    machine: Any = lambda: Machine(device, code)  # noqa: E731
    run_state_machine_as_test(machine, settings=SETTINGS)
