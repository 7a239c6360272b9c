# SPDX-License-Identifier: Apache-2.0
"""KernelAttributes and KernelOccupancy: the right attribute for each name, and the queries that reach the driver."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from attribute_tables import attributes_of, cuda_attributes
from cuda.bindings import driver

from cudacore_handles import (
    LEGACY_DEFAULT_STREAM,
    ClosedError,
    CUDAError,
    Device,
    Kernel,
    LaunchConfig,
    ObjectCode,
    launch,
)
from cudacore_handles._base.driver_calls import query_driver
from cudacore_handles._cffi import ffi
from cudacore_handles._code import kernel_attributes
from cudacore_handles._code.kernel_attributes import (
    KernelAttributes,
    KernelOccupancy,
    MaxPotentialBlockSizeOccupancyResult,
)

TABLE = attributes_of(KernelAttributes)

PTX = b"""
.version 7.8
.target sm_75
.address_size 64

.visible .entry empty() { ret; }

// At most 256 threads a block, 1024 bytes of shared memory, 2048 bytes of local memory that cannot be optimized away.
.visible .entry limited(.param .u64 out, .param .u32 index) .maxntid 256, 1, 1
{
    .local .align 4 .b8 stack[2048];
    .shared .align 4 .b8 tile[1024];
    .reg .b64 %rd<8>;
    .reg .b32 %r<8>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [index];
    mov.u64 %rd2, stack;
    mov.u64 %rd3, tile;
    mul.wide.u32 %rd4, %r1, 4;
    add.u64 %rd5, %rd2, %rd4;
    add.u64 %rd6, %rd3, %rd4;
    st.local.u32 [%rd5], %r1;
    st.shared.u32 [%rd6], %r1;
    bar.sync 0;
    ld.local.u32 %r2, [stack+64];
    ld.shared.u32 %r3, [tile+64];
    add.u32 %r4, %r2, %r3;
    st.global.u32 [%rd1], %r4;
    ret;
}
"""

CLUSTER_PTX = b"""
.version 7.8
.target sm_90
.address_size 64

