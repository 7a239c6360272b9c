# SPDX-License-Identifier: Apache-2.0
"""Reads cubins, which are ELF files with NVIDIA's own sections.

Only the parts that are used are read. Malformed data raises a ValueError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from cudacore_handles._code.elf import STT_FUNC, STT_OBJECT, Section, is_elf, read_contents, read_sections, read_string

_EM_CUDA = 190
_ET_REL = 1
STO_CUDA_ENTRY = 0x10  # the bit of a symbol's field `other` that marks a kernel
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


class CubinKernel(NamedTuple):
    """A kernel in a cubin."""

    symbol: str
    parameters: list[tuple[int, int]]  # offsets and sizes
    registers: int | None
    shared_bytes: int
    local_bytes: int | None
    max_threads: int | None


class CubinGlobal(NamedTuple):
    """A variable in a cubin."""

    symbol: str
    size: int
    space: str  # "global" or "constant"


class CubinSymbol(NamedTuple):
    """A row of a cubin's symbol table, with the numbers of ELF and of CUDA (``STT_*``, ``STO_CUDA_*``)."""

    name: str
    kind: int
    other: int
    section: int
    size: int


class Cubin:
    """A cubin that was read. Offsets and sizes that are out of range raise a ValueError."""

    def __init__(self, image: bytes) -> None:
        if not is_elf(image) or len(image) < 64 or _u16(image, 18) != _EM_CUDA:
            raise ValueError("this is not a cubin: it is not an ELF file of CUDA's")
        self._image = image
        try:
            self._sections = read_sections(image)
            self._symbols = self._read_symbols()
            self._is_accelerated = self._read_accelerated()
        except (struct.error, IndexError, OverflowError) as error:
            raise ValueError(f"the cubin is damaged: {error}") from None

    @property
    def arch(self) -> int:
        """int: The number of the architecture, such as 90."""
        return arch_of(self._image)

    @property
    def target(self) -> str:
        """str: The architecture as PTX and compilers name it, such as ``"sm_90"`` or ``"sm_90a"``."""
        return f"sm_{self.arch}{'a' if self._is_accelerated else ''}"

    @property
    def is_relocatable(self) -> bool:
        """bool: Whether the cubin can be linked with other code: it was compiled as relocatable device code."""
        return _u16(self._image, 16) == _ET_REL

    @property
    def symbols(self) -> list[CubinSymbol]:
        """list of CubinSymbol: The symbol table."""
        return self._symbols

    def kernels(self) -> list[CubinKernel]:
        """Return the kernels."""
        try:
            return self._kernels()
        except (struct.error, IndexError, OverflowError) as error:
            raise ValueError(f"the cubin is damaged: {error}") from None

    def globals(self) -> list[CubinGlobal]:
        """Return the variables that programs can look up."""
        found = []
        for symbol in self._symbols:
            if symbol.kind == STT_OBJECT and 0 < symbol.section < len(self._sections):
                space = _GLOBALS.get(self._sections[symbol.section].name)
                if space is not None and symbol.name:
                    found.append(CubinGlobal(symbol.name, symbol.size, space))
        return found

    def _kernels(self) -> list[CubinKernel]:
        names = {section.name: section for section in self._sections}
        registers: dict[int, int] = {}
        frames: dict[int, int] = {}
        for attribute, value in self._attributes(names.get(".nv.info")):
            if attribute in (_EIATTR_REGCOUNT, _EIATTR_FRAME_SIZE) and len(value) == 8:
                table = registers if attribute == _EIATTR_REGCOUNT else frames
                table[_u32(value, 0)] = _u32(value, 4)
        reserved = _RESERVED_SHARED_BYTES if _RESERVED_SHARED in names else 0
        kernels = []
        for index, symbol in enumerate(self._symbols):
            if symbol.kind != STT_FUNC or not symbol.other & STO_CUDA_ENTRY:
                continue
            parameters: dict[int, tuple[int, int]] = {}
            max_threads = None
            for attribute, value in self._attributes(names.get(f".nv.info.{symbol.name}")):
                if attribute == _EIATTR_KPARAM_INFO and len(value) == 12:
                    _, ordinal, offset, rest = struct.unpack("<IHHI", value)
                    parameters[ordinal] = (offset, rest >> 18)
                elif attribute == _EIATTR_MAX_THREADS and len(value) == 12:
                    x, y, z = struct.unpack("<III", value)
                    max_threads = x * y * z
            shared = names.get(f".nv.shared.{symbol.name}")
            kernels.append(
                CubinKernel(
                    symbol.name,
                    [parameters[ordinal] for ordinal in sorted(parameters)],
                    registers.get(index),
                    max(0, shared.size - reserved) if shared is not None else 0,
                    frames.get(index),
                    max_threads,
                )
            )
        return kernels

    def _read_accelerated(self) -> bool:
        flags = _u32(self._image, 48)
        if self._image[8] < 8:
            return bool(flags & _EF_ACCELERATED)
        section = next((section for section in self._sections if section.name == ".nv.compat"), None)
        values = dict(self._attributes(section))
        return bool(flags & _EF_ACCELERATED_8 or any(values.get(_EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET, b"")))

    def _attributes(self, section: Section | None) -> Iterator[tuple[int, bytes]]:
        """Return the numbers and values of the attributes in a section, without attributes that have no value."""
        if section is None:
            return
        data = read_contents(self._image, section)
        at = 0
        while at + 4 <= len(data):
            form, attribute, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if form == _EIFMT_SVAL:
                yield attribute, data[at : at + size]
                at += size
            elif form in (_EIFMT_BVAL, _EIFMT_HVAL):
                yield attribute, data[at - 2 : at]

    def _read_symbols(self) -> list[CubinSymbol]:
        table = next((section for section in self._sections if section.name == ".symtab"), None)
        if table is None:
            return []
        strings = self._sections[table.link]
        data = read_contents(self._image, table)
        return [
            CubinSymbol(read_string(self._image, strings.offset, strings.size, name), info & 15, other, section, size)
            for name, info, other, section, _, size in struct.iter_unpack("<IBBHQQ", data[: len(data) // 24 * 24])
        ]


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
