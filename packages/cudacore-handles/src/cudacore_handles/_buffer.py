# SPDX-License-Identifier: Apache-2.0
"""Buffers: memory with an owner, a size, and a stream that it will be freed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cudacore_handles import _native
from cudacore_handles._address import as_address
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._errors import call_driver, closed, raise_status
from cudacore_handles._handle import address, adopt, hold
from cudacore_handles._stream import IsStreamType, Stream, Stream_accept, default_stream

if TYPE_CHECKING:
    from cudacore_handles._memory import MemoryResource

_DL_CPU, _DL_CUDA, _DL_CUDA_HOST, _DL_CUDA_MANAGED = 1, 2, 3, 13
_MEMORY_TYPE_HOST = 1  # CU_MEMORYTYPE_HOST

_FREE = ffi.cast("cch_free_fn", _native.FREE)


class _Attributes(NamedTuple):
    """Where memory is and who can reach it."""

    device_id: int
    is_device_accessible: bool
    is_host_accessible: bool
    is_managed: bool


class Buffer(_native.BufferHandle):
    """Hold a piece of memory that a device can use.

    Buffers are made by :meth:`Device.allocate`, :meth:`MemoryResource.allocate` and :meth:`from_handle`. The memory is
    freed, in the order of the stream that it was allocated on, when the buffer is closed or nobody holds it any more.
    A buffer can be given to kernels, exported by DLPack, and read by the host through the buffer protocol where the
    host can reach it (Python 3.12 and later; :meth:`__buffer__` works everywhere).
    """

    __slots__ = ("__weakref__",)

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError("Buffer cannot be instantiated directly; use Device.allocate() or Buffer.from_handle()")

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.is_closed:
            return "<Buffer closed>"
        return f"<Buffer of {self.size} bytes at {self._raw:#x}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Buffer cannot be pickled: sharing memory between processes is not supported yet")

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the memory as a one-dimensional DLPack tensor of bytes.

        The tensor keeps the memory alive, whatever becomes of this object. It is not synchronized with any stream: a
        buffer does not know which stream writes to it.

        Parameters
        ----------
        stream : int, optional
            The consumer's stream. Only checked: an int, and for host memory None.
        max_version : tuple of int, optional
            The newest DLPack version that the consumer takes; from (1, 0) on the tensor is versioned.
        dl_device : tuple of int, optional
            The device to export to; only the memory's own will do.
        copy : bool, optional
            True is an error: the memory is never copied.
        """
        box = hold(self)
        device = self.__dlpack_device__()
        if copy:
            raise BufferError("copy=True: a Buffer exports its own memory and does not copy it; use copy_to() first")
        if dl_device is not None and tuple(dl_device) != device:
            raise BufferError(f"dl_device is {dl_device}, and the memory is on {device}; use copy_to() first")
        if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int)):
            raise TypeError(f"stream must be an int or None, not {type(stream).__name__}")
        versioned = max_version is not None and max_version[0] >= 1
        return _native.make_capsule(address(box), self._raw, self.size, *device, versioned)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device type and ordinal of the memory."""
        attributes = self._attributes()
        if attributes.is_managed:
            return (_DL_CUDA_MANAGED, 0)
        if attributes.is_device_accessible:
            return (_DL_CUDA_HOST, 0) if attributes.is_host_accessible else (_DL_CUDA, attributes.device_id)
        return (_DL_CPU, 0)

    def __buffer__(self, flags: int = 0, /) -> memoryview:
        """Return the memory as a writable view of bytes, where the host can reach it.

        The view keeps the memory alive, whatever becomes of this object. It does not wait for work on any stream.
        """
        if not self._attributes().is_host_accessible:
            raise BufferError(
                "the host cannot reach this memory; copy it to a LegacyPinnedMemoryResource's buffer first"
            )
        box = hold(self)
        # The cast pointer's destructor holds the box, and the view holds the cast pointer.
        pointer = ffi.gc(ffi.cast("char *", self._raw), lambda _: box)
        return memoryview(ffi.buffer(pointer, self.size))

    @staticmethod
    def from_handle(
        ptr: int,
        size: int,
        mr: MemoryResource | None = None,
        owner: object | None = None,
        *,
        stream: Stream | IsStreamType | None = None,
    ) -> Buffer:
        """Make a buffer of memory that exists.

        Parameters
        ----------
        ptr : int
            Address of the memory.
        size : int
            Bytes.
        mr : MemoryResource, optional
            Who frees it: ``mr.deallocate(ptr, size, stream=...)`` is called when the buffer is closed.
        owner : object, optional
            Who keeps it alive, instead of `mr`: the object is held as long as the memory is in use.
        stream : Stream, optional
            The stream that `mr` is given. Default: the one given to :meth:`close`, or the default stream.
        """
        where = 0 if ptr is None else as_address(ptr, "ptr must be an int, the memory's address")
        nbytes = check_size(size, least=0)
        if mr is not None and owner is not None:
            raise ValueError("give either mr, who frees the memory, or owner, who keeps it: not both")
        if mr is not None:
            from cudacore_handles._memory import MemoryResource

            if not isinstance(mr, MemoryResource):
                raise TypeError(f"mr must be a MemoryResource, not {type(mr).__name__}")
        accepted = None if stream is None else Stream_accept(stream, allow_stream_protocol=True)
        out = ffi.new("cch_deviceptr **")
        keeper = mr if mr is not None else owner
        kept = _native.own(keeper, mr is not None) if keeper is not None else 0
        free = _FREE if kept else ffi.NULL
        status = lib.cch_deviceptr_wrap(out, where, nbytes, ffi.NULL, ffi.cast("void *", kept), free)
        if status:
            if kept:
                _native.disown(kept)
            raise_status(status)
        buffer = Buffer._adopt_memory(address(out[0]), mr, owner)
        if accepted is not None:
            buffer.set_deallocation_stream(accepted)
        return buffer

    def copy_to(self, dst: Buffer | None = None, *, stream: Stream | IsStreamType, options: None = None) -> Buffer:
        """Copy this buffer's bytes to another (cuMemcpyAsync).

        Parameters
        ----------
        dst : Buffer, optional
            A buffer of the same size. Default: a new one from the same memory resource.
        stream : Stream
            The stream that the copy is ordered on.
        options : None
            Copy options are not supported in this release.

        Returns
        -------
        Buffer
            `dst`, or the new buffer.
        """
        if dst is None:
            if self.is_closed:
                raise closed(self)
            if self._mr is None:
                raise ValueError("dst is missing, and this buffer has no memory_resource to make one from")
            dst = self._mr.allocate(self.size, stream=stream)
        _check_options(options)
        _native.copy(dst, self, stream)
        return dst

    def copy_from(self, src: Buffer, *, stream: Stream | IsStreamType, options: None = None) -> None:
        """Copy another buffer's bytes to this one, which has the same size (cuMemcpyAsync).

        Parameters
        ----------
        src : Buffer
            A buffer of the same size.
        stream : Stream
            The stream that the copy is ordered on.
        options : None
            Copy options are not supported in this release.
        """
        _check_options(options)
        _native.copy(self, src, stream)

    def fill(self, value: Any, *, stream: Stream | IsStreamType) -> None:
        """Fill the buffer with a repeated value (cuMemsetD8Async and its kin).

        Parameters
        ----------
        value : int or bytes-like
            A byte, 0 to 255, or an object of 1, 2 or 4 bytes; the buffer's size is a multiple of that.
        stream : Stream
            The stream that the fill is ordered on.
        """
        if type(value) is int and 0 <= value < 256:
            width = 1
        else:
            value, width = _fill_pattern(value, self.size)
        _native.fill(self, value, width, stream)

    def _attributes(self) -> _Attributes:
        """What the memory resource says of the memory, or else the driver (cuPointerGetAttribute)."""
        if self.is_closed:
            raise closed(self)
        if self._known is None:
            mr = self._mr
            if mr is not None:
                self._known = _Attributes(mr.device_id, mr.is_device_accessible, mr.is_host_accessible, mr.is_managed)
            else:
                self._known = _pointer_attributes(self._raw)
        return self._known

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device whose memory it is; -1 for host memory."""
        return self._attributes().device_id

    @property
    def is_device_accessible(self) -> bool:
        """bool: Whether kernels can use the memory."""
        return self._attributes().is_device_accessible

    @property
    def is_host_accessible(self) -> bool:
        """bool: Whether the host can use the memory."""
        return self._attributes().is_host_accessible

    @property
    def is_managed(self) -> bool:
        """bool: Whether it is managed memory, which moves between host and devices by itself."""
        return self._attributes().is_managed

    @property
    def is_mapped(self) -> bool:
        """bool: Whether it is memory of another process, mapped into this one."""
        return False

    @property
    def memory_resource(self) -> MemoryResource | None:
        """MemoryResource or None: Who allocated the memory, and frees it."""
        return self._mr

    @property
    def owner(self) -> object:
        """object: Who keeps foreign memory alive, as given to :meth:`from_handle`; None when closed."""
        return self._owner


