#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the rows of one module in this process; print nanoseconds a row as JSON.

usage: worker.py MODULE [TEXT]          TEXT: only the rows whose names contain it
"""

from __future__ import annotations

import importlib
import itertools
import json
import statistics
import struct
import sys
import timeit
import types
from typing import Any

from rows import KERNELS, OURS, ROWS, TINY, Row


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
    except Exception as error:  # each module has errors of its own
        names["no_gpu"] = f"{type(error).__name__}: {error}".splitlines()[0]
        return names

    import numpy as np

    options = core.ProgramOptions(arch=f"sm_{device.arch}", std="c++17")
    module = core.Program(KERNELS, "c++", options).compile("cubin")
    stream = device.create_stream()
    buffer = device.allocate(4096, stream=stream)
    pointer = int(buffer.handle)
    timing = core.EventOptions(timing_enabled=True)
    names |= {f"k{count}": module.get_kernel(f"k{count}") for count in (0, 1, 5, 17, 257)}
    names |= {
        "buffer": buffer,
        "buffers17": (buffer,) * 17,
        "config": core.LaunchConfig(grid=1, block=1),
        "cubin": bytes(module.code),
        "device": device,
        "early": stream.record(options=timing),
        "event": stream.record(),
        "f32": np.float32(1),
        "i32": np.int32(2),
        "late": stream.record(options=timing),
        "options": options,
        "other": device.allocate(4096, stream=stream),
        "packed257": struct.pack("=257Q", *[pointer] * 257),
        "pointer": pointer,
        "pointers17": (pointer,) * 17,
        "pointers257": (pointer,) * 257,
        "stream": stream,
        "u64": np.uint64(7),
    }
    stream.sync()
    return names


def measure(row: Row, names: dict[str, Any]) -> float:
    """Return the median time of a row's statement in nanoseconds; garbage collection is off meanwhile."""
    timer = timeit.Timer(row.statement, row.setup, globals=names)
    times: list[float] = []
    for number in (row.number // 10 + 1, *[row.number] * row.repeat):
        times.append(timer.timeit(number) / number)
        if row.drain:
            names["stream"].sync()
    return statistics.median(times[1:]) * 1e9


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    module, text = sys.argv[1], (sys.argv[2:] or [""])[0]
    core = importlib.import_module(module)
    names = prepare(core)
    results: dict[str, float | str] = {}
    for row in ROWS:
        if text not in row.name or (row.ours and module != OURS):
            continue
        if row.gpu and "no_gpu" in names:
            results[row.name] = names["no_gpu"]
            continue
        try:
            results[row.name] = measure(row, names)
        except Exception as error:  # a row that a module cannot do is a finding, and the others still count
            results[row.name] = f"{type(error).__name__}: {error}".splitlines()[0]
    device = names.get("device")
    json.dump({"version": core.__version__, "device": device.name if device else None, "rows": results}, sys.stdout)


if __name__ == "__main__":
    main()
