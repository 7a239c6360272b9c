# SPDX-License-Identifier: Apache-2.0
"""The examples of the guide to arrays."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import cudacore_handles as ch

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "arrays.rst"
DOUBLE = """
extern "C" __global__ void twice(float *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] *= 2;
}
"""


def test_arrays(device: ch.Device, stream: ch.Stream, make_code: Callable[[str], ch.ObjectCode]) -> None:
    """What the guide shows would not work."""
    examples = re.findall(
        r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", GUIDE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(examples) > 5
    names = {"device": device, "stream": stream, "double": make_code(DOUBLE).get_kernel("twice")}
    for example in examples:
        exec(compile(textwrap.dedent(example), GUIDE.name, "exec"), names)
    stream.sync()
    names.clear()
