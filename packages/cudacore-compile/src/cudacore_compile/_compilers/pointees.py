# SPDX-License-Identifier: Apache-2.0
"""The types that the pointers of ``extern "C"`` kernels point to, read from their source.

Compiled code has these types only in the C++ names of kernels. A declaration is read if it is written out in the
source: with types of C++, CUDA or ``<cstdint>``, without macros. All other types are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cudacore_handles._sdk.compile import element_of_c

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# A kernel's name and parameters. A parenthesis in the parameters is a macro or a function pointer.
_KERNEL = re.compile(
    r"\b__global__\s(?:[\w\s]|__\w+__\s*\([^()]*\))*?\bvoid\s+(?:__launch_bounds__\s*\([^()]*\)\s*)?(\w+)\s*\(([^()]*)\)"
)
_QUALIFIER = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__)\b")
_POINTER = re.compile(r"([^*&]+?)\s*(?:\*\s*\w*|&\s*\w*|\b\w+\s*\[\s*\d*\s*\])")
_NAMESPACE = re.compile(r"^(?:::)?(?:(?:cuda::)?std::|thrust::)")
# Names that are not the C++ names of the types themselves.
_ALIASES = {
    **{f"int{bits}_t": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": f"uint{bits}" for bits in (16, 32, 64)},
    "size_t": "uint64",
    "half": "float16",
    "nv_bfloat16": "bfloat16",
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
    name = match[1] if "<" not in match[1] else "".join(match[1].split())
    bare = _NAMESPACE.sub("", name)
    type_ = _ALIASES.get(bare) or element_of_c(name)
    return "" if type_ and _defines(text, bare.partition("<")[0]) else type_


def _defines(text: str, name: str) -> bool:
    """Return whether a source has a type or a macro of its own with the name of a known type."""
    name = re.escape(name)
    return bool(re.search(rf"\b(?:define|struct|class|using|union|enum)\s+{name}\b|\btypedef\b[^;]*\b{name}\s*;", text))
