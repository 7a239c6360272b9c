# SPDX-License-Identifier: Apache-2.0
"""Clocks of a device."""

from __future__ import annotations

from dataclasses import dataclass

from cudacore.system._nvml import Handle, Numbers, as_number, call
from cudacore.system.typing import ClockId, ClocksEventReasons, ClockType

CLOCK_TYPES: Numbers[ClockType] = Numbers(ClockType, MEMORY="MEM")
CLOCK_IDS: Numbers[ClockId] = Numbers(ClockId)
EVENT_REASONS: Numbers[ClocksEventReasons] = Numbers(ClocksEventReasons)


def check_pstate(pstate: int) -> int:
    """Return a performance state; raise ValueError if it is invalid."""
    if not 0 <= pstate <= 15:
        raise ValueError(f"pstate must be from 0 (the fastest) to 15, not {pstate}")
    return pstate


@dataclass(frozen=True, slots=True)
class ClockOffsets:
    """Offsets of a clock in one performance state (nvmlDeviceGetClockOffsets)."""

    clock_offset_mhz: int
    """int: the current offset, in MHz."""
    max_offset_mhz: int
    """int: the highest offset, in MHz."""
    min_offset_mhz: int
    """int: the lowest offset, in MHz."""


class ClockInfo:
    """A clock of a device: ``device.get_clock("sm")``."""

    __slots__ = ("_handle", "_name", "_type")

    def __init__(self, handle: Handle, clock_type: ClockType | str) -> None:
        self._handle = handle
        self._type = as_number(clock_type, CLOCK_TYPES, "clock_type")
        self._name = str(clock_type)

    def __repr__(self) -> str:
        return f"<ClockInfo {self._name}>"

    def get_current_mhz(self, clock_id: ClockId | str = ClockId.CURRENT) -> int:
        """Return the speed of the clock, in MHz (nvmlDeviceGetClock).

        Parameters
        ----------
        clock_id : ClockId or str, optional
            The value to return. Default: the current one.
        """
        return int(call("device_get_clock", self._handle, self._type, as_number(clock_id, CLOCK_IDS, "clock_id")))

    def get_max_mhz(self) -> int:
        """Return the highest speed of the clock, in MHz (nvmlDeviceGetMaxClockInfo)."""
        return int(call("device_get_max_clock_info", self._handle, self._type))

    def get_max_customer_boost_mhz(self) -> int:
        """Return the highest boost speed that the customer set, in MHz (nvmlDeviceGetMaxCustomerBoostClock)."""
        return int(call("device_get_max_customer_boost_clock", self._handle, self._type))

    def get_min_max_clock_of_pstate_mhz(self, pstate: int) -> tuple[int, int]:
        """Return the lowest and the highest speed in a performance state, in MHz (nvmlDeviceGetMinMaxClockOfPState).

        Parameters
        ----------
        pstate : int
            From 0, the fastest state, to 15.
        """
        low, high = call("device_get_min_max_clock_of_p_state", self._handle, self._type, check_pstate(pstate))
        return int(low), int(high)

    def get_offsets(self, pstate: int) -> ClockOffsets:
        """Return the offsets of the clock in a performance state (nvmlDeviceGetClockOffsets).

        Parameters
        ----------
        pstate : int
            From 0, the fastest state, to 15.
        """
        found = call("device_get_clock_offsets", self._handle, self._type, check_pstate(pstate))
        return ClockOffsets(
            int(found.clock_offset_m_hz), int(found.max_clock_offset_m_hz), int(found.min_clock_offset_m_hz)
        )
