# SPDX-License-Identifier: Apache-2.0
"""Options of streams and events. This module is imported when options are used."""

from __future__ import annotations

from dataclasses import dataclass

from cudacore_handles._base.module_attributes import public
from cudacore_handles._base.options import Options
from cudacore_handles._cffi import lib


@public
@dataclass
class StreamOptions(Options):
    """Options of a stream.

    Attributes
    ----------
    nonblocking : bool, optional
        Whether the stream runs without implicit ordering with the legacy default stream. Default True.
    priority : int, optional
        Lower numbers run first. The range depends on the device, and is often -5 to 0. Default None: the lowest
        priority, 0.
    """

    nonblocking: bool = True
    priority: int | None = None


@public
@dataclass
class EventOptions(Options):
    """Options of an event.

    Attributes
    ----------
    timing_enabled : bool, optional
        Whether the event can measure time. Default False, which is cheaper.
    blocking_sync : bool, optional
        Whether a thread that waits for the event sleeps instead of spinning. Default False.
    ipc_enabled : bool, optional
        Whether other processes can use the event, which then cannot measure time. Default False.
    """

    timing_enabled: bool | None = False
    blocking_sync: bool | None = False
    ipc_enabled: bool | None = False

    def _flags(self) -> int:
        if self.ipc_enabled and self.timing_enabled:
            raise TypeError("IPC-enabled events cannot use timing: leave ipc_enabled or timing_enabled out")
        flags = 0 if self.timing_enabled else lib.CCH_EVENT_DISABLE_TIMING
        flags |= lib.CCH_EVENT_BLOCKING_SYNC if self.blocking_sync else 0
        return flags | (lib.CCH_EVENT_INTERPROCESS if self.ipc_enabled else 0)
