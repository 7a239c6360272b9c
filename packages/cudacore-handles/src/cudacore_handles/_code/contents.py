# SPDX-License-Identifier: Apache-2.0
"""The contents of compiled code: kernels and variables, read from the code itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cudacore_handles._base.errors import UnsupportedCodeError
from cudacore_handles._code.cubin import Cubin
from cudacore_handles._code.demangle import demangle
from cudacore_handles._code.info import CodeContents, GlobalInfo, KernelInfo
from cudacore_handles._code.param_kinds import parameters_of
from cudacore_handles._code.ptx_signatures import PTX_SKIPPED, outside_of_braces, ptx_kernels, signature_of


def read_contents(code: bytes, code_type: str, signatures: Mapping[str, str]) -> CodeContents:
    """Read the contents of a cubin or of PTX.

    Parameters
    ----------
    code : bytes
        The code.
    code_type : str
        ``"cubin"`` or ``"ptx"``; other types cannot be read.
    signatures : mapping
        The kernels' parameters as the compiler reported them, by symbol.
    """
    if code_type == "ptx":
        return _read_ptx(code.decode("utf-8", "replace"), signatures)
    if code_type != "cubin":
        raise UnsupportedCodeError(
            f'Unsupported code type "{code_type}": its contents cannot be listed. Only those of cubins and PTX can'
        )
    cubin = Cubin(code)
    return CodeContents(cubin.kernels(signatures), cubin.globals(), cubin.target)


_TARGET = re.compile(r"^[ \t]*\.target\s+(\w+)", re.MULTILINE)
_VARIABLE = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|extern|common)\s+)?\.(?P<space>global|const)\s+(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.align\s+\d+\s+)?\.(?P<vector>v[24]\s+\.)?[a-z]+(?P<bits>8|16|32|64|128)\s+(?P<name>[\w$%]+)"
    r"(?P<extents>(?:\[\d{1,9}\])*)(?!\[\d|[\w$%])",
    re.MULTILINE,
)


def _read_ptx(ptx: str, signatures: Mapping[str, str]) -> CodeContents:
    text = PTX_SKIPPED.sub(" ", ptx)
    target = _TARGET.search(text)
    kernels = []
    for symbol, declared in ptx_kernels(ptx).items():
        signature = signatures.get(symbol, signature_of(declared))
        places, end = [], 0
        for parameter in declared:
            offset = -(-end // parameter.alignment) * parameter.alignment
            end = offset + parameter.size
            places.append((offset, parameter.size))
        kernels.append(KernelInfo(symbol, demangle(symbol), tuple(parameters_of(symbol, signature, places))))
    variables = []
    for match in _VARIABLE.finditer("\n".join(outside_of_braces(text))):
        size = int(match["bits"]) // 8 * (int(match["vector"][1]) if match["vector"] else 1)
        for extent in re.findall(r"\d+", match["extents"]):
            size *= int(extent)
        space = "constant" if match["space"] == "const" else "global"
        variables.append(GlobalInfo(match["name"], demangle(match["name"]), size, space))
    return CodeContents(tuple(kernels), tuple(variables), target[1] if target else "")
