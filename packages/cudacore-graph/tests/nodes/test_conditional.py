# SPDX-License-Identifier: Apache-2.0
"""Conditional nodes and their conditions."""

from __future__ import annotations

from typing import Any

import pytest
from graph_tools import ONE, Numbers, Run

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_graph.typing import GraphConditionalType
from threads_at_once import in_threads


class TestConditionals:
    @pytest.mark.parametrize(("value", "expected"), [(0, 0), (1, 1), (7, 1)])
    def test_if(
        self, definition: cg.GraphDefinition, add: ch.Kernel, conditional: ch.ObjectCode, numbers: Numbers, run: Run,
        value: int, expected: int,
    ) -> None:  # fmt: skip
        """The body of an if would run at the wrong time, or before the condition is set."""
        numbers[1] = value
        condition = definition.create_condition()
        node = definition.launch(ONE, conditional.get_kernel("set_condition"), condition, numbers.at(1)).if_then(
            condition
        )
        node.then.launch(ONE, add, numbers.buffer, 1)
        assert node.cond_type is GraphConditionalType.IF
        assert node.branches == (node.then,)
        assert node.condition == condition
        run(definition)
        assert numbers[0] == expected

    def test_while_without_a_round(
        self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run
    ) -> None:
        """A loop whose condition is 0 at first would run once, or forever."""
        definition.while_loop(definition.create_condition(0)).body.launch(ONE, add, numbers.buffer, 1)
        run(definition)
        assert numbers[0] == 0

    def test_of_a_closed_definition(self, definition: cg.GraphDefinition) -> None:
        """A condition would lose its graph when the definition that created it is closed."""
        condition = definition.create_condition(0)
        node = definition.empty()
        definition.close()
        assert node.if_then(condition).condition == condition

    def test_used_by_two_threads(self, definition: cg.GraphDefinition, device: ch.Device) -> None:
        """Two nodes that are added at the same time would share one condition."""
        for _ in range(50):
            condition = definition.create_condition(0)

            def add(_: int, condition: Any = condition) -> bool:
                device.set_current()
                try:
                    return definition.if_then(condition) is not None
                except ValueError:
                    return False

            assert in_threads(add, range(4)).count(True) == 1

    @pytest.mark.cuda_sim
    def test_free_again_after_a_failure(self, definition: cg.GraphDefinition, cuda_sim: Any) -> None:
        """A node that the driver refuses would use up its condition."""
        condition = definition.create_condition(0)
        with cuda_sim.failing("cuGraphAddNode", nth=1, error=2), pytest.raises(ch.CUDAError):
            definition.if_then(condition)
        with pytest.raises(ValueError, match="count is 0"):
            definition.switch(condition, 0)
        assert definition.if_then(condition).condition == condition

    def test_used_again(self, definition: cg.GraphDefinition, run: Run) -> None:
        """After a conditional node is destroyed, no node could use its condition, so the graph would be unusable."""
        condition = definition.create_condition(0)
        node = definition.if_then(condition)
        alias = node.condition
        assert alias is not None
        for again in (condition, alias):
            with pytest.raises(ValueError, match="a conditional node already uses"):
                definition.while_loop(again)
        node.destroy()
        with pytest.raises(ch.CUDAError, match="a condition of the graph is not used by a conditional node"):
            definition.instantiate()
        (node,) = definition.add_many([("switch", None, alias, 2)])
        with pytest.raises(ValueError, match="a conditional node already uses"):
            definition.if_then(condition)
        run(definition)
        node.destroy()
        other = definition.if_else(condition)
        run(definition)
        assert other.condition == alias

    def test_used_again_after_a_body(self, definition: cg.GraphDefinition, run: Run) -> None:
        """After a body is destroyed, conditions that were used in it, or created on it, could not be used again."""
        outer, inner = definition.create_condition(1), definition.create_condition(0)
        node = definition.if_then(outer)
        own = node.then.create_condition(0)
        node.then.if_then(inner)
        node.then.while_loop(own)
        for condition in (outer, inner, own):
            with pytest.raises(ValueError, match="a conditional node already uses"):
                definition.if_then(condition)
        node.destroy()
        for condition in (outer, inner, own):
            definition.if_then(condition)
        run(definition)

    def test_of_a_body(self, definition: cg.GraphDefinition, run: Run) -> None:
        """A condition that was created on a body could be used only in that body, unlike in the driver."""
        node = definition.if_then(definition.create_condition(0))
        node.join().while_loop(node.then.create_condition(0))
        run(definition)

    def test_nested(self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run) -> None:
        """A node in a body could not use a condition of the graph around it."""
        outer, inner = definition.create_condition(1), definition.create_condition(1)
        body = definition.if_then(outer).then
        body.if_then(inner).then.launch(ONE, add, numbers.buffer, 1)
        run(definition)
        assert numbers[0] == 1

    def test_bad_input(self, definition: cg.GraphDefinition) -> None:
        """A condition could be used twice or in another graph, or an invalid value would reach the driver."""
        condition = definition.create_condition(0)
        other = cg.GraphDefinition().create_condition()
        node = definition.if_then(condition)
        inner = node.then.create_condition()
        for call, error, match in (
            (lambda: definition.while_loop(condition), ValueError, "a conditional node already uses"),
            (lambda: definition.if_then(other), ValueError, "is of another graph"),
            (lambda: definition.switch(inner, 0), ValueError, "count is 0"),
            (lambda: definition.switch(inner, 2**31), ValueError, "count is 2147483648"),
        ):
            with pytest.raises(error, match=match):
                call()
        assert definition.nodes() == {node}
        assert repr(condition) == f"<GraphCondition handle={condition.value:#x}>"
        assert len({condition, node.condition}) == 1
        assert condition not in (other, 1)
        with pytest.raises(TypeError, match="cannot create"):  # it would have no graph
            type(condition)()
