# SPDX-License-Identifier: Apache-2.0
"""The rows of the benchmark, one for each operation. A new row is added here, and its C counterpart to floor.c.

``timeit`` executes the statement of a row in the namespace that worker.py builds. The text is the same for every
module, so it uses only documented names of ``cuda.core``, except in rows that only cudacore has.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

BASELINE = "cuda.core"
OURS = "cudacore"

# Default targets: the maximum ratio to the baseline. SHORT_RATIO is for rows whose baseline takes less than SHORT_NS.
USUAL_RATIO = 1.3
SHORT_RATIO = 1.6
SHORT_NS = 300.0
# The target for all rows together: the maximum geometric mean of the ratios.
GEOMETRIC_MEAN = 1.0

# The type of code that kernels are compiled to. $CUDACORE_DRIVER usually names the simulated driver, which cannot run
# cubins.
TARGET: Literal["ptx", "cubin"] = "ptx" if os.environ.get("CUDACORE_DRIVER") else "cubin"


def chain(count: int) -> str:
    """Return the declarations of the parameters of a kernel that takes `count` pointers."""
    return ", ".join(f"int *p{i}" for i in range(count))


# The kernels do nothing, because only the call is measured. Without the branches, the compiler would drop parameters.
KERNELS = f"""
extern "C" __global__ void k0() {{}}
extern "C" __global__ void k1(float *p) {{ if (p == nullptr) *p = 1.0f; }}
extern "C" __global__ void k2({chain(2)}) {{ if (p0 == nullptr) *p1 = 0; }}
extern "C" __global__ void k8({chain(8)}) {{ if (p0 == nullptr) *p7 = 0; }}
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
        The name of the row, also in floor.c.
    statement : str
        The Python code that is timed.
    number, repeat : int
        Number of executions in one measurement, and of measurements in one process. The result is the minimum.
    setup : str
        Code that is executed before each measurement. The statement can use its variables.
    drain : bool
        Whether to wait for the stream after each measurement. The wait is not timed.
    gpu : bool
        Whether the row needs a GPU.
    ours : bool
        Whether the operation exists only in cudacore.
    ratio : float, optional
        The target: the maximum ratio to the baseline. Default: USUAL_RATIO or SHORT_RATIO.
    floor : str, optional
        The name of the row in floor.c, if it differs.
    over_floor : tuple of float, optional
        The target instead of `ratio`: at most the time of the floor times the first number, plus the second number in
        nanoseconds.
    over_row : tuple of str and float, optional
        The target instead of `ratio`: at most the time of the named row in the same process, times the number.
    needs : str, optional
        The library whose arrays the row uses. If it is not installed, the row is left out.
    graphs : bool
        Whether the row uses the functions and graphs of graphs.py.
    shared : bool
        Whether the row uses the other process of sharing.py.
    pools : bool
        Whether the row uses pools of host and managed memory.
    threads : bool
        Whether the row runs several threads, and so gets a separate process and more cores.
    per : int
        Number of operations in one execution of the statement.
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
    over_row: tuple[str, float] | None = None
    needs: str | None = None
    graphs: bool = False
    shared: bool = False
    pools: bool = False
    threads: bool = False
    per: int = 1

    @property
    def floor_name(self) -> str:
        return self.floor or self.name


def launch(name: str, kernel: str, args: str, *, ratio: float, floor: str | None = None) -> Row:
    statement = f"launch(stream, config, {kernel}{args})"
    return Row(f"launch, {name}", statement, 500, 15, drain=True, ratio=ratio, floor=floor)


def from_threads(count: int, kind: str = "one kernel", *, ours: bool = False) -> Row:
    """Return a row that launches from several threads at the same time, each on its own stream."""
    name = f"launch, {count} threads at once" + (f", {kind}" if kind != "one kernel" else "")
    statement = f"launch_from_threads({count}, {kind!r})"
    floor = f"launch, {count} threads at once" if ours else None
    return Row(name, statement, 1, 5, drain=True, ours=ours, ratio=1.0, floor=floor, threads=True, per=LAUNCHES)


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


