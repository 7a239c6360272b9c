# SPDX-License-Identifier: Apache-2.0
"""Buffers: memory with an owner, a size, and a stream on which it will be freed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from cudacore_handles import _native
from cudacore_handles._base.address import as_address
from cudacore_handles._base.errors import check, check_open, no_buffer
from cudacore_handles._base.handle import address, hold, out_box, share
from cudacore_handles._base.host_array import array_of_bytes, as_requested, host_bytes
from cudacore_handles._base.made import Closing, Made
from cudacore_handles._base.names import check_type, shorten, type_text
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._memory.arguments import check_size, size_of
from cudacore_handles._memory.buffer_copy import copy_array, copy_with_options, pack_options
from cudacore_handles._memory.fill import fill_pattern
from cudacore_handles._memory.ipc import (
    IPCBufferDescriptor,
    describe_buffer,
    import_buffer,
    not_enabled,
)
from cudacore_handles._stream.stream import IsStreamType, Stream, default_stream
from cudacore_handles.typing import AnyArrayType, FillValueType

if TYPE_CHECKING:
    from cudacore_handles._memory.copy import CopyOptions
    from cudacore_handles._memory.device_pool import DeviceMemoryResource
    from cudacore_handles._memory.pinned_pool import PinnedMemoryResource
    from cudacore_handles._memory.resource import MemoryResource
    from cudacore_handles._views.view import StridedMemoryView

_A = TypeVar("_A", bound=AnyArrayType)
T = TypeVar("T", bound="Buffer")


class Buffer(_native.BufferHandle, Closing, Made):
    """A piece of memory that a device can use.

    Buffers are made by :meth:`Device.allocate`, :meth:`MemoryResource.allocate` and :meth:`from_handle`. When the
    buffer is closed or no longer referenced, the memory is freed, ordered on the stream that it was allocated on. A
    buffer can be passed to kernels and exported by DLPack. If the host can access the memory, the buffer supports the
    buffer protocol (Python 3.12 and later; :meth:`__buffer__` works in all versions). ``buffer[a:b]`` is a buffer of a
    part of the memory.

    Examples
    --------
    >>> values = np.arange(4, dtype=np.float32)
    >>> buffer = device.allocate(values.nbytes, stream=stream)
    >>> buffer.copy_from(values, stream=stream)
    >>> half = np.empty(2, np.float32)
    >>> buffer[8:].copy_to(half, stream=stream)
    array([2., 3.], dtype=float32)
    >>> buffer.close()
    """

    __slots__ = ("__weakref__", "_descriptor")
    _made_by = "Device.allocate() or Buffer.from_handle()"
    _descriptor: IPCBufferDescriptor  # for other processes; set by an import, or at its first use

    __dlpack_c_exchange_api__: object = _native.exchange_api

    def __repr__(self) -> str:
        if self.is_closed:
            return "<Buffer closed>"
        return f"<Buffer ptr={self._raw:#x} size={self.size}{' is_mapped=True' if self.is_mapped else ''}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return a NumPy array of bytes, if the host can access the memory."""
        if not self.is_host_accessible:
            raise TypeError(
                "a Buffer of device memory cannot be a NumPy array: buffer.copy_to(array, stream=stream) copies it "
                "to one"
            )
        return as_requested(array_of_bytes(self.__buffer__()), dtype, copy)

    __iter__ = None  # otherwise Python would treat an object with __getitem__ as a sequence

    def __getitem__(self, part: slice) -> Buffer:
        """Return a buffer of a part of the memory: ``buffer[a:b]`` has the bytes from `a` to `b`.

        Bounds are like those of Python's slices: negative ones count from the end, and the slice is clipped to the
        buffer. A part has the same memory resource and owner as the buffer. The memory is freed on the stream of the
        buffer when the buffer and all of its parts are closed or collected. If a part was given another stream, by
        :meth:`close` or :meth:`set_deallocation_stream`, the memory is freed only after the work of that stream as
        well. An empty part has no memory.

        Parameters
        ----------
        part : slice
            The bytes; the step must be 1.

        Raises
        ------
        ValueError
            If the step is not 1.
        """
        if not isinstance(part, slice):
            raise TypeError(
                f"a part of a Buffer is buffer[start:stop], not buffer[{shorten(repr(part))}]; buffer.view(dtype) has "
                "elements"
            )
        box = hold(self)
        start, stop, step = part.indices(lib.cch_deviceptr_size(box))
        if step != 1:
            raise ValueError(f"the step of a part is {step}, and must be 1: use buffer.view(dtype) for strided arrays")
        mr, owner = self.memory_resource, self.owner
        if start >= stop:
            empty = empty_buffer(type(self), mr, owner)
            if mr is None:
                empty._set_access(self.device_id, self.is_device_accessible, self.is_host_accessible, self.is_managed)
            return empty
        out = out_box("cch_deviceptr")
        check(lib.cch_deviceptr_part(out, box, start, stop - start))
        return type(self)._adopt_memory(address(out), mr, owner)

    def __copy__(self) -> Buffer:
        return self[:]

    def __deepcopy__(self, memo: object) -> Buffer:
        raise TypeError(
            "copy.deepcopy() does not copy a Buffer: use buffer.copy_to(stream=stream); buffer[:] is another object of "
            "the same memory"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        mr = self.memory_resource
        check_open(self)  # last, because another thread can close it
        reduce = getattr(mr._origin, "_reduce_buffer", None) if mr is not None else None
        if reduce is None:
            raise not_enabled(mr, "pickled")
        return reduce(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """dict: The memory as an array of bytes, for CuPy, Numba and others (CUDA Array Interface, version 3).

        Raises AttributeError if kernels cannot use the memory.
        """
        from cudacore_handles._stream.order import stream_for_interface

        box = hold(self)
        if not self.is_device_accessible:
            raise AttributeError(
                "a Buffer of host memory has no __cuda_array_interface__", name="__cuda_array_interface__"
            )
        check(lib.cch_deviceptr_check(box))
        size = lib.cch_deviceptr_size(box)
        return {
            "shape": (size,),
            "strides": None,
            "typestr": "|i1",
            "data": (self._raw if size else 0, self.is_read_only),
            "version": 3,
            "stream": stream_for_interface(_native.deallocation_stream(address(box))),
        }

    def __buffer__(self, flags: int = 0, /) -> memoryview:
        """Return the memory as a view of bytes, if the host can access it; writable unless :attr:`is_read_only`.

        The view keeps the memory alive, even if this object is closed. It does not wait for work on any stream.
        """
        if not self.is_host_accessible:
            raise BufferError(
                "the host cannot reach this memory: buffer.copy_to(array, stream=stream) copies it to an array"
            )
        box = hold(self)
        check(lib.cch_deviceptr_check(box))
        readonly = bool(lib.cch_deviceptr_is_read_only(box))
        return host_bytes(self._raw, lib.cch_deviceptr_size(box), box, readonly=readonly)

    @classmethod
    def from_ipc_descriptor(
        cls,
        mr: DeviceMemoryResource | PinnedMemoryResource,
        ipc_descriptor: IPCBufferDescriptor,
        *,
        stream: Stream | IsStreamType,
    ) -> Buffer:
        """Map memory of another process (cuMemPoolImportPointer).

        All buffers of one descriptor share one mapping, which ends when the last of them is closed. The process that
        allocated the memory must not free it before that; CUDA does not check this.

        Parameters
        ----------
        mr : DeviceMemoryResource or PinnedMemoryResource
            The imported pool of the memory.
        ipc_descriptor : IPCBufferDescriptor
            The :attr:`ipc_descriptor` of the buffer in the other process.
        stream : Stream
            The stream on which the unmapping is ordered.
        """
        return import_buffer(cls, mr, ipc_descriptor, stream)

    @overload
    def copy_to(
        self, dst: None = ..., *, stream: Stream | IsStreamType, options: CopyOptions | None = ...
    ) -> Buffer: ...
    @overload
    def copy_to(self, dst: _A, *, stream: Stream | IsStreamType, options: CopyOptions | None = None) -> _A: ...
    def copy_to(self, dst: Any = None, *, stream: Stream | IsStreamType, options: CopyOptions | None = None) -> Any:
        """Copy this buffer's bytes (cuMemcpyAsync).

        A copy between buffers is ordered on the stream, and the host does not wait. The buffers and the stream can be
        on different devices, which need no access to each other's memory (cuMemcpyPeerAsync). If the stream is
        captured, its device needs access.

        For an array in host memory (NumPy's, or an object with the buffer protocol, ``__array_interface__`` or DLPack),
        the host waits for the stream, so that the copy is complete when this returns. A copy to another library's array
        in device memory is ordered on the stream. It comes after the producer's own work if DLPack or
        ``__cuda_array_interface__`` reports the producer's stream. The array must live until the copy is done.

        Parameters
        ----------
        dst : Buffer or array, optional
            The destination: contiguous, with the same number of bytes. Default: a new buffer from the same memory
            resource.
        stream : Stream
            The stream that the copy is ordered on.
        options : CopyOptions, optional
            Options of the copy. Default: the copy reads its source in the order of the stream.

        Returns
        -------
        Buffer or array
            `dst`, or the new buffer.

        Raises
        ------
        ValueError
            If the sizes differ, the memory overlaps, `dst` is read-only, or `dst` is missing and there is no memory
            resource.
        """
        packed = None if options is None else pack_options("copy_to", options, stream)
        if dst is None:
            mr = self.memory_resource
            check_open(self)
            if mr is None:
                raise ValueError("dst is missing, and this buffer has no memory_resource to make one from")
            dst = mr.allocate(size_of(self), stream=stream)
            if not isinstance(dst, Buffer):
                raise no_buffer(mr, dst)
        if not isinstance(dst, Buffer):
            copy_array(self, dst, "dst", packed, stream)
        elif packed is None:
            _native.copy(dst, self, stream)
        else:
            copy_with_options(dst, self, packed, stream)
        return dst

    def copy_from(
        self, src: AnyArrayType, *, stream: Stream | IsStreamType, options: CopyOptions | None = None
    ) -> None:
        """Copy bytes to this buffer (cuMemcpyAsync).

        A copy between buffers is ordered on the stream, and the host does not wait. For an array in host memory (see
        :meth:`copy_to`), the host waits for the stream, so that the array can be used again when this returns.

        Parameters
        ----------
        src : Buffer or array
            The source: contiguous, with the same number of bytes.
        stream : Stream
            The stream that the copy is ordered on.
        options : CopyOptions, optional
            Options of the copy. Default: the copy reads its source in the order of the stream.

        Raises
        ------
        ValueError
            If the sizes differ, the memory overlaps, or this buffer is read-only.
        """
        packed = None if options is None else pack_options("copy_from", options, stream)
        if not isinstance(src, Buffer):
            copy_array(self, src, "src", packed, stream)
        elif packed is None:
            _native.copy(self, src, stream)
        else:
            copy_with_options(self, src, packed, stream)

    def copy_part_from(
        self,
        src: Buffer,
        width: int,
        *,
        height: int = 1,
        depth: int = 1,
        src_offset: int = 0,
        src_pitch: int | None = None,
        src_height: int | None = None,
        dst_offset: int = 0,
        dst_pitch: int | None = None,
        dst_height: int | None = None,
        stream: Stream | IsStreamType,
    ) -> None:
        """Copy a part of a buffer into this one, in up to three dimensions (cuMemcpy3DAsync).

        The part is `depth` slices of `height` rows of `width` bytes.

        Parameters
        ----------
        src : Buffer
            The source; it can be this buffer if the parts do not overlap.
        width : int
            Bytes per row.
        height, depth : int, optional
            Rows per slice, and number of slices. Default 1.
        src_offset, dst_offset : int, optional
            The offset of the part in each buffer, in bytes. Default 0.
        src_pitch, dst_pitch : int, optional
            Bytes from row to row, in each buffer. Default: the width.
        src_height, dst_height : int, optional
            Rows from slice to slice, in each buffer. Default: the height.
        stream : Stream
            The stream that the copy is ordered on.

        Raises
        ------
        ValueError
            If the part exceeds a buffer, its rows overlap, the two parts overlap, or this buffer is read-only.
        """
        from cudacore_handles._memory.copy import pack_shape

        if not isinstance(src, Buffer):
            raise TypeError(f"src must be a Buffer, not {type_text(src)}; copy_from() takes arrays")
        to, from_ = (dst_offset, dst_pitch, dst_height), (src_offset, src_pitch, src_height)
        _native.copy_part(self, src, pack_shape((width, height, depth), to, from_), stream)

    def fill(self, value: FillValueType, *, stream: Stream | IsStreamType) -> None:
        """Fill the buffer with a repeated value (cuMemsetD8Async and similar functions).

        Parameters
        ----------
        value : int, scalar, bytes-like or array
            A byte, 0 to 255; or a value of 1, 2, 4 or 8 bytes in host memory, such as ``np.float32(1.5)`` or
            ``ml_dtypes.bfloat16(1.5)``. The buffer's size must be a multiple of it.
        stream : Stream
            The stream that the fill is ordered on.

        Raises
        ------
        ValueError
            If the value does not fit the buffer, or the buffer is read-only.
        """
        if type(value) is int and 0 <= value < 256:
            width = 1
        else:
            value, width = fill_pattern(value, stream)
        _native.fill(self, value, width, stream)

    def view(
        self, dtype: Any, shape: Sequence[int] | int | None = None, strides: Sequence[int] | None = None
    ) -> StridedMemoryView:
        """Return the memory as an array, for kernels and other libraries.

        Parameters
        ----------
        dtype : numpy.dtype
            Type of the elements: a dtype, anything that ``np.dtype()`` accepts, or a name such as "float32" or
            "bfloat16".
        shape : tuple of int, optional
            Extents. Default: one dimension with all elements; the buffer's size must be a multiple of the element size.
        strides : tuple of int, optional
            Strides in elements. Default: C order.

        Returns
        -------
        StridedMemoryView
            See :meth:`StridedMemoryView.from_buffer`, which has more options.

        Raises
        ------
        ValueError
            If the buffer's size is not a multiple of the type's, or is too small for the shape.
        """
        from cudacore_handles._views.dtypes import type_given
        from cudacore_handles._views.view import StridedMemoryView

        if shape is None:
            size, itemsize = size_of(self), type_given(dtype).itemsize
            if size % itemsize:
                raise ValueError(
                    f"the buffer's {size} bytes are not a multiple of the {itemsize} of an element; give the shape, to "
                    "leave out the rest"
                )
            shape = (size // itemsize,)
        return StridedMemoryView.from_buffer(self, shape, strides, dtype=dtype)

    @property
    def ipc_descriptor(self) -> IPCBufferDescriptor:
        """IPCBufferDescriptor: The name of the memory for other processes (cuMemPoolExportPointer).

        Available for memory of a pool that was created with ``ipc_enabled=True``, in this process or another one, and
        for parts of such memory.
        """
        check_open(self)
        if not hasattr(self, "_descriptor"):
            self._descriptor = describe_buffer(self)
        return self._descriptor


def _check_memory(ptr: Any, size: Any, mr: object, owner: object) -> tuple[int, int, object, Buffer | None]:
    """Check the arguments of :meth:`Buffer.from_handle`.

    Return the address, the size, the object that keeps the memory alive or frees it, and the buffer that does instead.
    """
    where = 0 if ptr is None else as_address(ptr, "ptr must be an int, the memory's address")
    nbytes = check_size(size)
    if mr is not None and owner is not None:
        raise ValueError(
            "owner and memory resource cannot be both specified together: mr frees the memory, or owner keeps it"
        )
    if mr is not None:
        from cudacore_handles._memory.resource import MemoryResource

        check_type("mr", mr, MemoryResource)
        return where, nbytes, mr, None
    lender = owner
    while isinstance(lender, _native.ViewHandle):
        lender = lender.exporting_obj
    if isinstance(lender, Buffer) and (lender is owner or not lender.is_closed):
        return where, nbytes, None, lender
    if isinstance(owner, _native.Handle):
        return where, nbytes, (owner, hold(owner)), None  # keeps the resource even if the object is closed
    return where, nbytes, owner, None


def empty_buffer(cls: type[T], mr: MemoryResource | None, owner: object = None) -> T:
    """Return a buffer of 0 bytes, which has no memory."""
    out = out_box("cch_deviceptr")
    check(lib.cch_deviceptr_wrap(out, 0, 0, ffi.NULL, ffi.NULL, ffi.NULL))
    return cls._adopt_memory(address(out), mr, owner)


def _free_memory(mr: MemoryResource, ptr: int, size: int, stream: int) -> None:
    """Have a memory resource free unused memory; `stream` is the address of a box, or 0."""
    ordered_on = share(Stream, ffi.cast("void *", stream)) if stream else default_stream()
    mr.deallocate(ptr, size, stream=ordered_on)


_native.connect("memory", buffer=Buffer, memory_resource=None, check_memory=_check_memory, free_memory=_free_memory)
