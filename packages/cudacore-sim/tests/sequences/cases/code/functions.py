# SPDX-License-Identifier: Apache-2.0
"""Functions and kernels: attributes, parameters, occupancy."""

from __future__ import annotations

from ctypes import c_char_p, c_int, c_size_t, c_void_p

from ptx import KERNELS
from recorder import Recorder, sequence
from structs import launch_configuration

MAX_DYNAMIC, CARVEOUT, CLUSTER_SET = 8, 9, 10
CLUSTER_X, CLUSTER_Y, CLUSTER_Z, NON_PORTABLE, SCHEDULING = 11, 12, 13, 14, 15
CLUSTER = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION


@sequence
def attributes(cu: Recorder) -> None:
    """The attributes of functions, except the number of registers, which depends on the compiler."""
    for name in ("nothing", "at_most_64", "just_96", "static_shared", "dynamic_shared", "cluster_of_2", "any_cluster"):
        cu.see("function", name)
        function = cu.function(KERNELS, name)
        for attribute in (0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15):
            cu.see("attribute", attribute)
            cu.read("cuFuncGetAttribute", c_int, attribute, function)


@sequence
def set_attributes(cu: Recorder) -> None:
    """The attributes of a function that can be set, and the bounds of their values."""
    function = cu.function(KERNELS, "static_shared")
    for attribute, value in (
        (MAX_DYNAMIC, 0), (MAX_DYNAMIC, 1024), (MAX_DYNAMIC, 49152), (MAX_DYNAMIC, 232448 - 100), (MAX_DYNAMIC, 232448),
        (MAX_DYNAMIC, -1), (CARVEOUT, 50), (CARVEOUT, 0), (CARVEOUT, 100), (CARVEOUT, -1), (CARVEOUT, 101),
        (CARVEOUT, -2),
        (NON_PORTABLE, 1), (NON_PORTABLE, 0), (NON_PORTABLE, 2), (SCHEDULING, 1), (SCHEDULING, 2), (SCHEDULING, 3),
        (SCHEDULING, 0), (CLUSTER_X, 2), (CLUSTER_Y, 1), (CLUSTER_Z, 1), (CLUSTER_X, -1), (CLUSTER_X, 0),
        (CLUSTER_SET, 1),
        (0, 100), (1, 1), (4, 16), (5, 80),
    ):  # fmt: skip
        cu.see("set", (attribute, value))
        cu.call("cuFuncSetAttribute", function, attribute, value)
        if attribute != 4:
            cu.read("cuFuncGetAttribute", c_int, attribute, function)


@sequence
def kernel_attributes(cu: Recorder) -> None:
    """An attribute of a kernel (CUkernel) also applies to functions that are made from the kernel afterwards."""
    kernel = cu.kernel(KERNELS, "nothing")
    cu.call("cuKernelSetAttribute", MAX_DYNAMIC, 60000, kernel, 0)
    cu.read("cuKernelGetAttribute", c_int, MAX_DYNAMIC, kernel, 0)
    function = cu.new("cuKernelGetFunction", c_void_p, kernel)
    cu.read("cuFuncGetAttribute", c_int, MAX_DYNAMIC, function)
    cu.call("cuFuncSetAttribute", function, MAX_DYNAMIC, 70000)
    cu.read("cuKernelGetAttribute", c_int, MAX_DYNAMIC, kernel, 0)
    cu.call("cuKernelSetAttribute", MAX_DYNAMIC, 80000, kernel, 0)
    cu.read("cuFuncGetAttribute", c_int, MAX_DYNAMIC, function)


@sequence
def kernel_attributes_later(cu: Recorder) -> None:
    """Whether setting an attribute of a kernel (CUkernel) also affects a function that was made from it before."""
    kernel = cu.kernel(KERNELS, "nothing")
    function = cu.prepare("cuKernelGetFunction", c_void_p, kernel)
    cu.call("cuKernelSetAttribute", MAX_DYNAMIC, 60000, kernel, 0)
    cu.read("cuKernelGetAttribute", c_int, MAX_DYNAMIC, kernel, 0)
    cu.read("cuFuncGetAttribute", c_int, MAX_DYNAMIC, function)
    cu.launch(function, shared=60000)
    cu.launch(kernel, shared=60000)
    cu.call("cuFuncSetAttribute", function, MAX_DYNAMIC, 70000)
    cu.read("cuKernelGetAttribute", c_int, MAX_DYNAMIC, kernel, 0)
    cu.launch(function, shared=70000)
    cu.launch(kernel, shared=70000)
    cu.call("cuCtxSynchronize")


