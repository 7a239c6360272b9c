# SPDX-License-Identifier: Apache-2.0
"""Nodes that copy memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cudacore_graph._arguments import check_owner
from cudacore_graph._errors import NODE_WAS_INSTANTIATED, ONE_ROW_ONLY
from cudacore_graph._nodes.description import Description, bytes_text, short
from cudacore_graph._nodes.executable import SwitchableNode
from cudacore_graph._nodes.node import GraphNode
from cudacore_handles import Buffer
from cudacore_handles._sdk import adopt, check, ffi, lib, out_box
from cudacore_handles._sdk import graph_native as _native

if TYPE_CHECKING:
    from cudacore_handles.texture import OpaqueArray


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


class MemcpyNode(GraphNode):
    """A node that copies memory, in up to three dimensions."""

    __slots__ = ()
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

    @property
    def dst(self) -> int:
        """int: The destination address; for an array its handle, a CUarray."""
        known = self._read("memcpy")
        return int(ffi.cast("uintptr_t", known.dst_array)) or int(known.dst)

    @property
    def src(self) -> int:
        """int: The source address; for an array its handle, a CUarray."""
        known = self._read("memcpy")
        return int(ffi.cast("uintptr_t", known.src_array)) or int(known.src)

    @property
    def size(self) -> int:
        """int: Number of bytes per row."""
        return int(self._read("memcpy").width)

    @property
    def height(self) -> int:
        """int: Number of rows per slice."""
        return max(int(self._read("memcpy").height), 1)

    @property
    def depth(self) -> int:
        """int: Number of slices."""
        return max(int(self._read("memcpy").depth), 1)

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        known = self._read("memcpy")
        sizes = [int(n) for n in (known.width, known.height, known.depth)]
        rows = " x ".join(map(str, sizes[1:])) if max(sizes[1:]) > 1 else ""
        amount = f"{bytes_text(sizes[0])}{f' x {rows}' if rows else ''}"
        return Description(f"memcpy {amount}", (f"{short(self.src)} to {short(self.dst)}",), ())
