# SPDX-License-Identifier: Apache-2.0
"""The resources that textures and surfaces are made of."""

from __future__ import annotations

from typing import Any

from cudacore_handles import _native
from cudacore_handles._base.made import Made
from cudacore_handles._base.names import check_type
from cudacore_handles._driver.device import Device
from cudacore_handles._memory.arguments import check_size, size_of
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._texture.array import OpaqueArray
from cudacore_handles._texture.formats import NUMBERS, as_channels, as_count, as_format, attribute_of, format_of
from cudacore_handles._texture.mipmapped_array import MipmappedArray
from cudacore_handles.typing import ArrayFormatName, ArrayFormatType, IsDType

_KINDS = ("array", "mipmapped_array", "linear", "pitch2d")
_ARRAY, _MIPMAPPED_ARRAY, _LINEAR, _PITCH2D = range(4)


class ResourceDescriptor(_native.ResourceHandle, Made):
    """The resource of a texture or a surface: an array, a mipmapped array, or memory.

    Descriptors are made by :meth:`from_opaque_array`, :meth:`from_mipmapped_array`, :meth:`from_linear` and
    :meth:`from_pitch2d`. A descriptor, and each texture that is made of it, keeps its source alive.
    """

    __slots__ = ()
    _made_by = "ResourceDescriptor.from_opaque_array(), from_mipmapped_array(), from_linear() or from_pitch2d()"

    def __repr__(self) -> str:
        facts = [f"kind={self.kind!r}", f"source={self._source!r}"]
        for name in ("format", "num_channels", "size_bytes", "width", "height", "pitch_bytes"):
            value = getattr(self, name)
            if value is not None:
                facts.append(f"{name}={str(value)!r}" if name == "format" else f"{name}={value}")
        return f"<ResourceDescriptor {' '.join(facts)}>"

    @classmethod
    def from_opaque_array(cls, array: OpaqueArray) -> ResourceDescriptor:
        """Return a descriptor of an array, for textures and surfaces."""
        check_type("array", array, OpaqueArray)
        return _native.resource_make(cls, _ARRAY, array, 0, 0, 0, 0, 0)

    @classmethod
    def from_mipmapped_array(cls, mipmapped_array: MipmappedArray) -> ResourceDescriptor:
        """Return a descriptor of a mipmapped array, for textures. Surfaces need the descriptor of one of its levels."""
        check_type("mipmapped_array", mipmapped_array, MipmappedArray)
        return _native.resource_make(cls, _MIPMAPPED_ARRAY, mipmapped_array, 0, 0, 0, 0, 0)

    @classmethod
    def from_linear(
        cls,
        buffer: Buffer,
        *,
        format: ArrayFormatType | ArrayFormatName | IsDType | type[Any],  # noqa: A002
        num_channels: int,
        size_bytes: int | None = None,
    ) -> ResourceDescriptor:
        """Return a descriptor of memory as a line of texels, which kernels read by their index.

        The texture has no filter, no normalized coordinates and no address modes. Texels outside of it are read as 0.

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
            Size of the texels in bytes, from the beginning of the buffer. Default: the whole buffer.

        Raises
        ------
        ValueError
            If the size exceeds the buffer's or the device's limit, or is not a multiple of a texel's.
        """
        size = size_of(check_type("buffer", buffer, Buffer))
        number, channels, texel = _texel(format, num_channels)
        wanted = size if size_bytes is None else check_size(size_bytes, "size_bytes")
        if wanted > size:
            raise ValueError(f"size_bytes is {wanted}; the buffer has {size}")
        if wanted < texel:
            raise ValueError(f"the texture has {wanted} bytes, and a texel {texel}; it needs at least one")
        if wanted % texel:
            raise ValueError(f"size_bytes is {wanted}, not a multiple of the {texel} bytes of a texel")
        return _native.resource_make(cls, _LINEAR, buffer, number, channels, wanted, 0, 0)

    @classmethod
    def from_pitch2d(
        cls,
        buffer: Buffer,
        *,
        format: ArrayFormatType | ArrayFormatName | IsDType | type[Any],  # noqa: A002
        num_channels: int,
        width: int,
        height: int,
        pitch_bytes: int,
    ) -> ResourceDescriptor:
        """Return a descriptor of memory as an image whose rows begin `pitch_bytes` apart.

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
            Number of texels in a row, and number of rows.
        pitch_bytes : int
            Bytes from the beginning of a row to that of the next one. It must be a multiple of
            :attr:`~cudacore_handles.DeviceProperties.texture_pitch_alignment`.

        Raises
        ------
        ValueError
            If the rows do not fit their pitch, the buffer, or the device's limits.
        """
        size = size_of(check_type("buffer", buffer, Buffer))
        number, channels, texel = _texel(format, num_channels)
        width, height = as_count(width, "width"), as_count(height, "height")
        pitch = check_size(pitch_bytes, "pitch_bytes")
        row = width * texel
        if pitch < row:
            raise ValueError(f"pitch_bytes is {pitch}, less than the {row} bytes of a row: rows would overlap")
        end = pitch * (height - 1) + row
        if end > size:
            raise ValueError(f"the image ends {end} bytes into the buffer, which has {size}; make it smaller")
        return _native.resource_make(cls, _PITCH2D, buffer, number, channels, width, height, pitch)

    @property
    def kind(self) -> str:
        """str: ``"array"``, ``"mipmapped_array"``, ``"linear"`` or ``"pitch2d"``."""
        return _KINDS[self._kind]

    @property
    def source(self) -> OpaqueArray | MipmappedArray | Buffer:
        """OpaqueArray, MipmappedArray or Buffer: The array or memory that the descriptor describes."""
        return self._source

    @property
    def format(self) -> ArrayFormatType | None:
        """ArrayFormatType or None: The type of a channel; None for arrays, which have their own."""
        return format_of(self._format) if self._kind in (_LINEAR, _PITCH2D) else None

    @property
    def num_channels(self) -> int | None:
        """int or None: Number of channels of a texel; None for arrays, which have their own."""
        return self._channels if self._kind in (_LINEAR, _PITCH2D) else None

    @property
    def size_bytes(self) -> int | None:
        """int or None: Size of linear memory in bytes; None for other kinds."""
        return self._width if self._kind == _LINEAR else None

    @property
    def width(self) -> int | None:
        """int or None: Texels in a row of pitched memory; None for other kinds."""
        return self._width if self._kind == _PITCH2D else None

    @property
    def height(self) -> int | None:
        """int or None: Rows of pitched memory; None for other kinds."""
        return self._height if self._kind == _PITCH2D else None

    @property
    def pitch_bytes(self) -> int | None:
        """int or None: Bytes from row to row of pitched memory; None for other kinds."""
        return self._pitch if self._kind == _PITCH2D else None