def check_size(size: object, *, least: int = 1) -> int:
    """Return a number of bytes as an int, or say what is wrong with it."""
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise TypeError(f"size must be an int, the number of bytes, not {type(size).__name__}")
    value: int = size.__index__()
    if not least <= value < 2**63:
        raise ValueError(f"size is {value}; it must be at least {least} and at most 2**63 - 1 bytes")
    return value


def _check_options(options: object) -> None:
    if options is not None:
        raise NotImplementedError("options: copy options are not supported yet; leave them out")


def _fill_pattern(value: object, size: int) -> tuple[int, int]:
    """Return the pattern of a fill as an integer, and its bytes."""
    try:
        # First, because NumPy's integers are numbers too, of a definite size.
        pattern = bytes(memoryview(value))  # type: ignore[arg-type]
    except TypeError:
        return _fill_byte(value), 1
    if len(pattern) not in (1, 2, 4):
        raise ValueError(f"value has {len(pattern)} bytes; a fill takes 1, 2 or 4")
    if size % len(pattern):
        raise ValueError(f"the buffer's {size} bytes are no multiple of the value's {len(pattern)}")
    return int.from_bytes(pattern, "little"), len(pattern)


def _fill_byte(value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"value must be an int from 0 to 255 or 1, 2 or 4 bytes, not {type(value).__name__}")
    number: int = value.__index__()
    if not 0 <= number < 256:
        raise OverflowError(f"value is {number}; an int fills bytes, 0 to 255. Give wider values as 2 or 4 bytes")
    return number


