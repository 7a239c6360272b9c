# SPDX-License-Identifier: Apache-2.0
"""Nodes that allocate, free, fill and copy memory: their work, properties and updates."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_tools import Numbers, Run, wait_until

import cudacore_graph as cg
import cudacore_handles as ch


class TestMemory:
    def test_what_the_driver_refuses(self, definition: cg.GraphDefinition) -> None:
        """The error would not give the reason: memory or conditional nodes, or that the graph is inside another."""
        first = definition.empty()
        second = first.join()
        node = definition.allocate(64)
        body = definition.if_then(definition.create_condition(0)).then
        graph = definition.instantiate()
        calls: list[tuple[Callable[[], object], str]] = [
            (definition.instantiate, "can have only one executable graph at a time, .* close the other"),
            (body.instantiate, "Bodies and child graphs run only in their graph"),
            (definition.clone, "Bodies, and graphs with memory or conditional nodes, cannot be cloned"),
            (definition.copy, "Bodies, and graphs with memory or conditional nodes, cannot be cloned"),
            (lambda: cg.GraphDefinition().embed(definition), "cannot have memory nodes or conditional nodes"),
            (node.destroy, "No node can be taken out of a graph that has nodes that allocate or free memory"),
            (first.destroy, "No node can be taken out of a graph that has nodes that allocate or free memory"),
            (lambda: second.pred.remove(first), "No edge can be taken out of a graph that has nodes that allocate"),
            (first.succ.clear, "No edge can be taken out of a graph that has nodes that allocate"),
        ]
        for call, match in calls:
            with pytest.raises(ch.CUDAError, match=match):
                call()
        assert node.is_valid
        assert definition.edges() == {(first, second)}
        graph.close()

    @pytest.mark.parametrize("copy", ["clone", "child"])
    def test_copies_of_what_there_can_be_one_of(self, definition: cg.GraphDefinition, copy: str) -> None:
        """If a copy prevents instantiation, the error would not say so, or dropping the copy would not help."""
        definition.empty()
        other = definition.clone()[0] if copy == "clone" else cg.GraphDefinition()
        if copy == "child":
            other.embed(definition)
        definition.if_then(definition.create_condition(0))
        with pytest.raises(ch.CUDAError, match=r"and no clone or child graph .* drop the copy"):
            definition.instantiate()
        del other
        gc.collect()
        definition.instantiate()

    def test_double_free(self, definition: cg.GraphDefinition) -> None:
        """A graph could free the same memory twice."""
        memory = definition.allocate(64)
        free = memory.deallocate(memory.dptr)
        with pytest.raises(ValueError, match="which a graph may free only once"):
            free.deallocate(memory.dptr)
        assert definition.nodes() == {memory, free}

    @pytest.mark.parametrize("elsewhere", [False, True])
    def test_use_after_the_free(self, definition: cg.GraphDefinition, elsewhere: bool) -> None:
        """The simulated driver would accept a node that a GPU refuses, because the graph frees the memory already."""
        memory = definition.allocate(64)
        (cg.GraphDefinition() if elsewhere else definition).deallocate(memory.dptr)
        for graph in (definition, cg.GraphDefinition()):
            with contextlib.nullcontext() if elsewhere else pytest.raises(ch.CUDAError, match="dst must be memory"):
                graph.memset(memory.dptr + 4, 0, 4)
            with contextlib.nullcontext() if elsewhere else pytest.raises(ch.CUDAError, match="dst and src must be"):
                graph.memcpy(memory.dptr, memory.dptr + 8, 4)


class TestMemset:
    @pytest.mark.parametrize(
        ("value", "width", "expected", "size"),
        [
            (7, 16, 0x07070707, 1),
            (b"\x34\x12", 8, 0x12341234, 2),
            (np.float32(1.0), 4, 0x3F800000, 4),
            (np.uint8(5), 4, 0x05050505, 1),
        ],
    )
    def test_values(
        self,
        definition: cg.GraphDefinition,
        numbers: Numbers,
        run: Run,
        value: Any,
        width: int,
        expected: int,
        size: int,
    ) -> None:
        """A fill would write another value for some sizes."""
        node = definition.memset(numbers.buffer, value, width)
        assert (node.element_size, node.width, node.height) == (size, width, 1)
        assert node.dptr == numbers.at(0)
        assert node.value == expected & (256**size - 1)
        run(definition)
        assert numbers[0] == expected

    def test_rows(self, definition: cg.GraphDefinition, numbers: Numbers, run: Run) -> None:
        """A fill in two dimensions would write to the bytes between the rows."""
        node = definition.memset(numbers.buffer, np.uint32(3), 2, 3, 16)
        assert (node.width, node.height, node.pitch) == (2, 3, 16)
        run(definition)
        assert [numbers[i] for i in range(12)] == [3, 3, 0, 0] * 3

    def test_update(self, definition: cg.GraphDefinition, numbers: Numbers, run: Run) -> None:
        """An update would change values that were not given, or release memory that the node still uses."""
        view = numbers.view
        node = definition.memset(numbers.buffer, np.uint16(3), 2)
        numbers.buffer.close()
        node.update(value=np.uint16(4))
        gc.collect()
        run(definition)
        assert view[0] == 0x40004
        node.update(width=4)
        run(definition)
        assert view[1] == 0x40004
        other = Numbers(1)
        node.update(dst=other.buffer, width=2)
        assert node.dptr == other.at(0)
        run(definition)
        assert other[0] == 0x40004
        with pytest.raises(ValueError, match="dst_owner comes with dst"):
            node.update(dst_owner=other)

    def test_extent(self, definition: cg.GraphDefinition, numbers: Numbers) -> None:
        """A fill would go beyond its buffer."""
        assert definition.memset(numbers.buffer, 0, np.uint8(64)).width == 64
        assert definition.memset(numbers.buffer, 0, 4, 2, 4).pitch == 4
        with pytest.raises(ValueError, match="dst has 64 bytes, and the node would use 65"):
            definition.memset(numbers.buffer, 0, 65)
        with pytest.raises(ValueError, match="the node would use 66"):
            definition.memset(numbers.buffer, 0, 2, 3, 32)
        with pytest.raises(ValueError, match="dst is a Buffer, which is kept by itself: leave dst_owner out"):
            definition.memset(numbers.buffer, 0, 1, dst_owner=numbers)


class TestMemcpy:
    def test_rows_and_slices(self, definition: cg.GraphDefinition, device: ch.Device, run: Run) -> None:
        """A copy in three dimensions would copy the wrong rows."""
        source, target = Numbers(24), Numbers(24)
        for index in range(24):
            source[index] = index
        # Two slices of two rows of two numbers, from slices of three rows of four numbers.
        node = definition.memcpy(
            target.buffer, source.buffer, 8, height=2, depth=2, src_pitch=16, src_height=3, dst_pitch=8
        )
        assert (node.size, node.height, node.depth) == (8, 2, 2)
        assert (node.dst, node.src) == (target.at(0), source.at(0))
        run(definition)
        assert [target[i] for i in range(8)] == [0, 1, 4, 5, 12, 13, 16, 17]
        node.update(src=source.at(1), src_owner=source.buffer)
        run(definition)
        assert [target[i] for i in range(8)] == [1, 2, 5, 6, 13, 14, 17, 18]

    def test_update_beyond_a_buffer(self, definition: cg.GraphDefinition, device: ch.Device) -> None:
        """An update could copy or fill beyond the end of the node's buffer."""
        stream = device.create_stream()
        small, large = (device.allocate(size, stream=stream) for size in (16, 64))
        stream.sync()
        node, fill = definition.memcpy(small, large, 16), definition.memset(small, 0, 16)
        with pytest.raises(ValueError, match="dst has 16 bytes, and the node would use 17"):
            node.update(size=17)
        with pytest.raises(ValueError, match="dst has 16 bytes, and the node would use 17"):
            fill.update(width=17)
        with pytest.raises(ValueError, match="src has 8 bytes, and the node would use 9"):
            definition.memcpy(large, small.handle + 8, 9, src_owner=small)
        assert (node.size, fill.width) == (16, 16)

    def test_update_by_two_threads(self, definition: cg.GraphDefinition, device: ch.Device) -> None:
        """If two threads update a node at the same time, it would copy one operand, but keep another one alive."""
        stream = device.create_stream()
        memory = [device.allocate(16, stream=stream) for _ in range(2)]
        stream.sync()
        node = definition.memcpy(memory[0], memory[0], 4)
        params: Any
        for _ in range(50):
            stop = threading.Event()

            def change(stop: threading.Event = stop) -> None:
                while not stop.is_set():
                    for buffer in memory:
                        node.update(src=buffer)

            thread = threading.Thread(target=change)
            thread.start()
            for _ in range(20):
                params, owners = node._read_owned("memcpy")
                assert params.src == owners[1]._raw
            stop.set()
            thread.join()

    def test_update_keeps_the_other_operand(self, definition: cg.GraphDefinition, device: ch.Device, run: Run) -> None:
        """An update of one operand would release the other operand, or keep the replaced operand forever."""
        first, second, target = Numbers(1), Numbers(1), Numbers(1)
        first[0], second[0] = 1, 2
        view = target.view
        live = ch.live_counts()["deviceptr"]
        node = definition.memcpy(target.buffer, first.buffer, 4)
        target.buffer.close()
        node.update(src=second.buffer)
        run(definition)
        assert view[0] == 2
        del first, second
        third = Numbers(1)
        for _ in range(5):
            node.update(src=third.buffer)
        # The updates must have released all buffers except the target and the third one.
        assert wait_until(lambda: ch.live_counts()["deviceptr"] == live - 1)
        with pytest.raises(ValueError, match="src_owner comes with src"):
            node.update(src_owner=third)


def test_addresses_of_numpy(definition: cg.GraphDefinition, numbers: Numbers) -> None:
    """An address that is an integer of NumPy would be mistaken for an array in the host's memory."""
    address = int(numbers.buffer.handle)
    node = definition.memset(np.uint64(address), 0, 4, dst_owner=numbers.buffer)
    assert node.dptr == address
    allocation = definition.allocate(64)
    allocation.deallocate(np.int64(allocation.dptr))
