# SPDX-License-Identifier: Apache-2.0
"""Nodes that fill memory."""

from __future__ import annotations

from cudacore_graph._arguments import check_owner
from cudacore_graph._errors import NODE_WAS_INSTANTIATED, ONE_ROW_ONLY
from cudacore_graph._nodes.description import Description, bytes_text, short
from cudacore_graph._nodes.executable import SwitchableNode
from cudacore_graph._nodes.node import GraphNode
from cudacore_handles import Buffer
from cudacore_handles._sdk import graph_native as _native
from cudacore_handles.typing import FillValueType


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


class MemsetNode(GraphNode):
    """A node that fills memory with a value."""

    __slots__ = ()
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

    @property
    def dptr(self) -> int:
        """int: The address of the memory that the node fills."""
        return int(self._read("memset").dst)

    @property
    def value(self) -> int:
        """int: The value, as an integer of :attr:`element_size` bytes."""
        return int(self._read("memset").value)

    @property
    def element_size(self) -> int:
        """int: Size of the value in bytes: 1, 2 or 4."""
        return int(self._read("memset").element_size)

    @property
    def width(self) -> int:
        """int: Number of values per row."""
        return int(self._read("memset").width)

    @property
    def height(self) -> int:
        """int: Number of rows."""
        return int(self._read("memset").height)

    @property
    def pitch(self) -> int:
        """int: Number of bytes from one row to the next; unused if there is only one row."""
        return int(self._read("memset").pitch)

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        known = self._read("memset")
        digits = 2 * known.element_size
        rows = f" x {known.height}" if known.height > 1 else ""
        amount = f"{bytes_text(known.width * known.element_size)}{rows}"
        return Description(f"memset {amount}", (f"{short(known.dst)} to 0x{known.value:0{digits}x}",), ())
