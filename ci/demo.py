#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile one templated kernel for many GPUs, show the results, and launch it: on a GPU, or on the simulated driver.

usage: demo.py [ARCHITECTURE...] such as sm_90; default: one of each generation that NVRTC supports
"""

from __future__ import annotations

import sys
import time

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import cudacore as core
import cudacore_sim

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")

SOURCE = """
template <typename T>
__global__ void axpy(T a, const T *x, T *y, size_t n) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
        y[i] += a * x[i];
}
"""
INSTANCES = ("axpy<float>", "axpy<double>", "axpy<long long>")

console = Console()


def compile_all(architectures: tuple[str, ...]) -> Table:
    """Compile the source to PTX and to a cubin for each architecture; return a table with a row for each result."""
    table = Table("architecture", "target", "bytes", "ms", "instances", title="Compiled by NVRTC, on this CPU")
    for column in table.columns[2:5]:
        column.justify = "right"
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=2 * len(architectures))
        for arch in architectures:
            for target in ("ptx", "cubin"):
                progress.update(task, description=f"{arch} {target}")
                start = time.perf_counter()
                program = core.Program(SOURCE, "c++", core.ProgramOptions(arch=arch, std="c++17"))
                module = program.compile(target, name_expressions=INSTANCES)
                elapsed = time.perf_counter() - start
                table.add_row(
                    arch if target == "ptx" else "",
                    target,
                    f"{len(module.code):,}",
                    f"{elapsed * 1e3:.1f}",
                    str(len(module.symbol_mapping)),
                    end_section=target == "cubin",
                )
                progress.advance(task)
    return table


def show_names() -> None:
    """Show the lowered names that the template's instances have in the object code."""
    module = core.Program(SOURCE, "c++", core.ProgramOptions(arch=ARCHITECTURES[-1])).compile("ptx", INSTANCES)
    table = Table("instance", "lowered name", title="Templates are called by their C++ names")
    for name, lowered in module.symbol_mapping.items():
        table.add_row(name, lowered)
    console.print(table)


def launch(target: core.typing.CompileTargetName) -> None:
    """Compile one instance for the current device, launch it, and check its result."""
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    module = core.Program(SOURCE, "c++", core.ProgramOptions(arch=f"sm_{device.arch}")).compile(target, INSTANCES)

    n, a = 1 << 20, 2.5
    host = core.LegacyPinnedMemoryResource().allocate(4 * n)
    values = np.from_dlpack(host).view(np.float32)  # type: ignore[arg-type, unused-ignore]
    values[:] = expected = np.arange(n) % 1024
    x, y = (device.allocate(host.size, stream=stream) for _ in "xy")
    x.copy_from(host, stream=stream)
    y.copy_from(host, stream=stream)

    timing = core.EventOptions(timing_enabled=True)
    config = core.LaunchConfig(grid=(n + 255) // 256, block=256)
    start = stream.record(options=timing)
    core.launch(stream, config, module.get_kernel("axpy<float>"), a, x, y, n)
    end = stream.record(options=timing)
    y.copy_to(host, stream=stream)
    stream.sync()

    wrong = int(np.count_nonzero(values != (a + 1) * expected))
    where = f"on [bold]{device.name}[/] (sm_{device.arch}) in {end - start:.3f} ms"
    verdict = f"[red]{wrong:,} results are wrong" if wrong else "[green]all results are right"
    console.print(f"Launched axpy<float> over {n:,} elements {where}: {verdict}")
    if wrong:
        sys.exit(1)


def main() -> None:
    console.print(f"cudacore {core.__version__}\n")
    try:
        table = compile_all(tuple(sys.argv[1:]) or ARCHITECTURES)
    except core.NVRTCError as error:
        console.print(str(error), style="red", markup=False)
        sys.exit(1)
    console.print(table)
    show_names()
    try:
        devices = core.Device.get_all_devices()
        reason = "the driver sees no device"
    except core.CUDAError as error:
        devices, reason = (), error.meaning
    if devices and not cudacore_sim.is_loaded():
        launch("cubin")
        return
    if not devices:
        console.print(f"No GPU here: {reason}.", markup=False)
    try:
        cudacore_sim.load()
    except cudacore_sim.SimulatorError as error:
        console.print(f"Nor can one be simulated: {error}", markup=False)
        return
    console.print(
        "[yellow]On the simulated driver[/], which interprets PTX on this CPU (its times say nothing of a GPU):"
    )
    launch("ptx")


if __name__ == "__main__":
    main()
