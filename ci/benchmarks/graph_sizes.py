#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Show that the cost of graphs grows linearly: time and memory per node, for graphs of three sizes.

usage: graph_sizes.py [MODULE]          MODULE: default cudacore
"""

from __future__ import annotations

import gc
import importlib
import sys
import time
from pathlib import Path
from typing import Any

from rows import TARGET

SIZES = (1_000, 10_000, 100_000)
KERNEL = 'extern "C" __global__ void k(float *p) { if (p == nullptr) *p = 1.0f; }'
PAGE = 4096


def resident() -> int:
    """Return the process's memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def measure(core: Any, graph: Any, kernel: Any, size: int) -> dict[str, float]:
    """Return the nanoseconds per node of each step, and the bytes of memory per node."""
    config, steps = core.LaunchConfig(grid=1, block=1), {}

    def step(name: str, start: int) -> None:
        steps[f"{name} ns"] = (time.perf_counter_ns() - start) / size

    memory, start = resident(), time.perf_counter_ns()
    definition = graph.GraphDefinition()
    node = definition.launch(config, kernel, 1)
    for _ in range(size - 1):
        node = node.launch(config, kernel, 1)
    step("build", start)
    steps["memory bytes"] = (resident() - memory) / size
    start = time.perf_counter_ns()
    nodes = definition.nodes()
    step("nodes()", start)
    start = time.perf_counter_ns()
    edges = definition.edges()
    step("edges()", start)
    assert (len(nodes), len(edges)) == (size, size - 1)
    del nodes, edges
    start = time.perf_counter_ns()
    executable = definition.instantiate()
    step("instantiate", start)
    start = time.perf_counter_ns()
    executable.close()
    del definition, node, executable
    gc.collect()
    step("destroy", start)
    return steps


def main() -> None:
    module = sys.argv[1] if len(sys.argv) > 1 else "cudacore"
    core, graph = importlib.import_module(module), importlib.import_module(f"{module}.graph")
    device = core.Device(0)
    device.set_current()
    options = core.ProgramOptions(arch=f"sm_{device.arch}")
    kernel = core.Program(KERNEL, "c++", options).compile(TARGET).get_kernel("k")
    measure(core, graph, kernel, 100)  # warm-up: some work is done only once per process
    print(f"{module} {core.__version__}, {device.name}; a node")
    for size in SIZES:
        steps = measure(core, graph, kernel, size)
        print(f"{size:>7,} nodes: " + ", ".join(f"{name} {value:,.0f}" for name, value in steps.items()))


if __name__ == "__main__":
    main()
