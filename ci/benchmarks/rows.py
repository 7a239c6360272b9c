# SPDX-License-Identifier: Apache-2.0
"""The rows of the benchmark, one for each operation: in Python, and the calls of the driver in C.

``timeit`` executes the statement of a row in the namespace that worker.py builds. The text is the same for every
module, so it uses only documented names of ``cuda.core``, except in rows that only cudacore has.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

BASELINE = "cuda.core"
OURS = "cudacore"
FLOOR = "C"

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
FIRST_VALUE = 42  # what "tiny" writes in first_result.py


@dataclass(frozen=True)
class Row:
    """One operation.

    Attributes
    ----------
    name : str
        The name of the row.
    statement : str
        The Python code that is timed. Of a row that is timed as a whole process, its subject: see measure.py.
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
        The target: the maximum ratio to `to`. Default: USUAL_RATIO or SHORT_RATIO, and none without the baseline.
    to : str
        The candidate that the row is compared with, or the name of a row that is measured in the same process.
    extra : float
        Nanoseconds that the row may take in addition.
    c : str
        The calls of the driver that an execution makes, in C, separated by ``; ``; "" leaves plain C out. floor.c has
        the variables and functions.
    uses : str, optional
        What the row needs beside the usual namespace: "graphs", "pools", "sharing" (another process), "threads" (a
        process and cores of its own), "process" (a whole process is timed), or a library. If that is not installed, the
        row is left out.
    per : int
        Number of operations in one execution of the statement.
    """

    name: str
    statement: str
    number: int = 500
    repeat: int = 7
    setup: str = "pass"
    drain: bool = False
    gpu: bool = True
    ours: bool = False
    ratio: float | None = None
    to: str = BASELINE
    extra: float = 0.0
    c: str = ""
    uses: str | None = None
    per: int = 1


NODES, PREDECESSORS, LARGE = 1000, 100, 100_000  # numbers of nodes in the graphs
MAX_THREADS, LAUNCHES = 16, 20_000  # concurrent threads, and launches of all together
MIXED = ", buffer, f32, i32, 3.0, u64"
ALLOCATE = "allocate(1024, stream=stream).close(stream)"
INTS2, INTS8, RAW_KERNEL = "launch, 2 ints", "launch, 8 ints", "CuPy's RawKernel, 8 arrays"
POOL, DENSE = "buffer of a pool", "copy of a view, 4 MiB, dense"
OWN_POOL, OWN_ALLOCATOR = "cupy.empty, CuPy's pool", "torch.empty, PyTorch's allocator"

# Calls of the driver in C: see Row.c.
CREATE_STREAM = "cuStreamCreateWithPriority(&made_stream, CU_STREAM_NON_BLOCKING, 0); cuStreamDestroy(made_stream)"
CREATE_EVENT = "cuEventCreate(&made_event, CU_EVENT_DISABLE_TIMING); cuEventDestroy(made_event)"
WAIT, COPY = "cuStreamWaitEvent(stream, event, 0)", "cuMemcpyAsync(other, buffer, 4096, stream)"
ALLOCATE_IN_C = "cuMemAllocAsync(&made, 1024, stream); cuMemFreeAsync(made, stream)"
LOAD_IN_C = 'load(); cuLibraryGetKernel(&found, loaded, "k0"); cuLibraryUnload(loaded)'
ADD_KERNELS, CAPTURE = "cuGraphDestroy(build(&kernel_node, NODES, true, true))", "cuGraphDestroy(capture(NODES))"

# Rows whose work is queued on the stream: the queue of the driver has room for about a thousand launches.
queued = partial(Row, repeat=15, drain=True)
allocating = partial(Row, number=2_000, drain=True)
# Rows of operations on all nodes of a graph.
on_nodes = partial(Row, number=3, repeat=5, uses="graphs", per=NODES)
adding = partial(on_nodes, ratio=0.45)
running = partial(Row, drain=True, uses="graphs")


def launch(name: str, kernel: str, args: str, ratio: float | None = None, **settings: Any) -> Row:
    statement = f"launch(stream, config, {kernel}{args})"
    return queued(f"launch, {name}", statement, ratio=ratio, c=launch_in_c(kernel), **settings)


def launch_in_c(kernel: str) -> str:
    return f"launch({kernel}, {'mixed' if kernel == 'k5' else 'all_pointers'})"


def from_threads(count: int, kind: str = "one kernel", **settings: Any) -> Row:
    """Return a row that launches from several threads at the same time, each on its own stream."""
    name = f"launch, {count} threads at once" + (f", {kind}" if kind != "one kernel" else "")
    statement = f"launch_from_threads({count}, {kind!r})"
    c = f"launch_from_threads({count})" if kind != "own kernels" else ""
    return Row(name, statement, 1, 5, drain=True, ratio=1.0, uses="threads", per=LAUNCHES, c=c, **settings)


def prepared(name: str, kernel: str, args: str, statement: str) -> Row:
    return queued(
        f"prepared launch, {name}",
        statement,
        setup=f"prepared = {kernel}.prepare(stream, config{args})",
        ours=True,
        ratio=1.15,
        to=FLOOR,
        extra=150.0,
        c=launch_in_c(kernel),
    )


def transferring(name: str, source: str, **settings: Any) -> Row:
    """Return a row that copies host memory to the device; the host does not wait for the copy."""
    setup = f"import cudacore, numpy; there = device.allocate(65536, stream=stream); source = {source}"
    statement = "source.copy_to(there, stream=stream)"
    return queued(f"copy of 64 KiB to the device, {name}", statement, setup=setup, ours=True, **settings)


def hooked(name: str, call: str, within: str | None = None, setup: str = "pass", **settings: Any) -> Row:
    """Return a row that allocates with another library, which reuses memory that was freed before."""
    uses = call.partition(".")[0]
    per, statement = (100, f"with {within}:\n    for _ in range(100): {call}") if within else (1, call)
    setup = f"import {uses}, cudacore.interop; {setup}"
    return queued(name, statement, 2_000 // per, setup=setup, ours=True, uses=uses, per=per, **settings)


def copying(name: str, source: str, **settings: Any) -> Row:
    """Return a row that copies to a contiguous view. Its time includes the copy on the device."""
    setup = (
        "whole, made = (device.allocate(1 << 23, stream=stream).view('float32', (1024, 2048)) for _ in range(2)); "
        "target = made.view(made._layout[:512].reshaped((1024, 1024))); "
        "dense = whole.view(whole._layout[:512].reshaped((1024, 1024))); strided = whole.view(whole._layout[:, ::2])"
    )
    return Row(name, f"target.copy_from({source}, stream); stream.sync()", 50, 15, setup, ours=True, **settings)


ROWS = (
    launch("0 arguments", "k0", "", 0.95),
    launch("1 pointer", "k1", ", pointer", 0.91),
    launch("1 Buffer", "k1", ", buffer", 0.95),
    launch("5 mixed", "k5", MIXED, 0.90),
    launch("17 pointers", "k17", ", *pointers17", 0.86),
    launch("17 Buffers", "k17", ", *buffers17", 0.95),
    launch("257 pointers", "k257", ", *pointers257", 0.56),
    queued(
        "launch, 1 pointer, a new LaunchConfig",
        "launch(stream, LaunchConfig(grid=(2, 3, 1), block=(32, 1, 1), shmem_size=64), k1, pointer)",
        ratio=0.90,
        c=launch_in_c("k1"),
    ),
    prepared("0 arguments", "k0", "", "prepared()"),
    prepared("1 pointer", "k1", ", pointer", "prepared(pointer)"),
    prepared("5 mixed", "k5", MIXED, "prepared(buffer, f32, i32, 3.0, u64)"),
    prepared("17 pointers", "k17", ", *pointers17", "prepared(*pointers17)"),
    prepared("257 pointers", "k257", ", *pointers257", "prepared(*pointers257)"),
    prepared("257 as a block", "k257", ", *pointers257", "prepared.block[:] = packed257; prepared()"),
    Row("Device()", "Device()", 20_000),
    Row("int(stream.handle)", "int(stream.handle)", 5_000, ratio=1.0),
    Row("device.set_current", "device.set_current()", 20_000, c="cuCtxSetCurrent(context)"),
    Row("stream create and close", "device.create_stream().close()", ratio=1.0, c=CREATE_STREAM),
    Row("stream.sync, idle", "stream.sync()", 2_000, c="cuStreamSynchronize(stream)"),
    Row("event create and close", "device.create_event().close()", 5_000, ratio=1.0, c=CREATE_EVENT),
    Row("stream.record(event)", "stream.record(event)", 2_000, drain=True, ratio=1.0, c="cuEventRecord(event, stream)"),
    Row("stream.wait(event)", "stream.wait(event)", 2_000, drain=True, ratio=1.0, c=WAIT),
    Row("event.is_done", "event.is_done", 5_000, c="cuEventQuery(event)"),
    Row("event.sync, done", "event.sync()", 5_000, c="cuEventSynchronize(event)"),
    Row("event - event", "late - early", 5_000, ratio=1.0, c="cuEventElapsedTime(&milliseconds, early, late)"),
    allocating("buffer allocate and close", f"device.{ALLOCATE}", ratio=1.0, c=ALLOCATE_IN_C),
    allocating(POOL, f"pool.{ALLOCATE}", setup="pool = device.memory_resource", ours=True),
    *(
        allocating(
            f"{POOL}, through {name}",
            f"mr.{ALLOCATE}",
            setup=f"import cudacore; pool = device.memory_resource; mr = cudacore.{made}",
            ours=True,
            ratio=ratio,
            to=POOL,
        )
        for name, made, ratio in (
            ("statistics", "StatisticsResourceAdaptor(pool)", 1.15),
            ("a limit", "LimitingResourceAdaptor(pool, 1 << 40)", 1.15),
            ("both", "StatisticsResourceAdaptor(cudacore.LimitingResourceAdaptor(pool, 1 << 40))", 1.25),
            ("a failure callback", "FailureCallbackResourceAdaptor(pool, len)", 1.15),
            ("a log", "LoggingResourceAdaptor(pool, '/dev/null')", 2.0),
            ("tracking without stacks", "TrackingResourceAdaptor(pool, capture_stacks=False)", 4.0),
        )
    ),
    queued("copy_batch, 100 buffers", "copy_batch(stream, sources, targets)", 50, ratio=1.0, per=100),
    queued("buffer.copy_to, device", "buffer.copy_to(other, stream=stream)", ratio=1.0, c=COPY),
    queued("buffer.fill", "buffer.fill(0, stream=stream)", ratio=1.0, c="cuMemsetD8Async(buffer, 0, 4096, stream)"),
    Row("object load and get_kernel", f"ObjectCode.from_{TARGET}(code).get_kernel('k0')", 50, 5, c=LOAD_IN_C),
    *(
        Row(f"compile to {name}", f"Program(TINY % next(serial), 'c++', options).compile({to!r})", 5, 5, gpu=False)
        for name, to in (("cubin", "cubin"), ("PTX", "ptx"))
    ),
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
        ratio=1.0,
    ),
    Row("surface, create and close", "device.create_surface_object(resource=stores).close()", ratio=1.0),
    copying(DENSE, "dense"),
    copying("copy of a view, 4 MiB, every second column", "strided", ratio=2.0, to=DENSE),
    adding("add kernel node, pointer", "add_kernels()", c=ADD_KERNELS),
    adding("add kernel node, Buffer", "add_kernels(buffer)", c=ADD_KERNELS),
    on_nodes(
        "add kernel node, Buffer, in a batch",
        "add_many()",
        ours=True,
        ratio=1.5,
        to=FLOOR,
        c=ADD_KERNELS,
    ),
    on_nodes(
        "add 100,000 kernel nodes, in columns",
        "add_columns()",
        ours=True,
        ratio=1.15,
        to=FLOOR,
        number=1,
        per=LARGE,
        c="cuGraphDestroy(build(&kernel_node, LARGE, true, false))",
    ),
    adding("add memset node", "add_memsets()", c="cuGraphDestroy(build(&memset_node, NODES, false, true))"),
    adding("add memcpy node, Buffers", "add_memcpys()"),
    adding("add empty node", "add_empties()", c="cuGraphDestroy(build(&empty_node, NODES, true, false))"),
    on_nodes("add and remove an edge", "add_edges()", ratio=2.0),
    adding("add callback node", "add_callbacks()"),
    adding("add event record node", "add_records()"),
    adding("add allocation and free node", "add_frees()"),
    on_nodes("definition.nodes()", "chain.nodes()", number=10, ratio=0.30, c="list_nodes()"),
    on_nodes("definition.edges()", "chain.edges()", number=10, ratio=0.30, c="list_edges()"),
    on_nodes("list(node.pred)", "list(join.pred)", number=100, ratio=0.5, per=PREDECESSORS),
    on_nodes("definition.instantiate", "chain.instantiate().close()", ratio=1.0),
    on_nodes("capture 1000 launches", "capture().close()", ratio=0.9, c=CAPTURE),
    on_nodes("capture 1000 launches, prepared", "capture_prepared().close()", ratio=0.6, c=CAPTURE),
    on_nodes("complete 1000 captured launches", "captured.complete().close()", ratio=1.0),
    on_nodes("graph.update, 1000 nodes", "many.update(captured)", number=5, ratio=1.0),
    running("graph.launch, 1 node", "one_node.launch(stream)", 200, 15, ratio=0.6, c="cuGraphLaunch(one_node, stream)"),
    running("graph.launch, 1000 nodes", "many.launch(stream)", 20, 5, ratio=1.0, c="cuGraphLaunch(many, stream)"),
    Row(
        "graph[node].update",
        "executable_node.update(config=config, kernel=k1, args=(pointer,))",
        ratio=0.5,
        uses="graphs",
    ),
    # Driver calls can be slower once a process has used pools of host or managed memory. So these rows come late.
    allocating("pinned buffer of a pool, allocate and close", f"pinned_pool.{ALLOCATE}", ratio=1.0, uses="pools"),
    allocating("managed buffer, allocate and close", f"managed_pool.{ALLOCATE}", ratio=1.0, uses="pools"),
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
        ratio=1.1,
        to="copy of 64 KiB to the device, pinned",
    ),
    Row(
        "import and close of an IPC buffer",
        "from_ipc_descriptor(shared_pool, ipc_descriptor, stream=stream).close(stream)",
        drain=True,
        ratio=1.0,
        uses="sharing",
    ),
    # These rows are last, because they import other libraries into the process.
    launch("2 ints", "k2", ", *pointers2", ours=True),
    launch("2 PyTorch tensors", "k2", ", *torch2", 1.06, to=INTS2, ours=True, uses="torch"),
    launch("2 CuPy arrays", "k2", ", *cupy2", 1.06, to=INTS2, ours=True, uses="cupy"),
    launch("8 ints", "k8", ", *pointers8", ours=True),
    launch("8 PyTorch tensors", "k8", ", *torch8", 1.12, to=INTS8, ours=True, uses="torch"),
    launch("8 CuPy arrays", "k8", ", *cupy8", 1.12, to=INTS8, ours=True, uses="cupy"),
    *(
        allocating(f"view of a {name}", f"from_any_interface({arguments})", ratio=ratio, uses=library)
        for name, arguments, library, ratio in (
            ("PyTorch tensor", "torch2[0], -1", "torch", 0.5),
            ("PyTorch tensor, with a stream", "torch2[0], int(stream.handle)", "torch", 0.5),
            ("CuPy array", "cupy2[0], -1", "cupy", 0.7),
            ("CuPy array, with a stream", "cupy2[0], int(stream.handle)", "cupy", 1.0),
        )
    ),
    queued(RAW_KERNEL, "raw8(one, one, cupy8)", ours=True, uses="cupy", c=launch_in_c("k8")),
    launch("8 CuPy arrays again", "k8", ", *cupy8", 0.9, to=RAW_KERNEL, ours=True, uses="cupy"),
    hooked(OWN_POOL, "cupy.empty(256, 'f4')"),
    hooked(
        "cupy.empty, CuPy's pool over cudacore's",
        "cupy.empty(256, 'f4')",
        "cupy.cuda.using_allocator(pool.malloc)",
        "pool = cudacore.interop.cupy_pool()",
        ratio=1.1,
        to=OWN_POOL,
    ),
    hooked(
        "cupy.empty, cudacore's pool",
        "cupy.empty(256, 'f4')",
        "cupy.cuda.using_allocator(allocator)",
        "allocator = cudacore.interop.cupy_allocator()",
    ),
    hooked(OWN_ALLOCATOR, "torch.empty(256, device='cuda')"),
    hooked(
        "torch.empty, MemPool of cudacore's pool",
        "torch.empty(256, device='cuda')",
        "torch.cuda.use_mem_pool(pool)",
        "pool = cudacore.interop.torch_pool()",
        ratio=1.1,
        to=OWN_ALLOCATOR,
    ),
    # From the start of a process to the first result of its kernel; the statement is the state of the program cache.
    # Plain C always loads compiled code from a file.
    Row("first result, compiled code on disk", "none", ratio=1.25, to=FLOOR, uses="process"),
    Row("first result, cold program cache", "cold", ratio=1.0, uses="process"),
    Row("first result, warm program cache", "warm", ratio=1.1, to=FLOOR, uses="process"),
    # Imports in new processes. The baseline imports itself.
    Row("import cudacore", "cudacore", ratio=0.15, uses="process", gpu=False),
    Row("import cudacore_compile", "cudacore_compile", ratio=0.15, uses="process", gpu=False),
    Row("import cudacore_graph", "cudacore_graph", uses="process", gpu=False),
    Row("import cudacore_handles", "cudacore_handles", uses="process", gpu=False),
)