def with_arrays(name: str, kernel: str, arrays: str, *, needs: str, over_row: tuple[str, float]) -> Row:
    """Return a row that launches with another library's arrays. It is measured just after the row to compare with."""
    statement = f"launch(stream, config, {kernel}, *{arrays})"
    return Row(f"launch, {name}", statement, 500, 15, drain=True, ours=True, needs=needs, over_row=over_row)


def viewing(name: str, arguments: str, *, needs: str, ratio: float) -> Row:
    """Return a row that makes a view of another library's array."""
    statement = f"from_any_interface({arguments})"
    return Row(f"view of a {name}", statement, 2_000, 7, drain=True, needs=needs, ratio=ratio)


def allocating_through(name: str, resource: str, *, over_row: tuple[str, float] | None = None) -> Row:
    """Return a row that allocates through an adaptor of the device's pool. It is compared with the pool itself."""
    setup = f"import cudacore; pool = device.memory_resource; mr = {resource}"
    statement = "mr.allocate(1024, stream=stream).close(stream)"
    return Row(name, statement, 2_000, 7, setup=setup, drain=True, ours=True, over_row=over_row)


def transferring(name: str, source: str, *, over_row: tuple[str, float] | None = None) -> Row:
    """Return a row that copies host memory to the device; the host does not wait for the copy."""
    setup = f"import cudacore, numpy; there = device.allocate(65536, stream=stream); source = {source}"
    statement = "source.copy_to(there, stream=stream)"
    return Row(f"copy of 64 KiB to the device, {name}", statement, 500, 15, setup, True, ours=True, over_row=over_row)


