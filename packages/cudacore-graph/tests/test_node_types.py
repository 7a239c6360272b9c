# SPDX-License-Identifier: Apache-2.0
"""Each type of node: its work, its properties, and its updates."""

from __future__ import annotations

import ctypes
import functools
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_tools import ONE, Numbers

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_graph.typing import GraphConditionalType, GraphMemoryType
from cudacore_handles._sdk import graph_native as _native
from threads_at_once import in_threads

Run = Callable[[cg.GraphDefinition], None]


class TestKernel:
    def test_runs_in_order(
        self, definition: cg.GraphDefinition, add: ch.Kernel, times: ch.Kernel, numbers: Numbers, run: Run
    ) -> None:
        """Kernels would not run, or not one after the other."""
        definition.launch(ONE, add, numbers.buffer, 3).launch(ONE, times, numbers.buffer, 5).launch(
            ONE, add, numbers.at(0), 2
        )
        run(definition)
        assert numbers[0] == 17

    def test_tells(self, definition: cg.GraphDefinition, code: ch.ObjectCode) -> None:
        """A node would report a wrong geometry or kernel."""
        kernel = code.get_kernel("nothing")
        config = ch.LaunchConfig(grid=(2, 3), block=(4, 5, 6), shmem_size=1024)
        node = definition.launch(config, kernel)
        assert node.config == config
        assert (node.grid, node.block, node.shmem_size) == ((2, 3, 1), (4, 5, 6), 1024)
        assert node.kernel == kernel

    @pytest.mark.parametrize(
        "options",
        [
            {"cluster": (2, 1, 1)},
            {"is_cooperative": True},
            {"priority": -1},
            {"cluster": 2, "priority": -3},
        ],
        ids=str,
    )
    def test_keeps_launch_attributes(
        self, definition: cg.GraphDefinition, code: ch.ObjectCode, run: Run, options: dict[str, Any]
    ) -> None:
        """A cluster, a cooperative launch or a priority would be lost on the way into the graph."""
        config = ch.LaunchConfig(grid=2, block=32, **options)
        node = definition.launch(config, code.get_kernel("nothing"))
        assert node.config == config
        _, pairs = definition.clone()
        assert pairs[node].config == config
        run(definition)

    def test_update_keeps_the_rest(
        self, definition: cg.GraphDefinition, add: ch.Kernel, times: ch.Kernel, numbers: Numbers, run: Run
    ) -> None:
        """An update would change values that were not given."""
        numbers[0] = 7
        node = definition.launch(ONE, add, numbers.buffer, 3)
        node.update(config=ch.LaunchConfig(grid=1, block=1, shmem_size=64))
        assert node.shmem_size == 64
        run(definition)
        assert numbers[0] == 10
        node.update(args=(numbers.buffer, 5))
        assert (node.shmem_size, node.kernel) == (64, add)
        run(definition)
        assert numbers[0] == 15
        node.update(kernel=times, args=(numbers.buffer, 2))
        assert (node.shmem_size, node.kernel) == (64, times)
        run(definition)
        assert numbers[0] == 30
        node.update()

    def test_update_of_what_others_use(
        self, definition: cg.GraphDefinition, add: ch.Kernel, stream: ch.Stream, numbers: Numbers
    ) -> None:
        """An executable graph would use memory that the node of its definition has released."""
        other = Numbers(1)
        view = other.view
        node = definition.launch(ONE, add, other.buffer, 3)
        graph = definition.instantiate()
        node.update(args=(numbers.buffer, 1))
        other.buffer.close()
        del other
        gc.collect()
        graph.launch(stream)
        stream.sync()
        assert view[0] == 3
        node.destroy()
        graph.launch(stream)
        stream.sync()
        assert view[0] == 6

    def test_keeps_its_arguments(self, definition: cg.GraphDefinition, add: ch.Kernel, run: Run) -> None:
        """A buffer, or an array of another library, would be freed while a node uses it."""

        class Array:
            def __init__(self) -> None:
                self.numbers = Numbers(1)
                self.__cuda_array_interface__ = {
                    "shape": (1,), "typestr": "<u4", "data": (self.numbers.at(0), False), "version": 3,
                }  # fmt: skip

        array = Array()
        reference, view = weakref.ref(array), array.numbers.view
        node = definition.launch(ONE, add, array, 4)
        del array
        gc.collect()
        assert reference() is not None
        run(definition)
        assert view[0] == 4
        del view
        node.update(args=(0, 0))
        del node
        definition.close()

    @pytest.mark.parametrize(
        ("arguments", "error", "match"),
        [
            ((), TypeError, r"the kernel takes 2 arguments .* but 0 were given"),
            ((1, 2, 3), TypeError, "but 3 were given"),
            ((1, 2.5), TypeError, "argument 1"),
            ((1, 2**40), OverflowError, "argument 1"),
            (("x", 2), TypeError, "argument 0"),
        ],
    )
    def test_bad_arguments(
        self,
        definition: cg.GraphDefinition,
        add: ch.Kernel,
        arguments: tuple[Any, ...],
        error: type[Exception],
        match: str,
    ) -> None:
        """A node would launch with garbage."""
        with pytest.raises(error, match=match):
            definition.launch(ONE, add, *arguments)
        assert not definition.nodes()

    def test_bad_input(self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers) -> None:
        """An invalid kernel or configuration, or a closed one, would be accepted."""
        node = definition.launch(ONE, add, numbers.buffer, 1)
        bad: Any = None
        for call, error, match in (
            (lambda: definition.launch(bad, add), TypeError, "config must be a LaunchConfig"),
            (lambda: definition.launch(ONE, bad), TypeError, "kernel must be a Kernel"),
            (lambda: definition.launch(ONE), TypeError, "takes a config, a kernel and its arguments, but 1 was given"),
            (lambda: node.update(kernel=add), ValueError, "kernel is another one, and its arguments are missing"),
            (lambda: node.update(config=bad, args=3), TypeError, "args must be a tuple"),
            (lambda: node.update(config="x"), TypeError, "config must be a LaunchConfig"),
        ):
            with pytest.raises(error, match=match):
                call()
        numbers.buffer.close()
        with pytest.raises(ch.ClosedError, match="argument 0: Buffer has been closed"):
            definition.launch(ONE, add, numbers.buffer, 1)


