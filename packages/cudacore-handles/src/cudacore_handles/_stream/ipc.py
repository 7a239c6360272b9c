# SPDX-License-Identifier: Apache-2.0
"""Sharing events between processes, by descriptors that can be pickled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudacore_handles._base import ipc
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import adopt, hold, out_box
from cudacore_handles._base.ipc import SentFields
from cudacore_handles._base.made import Made
from cudacore_handles._cffi import ffi, lib

if TYPE_CHECKING:
    from cudacore_handles._driver.context import Context
    from cudacore_handles._stream.event import Event


class IPCEventDescriptor(SentFields, Made):
    """The name of an event for other processes; see :attr:`Event.ipc_descriptor`.

    The descriptor can be pickled and sent by any means. Two descriptors are equal if they name the same event.
    """

    __slots__ = ("_blocking", "_data", "_device")
    _made_by = "Event.ipc_descriptor"
    _names = ("_data", "_blocking", "_device")
    _data: bytes
    _blocking: bool
    _device: str | None  # UUID

    def __repr__(self) -> str:
        return f"<IPCEventDescriptor of an event of device {self._device or '?'}>"


def check_events(context: Context) -> None:
    """Raise an error if the events of a context cannot be shared between processes."""
    device = context.device
    if not device.properties.ipc_event_supported:
        raise RuntimeError(
            f"ipc_enabled: {device!r} ({device.name}) has no events that processes can share: its "
            "properties.ipc_event_supported is False"
        )


def describe_event(event: Event) -> IPCEventDescriptor:
    """Export an event of this process."""
    if not event.is_ipc_enabled:
        raise RuntimeError("Event is not IPC-enabled: make it with EventOptions(ipc_enabled=True)")
    out = ffi.new("cch_ipc_handle *")
    check(lib.cch_event_export(out, hold(event)))
    device = event.device
    return IPCEventDescriptor._init(
        bytes(out.bytes), event.is_blocking_sync, device.uuid if device is not None else None
    )


def import_event(cls: type[Event], descriptor: IPCEventDescriptor) -> Event:
    """Return an event of another process, or a new object for an event that this process already has."""
    from cudacore_handles._driver.device import find_device

    handle = ffi.new("cch_ipc_handle *", (descriptor._data,))
    flags = lib.CCH_EVENT_BLOCKING_SYNC if descriptor._blocking else 0
    with ipc.opening_lock:
        device, out = find_device(descriptor._device), out_box("cch_event")
        status = lib.cch_event_import(out, hold(device._target()), handle, flags)
        check(status, hint="the event must belong to a process of this machine that still has it")
    event = adopt(cls, out)
    event._descriptor = descriptor
    return event
