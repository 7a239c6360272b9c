# SPDX-License-Identifier: Apache-2.0
"""What a texture or a surface reads."""

from __future__ import annotations

from typing import Any

from cudacore_handles import _native
from cudacore_handles._base.errors import closed
from cudacore_handles._base.handle import hold
from cudacore_handles._cffi import ffi
from cudacore_handles._memory.arguments import check_size
from cudacore_handles._memory.buffer import Buffer, size_of
from cudacore_handles._texture.array import OpaqueArray
from cudacore_handles._texture.formats import NUMBERS, as_channels, as_count, as_format
from cudacore_handles._texture.mipmapped_array import MipmappedArray
from cudacore_handles.typing import ArrayFormatType

_SIZE = ffi.sizeof("cch_texture_resource")


class ResourceDescriptor:
    """What a texture or a surface reads: an array, a mipmapped array, or memory.

    Made by :meth:`from_opaque_array`, :meth:`from_mipmapped_array`, :meth:`from_linear` and :meth:`from_pitch2d`. It
    keeps a reference to its source, as does each texture that is made of it.
    """

    __slots__ = ("_channels", "_format", "_height", "_kind", "_pitch", "_size", "_source", "_width")

    def __init__(self) -> None:
        raise RuntimeError(
            "ResourceDescriptor objects cannot be instantiated directly; use ResourceDescriptor.from_opaque_array(), "
            "from_mipmapped_array(), from_linear() or from_pitch2d()"
        )

    def __repr__(self) -> str:
        facts = [f"kind={self._kind!r}", f"source={self._source!r}"]
        for name in ("format", "num_channels", "size_bytes", "width", "height", "pitch_bytes"):
            value = getattr(self, name)
            if value is not None:
                facts.append(f"{name}={str(value)!r}" if name == "format" else f"{name}={value}")
        return f"<ResourceDescriptor {' '.join(facts)}>"

    @classmethod
    def _of(cls, kind: str, source: _native.Handle) -> ResourceDescriptor:
        if source.is_closed:
            raise closed(source)
        made = cls.__new__(cls)
        made._kind, made._source = kind, source
        made._format = made._channels = made._size = made._width = made._height = made._pitch = None
        return made

    @classmethod
    def from_opaque_array(cls, array: OpaqueArray) -> ResourceDescriptor:
        """Describe an array, for textures and surfaces."""
        if not isinstance(array, OpaqueArray):
            raise TypeError(f"array must be an OpaqueArray, not {type(array).__name__}")
        return cls._of("array", array)

    @classmethod
    def from_mipmapped_array(cls, mipmapped_array: MipmappedArray) -> ResourceDescriptor:
        """Describe a mipmapped array, for textures. A surface is made of one of its levels."""
        if not isinstance(mipmapped_array, MipmappedArray):
            raise TypeError(f"mipmapped_array must be a MipmappedArray, not {type(mipmapped_array).__name__}")
        return cls._of("mipmapped_array", mipmapped_array)

    @classmethod
    def from_linear(
        cls,
        buffer: Buffer,
        *,
        format: object,  # noqa: A002
        num_channels: int,
        size_bytes: int | None = None,
    ) -> ResourceDescriptor:
        """Describe memory as a line of texels, which kernels read by their index.

        Such a texture has no filter, no normalized coordinates and no address modes: a texel outside of it is 0.

        Parameters
        ----------
        buffer : Buffer
            Memory of the device. Its address must be a multiple of
            :attr:`~cudacore_handles.DeviceProperties.texture_alignment`.
        format : ArrayFormatType, str or numpy.dtype
            The type of a channel, such as ``"float32"``.
        num_channels : int
            Channels of a texel: 1, 2 or 4.
        size_bytes : int, optional
            Bytes of the texels, from the beginning of the buffer on. Default: all of the buffer.
        """
        size = _check_buffer(buffer)
        made = cls._of("linear", buffer)
        made._format, made._channels = as_format(format), as_channels(num_channels)
        wanted = size if size_bytes is None else check_size(size_bytes, "size_bytes")
        if wanted > size:
            raise ValueError(f"size_bytes is {wanted}; the buffer has {size}")
        if wanted < made._texel_bytes:
            raise ValueError(f"the texture has {wanted} bytes, and a texel {made._texel_bytes}; it needs at least one")
        if wanted % made._texel_bytes:
            raise ValueError(f"size_bytes is {wanted}, not a multiple of the {made._texel_bytes} bytes of a texel")
        made._size = wanted
        return made

    @classmethod
    def from_pitch2d(
        cls,
        buffer: Buffer,
        *,
        format: object,  # noqa: A002
        num_channels: int,
        width: int,
        height: int,
        pitch_bytes: int,
    ) -> ResourceDescriptor:
        """Describe memory as an image whose rows begin `pitch_bytes` apart.

        Parameters
        ----------
        buffer : Buffer
            Memory of the device. Its address must be a multiple of
            :attr:`~cudacore_handles.DeviceProperties.texture_alignment`.
        format : ArrayFormatType, str or numpy.dtype
            The type of a channel, such as ``"float32"``.
        num_channels : int
            Channels of a texel: 1, 2 or 4.
        width, height : int
            Texels of a row, and rows.
        pitch_bytes : int
            Bytes from row to row: a multiple of :attr:`~cudacore_handles.DeviceProperties.texture_pitch_alignment`.
        """
        size = _check_buffer(buffer)
        made = cls._of("pitch2d", buffer)
        made._format, made._channels = as_format(format), as_channels(num_channels)
        made._width, made._height = as_count(width, "width"), as_count(height, "height")
        made._pitch = check_size(pitch_bytes, "pitch_bytes")
        row = made._width * made._texel_bytes
        if made._pitch < row:
            raise ValueError(f"pitch_bytes is {made._pitch}, less than the {row} bytes of a row: rows would overlap")
        end = made._pitch * (made._height - 1) + row
        if end > size:
            raise ValueError(f"the image ends {end} bytes into the buffer, which has {size}; make it smaller")
        return made

    @property
    def kind(self) -> str:
        """str: ``"array"``, ``"mipmapped_array"``, ``"linear"`` or ``"pitch2d"``."""
        return self._kind

    @property
    def source(self) -> OpaqueArray | MipmappedArray | Buffer:
        """OpaqueArray, MipmappedArray or Buffer: What it describes."""
        return self._source

    @property
    def format(self) -> ArrayFormatType | None:
        """ArrayFormatType or None: The type of a channel; None for arrays, which have their own."""
        return self._format

    @property
    def num_channels(self) -> int | None:
        """int or None: Channels of a texel; None for arrays, which have their own."""
        return self._channels

    @property
    def size_bytes(self) -> int | None:
        """int or None: Bytes of linear memory; None for all else."""
        return self._size

    @property
    def width(self) -> int | None:
        """int or None: Texels of a row of pitched memory; None for all else."""
        return self._width

    @property
    def height(self) -> int | None:
        """int or None: Rows of pitched memory; None for all else."""
        return self._height

    @property
    def pitch_bytes(self) -> int | None:
        """int or None: Bytes from row to row of pitched memory; None for all else."""
        return self._pitch

    @property
    def _texel_bytes(self) -> int:
        return int(NUMBERS[self._format][1] * self._channels)

    def _as_struct(self, box: Any) -> Any:
        """Return a ``cch_texture_resource``; `box` is that of the source, which the caller holds."""
        made = ffi.new("cch_texture_resource *")
        made.size = _SIZE
        if self._kind == "array":
            made.array = box
        elif self._kind == "mipmapped_array":
            made.mipmapped = box
        else:
            made.memory = box
            made.format, made.channels = NUMBERS[self._format][0], self._channels
            if self._kind == "linear":
                made.width = self._size
            else:
                made.width, made.height, made.pitch = self._width, self._height, self._pitch
        return made

    def _hold(self) -> Any:
        return hold(self._source)

    _kind: str
    _source: Any
    _format: Any
    _channels: Any
    _size: Any
    _width: Any
    _height: Any
    _pitch: Any


def _check_buffer(buffer: object) -> int:
    """Return the size of a buffer, or say that it is none."""
    if not isinstance(buffer, Buffer):
        raise TypeError(f"buffer must be a Buffer, not {type(buffer).__name__}")
    return size_of(buffer)
