# SPDX-License-Identifier: Apache-2.0
"""The examples of the guide about green contexts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "green-contexts.rst"

BEFORE = """
import cudacore as core

device = core.Device()
device.set_current()
kernel = core.ObjectCode.from_ptx(b'''
.version 7.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 p) { ret; }
''').get_kernel("k")
buffer = device.allocate(64, stream=device.default_stream)
"""

AFTER = """
assert stream.resources.sm.sm_count == 16
assert [quarter.sm_count for quarter in quarters] == [32, 32]
assert context.resources.sm.sm_count == 16
assert context.resources.workqueue.concurrency_limit == 4
assert not device.context.is_green
"""


@pytest.mark.cuda_sim
def test_guide() -> None:
    """What the guide shows would not work, with a driver that has all of it."""
    text = GUIDE.read_text(encoding="utf-8")
    examples = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    assert len(examples) == 4
    code = "\n".join([BEFORE, *map(textwrap.dedent, examples), AFTER])
    environment = os.environ | {"CUDACORE_SIM_DRIVER_VERSION": "13.1", "CUDACORE_DRIVER": "sim"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=240)
    assert (result.returncode, result.stderr) == (0, "")
