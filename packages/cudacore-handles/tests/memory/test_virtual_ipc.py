# SPDX-License-Identifier: Apache-2.0
"""Virtual memory that processes share."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ipc_children as children
import pytest
from ipc_children import TIMEOUT, descriptors, joined, read

import cudacore_handles as ch
from cudacore_handles import IPCVirtualMemoryDescriptor, VirtualMemoryResource

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes share memory on Linux")


@pytest.fixture
def resource(device: ch.Device) -> VirtualMemoryResource:
    return VirtualMemoryResource(device)


@pytest.fixture
def buffer(resource: VirtualMemoryResource, stream: ch.Stream) -> ch.Buffer:
    buffer = resource.allocate(1, stream=stream)
    buffer.fill(3, stream=stream)
    stream.sync()
    return buffer


# ---- exporting to other processes


def test_an_argument_of_a_process(
    buffer: ch.Buffer, stream: ch.Stream, start: Callable[..., Any], context: Any
) -> None:
    """An object that is passed to a new process would not arrive, or would refer to other memory."""
    assert joined(start(children.use_virtual, buffer, 3, context=context)) == 0
    assert set(read(buffer, stream)) == {4}


def test_a_message(buffer: ch.Buffer, stream: ch.Stream, start: Callable[..., Any]) -> None:
    """An object that is sent to a running process would not arrive, or a part would arrive as the whole buffer."""
    ours, theirs = multiprocessing.Pipe()
    process = start(children.use_virtual_from, theirs, 3)
    part = buffer[100:200]
    ours.send(part)
    assert ours.poll(TIMEOUT)
    assert ours.recv() is True
    assert joined(process) == 0
    assert read(buffer, stream)[99:201] == b"\3" + b"\4" * 100 + b"\3"
    assert read(part, stream) == b"\4" * 100


def test_memory_that_grew(
    resource: VirtualMemoryResource, buffer: ch.Buffer, stream: ch.Stream, start: Callable[..., Any]
) -> None:
    """Of memory in several pieces, another process would get only the first piece, or the pieces in another order."""
    blocked = resource.modify_allocation(buffer, buffer.size + 1)
    moved = resource.modify_allocation(buffer, buffer.size + 1)  # moves: the addresses after the buffer are taken
    longest = resource.modify_allocation(moved, 3 * buffer.size)
    longest.fill(3, stream=stream)
    stream.sync()
    with resource.export_allocation(longest) as handle:
        assert handle.sizes == (buffer.size,) * 3
    assert joined(start(children.use_virtual, longest, 3)) == 0
    assert set(read(longest, stream)) == {4}
    assert set(read(blocked[: buffer.size], stream)) == {4}


def test_memory_of_the_host(device: ch.Device, stream: ch.Stream, start: Callable[..., Any]) -> None:
    """Memory of a host NUMA node could not be shared."""
    if device.properties.host_numa_id < 0:
        pytest.skip("no NUMA node is closest to the device")
    buffer = VirtualMemoryResource(device, {"location_type": "host_numa"}).allocate(1)
    buffer.fill(3, stream=stream)
    stream.sync()
    assert joined(start(children.use_virtual, buffer, 3)) == 0
    assert set(bytes(buffer.__buffer__())) == {4}


# ---- exporting and importing in one process


def test_the_memory_outlives_the_exporter(
    resource: VirtualMemoryResource, buffer: ch.Buffer, stream: ch.Stream
) -> None:
    """Memory would be freed when the exporter closes its buffer, although a descriptor or an import refers to it."""
    before = descriptors()
    handle = resource.export_allocation(buffer)
    size = buffer.size
    buffer.close()
    imported = resource.import_allocation(handle, stream=stream)
    handle.close()
    handle.close()
    assert handle.is_closed
    assert imported.size == size
    assert imported.is_mapped
    assert set(read(imported, stream)) == {3}
    part = imported[8:16]
    imported.close()
    assert read(part, stream) == b"\3" * 8
    part.close()
    assert descriptors() <= before  # fewer on the simulator, because its memory also has a file descriptor


def test_imports_are_mappings_of_the_same_memory(
    resource: VirtualMemoryResource, buffer: ch.Buffer, stream: ch.Stream
) -> None:
    """An import would be a copy of the memory instead of the same memory."""
    with resource.export_allocation(buffer[64:128]) as handle:
        imports = [resource.import_allocation(handle) for _ in range(2)]
    imports[0].fill(9, stream=stream)
    assert {one.size for one in imports} == {64}
    assert read(imports[1], stream) == b"\x09" * 64
    assert read(buffer, stream)[63:129] == b"\3" + b"\x09" * 64 + b"\3"
    assert len({buffer[64:128], *imports}) == 3


def test_memory_of_no_bytes(resource: VirtualMemoryResource) -> None:
    """An empty buffer, which has no memory, could not be sent."""
    with resource.export_allocation(resource.allocate(0)) as handle:
        assert (handle.descriptors, handle.sizes, handle.size) == ((), (), 0)
        assert resource.import_allocation(handle).size == 0


def test_descriptors_are_closed(resource: VirtualMemoryResource, buffer: ch.Buffer) -> None:
    """Each export would leave an open file."""
    before = descriptors()
    handle = resource.export_allocation(buffer)
    assert descriptors() == before + 1
    assert repr(handle) == f"<IPCVirtualMemoryDescriptor of {buffer.size} bytes, descriptors={handle.descriptors}>"
    again = IPCVirtualMemoryDescriptor(handle.descriptors, handle.sizes)
    assert (again.size, again.offset) == (buffer.size, 0)
    del handle
    gc.collect()
    assert descriptors() == before + 1
    again.close()
    assert descriptors() == before
    assert repr(again) == "<IPCVirtualMemoryDescriptor closed>"


def test_closed_during_an_import(
    resource: VirtualMemoryResource, buffer: ch.Buffer, stream: ch.Stream, cuda_sim: Any, tmp_path: Path
) -> None:
    """If another thread closes the descriptor during an import, the driver would import a new file of that number."""
    before = descriptors()
    handle = resource.export_allocation(buffer)
    call = "cuMemImportFromShareableHandle"
    cuda_sim.hold(call)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(resource.import_allocation, handle)
        while not cuda_sim.held(call):
            time.sleep(1e-3)
        handle.close()
        with (tmp_path / "file").open("w"):
            cuda_sim.let_go(call)
            assert set(read(future.result(), stream)) == {3}
        del future
    assert handle.is_closed
    assert descriptors() == before


def test_plain_pickle(resource: VirtualMemoryResource, buffer: ch.Buffer) -> None:
    """A pickle would have the number of a file descriptor, which means another file in another process."""
    before = descriptors()
    for obj in (buffer, buffer[1:2], resource.export_allocation(buffer)):
        with pytest.raises(TypeError, match="has file descriptors, which pickle alone cannot"):
            pickle.dumps(obj)
    del obj
    gc.collect()
    assert descriptors() == before


# ---- invalid exports and imports


def test_what_cannot_be_imported(device: ch.Device, resource: VirtualMemoryResource, buffer: ch.Buffer) -> None:
    """A file of another kind would be imported, or memory that does not exist would be mapped."""
    with open(os.devnull) as file:
        handle = IPCVirtualMemoryDescriptor([file.fileno()], [resource.granularity])
        with pytest.raises(ch.CUDAError, match="must be those of export_allocation"):
            resource.import_allocation(handle)
    on_host = VirtualMemoryResource(device, {"location_type": "host", "handle_type": None})
    handle = resource.export_allocation(buffer)
    with pytest.raises(ValueError, match="not at the location of this memory resource"):
        on_host.import_allocation(handle)


# ---- kinds of access


def test_access_of_the_importer(device: ch.Device, resource: VirtualMemoryResource, buffer: ch.Buffer) -> None:
    """An importer could not have less access than the exporter."""
    reader = VirtualMemoryResource(device, {"self_access": "r"})
    with resource.export_allocation(buffer) as handle:
        imported = reader.import_allocation(handle)
    assert imported.memory_resource is reader


def test_fabric_handles(device: ch.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error would only be the driver's "not permitted", and would not name the missing permission."""
    monkeypatch.setattr(ch.DeviceProperties, "handle_type_fabric_supported", True)
    fabric = VirtualMemoryResource(device, {"handle_type": "fabric"})
    try:
        buffer = fabric.allocate(1)
    except ch.CUDAError as error:
        assert "IMEX" in str(error)  # noqa: PT017 - a machine can have the service
    else:
        with pytest.raises(RuntimeError, match="handle_type='fabric', with which this library cannot share memory"):
            fabric.export_allocation(buffer)
