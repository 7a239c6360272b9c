# SPDX-License-Identifier: Apache-2.0
"""The inline PTX of CUDA's headers: what the assembler accepts for a target, the simulator translates.

With SWEEP_ALL_HEADERS=1, as in the weekly workflow, all statements of all headers are tried for more targets; otherwise
a sample of those of CUDA's own headers and of cuda::ptx.
"""

from __future__ import annotations

import contextlib
import os
import re

import pytest
from harness import CompileError, Engine
from inline_ptx import statements

# What is not simulated, with the reason: docs/simulator/scope.rst lists it.
EXPLAINED = {
    r"multimem\.": "memory of several GPUs",
    r"tcgen05\..*cta_group::2": "tensor memory of two blocks",
    r"tcgen05\.mma\.(ws|sp)\b": "products that keep B, or of a sparse matrix",
    r"tcgen05\.mma\..*ashift": "a shifted matrix",
    r"tcgen05\.(shift|ld\.red)": "shifts, and loads with a reduction",
    r"tcgen05\.cp\..*(4x256b|b8x16)": "copies to four lanes, and copies that unpack numbers",
    r"cp\.async\.bulk(\.prefetch)?\.tensor.*(gather4|scatter4|cta_group::2|im2col::w)": "tensor copies of 10.0",
    r"tensormap\.replace.*swizzle_atomicity": "tensor copies of 10.0",
    r"(ld|st)matrix.*\.(m16n16|m8n16|m16n8)\b": "matrices of bytes",
    r"cvt\.rs\.": "random bits",
}
SWEEP = bool(os.environ.get("SWEEP_ALL_HEADERS"))
TARGETS = (
    ("75", "80", "86", "89", "90", "90a", "100", "100a", "103a", "110a", "120", "120a")
    if SWEEP
    else ("75", "90a", "100a")
)


def kernel(target: str, lines: str) -> str:
    return f".version 9.0\n.target sm_{target}\n.address_size 64\n.visible .entry k() {{\n{lines}\nret;\n}}\n"


def accepted(target: str, bodies: list[str]) -> list[str]:
    """Return the bodies that the assembler accepts."""
    nvjitlink = pytest.importorskip("cuda.bindings.nvjitlink")
    refused: set[int] = set()
    while True:  # after an error in the syntax, the assembler does not read on
        lines = "\n".join("" if i in refused else body for i, body in enumerate(bodies))
        text = kernel(target, lines).encode()
        linker = nvjitlink.create(1, [f"-arch=sm_{target}"])
        with contextlib.suppress(nvjitlink.nvJitLinkError):
            nvjitlink.add_data(linker, nvjitlink.InputType.PTX, text, len(text), "statements")
            nvjitlink.complete(linker)
        log = bytearray(nvjitlink.get_error_log_size(linker))
        nvjitlink.get_error_log(linker, log)
        nvjitlink.destroy(linker)
        more = {int(line) - 5 for line in re.findall(r"line (\d+);", log.decode())} - refused
        if not more:
            return [body for i, body in enumerate(bodies) if i not in refused]
        refused |= more


@pytest.mark.parametrize("target", TARGETS)
def test_headers(engine: Engine, target: str) -> None:
    """A function of CUDA's headers could not be used in a kernel."""
    nvjitlink = pytest.importorskip("cuda.bindings.nvjitlink")
    try:
        version = nvjitlink.version()
    except Exception as error:
        pytest.skip(f"needs nvJitLink: {error}")
    if version < (13, 0):
        pytest.skip(f"needs nvJitLink 13.0, which knows PTX 9.0, and this is {version}")
    bodies = [one.body() for one in statements(everywhere=SWEEP)][:: None if SWEEP else 20]
    wrong = []
    for first in range(0, len(bodies), 500):
        for body in accepted(target, bodies[first : first + 500]):
            try:
                engine.ptx(kernel(target, body))
            except CompileError as error:
                if not any(re.search(pattern, body) for pattern in EXPLAINED):
                    wrong.append((body, error.log))
    assert not wrong