@sequence
def kernels_are_no_functions(cu: Recorder) -> None:
    """Calls that take a function (CUfunction) do not accept a kernel (CUkernel) instead."""
    kernel = cu.kernel(KERNELS, "parameters")
    cu.call("cuFuncSetAttribute", kernel, MAX_DYNAMIC, 90000)
    cu.call("cuFuncGetAttribute", c_int, MAX_DYNAMIC, kernel)
    cu.call("cuFuncGetParamInfo", kernel, 0, c_size_t, c_size_t)


@sequence
def loading_of_kernels(cu: Recorder) -> None:
    """cuFuncLoad and cuFuncIsLoaded with a kernel (CUkernel) instead of a function."""
    kernel = cu.kernel(KERNELS, "nothing")
    cu.call("cuFuncLoad", kernel)
    cu.call("cuFuncIsLoaded", c_int, kernel)


@sequence
def occupancy_of_kernels(cu: Recorder) -> None:
    """The occupancy functions accept a kernel (CUkernel) instead of a function."""
    kernel = cu.kernel(KERNELS, "nothing")
    cu.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", c_int, kernel, 32, 0)
    cu.call("cuOccupancyMaxPotentialBlockSize", c_int, c_int, kernel, None, 0, 0)
    cu.call("cuOccupancyAvailableDynamicSMemPerBlock", c_size_t, kernel, 1, 32)
    configuration = launch_configuration(grid=(4, 1, 1), block=(32, 1, 1))
    cu.call("cuOccupancyMaxActiveClusters", c_int, kernel, configuration)
    cu.call("cuOccupancyMaxPotentialClusterSize", c_int, kernel, configuration)


@sequence
def preferences(cu: Recorder) -> None:
    """Preferences for caches and shared memory banks, which have no visible effect."""
    kernel = cu.kernel(KERNELS, "nothing")
    function = cu.prepare("cuKernelGetFunction", c_void_p, kernel)
    for value in (0, 1, 2, 3, 4, -1):
        cu.call("cuFuncSetCacheConfig", function, value)
        cu.call("cuKernelSetCacheConfig", kernel, value, 0)
        cu.call("cuFuncSetSharedMemConfig", function, value)
    cu.call("cuFuncSetCacheConfig", None, 0)
    cu.call("cuKernelSetCacheConfig", None, 0, 0)
    cu.call("cuKernelSetCacheConfig", kernel, 0, 77)
    cu.call("cuFuncSetSharedMemConfig", None, 0)


@sequence
def parameters(cu: Recorder) -> None:
    """The offsets and sizes of a kernel's parameters."""
    kernel = cu.kernel(KERNELS, "parameters")
    function = cu.prepare("cuKernelGetFunction", c_void_p, kernel)
    for index in range(6):
        cu.read("cuFuncGetParamInfo", function, index, c_size_t, c_size_t)
        cu.read("cuKernelGetParamInfo", kernel, index, c_size_t, c_size_t)
    cu.read("cuFuncGetParamInfo", function, 1, c_size_t, None)
    cu.call("cuFuncGetParamInfo", function, 1, None, c_size_t)
    cu.call("cuFuncGetParamInfo", None, 1, c_size_t, c_size_t)
    cu.call("cuKernelGetParamInfo", None, 1, c_size_t, c_size_t)
    cu.call("cuFuncGetParamInfo", cu.function(KERNELS, "nothing"), 0, c_size_t, c_size_t)


@sequence
def names(cu: Recorder) -> None:
    """Names of functions and kernels."""
    kernel = cu.kernel(KERNELS, "parameters")
    function = cu.prepare("cuKernelGetFunction", c_void_p, kernel)
    cu.read("cuFuncGetName", c_char_p, function)
    cu.read("cuKernelGetName", c_char_p, kernel)
    cu.call_each(
        ("cuFuncGetName", None, function), ("cuFuncGetName", c_char_p, None), ("cuKernelGetName", c_char_p, None),
        ("cuFuncGetModule", c_void_p, None), ("cuFuncGetModule", None, function),
        ("cuKernelGetLibrary", c_void_p, None),
    )  # fmt: skip