class TestMemory:
    def test_allocate_and_free(
        self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run, device: ch.Device
    ) -> None:
        """Memory of a graph could not be used in it, or would have a wrong size or location."""
        memory = definition.allocate(64)
        assert memory.dptr
        assert memory.bytesize == 64
        assert memory.device_id == device.device_id
        assert memory.memory_type is GraphMemoryType.DEVICE
        assert memory.peer_access == ()
        node = memory.memset(memory.dptr, 0, 64).launch(ONE, add, memory.dptr, 9)
        node = node.memcpy(numbers.buffer, memory.dptr, 4)
        free = node.deallocate(memory.dptr)
        assert free.dptr == memory.dptr
        run(definition)
        assert numbers[0] == 9

    def test_bad_input(self, definition: cg.GraphDefinition) -> None:
        """Invalid sizes, kinds of memory and addresses would reach the driver."""
        bad: Any = "x"
        for call, error, match in (
            (lambda: definition.allocate(0), ValueError, "size is 0; it must be at least 1"),
            (lambda: definition.allocate(-1), ValueError, "size is -1"),
            (lambda: definition.allocate(True), TypeError, "size must be an int"),
            (lambda: definition.allocate(bad), TypeError, "size must be an int"),
            (
                lambda: definition.allocate(1, memory_type="tape"),
                ValueError,
                "memory_type is 'tape'; it must be one of",
            ),
            (lambda: definition.allocate(1, device=77), ValueError, "device_id"),
            (lambda: definition.allocate(1, peer_access=bad), TypeError, "peer_access must be a list"),
            (lambda: definition.deallocate(0), ValueError, "dptr is NULL"),
            (lambda: definition.deallocate(bad), TypeError, "dptr must be"),
            (lambda: definition.deallocate(4096), ValueError, "dptr cannot be freed by a node of this graph"),
        ):
            with pytest.raises(error, match=match):
                call()
        assert not definition.nodes()

    def test_what_the_driver_refuses(self, definition: cg.GraphDefinition) -> None:
        """The error would not say that memory nodes are the reason, or that a graph is contained in another one."""
        node = definition.allocate(64)
        body = definition.if_then(definition.create_condition(0)).then
        graph = definition.instantiate()
        calls: list[tuple[Callable[[], object], str]] = [
            (definition.instantiate, "can be one executable graph at a time, .* close the other"),
            (body.instantiate, "Bodies and child graphs run in their graph alone"),
            (definition.clone, "Bodies, and graphs with memory or conditional nodes, cannot be cloned"),
            (lambda: cg.GraphDefinition().embed(definition), "cannot have memory nodes or conditional nodes"),
            (node.destroy, "No node can be taken out of a graph that has nodes that allocate or free memory"),
        ]
        for call, match in calls:
            with pytest.raises(ch.CUDAError, match=match):
                call()
        assert node.is_valid
        graph.close()

    def test_nothing_can_be_taken_out(self, definition: cg.GraphDefinition) -> None:
        """If memory nodes are the reason, the error would name another reason or none."""
        first = definition.empty()
        second = first.join()
        definition.allocate(64)
        for call, what in (
            (first.destroy, "node"),
            (lambda: second.pred.remove(first), "edge"),
            (lambda: first.succ.clear(), "edge"),
        ):
            with pytest.raises(ch.CUDAError, match=f"No {what} can be taken out of a graph that has nodes that"):
                call()
        assert definition.edges() == {(first, second)}

    @pytest.mark.parametrize("copy", ["clone", "child"])
    def test_copies_of_what_there_can_be_one_of(self, definition: cg.GraphDefinition, copy: str) -> None:
        """The error would not say that an earlier copy is the reason, or dropping that copy would not help."""
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
        with pytest.raises(ValueError, match="be freed once in a graph"):
            free.deallocate(memory.dptr)
        assert definition.nodes() == {memory, free}


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
        """An update would change values that were not given, or release what keeps them."""
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

    @pytest.mark.parametrize(
        ("arguments", "error", "match"),
        [
            ((0, 0, 4), ValueError, "dst is NULL"),
            ((None, 0, 4), TypeError, "dst must be a Buffer, a device array or an int, not NoneType"),
            ((np.zeros(3), 0, 4), TypeError, "dst is an array in the host's memory"),
            ((-1, 0, 4), ValueError, "dst is -1, which is no address"),
            ((4096, 256, 4), OverflowError, "value is 256"),
            ((4096, -1, 4), OverflowError, "value is -1"),
            ((4096, b"abc", 4), ValueError, "value must be 1, 2, or 4 bytes"),
            ((4096, 1.5, 4), TypeError, "value must be an int"),
            ((2**64, 0, 4), ValueError, "dst is 18446744073709551616, which is no address"),
            ((4096, 0, 0), ValueError, "width is 0; it must be at least 1"),
            ((4096, 0, -1), ValueError, "width is -1; it must be at least 1"),
            ((4096, 0, 2**63), ValueError, "width is 9223372036854775808; it must be at least 1, and less than 2"),
            ((4096, 0, 2**64 + 4), ValueError, "width is 18446744073709551620; it must be at least 1"),
            ((4096, 0, np.int8(-1)), ValueError, r"width is np.int8\(-1\)|width is -1"),
            ((4096, 0, True), TypeError, "width must be an int, not 'bool'"),
            ((4096, 0, 4.0), TypeError, "width must be an int, not 'float'"),
            ((4096, 0, 4, 0), ValueError, "height is 0; it must be at least 1"),
            ((4096, 0, 4, 2, 3), ValueError, "pitch is 3 bytes from row to row, less than the row's 4"),
            ((4097, b"ab", 4), ValueError, "must be multiples of the value's 2 bytes"),
        ],
    )
    def test_bad_input(
        self, definition: cg.GraphDefinition, arguments: tuple[Any, ...], error: type[Exception], match: str
    ) -> None:
        """An invalid fill would reach the driver."""
        with pytest.raises(error, match=match):
            definition.memset(*arguments)
        assert not definition.nodes()

    def test_extent(self, definition: cg.GraphDefinition, numbers: Numbers) -> None:
        """A fill would go beyond its buffer."""
        assert definition.memset(numbers.buffer, 0, np.uint8(64)).width == 64
        with pytest.raises(ValueError, match="dst has 64 bytes, and the node would use 65"):
            definition.memset(numbers.buffer, 0, 65)
        with pytest.raises(ValueError, match="the node would use 66"):
            definition.memset(numbers.buffer, 0, 2, 3, 32)
        with pytest.raises(ValueError, match="dst is a Buffer, which is kept by itself: leave dst_owner out"):
            definition.memset(numbers.buffer, 0, 1, dst_owner=numbers)


