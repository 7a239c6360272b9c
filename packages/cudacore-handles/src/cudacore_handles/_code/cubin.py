# SPDX-License-Identifier: Apache-2.0
"""Reads cubins, which are ELF files with NVIDIA's own sections.

Only the parts that are used are read. Malformed data raises a ValueError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from cudacore_handles._code.demangle import demangle
from cudacore_handles._code.info import GlobalInfo, KernelInfo
from cudacore_handles._code.param_kinds import parameters_of

_EM_CUDA, _ET_REL = 190, 1
_SHT_NOBITS = 8
_STT_OBJECT, _STT_FUNC = 1, 2
_STO_CUDA_ENTRY = 0x10  # the bit of a symbol's field `other` that marks a kernel
# Attributes in .nv.info sections. They are not documented, but have been the same from sm_50 to sm_121.
_EIATTR_MAX_THREADS = 0x05
_EIATTR_FRAME_SIZE = 0x11
_EIATTR_KPARAM_INFO = 0x17
_EIATTR_REGCOUNT = 0x2F
_EIFMT_BVAL, _EIFMT_HVAL, _EIFMT_SVAL = 0x02, 0x03, 0x04
# The mark of a cubin that runs on one architecture only, such as sm_90a. Up to CUDA 12 (before version 8 of the ABI),
# it is a bit of the ELF header's flags. From CUDA 13 on, it is an attribute in the section .nv.compat. A cubin for a
# family, such as sm_100f, has no mark, so it looks like a cubin for the family's first architecture.
_EF_ACCELERATED, _EF_ACCELERATED_8 = 0x800, 0x8
_EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET = 0x09
# From sm_90 on, the system reserves the first KiB of a block's shared memory, and the cubin has this section.
_RESERVED_SHARED = ".nv.shared.reserved.0"
_RESERVED_SHARED_BYTES = 1024
_GLOBALS = {".nv.global": "global", ".nv.global.init": "global", ".nv.constant3": "constant"}


class _Section(NamedTuple):
    name: str
    kind: int
    offset: int
    size: int
    link: int


class Cubin:
    """A cubin that was read. Offsets and sizes that are out of range raise a ValueError."""

    def __init__(self, image: bytes) -> None:
        if not is_elf(image) or len(image) < 64 or _u16(image, 18) != _EM_CUDA:
            raise ValueError("this is not a cubin: it is not an ELF file of CUDA's")
        self._image = image
        with _damage():
            self._sections = self._read_sections()
            self._by_name = {section.name: section for section in self._sections}
            self._is_accelerated = self._read_accelerated()

    @property
    def target(self) -> str:
        """str: The architecture as PTX and compilers name it, such as ``"sm_90"`` or ``"sm_90a"``."""
        return f"sm_{arch_of(self._image)}{'a' if self._is_accelerated else ''}"

    @property
    def is_relocatable(self) -> bool:
        """bool: Whether the cubin can be linked with other code: it was compiled as relocatable device code."""
        return _u16(self._image, 16) == _ET_REL

    def kernels(self, signatures: Mapping[str, str]) -> tuple[KernelInfo, ...]:
        """Return the kernels. The compiler reported the signatures of some of them, by symbol."""
        with _damage():
            numbers: dict[tuple[int, int], int] = {}  # by attribute and symbol
            for attribute, value in self._attributes(".nv.info"):
                if len(value) == 8:
                    numbers[attribute, _u32(value, 0)] = _u32(value, 4)
            return tuple(
                self._kernel(
                    symbol,
                    signatures.get(symbol),
                    numbers.get((_EIATTR_REGCOUNT, index)),
                    numbers.get((_EIATTR_FRAME_SIZE, index)),
                )
                for index, (symbol, kind, other, _, _) in enumerate(self._symbols())
                if kind == _STT_FUNC and other & _STO_CUDA_ENTRY
            )

    def globals(self) -> tuple[GlobalInfo, ...]:
        """Return the variables that programs can look up."""
        with _damage():
            return tuple(
                GlobalInfo(symbol, demangle(symbol), size, _GLOBALS[self._sections[section].name])
                for symbol, kind, _, section, size in self._symbols()
                if kind == _STT_OBJECT and symbol and 0 < section < len(self._sections)
                if self._sections[section].name in _GLOBALS
            )

    def _kernel(self, symbol: str, signature: str | None, registers: int | None, frame: int | None) -> KernelInfo:
        places: dict[int, tuple[int, int]] = {}
        max_threads = None
        for attribute, value in self._attributes(f".nv.info.{symbol}"):
            if attribute == _EIATTR_KPARAM_INFO and len(value) == 12:
                _, ordinal, offset, rest = struct.unpack("<IHHI", value)
                places[ordinal] = (offset, rest >> 18)
            elif attribute == _EIATTR_MAX_THREADS and len(value) == 12:
                x, y, z = struct.unpack("<III", value)
                max_threads = x * y * z
        shared = self._by_name.get(f".nv.shared.{symbol}")
        reserved = _RESERVED_SHARED_BYTES if _RESERVED_SHARED in self._by_name else 0
        parameters = tuple(parameters_of(symbol, signature, [places[ordinal] for ordinal in sorted(places)]))
        shared_bytes = max(0, shared.size - reserved) if shared is not None else 0
        return KernelInfo(symbol, demangle(symbol), parameters, registers, shared_bytes, frame, max_threads)

    def _read_accelerated(self) -> bool:
        flags = _u32(self._image, 48)
        if self._image[8] < 8:
            return bool(flags & _EF_ACCELERATED)
        values = dict(self._attributes(".nv.compat"))
        return bool(flags & _EF_ACCELERATED_8 or any(values.get(_EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET, b"")))

    def _attributes(self, section: str) -> Iterator[tuple[int, bytes]]:
        """Return the numbers and values of the attributes in a section, without attributes that have no value."""
        if section not in self._by_name:
            return
        data = self._contents(self._by_name[section])
        at = 0
        while at + 4 <= len(data):
            form, attribute, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if form == _EIFMT_SVAL:
                yield attribute, data[at : at + size]
                at += size
            elif form in (_EIFMT_BVAL, _EIFMT_HVAL):
                yield attribute, data[at - 2 : at]

    def _symbols(self) -> Iterator[tuple[str, int, int, int, int]]:
        """Return the name, the type, the field `other`, the section and the size of each symbol."""
        table = self._by_name.get(".symtab")
        if table is None:
            return
        strings = self._sections[table.link]
        data = self._contents(table)
        for name, info, other, section, _, size in struct.iter_unpack("<IBBHQQ", data[: len(data) // 24 * 24]):
            yield self._string(strings.offset, strings.size, name), info & 15, other, section, size

    def _read_sections(self) -> list[_Section]:
        (table,) = struct.unpack_from("<Q", self._image, 40)
        entry_size, count, names_index = struct.unpack_from("<HHH", self._image, 58)
        raw = [struct.unpack_from("<IIQQQQII", self._image, table + i * entry_size) for i in range(count)]
        names = raw[names_index] if raw else (0,) * 8
        return [
            _Section(self._string(names[4], names[5], name), kind, offset, size, link)
            for name, kind, _, _, offset, size, link, _ in raw
        ]

    def _contents(self, section: _Section) -> bytes:
        if section.kind == _SHT_NOBITS or section.offset + section.size > len(self._image):
            raise IndexError(f"section {section.name} reaches beyond the end")
        return self._image[section.offset : section.offset + section.size]

    def _string(self, table: int, size: int, at: int) -> str:
        """Return the string at offset `at` of a string table, which begins at offset `table` of the file."""
        end = self._image.find(b"\0", table + at, table + size)
        if at >= size or end < 0:
            raise IndexError("a name reaches beyond its table")
        return self._image[table + at : end].decode("utf-8", "replace")


@contextmanager
def _damage() -> Iterator[None]:
    """Raise a ValueError if the image does not contain what is read from it."""
    try:
        yield
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"the cubin is damaged: {error}") from None


def is_elf(image: bytes) -> bool:
    """Return whether bytes begin like an ELF file of 64 bits, little-endian."""
    return image[:6] == b"\x7fELF\x02\x01"


def arch_of(image: bytes) -> int:
    """Return the number of a cubin's architecture. The ELF header suffices for this."""
    # The architecture's number is in the low byte of the ELF header's flags, or in the second byte from version 8 of
    # the ABI on (CUDA 13).
    flags = _u32(image, 48)
    return (flags >> 8) & 0xFF if image[8] >= 8 else flags & 0xFF


def toolkit_of(image: bytes) -> int:
    """Return the major version of CUDA that made a cubin: 13 if its form is that of CUDA 13 or later, otherwise 12."""
    return 13 if image[8] >= 8 and arch_of(image) < 100 else 12  # from sm_100 on, CUDA 12 wrote this form, too


def target_of(image: bytes) -> str:
    """Return the architecture of a cubin, such as ``"sm_90a"``; for a damaged cubin only ``"sm_90"``."""
    try:
        return Cubin(image).target
    except ValueError:
        return f"sm_{arch_of(image)}"


def _u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")
