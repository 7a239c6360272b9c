# SPDX-License-Identifier: Apache-2.0
"""Nodes that copy, fill, allocate and free memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudacore_graph._arguments import check_owner
from cudacore_graph._errors import NODE_WAS_INSTANTIATED, ONE_ROW_ONLY
from cudacore_graph._nodes.node import Description, GraphNode, SwitchableNode, bytes_text, short
from cudacore_graph.typing import GraphMemoryType
from cudacore_handles import Buffer
from cudacore_handles._sdk import adopt, check, ffi, lib, out_box
from cudacore_handles._sdk import graph_native as _native
from cudacore_handles.typing import FillValueType

if TYPE_CHECKING:
    from cudacore_handles.texture import OpaqueArray

__all__: list[str] = [
    "AllocNode",
    "ExecutableMemcpyNode",
    "ExecutableMemsetNode",
    "FreeNode",
    "MemcpyNode",
    "MemsetNode",
]


class ExecutableMemcpyNode(SwitchableNode):
    """A node of an executable graph that copies memory."""

    __slots__ = ()

    def update(
        self,
        *,
        dst: Buffer | OpaqueArray | int,
        src: Buffer | OpaqueArray | int,
        size: int | None = None,
        height: int = 1,
        depth: int = 1,
        dst_pitch: int = 0,
        src_pitch: int = 0,
        dst_height: int = 0,
        src_height: int = 0,
        dst_owner: object = None,
        src_owner: object = None,
    ) -> None:
        """Change the copy from the next launch on (cuGraphExecMemcpyNodeSetParams).

        See :meth:`GraphDefinition.memcpy`.
        """
        layout = height, depth, dst_pitch, src_pitch, dst_height, src_height
        _native.set_exec_node(self._graph, self._node, dst, src, size, *layout, dst_owner, src_owner)


def _is_array(operand: object) -> bool:
    return isinstance(operand, _native.Handle) and not isinstance(operand, Buffer)


def _operand(given: Any, given_owner: object, address: Any, array: Any, owner: Any) -> tuple[Any, object]:
    """Return an operand of a copy and its owner: the given ones, or else the node's current ones."""
    if given is not None:
        return given, given_owner
    if not array:
        return int(address), owner
    if owner is None:  # an array of another library, which gets a box here
        out = out_box("cch_array")
        check(lib.cch_array_wrap(out, array, ffi.NULL, ffi.NULL, ffi.NULL))
        owner = adopt(_native.Handle, out)
    return owner, None


