# SPDX-License-Identifier: Apache-2.0
"""Sharing virtual memory between processes: file descriptors of its physical memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cudacore_handles._base import results
from cudacore_handles._base.address import as_integer
from cudacore_handles._base.errors import check, last_error
from cudacore_handles._base.handle import hold, out_box
from cudacore_handles._base.ipc import Descriptors, HasDescriptors, teach_multiprocessing
from cudacore_handles._base.module_attributes import public
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.device import find_device
from cudacore_handles._memory.arguments import check_size
from cudacore_handles.typing import VirtualMemoryHandleType

if TYPE_CHECKING:
    from cudacore_handles._memory.buffer import Buffer
    from cudacore_handles._memory.virtual_memory import VirtualMemoryResource, VirtualMemoryResourceOptions

_NOT_EXPORTED = "Memory that came from another process, or was made with another handle_type, cannot be exported"
_NOT_IMPORTED = "The descriptors must be those of export_allocation(), of a process of this machine, with their sizes"


@public
class IPCVirtualMemoryDescriptor(HasDescriptors):
    """File descriptors with which another process maps virtual memory.

    :meth:`VirtualMemoryResource.export_allocation` returns it, and :meth:`VirtualMemoryResource.import_allocation` maps
    the memory. A buffer has one descriptor for its initial memory, and one for each time that it grew.
    ``multiprocessing`` sends the object. By other means, send `descriptors` with ``socket.send_fds``, and `sizes`,
    `offset` and `size` as numbers, and make the object again in the other process.

    The memory lives until all descriptors are closed, and no process has it mapped. The descriptors are closed with the
    object.

    Parameters
    ----------
    descriptors : sequence of int
        The file descriptors. They are duplicated; the caller keeps its own.
    sizes : sequence of int
        The size in bytes of each descriptor's memory.
    offset : int, optional
        The offset of the buffer in this memory, if the buffer is a part of another one. Default 0.
    size : int, optional
        The size of the buffer in bytes. Default: all bytes from the offset on.
    """

    __slots__ = ("__weakref__", "_offset", "_size", "_sizes")
    _names = ("_files", "_sizes", "_offset", "_size")
    _other_way = "the descriptors of VirtualMemoryResource.export_allocation()"

    def __init__(
        self, descriptors: Sequence[int], sizes: Sequence[int], offset: int = 0, size: int | None = None
    ) -> None:
        self._files = None
        self._sizes = tuple(check_size(size, "sizes") for size in sizes)
        total = sum(self._sizes)
        self._offset = check_size(offset, "offset")
        self._size = total - self._offset if size is None else check_size(size)
        if not 0 <= self._size <= total - self._offset:
            raise ValueError(f"{size} bytes from byte {offset} on are not within the {total} bytes of the memory")
        numbers = [as_integer(descriptor) for descriptor in descriptors]
        if len(numbers) != len(self._sizes):
            raise ValueError(f"there are {len(numbers)} descriptors and {len(self._sizes)} sizes; each needs one")
        for number, given in zip(numbers, descriptors, strict=True):
            if number is None or not 0 <= number < 2**31:
                raise ValueError(f"descriptors has {given!r}, which is not a file descriptor")
        self._files = Descriptors.copies(numbers)  # type: ignore[arg-type]
        teach_multiprocessing(type(self))

    def __repr__(self) -> str:
        if self.is_closed:
            return "<IPCVirtualMemoryDescriptor closed>"
        return f"<IPCVirtualMemoryDescriptor of {self._size} bytes, descriptors={self.descriptors}>"

    @property
    def descriptors(self) -> tuple[int, ...]:
        """tuple of int: The file descriptors."""
        return tuple(self._open().numbers)

    @property
    def sizes(self) -> tuple[int, ...]:
        """tuple of int: The size in bytes of each descriptor's memory."""
        return self._sizes

    @property
    def offset(self) -> int:
        """int: The offset of the buffer in this memory."""
        return self._offset

    @property
    def size(self) -> int:
        """int: The size of the buffer in bytes."""
        return self._size


def export_buffer(buffer: Buffer, options: VirtualMemoryResourceOptions) -> IPCVirtualMemoryDescriptor:
    """Export a buffer of virtual memory (cuMemExportToShareableHandle)."""
    box = hold(buffer)
    if options.handle_type is None:
        raise RuntimeError(
            "the memory was made with handle_type=None, and cannot be shared: use VirtualMemoryResourceOptions("
            "handle_type='posix_fd')"
        )
    if VirtualMemoryHandleType(options.handle_type) is not VirtualMemoryHandleType.POSIX_FD:
        raise RuntimeError(
            f"the memory was made with handle_type={options.handle_type!r}, with which this library cannot share "
            "memory: use 'posix_fd'"
        )
    size = lib.cch_deviceptr_size(box)
    if not size:
        return IPCVirtualMemoryDescriptor._init(Descriptors([]), (), 0, 0)
    count = lib.cch_virtual_piece_count(box)
    files, sizes = Descriptors(ffi.new("int[]", [-1] * count)), ffi.new("size_t[]", count)
    status = lib.cch_virtual_export(files.numbers, sizes, count, box)
    check(status, hints={results.INVALID_VALUE: _NOT_EXPORTED})
    return IPCVirtualMemoryDescriptor._init(files, tuple(sizes), lib.cch_deviceptr_offset(box), size)


def import_pieces(config: Any, handle: IPCVirtualMemoryDescriptor) -> Any:
    """Map memory that another process exported; return the out-parameter with its box, for :func:`adopt`."""
    files = handle._open()
    out = out_box("cch_deviceptr")
    status = lib.cch_virtual_import(out, config, files.numbers, handle._sizes, len(files.numbers))
    if status == lib.CCH_EMISMATCH:
        raise ValueError("the memory of descriptor is not at the location of this memory resource") from last_error(
            status
        )
    check(status, hints=dict.fromkeys((results.INVALID_VALUE, results.NOT_SUPPORTED, results.UNKNOWN), _NOT_IMPORTED))
    return out


# ---- between processes


def reduce_buffer(resource: VirtualMemoryResource, buffer: Buffer) -> tuple[Any, ...]:
    """Return the function and arguments that make the buffer in another process."""
    # Each process has its own addresses and peers.
    config = replace(resource.config, addr_hint=0, peers=())
    return receive_virtual_buffer, (resource._device.uuid, config, export_buffer(buffer, resource.config))


@public
def receive_virtual_buffer(
    uuid: str, config: VirtualMemoryResourceOptions, handle: IPCVirtualMemoryDescriptor
) -> Buffer:
    """Return the buffer that another process sent."""
    from cudacore_handles._memory.virtual_memory import VirtualMemoryResource

    with handle:
        return VirtualMemoryResource(find_device(uuid), config).import_allocation(handle)
