# SPDX-License-Identifier: Apache-2.0
"""Existing host memory, registered with the driver."""

from __future__ import annotations

from cudacore_handles import _native
from cudacore_handles._base import results
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import address, hold, out_box
from cudacore_handles._base.options import as_flag
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.device import Device
from cudacore_handles._memory.arrays import host_memory_of
from cudacore_handles._memory.buffer import Buffer, empty_buffer
from cudacore_handles._memory.resource import current_or_own_context
from cudacore_handles._stream.stream import IsStreamType, Stream, Stream_accept
from cudacore_handles.typing import HostArrayType

# CU_MEMHOSTREGISTER_*
_PORTABLE, _DEVICEMAP, _IOMEMORY, _READ_ONLY = 1, 2, 4, 8

_HINTS = {
    results.HOST_MEMORY_ALREADY_REGISTERED: (
        "Some of the array's bytes are registered already, by register_host_memory() or by another library: use the "
        "Buffer of that registration, or a part of it, or end that registration first"
    ),
    results.INVALID_VALUE: (
        "The memory must be ordinary host memory that the process can write. Memory that it can only read, and a file "
        "that is mapped for writing, need read_only=True. Memory that CUDA allocated is page-locked already"
    ),
    results.NOT_SUPPORTED: "The system cannot page-lock this memory: a mapped file can be such memory; copy the array",
    results.OUT_OF_MEMORY: "The system limits how much memory is page-locked: see ulimit -l, and the free memory",
}


def register_host_memory(
    array: HostArrayType,
    *,
    read_only: bool | None = None,
    portable: bool = True,
    mapped: bool = True,
    iomemory: bool = False,
    stream: Stream | IsStreamType | None = None,
) -> Buffer:
    """Page-lock the memory of an existing array, and return it as a buffer (cuMemHostRegister).

    Copies between the buffer and device memory are asynchronous: they are ordered on their stream, and the host does
    not wait. A copy of an array that is not registered makes the host wait. Kernels can use the buffer like other
    page-locked memory.

    The buffer keeps the array alive. The memory is unregistered when the buffer, its parts, and all work and graphs
    that keep it no longer exist. Unregistering waits for work on the device that uses the memory. Registering takes
    time in proportion to the number of pages, often more time than one copy of the array, so register an array that is
    copied many times.

    Parameters
    ----------
    array : object
        A contiguous array in host memory: NumPy's, or any object with the buffer protocol, ``__array_interface__`` or
        DLPack. It can begin at any address. It must not share bytes with another registered array, but it can share
        pages. If the array has no bytes, nothing is registered.
    read_only : bool, optional
        Whether the device only reads the memory (CU_MEMHOSTREGISTER_READ_ONLY). Copies, fills and graph nodes that
        would write the buffer raise ValueError; a kernel must not write it. Default: True for a read-only array.
    portable : bool, optional
        Whether the memory is page-locked for all contexts, not only for the current one. Default True.
    mapped : bool, optional
        Whether kernels can use the memory. With unified addressing, which all supported devices have, the driver maps
        the memory in any case. Default True.
    iomemory : bool, optional
        Whether the memory is that of another device, such as a mapped register of a network card. Default False.
    stream : Stream, optional
        A stream to wait for before the memory is unregistered. Default None.

    Returns
    -------
    Buffer
        The memory; its :attr:`~Buffer.owner` is the array.

    Raises
    ------
    TypeError
        If it is not an array.
    ValueError
        If the array is not contiguous, is not in host memory, or is read-only and `read_only` is False.
    CUDAError
        If some of its bytes are registered already, or the driver cannot page-lock the memory.

    Examples
    --------
    >>> array = np.zeros(1 << 10, np.float32)
    >>> memory = device.allocate(array.nbytes, stream=stream)
    >>> with core.register_host_memory(array) as buffer:
    ...     memory.copy_from(buffer, stream=stream)  # the host does not wait
    ...     stream.sync()
    """
    writes = read_only is not None and not as_flag("read_only", read_only)
    accepted = None if stream is None else Stream_accept(stream, allow_stream_protocol=True)
    memory, can_write = host_memory_of(array, "array", writable=writes)
    flags = 0 if (can_write if read_only is None else writes) else _READ_ONLY
    for flag, name, value in ((_PORTABLE, "portable", portable), (_DEVICEMAP, "mapped", mapped)):
        flags |= flag if as_flag(name, value) else 0
    flags |= _IOMEMORY if as_flag("iomemory", iomemory) else 0
    if not memory.nbytes:
        empty = empty_buffer(Buffer, None, array)
        empty._set_access(-1, True, True, False)
        return empty
    context = current_or_own_context()
    _check_device(context.device, read_only=bool(flags & _READ_ONLY))
    out = out_box("cch_deviceptr")
    where, register = ffi.cast("void *", memory.address), lib.cch_deviceptr_register_host
    status = _native.call_owning(memory.keeper, register, out, hold(context), where, memory.nbytes, flags)
    if status:
        check(status, hints=_HINTS)
    return Buffer._adopt_memory(address(out), None, array, accepted)


def _check_device(device: Device, *, read_only: bool) -> None:
    properties = device.properties
    if not properties.host_register_supported or not properties.can_use_host_pointer_for_registered_mem:
        raise RuntimeError(
            f"device {device.device_id} cannot use registered host memory at its address (host_register_supported, "
            "can_use_host_pointer_for_registered_mem): use a LegacyPinnedMemoryResource, and copy the array"
        )
    if read_only and not properties.read_only_host_register_supported:
        raise RuntimeError(
            f"the array would be registered read-only, which device {device.device_id} does not support "
            "(read_only_host_register_supported is False): copy the array to one that can be written"
        )