class MemcpyNode(_native.MemcpyHandle, GraphNode):
    """A node that copies memory, in up to three dimensions."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_MEMCPY
    _TITLE = "memcpy"
    _COLOUR = "#cfe2f3"
    _METHOD = "memcpy"
    _HINT = "dst and src must be addresses in memory of CUDA or in ordinary host memory that has the copied size"
    _EXEC_HINT = f"A copy {ONE_ROW_ONLY}. {NODE_WAS_INSTANTIATED}"
    _EXECUTABLE = ExecutableMemcpyNode

    def update(
        self,
        *,
        dst: Buffer | OpaqueArray | int | None = None,
        src: Buffer | OpaqueArray | int | None = None,
        size: int | None = None,
        dst_owner: object = None,
        src_owner: object = None,
    ) -> None:
        """Change the copy from the next instantiation on (cuGraphMemcpyNodeSetParams).

        Values that are not given do not change, including rows and slices; see :meth:`GraphDefinition.memcpy`.
        """
        check_owner("dst", dst, dst_owner)
        check_owner("src", src, src_owner)
        known, owners = self._read_owned("memcpy")
        dst, dst_owner = _operand(dst, dst_owner, known.dst, known.dst_array, owners[0])
        src, src_owner = _operand(src, src_owner, known.src, known.src_array, owners[1])
        extents: list[int | None] = [size, 1, 1, 0, 0, 0, 0]
        # The node's extents are kept only for copies from memory to memory. An array has its own extents, and the
        # extents of memory that replaces an array are unknown.
        if not (known.dst_array or known.src_array or _is_array(dst) or _is_array(src)):
            extents[:3] = int(known.width) if size is None else size, known.height or 1, known.depth or 1
            if known.height > 1 or known.depth > 1:  # a copy of one row has no pitch to preserve
                extents[3:] = known.dst_pitch, known.src_pitch, known.dst_height, known.src_height
        _native.set_node(self, dst, src, *extents, dst_owner, src_owner)

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        rows = f" x {self.height} x {self.depth}" if max(self.height, self.depth) > 1 else ""
        amount = f"{bytes_text(self.size)}{rows}"
        return Description(f"memcpy {amount}", (f"{short(self.src)} to {short(self.dst)}",), ())


class ExecutableMemsetNode(SwitchableNode):
    """A node of an executable graph that fills memory."""

    __slots__ = ()

    def update(
        self,
        *,
        dst: Buffer | int,
        value: FillValueType,
        width: int,
        height: int = 1,
        pitch: int = 0,
        dst_owner: object = None,
    ) -> None:
        """Change the fill from the next launch on (cuGraphExecMemsetNodeSetParams).

        See :meth:`GraphDefinition.memset`.
        """
        _native.set_exec_node(self._graph, self._node, dst, value, width, height, pitch, dst_owner)


class MemsetNode(_native.MemsetHandle, GraphNode):
    """A node that fills memory with a value."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_MEMSET
    _TITLE = "memset"
    _COLOUR = "#cfe2f3"
    _METHOD = "memset"
    _HINT = "dst must be memory that the device can use; width and height at least 1"
    _EXEC_HINT = f"A fill {ONE_ROW_ONLY}. {NODE_WAS_INSTANTIATED}"
    _EXECUTABLE = ExecutableMemsetNode

    def update(
        self,
        *,
        dst: Buffer | int | None = None,
        value: FillValueType | None = None,
        width: int | None = None,
        height: int | None = None,
        pitch: int | None = None,
        dst_owner: object = None,
    ) -> None:
        """Change the fill from the next instantiation on (cuGraphMemsetNodeSetParams).

        Values that are not given do not change; see :meth:`GraphDefinition.memset`.
        """
        check_owner("dst", dst, dst_owner)
        known, (owner, _) = self._read_owned("memset")
        if dst is None:
            dst, dst_owner = int(known.dst), owner
        if value is None:
            value = int(known.value).to_bytes(4, "little")[: known.element_size]
        _native.set_node(
            self,
            dst,
            value,
            int(known.width) if width is None else width,
            int(known.height) if height is None else height,
            int(known.pitch) if pitch is None else pitch,
            dst_owner,
        )

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        digits = 2 * self.element_size
        rows = f" x {self.height}" if self.height > 1 else ""
        amount = f"{bytes_text(self.width * self.element_size)}{rows}"
        return Description(f"memset {amount}", (f"{short(self.dptr)} to 0x{self.value:0{digits}x}",), ())


class AllocNode(_native.AllocHandle, GraphNode):
    """A node that allocates memory, always at the same address."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_ALLOC
    _TITLE = "allocate"
    _COLOUR = "#fff2cc"
    _METHOD = "allocate"

    @property
    def device_id(self) -> int:
        """int: Ordinal of the device that has the memory or, for memory of the host, uses it."""
        _, place, ordinal, peers = self._place
        return ordinal if place == lib.CCH_LOCATION_DEVICE else next(iter(peers), -1)

    @property
    def memory_type(self) -> GraphMemoryType:
        """GraphMemoryType: The type of the memory."""
        kind, place, _, _ = self._place
        if kind == lib.CCH_ALLOCATION_MANAGED:
            return GraphMemoryType.MANAGED
        return GraphMemoryType.DEVICE if place == lib.CCH_LOCATION_DEVICE else GraphMemoryType.HOST

    @property
    def peer_access(self) -> tuple[int, ...]:
        """tuple of int: Ordinals of the other devices that can use it."""
        own, peers = self.device_id, self._place[3]
        return tuple(peer for peer in peers if peer != own)

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        where = f"{self.memory_type}, device {self.device_id}"
        return Description(f"allocate {bytes_text(self.bytesize)}", (short(self.dptr), where), ())


class FreeNode(_native.FreeHandle, GraphNode):
    """A node that frees the memory of an :class:`AllocNode`."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_FREE
    _TITLE = "free"
    _COLOUR = "#fff2cc"
    _METHOD = "deallocate"

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        return Description(self._TITLE, (short(self.dptr),), ())
