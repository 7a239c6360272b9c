# SPDX-License-Identifier: Apache-2.0
"""Nodes that copy memory."""

from __future__ import annotations

from cudacore_graph._errors import ONE_ROW, THERE
from cudacore_graph._nodes.executable import SwitchableNode
from cudacore_graph._nodes.memory import check_owner
from cudacore_graph._nodes.node import GraphNode
from cudacore_graph._nodes.shown import Shown, bytes_text, short
from cudacore_handles import Buffer
from cudacore_handles._sdk import graph_native as _native


class ExecutableMemcpyNode(SwitchableNode):
    """A node of an executable graph that copies memory."""

    __slots__ = ()

    def update(
        self,
        *,
        dst: Buffer | int,
        src: Buffer | int,
        size: int,
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
        _native.set_exec_node(
            self._graph,
            self._node,
            "memcpy",
            dst,
            src,
            size,
            height,
            depth,
            dst_pitch,
            src_pitch,
            dst_height,
            src_height,
            dst_owner,
            src_owner,
        )


class MemcpyNode(GraphNode):
    """A node that copies memory, in up to three dimensions."""

    __slots__ = ()
    _TITLE = "memcpy"
    _COLOUR = "#cfe2f3"
    _METHOD = "memcpy"
    _HINT = "dst and src must be addresses that CUDA knows, or of the host's own memory; so many bytes must be there"
    _EXEC_HINT = f"A copy {ONE_ROW}. {THERE}"
    _EXECUTABLE = ExecutableMemcpyNode

    def update(
        self,
        *,
        dst: Buffer | int | None = None,
        src: Buffer | int | None = None,
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
        if dst is None:
            dst, dst_owner = int(known.dst), owners[0]
        if src is None:
            src, src_owner = int(known.src), owners[1]
        rows = max(known.height, 1) * max(known.depth, 1) > 1
        _native.set_node(
            self,
            "memcpy",
            dst,
            src,
            int(known.width) if size is None else size,
            max(int(known.height), 1),
            max(int(known.depth), 1),
            # A copy of one row has no pitch to preserve.
            int(known.dst_pitch) if rows else 0,
            int(known.src_pitch) if rows else 0,
            int(known.dst_height) if rows else 0,
            int(known.src_height) if rows else 0,
            dst_owner,
            src_owner,
        )

    @property
    def dst(self) -> int:
        """int: The destination address."""
        return int(self._read("memcpy").dst)

    @property
    def src(self) -> int:
        """int: The source address."""
        return int(self._read("memcpy").src)

    @property
    def size(self) -> int:
        """int: Bytes per row."""
        return int(self._read("memcpy").width)

    @property
    def height(self) -> int:
        """int: Rows per slice."""
        return max(int(self._read("memcpy").height), 1)

    @property
    def depth(self) -> int:
        """int: Number of slices."""
        return max(int(self._read("memcpy").depth), 1)

    def _show(self) -> Shown:
        """Return what a picture shows of the node."""
        known = self._read("memcpy")
        sizes = [int(n) for n in (known.width, known.height, known.depth)]
        rows = " x ".join(map(str, sizes[1:])) if max(sizes[1:]) > 1 else ""
        amount = f"{bytes_text(sizes[0])}{f' x {rows}' if rows else ''}"
        return Shown(f"memcpy {amount}", (f"{short(known.src)} to {short(known.dst)}",), ())
