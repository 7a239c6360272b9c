# SPDX-License-Identifier: Apache-2.0
"""Programs that do not need cuda.bindings do not import it: the import takes longer than a short program."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kernel_sources import PTX

MAIN_PATH = f"""
import sys
import cudacore_handles as ch

device = ch.Device(0)
device.set_current()
assert device.name and device.uuid and device.pci_bus_id and device.arch and device.can_access_peer(0)
assert ch.Device() == device and device.properties.warp_size == 32
stream = device.create_stream()
code = ch.ObjectCode.from_ptx({PTX!r})
kernel = code.get_kernel("add")
assert ch.Kernel.from_handle(kernel._raw, code) == kernel
buffer = device.allocate(256, stream=stream)
buffer.fill(b"\\1\\0\\0\\0", stream=stream)
start = stream.record(options=ch.EventOptions(timing_enabled=True))
ch.launch(stream, ch.LaunchConfig(grid=1, block=1), kernel, buffer, 41)
kernel.prepare(stream, ch.LaunchConfig(grid=1, block=1), buffer, 1)()
ch.launch(stream, ch.LaunchConfig(grid=1, block=1, shmem_size=60000), kernel, buffer, 0)
end = stream.record(options=ch.EventOptions(timing_enabled=True))
host = ch.LegacyPinnedMemoryResource().allocate(256)
buffer.copy_to(host, stream=stream)
other = device.create_stream()
other.wait(end)
other.sync()
assert end - start >= 0
assert host.is_host_accessible and host.is_device_accessible and buffer.device_id == 0
assert kernel.attributes.num_regs > 0 and kernel.num_arguments == 2
assert kernel.attributes.max_dynamic_shared_size_bytes >= 60000
occupancy = kernel.occupancy
assert occupancy.max_active_blocks_per_multiprocessor(32, 0) > 0
assert occupancy.max_potential_block_size(lambda n: 4 * n, 0).max_block_size > 0
assert occupancy.available_dynamic_shared_memory_per_block(1, 32) > 0
pool = ch.DeviceMemoryResource(device, ch.DeviceMemoryResourceOptions())
assert pool.attributes.used_mem_current == 0 and len(pool.peer_accessible_by) == 0
pool.close()
"""

FIRST_RESULT = f"""
import sys
import cudacore_handles as ch

device = ch.Device(0)
device.set_current()
stream = device.create_stream()
kernel = ch.ObjectCode.from_ptx({PTX!r}).get_kernel("add")
buffer = device.allocate(256, stream=stream)
ch.launch(stream, ch.LaunchConfig(grid=1, block=1), kernel, buffer, 41)
buffer.copy_to(ch.LegacyPinnedMemoryResource().allocate(256), stream=stream)
stream.sync()
"""


NO_TABLES = f"""{FIRST_RESULT}
tables = ("_base.attribute", "_driver.device_properties", "_memory.pool_attributes", "_base.html")
imported = [name for name in tables if "cudacore_handles." + name in sys.modules]
assert not imported, imported
"""


def test_the_first_result_needs_no_tables_of_attributes(run_on_driver: Callable[..., str]) -> None:
    """A program that runs one kernel would import all properties of devices and pools."""
    run_on_driver(NO_TABLES)


@pytest.mark.cuda_sim
def test_parameters_in_the_code_need_no_tables_of_attributes(run_on_sim: Callable[..., str]) -> None:
    """Such a program would import them before CUDA 12.4, where parameters of kernels are read from the code."""
    run_on_sim(NO_TABLES, CUDACORE_SIM_DRIVER_VERSION="12.2")


def test_the_main_path_needs_no_bindings(run_on_driver: Callable[..., str]) -> None:
    """A program that only compiles and launches would import cuda.bindings, which takes a tenth of a second."""
    run_on_driver(MAIN_PATH + 'assert "cuda.bindings" not in sys.modules, "imported"\n')


def test_handles_are_those_of_the_bindings(run_on_driver: Callable[..., str]) -> None:
    """The test above would pass even if handles could not import cuda.bindings at all."""
    run_on_driver(MAIN_PATH + 'assert stream.handle is not None\nassert "cuda.bindings" in sys.modules\n')