def hooked(
    name: str, call: str, *, within: str | None = None, setup: str = "pass", over_row: tuple[str, float] | None = None
) -> Row:
    """Return a row that allocates with another library, which reuses memory that was freed before."""
    needs = call.partition(".")[0]
    per, statement = (100, f"with {within}:\n    for _ in range(100): {call}") if within else (1, call)
    setup = f"import {needs}, cudacore.interop; {setup}"
    return Row(name, statement, 2_000 // per, 15, setup, True, ours=True, needs=needs, per=per, over_row=over_row)


def copying(name: str, source: str, *, over_row: tuple[str, float] | None = None) -> Row:
    """Return a row that copies to a contiguous view. Its time includes the copy on the device."""
    setup = (
        "whole, made = (device.allocate(1 << 23, stream=stream).view('float32', (1024, 2048)) for _ in range(2)); "
        "target = made.view(made._layout[:512].reshaped((1024, 1024))); "
        "dense = whole.view(whole._layout[:512].reshaped((1024, 1024))); strided = whole.view(whole._layout[:, ::2])"
    )
    statement = f"target.copy_from({source}, stream); stream.sync()"
    return Row(f"copy of a view, 4 MiB, {name}", statement, 50, 15, setup=setup, ours=True, over_row=over_row)


def adding(name: str, statement: str, *, floor: str | None = None) -> Row:
    """Return a row that builds a graph of many nodes, and drops it."""
    return Row(f"add {name}", statement, 3, 5, ratio=0.45, floor=floor, graphs=True, per=NODES)


def large(name: str, statement: str, factor: float | None, *, floor: str | None = None) -> Row:
    """Return a row that uses a graph of very many nodes, built from columns of arguments, as only cudacore can."""
    over_floor = (factor, 0.0) if factor else None
    return Row(name, statement, 1, 5, ours=True, floor=floor, over_floor=over_floor, graphs=True, per=LARGE)


MIXED = ", buffer, f32, i32, 3.0, u64"
INTS2, INTS8, RAW_KERNEL = "launch, 2 ints", "launch, 8 ints", "CuPy's RawKernel, 8 arrays"
OWN_POOL, OWN_ALLOCATOR = "cupy.empty, CuPy's pool", "torch.empty, PyTorch's allocator"
CUPY_EMPTY, TORCH_EMPTY = "cupy.empty(256, 'f4')", "torch.empty(256, device='cuda')"
NODES, PREDECESSORS, LARGE = 1000, 100, 100_000  # numbers of nodes in the graphs; floor_graphs.c has the same numbers
MAX_THREADS, LAUNCHES = 16, 20_000  # concurrent threads, and launches of all together; floor.c has the same numbers

ROWS = (
    launch("0 arguments", "k0", "", ratio=0.95),
    launch("1 pointer", "k1", ", pointer", ratio=0.91),
    launch("1 Buffer", "k1", ", buffer", ratio=0.95, floor="launch, 1 pointer"),
    launch("5 mixed", "k5", MIXED, ratio=0.90),
    launch("17 pointers", "k17", ", *pointers17", ratio=0.86),
    launch("17 Buffers", "k17", ", *buffers17", ratio=0.95, floor="launch, 17 pointers"),
    launch("257 pointers", "k257", ", *pointers257", ratio=0.56),
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
    Row("stream create and close", "device.create_stream().close()", 500, ratio=1.0),
    Row("stream.sync, idle", "stream.sync()", 2_000),
    Row("event create and close", "device.create_event().close()", 5_000, ratio=1.0),
    Row("stream.record(event)", "stream.record(event)", 2_000, drain=True, ratio=1.0),
    Row("stream.wait(event)", "stream.wait(event)", 2_000, drain=True, ratio=1.0),
    Row("event.is_done", "event.is_done", 5_000),
    Row("event.sync, done", "event.sync()", 5_000),
    Row("event - event", "late - early", 5_000, ratio=1.0),
    Row(
        "buffer allocate and close",
        "device.allocate(1024, stream=stream).close(stream)",
        2_000,
        drain=True,
        ratio=1.0,
    ),
    allocating_through("buffer of a pool", "pool"),
    *(
        allocating_through(
            f"buffer of a pool, through {name}", f"cudacore.{made}", over_row=("buffer of a pool", max_ratio)
        )
        for name, made, max_ratio in (
            ("statistics", "StatisticsResourceAdaptor(pool)", 1.15),
            ("a limit", "LimitingResourceAdaptor(pool, 1 << 40)", 1.15),
            ("both", "StatisticsResourceAdaptor(cudacore.LimitingResourceAdaptor(pool, 1 << 40))", 1.25),
            ("a failure callback", "FailureCallbackResourceAdaptor(pool, len)", 1.15),
            ("a log", "LoggingResourceAdaptor(pool, '/dev/null')", 2.0),
            ("tracking without stacks", "TrackingResourceAdaptor(pool, capture_stacks=False)", 4.0),
        )
    ),
    Row("copy_batch, 100 buffers", "copy_batch(stream, sources, targets)", 50, 15, drain=True, ratio=1.0, per=100),
    Row("buffer.copy_to, device", "buffer.copy_to(other, stream=stream)", 500, 15, drain=True, ratio=1.0),
    Row("buffer.fill", "buffer.fill(0, stream=stream)", 500, 15, drain=True, ratio=1.0),
    Row("object load and get_kernel", f"ObjectCode.from_{TARGET}(code).get_kernel('k0')", 50, 5),
    Row("compile to cubin", "Program(TINY % next(serial), 'c++', options).compile('cubin')", 5, 5, gpu=False),
    Row("compile to PTX", "Program(TINY % next(serial), 'c++', options).compile('ptx')", 5, 5, gpu=False),
    *(from_threads(count) for count in (1, 2, 4, 8, 16)),
    from_threads(8, "own kernels"),
    from_threads(8, "prepared", ours=True),
    Row("view of a Buffer", "from_buffer(buffer, (16, 16), dtype=np_f32)", 2_000),
    Row("view of a NumPy array", "from_any_interface(array, -1)", 2_000),
    Row("view.shape", "view.shape", 20_000),
    Row("view.as_tensor_map", "matrix_view.as_tensor_map((8, 8))", 2_000, ratio=0.6),
    Row("array, create and close", "device.create_opaque_array(array_options).close()", 200, ratio=1.0),
    Row(
        "texture, create and close",
        "device.create_texture_object(resource=texels, options=texture_options).close()",
        500,
        ratio=1.0,
    ),
    Row("surface, create and close", "device.create_surface_object(resource=stores).close()", 500, ratio=1.0),
    copying("dense", "dense"),
    copying("every second column", "strided", over_row=("copy of a view, 4 MiB, dense", 2.0)),
    adding("kernel node, pointer", "add_kernels()"),
    adding("kernel node, Buffer", "add_kernels(buffer)", floor="add kernel node, pointer"),
    Row(
        "add kernel node, Buffer, in a batch",
        "add_many()",
        3,
        5,
        ours=True,
        floor="add kernel node, pointer",
        over_floor=(1.5, 0.0),
        graphs=True,
        per=NODES,
    ),
    large("add 100,000 kernel nodes, in columns", "add_columns()", 1.15),
    large(
        "add 100,000 kernel nodes, in a batch", "add_many(LARGE)", None, floor="add 100,000 kernel nodes, in columns"
    ),
    large("copy of 100,000 kernel nodes", "large().copy().close()", 1.2),
    large("graph.update, 100,000 nodes", "update_large()", 1.2),
    large("graph.update_many, 100,000 nodes", "update_columns()", None, floor="graph[node].update"),
    adding("memset node", "add_memsets()"),
    adding("memcpy node, Buffers", "add_memcpys()"),
    adding("empty node", "add_empties()"),
    Row("add and remove an edge", "add_edges()", 3, 5, ratio=2.0, graphs=True, per=NODES),
    adding("callback node", "add_callbacks()"),
    adding("event record node", "add_records()"),
    adding("allocation and free node", "add_frees()"),
    Row("definition.nodes()", "chain.nodes()", 10, 5, ratio=0.30, graphs=True, per=NODES),
    Row("definition.edges()", "chain.edges()", 10, 5, ratio=0.30, graphs=True, per=NODES),
    Row("list(node.pred)", "list(join.pred)", 100, 5, ratio=0.5, graphs=True, per=PREDECESSORS),
    Row("definition.instantiate", "chain.instantiate().close()", 3, 5, ratio=1.0, graphs=True, per=NODES),
    Row("capture 1000 launches", "capture().close()", 3, 5, ratio=0.9, graphs=True, per=NODES),
    Row(
        "capture 1000 launches, prepared",
        "capture_prepared().close()",
        3,
        5,
        ratio=0.6,
        floor="capture 1000 launches",
        graphs=True,
        per=NODES,
    ),
    Row("complete 1000 captured launches", "captured.complete().close()", 3, 5, ratio=1.0, graphs=True, per=NODES),
    Row("graph.update, 1000 nodes", "many.update(captured)", 5, 5, ratio=1.0, graphs=True, per=NODES),
    Row("graph.launch, 1 node", "one_node.launch(stream)", 200, 15, drain=True, ratio=0.6, graphs=True),
    Row("graph.launch, 1000 nodes", "many.launch(stream)", 20, 5, drain=True, ratio=1.0, graphs=True),
    Row(
        "graph[node].update",
        "executable_node.update(config=config, kernel=k1, args=(pointer,))",
        500,
        7,
        ratio=0.5,
        graphs=True,
    ),
    # Driver calls can be slower once a process has used pools of host or managed memory. So these rows come late.
    Row(
        "pinned buffer of a pool, allocate and close",
        "pinned_pool.allocate(1024, stream=stream).close(stream)",
        2_000,
        drain=True,
        ratio=1.0,
        pools=True,
    ),
    Row(
        "managed buffer, allocate and close",
        "managed_pool.allocate(1024, stream=stream).close(stream)",
        2_000,
        drain=True,
        ratio=1.0,
        pools=True,
    ),
    Row(
        "managed buffer without a pool, allocate and close",
        "resource.allocate(1024).close()",
        100,
        setup="import cudacore; resource = cudacore.LegacyManagedMemoryResource()",
        ours=True,
    ),
    Row(
        "register and unregister an array of 1 MiB",
        "cudacore.register_host_memory(large).close()",
        20,
        setup="import cudacore, numpy; large = numpy.zeros(1 << 20, 'u1')",
        ours=True,
    ),
    transferring("pinned", "cudacore.PinnedMemoryResource().allocate(65536, stream=stream)"),
    transferring(
        "registered",
        "cudacore.register_host_memory(numpy.zeros(65536, 'u1'))",
        over_row=("copy of 64 KiB to the device, pinned", 1.1),
    ),
    Row(
        "import and close of an IPC buffer",
        "from_ipc_descriptor(shared_pool, ipc_descriptor, stream=stream).close(stream)",
        500,
        drain=True,
        ratio=1.0,
        shared=True,
    ),
    # These rows are last, because they import other libraries into the process.
    Row(INTS2, "launch(stream, config, k2, *pointers2)", 500, 15, drain=True, ours=True),
    with_arrays("2 PyTorch tensors", "k2", "torch2", needs="torch", over_row=(INTS2, 1.06)),
    with_arrays("2 CuPy arrays", "k2", "cupy2", needs="cupy", over_row=(INTS2, 1.06)),
    Row(INTS8, "launch(stream, config, k8, *pointers8)", 500, 15, drain=True, ours=True),
    with_arrays("8 PyTorch tensors", "k8", "torch8", needs="torch", over_row=(INTS8, 1.12)),
    with_arrays("8 CuPy arrays", "k8", "cupy8", needs="cupy", over_row=(INTS8, 1.12)),
    viewing("PyTorch tensor", "torch2[0], -1", needs="torch", ratio=0.5),
    viewing("PyTorch tensor, with a stream", "torch2[0], int(stream.handle)", needs="torch", ratio=0.5),
    viewing("CuPy array", "cupy2[0], -1", needs="cupy", ratio=0.7),
    viewing("CuPy array, with a stream", "cupy2[0], int(stream.handle)", needs="cupy", ratio=1.0),
    Row(RAW_KERNEL, "raw8(one, one, cupy8)", 500, 15, drain=True, ours=True, needs="cupy", floor=INTS8),
    with_arrays("8 CuPy arrays again", "k8", "cupy8", needs="cupy", over_row=(RAW_KERNEL, 0.9)),
    hooked(OWN_POOL, CUPY_EMPTY),
    hooked(
        "cupy.empty, CuPy's pool over cudacore's",
        CUPY_EMPTY,
        within="cupy.cuda.using_allocator(pool.malloc)",
        setup="pool = cudacore.interop.cupy_pool()",
        over_row=(OWN_POOL, 1.1),
    ),
    hooked(
        "cupy.empty, cudacore's pool",
        CUPY_EMPTY,
        within="cupy.cuda.using_allocator(allocator)",
        setup="allocator = cudacore.interop.cupy_allocator()",
    ),
    hooked(OWN_ALLOCATOR, TORCH_EMPTY),
    hooked(
        "torch.empty, MemPool of cudacore's pool",
        TORCH_EMPTY,
        within="torch.cuda.use_mem_pool(pool)",
        setup="pool = cudacore.interop.torch_pool()",
        over_row=(OWN_ALLOCATOR, 1.1),
    ),
)

# The time from the start of a process to the first result of its kernel. Each row has the state of the program cache
# (or None) and a target: the maximum ratio to the named candidate. Plain C always loads compiled code from a file.
FIRST_RESULTS = {
    "first result, compiled code on disk": (None, "C", 1.25),
    "first result, cold program cache": ("cold", BASELINE, 1.0),
    "first result, warm program cache": ("warm", "C", 1.1),
}
FIRST_VALUE = 42

# Modules whose import is timed in new processes, with their targets: the maximum ratio to the import of the baseline.
IMPORTS = {"cudacore": 0.15, "cudacore_compile": 0.15, "cudacore_graph": None, "cudacore_handles": None}
