# SPDX-License-Identifier: Apache-2.0
"""Launches: sizes, arguments, attributes."""

from __future__ import annotations

import ctypes
from ctypes import c_size_t, c_uint32, c_uint64, c_void_p

from ptx import KERNELS
from recorder import Recorder, pointers, sequence
from structs import launch_configuration

COOPERATIVE, SYNCHRONISATION, CLUSTER, SPREAD, PROGRAMMATIC, PROGRAMMATIC_EVENT, PRIORITY = 2, 3, 4, 5, 6, 7, 8
NON_BLOCKING = 1


@sequence
def sizes_that_are_seen(cu: Recorder) -> None:
    """The sizes that a kernel reads from special registers are those of the launch."""
    function, out = cu.function(KERNELS, "where_am_i"), cu.memory(36)
    cu.launch(function, c_uint64(out), grid=(3, 2, 4), block=(8, 5, 2), shared=100)
    cu.see_words("sizes", out, 9)
    configuration = launch_configuration((CLUSTER, (2, 1, 1)), grid=(4, 1, 1), block=(32, 1, 1))
    cu.call("cuLaunchKernelEx", configuration, function, pointers(c_uint64(out)), None)
    cu.see_words("sizes", out, 9)


@sequence
def bad_sizes(cu: Recorder) -> None:
    """Launches with sizes that a device does not support fail, and do not affect later calls."""
    function = cu.function(KERNELS, "nothing")
    for grid in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 65536, 1), (1, 1, 65536), (1 << 31, 1, 1), ((1 << 32) - 1, 1, 1)):
        cu.see("grid", grid)
        cu.launch(function, grid=grid)
    for block in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (1025, 1, 1), (1024, 1, 1), (1, 1024, 1), (1, 1, 64), (1, 1, 65),
    (32, 33, 1),
                  (513, 2, 1), (1 << 31, 2, 1), (65536, 65536, 1)):  # fmt: skip
        cu.see("block", block)
        cu.launch(function, block=block)
    cu.launch(function)
    cu.call("cuCtxSynchronize")


@sequence
def large_grids(cu: Recorder) -> None:
    """Grids with the maximum number of blocks in the second or third dimension, and with many in the first."""
    function = cu.function(KERNELS, "nothing")
    for grid in ((1, 65535, 1), (1, 1, 65535), (65536, 1, 1)):
        cu.launch(function, grid=grid)
    cu.call("cuCtxSynchronize")


@sequence
def bounds_of_kernels(cu: Recorder) -> None:
    """Block sizes that the launch bounds of a kernel (.maxntid, .reqntid) do not allow."""
    for name, blocks in (
        ("at_most_64", ((64, 1, 1), (8, 8, 1), (65, 1, 1))),
        ("just_96", ((96, 1, 1), (48, 2, 1), (95, 1, 1), (97, 1, 1))),
    ):
        function = cu.function(KERNELS, name)
        for block in blocks:
            cu.launch(function, block=block)
    cu.call("cuCtxSynchronize")


@sequence
def shared_memory(cu: Recorder) -> None:
    """Sizes of dynamic shared memory that a kernel allows, and sizes that it does not."""
    out = cu.memory(4, 0)
    for name in ("static_shared", "dynamic_shared"):
        function = cu.function(KERNELS, name)
        for size in (16, 49152, 49152 - 100, 49153, 232448, 1 << 31):
            cu.see("size", size)
            cu.launch(function, c_uint64(out), shared=size)
            cu.see_words("out", out, 1)
        cu.call("cuFuncSetAttribute", function, 8, 100_000)
        cu.launch(function, c_uint64(out), shared=100_000)
        cu.launch(function, c_uint64(out), shared=100_001)
        cu.call("cuCtxSynchronize")


