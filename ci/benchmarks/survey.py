#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the times of all properties, and of many constructors and methods, with those of ``cuda.core``.

    survey.py [--over RATIO] [TEXT...]

The benchmark measures what programs do most; this program finds what it leaves out. Both modules are measured in this
process, alternately, on equal objects; the minima are compared. Rows that take more than RATIO (default 2) times as
long as in ``cuda.core`` are printed, the longest first, then the rows that only one of both can execute. TEXT selects
rows that contain it. Run it on a GPU, or on the simulated driver: ``python -m cudacore_sim python survey.py``.
"""

from __future__ import annotations

import argparse
import importlib
import pickle
import statistics
import timeit
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

ROUNDS = 9
SECONDS = 0.003  # of a measurement
MODULES = ("cuda.core", "cudacore")
SOURCE = 'extern "C" __global__ void kernel(int a, float *p) {}'
PTX = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry kernel() { ret; }\n"

# Objects whose properties are compared.
OBJECTS = """
device device.properties context stream event buffer pool pinned_pool managed_pool virtual_memory pinned_memory program
code kernel kernel.attributes kernel.occupancy config view definition kernel_node memset_node memcpy_node empty_node
record_node wait_node callback_node child_node alloc_node free_node if_node condition builder building graph
""".split()  # fmt: skip

CALLS = """
core.Device(0)
core.Device()
core.Device.get_all_devices()
hash(device), device == device
hash(stream), stream == stream
hash(kernel), kernel == kernel
hash(buffer), buffer == buffer
repr(device)
repr(stream)
repr(buffer)
repr(kernel)
repr(config)
repr(view)
repr(kernel_node)
device.set_current()
device.create_stream(options=core.StreamOptions(nonblocking=True, priority=0))
device.create_event(core.EventOptions())
device.can_access_peer(0)
device.to_system_device()
stream.record()
stream.record(options=core.EventOptions(timing_enabled=True))
stream.wait(device.default_stream)
stream.sync()
stream.__cuda_stream__()
core.Stream.from_handle(address_of_stream)
core.StreamOptions(nonblocking=True)
core.EventOptions()
core.LaunchConfig(grid=(1, 2, 3), block=(32, 1, 1), shmem_size=0)
core.LaunchConfig(grid=2, cluster=2, block=32)
core.launch(stream, core.LaunchConfig(grid=4, block=32), kernel, 1, buffer)
core.ProgramOptions(arch='sm_90')
core.ProgramOptions(arch='sm_90', std='c++17', lineinfo=True, define_macro=['A', ('B', '1')], include_path=['/tmp'])
core.ProgramOptions(arch='sm_90').as_bytes('nvrtc')
core.Program(SOURCE, 'c++', core.ProgramOptions(arch='sm_90')).close()
core.LinkerOptions(arch='sm_90')
core.Linker(ptx, options=core.LinkerOptions(arch='sm_90')).close()
program.compile('cubin', cache=cache)
core.ObjectCode.from_cubin(code.code)
code.get_kernel('kernel')
core.Kernel.from_handle(address_of_kernel)
kernel.attributes.num_regs
kernel.occupancy.max_active_blocks_per_multiprocessor(64, 0)
kernel.occupancy.max_potential_block_size(0, 0)
kernel.occupancy.available_dynamic_shared_memory_per_block(1, 64)
core.Buffer.from_handle(address, 64)
core.Buffer.from_handle(address, 64, owner=device)
buffer.__dlpack__()
buffer.__dlpack__(stream=address_of_stream, max_version=(1, 0))
buffer.__dlpack_device__()
buffer.copy_from(other, stream=stream)
buffer.fill(0, stream=stream)
pool.allocate(64, stream=stream).close(stream)
pool.allocate(0, stream=stream).close(stream)
device.allocate(64, stream=stream).close()
pinned_pool.allocate(64, stream=stream).close()
managed_pool.allocate(64, stream=stream).close()
virtual_memory.allocate(2 << 20).close()
pool.attributes.used_mem_current
core.DeviceMemoryResource(0)
core.DeviceMemoryResource(0, core.DeviceMemoryResourceOptions(max_size=1 << 20)).close()
core.VirtualMemoryResource(device)
core.DeviceMemoryResourceOptions(max_size=1 << 20)
shared_buffer.ipc_descriptor
pickle.dumps(shared_buffer.ipc_descriptor)
core.utils.copy_batch(stream, [buffer], [other])
core.utils.StridedMemoryView.from_any_interface(array, stream_ptr=-1)
core.utils.StridedMemoryView.from_array_interface(array)
core.utils.StridedMemoryView.from_dlpack(array, stream_ptr=-1)
core.utils.StridedMemoryView.from_cuda_array_interface(interface, -1)
core.utils.StridedMemoryView.from_buffer(buffer, (4, 4), itemsize=4)
view.view()
view.view(dtype=np.dtype('i8'))
view.view(view._layout)
device_view.__dlpack__(stream=-1, max_version=(1, 0))
device_view.copy_from(device_view, stream=stream)
device_view.as_tensor_map((8, 8))
viewable(array)
device.create_graph_builder().close()
stream.create_graph_builder().close()
device.create_graph_builder().begin_building().end_building()
captured(lambda builder: core.launch(builder, config, kernel, 1, buffer)).complete().close()
captured(lambda builder: builder.join(*builder.split(2)))
captured(lambda builder: builder.callback(nothing))
captured(lambda builder: builder.if_then(builder.create_condition(1)).begin_building().end_building())
graph.launch(stream)
graph.upload(stream)
executable[kernel_node].update(config=config, kernel=kernel, args=(1, buffer))
executable[memset_node].update(dst=buffer, value=0, width=4096)
kernel_node.update(args=(1, buffer))
memset_node.update(value=1)
graphs.GraphCompleteOptions(auto_free_on_launch=True)
graphs.GraphDefinition()
definition.instantiate()
small.empty().destroy()
small.memset(buffer, 0, 64).destroy()
small.callback(nothing).destroy()
core.system.get_num_devices()
core.system.Device(index=0).name
""".strip().splitlines()


def objects(module: str) -> dict[str, Any]:
    """Make the objects that the rows use."""
    core: Any = importlib.import_module(module)
    graphs: Any = importlib.import_module(f"{module}.graph")
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    event = stream.record(options=core.EventOptions(timing_enabled=True))
    buffer, other = (device.allocate(4096, stream=stream) for _ in range(2))
    program = core.Program(SOURCE, "c++", core.ProgramOptions(arch=f"sm_{device.arch}"))
    code = program.compile("cubin")
    kernel = code.get_kernel("kernel")
    config = core.LaunchConfig(grid=1, block=32)
    array = np.zeros((8, 8))
    view_class = core.utils.StridedMemoryView

    def nothing() -> None:
        pass

    def captured(work: Callable[[Any], object]) -> Any:
        builder = device.create_graph_builder().begin_building()
        work(builder)
        return builder.end_building()

    viewable = core.utils.args_viewable_as_strided_memory((0,))(lambda argument: argument.view(-1))

    class Interface:
        __cuda_array_interface__ = {  # noqa: RUF012
            "shape": (4, 4), "typestr": "<f4", "data": (int(buffer.handle), False), "version": 3,
        }  # fmt: skip

    small, definition, allocating, conditional = (graphs.GraphDefinition() for _ in range(4))
    small.empty()
    kernel_node = definition.launch(config, kernel, 1, buffer)
    memset_node = kernel_node.memset(buffer, 0, 4096)
    memcpy_node, empty_node = definition.memcpy(buffer, other, 64), definition.empty()
    record_node, wait_node = definition.record(event), definition.wait(event)
    callback_node, child_node = definition.callback(nothing), definition.embed(small)
    alloc_node = allocating.allocate(64)
    free_node = alloc_node.deallocate(alloc_node.dptr)
    condition = conditional.create_condition(1)
    builder = captured(lambda builder: core.launch(builder, config, kernel, 1, buffer))
    shared_pool = core.DeviceMemoryResource(0, core.DeviceMemoryResourceOptions(ipc_enabled=True, max_size=2 << 20))
    made = locals() | {"np": np, "pickle": pickle, "SOURCE": SOURCE}
    return made | {
        "context": device.context,
        "pool": device.memory_resource,
        "pinned_pool": core.PinnedMemoryResource(),
        "managed_pool": core.ManagedMemoryResource(),
        "virtual_memory": core.VirtualMemoryResource(device),
        "pinned_memory": core.LegacyPinnedMemoryResource(),
        "shared_buffer": shared_pool.allocate(64, stream=stream),
        "view": view_class.from_any_interface(array, stream_ptr=-1),
        "device_view": view_class.from_buffer(buffer, (16, 16), dtype=np.dtype("f4")),
        "interface": Interface(),
        "cache": core.utils.InMemoryProgramCache(),
        "ptx": core.ObjectCode.from_ptx(PTX),
        "executable": definition.instantiate(),
        "if_node": conditional.if_then(condition),
        "building": device.create_graph_builder().begin_building(),
        "graph": builder.complete(),
        "address": int(buffer.handle),
        "address_of_stream": int(stream.handle),
        "address_of_kernel": int(kernel.handle),
    }


def properties(path: str, *namespaces: dict[str, Any]) -> list[str]:
    """Return the properties that an object has in both modules."""
    ours, theirs = (type(eval(path, namespace)) for namespace in namespaces)
    names = sorted(set(dir(ours)) & set(dir(theirs)))
    return [f"{path}.{name}" for name in names if name[0] != "_" and not callable(getattr(ours, name))]


def problem(loop: Callable[[], object]) -> str | None:
    """Return why a row cannot be measured, or None."""
    try:
        loop()
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return None


def run(loop: Callable[[], object], count: int) -> float:
    """Return the time of one execution in nanoseconds, without garbage collections."""
    return timeit.timeit(loop, number=count) / count * 1e9


def measure(loops: list[Callable[[], object]]) -> list[float]:
    """Return the minima of both modules."""
    counts = [max(1, int(SECONDS * 1e9 / run(loop, 20))) for loop in loops]
    rounds = [[run(*each) for each in zip(loops, counts, strict=True)] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--over", type=float, default=2.0, metavar="RATIO", help="default: %(default)s")
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    namespaces = [objects(module) for module in MODULES]
    rows = [row for path in OBJECTS for row in properties(path, *namespaces)] + CALLS
    results: list[tuple[float, str, list[float]]] = []
    refused = []
    for row in rows:
        if options.texts and not any(text in row for text in options.texts):
            continue
        loops = [eval(f"lambda: {row}", namespace) for namespace in namespaces]
        problems = [problem(loop) for loop in loops]
        if problems == [None, None]:
            times = measure(loops)
            results.append((times[1] / times[0], row, times))
        elif None in problems:
            refused.append(f"{row}: only {MODULES[problems.index(None)]}; {next(filter(None, problems))}")
    print(f"{'ns':72} {MODULES[0]:>10} {MODULES[1]:>10}")
    for ratio, row, (theirs, ours) in sorted(results, reverse=True):
        if ratio > options.over:
            print(f"{row:72.72} {theirs:10,.0f} {ours:10,.0f}   x {ratio:.2f}")
    mean = statistics.geometric_mean(ratio for ratio, _, _ in results)
    print(f"{len(results)} rows, geometric mean {mean:.2f}", *refused, sep="\n")


if __name__ == "__main__":
    main()
