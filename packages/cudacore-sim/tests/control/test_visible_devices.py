# SPDX-License-Identifier: Apache-2.0
"""CUDA_VISIBLE_DEVICES determines which devices exist, and their order."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

NO_DEVICE = "100"
INVALID_DEVICE = "101"
UUID = "GPU-63756461-636f-7265-2d73-696d0000000"
ASK = """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = {value!r}
code, count, found = cu.cuInit(0), c_int(), []
cu.cuDeviceGetCount(byref(count))
for device in range(count.value):
    uuid, bus, again = create_string_buffer(16), create_string_buffer(16), c_int()
    assert cu.cuDeviceGetUuid_v2(uuid, device) == cu.cuDeviceGetPCIBusId(bus, 16, device) == 0
    assert cu.cuDeviceGetByPCIBusId(byref(again), bus) == 0 and again.value == device
    assert int(bus.value[5:7], 16) == uuid.raw[15] + 1
    found.append(uuid.raw[15])
print(code, *found)
"""


@pytest.mark.parametrize(
    ("value", "devices"),
    [
        ("0,1,2", "0 0 1 2"),
        ("2, 0", "0 2 0"),
        ("1", "0 1"),
        ("1,7,0", "0 1"),
        ("0,-1,1", "0 0"),
        ("1,x", "0 1"),
        (f"{UUID}2,{UUID}0", "0 2 0"),
        (f"{UUID}1,0", "0 1"),
        (f"1,{UUID}0", "0 1"),
        ("", NO_DEVICE),
        ("-1", NO_DEVICE),
        ("3", NO_DEVICE),
        ("1,1", INVALID_DEVICE),
        ("GPU-63756461", NO_DEVICE),
        ("GPU-0", NO_DEVICE),
        ("MIG-1", NO_DEVICE),
    ],
)
def test_visible_devices(run_python: Callable[..., subprocess.CompletedProcess[str]], value: str, devices: str) -> None:
    """A process would use hidden devices, or devices that its parent did not intend."""
    child = run_python(ASK.format(value=value), DEVICES=3)
    assert (child.stdout.strip(), child.stderr) == (devices, "")