@sequence
def occupancy(cu: Recorder) -> None:
    """How many blocks fit on a multiprocessor if registers are not the limit."""
    function = cu.function(KERNELS, "nothing")
    name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
    sizes = [(threads, 0) for threads in (1, 32, 33, 64, 1024)] + [(128, shared) for shared in (49152, 49153, 10_000)]
    for threads, shared in (*sizes, (0, 0), (-1, 0), (1025, 0)):
        cu.see("threads, shared", (threads, shared))
        cu.read(name, c_int, function, threads, shared)
    for flags in (0, 1, 2):
        cu.read(f"{name}WithFlags", c_int, function, 64, 0, flags)
    cu.call(name, None, function, 32, 0)
    cu.call(name, c_int, None, 32, 0)
    limited = cu.function(KERNELS, "at_most_64")
    cu.read(name, c_int, limited, 64, 0)
    cu.read(name, c_int, limited, 65, 0)
    required = cu.function(KERNELS, "just_96")
    cu.read(name, c_int, required, 96, 0)
    cu.read(name, c_int, required, 64, 0)
    cu.read(name, c_int, cu.function(KERNELS, "static_shared"), 32, 0)


@sequence
def best_block(cu: Recorder) -> None:
    """The block size at which a multiprocessor holds the most threads."""
    for kernel in ("nothing", "at_most_64", "just_96", "static_shared"):
        cu.see("function", kernel)
        function = cu.function(KERNELS, kernel)
        for shared, limit in ((0, 0), (0, 100), (30_000, 0), (50_000, 0), (0, -1), (0, 5000)):
            cu.see("shared, limit", (shared, limit))
            cu.read("cuOccupancyMaxPotentialBlockSize", c_int, c_int, function, None, shared, limit)
    cu.read("cuOccupancyMaxPotentialBlockSizeWithFlags", c_int, c_int, function, None, 0, 0, 1)
    cu.call("cuOccupancyMaxPotentialBlockSizeWithFlags", c_int, c_int, function, None, 0, 0, 2)
    cu.call("cuOccupancyMaxPotentialBlockSize", None, c_int, function, None, 0, 0)
    cu.call("cuOccupancyMaxPotentialBlockSize", c_int, None, function, None, 0, 0)
    cu.call("cuOccupancyMaxPotentialBlockSize", c_int, c_int, None, None, 0, 0)


@sequence
def available_shared(cu: Recorder) -> None:
    """The shared memory that each block can have if a given number of blocks must fit on a multiprocessor."""
    function = cu.function(KERNELS, "static_shared")
    name = "cuOccupancyAvailableDynamicSMemPerBlock"
    sizes = ((1, 32), (2, 128), (16, 128), (32, 32), (33, 32), (3, 1024))
    for blocks, threads in (*sizes, (0, 32), (1, 0), (-1, 32), (1, 2000)):
        cu.see("blocks, threads", (blocks, threads))
        cu.read(name, c_size_t, function, blocks, threads)


@sequence
def clusters(cu: Recorder) -> None:
    """The largest size of clusters, and the number of clusters that fit on the device."""
    for kernel in ("nothing", "cluster_of_2", "any_cluster"):
        cu.see("function", kernel)
        function = cu.function(KERNELS, kernel)
        for size in (1, 2, 4, 8, 16):
            configuration = launch_configuration((CLUSTER, (size, 1, 1)), grid=(64, 1, 1), block=(128, 1, 1))
            cu.see("size", size)
            code = cu.call("cuOccupancyMaxActiveClusters", number := c_int(), function, configuration)
            cu.see("some", code == 0 and number.value > 0)
        configuration = launch_configuration(grid=(64, 1, 1), block=(128, 1, 1))
        cu.read("cuOccupancyMaxPotentialClusterSize", c_int, function, configuration)
    cu.call("cuOccupancyMaxActiveClusters", c_int, function, None)
    cu.call("cuOccupancyMaxActiveClusters", c_int, None, launch_configuration())
    cu.call("cuOccupancyMaxActiveClusters", None, function, launch_configuration())
    cu.call("cuOccupancyMaxPotentialClusterSize", c_int, function, None)
    cu.call("cuOccupancyMaxPotentialClusterSize", c_int, None, launch_configuration())
    cu.call("cuOccupancyMaxPotentialClusterSize", None, function, launch_configuration())
