# SPDX-License-Identifier: Apache-2.0
"""The resources that textures and surfaces are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from cudacore_handles._base.errors import check_open
from cudacore_handles._base.made import Made, not_pickled
from cudacore_handles._base.names import check_type
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._memory.arguments import check_size, size_of
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._texture.array import OpaqueArray
from cudacore_handles._texture.formats import NUMBERS, as_channels, as_count, as_format, attribute_of, format_of
from cudacore_handles._texture.mipmapped_array import MipmappedArray
from cudacore_handles.typing import ArrayFormatName, ArrayFormatType, IsDType

if TYPE_CHECKING:
    from cudacore_handles._driver.device import Device


class ResourceDescriptor(Made):
    """The resource of a texture or a surface: an array, a mipmapped array, or memory.

    Descriptors are made by :meth:`from_opaque_array`, :meth:`from_mipmapped_array`, :meth:`from_linear` and
    :meth:`from_pitch2d`. A descriptor, and each texture that is made of it, keeps its source alive.
    """

    __slots__ = ("_devices", "_facts", "_kind", "_source", "_stores", "_struct", "_texel")
    _made_by = "ResourceDescriptor.from_opaque_array(), from_mipmapped_array(), from_linear() or from_pitch2d()"

    _kind: str
    _source: OpaqueArray | MipmappedArray | Buffer
    _texel: ArrayFormatType
    _stores: bool  # whether kernels can store to it, through a surface
    _facts: dict[str, Any]  # the properties of memory, by their names
    _struct: bytes  # the cch_texture_resource
    _devices: set[int]  # the devices for which the memory was checked

    def __repr__(self) -> str:
        facts = {"kind": self._kind, "source": self._source, **self._facts}
        shown = (f"{name}={str(fact) if name == 'format' else fact!r}" for name, fact in facts.items())
        return f"<ResourceDescriptor {' '.join(shown)}>"

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "make another one of the same source")

    @classmethod
    def _of_array(cls, kind: str, array: OpaqueArray | MipmappedArray) -> ResourceDescriptor:
        desc = array._described()
        stores = kind == "array" and bool(desc.flags & lib.CCH_ARRAY_SURFACE)
        return cls._of(kind, array, format_of(desc.format), {}, stores=stores)

    @classmethod
    def _of(
        cls, kind: str, source: Any, texel: ArrayFormatType, facts: dict[str, Any], *, stores: bool = False
    ) -> ResourceDescriptor:
        width, height, pitch = (facts.get(name, 0) for name in ("width", "height", "pitch_bytes"))
        extents = (facts.get("size_bytes", width), height, pitch)
        fields = (ffi.NULL, *extents, NUMBERS[texel][0], facts.get("num_channels", 0))
        struct = bytes(ffi.buffer(ffi.new("cch_texture_resource *", fields)))
        return cls._with(
            _kind=kind, _source=source, _texel=texel, _stores=stores, _facts=facts, _struct=struct, _devices=set()
        )

    @classmethod
    def from_opaque_array(cls, array: OpaqueArray) -> ResourceDescriptor:
        """Return a descriptor of an array, for textures and surfaces."""
        check_type("array", array, OpaqueArray)
        return cls._of_array("array", array)

    @classmethod
    def from_mipmapped_array(cls, mipmapped_array: MipmappedArray) -> ResourceDescriptor:
        """Return a descriptor of a mipmapped array, for textures. Surfaces need the descriptor of one of its levels."""
        check_type("mipmapped_array", mipmapped_array, MipmappedArray)
        return cls._of_array("mipmapped_array", mipmapped_array)

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
        name, channels, texel = _texel(format, num_channels)
        wanted = size if size_bytes is None else check_size(size_bytes, "size_bytes")
        if wanted > size:
            raise ValueError(f"size_bytes is {wanted}; the buffer has {size}")
        if wanted < texel:
            raise ValueError(f"the texture has {wanted} bytes, and a texel {texel}; it needs at least one")
        if wanted % texel:
            raise ValueError(f"size_bytes is {wanted}, not a multiple of the {texel} bytes of a texel")
        return cls._of("linear", buffer, name, {"format": name, "num_channels": channels, "size_bytes": wanted})

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
        name, channels, texel = _texel(format, num_channels)
        width, height = as_count(width, "width"), as_count(height, "height")
        pitch = check_size(pitch_bytes, "pitch_bytes")
        row = width * texel
        if pitch < row:
            raise ValueError(f"pitch_bytes is {pitch}, less than the {row} bytes of a row: rows would overlap")
        end = pitch * (height - 1) + row
        if end > size:
            raise ValueError(f"the image ends {end} bytes into the buffer, which has {size}; make it smaller")
        extents = {"width": width, "height": height, "pitch_bytes": pitch}
        return cls._of("pitch2d", buffer, name, {"format": name, "num_channels": channels, **extents})

    def _check_memory(self, device: Device) -> None:
        """Raise an error that names the limit if a device cannot sample the memory. Neither of them can change."""
        if device.device_id in self._devices:
            return
        check_open(self._source)
        where, alignment = self._source._raw, attribute_of(device, "texture_alignment")
        if where % alignment:
            raise ValueError(
                f"the address of the buffer, {where:#x}, is not a multiple of {alignment} (texture_alignment)"
            )
        if self._kind == "pitch2d":  # the library checks the size of linear memory; its limit depends on the format
            self._check_rows(device)
        self._devices.add(device.device_id)

    def _check_rows(self, device: Device) -> None:
        pitch, alignment = self._facts["pitch_bytes"], attribute_of(device, "texture_pitch_alignment")
        if pitch % alignment:
            raise ValueError(f"pitch_bytes is {pitch}, not a multiple of {alignment} (texture_pitch_alignment)")
        for option in ("width", "height", "pitch_bytes"):
            value, limit = self._facts[option], f"maximum_texture2d_linear_{option.removesuffix('_bytes')}"
            maximum = attribute_of(device, limit)
            if value > maximum:
                raise ValueError(f"{option} is {value}; device {device.device_id} takes at most {maximum} ({limit})")

    @property
    def kind(self) -> str:
        """str: ``"array"``, ``"mipmapped_array"``, ``"linear"`` or ``"pitch2d"``."""
        return self._kind

    @property
    def source(self) -> OpaqueArray | MipmappedArray | Buffer:
        """OpaqueArray, MipmappedArray or Buffer: The array or memory that the descriptor describes."""
        return self._source

    @property
    def format(self) -> ArrayFormatType | None:
        """ArrayFormatType or None: The type of a channel; None for arrays, which have their own."""
        return self._facts.get("format")

    @property
    def num_channels(self) -> int | None:
        """int or None: Number of channels of a texel; None for arrays, which have their own."""
        return self._facts.get("num_channels")

    @property
    def size_bytes(self) -> int | None:
        """int or None: Size of linear memory in bytes; None for other kinds."""
        return self._facts.get("size_bytes")

    @property
    def width(self) -> int | None:
        """int or None: Texels in a row of pitched memory; None for other kinds."""
        return self._facts.get("width")

    @property
    def height(self) -> int | None:
        """int or None: Rows of pitched memory; None for other kinds."""
        return self._facts.get("height")

    @property
    def pitch_bytes(self) -> int | None:
        """int or None: Bytes from row to row of pitched memory; None for other kinds."""
        return self._facts.get("pitch_bytes")


def _texel(type_: object, num_channels: object) -> tuple[ArrayFormatType, int, int]:
    """Return a format, the number of channels, and the size of a texel in bytes."""
    texel, channels = as_format(type_), as_channels(num_channels)
    return texel, channels, NUMBERS[texel][1] * channels
