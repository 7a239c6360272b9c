# SPDX-License-Identifier: Apache-2.0
"""Nodes that call host functions: when the functions are called, and what keeps them."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_tools import Run, wait_until

import cudacore_graph as cg
import cudacore_handles as ch


class TestCallback:
    def test_update(self, definition: cg.GraphDefinition, stream: ch.Stream) -> None:
        """After a node of its definition is updated, an executable graph would call the new function, not its own."""
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
        assert wait_until(lambda: reference() is None)

    def test_many_released_at_once(self, device: ch.Device) -> None:
        """Releasing many functions with one graph would overflow the queue of owners, or need a current context."""
        alive = weakref.WeakSet[Any]()
        definition = cg.GraphDefinition()

        def function() -> Callable[[], None]:
            def call() -> None: ...

            alive.add(call)
            return call

        definition.add_many([("callback", None, function()) for _ in range(20000)])
        assert len(alive) == 20000
        thread = threading.Thread(target=definition.close)  # no context is current on a new thread
        thread.start()
        thread.join()
        assert wait_until(lambda: not alive)

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
        data[:] = b"wxyz"  # the node has its own copy of the data
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
        """Without user data, a function would get an address instead of NULL."""
        seen: list[Any] = []
        definition.callback(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(seen.append))
        run(definition)
        assert seen == [None]

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
        (error,) = seen
        assert isinstance(error, ch.CUDAError)
        assert error.code_name == "CUDA_ERROR_NOT_PERMITTED"
        assert "does not allow calls of CUDA in a callback" in error.hint

    def test_graphs_are_forbidden(self, definition: cg.GraphDefinition, device: ch.Device, stream: ch.Stream) -> None:
        """A host function that uses its own graph would wait forever for the thread that waits for the graph."""
        seen: list[str] = []
        used: dict[str, Any] = {}  # emptied at the end, because the function and its graph keep each other
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
            device.set_current()
            used["graph"].launch(stream)
            stream.sync()

        thread = threading.Thread(target=launch, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        used.clear()
        assert len(seen) == 30
        for message in seen:
            assert "CUDA_ERROR_NOT_PERMITTED" in message
            assert "graphs cannot be used in a function that CUDA calls" in message
