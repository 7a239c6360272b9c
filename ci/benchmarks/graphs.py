# SPDX-License-Identifier: Apache-2.0
"""The functions that the rows about graphs call. They are the same for every module."""

from __future__ import annotations

import functools
import importlib
import itertools
import types
from typing import Any

import numpy as np

from rows import LARGE, NODES, PREDECESSORS


def functions(core: types.ModuleType, names: dict[str, Any]) -> dict[str, Any]:
    """Return the namespace of the rows about graphs: functions that build graphs, and ready graphs."""
    device, stream, config, kernel = names["device"], names["stream"], names["config"], names["k1"]
    pointer, buffer, other, event = names["pointer"], names["buffer"], names["other"], names["event"]
    launch, definition = core.launch, importlib.import_module(f"{core.__name__}.graph").GraphDefinition

    def callback() -> None: ...

    def add_kernels(argument: Any = pointer) -> Any:
        built = definition()
        node = built.launch(config, kernel, argument)
        for _ in range(NODES - 1):
            node = node.launch(config, kernel, argument)
        return built

    def add_many() -> Any:
        items: list[tuple[Any, ...]] = [("launch", None, config, kernel, buffer)]
        items += [("launch", index, config, kernel, buffer) for index in range(NODES - 1)]
        built = definition()
        built.add_many(items)
        return built

    @functools.cache
    def columns() -> tuple[Any, Any]:
        places = np.arange(LARGE)
        return (places % 1024 * 4 + pointer).astype(np.uint64), np.stack([places[:-1], places[1:]], axis=1)

    def add_columns() -> Any:
        arguments, edges = columns()
        return definition().launch_many(config, kernel, arguments, edges=edges)

    def add_memsets() -> Any:
        built = definition()
        built.join(*[built.memset(pointer, 0, 16) for _ in range(NODES)])
        return built

    def add_memcpys() -> Any:
        built = definition()
        node = built.memcpy(buffer, other, 16)
        for _ in range(NODES - 1):
            node = node.memcpy(buffer, other, 16)
        return built

    def add_empties() -> Any:
        built = definition()
        node = built.empty()
        for _ in range(NODES - 1):
            node = node.join()
        return built

    def add_edges() -> Any:
        for first, second in itertools.pairwise(loose):
            second.pred.add(first)
        for first, second in itertools.pairwise(loose):
            second.pred.discard(first)

    def add_callbacks() -> Any:
        built = definition()
        for _ in range(NODES):
            built.callback(callback)
        return built

    def add_records() -> Any:
        built = definition()
        node = built.record(event)
        for _ in range(NODES - 1):
            node = node.record(event)
        return built

    def add_frees() -> Any:
        built = definition()
        node = built.allocate(1024)
        for _ in range(NODES // 2 - 1):
            node = node.deallocate(node.dptr).allocate(1024)
        node.deallocate(node.dptr)
        return built

    def capture(count: int = NODES) -> Any:
        builder = device.create_graph_builder().begin_building()
        for _ in range(count):
            launch(builder, config, kernel, pointer)
        return builder.end_building()

    def capture_prepared() -> Any:
        if not hasattr(kernel, "prepare"):
            return capture()
        builder = device.create_graph_builder().begin_building()
        prepared = kernel.prepare(builder, config, pointer)
        for _ in range(NODES):
            prepared()
        return builder.end_building()

    chain, one_node, many = add_kernels(), capture(1).complete(), capture().complete()
    captured = capture()
    unordered, wide = definition(), definition()
    loose = [unordered.empty() for _ in range(NODES)]
    join = wide.join(*[wide.empty() for _ in range(PREDECESSORS)])
    for runnable in (one_node, many):
        runnable.upload(stream)
    executable = chain.instantiate()
    executable_node = executable[next(iter(chain.nodes()))]
    return locals()
