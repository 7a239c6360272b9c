# SPDX-License-Identifier: Apache-2.0
"""Clones of definitions: their nodes, and what these keep."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from graph_tools import ONE, Numbers, Run, wait_until

import cudacore_graph as cg
import cudacore_handles as ch
from bindings import call_bindings


def test_clone(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run) -> None:
    """A clone would share nodes with the original, or the mapping to the clone's nodes would contain other nodes."""
    first = definition.launch(ONE, add, numbers.buffer, 1)
    second = first.launch(ONE, add, numbers.buffer, 10)
    copy, pairs = definition.clone()
    assert copy != definition
    assert set(pairs) == {first, second}
    assert copy.nodes() == set(pairs.values())
    assert pairs[second].pred == {pairs[first]}
    assert all(pairs[node].graph == copy for node in pairs)
    pairs[second].update(args=(numbers.buffer, 100))
    second.destroy()
    run(copy)
    assert numbers[0] == 101
    run(definition)
    assert numbers[0] == 102


def test_clone_while_it_changes(definition: cg.GraphDefinition) -> None:
    """The mapping of a clone would lack nodes that another thread adds or removes meanwhile."""
    kept = [definition.empty() for _ in range(200)]
    done = threading.Event()
    failures: list[BaseException] = []

    def change() -> None:
        try:
            while not done.is_set():
                definition.empty().destroy()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(100):
            copied, pairs = definition.clone()
            assert set(pairs.values()) == copied.nodes()
            assert set(kept) <= set(pairs)
    finally:
        done.set()
        thread.join()
    assert not failures


@pytest.mark.cuda_sim
@pytest.mark.parametrize("code", [1, 2])
def test_clone_without_a_node(definition: cg.GraphDefinition, cuda_sim: Any, code: int) -> None:
    """A node that the driver cannot find in the clone would silently be missing in the mapping."""
    for _ in range(3):
        definition.empty()
    with (
        cuda_sim.failing("cuGraphNodeFindInClone", nth=2, error=code),
        pytest.raises(ch.CUDAError, match="FindInClone"),
    ):
        definition.clone()
    _, pairs = definition.clone()
    assert set(pairs) == definition.nodes()


@pytest.mark.parametrize("how", ["update", "destroy", "shared update", "shared destroy", "child", "shared child"])
def test_clones_of_clones(device: ch.Device, stream: ch.Stream, add: ch.Kernel, run: Run, how: str) -> None:
    """Clones of clones would keep the memory of all nodes that were replaced in them, so a loop would run out of it.

    Also of nodes in child graphs, and if other code can have the handles of the graphs.
    """
    before = ch.live_counts()["deviceptr"]
    definition = cg.GraphDefinition()
    child = cg.GraphDefinition()
    child.launch(ONE, add, device.allocate(64, stream=stream), 1)
    definition.embed(child)
    del child
    for _ in range(8):
        if "shared" in how:
            assert int(definition.handle)
        definition = level = definition.copy()
        if "child" in how:
            (level,) = (node.child_graph for node in definition.nodes() if isinstance(node, cg.ChildGraphNode))
        kernels = [node for node in level.nodes() if isinstance(node, cg.KernelNode)]
        if "destroy" not in how and kernels:
            kernels[0].update(args=(device.allocate(64, stream=stream), 1))
        else:
            for kernel in kernels:
                kernel.destroy()
            level.launch(ONE, add, device.allocate(64, stream=stream), 1)
        del kernels, level
    assert wait_until(lambda: ch.live_counts()["deviceptr"] == before + 2)
    run(definition)


def test_clone_of_a_child_graph(device: ch.Device, stream: ch.Stream, add: ch.Kernel, run: Run) -> None:
    """A clone of a child graph would not keep what the node around the child graph keeps for it."""
    before = ch.live_counts()["deviceptr"]
    child = cg.GraphDefinition()
    child.launch(ONE, add, device.allocate(64, stream=stream), 1)
    copy = cg.GraphDefinition().embed(child).child_graph.copy()
    child.close()
    assert ch.live_counts()["deviceptr"] == before + 1
    run(copy)


def test_clone_after_other_code_destroyed_nodes(device: ch.Device, add: ch.Kernel, run: Run) -> None:
    """The driver would be asked for the copy of a node that does not exist, which ends the process on a GPU."""
    numbers = Numbers(1)
    view = numbers.view
    child = cg.GraphDefinition()
    child.launch(ONE, add, numbers.buffer, 1)
    definition = cg.GraphDefinition()
    nodes = [definition.embed(child), definition.launch(ONE, add, numbers.buffer, 2), definition.embed(child)]
    inner = [node.child_graph for node in (nodes[0], nodes[2])]  # so that there are records for the graphs
    assert [len(graph.nodes()) for graph in inner] == [1, 1]
    assert int(definition.handle)
    for node in nodes[:2]:
        call_bindings("cuGraphDestroyNode", node.handle)
    copy = definition.copy()
    del definition, inner, nodes, child
    assert len(copy.nodes()) == 1
    run(copy)
    assert view[0] == 1
