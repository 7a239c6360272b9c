# SPDX-License-Identifier: Apache-2.0
"""Devices of NVML."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cudacore.system._clocks import EVENT_REASONS, ClockInfo
from cudacore.system._cooling import CoolerInfo, FanInfo, Temperature
from cudacore.system._events import EVENT_TYPES, DeviceEvents
from cudacore.system._links import MigInfo, NvlinkInfo, PciInfo
from cudacore.system._nvml import Handle, Numbers, as_name, as_names, as_number, bindings, call, pair_of_int, set_bits
from cudacore.system._values import (
    BAR1MemoryInfo,
    DeviceAttributes,
    FieldValues,
    GpuDynamicPstatesInfo,
    InforomInfo,
    MemoryInfo,
    ProcessInfo,
    RepairStatus,
    Utilization,
    make_fields,
)
from cudacore.system.exceptions import NotFoundError
from cudacore.system.typing import (
    AddressingMode,
    AffinityScope,
    ClocksEventReasons,
    ClockType,
    DeviceArch,
    EventType,
    GpuP2PCapsIndex,
    GpuP2PStatus,
    GpuTopologyLevel,
)
from cudacore_handles._sdk import check_type

if TYPE_CHECKING:
    import cudacore

_BRANDS = (
    *("Unknown", "Quadro", "Tesla", "NVS", "GRID", "GeForce", "Titan", "NVIDIA vApps", "NVIDIA VPC", "NVIDIA VCS"),
    *("NVIDIA VWS", "NVIDIA vGaming", "Quadro RTX", "NVIDIA RTX", "NVIDIA", "GeForce RTX", "Titan RTX"),
)
_ADDRESSING_MODES = {1: AddressingMode.HMM, 2: AddressingMode.ATS}
_SCOPES: Numbers[AffinityScope] = Numbers(AffinityScope)
_LEVELS: Numbers[GpuTopologyLevel] = Numbers(GpuTopologyLevel)
_P2P_CAPS: Numbers[GpuP2PCapsIndex] = Numbers(GpuP2PCapsIndex)
_P2P_STATUS: Numbers[GpuP2PStatus] = Numbers(GpuP2PStatus)
_FIELD_NVLINK_COUNT = "DEV_NVLINK_LINK_COUNT"
_UNKNOWN_PSTATE = 32
_WORD = 64  # bits of an unsigned long


class Device:
    """A device of NVML. Its values can be read without a context, and its settings apply to all processes.

    Objects of one device are equal. NVML lists all devices, even those that ``CUDA_VISIBLE_DEVICES`` hides, in an order
    that can differ from that of CUDA.

    Parameters
    ----------
    index : int, optional
        Number of the device, from 0. It can change when the machine restarts.
    uuid : str or bytes, optional
        UUID of the device, with ``GPU-``.
    pci_bus_id : str or bytes, optional
        PCI bus id of the device.

    Raises
    ------
    ValueError
        If not exactly one of the parameters is given.
    NvmlError
        If there is no such device.
    """

    __slots__ = ("_handle",)
    _handle: Handle

    def __init__(
        self, *, index: int | None = None, uuid: bytes | str | None = None, pci_bus_id: bytes | str | None = None
    ) -> None:
        if (index is None) + (uuid is None) + (pci_bus_id is None) != 2:
            raise ValueError("Device needs exactly one of index, uuid and pci_bus_id")
        if index is not None:
            try:  # isinstance(index, SupportsIndex) takes longer than NVML
                index = operator.index(index)
            except TypeError:
                raise TypeError(f"index must be an int, not {type(index).__name__}") from None
            if index < 0:
                raise ValueError(f"index must be at least 0, not {index}")
            handle = int(call("device_get_handle_by_index_v2", index))
        elif uuid is not None:
            handle = int(call("device_get_handle_by_uuid", _text(uuid, "uuid")))
        else:
            handle = int(call("device_get_handle_by_pci_bus_id_v2", _text(pci_bus_id, "pci_bus_id")))
        self._handle = Handle(handle)

    @classmethod
    def _from_handle(cls, handle: int) -> Device:
        device = cls.__new__(cls)
        device._handle = Handle(handle)
        return device

    def __repr__(self) -> str:
        return f"<system.Device {self.uuid} ({self.name})>"

    def __eq__(self, other: object) -> bool:
        return self._handle == other._handle if isinstance(other, Device) else NotImplemented

    def __hash__(self) -> int:
        return hash((Device, self._handle))

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_uuid, (self.uuid,)

    @classmethod
    def _of_cuda_uuid(cls, uuid: str) -> Device:
        """Return the device with a UUID from the CUDA driver, which has no prefix such as ``GPU-``."""
        try:
            return cls(uuid=f"GPU-{uuid}")
        except NotFoundError:
            return cls(uuid=f"MIG-{uuid}")

    @classmethod
    def get_device_count(cls) -> int:
        """Return the number of devices (nvmlDeviceGetCount_v2)."""
        return int(call("device_get_count_v2"))

    @classmethod
    def get_all_devices(cls) -> Iterator[Device]:
        """Return all devices, by index."""
        for index in range(cls.get_device_count()):
            yield cls(index=index)

    @classmethod
    def get_all_devices_with_cpu_affinity(cls, cpu_index: int) -> Iterator[Device]:
        """Return the devices that a CPU is near to (nvmlSystemGetTopologyGpuSet).

        Parameters
        ----------
        cpu_index : int
            Number of the CPU.
        """
        for handle in call("system_get_topology_gpu_set", cpu_index):
            yield cls._from_handle(int(handle))

    def to_cuda_device(self) -> cudacore.Device:
        """Return the device of the CUDA driver that has the same UUID.

        Raises
        ------
        RuntimeError
            If CUDA does not have the device: ``CUDA_VISIBLE_DEVICES`` hides it, or it is partitioned by MIG.
        """
        import cudacore

        uuid = self.uuid_without_prefix
        for device in cudacore.Device.get_all_devices():
            if device.uuid == uuid:
                return device
        raise RuntimeError(
            f"CUDA has no device {self.uuid}: CUDA_VISIBLE_DEVICES can hide it, and a device that is partitioned "
            "by MIG cannot be used as a whole"
        )

    # ---- identity

    @property
    def index(self) -> int:
        """int: the index of the device among all devices of NVML (nvmlDeviceGetIndex)."""
        return int(call("device_get_index", self._handle))

    @property
    def uuid(self) -> str:
        """str: the UUID, ``GPU-`` and five groups of digits; ``MIG-`` for a MIG device (nvmlDeviceGetUUID)."""
        return self._handle.uuid

    @property
    def uuid_without_prefix(self) -> str:
        """str: the UUID without ``GPU-`` or ``MIG-``, as in :attr:`cudacore.Device.uuid`."""
        return self.uuid.partition("-")[2]

    @property
    def pci_bus_id(self) -> str:
        """str: the PCI bus id, such as ``"00000000:01:00.0"``."""
        return self.pci_info.bus_id

    @property
    def name(self) -> str:
        """str: the name of the product (nvmlDeviceGetName)."""
        return str(call("device_get_name", self._handle))

    @property
    def brand(self) -> str:
        """str: the brand of the product (nvmlDeviceGetBrand)."""
        number = int(call("device_get_brand", self._handle))
        return _BRANDS[number] if number < len(_BRANDS) else _BRANDS[0]

    @property
    def arch(self) -> DeviceArch:
        """DeviceArch: the architecture (nvmlDeviceGetArchitecture)."""
        number = int(call("device_get_architecture", self._handle))
        return DeviceArch(number) if number in DeviceArch.__members__.values() else DeviceArch.UNKNOWN

    @property
    def cuda_compute_capability(self) -> tuple[int, int]:
        """tuple of int: the compute capability, major and minor (nvmlDeviceGetCudaComputeCapability)."""
        return pair_of_int(call("device_get_cuda_compute_capability", self._handle))

    @property
    def serial(self) -> str:
        """str: the serial number of the board (nvmlDeviceGetSerial)."""
        return str(call("device_get_serial", self._handle))

    @property
    def module_id(self) -> int:
        """int: the number of the module on the baseboard; 0 if there is none (nvmlDeviceGetModuleId)."""
        return int(call("device_get_module_id", self._handle))

    @property
    def minor_number(self) -> int:
        """int: N of its device file ``/dev/nvidiaN`` (nvmlDeviceGetMinorNumber)."""
        return int(call("device_get_minor_number", self._handle))

    @property
    def numa_node_id(self) -> int:
        """int: its NUMA node, on machines whose GPUs are NUMA nodes (nvmlDeviceGetNumaNodeId)."""
        return int(call("device_get_numa_node_id", self._handle))

    @property
    def attributes(self) -> DeviceAttributes:
        """DeviceAttributes: the engines of a MIG device (nvmlDeviceGetAttributes_v2)."""
        found = call("device_get_attributes_v2", self._handle)
        return DeviceAttributes(**{name: int(getattr(found, name)) for name in DeviceAttributes.__slots__})

    @property
    def inforom(self) -> InforomInfo:
        """InforomInfo: the contents of the device's InfoROM."""
        return InforomInfo(self)

    # ---- connections

    @property
    def pci_info(self) -> PciInfo:
        """PciInfo: the device on the PCI bus. For MIG devices, an NvmlError is raised."""
        return PciInfo(self._handle)

    def get_nvlink_count(self) -> int:
        """Return the number of NVLinks (nvmlDeviceGetFieldValues)."""
        return int(self.get_field_values([getattr(bindings().FieldId, _FIELD_NVLINK_COUNT)])[0].value)

    def get_nvlink(self, link: int) -> NvlinkInfo:
        """Return an NVLink.

        Parameters
        ----------
        link : int
            Number of the link, from 0.

        Raises
        ------
        ValueError
            If the device does not have this link.
        """
        count = self.get_nvlink_count()
        if not 0 <= link < count:
            raise ValueError(f"link must be from 0 to {count - 1}, not {link}" if count else "the device has no NVLink")
        return NvlinkInfo(self, link)

    def get_nvlinks(self) -> Iterator[NvlinkInfo]:
        """Return all NVLinks."""
        for link in range(self.get_nvlink_count()):
            yield NvlinkInfo(self, link)

    @property
    def is_c2c_enabled(self) -> bool:
        """bool: whether the device is connected to the CPU by NVLink-C2C (nvmlDeviceGetC2cModeInfoV)."""
        return bool(call("device_get_c2c_mode_info_v", self._handle).is_c2c_enabled)

    @property
    def addressing_mode(self) -> AddressingMode | None:
        """AddressingMode or None: how the device shares addresses with the host (nvmlDeviceGetAddressingMode).

        None if the device does not share addresses.
        """
        return _ADDRESSING_MODES.get(int(call("device_get_addressing_mode", self._handle).value))

    @property
    def mig(self) -> MigInfo:
        """MigInfo: how the device is partitioned."""
        return MigInfo(self)

    def get_topology_nearest_gpus(self, level: GpuTopologyLevel | str) -> Iterator[Device]:
        """Return the devices whose distance is of a given level (nvmlDeviceGetTopologyNearestGpus).

        Parameters
        ----------
        level : GpuTopologyLevel or str
            The level.
        """
        number = as_number(level, _LEVELS, "level")
        return map(self._from_handle, map(int, call("device_get_topology_nearest_gpus", self._handle, number)))

    def get_memory_affinity(self, scope: AffinityScope | str = AffinityScope.NODE) -> list[int]:
        """Return the NUMA nodes whose memory is nearest (nvmlDeviceGetMemoryAffinity).

        Parameters
        ----------
        scope : AffinityScope or str, optional
            Nearest by node, the default, or by socket.
        """
        number = as_number(scope, _SCOPES, "scope")
        return set_bits(call("device_get_memory_affinity", self._handle, _cpu_words(), number), _WORD)

    def get_cpu_affinity(self, scope: AffinityScope | str = AffinityScope.NODE) -> list[int]:
        """Return the CPUs that are nearest (nvmlDeviceGetCpuAffinityWithinScope).

        Parameters
        ----------
        scope : AffinityScope or str, optional
            Nearest by node, the default, or by socket.
        """
        number = as_number(scope, _SCOPES, "scope")
        return set_bits(call("device_get_cpu_affinity_within_scope", self._handle, _cpu_words(), number), _WORD)

    def set_cpu_affinity(self) -> None:
        """Make the calling thread run on the CPUs that are nearest (nvmlDeviceSetCpuAffinity)."""
        call("device_set_cpu_affinity", self._handle)

    def clear_cpu_affinity(self) -> None:
        """Make the calling thread run on any CPU (nvmlDeviceClearCpuAffinity)."""
        call("device_clear_cpu_affinity", self._handle)

    # ---- state

    @property
    def memory_info(self) -> MemoryInfo:
        """MemoryInfo: the device's memory at this moment, in bytes (nvmlDeviceGetMemoryInfo_v2)."""
        found = call("device_get_memory_info_v2", self._handle)
        return MemoryInfo(int(found.free), int(found.total), int(found.used), int(found.reserved))

    @property
    def bar1_memory_info(self) -> BAR1MemoryInfo:
        """BAR1MemoryInfo: the device memory that the host can address, in bytes (nvmlDeviceGetBAR1MemoryInfo)."""
        found = call("device_get_bar1_memory_info", self._handle)
        return BAR1MemoryInfo(int(found.bar1_free), int(found.bar1_total), int(found.bar1_used))

    @property
    def utilization(self) -> Utilization:
        """Utilization: how busy the device was, in percent (nvmlDeviceGetUtilizationRates)."""
        found = call("device_get_utilization_rates", self._handle)
        return Utilization(int(found.gpu), int(found.memory))

    @property
    def compute_running_processes(self) -> list[ProcessInfo]:
        """List of ProcessInfo: the compute processes on the device (nvmlDeviceGetComputeRunningProcesses_v3)."""
        found = call("device_get_compute_running_processes_v3", self._handle)
        return [ProcessInfo(found[i]) for i in range(len(found))]

    @property
    def performance_state(self) -> int | None:
        """int or None: from 0, the fastest state, to 15; None if unknown (nvmlDeviceGetPerformanceState)."""
        state = int(call("device_get_performance_state", self._handle))
        return state if state != _UNKNOWN_PSTATE else None

    @property
    def supported_pstates(self) -> list[int]:
        """List of int: the performance states that the device supports (nvmlDeviceGetSupportedPerformanceStates)."""
        found = call("device_get_supported_performance_states", self._handle)
        return [int(state) for state in found if int(state) != _UNKNOWN_PSTATE]

    @property
    def dynamic_pstates_info(self) -> GpuDynamicPstatesInfo:
        """GpuDynamicPstatesInfo: how busy the parts of the device are (nvmlDeviceGetDynamicPstatesInfo)."""
        return GpuDynamicPstatesInfo(self._handle)

    def get_clock(self, clock_type: ClockType | str) -> ClockInfo:
        """Return a clock.

        Parameters
        ----------
        clock_type : ClockType or str
            Which clock.
        """
        return ClockInfo(self._handle, clock_type)

    @property
    def is_auto_boosted_clocks_enabled(self) -> tuple[bool, bool]:
        """Tuple of bool: whether clocks are boosted, now and by default (nvmlDeviceGetAutoBoostedClocksEnabled)."""
        now, by_default = call("device_get_auto_boosted_clocks_enabled", self._handle)
        return bool(now), bool(by_default)

    @property
    def current_clock_event_reasons(self) -> list[ClocksEventReasons]:
        """List of ClocksEventReasons: why clocks are lowered now (nvmlDeviceGetCurrentClocksEventReasons)."""
        return as_names(int(call("device_get_current_clocks_event_reasons", self._handle)), EVENT_REASONS)

    @property
    def supported_clock_event_reasons(self) -> list[ClocksEventReasons]:
        """List of ClocksEventReasons: the supported reasons (nvmlDeviceGetSupportedClocksEventReasons)."""
        return as_names(int(call("device_get_supported_clocks_event_reasons", self._handle)), EVENT_REASONS)

    @property
    def temperature(self) -> Temperature:
        """Temperature: the temperatures of the device, in degrees Celsius."""
        return Temperature(self._handle)

    @property
    def cooler(self) -> CoolerInfo:
        """CoolerInfo: the cooler of the device (nvmlDeviceGetCoolerInfo)."""
        return CoolerInfo(self._handle)

    @property
    def num_fans(self) -> int:
        """int: the number of fans (nvmlDeviceGetNumFans)."""
        return int(call("device_get_num_fans", self._handle))

    def get_fan(self, fan: int = 0) -> FanInfo:
        """Return a fan.

        Parameters
        ----------
        fan : int, optional
            Number of the fan. Default: 0.
        """
        return FanInfo(self._handle, fan)

    @property
    def repair_status(self) -> RepairStatus:
        """RepairStatus: whether repairs wait for a reset (nvmlDeviceGetRepairStatus)."""
        found = call("device_get_repair_status", self._handle)
        return RepairStatus(bool(found.b_channel_repair_pending), bool(found.b_tpc_repair_pending))

    @property
    def is_display_connected(self) -> bool:
        """bool: whether a display is connected (nvmlDeviceGetDisplayMode)."""
        return bool(call("device_get_display_mode", self._handle))

    @property
    def is_display_active(self) -> bool:
        """bool: whether a display is in use, even without a monitor (nvmlDeviceGetDisplayActive)."""
        return bool(call("device_get_display_active", self._handle))

    @property
    def is_persistence_mode_enabled(self) -> bool:
        """bool: whether the driver stays loaded without clients (nvmlDeviceGetPersistenceMode).

        Setting it needs root (nvmlDeviceSetPersistenceMode).
        """
        return bool(call("device_get_persistence_mode", self._handle))

    @is_persistence_mode_enabled.setter
    def is_persistence_mode_enabled(self, enabled: bool) -> None:
        call("device_set_persistence_mode", self._handle, int(bool(enabled)))

    def get_field_values(self, field_ids: Sequence[int | tuple[int, int]]) -> FieldValues:
        """Return the values of several fields (nvmlDeviceGetFieldValues).

        If a field cannot be read, reading its value raises the error.

        Parameters
        ----------
        field_ids : sequence of int or of pairs
            The fields; in a pair, the second number is the scope, such as a link.
        """
        if not field_ids:
            return FieldValues(())
        fields = make_fields(field_ids)
        call("device_get_field_values", self._handle, fields)
        return FieldValues(fields)

    def clear_field_values(self, field_ids: Sequence[int | tuple[int, int]]) -> None:
        """Reset counter fields to zero (nvmlDeviceClearFieldValues).

        Parameters
        ----------
        field_ids : sequence of int or of pairs
            As for :meth:`get_field_values`.
        """
        if field_ids:
            call("device_clear_field_values", self._handle, make_fields(field_ids))

    def register_events(self, events: EventType | str | Sequence[EventType | str]) -> DeviceEvents:
        """Begin to record events of the device (nvmlDeviceRegisterEvents). Earlier events are not recorded.

        Parameters
        ----------
        events : EventType, str, or sequence of them
            Which events.

        Returns
        -------
        DeviceEvents
            The object whose method :meth:`~DeviceEvents.wait` returns the events.

        Raises
        ------
        NotSupportedError
            If none of the events can be recorded.
        """
        return DeviceEvents(self._handle, events)

    def get_supported_event_types(self) -> list[EventType]:
        """Return the events that the device supports (nvmlDeviceGetSupportedEventTypes)."""
        return as_names(int(call("device_get_supported_event_types", self._handle)), EVENT_TYPES)


