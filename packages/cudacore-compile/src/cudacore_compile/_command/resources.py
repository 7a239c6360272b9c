# SPDX-License-Identifier: Apache-2.0
"""The assembler's information about each kernel: registers, memory and spills."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from cudacore_handles._sdk.compile import demangle

_ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '(?P<symbol>[^']+)' for '(?P<arch>\w+)'")
_PROPERTIES = re.compile(r"ptxas info\s*: Function properties for '?(?P<symbol>[^\s']+)'?")
_FRAME = re.compile(
    r"(?:ptxas)?[\s.]*(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"ptxas info\s*: Used (?P<registers>\d+) registers(?P<rest>.*)")
_SHARED, _CONSTANT = re.compile(r"(\d+)(?:\+\d+)? bytes smem"), re.compile(r"(\d+) bytes cmem\[\d+\]")
# Lines that are reported for each function or module, and are not useful in a table of kernels.
_NOISE = re.compile(
    r"ptxas info\s*: (?:\d+ bytes gmem|Compile time = |Function properties for )"
    r"|Remark: The warnings can be suppressed|INFO: \w+ LTOIR Container created"
)


@dataclass(frozen=True)
class Resources:
    """The resources that a kernel uses.

    Parameters
    ----------
    kernel, symbol : str
        The C++ name and the lowered name.
    arch : str
        The architecture, such as ``"sm_90"``.
    registers : int
        Registers per thread.
    stack_bytes, spill_store_bytes, spill_load_bytes : int
        Bytes per thread: the stack, and registers that are spilled to it and loaded again.
    shared_bytes, constant_bytes : int
        Static shared memory of a block, and constant memory, including the parameters, in bytes.
    """

    kernel: str
    symbol: str
    arch: str
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    constant_bytes: int


def parse_resources(lines: Iterable[str]) -> tuple[list[Resources], list[str]]:
    """Return the information about kernels in the assembler's log, and the remaining lines."""
    found: list[Resources] = []
    rest: list[str] = []
    frames: dict[str, tuple[int, int, int]] = {}
    symbol = function = arch = ""
    for line in lines:
        if match := _ENTRY.match(line):
            symbol, arch = match["symbol"], match["arch"]
        elif match := _PROPERTIES.match(line):
            function = match["symbol"]
        elif function and (match := _FRAME.fullmatch(line.rstrip())):
            frames[function] = int(match["stack"]), int(match["stores"]), int(match["loads"])
            function = ""
        elif symbol and (match := _USED.match(line)):
            shared, constants = _SHARED.search(match["rest"]), _CONSTANT.findall(match["rest"])
            found.append(
                Resources(
                    demangle(symbol),
                    symbol,
                    arch,
                    int(match["registers"]),
                    *frames.get(symbol, (0, 0, 0)),
                    int(shared[1]) if shared else 0,
                    sum(map(int, constants)),
                )
            )
            symbol = ""
        elif line.strip() and not _NOISE.match(line):
            rest.append(line)
    return found, rest


_HEADINGS = {
    "kernel": "kernel",
    "arch": "arch",
    "registers": "registers",
    "stack_bytes": "stack",
    "spill_store_bytes": "spill stores",
    "spill_load_bytes": "spill loads",
    "shared_bytes": "shared",
    "constant_bytes": "constant",
}


def table(resources: Sequence[Resources]) -> str:
    """Return a table, with bytes and registers in columns."""
    rows = [list(_HEADINGS.values())] + [[str(getattr(one, field)) for field in _HEADINGS] for one in resources]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    form = "{{:<{}}}  {{:<{}}}" + "  {{:>{}}}" * (len(widths) - 2)  # the first two columns are text
    form = form.format(*widths)
    return "\n".join(form.format(*row).rstrip() for row in rows)


def sentence(one: Resources) -> str:
    """Return the same information as one line."""
    return (
        "{kernel} for {arch}: {registers} registers, {stack_bytes} bytes stack, "
        "{spill_store_bytes} bytes spill stores, {spill_load_bytes} bytes spill loads, {shared_bytes} bytes shared"
    ).format(**asdict(one))