class TestMemcpy:
    def test_rows_and_slices(self, definition: cg.GraphDefinition, device: ch.Device, run: Run) -> None:
        """A copy in three dimensions would copy other rows."""
        source, target = Numbers(24), Numbers(24)
        for index in range(24):
            source[index] = index
        # Two slices of two rows of two numbers, from slices of three rows of four.
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
        """The size of a node's buffer would not limit an update, or an address with its owner."""
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
        """If two threads update a node at once, it would copy one operand and keep the other one alive."""
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
        """An update of one operand would release the other one, or keep the old one forever."""
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
        # Updates released all buffers except the target and the third one.
        gc.collect()
        for _ in range(100):
            if ch.live_counts()["deviceptr"] == live - 1:
                break
            ch.Device().default_stream.record()
        assert ch.live_counts()["deviceptr"] == live - 1
        with pytest.raises(ValueError, match="src_owner comes with src"):
            node.update(src_owner=third)

    @pytest.mark.parametrize(
        ("arguments", "options", "error", "match"),
        [
            ((0, 4096, 4), {}, ValueError, "dst is NULL"),
            ((4096, 0, 4), {}, ValueError, "src is NULL"),
            ((4096, 4096, -1), {}, ValueError, "size is -1"),
            ((4096, 4096, 0), {}, ValueError, "size is 0"),
            ((4096, 4096, 4), {"height": 0}, ValueError, "height is 0"),
            ((4096, 4096, 4), {"src_pitch": 3}, ValueError, "src_pitch is 3 bytes from row to row, less than"),
            ((4096, 4096, 4), {"height": 2, "dst_height": 1}, ValueError, "dst_height is 1 rows"),
            ((4096, 4096, 4), {"pitch": 3}, TypeError, r"memcpy\(\) has no argument 'pitch'"),
            ((4096, 4096), {}, TypeError, r"memcpy\(\) needs size"),
            ((4096, 4096, 4, 4), {}, TypeError, r"memcpy\(\) takes at most 3 positional arguments"),
        ],
    )
    def test_bad_input(
        self,
        definition: cg.GraphDefinition,
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        error: type[Exception],
        match: str,
    ) -> None:
        """An invalid copy would reach the driver."""
        with pytest.raises(error, match=match):
            definition.memcpy(*arguments, **options)
        assert not definition.nodes()


