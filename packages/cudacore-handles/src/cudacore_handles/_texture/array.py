# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays: memory in the device's own layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from cudacore_handles import _native
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import adopt, hold
from cudacore_handles._base.options import as_flag, as_options
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.context import context_of
from cudacore_handles._driver.device import Device
from cudacore_handles._memory.arrays import memory_of
from cudacore_handles._memory.buffer import Buffer, size_of
from cudacore_handles._stream.stream import Stream_accept, is_capturing
from cudacore_handles._texture.formats import (
    NUMBERS,
    as_channels,
    as_format,
    as_shape,
    check_extents,
    describe,
    described,
    format_of,
    shape_of,
)
from cudacore_handles.typing import ArrayFormatType

if TYPE_CHECKING:
    from cudacore_handles._stream.stream import IsStreamType, Stream

T = TypeVar("T")


@dataclass
class OpaqueArrayOptions:
    """Say what a CUDA array is.

    Attributes
    ----------
    shape : tuple of int
        Extents in texels: ``(width,)``, ``(width, height)`` or ``(width, height, depth)``.
    format : ArrayFormatType, str or numpy.dtype
        The type of a channel, such as ``"float32"``.
    num_channels : int
        Channels of a texel: 1, 2 or 4.
    is_surface_load_store : bool, optional
        Whether kernels can store to the array, through a :class:`SurfaceObject`. Default False.
    """

    shape: tuple[int, ...]
    format: object
    num_channels: int
    is_surface_load_store: bool = False

    def __post_init__(self) -> None:
        self.shape = as_shape(self.shape)
        self.format = as_format(self.format)
        self.num_channels = as_channels(self.num_channels)
        as_flag("OpaqueArrayOptions.is_surface_load_store", self.is_surface_load_store)


class OpaqueArray(_native.Handle):
    """A CUDA array: memory whose layout is the device's, for textures and surfaces.

    Arrays are made by :meth:`~cudacore_handles.Device.create_opaque_array` and :meth:`MipmappedArray.get_level`.
    Kernels use the texels through a :class:`TextureObject` or a :class:`SurfaceObject`, which keep the array alive.
    There is no address: :meth:`copy_from` and :meth:`copy_to` move the texels. Two arrays are equal if they are the
    same CUDA array.
    """

    __slots__ = ("__weakref__",)

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise RuntimeError(
            "OpaqueArray objects cannot be instantiated directly; use Device.create_opaque_array() or "
            "MipmappedArray.get_level()"
        )

    def __enter__(self) -> OpaqueArray:
        return self

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.is_closed:
            return "<OpaqueArray closed>"
        return f"<OpaqueArray shape={self.shape} format={str(self.format)!r} num_channels={self.num_channels}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("an OpaqueArray cannot be pickled or copied by the module copy: use copy_to()")

    @classmethod
    def _create(cls, device: Device, options: Any) -> OpaqueArray:
        o: OpaqueArrayOptions = as_options(OpaqueArrayOptions, options, "options")
        shape, surface = as_shape(o.shape), bool(o.is_surface_load_store)
        desc = describe(shape, as_format(o.format), as_channels(o.num_channels), surface=surface)
        check_extents(device, shape, surface=surface, mipmapped=False)
        out = ffi.new("cch_array **")
        check(lib.cch_array_create(out, hold(device._target()), desc))
        return adopt(cls, out[0])

    def copy_from(self, src: Any, *, stream: Stream | IsStreamType) -> None:
        """Copy all texels from memory to the array (cuMemcpy3DAsync).

        From a buffer, or an array of another library in device memory, the copy is ordered on the stream, and the host
        goes on. An array in host memory may be used again when this returns: the host waits for the stream. A stream
        that is being captured takes buffers, which the graph keeps.

        Parameters
        ----------
        src : Buffer or array
            The texels, row after row: at least :attr:`size_bytes` bytes.
        stream : Stream or GraphBuilder
            The stream that the copy is ordered on.
        """
        self._copy(src, "src", lib.cch_array_copy_from, stream)

    def copy_to(self, dst: T, *, stream: Stream | IsStreamType) -> T:
        """Copy all texels of the array to memory (cuMemcpy3DAsync).

        To a buffer, or an array of another library in device memory, the copy is ordered on the stream, and the host
        goes on. A copy to an array in host memory is done when this returns: the host waits for the stream.

        Parameters
        ----------
        dst : Buffer or array
            Where to copy to: at least :attr:`size_bytes` bytes.
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
            if memory.on_host and is_capturing(accepted):
                raise ValueError(
                    f"{name} is in host memory, whose copy is waited for, and the stream is being captured: copy a "
                    "Buffer of LegacyPinnedMemoryResource, which the graph can keep"
                )
            keeper = None if memory.on_host else memory.keeper
            part = Buffer.from_handle(memory.address, memory.nbytes, owner=keeper)
            check(function(box, hold(part), 0, hold(accepted)))
            if memory.on_host:
                accepted.sync()

    def _check_size(self, name: str, size: int) -> None:
        if size < self.size_bytes:
            raise ValueError(f"{name} has {size} bytes, and the array {self.size_bytes}; it must have at least as many")

    def _described(self) -> Any:
        return described(lib.cch_array_describe, hold(self))

    @property
    def handle(self) -> int:
        """int: The CUarray; 0 if the array is closed."""
        return 0 if self.is_closed else self._raw

    @property
    def shape(self) -> tuple[int, ...]:
        """tuple of int: Extents in texels: width, height and depth, as many as there are dimensions."""
        return shape_of(self._described())

    @property
    def format(self) -> ArrayFormatType:
        """ArrayFormatType: The type of a channel."""
        return format_of(self._described().format)

    @property
    def num_channels(self) -> int:
        """int: Channels of a texel."""
        return int(self._described().channels)

    @property
    def element_bytes(self) -> int:
        """int: Bytes of a texel."""
        desc = self._described()
        return int(desc.channels) * NUMBERS[format_of(desc.format)][1]

    @property
    def size_bytes(self) -> int:
        """int: Bytes of all texels."""
        return int(lib.cch_array_size(hold(self)))

    @property
    def is_surface_load_store(self) -> bool:
        """bool: Whether kernels can store to the array, through a surface."""
        return bool(self._described().flags & lib.CCH_ARRAY_SURFACE)

    @property
    def device(self) -> Device:
        """cudacore_handles.Device: The device that the array is of."""
        return context_of(lib.cch_array_context(hold(self))).device
