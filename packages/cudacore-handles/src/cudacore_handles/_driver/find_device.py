# SPDX-License-Identifier: Apache-2.0
"""Finds devices by identities that are valid in all processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudacore_handles._driver.device import Device


def find_device(uuid: str | None) -> Device:
    """Find a device by its UUID, because each process has its own ordinals."""
    from cudacore_handles._driver.device import Device

    if uuid is None:
        return Device()
    for device in Device.get_all_devices():
        if device.uuid == uuid:
            return device
    raise RuntimeError(
        f"device {uuid} was not found: processes can share resources only on one machine, and only of devices that "
        "CUDA_VISIBLE_DEVICES does not hide from this process"
    )