def get_topology_common_ancestor(device1: Device, device2: Device) -> GpuTopologyLevel:
    """Return how far apart two devices are (nvmlDeviceGetTopologyCommonAncestor).

    Parameters
    ----------
    device1, device2 : Device
        The devices.
    """
    check_type("device1", device1, Device)
    check_type("device2", device2, Device)
    number = int(call("device_get_topology_common_ancestor", device1._handle, device2._handle))
    return as_name(number, _LEVELS, GpuTopologyLevel.SYSTEM)


def get_p2p_status(device1: Device, device2: Device, index: GpuP2PCapsIndex | str) -> GpuP2PStatus:
    """Return whether two devices have a peer-to-peer capability, or the reason why not (nvmlDeviceGetP2PStatus).

    Parameters
    ----------
    device1, device2 : Device
        The devices.
    index : GpuP2PCapsIndex or str
        The capability.
    """
    check_type("device1", device1, Device)
    check_type("device2", device2, Device)
    number = as_number(index, _P2P_CAPS, "index")
    status = int(call("device_get_p2p_status", device1._handle, device2._handle, number))
    return as_name(status, _P2P_STATUS, GpuP2PStatus.UNKNOWN)


def _by_uuid(uuid: str) -> Device:
    return Device(uuid=uuid)


def _text(name: object, what: str) -> str:
    if not isinstance(name, bytes | str):
        raise TypeError(f"{what} must be a str or bytes, not {type(name).__name__}")
    return name.decode() if isinstance(name, bytes) else name


def _cpu_words() -> int:
    """Return the number of words in a bit mask of all CPUs."""
    return ((os.cpu_count() or 1) + _WORD - 1) // _WORD
