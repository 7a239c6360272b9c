# SPDX-License-Identifier: Apache-2.0
"""Kernels that the tests load, in PTX, which every driver compiles; memory; and steps that many tests take."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cudacore_graph as cg
import cudacore_handles as ch

MODES = ("relaxed", "thread_local", "global")
ONE = ch.LaunchConfig(grid=1, block=1)
Run = Callable[[cg.GraphDefinition], None]

# The kernels "nothing", "add", "times" and "mix".
PTX = (Path(__file__).resolve().parents[3] / "tests" / "kernels.ptx").read_bytes()
PTX += b"""
// *out *= factor
.visible .entry times(.param .u64 out, .param .u32 factor)
{
    .reg .u64 %p;
    .reg .u32 %x, %n;
    ld.param.u64 %p, [out];
    ld.param.u32 %n, [factor];
    ld.global.u32 %x, [%p];
    mul.lo.u32 %x, %x, %n;
    st.global.u32 [%p], %x;
    ret;
}

// *out = *out * factor + addend + *a + *b + *c
.visible .entry mix(.param .u64 out, .param .u32 factor, .param .u32 addend,
                    .param .u64 a, .param .u64 b, .param .u64 c)
{
    .reg .u64 %p, %q;
    .reg .u32 %x, %y, %n;
    ld.param.u64 %p, [out];
    ld.param.u32 %n, [factor];
    ld.param.u32 %y, [addend];
    ld.global.u32 %x, [%p];
    mul.lo.u32 %x, %x, %n;
    add.u32 %x, %x, %y;
    ld.param.u64 %q, [a];
    ld.global.u32 %y, [%q];
    add.u32 %x, %x, %y;
    ld.param.u64 %q, [b];
    ld.global.u32 %y, [%q];
    add.u32 %x, %x, %y;
    ld.param.u64 %q, [c];
    ld.global.u32 %y, [%q];
    add.u32 %x, %x, %y;
    st.global.u32 [%p], %x;
    ret;
}
"""

_READ_NUMBER = b"""\
    .reg .u64 %c, %p;
    .reg .u32 %x;
    ld.param.u64 %c, [condition];
    ld.param.u64 %p, [number];
    ld.global.u32 %x, [%p];
"""
_SET_CONDITION = b"""\
    { .param .b64 p0; .param .b32 p1;
    st.param.b64 [p0], %c;
    st.param.b32 [p1], %x;
    call.uni cudaGraphSetConditional, (p0, p1); }
"""
# Kernels that set conditions, for drivers that support them: from CUDA 12.3 on.
CONDITIONAL = b"""
.version 8.3
.target sm_75
.address_size 64

.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);

// *counter = (*counter + 1) % period, and the condition is that: whatever the counter was, it comes to 0.
.visible .entry turn(.param .u64 condition, .param .u64 counter, .param .u32 period)
{
    .reg .u64 %c, %p;
    .reg .u32 %x, %n;
    ld.param.u64 %c, [condition];
    ld.param.u64 %p, [counter];
    ld.param.u32 %n, [period];
    ld.global.u32 %x, [%p];
    add.u32 %x, %x, 1;
    rem.u32 %x, %x, %n;
    st.global.u32 [%p], %x;
    SET_CONDITION
    ret;
}

// The condition becomes *number.
.visible .entry set_condition(.param .u64 condition, .param .u64 number)
{
    READ_NUMBER
    SET_CONDITION
    ret;
}

// One less is left in *number, and the condition is that.
.visible .entry count_down(.param .u64 condition, .param .u64 number)
{
    READ_NUMBER
    sub.u32 %x, %x, 1;
    st.global.u32 [%p], %x;
    SET_CONDITION
    ret;
}
""".replace(b"    READ_NUMBER\n", _READ_NUMBER).replace(b"    SET_CONDITION\n", _SET_CONDITION)


def add_function(kind: str) -> str:
    """Return the name of the driver's function that adds a node of a kind, such as "Kernel"."""
    from pytest_cudacore import driver_version  # imported here, because child processes cannot import it

    return "cuGraphAddNode" if driver_version() >= (12, 2) else f"cuGraphAdd{kind}Node"


class Numbers:
    """Unsigned integers that host and device can access, all 0 at first."""

    def __init__(self, count: int) -> None:
        self.buffer = ch.LegacyPinnedMemoryResource().allocate(4 * count)
        self.view = self.buffer.__buffer__().cast("I")
        for index in range(count):
            self.view[index] = 0

    def __getitem__(self, index: int) -> int:
        return int(self.view[index])

    def __setitem__(self, index: int, value: int) -> None:
        self.view[index] = value

    def at(self, index: int) -> int:
        return self.buffer.handle + 4 * index

    def places(self, count: int) -> Any:
        """Return the addresses of the first numbers, an array."""
        import numpy as np  # imported here, because few child processes need it

        return np.arange(count, dtype=np.uint64) * np.uint64(4) + np.uint64(self.at(0))


class DeviceArray:
    """An array of another library: one of the numbers."""

    def __init__(self, numbers: Numbers, index: int = 0) -> None:
        self.numbers = numbers
        data = (numbers.at(index), False)
        self.__cuda_array_interface__ = {"shape": (1,), "typestr": "<u4", "data": data, "version": 3}


def new_kernel() -> ch.Kernel:
    """Return the kernel "add", which nothing else refers to."""
    return ch.ObjectCode.from_ptx(PTX).get_kernel("add")


# Work with memory of 64 bytes, on a stream or a builder.
USES: dict[str, Callable[[Any, ch.Buffer, ch.Buffer], object]] = {
    "launch": lambda on, memory, out: ch.launch(on, ONE, new_kernel(), memory, 1),
    "prepared launch": lambda on, memory, out: new_kernel().prepare(on, ONE, memory, 1)(),
    "fill": lambda on, memory, out: memory.fill(1, stream=on),
    "copy to": lambda on, memory, out: memory.copy_from(out, stream=on),
    "copy from": lambda on, memory, out: out.copy_from(memory, stream=on),
    "part": lambda on, memory, out: memory.copy_part_from(out, 8, height=8, stream=on),
    "batch": lambda on, memory, out: ch.copy_batch(on, [out], [memory]),
    "view": lambda on, memory, out: memory.view("u4", (16,)).copy_from(out.view("u4", (16,)), stream=on),
}


def wait_until(condition: Callable[[], bool]) -> bool:
    """Wait until a condition holds that depends on objects which the driver releases on its own thread."""
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        gc.collect()
        ch.Device().create_event().close()  # destroys what CUDA has released
        time.sleep(0.005)
    return condition()


def launch(graph: cg.Graph, stream: ch.Stream) -> None:
    """Launch a graph, and wait."""
    graph.launch(stream)
    stream.sync()


def kinds_of(definition: cg.GraphDefinition) -> list[str]:
    """Return the class names of a graph's nodes, sorted."""
    return sorted(type(node).__name__ for node in definition.nodes())


def on_another_thread(function: Callable[[], object]) -> None:
    """Call a function on a new thread, and wait for it."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(function).result()
