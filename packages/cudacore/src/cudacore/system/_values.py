# SPDX-License-Identifier: Apache-2.0
"""Values of a device at one moment: its memory, utilization, processes and state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cudacore.system._items import Items
from cudacore.system._nvml import Handle, Numbers, as_number, bindings, call, error_of
from cudacore.system.exceptions import NotSupportedError
from cudacore.system.typing import InforomObject

if TYPE_CHECKING:
    from cudacore.system._device import Device

_INFOROM_OBJECTS: Numbers[InforomObject] = Numbers(InforomObject)
_NO_INSTANCE = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """Memory of a device, in bytes (nvmlDeviceGetMemoryInfo_v2)."""

    free: int
    """int: bytes that can be allocated."""
    total: int
    """int: bytes in total."""
    used: int
    """int: bytes that are allocated."""
    reserved: int
    """int: bytes that the driver and the firmware keep."""


@dataclass(frozen=True, slots=True)
class BAR1MemoryInfo:
    """Memory of a device that the host can address, in bytes (nvmlDeviceGetBAR1MemoryInfo)."""

    free: int
    """int: bytes that can still be mapped."""
    total: int
    """int: bytes in total."""
    used: int
    """int: bytes that are mapped."""


@dataclass(frozen=True, slots=True)
class Utilization:
    """How busy a device was in the last sampling period, in percent (nvmlDeviceGetUtilizationRates)."""

    gpu: int
    """int: percent of the time in which a kernel ran."""
    memory: int
    """int: percent of the time in which device memory was read or written."""


@dataclass(frozen=True, slots=True)
class DeviceAttributes:
    """Engines of a MIG device (nvmlDeviceGetAttributes_v2)."""

    multiprocessor_count: int
    """int: streaming multiprocessors."""
    shared_copy_engine_count: int
    """int: shared copy engines."""
    shared_decoder_count: int
    """int: shared decoder engines."""
    shared_encoder_count: int
    """int: shared encoder engines."""
    shared_jpeg_count: int
    """int: shared JPEG engines."""
    shared_ofa_count: int
    """int: shared optical flow accelerators."""
    gpu_instance_slice_count: int
    """int: slices of the GPU instance."""
    compute_instance_slice_count: int
    """int: slices of the compute instance."""
    memory_size_mb: int
    """int: memory, in MiB."""


@dataclass(frozen=True, slots=True)
class RepairStatus:
    """Whether repairs of a device wait for a reset (nvmlDeviceGetRepairStatus)."""

    channel_repair_pending: bool
    """bool: whether a channel is to be repaired."""
    tpc_repair_pending: bool
    """bool: whether a TPC is to be repaired."""


@dataclass(frozen=True, slots=True)
class GpuDynamicPstatesUtilization:
    """How busy a part of a device is."""

    is_present: bool
    """bool: whether the device has this part."""
    percentage: int
    """int: percent of the last second in which the part was busy."""
    inc_threshold: int
    """int: percent above which the device can go to a faster performance state."""
    dec_threshold: int
    """int: percent below which the device can go to a slower performance state."""


class GpuDynamicPstatesInfo(Items[GpuDynamicPstatesUtilization]):
    """How busy the parts of a device are, a sequence (nvmlDeviceGetDynamicPstatesInfo)."""

    __slots__ = ()

    def __init__(self, handle: Handle) -> None:
        super().__init__(
            GpuDynamicPstatesUtilization(
                bool(part.b_is_present), int(part.percentage), int(part.inc_threshold), int(part.dec_threshold)
            )
            for part in call("device_get_dynamic_pstates_info", handle).utilization
        )


class ProcessInfo:
    """A process that computes on a device (nvmlDeviceGetComputeRunningProcesses_v3)."""

    __slots__ = ("_compute_instance", "_gpu_instance", "pid", "used_gpu_memory")
    pid: int
    """int: the id of the process."""
    used_gpu_memory: int
    """int: bytes of the device's memory that the process uses."""

    def __init__(self, process_info: Any) -> None:
        self.pid = int(process_info.pid)
        self.used_gpu_memory = int(process_info.used_gpu_memory)
        self._gpu_instance = int(process_info.gpu_instance_id)
        self._compute_instance = int(process_info.compute_instance_id)

    def __repr__(self) -> str:
        return f"ProcessInfo(pid={self.pid}, used_gpu_memory={self.used_gpu_memory})"

    def _instance(self, number: int) -> int:
        if number == _NO_INSTANCE:
            raise NotSupportedError(
                "ProcessInfo", 3, "NVML_ERROR_NOT_SUPPORTED", f"process {self.pid} does not run on a MIG device"
            )
        return number

    @property
    def gpu_instance_id(self) -> int:
        """int: the GPU instance of a process on a MIG device. For other processes, NotSupportedError is raised."""
        return self._instance(self._gpu_instance)

    @property
    def compute_instance_id(self) -> int:
        """int: the compute instance of a process on a MIG device. For others, NotSupportedError is raised."""
        return self._instance(self._compute_instance)


