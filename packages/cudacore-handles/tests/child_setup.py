# SPDX-License-Identifier: Apache-2.0
"""The first steps of child programs that count live objects at their beginning and end."""

from __future__ import annotations

import gc

import cudacore_handles as ch

device = ch.Device(0)
device.set_current()
_ = device.memory_resource
one_block = ch.LaunchConfig(grid=1, block=1)


def counts() -> dict[str, int]:
    gc.collect()
    device.sync()  # a safe point
    return ch.live_counts()