class TestCallback:
    def test_python_function(self, definition: cg.GraphDefinition, run: Run) -> None:
        """A Python function would not be called, or be called at the wrong time."""
        called: list[str] = []
        first = definition.callback(functools.partial(called.append, "a"))
        node = first.callback(lambda: called.append("b"))
        node.callback(lambda: called.append("c"))  # a host node has the same methods as all nodes
        run(definition)
        assert called == ["a", "b", "c"]
        assert callable(node.function)
        assert isinstance(first.function, functools.partial)

    def test_update(self, definition: cg.GraphDefinition, stream: ch.Stream) -> None:
        """An executable graph would call the function that its definition has now."""
        called: list[int] = []
        node = definition.callback(lambda: called.append(1))
        graph = definition.instantiate()
        reference = weakref.ref(node.function)
        node.update(lambda: called.append(2))
        gc.collect()
        assert reference() is not None
        graph.launch(stream)
        definition.instantiate().launch(stream)
        stream.sync()
        assert called == [1, 2]

    def test_released(self, device: ch.Device) -> None:
        """A function would be kept although no graph can call it."""
        definition = cg.GraphDefinition()

        def function() -> None: ...

        reference = weakref.ref(function)
        node = definition.callback(function)
        copy, pairs = definition.clone()
        del function, node, definition
        gc.collect()
        assert reference() is not None
        del copy, pairs
        for _ in range(1000):
            gc.collect()
            device.default_stream.sync()
            if reference() is None:
                break
        assert reference() is None

    def test_many_released_at_once(self, device: ch.Device) -> None:
        """Many functions that are released with one graph would overflow the queue, or need a context."""
        alive = weakref.WeakSet[Any]()
        definition = cg.GraphDefinition()

        def function() -> Callable[[], None]:
            def call() -> None: ...

            alive.add(call)
            return call

        definition.add_many([("callback", None, function()) for _ in range(20000)])
        assert len(alive) == 20000
        thread = threading.Thread(target=definition.close)  # no context is current there
        thread.start()
        thread.join()
        for _ in range(1000):
            device.default_stream.sync()
            gc.collect()
            if not alive:
                break
        assert not alive

    def test_raises(self, definition: cg.GraphDefinition, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        """An exception would be lost, or propagate into the driver."""
        import sys

        seen: list[Any] = []
        monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: seen.append(unraisable.exc_type))

        def fail() -> None:
            raise KeyError("x")

        definition.callback(fail)
        run(definition)
        assert seen == [KeyError]

    def test_ctypes_function(self, definition: cg.GraphDefinition, run: Run) -> None:
        """A ctypes function would get a wrong argument, or be released before it is called."""
        seen: list[bytes] = []
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

        @prototype
        def read(address: int) -> None:
            seen.append(ctypes.string_at(address, 4))

        data = bytearray(b"abcd")
        node = definition.callback(read, user_data=data)
        data[:] = b"wxyz"  # the node has a copy
        assert node.function is None
        kept = ctypes.create_string_buffer(b"1234")
        node.callback(read, user_data=ctypes.addressof(kept))
        del node, read
        gc.collect()
        run(definition)
        assert seen == [b"abcd", b"1234"]

    def test_address_of_numpy(self, definition: cg.GraphDefinition, run: Run) -> None:
        """A NumPy integer that is an address would be read as a number of bytes."""
        seen: list[Any] = []
        definition.callback(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(seen.append), user_data=np.int64(4096))
        run(definition)
        assert seen == [4096]

    def test_ctypes_null(self, definition: cg.GraphDefinition, run: Run) -> None:
        """Without user data, a function would still get an address."""
        seen: list[Any] = []
        definition.callback(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(seen.append))
        run(definition)
        assert seen == [None]

    def test_bad_input(self, definition: cg.GraphDefinition) -> None:
        """A function that CUDA cannot call, or data that it cannot pass, would be accepted."""
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        wrong: Any = 3
        for call, error, match in (
            (lambda: definition.callback(wrong), TypeError, "fn must be a callable or a function of ctypes, not int"),
            (lambda: definition.callback(print, user_data=1), ValueError, "user_data is only supported with functions"),
            (lambda: definition.callback(ctypes.CFUNCTYPE(None)(print)), TypeError, "this one has"),
            (
                lambda: definition.callback(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(print)),
                TypeError,
                "this one returns c_int",
            ),
            (lambda: definition.callback(ctypes.CFUNCTYPE(None, ctypes.c_int)(print)), TypeError, "this one has"),
            (lambda: definition.callback(ctypes.CDLL(None).abort), TypeError, "this one returns"),
            (lambda: definition.callback(ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(print)), TypeError, "Python's lock"),
            (lambda: definition.callback(prototype()), ValueError, "fn is a NULL pointer"),
            (lambda: definition.callback(prototype(print), user_data=1.5), TypeError, "user_data must be an int or"),
            (lambda: definition.callback(prototype(print), user_data=True), TypeError, "bytes-like, not bool"),
            (lambda: definition.callback(prototype(print), user_data=[1, 2]), TypeError, "bytes-like, not list"),
            (lambda: definition.callback(prototype(print), user_data="x"), TypeError, "bytes-like, not str"),
            (lambda: definition.callback(prototype(print), user_data=-1), ValueError, "-1 is not an address"),
        ):
            with pytest.raises(error, match=match):
                call()
        assert not definition.nodes()

    def test_cuda_calls_are_forbidden(self, definition: cg.GraphDefinition, device: ch.Device, run: Run) -> None:
        """A CUDA call in a host function would wait forever instead of being refused."""
        seen: list[BaseException] = []

        def function() -> None:
            try:
                device.create_event()
            except ch.CUDAError as error:
                seen.append(error)

        definition.callback(function)
        run(definition)
        assert [error.code_name for error in seen if isinstance(error, ch.CUDAError)] == ["CUDA_ERROR_NOT_PERMITTED"]

    def test_graphs_are_forbidden(self, definition: cg.GraphDefinition, device: ch.Device, stream: ch.Stream) -> None:
        """A function that uses its graph would wait for the thread that waits for it."""
        seen: list[str] = []
        used: dict[str, Any] = {}  # emptied at the end: a function that keeps its graph keeps itself
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

        def function(_: object = None) -> None:
            whole, graph, node = used["definition"], used["graph"], used["node"]
            calls: list[Callable[[], object]] = [
                whole.nodes, whole.empty, whole.clone, whole.instantiate, node.destroy, node.join,
                lambda: node.function, lambda: list(node.pred), lambda: node.update(print), lambda: str(whole),
                lambda: graph.launch(stream), lambda: graph.update(whole), lambda: graph[node].update(print),
                lambda: whole.add_many([("empty", None)]), whole.create_condition,
            ]  # fmt: skip
            for call in calls:
                try:
                    call()
                except ch.CUDAError as error:
                    seen.append(str(error))

        node = definition.callback(function)
        node.callback(prototype(function))
        used.update(definition=definition, graph=definition.instantiate(), node=node)

        def launch() -> None:
            used["graph"].launch(stream)
            stream.sync()

        def hold_locks() -> None:
            device.set_current()
            _native.locked_call(definition, None, launch)

        thread = threading.Thread(target=hold_locks, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        used.clear()
        assert len(seen) == 30
        for message in seen:
            assert "CUDA_ERROR_NOT_PERMITTED" in message
            assert "graphs cannot be used in a function that CUDA calls" in message


class TestEvents:
    def test_record_and_wait(self, definition: cg.GraphDefinition, device: ch.Device, run: Run) -> None:
        """A node would record a wrong event, or the event would lose its flags."""
        event = device.create_event(ch.EventOptions(timing_enabled=True))
        record = definition.record(event)
        wait = record.wait(event)
        assert record.event == event
        assert wait.event == event
        assert record.event.is_timing_enabled
        run(definition)
        assert event.is_done
        other = device.create_event()
        record.update(other)
        wait.update(other)
        assert record.event == wait.event == other

    def test_keeps_its_event(self, definition: cg.GraphDefinition, device: ch.Device, run: Run) -> None:
        """An event would be destroyed while a node uses it."""
        event = device.create_event()
        node = definition.record(event)
        raw = event._raw
        event.close()
        del event
        gc.collect()
        assert node.event._raw == raw
        run(definition)

    def test_bad_input(self, definition: cg.GraphDefinition, device: ch.Device) -> None:
        """An invalid or closed event would reach the driver."""
        event = device.create_event()
        event.close()
        wrong: Any = 3
        for add in (definition.record, definition.wait):
            with pytest.raises(TypeError, match="event must be an Event, not 'int'"):
                add(wrong)
            with pytest.raises(ch.ClosedError, match="Event has been closed"):
                add(event)
        assert not definition.nodes()


class TestChild:
    def test_runs(self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run) -> None:
        """A child graph would not run, or share its nodes with the graph that it was copied from."""
        child = cg.GraphDefinition()
        inner = child.launch(ONE, add, numbers.buffer, 1)
        node = definition.embed(child)
        inner.update(args=(numbers.buffer, 100))
        run(definition)
        assert numbers[0] == 1
        node.update(child)
        run(definition)
        assert numbers[0] == 101
        (copied,) = node.child_graph.nodes()
        copied.update(args=(numbers.buffer, 1000))
        run(definition)
        assert numbers[0] == 1101

    def test_keeps_what_it_uses(self, definition: cg.GraphDefinition, add: ch.Kernel, run: Run) -> None:
        """Memory of a child graph would be freed with the graph from which it was copied."""
        numbers = Numbers(1)
        view = numbers.view
        child = cg.GraphDefinition()
        child.launch(ONE, add, numbers.buffer, 1)
        definition.embed(child)
        child.close()
        numbers.buffer.close()
        gc.collect()
        run(definition)
        assert view[0] == 1

    def test_bad_input(self, definition: cg.GraphDefinition) -> None:
        """A graph would be embedded in itself."""
        wrong: Any = 3
        with pytest.raises(TypeError, match="child must be a GraphDefinition, not 'int'"):
            definition.embed(wrong)
        node = definition.embed(cg.GraphDefinition())
        for graph in (definition, node.child_graph):
            with pytest.raises(ValueError, match="child is in the same graph as the node that is to run it"):
                definition.embed(graph)
            with pytest.raises(ValueError, match="child is in the same graph as the node that is to run it"):
                node.update(graph)


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

    @pytest.mark.parametrize(("value", "expected"), [(0, 10), (1, 1)])
    def test_if_else(
        self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run, value: int, expected: int
    ) -> None:
        """The wrong body would run."""
        node = definition.if_else(definition.create_condition(value))
        node.then.launch(ONE, add, numbers.buffer, 1)
        node.else_.launch(ONE, add, numbers.buffer, 10)
        assert node.branches == (node.then, node.else_)
        run(definition)
        assert numbers[0] == expected

    @pytest.mark.parametrize("rounds", [1, 5])
    def test_while(
        self, definition: cg.GraphDefinition, add: ch.Kernel, conditional: ch.ObjectCode, numbers: Numbers, run: Run,
        rounds: int,
    ) -> None:  # fmt: skip
        """A loop would run too often, or not often enough."""
        numbers[1] = rounds
        condition = definition.create_condition(1)
        node = definition.while_loop(condition)
        node.body.launch(ONE, add, numbers.buffer, 1).launch(
            ONE, conditional.get_kernel("count_down"), condition, numbers.at(1)
        )
        assert node.cond_type is GraphConditionalType.WHILE
        run(definition)
        assert numbers[0] == rounds

    def test_while_without_a_round(
        self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run
    ) -> None:
        """A loop whose condition is 0 at first would run once, or forever."""
        definition.while_loop(definition.create_condition(0)).body.launch(ONE, add, numbers.buffer, 1)
        run(definition)
        assert numbers[0] == 0

    @pytest.mark.parametrize(("value", "expected"), [(0, 1), (2, 100), (3, 0), (99, 0)])
    def test_switch(
        self, definition: cg.GraphDefinition, add: ch.Kernel, numbers: Numbers, run: Run, value: int, expected: int
    ) -> None:
        """A switch would run a body with another index, or any body if there is none with the index."""
        node = definition.switch(definition.create_condition(value), 3)
        for index, body in enumerate(node.branches):
            body.launch(ONE, add, numbers.buffer, 10**index)
        assert node.cond_type is GraphConditionalType.SWITCH
        run(definition)
        assert numbers[0] == expected

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
            with pytest.raises(ValueError, match="is that of a conditional node already"):
                definition.while_loop(again)
        node.destroy()
        with pytest.raises(ch.CUDAError, match="a condition of the graph is of no conditional node"):
            definition.instantiate()
        (node,) = definition.add_many([("switch", None, alias, 2)])
        with pytest.raises(ValueError, match="is that of a conditional node already"):
            definition.if_then(condition)
        run(definition)
        node.destroy()
        other = definition.if_else(condition)
        run(definition)
        assert other.condition == alias

    def test_used_again_after_a_body(self, definition: cg.GraphDefinition, run: Run) -> None:
        """Conditions that are used in a body, or were created for it, would be lost with the body."""
        outer, inner = definition.create_condition(1), definition.create_condition(0)
        node = definition.if_then(outer)
        own = node.then.create_condition(0)
        node.then.if_then(inner)
        node.then.while_loop(own)
        for condition in (outer, inner, own):
            with pytest.raises(ValueError, match="is that of a conditional node already"):
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
        wrong: Any = 1
        condition = definition.create_condition(0)
        other = cg.GraphDefinition().create_condition()
        node = definition.if_then(condition)
        inner = node.then.create_condition()
        for call, error, match in (
            (lambda: definition.if_then(wrong), TypeError, "condition must be a GraphCondition, not 'int'"),
            (lambda: definition.while_loop(condition), ValueError, "is that of a conditional node already"),
            (lambda: definition.if_then(other), ValueError, "is of another graph"),
            (lambda: definition.switch(inner, 0), ValueError, "count is 0"),
            (lambda: definition.switch(inner, 2**31), ValueError, "count is 2147483648"),
            (lambda: definition.create_condition(-1), ValueError, "default_value is -1"),
            (lambda: definition.create_condition(1.5), TypeError, "default_value must be an int or None, not float"),
        ):
            with pytest.raises(error, match=match):
                call()
        assert definition.nodes() == {node}
        assert repr(condition) == f"<GraphCondition handle={condition.value:#x}>"
        assert len({condition, node.condition}) == 1


class TestEdges:
    def test_bad_input(self, definition: cg.GraphDefinition) -> None:
        """An invalid edge would reach the driver, or a change would be made only in part."""
        a = definition.empty()
        b = a.join()
        c = b.join()
        stranger = cg.GraphDefinition().empty()
        wrong: Any = "x"
        for call, error, match in (
            (lambda: a.pred.add(a), ValueError, "cannot depend on itself"),
            (lambda: a.pred.add(stranger), ValueError, "is a node of another graph"),
            (lambda: c.pred.update([a, stranger]), ValueError, "is a node of another graph"),
            (lambda: c.pred.update([wrong]), TypeError, "a GraphNode is needed, not str"),
            (lambda: c.pred.update(a), TypeError, "an iterable of GraphNode is needed"),
            (lambda: definition.join(stranger), ValueError, "is a node of another graph"),
            (lambda: a.join(stranger), ValueError, "is a node of another graph"),
            (lambda: a.join(wrong), TypeError, "nodes must be a GraphNode, not 'str'"),
            (lambda: definition.add_many([("empty", stranger)]), ValueError, "is a node of another graph"),
        ):
            with pytest.raises(error, match=match):
                call()
        assert definition.edges() == {(a, b), (b, c)}


def test_addresses_of_numpy(definition: cg.GraphDefinition, numbers: Numbers) -> None:
    """An address that is an integer of NumPy would be mistaken for an array in the host's memory."""
    address = int(numbers.buffer.handle)
    node = definition.memset(np.uint64(address), 0, 4, dst_owner=numbers.buffer)
    assert node.dptr == address
    allocation = definition.allocate(64)
    allocation.deallocate(np.int64(allocation.dptr))
    with pytest.raises(ValueError, match="dst must be a Buffer, a device array or an int; -1 is not an address"):
        definition.memset(np.int64(-1), 0, 4)
    with pytest.raises(
        TypeError, match="dptr is an array in host memory; it must be the address from an allocation node"
    ):
        definition.deallocate(np.zeros(3))


def test_too_many_threads(stream: ch.Stream, add: ch.Kernel, numbers: Numbers, definition: cg.GraphDefinition) -> None:
    """A launch that no device supports would end a capture, or its error in a node would not give a reason."""
    large = ch.LaunchConfig(grid=1, block=1025)
    builder = stream.create_graph_builder().begin_building()
    with pytest.raises(ch.CUDAError, match=r"CUDA_ERROR_INVALID_VALUE .*1025, 1, 1.* at most 1024"):
        ch.launch(builder, large, add, numbers.buffer, 1)
    ch.launch(builder, ONE, add, numbers.buffer, 1)
    assert len(builder.end_building().graph_definition.nodes()) == 1
    with pytest.raises(ch.CUDAError, match=r"CUDA_ERROR_INVALID_VALUE .*1025, 1, 1.* at most 1024"):
        definition.launch(large, add, numbers.buffer, 1)
