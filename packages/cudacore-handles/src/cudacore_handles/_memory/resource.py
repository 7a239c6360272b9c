# SPDX-License-Identifier: Apache-2.0
"""Memory resources, which allocate buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from cudacore_handles import _native
from cudacore_handles._base.address import as_address
from cudacore_handles._base.driver_calls import call_driver
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import address, hold, out_box
from cudacore_handles._base.names import check_type
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.context import Context, current_context
from cudacore_handles._driver.device import Device, connect
from cudacore_handles._memory.arguments import check_size
from cudacore_handles._memory.buffer import Buffer, empty_buffer
from cudacore_handles._memory.out_of_memory import allocate_with
from cudacore_handles._stream.stream import IsStreamType, Stream, accept_if_given

if TYPE_CHECKING:
    from cudacore_handles._memory.managed import ManagedBuffer

_B = TypeVar("_B", bound=Buffer)

_MEMHOSTALLOC_PORTABLE = 1  # pinned for all contexts
_MEMORY_POOLS_SUPPORTED = 115  # CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
_MEM_ATTACH_GLOBAL = 1  # the memory can be used on all streams of all devices
_PTR = "ptr must be an int, the memory's address"


class MemoryResource:
    """The base class of memory resources. Subclass it to use your own allocator.

    A subclass implements :meth:`allocate`, which returns ``Buffer.from_handle(ptr, size, mr=self, stream=stream)``,
    :meth:`deallocate`, and the properties. It can be assigned to :attr:`Device.memory_resource`, and its buffers can be
    used like all others.

    Notes
    -----
    A memory resource can rely on this:

    - It is kept alive as long as there are buffers that it made, or objects that were exported from them.
    - :meth:`deallocate` is called once for each buffer, when its memory is no longer used, with the address and the
      size that :meth:`Buffer.from_handle` was given. It can be called on any thread and with any context current. The
      thread holds the GIL and may call CUDA.
    - The `stream` of :meth:`deallocate` is the one given to :meth:`Buffer.close`, or else to
      :meth:`Buffer.set_deallocation_stream`, or else to :meth:`Buffer.from_handle`; otherwise it is the default stream.
      If parts of the buffer were closed on other streams, it is a stream whose work comes after the work of all these
      streams. Work on the stream may still use the memory, so the free must be ordered after that work.
    - Exceptions that :meth:`deallocate` raises are passed to ``sys.unraisablehook``. The method is not called once the
      interpreter has begun to shut down.

    A memory resource must ensure this:

    - :meth:`allocate` returns a :class:`Buffer`.
    - The memory can be used on the stream that :meth:`allocate` was given, and does not move.
    - The properties are the same for all of its buffers.
    """

    #: Whether an allocation collects garbage (``gc.collect()``) and tries once more before it raises OutOfMemoryError.
    #: Cycles of Python objects can keep buffers that are no longer needed. Nothing is collected while a stream is
    #: captured. It can be set on an object, on a class, or on ``MemoryResource`` for all. It has no effect on a
    #: subclass that implements its own :meth:`allocate`, unless that method allocates from one of the classes here.
    collects_garbage: bool = True

    def allocate(self, size: int, *, stream: Stream | IsStreamType) -> Buffer:
        """Allocate a buffer of `size` bytes, ordered on a stream."""
        raise TypeError(f"{type(self).__name__} does not implement allocate()")

    def deallocate(self, ptr: int, size: int, *, stream: Stream | IsStreamType) -> None:
        """Free the `size` bytes at `ptr`, ordered on a stream."""
        raise TypeError(f"{type(self).__name__} does not implement deallocate()")

    @property
    def _origin(self) -> MemoryResource:
        """The innermost resource if this is an adaptor; otherwise this resource."""
        return self

    @property
    def is_device_accessible(self) -> bool:
        """bool: Whether kernels can use the memory."""
        raise TypeError(f"{type(self).__name__} does not implement is_device_accessible")

    @property
    def is_host_accessible(self) -> bool:
        """bool: Whether the host can use the memory."""
        raise TypeError(f"{type(self).__name__} does not implement is_host_accessible")

    @property
    def is_managed(self) -> bool:
        """bool: Whether the memory is managed memory. Default False."""
        return False

    @property
    def device_id(self) -> int:
        """int: Ordinal of the memory's device; -1 for host memory."""
        raise TypeError(f"{type(self).__name__} does not implement device_id")


def allocate_now(
    cls: type[_B],
    resource: MemoryResource,
    size: SupportsIndex,
    stream: Stream | IsStreamType | None,
    function: Callable[[Any, int], int],
    where: str,
) -> _B:
    """Allocate synchronously by a function of the library; `where` names the kind of memory in the error."""
    out = out_box("cch_deviceptr")
    nbytes = check_size(size)
    accepted = accept_if_given(stream)
    if nbytes == 0:
        return empty_buffer(cls, resource)
    allocate_with(resource, nbytes, accepted, where, lambda: function(out, nbytes))
    return cls._adopt_memory(address(out), resource, None, accepted)


