#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the bandwidth to device memory by kind of memory and size; print the table that a page draws.

usage: bandwidth.py [--wheels FOLDER] [--largest BYTES] > docs/measured/bandwidth.csv

``charts.py`` draws the file. Each line has a size, and the bandwidth for each kind of memory (``53.2 GB/s``). The time
is that of up to 100 calls, 64 MiB or one call, and of a wait for the stream. Managed memory is moved by ``prefetch``.
The largest size is 1 GiB by default, which needs 3 GiB of host memory.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from pathlib import Path
from typing import Any

import worker
from rows import OURS, Row
from run import install, is_installed

SMALLEST, LARGEST = 1 << 12, 1 << 30
COPY = "for _ in range(count):\n    target.copy_from({}, stream=stream)\nstream.sync()"
MOVE = "managed.prefetch({}, stream=stream)\nstream.sync()"


def rows(size: int) -> list[Row]:
    """Return the rows for a size, named for their kinds of memory."""
    count = max(1, min(100, (64 << 20) // size))
    setup = f"count = {count}"
    return [
        Row("device pool", COPY.format("source"), 1, setup=setup, per=count),
        Row("pinned pool", COPY.format("pinned"), 1, setup=setup, per=count),
        Row("NumPy array", COPY.format("array"), 1, setup=setup, per=count),
        Row("managed pool, prefetch", MOVE.format("device"), 1, setup=MOVE.format("host")),
    ]


def measure(core: Any, np: Any, size: int) -> dict[str, str]:
    """Return the bandwidths for a size."""
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    buffers = {
        "target": device.allocate(size, stream=stream),
        "source": device.allocate(size, stream=stream),
        "pinned": core.PinnedMemoryResource().allocate(size, stream=stream),
        "managed": core.ManagedMemoryResource().allocate(size, stream=stream),
    }
    for buffer in buffers.values():
        buffer.fill(1, stream=stream)  # memory has pages once it was written
    stream.sync()
    names = buffers | {"device": device, "host": core.Host(), "stream": stream, "array": np.ones(size, np.uint8)}
    found = {row.name: text_of_rate(size / min(worker.measure(row, names))) for row in rows(size)}
    for buffer in buffers.values():
        buffer.close()
    return found


def text_of_rate(rate: float) -> str:
    """Return bytes per nanosecond as a text."""
    return f"{rate:,.0f} GB/s" if rate >= 100 else f"{rate:.3g} GB/s"


def text_of_size(size: int) -> str:
    """Return a power of 2 as a text."""
    power = (size.bit_length() - 1) // 10
    return f"{size >> 10 * power} {('bytes', 'KiB', 'MiB', 'GiB')[power]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="install the wheels in it if cudacore is missing")
    parser.add_argument("--largest", type=int, default=LARGEST, metavar="BYTES", help="default: %(default)s")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as site:
        if options.wheels and not is_installed(OURS):
            install(options.wheels, site)
        import numpy as np

        import cudacore as core

        lines = csv.writer(sys.stdout, lineterminator="\n")
        size = SMALLEST
        while size <= options.largest:
            found = measure(core, np, size)
            if size == SMALLEST:
                lines.writerow(["", *found])
            lines.writerow([text_of_size(size), *found.values()])
            size *= 4


if __name__ == "__main__":
    main()
