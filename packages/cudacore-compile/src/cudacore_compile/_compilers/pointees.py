# SPDX-License-Identifier: Apache-2.0
"""The types that the pointers of ``extern "C"`` kernels point to, read from their source.

Compiled code has these types only in the C++ names of kernels. A declaration is read if it is written out in the
source: with types of C++, CUDA or ``<cstdint>``, without macros. All other types are unknown.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# A kernel's name and parameters. A parenthesis in the parameters is a macro or a function pointer.
_KERNEL = re.compile(
    r"\b__global__\s(?:[\w\s]|__\w+__\s*\([^()]*\))*?\bvoid\s+(?:__launch_bounds__\s*\([^()]*\)\s*)?(\w+)\s*\(([^()]*)\)"
)
_QUALIFIER = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__)\b")
_POINTER = re.compile(r"([^*&]+?)\s*(?:\*\s*\w*|&\s*\w*|\b\w+\s*\[\s*\d*\s*\])")
_NAMESPACE = re.compile(r"^(?:::)?(?:(?:cuda::)?std::|thrust::)")
_INTEGER_WORDS = frozenset({"unsigned", "signed", "short", "long", "int", "char"})

# Names of types, without integers of several words. Pointers to characters can point to any bytes.
_NAMES = {
    "bool": "bool",
    "float": "float32",
    "double": "float64",
    **{f"int{bits}_t": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": f"uint{bits}" for bits in (16, 32, 64)},
    "size_t": "uint64",
    "__half": "float16",
    "half": "float16",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    "__nv_fp8_e8m0": "float8_e8m0fnu",
    "complex<float>": "complex64",
    "complex<double>": "complex128",
}


def pointees(source: str) -> dict[str, list[str]]:
    """Return the types of the parameters of the kernels that a source declares, by the kernels' names.

    For a pointer, this is the type of its elements in NumPy or ml_dtypes; for other parameters and types, an empty
    string. If declarations of a kernel contradict each other, only what they have in common is returned.
    """
    if "__global__" not in source:
        return {}
    text = _COMMENT.sub(" ", source)
    found: dict[str, list[str]] = {}
    for name, parameters in _KERNEL.findall(text):
        types = [_pointee(parameter, text) for parameter in parameters.split(",")]
        known = found.setdefault(name, types)
        if known != types:
            same = len(known) == len(types)
            found[name] = [a if same and a == b else "" for a, b in zip(known, types, strict=False)]
    return found


def add_pointees(signatures: Mapping[str, str], found: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the signatures of kernels with the types of :func:`pointees`: ``"p8*float32 n4"``."""
    return {name: _add(signature, found.get(name, [])) for name, signature in signatures.items()}


def _add(signature: str, types: list[str]) -> str:
    words = signature.split()
    if len(words) != len(types):
        return signature
    return " ".join(
        f"{word}*{type_}" if type_ and word in ("p8", "a8") else word for word, type_ in zip(words, types, strict=True)
    )


def _pointee(parameter: str, text: str) -> str:
    match = _POINTER.fullmatch(_QUALIFIER.sub(" ", parameter).strip())
    if match is None:
        return ""
    words = match[1].split()
    if _INTEGER_WORDS.issuperset(words):
        return _integer(words)
    name = _NAMESPACE.sub("", "".join(words))
    type_ = _NAMES.get(name, "")
    return "" if type_ and _defines(text, name.partition("<")[0]) else type_


def _integer(words: list[str]) -> str:
    if "char" in words:
        return "int8" if "signed" in words else ""
    bits = 32
    if "short" in words:
        bits = 16
    elif "long" in words:
        bits = 64 if words.count("long") == 2 else 8 * struct.calcsize("l")
    return f"{'u' if 'unsigned' in words else ''}int{bits}"


def _defines(text: str, name: str) -> bool:
    """Return whether a source has a type or a macro of its own with the name of a known type."""
    name = re.escape(name)
    return bool(re.search(rf"\b(?:define|struct|class|using|union|enum)\s+{name}\b|\btypedef\b[^;]*\b{name}\s*;", text))
