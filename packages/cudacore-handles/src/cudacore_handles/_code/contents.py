# SPDX-License-Identifier: Apache-2.0
"""The contents of compiled code: kernels and variables, read from the code itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cudacore_handles._base.errors import UnsupportedCodeError
from cudacore_handles._code.cubin import Cubin
from cudacore_handles._code.demangle import demangle
from cudacore_handles._code.info import CodeContents, GlobalInfo, KernelInfo
from cudacore_handles._code.kernel import ParamInfo
from cudacore_handles._code.param_kinds import parameters_of
from cudacore_handles._code.ptx_signatures import outside_of_braces, ptx_signatures


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
    kernels = []
    for kernel in cubin.kernels():
        known = parameters_of(kernel.symbol, signatures.get(kernel.symbol), [size for _, size in kernel.parameters])
        parameters = tuple(
            ParamInfo(*place, k.kind, k.pointee) for place, k in zip(kernel.parameters, known, strict=True)
        )
        name = demangle(kernel.symbol)
        kernels.append(
            KernelInfo(
                kernel.symbol, name, parameters, kernel.registers, kernel.shared_bytes, kernel.local_bytes,
                kernel.max_threads,
            )
        )  # fmt: skip
    variables = tuple(GlobalInfo(v.symbol, demangle(v.symbol), v.size, v.space) for v in cubin.globals())
    return CodeContents(tuple(kernels), variables, cubin.target)


_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
_ENTRY_PARAMETERS = re.compile(r"\.entry\s+([\w$%]+)\s*\(([^)]*)\)")
_ALIGN = re.compile(r"\.align\s+(\d+)\s+\.b8\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_VARIABLE = re.compile(
    r"^\s*(?:\.(?:visible|weak|extern|common)\s+)?\.(?P<space>global|const)\s+(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.align\s+\d+\s+)?\.(?P<vector>v[24]\s+\.)?[a-z]+(?P<bits>8|16|32|64|128)\s+(?P<name>[\w$%]+)"
    r"(?P<extents>(?:\[\d+\])*)",
    re.MULTILINE,
)


def _read_ptx(ptx: str, signatures: Mapping[str, str]) -> CodeContents:
    text = _COMMENT.sub(" ", ptx)
    target = _TARGET.search(text)
    listed = {match[1]: match[2] for match in _ENTRY_PARAMETERS.finditer(text)}
    kernels = []
    for symbol, signature in ptx_signatures(ptx).items():
        sizes = [int(word[1:]) for word in signature.split()]
        known = parameters_of(symbol, signatures.get(symbol, signature), sizes)
        declared = listed.get(symbol, "").split(",") if sizes else []
        parameters, offset = [], 0
        for (kind, size, pointee), parameter in zip(known, declared, strict=False):
            align = _ALIGN.search(parameter)
            alignment = max(1, int(align[1]) if align else size)  # 0 is not valid, but damaged code can have it
            offset = (offset + alignment - 1) // alignment * alignment
            parameters.append(ParamInfo(offset, size, kind, pointee))
            offset += size
        kernels.append(KernelInfo(symbol, demangle(symbol), tuple(parameters)))
    variables = []
    for match in _VARIABLE.finditer("\n".join(outside_of_braces(text))):
        size = int(match["bits"]) // 8 * (int(match["vector"][1]) if match["vector"] else 1)
        for extent in re.findall(r"\d+", match["extents"]):
            size *= int(extent)
        space = "constant" if match["space"] == "const" else "global"
        variables.append(GlobalInfo(match["name"], demangle(match["name"]), size, space))
    return CodeContents(tuple(kernels), tuple(variables), target[1] if target else "")
