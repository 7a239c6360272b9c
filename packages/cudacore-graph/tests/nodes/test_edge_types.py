# SPDX-License-Identifier: Apache-2.0
"""Edges with types: programmatic dependencies between kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from graph_tools import ONE, Numbers, launch

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_graph.typing import GraphEdgeType


@pytest.fixture(autouse=True)
def _needed_driver(need_driver: Callable[[str, str], None]) -> None:
    need_driver("12.3", "programmatic edges")


@pytest.fixture
def kernels(definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> list[cg.KernelNode]:
    """Give three kernel nodes in a chain, each with a number of its own."""
    first = definition.launch(ONE, add, numbers.buffer, 1)
    second = first.launch(ONE, add, numbers.at(1), 2)
    return [first, second, second.launch(ONE, add, numbers.at(2), 3)]


def test_written_and_read(
    definition: cg.GraphDefinition, kernels: list[cg.KernelNode], stream: ch.Stream, numbers: Numbers
) -> None:
    """An edge would keep another type than the one it was given, or the type would be lost in a clone."""
    first, second, third = kernels
    assert definition.edge_types() == {(first, second): "default", (second, third): "default"}
    second.pred.add(first, "programmatic")
    second.succ.add(third, GraphEdgeType.LAUNCH_ORDER)
    third.pred.add(first, "programmatic")
    third.pred.add(first)  # exists already, so it is not changed
    expected = {
        (first, second): GraphEdgeType.PROGRAMMATIC,
        (second, third): GraphEdgeType.LAUNCH_ORDER,
        (first, third): GraphEdgeType.PROGRAMMATIC,
    }
    assert definition.edge_types() == expected
    assert definition.edges() == set(expected)
    assert second.config.programmatic_stream_serialization
    copy, became = definition.clone()
    assert copy.edge_types() == {(became[a], became[b]): kind for (a, b), kind in expected.items()}
    launch(definition.instantiate(), stream)
    assert numbers.view[:3].tolist() == [1, 2, 3]
    third.pred.add(second, "programmatic")
    second.pred.add(first, "default")
    third.pred.discard(first)
    assert definition.edge_types() == {(first, second): "default", (second, third): "programmatic"}
    second.pred = ()
    third.pred.clear()
    assert definition.edge_types() == {}


def test_of_a_configuration(definition: cg.GraphDefinition, kernels: list[cg.KernelNode], add: ch.Kernel) -> None:
    """The edges that a configuration makes programmatic would be read as others."""
    early = ch.LaunchConfig(grid=1, block=1, programmatic_stream_serialization=True)
    fill = definition.empty()
    node = kernels[2].launch(early, add, 0, 1)
    node.pred.add(fill)
    (many,) = definition.launch_many(early, add, 0, 1, count=1, after=[kernels[0], fill])
    types = definition.edge_types()
    assert types[kernels[2], node] is types[kernels[0], many] is GraphEdgeType.PROGRAMMATIC
    assert types[fill, node] is types[fill, many] is GraphEdgeType.DEFAULT
    node.update(config=early)
    node.pred.add(kernels[2], "default")
    assert not node.config.programmatic_stream_serialization
    with pytest.raises(ValueError, match="change their type instead"):
        node.update(config=early)


def test_bad_input(definition: cg.GraphDefinition, kernels: list[cg.KernelNode], numbers: Numbers) -> None:
    """An edge that cannot exist would reach the driver, or an edge would be lost when its type is refused."""
    first, second, _ = kernels
    fill, before = definition.memset(numbers.buffer, 0, 4), definition.edge_types()
    stranger: Any = cg.GraphDefinition().empty()
    wrong: Any = "early"
    for call, error, match in (
        (lambda: fill.pred.add(first, "programmatic"), ValueError, "from a kernel node to a kernel node, but the node"),
        (lambda: first.pred.add(fill, "launch_order"), ValueError, "from a kernel node to a kernel node, but the node"),
        (lambda: second.pred.add(first, wrong), ValueError, "edge_type is 'early'; it must be one of 'default', 'prog"),
        (lambda: second.pred.add(first, "other"), ValueError, "edge_type is 'other'; it must be one of"),
        (lambda: second.pred.add(first, 1), ValueError, "edge_type is 1; it must be one of"),  # type: ignore[arg-type]
        (lambda: second.pred.add(stranger, "programmatic"), ValueError, "is a node of another graph"),
        (lambda: second.pred.add(second, "programmatic"), ValueError, "cannot depend on itself"),
    ):
        with pytest.raises(error, match=match):
            call()
    assert definition.edge_types() == before


def test_graphs_that_keep_edges(definition: cg.GraphDefinition, kernels: list[cg.KernelNode]) -> None:
    """Changing the type of an edge that the driver cannot remove would lose it, or the error would not explain it."""
    first, second, third = kernels
    definition.allocate(64)
    third.pred.add(first, "programmatic")
    with pytest.raises(ch.CUDAError, match="No edge can be taken out of a graph that has nodes that allocate"):
        second.pred.add(first, "programmatic")
    types = definition.edge_types()
    assert (types[first, second], types[first, third]) == ("default", "programmatic")


@pytest.mark.cuda_sim
def test_refusals(definition: cg.GraphDefinition, kernels: list[cg.KernelNode], cuda_sim: Any) -> None:
    """An edge whose new type the driver refuses would be lost, or get the default type."""
    first, second, _ = kernels
    second.pred.add(first, "launch_order")
    before = definition.edge_types()
    with cuda_sim.failing("cuGraphAddDependencies", nth=1, error=1), pytest.raises(ch.CUDAError):
        second.pred.add(first, "programmatic")
    assert definition.edge_types() == before
    definition.close()
    with pytest.raises(ch.ClosedError):
        definition.edge_types()
