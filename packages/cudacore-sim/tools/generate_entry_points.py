# SPDX-License-Identifier: Apache-2.0
"""Write src/sim/driver/base/entry_points.inc, the table of every function that the CUDA driver API declares.

    python tools/generate_entry_points.py FOLDER_WITH_CUDA_H

Run this program to cover a newer ``cuda.h``. The table has the prototypes of all versions of all functions, as
``cuda.h`` declares them for the driver itself. The CUDA version that introduced a function is in the name of its type
in ``cudaTypedefs.h``.

Code that includes the table defines macros for the rows that it needs. The table undefines these macros. Rows:

``SIM_FUNCTION(symbol, base, flags, parameters, arguments)``
    A symbol. ``base`` is the name for users, which all versions of a function share. ``flags`` are properties of the
    function (``EntryFlag`` in ``api.h``). They are written by hand, and copied from the existing table.
``SIM_PER_THREAD(symbol, plain, parameters, arguments)``
    A symbol that differs from the symbol ``plain`` only in the default stream, which is the calling thread's.
``SIM_VERSION(name, version, symbol, per_thread)``
    The symbol that ``cuGetProcAddress`` returns for a name if at least this CUDA version is requested. If
    ``per_thread`` is set, the symbol is returned only for programs that request the per-thread default stream.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

PROTOTYPE = re.compile(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(([^;{}]*)\)\s*;")
TYPEDEF = re.compile(r"typedef CUresult\s*\(CUDAAPI \*PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)\(([^;]*)\);")
MACROS = ("SIM_FUNCTION", "SIM_PER_THREAD", "SIM_VERSION")
TABLE = Path(__file__).parents[1] / "src" / "sim" / "driver" / "base" / "entry_points.inc"

# Prototypes from cudaProfiler.h, which is in no wheel.
PROFILER = """
CUresult cuProfilerInitialize(const char *configFile, const char *outputFile, int outputMode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
"""
# Prototypes from cudaGL.h, which needs the headers of OpenGL. GLuint and GLenum are replaced by unsigned.
OPENGL = """
CUresult cuGraphicsGLRegisterBuffer(CUgraphicsResource *pCudaResource, unsigned int buffer, unsigned int Flags);
CUresult cuGraphicsGLRegisterImage(CUgraphicsResource *pCudaResource, unsigned int image, unsigned int target,
                                   unsigned int Flags);
"""
SUFFIX = re.compile(r"^(cu\w+?)(?:_v(\d+))?(_ptds|_ptsz)?$")


def preprocess(header: Path) -> str:
    """Return a header preprocessed as for the driver itself: with old versions of functions, and without renaming."""
    command = ["gcc", "-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", f"-I{header.parent}", str(header)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def split_parameters(text: str) -> list[str]:
    """Split a parameter list at its outer commas."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [" ".join(part.split()) for part in parts]


def name_parameters(text: str) -> tuple[str, str]:
    """Return a parameter list with every parameter named, and the list of the names."""
    if text.strip() in ("", "void"):
        return "(void)", "()"
    parameters, names = [], []
    for number, parameter in enumerate(split_parameters(text)):
        match = re.search(r"(\w+)(\[\d*\])?$", parameter)
        unnamed = parameter.endswith("*") or len(parameter.replace("*", " ").split()) == 1
        name = f"argument{number}" if unnamed or match is None else match.group(1)
        parameters.append(f"{parameter} {name}" if unnamed else parameter)
        names.append(name)
    return f"({', '.join(parameters)})", f"({', '.join(names)})"


def table_of(folder: Path) -> str:
    """Return the table for the headers in a folder, with the flags of the existing table."""
    text = preprocess(folder / "cuda.h") + PROFILER + OPENGL
    symbols = {name: name_parameters(parameters) for name, parameters in PROTOTYPE.findall(text)}
    versions: dict[str, set[int]] = defaultdict(set)
    for header in ("cudaTypedefs.h", "cudaProfilerTypedefs.h", "cudaGLTypedefs.h"):
        for name, version, variant, _ in TYPEDEF.findall(re.sub(r"\s+", " ", (folder / header).read_text())):
            if not variant:
                versions[name].add(int(version))
    families: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for symbol in symbols:
        base, number, variant = SUFFIX.fullmatch(symbol).groups()  # type: ignore[union-attr]
        if not variant:
            families[base].append((int(number or 1), symbol))
    flags = dict(re.findall(r"SIM_FUNCTION\((\w+), \w+, ([\w |]+), ", TABLE.read_text()))
    found = re.search(r"#define CUDA_VERSION (\d+)", (folder / "cuda.h").read_text())
    lines = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        f"/* Written by tools/generate_entry_points.py; cuda.h of CUDA {found.group(1) if found else '?'} */",
        "/* clang-format off */",
        *(line for name in MACROS for line in (f"#ifndef {name}", f"#define {name}(...)", "#endif")),
    ]
    rows = []
    for base in sorted(families):
        family = [symbol for _, symbol in sorted(families[base])]
        since = sorted(versions[base])
        if len(family) != len(since):
            raise SystemExit(f"{base}: {family} but {since}")
        for symbol, version in zip(family, since, strict=True):
            parameters, arguments = symbols[symbol]
            lines.append(f"SIM_FUNCTION({symbol}, {base}, {flags.get(symbol, 'none')}, {parameters}, {arguments})")
            rows.append(f"SIM_VERSION({base}, {version}, {symbol}, false)")
            for variant in ("_ptds", "_ptsz"):
                if symbol + variant in symbols:
                    rows.append(f"SIM_VERSION({base}, {version}, {symbol + variant}, true)")
                    parameters, arguments = symbols[symbol + variant]
                    lines.append(f"SIM_PER_THREAD({symbol + variant}, {symbol}, {parameters}, {arguments})")
    ends = [f"#undef {name}" for name in MACROS]
    return "\n".join(lines + rows + ends) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table_of(Path(sys.argv[1])))
