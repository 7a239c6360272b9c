# SPDX-License-Identifier: Apache-2.0
"""Events of devices and of the system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cudacore.system._items import Items
from cudacore.system._nvml import EventSet, Handle, Numbers, as_mask, as_name
from cudacore.system.typing import EventType, SystemEventType

if TYPE_CHECKING:
    from cudacore.system._device import Device

EVENT_TYPES: Numbers[EventType] = Numbers(EventType)
SYSTEM_EVENT_TYPES: Numbers[SystemEventType] = Numbers(SystemEventType)
_FOREVER = 0xFFFFFFFF


def _timeout(timeout_ms: int) -> int:
    """Return the timeout in NVML's form. Here 0 means forever, as in ``cuda.core``."""
    if not 0 <= timeout_ms < _FOREVER:
        raise ValueError(f"timeout_ms must be from 0 (forever) to {_FOREVER - 1}, not {timeout_ms}")
    return timeout_ms or _FOREVER


class EventData:
    """An event of a device."""

    __slots__ = ("_data",)

    def __init__(self, event_data: Any) -> None:
        self._data = event_data

    def __repr__(self) -> str:
        return f"<EventData {self.event_type}>"

    @property
    def device(self) -> Device:
        """Device: the device on which the event occurred."""
        from cudacore.system._device import Device

        return Device._from_handle(int(self._data.device_))

    @property
    def event_type(self) -> EventType:
        """EventType: the type of the event."""
        return as_name(int(self._data.event_type), EVENT_TYPES, EventType.NONE)

    def _of_xid(self, name: str) -> int:
        if self.event_type != EventType.XID_CRITICAL_ERROR:
            raise ValueError(f"only events of type xid_critical_error have {name}; this one is {self.event_type}")
        return int(getattr(self._data, name))

    @property
    def event_data(self) -> int:
        """int: the number of the Xid error. For other events, ValueError is raised."""
        return self._of_xid("event_data")

    @property
    def gpu_instance_id(self) -> int:
        """int: the GPU instance of the MIG device with an Xid error. For other events, ValueError is raised."""
        return self._of_xid("gpu_instance_id")

    @property
    def compute_instance_id(self) -> int:
        """int: the compute instance of the MIG device with an Xid error. For other events, ValueError is raised."""
        return self._of_xid("compute_instance_id")


class DeviceEvents:
    """Events of a device that are being recorded (nvmlDeviceRegisterEvents)."""

    __slots__ = ("_set",)

    def __init__(self, device_handle: Handle, events: EventType | str | Sequence[EventType | str]) -> None:
        mask = as_mask(events, EVENT_TYPES, "an event")
        self._set = EventSet("event_set")
        self._set.register("device_register_events", device_handle, mask)

    def wait(self, timeout_ms: int = 0) -> EventData:
        """Wait for an event, and return it (nvmlEventSetWait_v2).

        Parameters
        ----------
        timeout_ms : int, optional
            How long to wait, in milliseconds. Default 0: forever.

        Raises
        ------
        TimeoutError
            If no event occurred in that time (:class:`cudacore.system.TimeoutError`).
        GpuIsLostError
            If the GPU can no longer be reached.
        """
        return EventData(self._set.wait("event_set_wait_v2", _timeout(timeout_ms)))


class SystemEvent:
    """An event of the system."""

    __slots__ = ("_gpu_id", "_type")

    def __init__(self, event_data: Any) -> None:
        self._type = int(event_data.event_type)
        self._gpu_id = int(event_data.gpu_id)

    def __repr__(self) -> str:
        return f"<SystemEvent {self.event_type}>"

    @property
    def event_type(self) -> SystemEventType:
        """SystemEventType: the type of the event."""
        return as_name(self._type, SYSTEM_EVENT_TYPES, SystemEventType.BIND)

    @property
    def gpu_id(self) -> int:
        """int: the PCI domain, bus and device numbers of the device in one integer."""
        return self._gpu_id

    @property
    def device(self) -> Device:
        """Device: the device on which the event occurred."""
        from cudacore.system._device import Device

        # The id has the layout of a PCI bus id: domain, bus and device in 16, 8 and 8 bits.
        domain, bus, device = self._gpu_id >> 16, self._gpu_id >> 8 & 0xFF, self._gpu_id & 0xFF
        return Device(pci_bus_id=f"{domain:08x}:{bus:02x}:{device:02x}.0")


class SystemEvents(Items[SystemEvent]):
    """The system events that occurred, a sequence."""

    __slots__ = ()

    def __init__(self, event_data: Any) -> None:
        super().__init__(SystemEvent(event_data[i]) for i in range(len(event_data)))


class RegisteredSystemEvents:
    """Events of the system that are being recorded (nvmlSystemRegisterEvents)."""

    __slots__ = ("_set",)

    def __init__(self, events: SystemEventType | str | Sequence[SystemEventType | str]) -> None:
        mask = as_mask(events, SYSTEM_EVENT_TYPES, "an event")
        self._set = EventSet("system_event_set")
        self._set.register("system_register_events", mask)

    def wait(self, timeout_ms: int = 0, buffer_size: int = 1) -> SystemEvents:
        """Wait for events, and return them (nvmlSystemEventSetWait).

        Parameters
        ----------
        timeout_ms : int, optional
            How long to wait, in milliseconds. Default 0: forever.
        buffer_size : int, optional
            Maximum number of events to return, at least 1. Default 1.

        Raises
        ------
        TimeoutError
            If no event occurred in that time (:class:`cudacore.system.TimeoutError`).
        """
        if buffer_size < 1:
            raise ValueError(f"buffer_size must be at least 1, not {buffer_size}")
        return SystemEvents(self._set.wait("system_event_set_wait", _timeout(timeout_ms), buffer_size))


def register_events(events: SystemEventType | str | Sequence[SystemEventType | str]) -> RegisteredSystemEvents:
    """Start recording system events (nvmlSystemRegisterEvents). Earlier events are not recorded.

    Parameters
    ----------
    events : SystemEventType, str, or sequence of them
        The types of events.

    Returns
    -------
    RegisteredSystemEvents
        The object whose method :meth:`~RegisteredSystemEvents.wait` returns the events.

    Raises
    ------
    NotSupportedError
        If none of the events can be recorded.
    """
    return RegisteredSystemEvents(events)
