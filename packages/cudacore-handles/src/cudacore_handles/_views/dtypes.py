# SPDX-License-Identifier: Apache-2.0
"""Types of elements: DLPack's, NumPy's, and those of ml_dtypes. NumPy and ml_dtypes are imported when needed."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from cudacore_handles._base.element_types import BY_NAME, BY_TYPE, ML_DTYPES, NUMPY, pack_type

NO_CODE = 255  # DL_NO_CODE of dlpack.h: elements without a DLPack type
_NO_TYPE = NO_CODE | 8 << 8 | 1 << 16

_NATIVE = "<" if sys.byteorder == "little" else ">"

# Types whose elements ml_dtypes pads to one byte each, which DLPack allows.
_PADDED = {(15, 6): "float6_e2m3fn", (16, 6): "float6_e3m2fn", (17, 4): "float4_e2m1fn"}

_KINDS = {"int": "i", "uint": "u", "float": "f", "complex": "c", "bool": "b"}
_BY_TYPESTR = {
    f"{'|' if bits == 8 else _NATIVE}{_KINDS[name.rstrip('0123456789')]}{bits // 8}": (code, bits)
    for name, (code, bits) in NUMPY.items()
}
# The letters of the buffer protocol.
_FORMATS = {
    **dict.fromkeys("bhilqn", "int"),
    **dict.fromkeys("BHILQN", "uint"),
    **dict.fromkeys("efd", "float"),
    **dict.fromkeys(("Zf", "Zd"), "complex"),
    "?": "bool",
}

# Codes of DLPack.
_INTEGERS = {0, 1, 6}
_REAL, _COMPLEX = 2, 5

_TYPESTRS = {pair: typestr for typestr, pair in _BY_TYPESTR.items()}


class ElementType(NamedTuple):
    """The type of a view's elements."""

    packed: int  #: DLPack's type: code | bits << 8 | lanes << 16
    itemsize: int
    dtype: Any  #: a NumPy dtype; ``...``: derived from the DLPack type when first read; None: not known


