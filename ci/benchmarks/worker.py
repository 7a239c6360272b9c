#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the rows of one module in this process; print nanoseconds of each measurement as JSON.

usage: worker.py MODULE [ROW...]          ROW: the name of a row; default: all rows

instructions.py sets $COMPILED_KERNELS, a file. Then the result of a row is what instructions.py reads its profiles by.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import multiprocessing
import os
import struct
import sys
import tempfile
import threading
import timeit
import types
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import graphs
from rows import KERNELS, LAUNCHES, MAX_THREADS, OURS, ROWS, TARGET, TINY, Row

HANGS = 60.0  # seconds after which threads that launch count as deadlocked
CODE = os.environ.get("COMPILED_KERNELS")


def prepare(core: types.ModuleType) -> dict[str, Any]:
    """Build the namespace that the rows' statements run in."""
    names: dict[str, Any] = {
        "Device": core.Device,
        "ObjectCode": core.ObjectCode,
        "Program": core.Program,
        "TINY": TINY,
        "serial": itertools.count(),
        "launch": core.launch,
        "options": core.ProgramOptions(arch="sm_90", std="c++17"),
    }
    try:
        device = core.Device(0)
        device.set_current()
    except Exception as error:  # each module has different exception classes
        names["no_gpu"] = f"{type(error).__name__}: {error}".splitlines()[0]
        return names

    import numpy as np

    utils = importlib.import_module(f"{core.__name__}.utils")
    from_any_interface, from_buffer = utils.StridedMemoryView.from_any_interface, utils.StridedMemoryView.from_buffer
    copy_batch = utils.copy_batch
    options = core.ProgramOptions(arch=f"sm_{device.arch}", std="c++17")
    if CODE:
        module = core.ObjectCode.from_ptx(Path(CODE).read_bytes())
    else:
        module = core.Program(KERNELS, "c++", options).compile(TARGET)
    code = bytes(module.code)
    kernels = {f"k{count}": module.get_kernel(f"k{count}") for count in (0, 1, 2, 5, 8, 17, 257)}
    stream, *_ = streams = [device.create_stream() for _ in range(1 + MAX_THREADS)]
    LaunchConfig = core.LaunchConfig  # noqa: N806  the name that rows use
    config = LaunchConfig(grid=1, block=1)
    buffer, other = (device.allocate(4096, stream=stream) for _ in range(2))
    sources, targets = ([device.allocate(4096, stream=stream) for _ in range(100)] for _ in range(2))
    pointer = int(buffer.handle)
    one, pointers2, pointers8, pointers17 = (1,), (pointer,) * 2, (pointer,) * 8, (pointer,) * 17
    pointers257, buffers17, packed257 = (pointer,) * 257, (buffer,) * 17, struct.pack("=257Q", *[pointer] * 257)
    f32, i32, u64, np_f32 = np.float32(1), np.int32(2), np.uint64(7), np.dtype(np.float32)
    timing = core.EventOptions(timing_enabled=True)
    early, event, late = stream.record(options=timing), stream.record(), stream.record(options=timing)
    launch_from_threads = launcher_from_threads(core, streams[1:], config, module, pointer)
    array = np.zeros(16)
    view, matrix_view = from_any_interface(np.zeros((2, 3)), -1), from_buffer(buffer, (16, 16), dtype=np.dtype("f4"))
    texture = importlib.import_module(f"{core.__name__}.texture")
    array_options = texture.OpaqueArrayOptions((64, 64), "float32", num_channels=1)
    stored = texture.OpaqueArrayOptions((64, 64), "float32", num_channels=1, is_surface_load_store=True)
    texels, stores = (
        texture.ResourceDescriptor.from_opaque_array(device.create_opaque_array(each))
        for each in (array_options, stored)
    )
    texture_options = texture.TextureObjectOptions(filter_mode="linear", read_mode="element_type")
    stream.sync()
    return names | kernels | locals()


