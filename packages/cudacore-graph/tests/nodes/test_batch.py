# SPDX-License-Identifier: Apache-2.0
"""Many nodes in one call: all or none."""

from __future__ import annotations

from typing import Any

import pytest
from graph_tools import ONE, Numbers, Run, add_function

import cudacore_graph as cg
import cudacore_handles as ch


class TestBatch:
    def test_nothing(self, definition: cg.GraphDefinition) -> None:
        """An empty batch would be an error."""
        assert definition.add_many([]) == []

    def test_conditions(self, definition: cg.GraphDefinition) -> None:
        """A failed batch would use up a condition, or a batch would give the same condition to two nodes."""
        condition = definition.create_condition()
        with pytest.raises(ValueError, match=r"^node 1: while_loop: a conditional node already uses"):
            definition.add_many([("if_then", None, condition), ("while_loop", None, condition)])
        assert not definition.nodes()
        (node,) = definition.add_many([("switch", None, condition, 2)])
        assert len(node.branches) == 2

    def test_conditions_beside_memory(self, definition: cg.GraphDefinition) -> None:
        """A batch with a condition that is used already would be added in part, since nothing can be taken out."""
        conditions = [definition.create_condition() for _ in range(2)]
        batch: list[Any] = [("allocate", None, 64), *(("if_then", None, conditions[i]) for i in (0, 1, 1))]
        with pytest.raises(ValueError, match=r"^node 3: if_then: a conditional node already uses"):
            definition.add_many(batch)
        assert not definition.nodes()
        definition.add_many(batch[:2])
        with pytest.raises(ValueError, match=r"^node 1: if_then: a conditional node already uses"):
            definition.add_many([("empty", None), batch[1]])
        assert len(definition.nodes()) == 2

    @pytest.mark.parametrize(
        ("item", "error", "match"),
        [
            (("lanch", None), ValueError, "node 1: 'lanch' is not a method that adds a node; it must be one of launch"),
            (("empty",), TypeError, r"node 1: a node of a batch is a tuple \(method, after, \*arguments\)"),
            (["empty", None], TypeError, "node 1: a node of a batch is a tuple"),
            (("empty", 1), ValueError, "node 1: 1 is not the number of an earlier node"),
            (("empty", -1), ValueError, "node 1: -1 is not the number of an earlier node"),
            (("empty", "0"), TypeError, "node 1: after must be a GraphNode, not 'str'"),
            (("memset", None, 0, 0, 1), ValueError, "node 1: dst is NULL"),
            (("memset", None, 4096), TypeError, r"node 1: memset\(\) needs value"),
            (
                ("empty", None, 1),
                TypeError,
                r"node 1: empty\(\) takes at most 0 positional arguments, but 1 were given",
            ),
            (("launch", None, ONE), TypeError, r"node 1: launch\(\) takes a config, a kernel and its arguments"),
        ],
    )
    def test_bad_input(self, definition: cg.GraphDefinition, item: Any, error: type[Exception], match: str) -> None:
        """A mistake in a batch would leave some nodes behind, or the error would not name the node."""
        with pytest.raises(error, match=match):
            definition.add_many([("empty", None), item])
        assert not definition.nodes()

    @pytest.mark.cuda_sim
    def test_names_the_node(self, definition: cg.GraphDefinition, device: ch.Device, cuda_sim: Any) -> None:
        """An error would not say which node of the batch it is about, or would be of another class."""
        closed = device.create_event()
        closed.close()
        gone = definition.empty()
        gone.destroy()
        for item in (("record", None, closed), ("empty", gone)):
            with pytest.raises(ch.ClosedError, match=r"^node 1: "):
                definition.add_many([("empty", None), item])
        with (
            cuda_sim.failing(add_function("Empty"), nth=2, error=2),
            pytest.raises(ch.CUDAError, match="node 1 of the batch"),
        ):
            definition.add_many([("empty", None)] * 3)
        with pytest.raises(ValueError, match=r"^node 1: dptr cannot be freed"):
            definition.add_many([("empty", None), ("deallocate", 0, 5)])

        class Mine(KeyError):
            def __index__(self) -> int:
                raise self

        with pytest.raises(Mine) as caught:
            definition.add_many([("memset", None, 1, 0, Mine(1, 2))])
        assert caught.value.args == (1, 2)
        assert not definition.nodes()

    def test_after_the_same_twice(self, definition: cg.GraphDefinition) -> None:
        """A dependency that is given twice would be added twice, which the driver refuses."""
        first = definition.empty()
        nodes = definition.add_many([("empty", (first, first)), ("empty", [0, first, 0, first]), ("empty", (1, 0, 1))])
        assert definition.edges() == {
            (first, nodes[0]), (nodes[0], nodes[1]), (first, nodes[1]), (nodes[1], nodes[2]), (nodes[0], nodes[2])
        }  # fmt: skip

    def test_all_or_none(self, definition: cg.GraphDefinition, numbers: Numbers, cuda_sim: Any) -> None:
        """If the driver refuses the fourth of five nodes, the first three would remain in the graph."""
        items: list[tuple[Any, ...]] = [("memset", None, numbers.buffer, 0, 4)] * 5
        with cuda_sim.failing(add_function("Memset"), nth=4, error=2), pytest.raises(ch.CUDAError):
            definition.add_many(items)
        assert not definition.nodes()
        assert len(definition.add_many(items)) == 5

    @pytest.mark.parametrize("already", [False, True])
    def test_all_or_none_with_memory(self, definition: cg.GraphDefinition, numbers: Numbers, already: bool) -> None:
        """Part of a failed batch would remain, because CUDA cannot remove nodes from a graph with memory nodes."""
        before = {definition.allocate(64)} if already else set()
        condition = definition.create_condition(0)
        address = next(iter(before)).dptr if already else 0
        good: list[tuple[Any, ...]] = [
            ("allocate", None, 64),
            ("memset", 0, numbers.buffer, 0, 4),
            ("callback", 1, print),
            ("if_then", 2, condition),
        ]
        bad: list[tuple[tuple[Any, ...], type[Exception], str]] = [
            (("memset", 3, 4096, 0, 4), ch.CUDAError, "node 4 of the batch"),
            (("deallocate", 3, 4096), ValueError, "node 4: dptr cannot be freed"),
        ]
        if already:
            good.append(("memset", 3, address, 0, 4))
            bad = [(item, error, match.replace("node 4", "node 5")) for item, error, match in bad]
            bad.append((("memset", 3, address, 0, 400), ch.CUDAError, "node 5 of the batch"))
            bad += [
                (("deallocate", 3, address + inside), ValueError, "node 5: dptr cannot be freed.*no allocation begins")
                for inside in (1, 16, 63)
            ]
        for item, error, match in bad:
            with pytest.raises(error, match=match) as caught:
                definition.add_many([*good, item])
            assert "stay in the graph" not in str(caught.value)
            assert definition.nodes() == before
        if already:
            good.append(("deallocate", 4, address))
            with pytest.raises(ValueError, match=r"node 6: dptr cannot be freed.*is freed already"):
                definition.add_many([*good, ("deallocate", 5, address)])
            assert definition.nodes() == before
        nodes = definition.add_many(good)
        assert definition.nodes() == before | set(nodes)
        if already:
            with pytest.raises(ValueError, match="node 1: dptr cannot be freed") as caught:
                definition.add_many([("empty", None), ("deallocate", 0, address)])
            assert "stay in the graph" not in str(caught.value)
            assert definition.nodes() == before | set(nodes)
        definition.instantiate()

    def test_freed_elsewhere(self, definition: cg.GraphDefinition, run: Run) -> None:
        """A batch could not free what another graph has allocated."""
        other = cg.GraphDefinition()
        address = other.allocate(64).dptr
        definition.add_many([("empty", None), ("deallocate", 0, address)])
        run(other)
        run(definition)
        before = definition.nodes()
        with pytest.raises(ValueError, match=r"(?s)node 1: dptr cannot be freed.*stay in the graph"):
            definition.add_many([("empty", None), ("deallocate", 0, address)])  # tried in the graph itself
        assert len(definition.nodes()) == len(before) + 1

    @pytest.mark.needs_driver("12.2", "cuGraphAddNode, which is to fail")
    @pytest.mark.cuda_sim
    def test_what_stays(self, definition: cg.GraphDefinition, cuda_sim: Any) -> None:
        """An unexpected error after a memory node would not say that nodes remain."""
        items: list[tuple[Any, ...]] = [("empty", None), ("allocate", 0, 64), ("empty", 1)]
        for nth in range(1, 6):
            with cuda_sim.failing("cuGraphAddNode", nth=nth, error=2), pytest.raises(ch.CUDAError) as caught:
                definition.add_many(items)
            assert not definition.nodes(), nth
            assert "stay in the graph" not in str(caught.value)
        with (
            cuda_sim.failing("cuGraphAddNode", nth=6, error=2),
            pytest.raises(
                ch.CUDAError, match=r"the nodes of the batch that come before it stay in the graph.*node 2 of"
            ),
        ):
            definition.add_many(items)
        assert len(definition.nodes()) == 2

    @pytest.mark.cuda_sim
    def test_attribute_with_memory(
        self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, cuda_sim: Any
    ) -> None:
        """A kernel node would stay in a graph with memory nodes, without the attribute that the driver refused."""
        node = definition.allocate(64)
        config = ch.LaunchConfig(grid=1, block=1, priority=0)
        with cuda_sim.failing("cuGraphKernelNodeSetAttribute", nth=1, error=1), pytest.raises(ch.CUDAError):
            node.launch(config, add, numbers.buffer, 1)
        assert definition.nodes() == {node}
        node.launch(config, add, numbers.buffer, 1)
