# SPDX-License-Identifier: Apache-2.0
"""Reads the parameters of kernels from their C++ names, as the system's C++ library demangles them."""

from __future__ import annotations

import re

from cudacore_handles._base.element_types import element_of_c
from cudacore_handles._code.demangle import demangle, end_of_name
from cudacore_handles._code.param_kinds import Parameter, ParamKind

# The kinds and sizes of numbers. The size of a long and of a wchar_t is not stated, because it differs on Windows.
_NUMBERS = {
    "bool": (ParamKind.BOOL, 1),
    "char": (ParamKind.BITS, 1),  # the sign is the compiler's choice, so numbers of either sign are accepted
    "wchar_t": (ParamKind.BITS, 0),
    "signed char": (ParamKind.INT, 1),
    "short": (ParamKind.INT, 2),
    "int": (ParamKind.INT, 4),
    "long": (ParamKind.INT, 0),
    "long long": (ParamKind.INT, 8),
    **dict.fromkeys(("unsigned char", "char8_t"), (ParamKind.UINT, 1)),
    **dict.fromkeys(("unsigned short", "char16_t"), (ParamKind.UINT, 2)),
    **dict.fromkeys(("unsigned int", "char32_t"), (ParamKind.UINT, 4)),
    "unsigned long": (ParamKind.UINT, 0),
    "unsigned long long": (ParamKind.UINT, 8),
    **dict.fromkeys(("__half", "_Float16", "half"), (ParamKind.FLOAT, 2)),
    **dict.fromkeys(("__nv_bfloat16", "std::bfloat16_t"), (ParamKind.BFLOAT, 2)),
    "float": (ParamKind.FLOAT, 4),
    "double": (ParamKind.FLOAT, 8),
}
_QUALIFIER = re.compile(r"\s*\b(?:const|volatile|restrict)\b")
_ARGUMENTS = re.compile(r"<[^<>]*>")  # innermost template arguments
_DECLARATOR = re.compile(r"[^(]*(?:\([*&]|(?<!::)[*&]$)")  # of a pointer, or of a reference: T *, T (*)(U), T (&) [2]


def name_parameters(symbol: str) -> list[Parameter] | None:
    """Return the parameters that a mangled C++ name describes; None if it does not describe any."""
    text = demangle(symbol)
    begin = end_of_name(text)
    if text == symbol or begin == len(text) or text[-1] != ")":
        return None
    types, depth = [""], 0
    for letter in text[begin + 1 : -1].replace("(anonymous namespace)", "anonymous"):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            types.append("")
        else:
            types[-1] += letter
    if depth:
        return None  # an expression with an operator such as ->
    return [_parameter(_QUALIFIER.sub("", each).strip()) for each in types] if types != [""] else []


def _parameter(text: str) -> Parameter:
    """Return the parameter of a type without qualifiers."""
    if text in _NUMBERS:
        return Parameter(*_NUMBERS[text])
    shape, before = text, ""
    while shape != before:
        shape, before = _ARGUMENTS.sub("", shape), shape
    if _DECLARATOR.match(shape) is None:
        return Parameter(ParamKind.UNKNOWN, 0)
    return Parameter(ParamKind.POINTER, 8, element_of_c(re.sub(r"(?:\*|&&?)$", "", text)))