.visible .entry plain() { ret; }
.visible .entry pairs() .reqnctapercluster 2, 1, 1 { ret; }
"""


class NoDriver:
    """A replacement for a kernel, for calls with wrong arguments, which must not reach the driver."""

    def _reference(self) -> int:
        raise AssertionError("the driver would be called")


@pytest.fixture
def empty(device: Device) -> Kernel:
    return ObjectCode.from_ptx(PTX).get_kernel("empty")


@pytest.fixture
def limited(device: Device) -> Kernel:
    return ObjectCode.from_ptx(PTX).get_kernel("limited")


@pytest.fixture
def cluster_code(device: Device) -> ObjectCode:
    if not device.properties.cluster_launch:
        pytest.skip(f"needs a device with clusters (sm_90 or later), and this one is sm_{device.arch}")
    return ObjectCode.from_ptx(CLUSTER_PTX)


# ---- without a driver


def test_numbers_are_cudas() -> None:
    """A property would return the value of another attribute."""
    numbers = {name: attribute.number for name, attribute in TABLE.items()}
    assert numbers == cuda_attributes(driver.CUfunction_attribute, "CU_FUNC_ATTRIBUTE_", newest=15)


def test_attributes_are_read_only() -> None:
    """An assignment to an attribute would be accepted silently without changing anything."""
    with pytest.raises(AttributeError, match="max_dynamic_shared_size_bytes is read-only"):
        KernelAttributes._with(_kernel=NoDriver()).max_dynamic_shared_size_bytes = 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda o: o.max_active_blocks_per_multiprocessor(0, 0), ValueError, "block_size is 0; it must be from 1"),
        (lambda o: o.max_active_blocks_per_multiprocessor(-1, 0), ValueError, "block_size is -1"),
        (lambda o: o.max_active_blocks_per_multiprocessor(2**31, 0), ValueError, "block_size is 2147483648"),
        (lambda o: o.max_active_blocks_per_multiprocessor(32.0, 0), TypeError, "block_size must be an int, not float"),
        (lambda o: o.max_active_blocks_per_multiprocessor(True, 0), TypeError, "block_size must be an int, not bool"),
        (lambda o: o.max_active_blocks_per_multiprocessor(32, -1), ValueError, "dynamic_shared_memory_size is -1"),
        (lambda o: o.max_active_blocks_per_multiprocessor(32, None), TypeError, "dynamic_shared_memory_size must be"),
        (lambda o: o.max_potential_block_size("0", 0), TypeError, "memory_needed must be an int, not str"),
        (lambda o: o.max_potential_block_size(-4, 0), ValueError, "dynamic_shared_memory_needed is -4"),
        (lambda o: o.max_potential_block_size(0, -1), ValueError, "block_size_limit is -1"),
        (lambda o: o.max_potential_block_size(lambda _: 0, None), TypeError, "block_size_limit must be an int"),
        (lambda o: o.available_dynamic_shared_memory_per_block(0, 32), ValueError, "num_blocks_per_multi.* is 0"),
        (lambda o: o.available_dynamic_shared_memory_per_block(1, 0), ValueError, "block_size is 0"),
        (lambda o: o.max_potential_cluster_size(None, stream=LEGACY_DEFAULT_STREAM), TypeError, "not NoneType"),
        (lambda o: o.max_active_clusters((1, 1), stream=LEGACY_DEFAULT_STREAM), TypeError, "LaunchConfig, not tuple"),
        (lambda o: o.max_active_clusters(LaunchConfig(1, None, 1), stream=0), TypeError, "a Stream is needed"),
    ],
)
def test_bad_input(call: Callable[[KernelOccupancy], object], error: type[Exception], message: str) -> None:
    """An invalid argument would reach the driver, which returns CUDA_ERROR_INVALID_VALUE for anything."""
    with pytest.raises(error, match=message):
        call(KernelOccupancy._with(_kernel=NoDriver()))


# ---- attributes of real kernels


def test_attributes(limited: Kernel, device: Device) -> None:
    """The reported resources of a kernel, such as registers and memory, would be wrong."""
    attributes = limited.attributes
    assert attributes.max_threads_per_block == 256
    assert attributes.shared_size_bytes == 1024
    assert attributes.local_size_bytes == 2048
    assert attributes.const_size_bytes == 0
    assert 0 < attributes.num_regs <= 255
    assert attributes.ptx_version == 75
    assert attributes.binary_version == int(device.arch)
    assert attributes.max_dynamic_shared_size_bytes == device.properties.max_shared_memory_per_block - 1024
    for name, attribute in TABLE.items():
        assert type(getattr(attributes, name)) is attribute.kind, name


def test_attributes_on_a_device(limited: Kernel, device: Device) -> None:
    """The index of a device would be ignored, or select another device."""
    for index in (device, device.device_id):
        attributes = limited.attributes[index]
        assert attributes.shared_size_bytes == 1024
        assert repr(attributes) == f"<KernelAttributes of {limited!r} on device {device.device_id}>"
    assert repr(limited.attributes) == f"<KernelAttributes of {limited!r} on the current device>"


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (None, TypeError, "not None; without an index the current device"),
        ("0", TypeError, "not str"),
        (1.0, TypeError, "not float"),
        (-1, ValueError, "device_id must be .*, got -1"),
        (4096, ValueError, "device_id must be .*, got 4096"),
    ],
)
def test_attributes_on_no_device(limited: Kernel, index: Any, error: type[Exception], message: str) -> None:
    """The driver would be queried about a device that does not exist."""
    with pytest.raises(error, match=message):
        limited.attributes[index]


def test_attributes_without_a_context(limited: Kernel, device: Device, in_new_thread: Any) -> None:
    """Without a current context, a query would use an arbitrary device, or fail although a device is given."""
    with pytest.raises(CUDAError, match=r"CUDA_ERROR_INVALID_CONTEXT.*set_current\(\)"):
        in_new_thread(lambda: limited.attributes.num_regs)
    assert in_new_thread(lambda: limited.attributes[device].num_regs) == limited.attributes.num_regs


def test_settings_are_read_each_time(empty: Kernel, device: Device) -> None:
    """A changed setting would be reported with its old value."""
    attributes = empty.attributes
    assert attributes.max_dynamic_shared_size_bytes == device.properties.max_shared_memory_per_block
    most = device.properties.max_shared_memory_per_block_optin
    setting = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert driver.cuKernelSetAttribute(setting, most, empty.handle, device.device_id) == (0,)
    assert attributes.max_dynamic_shared_size_bytes == most


def test_a_limit_that_other_code_lowers(empty: Kernel, device: Device) -> None:
    """After cuda.bindings has lowered the limit of shared memory, no launch that needs more would work again."""
    stream, config = device.create_stream(), LaunchConfig(grid=1, block=1, shmem_size=20000)
    launch(stream, config, empty)
    setting = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert driver.cuKernelSetAttribute(setting, 1000, empty.handle, device.device_id) == (0,)
    with pytest.raises(CUDAError, match=r"INVALID_VALUE.*Other code had lowered .* to 1000 bytes, and shmem_size is 2"):
        launch(stream, config, empty)
    assert empty.attributes.max_dynamic_shared_size_bytes == 20000
    launch(stream, config, empty)
    prepared = empty.prepare(stream, config)
    assert driver.cuKernelSetAttribute(setting, 1000, empty.handle, device.device_id) == (0,)
    with pytest.raises(CUDAError, match="repeat the launch"):
        prepared()
    prepared()
    stream.sync()


def test_a_limit_that_other_code_lowers_on_another_device(empty: Kernel, device: Device, other_device: Device) -> None:
    """The limit would be looked up on the current device instead of the stream's, and would not be raised again."""
    other_device.set_current()
    stream, config = other_device.create_stream(), LaunchConfig(grid=1, block=1, shmem_size=20000)
    device.set_current()
    launch(stream, config, empty)
    setting = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert driver.cuKernelSetAttribute(setting, 1000, empty.handle, other_device.device_id) == (0,)
    with pytest.raises(CUDAError, match=r"Other code had lowered .* to 1000 bytes"):
        launch(stream, config, empty)
    launch(stream, config, empty)
    stream.sync()


