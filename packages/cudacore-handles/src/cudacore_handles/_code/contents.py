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
from cudacore_handles._code.ptx_signatures import outside_of_braces, ptx_kernels, signature_of


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
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_VARIABLE = re.compile(
    r"^\s*(?:\.(?:visible|weak|extern|common)\s+)?\.(?P<space>global|const)\s+(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.align\s+\d+\s+)?\.(?P<vector>v[24]\s+\.)?[a-z]+(?P<bits>8|16|32|64|128)\s+(?P<name>[\w$%]+)"
    r"(?P<extents>(?:\[\d{1,9}\])*)(?!\[\d|[\w$%])",
    re.MULTILINE,
)


def _read_ptx(ptx: str, signatures: Mapping[str, str]) -> CodeContents:
    text = _COMMENT.sub(" ", ptx)
    target = _TARGET.search(text)
    kernels = []
    for symbol, declared in ptx_kernels(ptx).items():
        signature = signatures.get(symbol, signature_of(declared))
        known = parameters_of(symbol, signature, [parameter.size for parameter in declared])
        parameters, offset = [], 0
        for (kind, size, pointee), parameter in zip(known, declared, strict=True):
            offset = -(-offset // parameter.alignment) * parameter.alignment
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
