# SPDX-License-Identifier: Apache-2.0
"""PCI, NVLink and MIG: how a device is connected and partitioned."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cudacore.system._nvml import Handle, bindings, call
from cudacore.system.exceptions import NotFoundError

if TYPE_CHECKING:
    from cudacore.system._device import Device

_TX, _RX = 0, 1
_NVLINK_VERSIONS = {1: (1, 0), 2: (2, 0), 3: (2, 2), 4: (3, 0), 5: (3, 1), 6: (4, 0), 7: (5, 0), 8: (6, 0)}


class PciInfo:
    """A device on the PCI bus (nvmlDeviceGetPciInfoExt)."""

    __slots__ = (
        *("_handle", "base_class", "bus", "bus_id", "device", "device_id", "domain", "sub_class", "subsystem_id"),
        "vendor_id",
    )
    bus: int
    """int: the bus, from 0 to 255."""
    bus_id: str
    """str: domain, bus, device and function: ``"00000000:01:00.0"``."""
    device: int
    """int: the number of the device on the bus, from 0 to 31."""
    domain: int
    """int: the domain of the bus."""
    vendor_id: int
    """int: the vendor, 0x10DE for NVIDIA."""
    device_id: int
    """int: the vendor's number of the product."""
    subsystem_id: int
    """int: the subsystem."""
    base_class: int
    """int: the class of the device, 3 for a display controller."""
    sub_class: int
    """int: the subclass of the device."""

    def __init__(self, handle: Handle) -> None:
        found = call("device_get_pci_info_ext", handle)
        self._handle = handle
        self.bus = int(found.bus)
        self.bus_id = str(found.bus_id)
        self.device = int(found.device_)
        self.domain = int(found.domain)
        self.vendor_id = int(found.pci_device_id) & 0xFFFF
        self.device_id = int(found.pci_device_id) >> 16
        self.subsystem_id = int(found.pci_sub_system_id)
        self.base_class = int(found.base_class)
        self.sub_class = int(found.sub_class)

    def __repr__(self) -> str:
        return f"<PciInfo {self.bus_id}>"

    @property
    def link_generation(self) -> int:
        """int: the newest PCIe generation that both device and system support (nvmlDeviceGetMaxPcieLinkGeneration)."""
        return int(call("device_get_max_pcie_link_generation", self._handle))

    @property
    def max_link_generation(self) -> int:
        """int: the newest PCIe generation of the device (nvmlDeviceGetGpuMaxPcieLinkGeneration)."""
        return int(call("device_get_gpu_max_pcie_link_generation", self._handle))

    @property
    def max_link_width(self) -> int:
        """int: the maximum number of lanes that device and system support (nvmlDeviceGetMaxPcieLinkWidth)."""
        return int(call("device_get_max_pcie_link_width", self._handle))

    @property
    def current_link_generation(self) -> int:
        """int: the PCIe generation in use (nvmlDeviceGetCurrPcieLinkGeneration)."""
        return int(call("device_get_curr_pcie_link_generation", self._handle))

    @property
    def current_link_width(self) -> int:
        """int: the number of lanes in use (nvmlDeviceGetCurrPcieLinkWidth)."""
        return int(call("device_get_curr_pcie_link_width", self._handle))

    @property
    def rx_throughput(self) -> int:
        """int: KB/s received in the last 20 ms (nvmlDeviceGetPcieThroughput)."""
        return int(call("device_get_pcie_throughput", self._handle, _RX))

    @property
    def tx_throughput(self) -> int:
        """int: KB/s sent in the last 20 ms (nvmlDeviceGetPcieThroughput)."""
        return int(call("device_get_pcie_throughput", self._handle, _TX))

    @property
    def replay_counter(self) -> int:
        """int: how often PCIe packets were sent again (nvmlDeviceGetPcieReplayCounter)."""
        return int(call("device_get_pcie_replay_counter", self._handle))


class _NvlinkInfoMeta(type):
    @property
    def max_links(cls) -> int:
        """int: the maximum number of links in NVML. Deprecated: use :meth:`Device.get_nvlink_count`."""
        warnings.warn(
            "NvlinkInfo.max_links is deprecated: use Device.get_nvlink_count()", DeprecationWarning, stacklevel=2
        )
        return int(bindings().NVLINK_MAX_LINKS)


class NvlinkInfo(metaclass=_NvlinkInfoMeta):
    """An NVLink of a device: ``device.get_nvlink(0)``."""

    __slots__ = ("_handle", "_link")

    def __init__(self, device: Device, link: int) -> None:
        self._handle = device._handle
        self._link = link

    def __repr__(self) -> str:
        return f"<NvlinkInfo {self._link}>"

    @property
    def version(self) -> tuple[int, int]:
        """tuple of int: the version of the link, major and minor (nvmlDeviceGetNvLinkVersion)."""
        number = int(call("device_get_nvlink_version", self._handle, self._link))
        if number not in _NVLINK_VERSIONS:
            raise RuntimeError(f"NVML reports an unknown NVLink version, {number}, for link {self._link}")
        return _NVLINK_VERSIONS[number]

    @property
    def state(self) -> bool:
        """bool: whether the link is active (nvmlDeviceGetNvLinkState)."""
        return bool(call("device_get_nvlink_state", self._handle, self._link))


class MigInfo:
    """How a device is partitioned into MIG devices (Multi-Instance GPU)."""

    __slots__ = ("_device",)

    def __init__(self, device: Device) -> None:
        self._device = device

    def __repr__(self) -> str:
        return f"<MigInfo of {self._device!r}>"

    @property
    def is_mig_device(self) -> bool:
        """bool: whether the device is itself a MIG device (nvmlDeviceIsMigDeviceHandle)."""
        return bool(call("device_is_mig_device_handle", self._device._handle))

    @property
    def mode(self) -> bool:
        """bool: whether MIG is enabled (nvmlDeviceGetMigMode).

        Setting it needs root, and can reset the device (nvmlDeviceSetMigMode): look the device up again.
        """
        current, _ = call("device_get_mig_mode", self._device._handle)
        return bool(current)

    @mode.setter
    def mode(self, mode: bool) -> None:
        call("device_set_mig_mode", self._device._handle, int(bool(mode)))

    @property
    def pending_mode(self) -> bool:
        """bool: whether MIG is enabled after the next reset (nvmlDeviceGetMigMode)."""
        _, pending = call("device_get_mig_mode", self._device._handle)
        return bool(pending)

    @property
    def device_count(self) -> int:
        """int: the maximum number of MIG devices (nvmlDeviceGetMaxMigDeviceCount)."""
        return int(call("device_get_max_mig_device_count", self._device._handle))

    @property
    def parent(self) -> Device:
        """Device: the device that a MIG device is a part of (nvmlDeviceGetDeviceHandleFromMigDeviceHandle)."""
        cls = type(self._device)
        return cls._from_handle(int(call("device_get_device_handle_from_mig_device_handle", self._device._handle)))

    def get_device_by_index(self, index: int) -> Device:
        """Return a MIG device of this device (nvmlDeviceGetMigDeviceHandleByIndex).

        Parameters
        ----------
        index : int
            From 0 to :attr:`device_count` - 1.
        """
        handle = call("device_get_mig_device_handle_by_index", self._device._handle, index)
        return type(self._device)._from_handle(int(handle))

    def get_all_devices(self) -> Iterator[Device]:
        """Return the MIG devices of this device."""
        for index in range(self.device_count):
            try:
                yield self.get_device_by_index(index)
            except NotFoundError:  # there are fewer MIG devices than the maximum
                continue
