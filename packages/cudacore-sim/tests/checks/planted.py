# SPDX-License-Identifier: Apache-2.0
"""The kernels with planted defects, and the code that runs them: on the simulator and, for comparison, on a GPU.

Each kernel of the ``.cu`` files, except for ``order.cu``, has a line above it with its launch and, after a colon, the
expected report; ``~`` stands for any text. Without a colon, no report is expected. ``FOUND`` marks the reported line.
``OTHER`` marks the line of the second access, which the report must name as well. The report may name two racing
accesses in either order. Each kernel gets two buffers: `out` is full of zeros, and `raw` was never written.

``python planted.py LIBRARY CHECK CODE NAME`` runs one kernel. CODE is a file with the kernels of the check, compiled
for the GPU or as PTX. If CHECK is ``order``, NAME is a program of ``order.py``.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
FILES = {  # the files of kernels, with the checks that are to find their defects
    "race": "race",
    "blocks": "race",
    "scopes": "race",
    "protocols": "race",
    "groups": "race,sync",
    "asynchronous": "race",
    "copies": "race",
    "tensor": "race,sync,init",
    "wgmma": "race,sync,init",
    "sync": "sync",
    "masks": "sync",
    "init": "init",
    "unused": "init",
}
BYTES = 4096  # the size of each of a kernel's two buffers


@dataclass(frozen=True)
class Kernel:
    """A kernel, and its expected report."""

    name: str
    grid: int
    block: int
    shared: int
    text: str | None
    """The expected report as a regular expression; None if there is none."""
    found: set[int]
    other: set[int]
    has_maps: bool = False
    """Whether the kernel also gets tensor maps of both buffers."""
    is_cooperative: bool = False


def kernels_of(check: str) -> list[Kernel]:
    lines = (FOLDER / f"{check}.cu").read_text().splitlines()
    kernels = []
    for number, line in enumerate(lines):
        if not line.startswith("//! "):
            continue
        settings, colon, text = line[4:].partition(": ")
        size = {key: int(value) for key, value in (word.split("=") for word in settings.split())}
        name = re.search(r"void (\w+)\(", lines[number + 1])
        assert name, lines[number + 1]
        end = lines.index("}", number)
        marked: dict[str, set[int]] = {"FOUND": set(), "OTHER": set()}
        for at, one in enumerate(lines, 1):
            for mark, places in marked.items():
                if mark in one and (number < at <= end or f"in {name[1]} " in one):
                    places.add(at)
        pattern = ".*".join(re.escape(part.strip()) for part in text.split("~")) if colon else None
        kernels.append(
            Kernel(
                name[1],
                size.get("grid", 1),
                size["block"],
                size.get("shared", 0),
                pattern,
                marked["FOUND"],
                marked["OTHER"],
                " Map " in lines[number + 1],
                "cooperative" in size,
            )
        )
    return kernels


class Cuda:
    """The functions of a driver. A call that fails raises an AssertionError. The primary context is current."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.cuInit(0)
        self.context = self.out("cuDevicePrimaryCtxRetain", 0)
        self.cuCtxSetCurrent(self.context)

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            code = getattr(self.library, name)(*arguments)
            assert code == 0, f"{name}: {code}"

        return call

    def out(self, name: str, *arguments: Any, kind: type = ctypes.c_void_p) -> Any:
        """Call a function whose first parameter is its output; return the output."""
        value = kind()
        getattr(self, name)(ctypes.byref(value), *arguments)
        return value

    def allocate(self, size: int) -> ctypes.c_uint64:
        return self.out("cuMemAlloc_v2", ctypes.c_size_t(size), kind=ctypes.c_uint64)

    def launch(self, module: Any, name: str, grid: int, block: int, shared: int, *arguments: Any, **on: Any) -> None:
        function = self.out("cuModuleGetFunction", module, name.encode())
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        shape = (function, grid, 1, 1, block, 1, 1, shared, on.get("stream"), pointers)
        if on.get("is_cooperative"):
            self.cuLaunchCooperativeKernel(*shape)
        else:
            self.cuLaunchKernel(*shape, None)


def tensor_map(cuda: Cuda, memory: ctypes.c_uint64) -> Any:
    """Return a map of a buffer as 32 rows of 32 numbers, in boxes of 8 rows."""
    room = ctypes.create_string_buffer(128 + 64)
    map_ = (ctypes.c_char * 128).from_buffer(room, -ctypes.addressof(room) % 64)
    wide, narrow = (ctypes.c_uint64 * 2), (ctypes.c_uint * 2)
    cuda.cuTensorMapEncodeTiled(map_, 3, 2, memory, wide(32, 32), wide(128), narrow(32, 8), narrow(1, 1), 0, 0, 0, 0)
    return map_


def run(cuda: Cuda, module: Any, kernel: Kernel) -> None:
    """Launch a planted kernel, and wait until it is done."""
    out, raw = cuda.allocate(BYTES), cuda.allocate(BYTES)
    cuda.cuMemsetD32_v2(out, 0, ctypes.c_size_t(BYTES // 4))
    maps = [tensor_map(cuda, memory) for memory in (out, raw)] if kernel.has_maps else []
    shape = kernel.grid, kernel.block, kernel.shared
    cuda.launch(module, kernel.name, *shape, out, raw, *maps, is_cooperative=kernel.is_cooperative)
    cuda.cuCtxSynchronize()
    cuda.cuMemFree_v2(out)
    cuda.cuMemFree_v2(raw)


def main(library: str, check: str, code: str, name: str) -> None:
    cuda = Cuda(ctypes.CDLL(library))
    module = cuda.out("cuModuleLoadData", Path(code).read_bytes() + b"\0")
    if check == "order":
        from order import PROGRAMS, Stage

        PROGRAMS[name].run(Stage(cuda, module))
    else:
        run(cuda, module, next(one for one in kernels_of(check) if one.name == name))
    cuda.library.cuDevicePrimaryCtxRelease_v2(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
