# SPDX-License-Identifier: Apache-2.0
"""The kernels in compiled code, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from cudacore_handles import KernelInfo, ObjectCode
from cudacore_handles._sdk.compile import entries


def list_kernels(codes: Sequence[tuple[str, ObjectCode]], *, as_json: bool) -> str:
    """Return a list of the kernels in cubins, PTX and fat binaries.

    Parameters
    ----------
    codes : sequence of (str, ObjectCode)
        The names of the files, and their code.
    as_json : bool
        Whether the list is JSON instead of text.

    Raises
    ------
    ValueError
        If code has another type, or is damaged.
    """
    listing: list[dict[str, Any]] = []
    lines: list[str] = []
    for file, code in (part for named in codes for part in _parts(*named)):
        if code.code_type == "ltoir":
            lines.append(f"{file}, LTO-IR: its kernels are known when it is linked")
            continue
        try:
            contents = code._contents()
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None
        if not contents.arch:
            raise ValueError(f"{file}: this is not PTX: it has no .target directive")
        lines.append(f"{file}, {code.code_type} for {contents.arch}:")
        by_symbol = {symbol: expression for expression, symbol in code.symbol_mapping.items()}
        for kernel in contents.kernels:
            lines += _text(kernel)
            about = {"file": file, "arch": contents.arch, "code_type": code.code_type}
            listing.append(about | _facts(kernel) | {"name_expression": by_symbol.get(kernel.symbol)})
    return json.dumps(listing, indent=2) + "\n" if as_json else "".join(f"{line}\n" for line in lines)


def _parts(file: str, code: ObjectCode) -> Iterator[tuple[str, ObjectCode]]:
    """Return the code itself, or the images in a fat binary."""
    if code.code_type != "fatbin":
        yield file, code
        return
    found = [entry for entry in entries(code._read()) if entry.code_type != "other"]
    if not found:
        raise ValueError(f"{file}: the fat binary has no code, or is damaged")
    for entry in found:
        image = entry.packed if entry.code_type == "ltoir" else entry.unpack()
        if image is None:
            raise ValueError(f"{file}: the {entry.code_type} for {entry.arch}{entry.variant} cannot be decompressed")
        yield file, ObjectCode._init(image, entry.code_type, name=file, symbol_mapping=code.symbol_mapping)


def _facts(kernel: KernelInfo) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "symbol": kernel.symbol,
        "registers": kernel.registers,
        "shared_bytes": kernel.shared_bytes,
        "local_bytes": kernel.local_bytes,
        "max_threads": kernel.max_threads,
        "parameters": [{"offset": p.offset, "size": p.size, "kind": p.kind.value} for p in kernel.parameters],
    }


def _text(kernel: KernelInfo) -> list[str]:
    lines = [f"  {kernel.name}"]
    if kernel.symbol != kernel.name:
        lines.append(f"    symbol: {kernel.symbol}")
    texts = {
        "{} registers": kernel.registers,
        "{} bytes shared": kernel.shared_bytes,
        "{} bytes local": kernel.local_bytes,
        "at most {} threads a block": kernel.max_threads,
    }
    uses = [text.format(number) for text, number in texts.items() if number is not None]
    if uses:
        lines.append(f"    uses: {', '.join(uses)}")
    for index, parameter in enumerate(kernel.parameters):
        size = f"{parameter.size} byte{'s' if parameter.size != 1 else ''} at {parameter.offset}"
        lines.append(f"    parameter {index}: {parameter.kind}, {size}")
    return lines