def test_copies(limited: Kernel, device: Device) -> None:
    """A copy would be of other attributes, or the error would not name the object that cannot be copied."""
    for made in (limited.attributes, limited.attributes[device], limited.occupancy):
        assert repr(copy.copy(made)) == repr(made)
        for refused in (copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="a Kernel cannot be pickled or copied: pickle the ObjectCode"):
                refused(made)


def fail(*args: object) -> object:
    raise AssertionError("the driver is asked again")


def test_constants_are_asked_once(limited: Kernel, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """``kernel.attributes.num_regs`` in a loop would call the driver each time, or work for a closed kernel."""
    attributes = limited.attributes
    registers = attributes.num_regs
    monkeypatch.setattr(kernel_attributes, "query_driver", fail)
    assert limited.attributes.num_regs == limited.attributes[device].num_regs == registers
    with pytest.raises(AssertionError, match="asked again"):
        _ = attributes.max_dynamic_shared_size_bytes
    limited.close()
    with pytest.raises(ClosedError):
        _ = attributes.num_regs


def test_constants_belong_to_a_device(limited: Kernel, other_device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices would share a value."""
    _ = limited.attributes.num_regs
    monkeypatch.setattr(kernel_attributes, "query_driver", fail)
    with pytest.raises(AssertionError, match="asked again"):
        _ = limited.attributes[other_device].num_regs


@pytest.mark.parametrize("name", ["attributes", "occupancy"])
def test_the_kernel_is_kept(device: Device, name: str) -> None:
    """The driver would be queried about a kernel that no longer exists, or the kernel refer to what refers to it."""
    kernel = ObjectCode.from_ptx(PTX).get_kernel("empty")
    about, alive = getattr(kernel, name), weakref.ref(kernel)
    del kernel
    gc.collect()
    if name == "attributes":
        assert about.max_threads_per_block == 1024
    else:
        assert about.max_active_blocks_per_multiprocessor(32, 0) > 0
    gc.disable()
    try:
        del about
        assert alive() is None
    finally:
        gc.enable()


# ---- occupancy of real kernels


def test_max_active_blocks(empty: Kernel, device: Device) -> None:
    """A program whose blocks must all be resident would launch too many or too few of them."""
    properties = device.properties
    ask = empty.occupancy.max_active_blocks_per_multiprocessor
    for threads in (32, 256, properties.max_threads_per_block):
        expected = min(properties.max_threads_per_multiprocessor // threads, properties.max_blocks_per_multiprocessor)
        assert ask(threads, 0) == expected
    shared = properties.max_shared_memory_per_block
    per_block = shared + properties.reserved_shared_memory_per_block
    assert ask(32, shared) == properties.max_shared_memory_per_multiprocessor // per_block
    assert ask(properties.max_threads_per_block + 1, 0) == 0


def test_max_potential_block_size(empty: Kernel, limited: Kernel, device: Device) -> None:
    """The suggested launch would not fill the device, or the kernel would not support it."""
    properties = device.properties
    result = empty.occupancy.max_potential_block_size(0, 0)
    assert isinstance(result, MaxPotentialBlockSizeOccupancyResult)
    assert type(result.min_grid_size) is type(result.max_block_size) is int
    threads = properties.multiprocessor_count * properties.max_threads_per_multiprocessor
    assert result.min_grid_size * result.max_block_size == threads
    assert empty.occupancy.max_potential_block_size(0, 128).max_block_size == 128
    assert limited.occupancy.max_potential_block_size(0, 0).max_block_size == 256


@pytest.mark.parametrize("language", ["Python", "C", "C of cuda.core"])
def test_max_potential_block_size_by_function(empty: Kernel, device: Device, language: str) -> None:
    """A function that returns the shared memory for a block size would be ignored, or called with a wrong argument."""
    too_much, asked = device.properties.max_shared_memory_per_multiprocessor, []

    def needed(block_size: int) -> int:
        asked.append(block_size)
        return too_much if block_size > 64 else 0

    function: Any = needed
    in_c = ffi.callback("size_t(int)", needed)
    address = int(ffi.cast("uintptr_t", in_c))
    if language == "C":
        function = driver.CUoccupancyB2DSize(address)
    elif language == "C of cuda.core":  # a former bug: the first bytes of the function were used as its address
        function = driver.CUoccupancyB2DSize(_ptr=address)
    assert 0 < empty.occupancy.max_potential_block_size(function, 0).max_block_size <= 64
    assert asked
    assert all(0 < size <= device.properties.max_threads_per_block for size in asked)
    most = empty.occupancy.max_potential_block_size(0, 0)
    assert empty.occupancy.max_potential_block_size(lambda _: 0, 0) == most
    assert empty.occupancy.max_potential_block_size(driver.CUoccupancyB2DSize(0), 0) == most


def test_more_shared_memory_than_every_kernel_has(limited: Kernel, device: Device) -> None:
    """A possible launch would be reported as impossible, because a query does not raise the shared memory limit."""
    properties, stream = device.properties, device.create_stream()
    most = properties.max_shared_memory_per_block_optin - 1024
    ask = limited.occupancy.max_active_blocks_per_multiprocessor
    assert ask(32, most) == 1
    assert limited.attributes.max_dynamic_shared_size_bytes == most
    assert ask(32, most + 1) == 0
    assert ask(32, 2**62) == 0
    kernels = [ObjectCode.from_ptx(PTX).get_kernel("limited") for _ in range(3)]
    fitting = MaxPotentialBlockSizeOccupancyResult(properties.multiprocessor_count, 256)
    assert kernels[0].occupancy.max_potential_block_size(most, 0) == fitting
    assert kernels[1].occupancy.max_potential_block_size(lambda _: most, 0) == fitting
    if properties.cluster_launch:
        config = LaunchConfig(grid=8, block=32, shmem_size=most)
        assert kernels[2].occupancy.max_potential_cluster_size(config, stream=stream) > 0


def test_threads_do_not_take_away_what_another_allowed(
    limited: Kernel, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that needs less shared memory would reduce the limit that another thread has just raised."""
    limit = limited.attributes[device]._max_dynamic_shared()
    looked = threading.Event()

    def look(*args: object) -> int:
        value = query_driver(*args)
        if threading.current_thread().name == "less":
            looked.set()
            time.sleep(0.2)
        return value

    monkeypatch.setattr(kernel_attributes, "query_driver", look)
    less = threading.Thread(name="less", target=lambda: limited.attributes[device]._allow_dynamic_shared(limit - 1000))
    less.start()
    assert looked.wait(60)
    limited.attributes[device]._allow_dynamic_shared(limit)
    less.join(60)
    assert limited.attributes[device].max_dynamic_shared_size_bytes == limit


@pytest.mark.parametrize(
    ("value", "message"), [(-1, "result of dynamic_shared_memory_needed is -1"), (2.5, "must be an int, not float")]
)
def test_a_function_with_a_bad_result(empty: Kernel, value: Any, message: str) -> None:
    """If a caller's function returns an invalid size, garbage would reach the driver, or the exception be lost."""
    with pytest.raises((TypeError, ValueError), match=message):
        empty.occupancy.max_potential_block_size(lambda _: value, 0)


def test_a_function_that_raises(empty: Kernel) -> None:
    """An exception in a caller's function would only be printed, and a meaningless result would be returned."""
    with pytest.raises(ZeroDivisionError):
        empty.occupancy.max_potential_block_size(lambda n: n // 0, 0)


def test_available_dynamic_shared_memory(empty: Kernel, device: Device) -> None:
    """The reported shared memory per block would be too much or too little."""
    occupancy, properties = empty.occupancy, device.properties
    for blocks in (1, 2, properties.max_blocks_per_multiprocessor):
        available = properties.max_shared_memory_per_multiprocessor // blocks
        assert occupancy.available_dynamic_shared_memory_per_block(blocks, 32) == min(
            available, properties.max_shared_memory_per_block
        )
    most = occupancy.max_active_blocks_per_multiprocessor(128, 0)
    with pytest.raises(
        ValueError,
        match=f"is {most + 1}, and at most {most} blocks of 128 threads of <Kernel .*name=empty>",
    ):
        occupancy.available_dynamic_shared_memory_per_block(most + 1, 128)


def test_clusters(cluster_code: ObjectCode, device: Device) -> None:
    """More clusters would be launched than can be resident, or larger clusters than the kernel supports."""
    stream = device.create_stream()
    plain, pairs = cluster_code.get_kernel("plain").occupancy, cluster_code.get_kernel("pairs").occupancy
    assert plain.max_potential_cluster_size(LaunchConfig(grid=64, block=128), stream=stream) == 8
    assert pairs.max_potential_cluster_size(LaunchConfig(grid=64, block=128), stream=stream) >= 2
    most = device.properties.multiprocessor_count * device.properties.max_threads_per_multiprocessor // 1024
    by_size = [
        plain.max_active_clusters(LaunchConfig(grid=64, cluster=size, block=1024), stream=stream)
        for size in (1, 2, 4, 8)
    ]
    assert by_size[0] == most
    assert all(0 < n * size <= most for n, size in zip(by_size, (1, 2, 4, 8), strict=True))
    assert pairs.max_active_clusters(LaunchConfig(grid=64, cluster=2, block=1024), stream=stream) == by_size[1]
    required = cluster_code.get_kernel("pairs").attributes
    assert required.required_cluster_width == 2
    assert (required.required_cluster_height, required.required_cluster_depth) == (1, 1)
    assert type(plain.max_active_clusters(LaunchConfig(grid=64, block=128), stream=stream)) is int


def test_clusters_that_do_not_fit(cluster_code: ObjectCode, device: Device) -> None:
    """For clusters that do not fit on the device, the driver's error would be lost."""
    stream = device.create_stream()
    pairs = cluster_code.get_kernel("pairs").occupancy
    with pytest.raises(CUDAError) as info:
        pairs.max_active_clusters(LaunchConfig(grid=64, cluster=4, block=128), stream=stream)
    assert info.value.operation == "cuOccupancyMaxActiveClusters"


@pytest.mark.parametrize(
    "call",
    [
        lambda o: o.max_active_blocks_per_multiprocessor(32, 0),
        lambda o: o.max_potential_block_size(0, 0),
        lambda o: o.max_potential_block_size(lambda _: 0, 0),
        lambda o: o.available_dynamic_shared_memory_per_block(1, 32),
        lambda o: o.max_potential_cluster_size(LaunchConfig(grid=1, block=32), stream=LEGACY_DEFAULT_STREAM),
        lambda o: o.max_active_clusters(LaunchConfig(grid=1, cluster=1, block=32), stream=LEGACY_DEFAULT_STREAM),
    ],
)
def test_occupancy_without_a_context(
    empty: Kernel, call: Callable[[KernelOccupancy], object], in_new_thread: Any
) -> None:
    """Without a current device, the driver would crash, or the error would only have a code."""
    with pytest.raises(CUDAError, match=r"CUDA_ERROR_INVALID_CONTEXT.*set_current\(\)"):
        in_new_thread(lambda: call(empty.occupancy))
