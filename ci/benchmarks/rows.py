# SPDX-License-Identifier: Apache-2.0
"""What is measured: one row an operation. To measure more, add rows here, and their C counterparts to floor.c.

A row's statement is executed by ``timeit`` in the namespace that worker.py builds. It is the same text for every
module, so it uses only what ``cuda.core`` documents, except in rows that are ours alone.
"""

from __future__ import annotations

from dataclasses import dataclass

BASELINE = "cuda.core"
OURS = "cudacore"

# Targets of rows that have none of their own: the ratio to the baseline, laxer where the baseline is very short.
USUAL_RATIO = 1.3
SHORT_RATIO = 1.6
SHORT_NS = 300.0
# All rows together.
GEOMETRIC_MEAN = 1.0


def chain(count: int) -> str:
    """Return the parameters of a kernel that takes so many pointers."""
    return ", ".join(f"int *p{i}" for i in range(count))


# None of the kernels does anything: it is the call that is measured. The branches keep the parameters from vanishing.
KERNELS = f"""
extern "C" __global__ void k0() {{}}
extern "C" __global__ void k1(float *p) {{ if (p == nullptr) *p = 1.0f; }}
extern "C" __global__ void k5(float *p, float a, int n, double d, unsigned long long u) {{
    if (n == 12345) *p = float(a + d + u);
}}
extern "C" __global__ void k17({chain(17)}) {{ if (p0 != p16) *p0 = 0; }}
extern "C" __global__ void k257({chain(257)}) {{ if (p0 != p256) *p0 = 0; }}
"""

TINY = 'extern "C" __global__ void tiny(float *p) { *p = %d.0f; }'


@dataclass(frozen=True)
class Row:
    """One operation.

    Attributes
    ----------
    name : str
        Of the row here, and of its counterpart in floor.c.
    statement : str
        What is timed.
    number, repeat : int
        Executions in one measurement, and measurements; the median counts.
    setup : str
        Executed before each measurement; its local names are the statement's too.
    drain : bool
        Wait for the stream after each measurement, outside the time.
    gpu : bool
        Needs a GPU.
    ours : bool
        Only cudacore has it.
    ratio : float, optional
        At most so many times the baseline. Without: USUAL_RATIO or SHORT_RATIO.
    floor : str, optional
        The floor's row, where it has another name.
    over_floor : tuple of float, optional
        At most the floor times the first, plus the second in nanoseconds; takes the place of `ratio`.
    """

    name: str
    statement: str
    number: int
    repeat: int = 7
    setup: str = "pass"
    drain: bool = False
    gpu: bool = True
    ours: bool = False
    ratio: float | None = None
    floor: str | None = None
    over_floor: tuple[float, float] | None = None

    @property
    def floor_name(self) -> str:
        return self.floor or self.name


def launch(name: str, kernel: str, args: str, *, ratio: float, floor: str | None = None) -> Row:
    statement = f"launch(stream, config, {kernel}{args})"
    return Row(f"launch, {name}", statement, 500, 15, drain=True, ratio=ratio, floor=floor)


def prepared(name: str, kernel: str, args: str, statement: str, *, floor: str) -> Row:
    return Row(
        f"prepared launch, {name}",
        statement,
        500,
        15,
        setup=f"prepared = {kernel}.prepare(stream, config{args})",
        drain=True,
        ours=True,
        floor=floor,
        over_floor=(1.15, 150.0),
    )


MIXED = ", buffer, f32, i32, 3.0, u64"

ROWS = (
    launch("0 arguments", "k0", "", ratio=1.05),
    launch("1 pointer", "k1", ", pointer", ratio=1.05),
    launch("1 Buffer", "k1", ", buffer", ratio=1.05, floor="launch, 1 pointer"),
    launch("5 mixed", "k5", MIXED, ratio=1.05),
    launch("17 pointers", "k17", ", *pointers17", ratio=1.0),
    launch("17 Buffers", "k17", ", *buffers17", ratio=1.0, floor="launch, 17 pointers"),
    launch("257 pointers", "k257", ", *pointers257", ratio=0.6),
    prepared("0 arguments", "k0", "", "prepared()", floor="launch, 0 arguments"),
    prepared("1 pointer", "k1", ", pointer", "prepared(pointer)", floor="launch, 1 pointer"),
    prepared("5 mixed", "k5", MIXED, "prepared(buffer, f32, i32, 3.0, u64)", floor="launch, 5 mixed"),
    prepared("17 pointers", "k17", ", *pointers17", "prepared(*pointers17)", floor="launch, 17 pointers"),
    prepared("257 pointers", "k257", ", *pointers257", "prepared(*pointers257)", floor="launch, 257 pointers"),
    prepared(
        "257 as a block",
        "k257",
        ", *pointers257",
        "prepared.block[:] = packed257; prepared()",
        floor="launch, 257 pointers",
    ),
    Row("Device()", "Device()", 20_000),
    Row("device.set_current", "device.set_current()", 20_000),
    Row("stream create and close", "device.create_stream().close()", 500),
    Row("stream.sync, idle", "stream.sync()", 2_000),
    Row("event create and close", "device.create_event().close()", 5_000),
    Row("stream.record(event)", "stream.record(event)", 2_000, drain=True),
    Row("stream.wait(event)", "stream.wait(event)", 2_000, drain=True),
    Row("event.is_done", "event.is_done", 5_000),
    Row("event.sync, done", "event.sync()", 5_000),
    Row("event - event", "late - early", 5_000),
    Row("buffer allocate and close", "device.allocate(1024, stream=stream).close(stream)", 2_000, drain=True),
    Row("buffer.copy_to, device", "buffer.copy_to(other, stream=stream)", 500, 15, drain=True),
    Row("buffer.fill", "buffer.fill(0, stream=stream)", 500, 15, drain=True),
    Row("object load and get_kernel", "ObjectCode.from_cubin(cubin).get_kernel('k0')", 50, 5),
    Row("compile to cubin", "Program(TINY % next(serial), 'c++', options).compile('cubin')", 5, 5, gpu=False),
    Row("compile to PTX", "Program(TINY % next(serial), 'c++', options).compile('ptx')", 5, 5, gpu=False),
)

# Modules whose import is timed in fresh processes, each with its target: the ratio to importing the baseline.
IMPORTS = {"cudacore": 0.25, "cudacore_compile": 0.15, "cudacore_handles": None}

# Sizes of wheels, in kB.
WHEELS = {"cudacore-handles": 400.0, "all": 700.0}