def _pointer_attributes(ptr: int) -> _Attributes:
    from cuda.bindings import driver

    kind = driver.CUpointer_attribute
    wanted = (kind.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, kind.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
              kind.CU_POINTER_ATTRIBUTE_IS_MANAGED)  # fmt: skip
    memory_type, ordinal, managed = call_driver("cuPointerGetAttributes", len(wanted), list(wanted), ptr)
    memory_type = int(memory_type)
    if memory_type == 0:  # CUDA does not know it: ordinary host memory
        return _Attributes(-1, False, True, False)
    if managed:
        return _Attributes(int(ordinal), True, True, True)
    if memory_type == _MEMORY_TYPE_HOST:
        return _Attributes(-1, True, True, False)
    return _Attributes(int(ordinal), True, False, False)


def _free_memory(mr: MemoryResource, ptr: int, size: int, stream: int) -> None:
    """Have a memory resource free memory that is no longer used; `stream` is the address of a box, or 0."""
    ordered_on = adopt(Stream, lib.cch_stream_ref(ffi.cast("cch_stream *", stream))) if stream else default_stream()
    mr.deallocate(ptr, size, stream=ordered_on)


_native.register(Buffer, _native.POINTER)
_native.set_face("buffer", Buffer)
_native.set_face("free_memory", _free_memory)
