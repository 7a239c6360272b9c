# SPDX-License-Identifier: Apache-2.0
"""Types of elements by their names in NumPy and ml_dtypes, and as DLPack numbers them."""

from __future__ import annotations

# DLPack's code and bits, by the names of NumPy and ml_dtypes.
NUMPY = {
    **{f"int{bits}": (0, bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (2, bits) for bits in (16, 32, 64)},
    "complex64": (5, 64),
    "complex128": (5, 128),
    "bool": (6, 8),
}
ML_DTYPES = {
    "bfloat16": (4, 16),
    "float8_e3m4": (7, 8),
    "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
}
BY_NAME = NUMPY | ML_DTYPES
BY_TYPE = {pair: name for name, pair in BY_NAME.items()}

#: C++ names of the types that pointers are checked for; those of 8-bit characters are missing, because these pointers
#: are also used for raw bytes.
C_NAMES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float16": "__half",
    "float32": "float",
    "float64": "double",
    "bfloat16": "__nv_bfloat16",
    "float8_e4m3fn": "__nv_fp8_e4m3",
    "float8_e5m2": "__nv_fp8_e5m2",
    "float8_e8m0fnu": "__nv_fp8_e8m0",
    "complex64": "complex<float>",
    "complex128": "complex<double>",
}

_BY_C_NAME = {name: element for element, name in C_NAMES.items()}
_INTEGER_WORDS = frozenset({"unsigned", "signed", "short", "long", "int", "char"})
_COMPLEX = ("::complex<float>", "::complex<double>")


def element_of_c(name: str) -> str:
    """Return the type of elements that have a C++ type without qualifiers; an empty string for all other types."""
    words = name.split()
    if not words or not _INTEGER_WORDS.issuperset(words):
        return _BY_C_NAME.get(name.rpartition("::")[2] if name.endswith(_COMPLEX) else name, "")
    if "char" in words:
        return "int8" if "signed" in words else ""
    bits = 16 if "short" in words else 64 if "long" in words else 32
    return f"{'u' if 'unsigned' in words else ''}int{bits}"


def pack_type(code: int, bits: int, lanes: int = 1) -> int:
    """Return a type of DLPack as one number."""
    return code | bits << 8 | lanes << 16


def element_of(name: str) -> int:
    """Return the number of an element's type: DLPack's code and bits; 0 for an empty name."""
    return pack_type(*BY_NAME[name], 0) if name else 0


def name_of_element(number: int) -> str:
    """Return the name of the type that :func:`element_of` returns the number of."""
    if not number:
        return ""
    pair = (number & 0xFF, number >> 8 & 0xFF)
    return BY_TYPE.get(pair) or f"DLPack's type {pair[0]} of {pair[1]} bits"