class InforomInfo:
    """The InfoROM of a device, which keeps its configuration and its counts of errors."""

    __slots__ = ("_handle",)

    def __init__(self, device: Device) -> None:
        self._handle = device._handle

    def get_version(self, inforom: InforomObject | str) -> str:
        """Return the version of an object of the InfoROM (nvmlDeviceGetInforomVersion).

        Parameters
        ----------
        inforom : InforomObject or str
            Which object.
        """
        number = as_number(inforom, _INFOROM_OBJECTS, "inforom")
        return str(call("device_get_inforom_version", self._handle, number))

    @property
    def image_version(self) -> str:
        """str: the version of the whole InfoROM (nvmlDeviceGetInforomImageVersion)."""
        return str(call("device_get_inforom_image_version", self._handle))

    @property
    def configuration_checksum(self) -> int:
        """int: equal for devices of equal configuration (nvmlDeviceGetInforomConfigurationChecksum)."""
        return int(call("device_get_inforom_configuration_checksum", self._handle))

    def validate(self) -> None:
        """Read the InfoROM and check its checksums (nvmlDeviceValidateInforom).

        Raises
        ------
        CorruptedInforomError
            If a checksum is wrong.
        """
        call("device_validate_inforom", self._handle)

    @property
    def bbx_flush_time(self) -> tuple[int, int]:
        """tuple of int: when the black box was last written, and how long that took (nvmlDeviceGetLastBBXFlushTime).

        The time is in microseconds since 1970, the duration in microseconds.
        """
        when, duration = call("device_get_last_bbx_flush_time", self._handle)
        return int(when), int(duration)

    @property
    def board_part_number(self) -> str:
        """str: the part number of the board (nvmlDeviceGetBoardPartNumber)."""
        return str(call("device_get_board_part_number", self._handle))


# The members of the union nvmlValue_t, in the order of the types in nvmlValueType_t.
_VALUE_MEMBERS = ("d_val", "ui_val", "ul_val", "ull_val", "sll_val", "si_val", "us_val")


class FieldValue:
    """The value of one field (nvmlDeviceGetFieldValues)."""

    __slots__ = ("_code", "_id", "_value", "latency_usec", "scope_id", "timestamp")
    scope_id: int
    """int: the scope of the field, such as a link."""
    timestamp: int
    """int: when the value was read, in microseconds since 1970."""
    latency_usec: int
    """int: how long reading the value took, in microseconds."""

    def __init__(self, field_value: Any) -> None:
        self._id = int(field_value.field_id)
        self.scope_id = int(field_value.scope_id)
        self.timestamp = int(field_value.timestamp)
        self.latency_usec = int(field_value.latency_usec)
        self._code = int(field_value.nvml_return)
        kind = int(field_value.value_type)
        self._value: int | float = 0
        if self._code == 0:
            value = getattr(field_value.value, _VALUE_MEMBERS[kind])[0]  # each member is an array of one element
            self._value = float(value) if kind == 0 else int(value)

    def __repr__(self) -> str:
        return f"<FieldValue {self.field_id!r}: {self._value if self._code == 0 else 'an error'}>"

    @property
    def field_id(self) -> Any:
        """int: which field, as a member of ``cudacore.system.typing.FieldId``."""
        return bindings().FieldId(self._id)

    @property
    def value(self) -> int | float:
        """int or float: the value. If the field could not be read, reading this property raises the field's error."""
        if self._code:
            raise error_of("device_get_field_values", self._code)
        return self._value


class FieldValues(Items[FieldValue]):
    """Values of several fields, a sequence (nvmlDeviceGetFieldValues). Each can have its own error."""

    __slots__ = ()

    def __init__(self, field_values: Any) -> None:
        super().__init__(FieldValue(field_values[i]) for i in range(len(field_values)))

    def validate(self) -> None:
        """Raise the error of the first field that could not be read."""
        self.get_all_values()

    def get_all_values(self) -> list[int | float]:
        """Return all values; raise the error of the first field that could not be read."""
        return [value.value for value in self]


def make_fields(field_ids: Sequence[int | tuple[int, int]]) -> Any:
    """Return an array of fields, into which NVML writes the values."""
    fields = bindings().FieldValue(len(field_ids))
    for i, field in enumerate(field_ids):
        number, scope = field if isinstance(field, tuple) else (field, 0)
        fields[i].field_id = int(number)
        fields[i].scope_id = int(scope)
    return fields