def _texel(type_: object, num_channels: object) -> tuple[int, int, int]:
    """Return the number of a format in the driver, the number of channels, and the size of a texel in bytes."""
    (number, size), channels = NUMBERS[as_format(type_)], as_channels(num_channels)
    return number, channels, size * channels


def check_memory(resource: ResourceDescriptor, device_id: int) -> None:
    """Raise an error that names the limit if the device cannot sample the memory."""
    device = Device(device_id)
    address = resource._source._raw
    alignment = attribute_of(device, "texture_alignment")
    if address % alignment:
        raise ValueError(
            f"the address of the buffer, {address:#x}, is not a multiple of {alignment} (texture_alignment)"
        )
    if resource._kind == _LINEAR:
        return  # the library queries the maximum number of texels, which depends on the format
    pitch, alignment = resource._pitch, attribute_of(device, "texture_pitch_alignment")
    if pitch % alignment:
        raise ValueError(f"pitch_bytes is {pitch}, not a multiple of {alignment} (texture_pitch_alignment)")
    for name, value in (("width", resource._width), ("height", resource._height), ("pitch", pitch)):
        limit = f"maximum_texture2d_linear_{name}"
        maximum = attribute_of(device, limit)
        if value > maximum:
            option = "pitch_bytes" if name == "pitch" else name
            raise ValueError(f"{option} is {value}; device {device_id} takes at most {maximum} ({limit})")