# A cache of dtype arguments, because NumPy takes long to name a dtype.
ELEMENT_TYPES: dict[Any, ElementType] = {
    name: ElementType(pack_type(*pair), pair[1] // 8, ...) for name, pair in BY_NAME.items()
}
_MAX_ELEMENT_TYPES = 1000


def field_of(dtype: Any, name: str) -> tuple[Any, int]:
    """Return the dtype of a field of a structured type, and its offset in bytes."""
    fields = getattr(dtype, "fields", None) or {}
    if not isinstance(name, str) or name not in fields:
        has = f"its fields are {', '.join(map(repr, fields))}" if fields else "it is not a structure"
        raise ValueError(f"there is no field {name!r}: the type is {dtype}, and {has}")
    kind, offset = fields[name][:2]
    return kind, offset


def raw_type(itemsize: int) -> ElementType:
    """Return an element type of which only the size is known."""
    return ElementType(_NO_TYPE, itemsize, None)


def type_given(dtype: Any) -> ElementType:
    """Return the element type for an argument `dtype`: what NumPy converts to a dtype, a name, or an ElementType."""
    try:
        return ELEMENT_TYPES[dtype]
    except (KeyError, TypeError):  # a new value, or one that cannot be hashed
        pass
    if isinstance(dtype, ElementType):
        return dtype
    import numpy as np

    try:
        made = np.dtype(dtype)
    except TypeError:
        raise TypeError(
            f"dtype is {dtype!r}; it must be a NumPy dtype, what np.dtype() takes, or one of {', '.join(ML_DTYPES)}"
        ) from None
    if made.hasobject:
        raise TypeError(f"dtype is {made}: Python objects cannot be used on a device")
    if made.itemsize == 0:
        raise ValueError(f"dtype is {made!r}, whose elements have no bytes; give their length, too")
    kind = ElementType(dlpack_type_of(made), made.itemsize, made)
    if len(ELEMENT_TYPES) < _MAX_ELEMENT_TYPES and (dtype is made or isinstance(dtype, (str, type))):
        ELEMENT_TYPES[dtype] = kind
    return kind


def dlpack_type_of(dtype: Any) -> int:
    """Return the DLPack type of a NumPy dtype or a typestr; the type of raw data if DLPack has none."""
    if isinstance(dtype, str):
        known = _pair_of_typestr(dtype)
        return pack_type(*known) if known is not None else _NO_TYPE
    lanes = 1
    itemsize = dtype.itemsize
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        if len(shape) == 1 and 0 < shape[0] < 2**16:
            dtype, lanes = base, shape[0]
    pair = BY_NAME.get(dtype.name) if dtype.isnative and dtype.fields is None else None
    if pair is None or pair[1] // 8 * lanes != itemsize:
        return pack_type(NO_CODE, 8, min(itemsize, 2**16 - 1))
    return pack_type(*pair, lanes)


def dtype_of(code: int, bits: int, lanes: int) -> Any:
    """Return the dtype of a DLPack type."""
    if code == NO_CODE:
        return None
    name = BY_TYPE.get((code, bits)) or _PADDED.get((code, bits))
    if name is None:
        raise NotImplementedError(
            f"the elements are of DLPack's type {code} with {bits} bits, which NumPy and ml_dtypes have no dtype for; "
            "view(dtype=...) reads them as something else"
        )
    import numpy as np

    if name in NUMPY:
        scalar = np.dtype(name)
    else:
        try:
            import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise NotImplementedError(
                f"NumPy has no dtype for {name}; ml_dtypes has: pip install ml_dtypes. Or read the elements as "
                f"something else: view(dtype='uint{max(bits, 8)}')"
            ) from None
        if not hasattr(ml_dtypes, name):
            raise NotImplementedError(
                f"this ml_dtypes ({ml_dtypes.__version__}) has no {name}: pip install --upgrade ml_dtypes"
            )
        scalar = np.dtype(getattr(ml_dtypes, name))
    return scalar if lanes == 1 else np.dtype((scalar, (lanes,)))


def _pair_of_typestr(typestr: str) -> tuple[int, int] | None:
    return _BY_TYPESTR.get(typestr) or _BY_TYPESTR.get(typestr.replace("=", _NATIVE, 1).replace("|", _NATIVE, 1))


def dtype_text(view: Any, unknown: str) -> str:
    """Return the dtype of a view for messages; `unknown` if NumPy and ml_dtypes have none for it."""
    try:
        return str(view.dtype)
    except NotImplementedError:
        return unknown


def type_of_interface(interface: dict[str, Any], obj: Any) -> ElementType:
    """Return the type of the elements of an array interface."""
    typestr = interface["typestr"]
    if not isinstance(typestr, str):
        raise TypeError(f"the typestr of {type(obj).__name__} is {typestr!r}; it must be a str such as '<f4'")
    pair = _pair_of_typestr(typestr)
    if pair is not None:
        return ElementType(pack_type(*pair), pair[1] // 8, ...)
    import numpy as np

    # For structures and the types of ml_dtypes, the typestr is only the number of bytes.
    dtype = getattr(obj, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.str == typestr:
        return type_given(dtype)
    descr = interface.get("descr")
    if not descr or (len(descr) == 1 and not descr[0][0]):  # no fields
        return type_given(typestr)
    structure = type_given(np.lib.format.descr_to_dtype(descr))
    if structure.itemsize != np.dtype(typestr).itemsize:
        raise BufferError(
            f"the array interface of {type(obj).__name__} has the typestr {typestr!r}, and a descr of "
            f"{structure.itemsize} bytes"
        )
    return structure


def type_of_format(text: str, itemsize: int) -> int | None:
    """Return the DLPack type of a format of the buffer protocol: that of raw data for structures and characters.

    None: elements of another type, such as numbers of the other byte order.
    """
    kind = _FORMATS.get(text.lstrip("@=" + _NATIVE))
    if kind is None:
        return _NO_TYPE if text[:1] == "T" or text[-1:] in ("c", "s", "x") else None
    return pack_type(*BY_NAME[kind if kind == "bool" else f"{kind}{8 * itemsize}"])


def type_of_view(packed: int, dtype: Any) -> int | None:
    """Return the DLPack type of a view's elements, or that of all fields of a structure; None for other elements."""
    if packed & 0xFF != NO_CODE or dtype is None:
        return packed
    parts = [field[0] for field in (dtype.fields or {}).values()] if dtype.subdtype is None else [dtype.subdtype[0]]
    if not parts:
        return packed if dtype.kind in "VS" else None
    types = {type_of_view(dlpack_type_of(part), part) for part in parts}
    return types.pop() if len(types) == 1 else None


def is_numbers(packed: int | None, name: str) -> bool:
    """Return whether memory of a DLPack type can be numbers of a type, such as ``"float32"``.

    The sign of integers is ignored. Complex numbers are two real ones. Elements without a type, and bytes, can be
    anything.
    """
    if packed is None:
        return False
    code, bits = packed & 0xFF, packed >> 8 & 0xFF
    if code == NO_CODE or (code in _INTEGERS and bits == 8):
        return True
    if code == _COMPLEX:
        code, bits = _REAL, bits // 2
    wanted, wanted_bits = BY_NAME[name]
    return bits == wanted_bits and (code == wanted or {code, wanted} <= _INTEGERS)


def typestr_of(packed: int, itemsize: int, dtype: Any) -> str:
    """Return the name of a type in array interfaces."""
    pair = (packed & 0xFF, packed >> 8 & 0xFF)
    if packed >> 16 == 1 and pair in _TYPESTRS:
        return _TYPESTRS[pair]
    return str(dtype.str) if dtype not in (None, ...) else f"|V{itemsize}"
