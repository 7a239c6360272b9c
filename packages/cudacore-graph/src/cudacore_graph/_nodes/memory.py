# SPDX-License-Identifier: Apache-2.0
"""Nodes that allocate memory, and nodes that free it."""

from __future__ import annotations

from cudacore_graph._nodes.description import Description, bytes_text, short
from cudacore_graph._nodes.node import GraphNode
from cudacore_graph.typing import GraphMemoryType
from cudacore_handles._sdk import ffi, lib
from cudacore_handles._sdk import graph_native as _native

_MAX_PEERS = 256


class AllocNode(GraphNode):
    """A node that allocates memory, always at the same address."""

    __slots__ = ()
    _TITLE = "allocate"
    _COLOUR = "#fff2cc"
    _METHOD = "allocate"

    @property
    def dptr(self) -> int:
        """int: The address of the memory."""
        return _native.alloc_address(self)

    @property
    def bytesize(self) -> int:
        """int: Bytes."""
        return int(self._read("alloc").bytes)

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device that has the memory or, for memory of the host, uses it."""
        params = self._read("alloc")
        if params.location_type == lib.CCH_LOCATION_DEVICE:
            return int(params.location_id)
        return next(iter(self._peers()), -1)

    @property
    def memory_type(self) -> GraphMemoryType:
        """GraphMemoryType: The type of the memory."""
        params = self._read("alloc")
        if params.alloc_type == lib.CCH_ALLOCATION_MANAGED:
            return GraphMemoryType.MANAGED
        on_device = params.location_type == lib.CCH_LOCATION_DEVICE
        return GraphMemoryType.DEVICE if on_device else GraphMemoryType.HOST

    @property
    def peer_access(self) -> tuple[int, ...]:
        """tuple of int: Ordinals of the other devices that can use it."""
        own = self.device_id
        return tuple(peer for peer in self._peers() if peer != own)

    def _peers(self) -> tuple[int, ...]:
        peers = ffi.new("int32_t[]", _MAX_PEERS)
        params = self._read("alloc", peers=peers, peer_count=_MAX_PEERS)
        return tuple(peers[0 : min(params.peer_count, _MAX_PEERS)])

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        where = f"{self.memory_type}, device {self.device_id}"
        return Description(f"allocate {bytes_text(self.bytesize)}", (short(self.dptr), where), ())


class FreeNode(GraphNode):
    """A node that frees the memory of an :class:`AllocNode`."""

    __slots__ = ()
    _TITLE = "free"
    _COLOUR = "#fff2cc"
    _METHOD = "deallocate"

    @property
    def dptr(self) -> int:
        """int: The address of the memory that the node frees."""
        return int(self._read("free").address)

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        return Description(self._TITLE, (short(self.dptr),), ())