def launcher_from_threads(
    core: types.ModuleType, streams: list[Any], config: Any, module: Any, pointer: int
) -> Callable[[int, str], None]:
    """Return a function that launches from several threads at the same time, each on its own stream.

    The threads share one kernel, have kernels of their own, or have prepared launches of one kernel.
    """
    launch, shared = core.launch, module.get_kernel("k1")
    load = getattr(core.ObjectCode, f"from_{TARGET}")
    own = [load(module.code).get_kernel("k1") for _ in streams]
    prepared = [shared.prepare(stream, config, pointer) for stream in streams] if core.__name__ == OURS else []

    # Each object is a variable of the function that uses it: threads that read one variable of a module wait for each
    # other.
    def work(count: int, stream: Any, kernel: Any) -> None:
        core.Device(0).set_current()  # a Device per thread, because the baseline's cannot be shared
        now, settings, address = launch, config, pointer
        for _ in range(count):
            now(stream, settings, kernel, address)

    def work_prepared(count: int, once: Callable[[int], None], address: int) -> None:
        core.Device(0).set_current()
        for _ in range(count):
            once(address)

    def launch_from_threads(threads: int, kind: str) -> None:
        count = LAUNCHES // threads
        workers = [
            threading.Thread(target=work_prepared, args=(count, prepared[i], pointer), daemon=True)
            if kind == "prepared"
            else threading.Thread(
                target=work, args=(count, streams[i], own[i] if kind == "own kernels" else shared), daemon=True
            )
            for i in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(HANGS)
            if worker.is_alive():
                raise DeadlockError(f"{threads} threads have not finished after {HANGS:.0f} s")

    return launch_from_threads


class DeadlockError(RuntimeError):
    """An error after which this process cannot continue."""


def pools(core: types.ModuleType, names: dict[str, Any]) -> dict[str, Any]:
    return {"pinned_pool": core.PinnedMemoryResource(), "managed_pool": core.ManagedMemoryResource()}


def tensors(core: types.ModuleType, names: dict[str, Any]) -> dict[str, Any]:
    import torch

    arrays = tuple(torch.zeros(16, dtype=torch.int32, device="cuda:0") for _ in range(8))
    return {"torch2": arrays[:2], "torch8": arrays}


def arrays(core: types.ModuleType, names: dict[str, Any]) -> dict[str, Any]:
    import cupy

    cupy.cuda.ExternalStream(int(names["stream"].handle)).use()
    made = tuple(cupy.zeros(16, dtype=cupy.int32) for _ in range(8))
    with tempfile.NamedTemporaryFile(suffix=f".{TARGET}") as file:
        file.write(names["code"])
        file.flush()
        raw = cupy.RawModule(path=file.name).get_function("k8")
    return {"cupy2": made[:2], "cupy8": made, "raw8": raw}


def export(module: str, channel: Connection) -> None:
    """Share a buffer, in a second process, until the first one closes its end of the pipe."""
    core = importlib.import_module(module)
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    pool = core.DeviceMemoryResource(device, core.DeviceMemoryResourceOptions(ipc_enabled=True))
    buffer = pool.allocate(4096, stream=stream)
    stream.sync()
    channel.send((pool.allocation_handle, buffer.ipc_descriptor))
    try:
        channel.recv()
    except EOFError:
        pass


def sharing(core: types.ModuleType, names: dict[str, Any]) -> dict[str, Any]:
    """Start a second process, and return the names that rows need to import its memory."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    # The worker's argument, because cuda.core calls itself by the name of a module that has no more than its version.
    process = spawn.Process(target=export, args=(sys.argv[1], theirs), daemon=True)
    process.start()
    theirs.close()
    handle, descriptor = ours.recv()
    return {
        "from_ipc_descriptor": core.Buffer.from_ipc_descriptor,
        "shared_pool": core.DeviceMemoryResource.from_allocation_handle(0, handle),
        "ipc_descriptor": descriptor,
        "channel": ours,  # the other process ends when this end of the pipe is closed
    }


# The functions that return the names for rows with this `uses`.
NAMES = {"graphs": graphs.functions, "pools": pools, "sharing": sharing, "torch": tensors, "cupy": arrays}
LIBRARIES = ("torch", "cupy")


def measure(row: Row, names: dict[str, Any]) -> list[float]:
    """Return the times of a row's statement in nanoseconds, measured without garbage collections."""
    timer = timeit.Timer(row.statement, row.setup, globals=names)
    times: list[float] = []
    for number in (row.number // 10 + 1, *[row.number] * row.repeat):
        times.append(timer.timeit(number) / number / row.per)
        if row.drain:
            for stream in names["streams"]:
                stream.sync()
    return [time * 1e9 for time in times[1:]]


profiles = 0


def end_profile() -> float:
    """End a profile, and begin the next one: callgrind does so at each call of getppid(). Return its number."""
    global profiles
    os.getppid()
    profiles += 1
    return profiles


def count(row: Row, names: dict[str, Any]) -> list[float]:
    """Execute a row's statement in loops of N, N and 2 N executions, each in a profile of its own.

    Return the number of operations in N executions, and the numbers of the last two profiles.
    """
    timer = timeit.Timer(row.statement, row.setup, end_profile, names)
    number = 20 if row.number >= 5 else 1
    loops = []
    for times in (number, number, 2 * number):
        timer.timeit(times)
        loops.append(profiles)
    return [number * row.per, *loops[1:]]


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    module, *chosen = sys.argv[1:]
    core = importlib.import_module(module)
    names = prepare(core)
    results: dict[str, list[float] | str] = {}
    added = set()
    for row in ROWS:
        if (chosen and row.name not in chosen) or (row.ours and module != OURS) or row.uses == "process":
            continue
        if row.gpu and "no_gpu" in names:
            results[row.name] = names["no_gpu"]
            continue
        if row.uses in LIBRARIES and not importlib.util.find_spec(row.uses):
            results[row.name] = f"needs {row.uses}, which is not installed"
            continue
        try:
            if row.uses in NAMES and row.uses not in added:
                names |= NAMES[row.uses](core, names)
                added.add(row.uses)
            results[row.name] = count(row, names) if CODE else measure(row, names)
        except Exception as error:  # the failure is reported for this row only; the other rows are still measured
            results[row.name] = f"{type(error).__name__}: {error}".splitlines()[0]
            if isinstance(error, DeadlockError):
                break
    json.dump({"version": core.__version__, "rows": results}, sys.stdout)
    sys.stdout.flush()
    if any("DeadlockError" in str(result) for result in results.values()):
        os._exit(0)  # threads that hang would prevent a normal exit


if __name__ == "__main__":
    main()
