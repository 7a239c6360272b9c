# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays: memory whose layout is chosen by the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from cudacore_handles import _native
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import hold
from cudacore_handles._base.made import Closing, Made, not_pickled
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._memory.arguments import size_of
from cudacore_handles._memory.arrays import memory_of
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._stream.stream import Stream_accept, is_capturing
from cudacore_handles._texture.formats import NUMBERS, AnyArrayOptions, OnDevice, describe, format_of
from cudacore_handles._views.dtypes import is_numbers
from cudacore_handles.typing import AnyArrayType, ArrayFormatName, ArrayFormatType, IsDType

if TYPE_CHECKING:
    from cudacore_handles._driver.device import Device
    from cudacore_handles._stream.stream import IsStreamType, Stream

T = TypeVar("T", bound=AnyArrayType)


@dataclass
class OpaqueArrayOptions(AnyArrayOptions):
    """Options of a CUDA array.

    Attributes
    ----------
    shape : tuple of int
        Extents in texels: ``(width,)``, ``(width, height)`` or ``(width, height, depth)``.
    format : ArrayFormatType, str or numpy.dtype
        The type of a channel, such as ``"float32"``.
    num_channels : int
        Number of channels of a texel: 1, 2 or 4.
    is_surface_load_store : bool, optional
        Whether kernels can store to the array, through a :class:`SurfaceObject`. Default False.
    """

    shape: tuple[int, ...]
    format: ArrayFormatType | ArrayFormatName | IsDType | type[Any]
    num_channels: int
    is_surface_load_store: bool = False


class AnyArray(_native.Handle, OnDevice, Closing, Made):
    """The base of :class:`OpaqueArray` and :class:`MipmappedArray`: the properties of their texels."""

    __slots__ = ("__weakref__",)
    #: The function of the library that returns the description of an array.
    _describe: ClassVar[Any]

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<{name} {'closed' if self.is_closed else ' '.join(self._facts())}>"

    def _facts(self) -> list[str]:
        return [f"shape={self.shape}", f"format={str(self.format)!r}", f"num_channels={self.num_channels}"]

    def _described(self) -> Any:
        desc = ffi.new("cch_array_desc *")
        check(self._describe(desc, hold(self)))
        return desc

    @property
    def shape(self) -> tuple[int, ...]:
        """tuple of int: Extents in texels (of level 0): width, then height and depth if the array has them."""
        desc = self._described()
        extents = (desc.width, desc.height, desc.depth)
        return tuple(int(extent) for extent in extents[: 1 if not desc.height else 2 if not desc.depth else 3])

    @property
    def format(self) -> ArrayFormatType:
        """ArrayFormatType: The type of a channel."""
        return format_of(self._described().format)

    @property
    def num_channels(self) -> int:
        """int: Number of channels of a texel."""
        return int(self._described().channels)

    @property
    def is_surface_load_store(self) -> bool:
        """bool: Whether kernels can store to the array, through a surface."""
        return bool(self._described().flags & lib.CCH_ARRAY_SURFACE)


class OpaqueArray(AnyArray):
    """A CUDA array: memory for textures and surfaces, whose layout is chosen by the device.

    Arrays are made by :meth:`~cudacore_handles.Device.create_opaque_array` and :meth:`MipmappedArray.get_level`.
    Kernels use the texels through a :class:`TextureObject` or a :class:`SurfaceObject`, which keep the array alive.
    An array has no address: :meth:`copy_from` and :meth:`copy_to` copy the texels. Two objects are equal if they
    refer to the same CUDA array.
    """

    __slots__ = ()
    _describe = staticmethod(lib.cch_array_describe)
    _made_by = "Device.create_opaque_array() or MipmappedArray.get_level()"

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "copy_to() copies its elements")

    def copy_from(self, src: AnyArrayType, *, stream: Stream | IsStreamType) -> None:
        """Copy all texels from memory to the array (cuMemcpy3DAsync).

        A copy from a buffer, or from another library's array in device memory, is ordered on the stream, and the call
        does not wait for it. For an array in host memory, the call waits for the stream, so the array may be changed
        when the call returns. Such a copy is an error while the stream is being captured. The graph of a capture keeps
        buffers alive.

        Parameters
        ----------
        src : Buffer or array
            The texels, row after row: at least :attr:`size_bytes` bytes. The elements of an array have the type of
            :attr:`format`, or are bytes. The sign of integers is ignored, and complex numbers are two channels.
        stream : Stream or GraphBuilder
            The stream that the copy is ordered on.
        """
        self._copy(src, "src", lib.cch_array_copy_from, stream)

    def copy_to(self, dst: T, *, stream: Stream | IsStreamType) -> T:
        """Copy all texels of the array to memory (cuMemcpy3DAsync).

        A copy to a buffer, or to another library's array in device memory, is ordered on the stream, and the call does
        not wait for it. For an array in host memory, the call waits for the stream, so the copy is done when the call
        returns.

        Parameters
        ----------
        dst : Buffer or array
            The destination: at least :attr:`size_bytes` bytes.
        stream : Stream or GraphBuilder
            The stream that the copy is ordered on.

        Returns
        -------
        Buffer or array
            `dst`.
        """
        self._copy(dst, "dst", lib.cch_array_copy_to, stream)
        return dst

    def _copy(self, other: Any, name: str, function: Any, stream: Stream | IsStreamType) -> None:
        box = hold(self)
        accepted = Stream_accept(stream, allow_stream_protocol=True)
        if isinstance(other, OpaqueArray):
            raise TypeError(f"{name} must be a Buffer or an array in memory, not an OpaqueArray: copy by a Buffer")
        if isinstance(other, Buffer):
            self._check_size(name, size_of(other))
            check(function(box, hold(other), 0, hold(accepted)))
            return
        with memory_of(other, name, accepted, writable=name == "dst") as memory:
            self._check_size(name, memory.nbytes)
            if not is_numbers(memory.type, self.format):
                elements = other.dtype if hasattr(other, "dtype") else f"the format {memory.keeper.format!r}"
                raise ValueError(
                    f"{name} is an array of {elements}, and the texels are of {self.format!s}: convert it to that, or "
                    f"give its bytes, {name}.view('uint8')"
                )
            if memory.on_host and is_capturing(accepted):
                raise ValueError(
                    f"{name} is in host memory, so the call would wait for the copy, but the stream is being "
                    "captured: copy a Buffer of LegacyPinnedMemoryResource, which the graph can keep"
                )
            keeper = None if memory.on_host else memory.keeper
            part = Buffer.from_handle(memory.address, memory.nbytes, owner=keeper)
            check(function(box, hold(part), 0, hold(accepted)))
            if memory.on_host:
                accepted.sync()

    def _check_size(self, name: str, size: int) -> None:
        if size < self.size_bytes:
            raise ValueError(f"{name} has {size} bytes, and the array {self.size_bytes}; it must have at least as many")

    @property
    def element_bytes(self) -> int:
        """int: Size of a texel in bytes."""
        return self.num_channels * NUMBERS[self.format][1]

    @property
    def size_bytes(self) -> int:
        """int: Size of all texels in bytes."""
        return int(lib.cch_array_size(hold(self)))


def create_array(device: Device, options: Any) -> OpaqueArray:
    """Create an array; see :meth:`Device.create_opaque_array`."""
    context = device._target()
    return _native.create_array(OpaqueArray, context, describe(OpaqueArrayOptions, options, device))