class AccessibleMemoryResource(MemoryResource):
    """The common part of memory resources whose memory kernels can always use."""

    _is_host_accessible = False

    @property
    def is_device_accessible(self) -> bool:
        """bool: True."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """bool: Whether the host can use the memory."""
        return self._is_host_accessible


class SynchronousMemoryResource(AccessibleMemoryResource):
    """The common part of memory resources that allocate synchronously."""

    _is_host_accessible = True
    _device_id = -1
    _free = "cuMemFree"
    _where: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def allocate(self, size: SupportsIndex, *, stream: Stream | IsStreamType | None = None) -> Buffer:
        """Allocate memory in the current context.

        Parameters
        ----------
        size : int
            Size in bytes; a buffer of 0 bytes has no memory.
        stream : Stream, optional
            A stream to wait for before the memory is freed. Default None.
        """
        return allocate_now(self._buffer_class, self, size, stream, self._call, self._where)

    def deallocate(self, ptr: int, size: int, *, stream: Stream | IsStreamType | None = None) -> None:
        """Free memory that was allocated by other means, after the stream's work is done (cuMemFree, cuMemFreeHost)."""
        accepted = accept_if_given(stream)
        if accepted is not None:
            accepted.sync()
        call_driver(self._free, as_address(ptr, _PTR))

    def _call(self, out: Any, nbytes: int) -> int:
        """Call the function of the library that allocates."""
        raise NotImplementedError

    @property
    def _buffer_class(self) -> type[Buffer]:
        return Buffer

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device; -1 for host memory, and for managed memory, which belongs to no device."""
        return self._device_id


class LegacyPinnedMemoryResource(SynchronousMemoryResource):
    """A memory resource that allocates page-locked host memory synchronously (cuMemHostAlloc).

    Examples
    --------
    >>> buffer = core.LegacyPinnedMemoryResource().allocate(16)
    >>> array = np.asarray(buffer.view("float32", (4,)))
    >>> array[:] = 1  # the host and the device can use it
    """

    _free = "cuMemFreeHost"
    _where = "page-locked host memory"

    def _call(self, out: Any, nbytes: int) -> int:
        return lib.cch_deviceptr_alloc_host(out, hold(current_or_own_context()), nbytes, _MEMHOSTALLOC_PORTABLE)


class LegacyManagedMemoryResource(SynchronousMemoryResource):
    """A memory resource that allocates managed memory synchronously (cuMemAllocManaged).

    Its buffers are :class:`ManagedBuffer` objects. CUDA accepts all advice for them: :attr:`ManagedBuffer.read_mostly`,
    :attr:`ManagedBuffer.preferred_location` and :attr:`ManagedBuffer.accessed_by` can be set, which is not possible for
    memory of a :class:`ManagedMemoryResource`. The resource works with all drivers for CUDA 12. The free waits for all
    work of the device. If a device cannot share the memory with the host, the host must wait for all work of that
    device before it uses the memory; a warning is given then.

    Examples
    --------
    >>> buffer = core.LegacyManagedMemoryResource().allocate(16)
    >>> array = np.asarray(buffer.view("float32", (4,)))
    >>> array[:] = 1
    """

    _where = "managed memory"

    def __init__(self) -> None:
        from cudacore_handles._memory.managed import warn_of_no_concurrent_access

        warn_of_no_concurrent_access(stacklevel=2)

    if TYPE_CHECKING:

        def allocate(self, size: SupportsIndex, *, stream: Stream | IsStreamType | None = None) -> ManagedBuffer: ...

    def _call(self, out: Any, nbytes: int) -> int:
        return lib.cch_deviceptr_alloc_managed(out, hold(current_or_own_context()), nbytes, _MEM_ATTACH_GLOBAL)

    @property
    def _buffer_class(self) -> type[ManagedBuffer]:
        from cudacore_handles._memory.managed import ManagedBuffer

        return ManagedBuffer

    @property
    def is_managed(self) -> bool:
        """bool: True."""
        return True


class _SynchronousMemoryResource(SynchronousMemoryResource):
    """A memory resource that allocates device memory synchronously (cuMemAlloc), for devices without pools."""

    _is_host_accessible = False

    def __init__(self, device_id: int) -> None:
        self._device_id = Device(device_id).device_id
        self._where = f"device {self._device_id}"

    def _call(self, out: Any, nbytes: int) -> int:
        return lib.cch_deviceptr_alloc(out, hold(Device(self._device_id)._target()), nbytes)


def current_or_own_context() -> Context:
    """Return the current context, or else that of the current device."""
    return current_context() or Device().context


def _make_memory_resource(device: Device) -> MemoryResource:
    """Return the initial memory resource of a device."""
    from cudacore_handles._memory.device_pool import DeviceMemoryResource

    pools = ffi.new("int *")  # queried directly: the modules of Device.properties take time to import
    check(lib.cch_device_attribute(pools, _MEMORY_POOLS_SUPPORTED, device.device_id))
    return DeviceMemoryResource(device) if pools[0] else _SynchronousMemoryResource(device.device_id)


def _check_memory_resource(device: Device, mr: MemoryResource) -> None:
    """Raise an error if a device cannot have a memory resource."""
    check_type("memory_resource", mr, MemoryResource)
    if mr.device_id not in (device.device_id, -1):
        raise ValueError(f"memory_resource is {mr!r}, whose memory is of device {mr.device_id}, not of {device!r}")


_native.connect("memory", memory_resource=MemoryResource)
connect(make_memory_resource=_make_memory_resource, check_memory_resource=_check_memory_resource)
