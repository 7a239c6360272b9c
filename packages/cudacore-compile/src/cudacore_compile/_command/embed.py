# SPDX-License-Identifier: Apache-2.0
"""Code as a part of a program of the host: a C array, an assembly source, or an object."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

from cudacore_compile._command.errors import UsageError
from cudacore_compile._command.files import write

SUFFIXES = {"c": "c", "asm": "s", "obj": "o"}
"""dict: The suffixes of files by forms of embedding."""

_LINE = 24  # bytes in a line of C
_C = """\
/* Made by cudacore-compile. {symbol}_size does not count the zero at the end, which makes PTX a string. */
#ifdef __cplusplus
extern "C" {{
extern const unsigned long long {symbol}_size;
extern const unsigned char {symbol}[];
alignas(16)
#else
_Alignas(16)
#endif
const unsigned char {symbol}[{space}] = {{
{rows}
}};
const unsigned long long {symbol}_size = {size};
#ifdef __cplusplus
}}
#endif
"""
_ASSEMBLY = """\
    .section .rodata
    .balign 16
    .globl {symbol}
    .type {symbol}, %object
{symbol}:
    .incbin "{file}"
    .byte 0
    .size {symbol}, {space}
    .balign 8
    .globl {symbol}_size
    .type {symbol}_size, %object
{symbol}_size:
    .8byte {size}
    .size {symbol}_size, 8
    .section .note.GNU-stack, "", %progbits
"""


def symbol_of(given: str | None, output: str) -> str:
    """Return the name of the C variable: as given, or the output's name in letters that C allows."""
    symbol = given or re.sub(r"\W", "_", Path(output).stem, flags=re.ASCII)
    if re.fullmatch(r"[A-Za-z_]\w*", symbol, re.ASCII) is None:
        raise UsageError(f"--symbol {symbol}: write the name of a C variable")
    return symbol


def write_embedded(form: str, symbol: str, output: str, code: bytes, suffix: str) -> None:
    """Write code as a part of a program.

    Parameters
    ----------
    form : str
        ``"c"``, ``"asm"`` or ``"obj"``.
    symbol : str
        The variable; its size is ``symbol_size``.
    output : str
        The file. With ``"asm"``, the code itself is beside it, because the assembly names that file.
    code : bytes
        The code.
    suffix : str
        The suffix of the code's file.
    """
    names = {"symbol": symbol, "size": len(code), "space": len(code) + 1}
    if form == "c":
        digits = [f"{byte}," for byte in code + b"\0"]
        rows = "\n".join("".join(digits[at : at + _LINE]) for at in range(0, len(digits), _LINE))
        write(output, _C.format(rows=rows, **names).encode())
    elif form == "asm":
        file = str(Path(output).with_suffix(f".{suffix}"))
        write(file, code)
        write(output, _assembly(os.path.realpath(file), names))
    else:
        with tempfile.TemporaryDirectory() as folder:
            source, data, made = (os.path.join(folder, name) for name in ("code.s", "code", "code.o"))
            write(data, code)
            write(source, _assembly(data, names))
            command = [os.environ.get("AS") or "as", "-o", made, source]
            try:
                subprocess.run(command, check=True, capture_output=True)
            except FileNotFoundError:
                raise OSError(f"--embed obj: there is no assembler {command[0]}: install binutils, or set AS") from None
            except subprocess.CalledProcessError as error:
                raise OSError(f"--embed obj: {command[0]} failed: {error.stderr.decode(errors='replace')}") from None
            write(output, Path(made).read_bytes())


def _assembly(file: str, names: dict[str, object]) -> bytes:
    quoted = file.replace("\\", "\\\\").replace('"', '\\\\"')
    return _ASSEMBLY.format(file=quoted, **names).encode("utf-8", "surrogateescape")