@sequence
def null_arguments(cu: Recorder) -> None:
    """Launches with NULL as the function, the arguments or the configuration."""
    function, out = cu.function(KERNELS, "nothing"), cu.memory(4)
    store = cu.function(KERNELS, "store")
    cu.launch(None)
    cu.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    cu.call("cuLaunchKernel", store, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    cu.call("cuLaunchKernelEx", None, function, None, None)
    cu.call("cuLaunchKernelEx", launch_configuration(), None, None, None)
    cu.call("cuLaunchKernelEx", launch_configuration(), store, None, None)
    cu.call("cuLaunchCooperativeKernel", None, 1, 1, 1, 1, 1, 1, 0, None, None)
    cu.launch(store, c_uint64(out), c_uint32(3))
    cu.see_words("out", out, 1)


@sequence
def packed_arguments(cu: Recorder) -> None:
    """Launches with arguments in one buffer, instead of one pointer for each argument."""
    store, out = cu.function(KERNELS, "store"), cu.memory(4, 0)

    class Arguments(ctypes.Structure):
        _fields_ = [("where", c_uint64), ("value", c_uint32)]

    def launch(size: int, *, arguments: bool = False, end: int = 0) -> None:
        packed, length = Arguments(out, size * 3), c_size_t(size)
        extra = (c_void_p * 5)(1, ctypes.addressof(packed), 2, ctypes.addressof(length), end)
        both = pointers(c_uint64(out), c_uint32(1)) if arguments else None
        cu.call("cuLaunchKernel", store, 1, 1, 1, 1, 1, 1, 0, None, both, extra)
        cu.see_words("out", out, 1)

    for size in (12, 16, 8, 0, 100):
        cu.see("size", size)
        launch(size)
    launch(12, arguments=True)
    launch(12, end=77)


@sequence
def kernels_are_functions(cu: Recorder) -> None:
    """A launch accepts a kernel (CUkernel) instead of a function."""
    kernel, out = cu.kernel(KERNELS, "store"), cu.memory(4)
    cu.launch(kernel, c_uint64(out), c_uint32(8))
    cu.see_words("out", out, 1)
    cu.call("cuLaunchKernelEx", launch_configuration(), kernel, pointers(c_uint64(out), c_uint32(9)), None)
    cu.see_words("out", out, 1)


@sequence
def order(cu: Recorder) -> None:
    """Kernels, fills and copies in one stream run one after another."""
    stream, address, back = cu.stream(NON_BLOCKING), cu.memory(16, 0), cu.memory(16, 0)
    increase = cu.function(KERNELS, "increase")
    with cu.gate(stream):
        cu.call("cuMemsetD32Async", address, 10, 4, stream)
        cu.launch(increase, c_uint64(address), c_uint32(5), block=(4, 1, 1), stream=stream)
        cu.call("cuMemcpyDtoDAsync_v2", back, address, 16, stream)
        cu.launch(increase, c_uint64(address), c_uint32(7), block=(2, 1, 1), stream=stream)
        cu.call("cuStreamQuery", stream)
    cu.call("cuStreamSynchronize", stream)
    cu.see_words("address", address, 4)
    cu.see_words("back", back, 4)


@sequence
def default_streams(cu: Recorder) -> None:
    """A kernel in the legacy stream runs after earlier work, and before later work, of blocking streams."""
    increase, address = cu.function(KERNELS, "increase"), cu.memory(4, 0)
    for stream in (0, 2, 1, cu.stream(), 0):
        cu.launch(increase, c_uint64(address), c_uint32(1), stream=stream)
    cu.call("cuCtxSynchronize")
    cu.see_words("address", address, 1)


@sequence
def arguments_are_copied(cu: Recorder) -> None:
    """Arguments may change once a launch has returned."""
    store, address, stream = cu.function(KERNELS, "store"), cu.memory(4, 0), cu.stream(NON_BLOCKING)
    value = c_uint32(1)
    with cu.gate(stream):
        cu.launch(store, c_uint64(address), value, stream=stream)
        value.value = 2
    cu.call("cuStreamSynchronize", stream)
    cu.see_words("address", address, 1)


@sequence
def cooperative(cu: Recorder) -> None:
    """All blocks of a cooperative launch must fit on the device at the same time."""
    function = cu.function(KERNELS, "nothing")
    for blocks in (1, 132 * 2, 1_000_000):
        cu.see("blocks", blocks)
        cu.call("cuLaunchCooperativeKernel", function, blocks, 1, 1, 1024, 1, 1, 0, None, None)
        configuration = launch_configuration((COOPERATIVE, (1,)), grid=(blocks, 1, 1), block=(1024, 1, 1))
        cu.call("cuLaunchKernelEx", configuration, function, None, None)
    cu.call("cuLaunchCooperativeKernel", function, 0, 1, 1, 1, 1, 1, 0, None, None)
    cu.call("cuLaunchCooperativeKernel", function, 1, 1, 1, 1025, 1, 1, 0, None, None)
    cu.call("cuCtxSynchronize")


@sequence
def clusters(cu: Recorder) -> None:
    """The cluster size of a launch must divide the grid, and must not exceed the size that the kernel allows."""
    function = cu.function(KERNELS, "nothing")
    for grid, cluster in (
        ((4, 1, 1), (2, 1, 1)), ((3, 1, 1), (2, 1, 1)), ((8, 1, 1), (8, 1, 1)), ((16, 1, 1), (16, 1, 1)),
        ((32, 1, 1), (32, 1, 1)),
        ((4, 4, 1), (2, 2, 1)), ((4, 4, 1), (2, 3, 1)), ((4, 1, 1), (0, 1, 1)), ((4, 1, 1), (0, 0, 0)), ((4, 1, 1),
        (1, 1, 1)),
        ((3, 1, 1), (3, 1, 1)),
    ):  # fmt: skip
        cu.see("grid, cluster", (grid, cluster))
        cu.call("cuLaunchKernelEx", launch_configuration((CLUSTER, cluster), grid=grid), function, None, None)
    cu.call("cuFuncSetAttribute", function, 14, 1)
    cu.call("cuLaunchKernelEx", launch_configuration((CLUSTER, (16, 1, 1)), grid=(16, 1, 1)), function, None, None)
    cu.call("cuCtxSynchronize")


@sequence
def clusters_of_kernels(cu: Recorder) -> None:
    """Launches of a kernel whose code determines the cluster size."""
    function = cu.function(KERNELS, "cluster_of_2")
    for grid in ((2, 1, 1), (3, 1, 1)):
        cu.see("grid", grid)
        cu.launch(function, grid=grid)
    for cluster in ((2, 1, 1), (1, 1, 1), (4, 1, 1)):
        cu.see("cluster", cluster)
        cu.call("cuLaunchKernelEx", launch_configuration((CLUSTER, cluster), grid=(4, 1, 1)), function, None, None)
    function = cu.function(KERNELS, "any_cluster")
    cu.launch(function, grid=(4, 1, 1))
    cu.call("cuLaunchKernelEx", launch_configuration((CLUSTER, (2, 1, 1)), grid=(4, 1, 1)), function, None, None)
    cu.call("cuCtxSynchronize")


@sequence
def launch_attributes(cu: Recorder) -> None:
    """Launches with attributes, including attributes that do not exist."""
    function = cu.function(KERNELS, "nothing")
    for attribute, words in (
        (0, (0,)), (SYNCHRONISATION, (1,)), (PRIORITY, (0,)), (PRIORITY, (0xFFFFFFFD,)), (PRIORITY, (0xFFFFFF9D,)),
        (PRIORITY, (9,)),
        (SPREAD, (1,)), (SPREAD, (9,)), (PROGRAMMATIC, (1,)), (PROGRAMMATIC, (0,)), (COOPERATIVE, (0,)), (9, (0,)),
        (10, (1,)), (99, (0,)),
    ):  # fmt: skip
        cu.see("attribute", (attribute, words))
        cu.call("cuLaunchKernelEx", launch_configuration((attribute, words)), function, None, None)
    configuration = launch_configuration()
    configuration.attributes, configuration.count = None, 1
    cu.call("cuLaunchKernelEx", configuration, function, None, None)
    twice = launch_configuration((PRIORITY, (0,)), (PRIORITY, (0,)))
    cu.call("cuLaunchKernelEx", twice, function, None, None)
    cu.call("cuCtxSynchronize")


@sequence
def programmatic_order(cu: Recorder) -> None:
    """A launch with programmatic serialization, which may begin before the previous launch has ended."""
    increase, address, stream = cu.function(KERNELS, "increase"), cu.memory(4, 0), cu.stream()
    arguments = pointers(c_uint64(address), c_uint32(1))
    cu.call("cuLaunchKernelEx", launch_configuration(stream=stream), increase, arguments, None)
    cu.call("cuStreamSynchronize", stream)
    configuration = launch_configuration((PROGRAMMATIC, (1,)), stream=stream)
    cu.call("cuLaunchKernelEx", configuration, increase, arguments, None)
    cu.call("cuStreamSynchronize", stream)
    cu.see_words("address", address, 1)


@sequence
def printing(cu: Recorder) -> None:
    """The output of kernels is complete once the context is synchronised."""
    function = cu.function(KERNELS, "print")

    def part() -> None:
        cu.launch(function, grid=(2, 1, 1), block=(2, 1, 1))
        cu.call("cuCtxSynchronize")

    cu.see_printed(part)


@sequence
def host_and_device(cu: Recorder) -> None:
    """Kernels access pinned and managed memory by the host's addresses."""
    store = cu.function(KERNELS, "store")
    pinned = cu.prepare("cuMemHostAlloc", c_void_p, 4, 0)
    managed = cu.prepare("cuMemAllocManaged", c_uint64, 4, 1)
    for value, address in enumerate((pinned, managed), 20):
        cu.launch(store, c_uint64(address), c_uint32(value))
        cu.call("cuCtxSynchronize")
        cu.see("word", c_uint32.from_address(address).value)
