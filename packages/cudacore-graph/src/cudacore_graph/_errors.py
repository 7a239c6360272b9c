# SPDX-License-Identifier: Apache-2.0
"""Exceptions of graphs: those that the extension module raises, with explanations that the driver does not give."""

from __future__ import annotations

from typing import Any, NoReturn

from cudacore_handles import ClosedError, CUDAError
from cudacore_handles._sdk import graph_native as _native
from cudacore_handles._sdk import hold, last_error, lib, results

_FREE = "it must be the address of an allocation node (AllocNode.dptr), which a graph may free only once"
# The usual reason why the driver refuses a call, by the name of the method. _nodes/__init__.py adds the reasons of each
# class of nodes.
HINTS = {
    "destroy": "No node can be taken out of a graph that has nodes that allocate or free memory",
    "rewire": "No edge can be taken out of a graph that has nodes that allocate or free memory",
    "clone": "Bodies, and graphs with memory or conditional nodes, cannot be cloned",
}
NODE_WAS_INSTANTIATED = "The node must have been in the graph when the executable graph was instantiated"
ONE_ROW_ONLY = "can be changed only if it has one row; it must keep that one row, and the devices of its memory"
# The usual reasons for refused calls on executable graphs and their nodes.
EXEC_HINTS = {
    "enable": NODE_WAS_INSTANTIATED,
    "Graph.launch": "A graph that allocates memory without freeing it can be launched again only after that memory was "
    "freed: free it between the launches, or instantiate the graph with "
    "GraphCompleteOptions(auto_free_on_launch=True), which frees it at each launch",
}

_DONE = {"update_many": "changed", "destroy": "removed"}  # other methods add nodes


def gone(face: _native.NodeHandle | _native.GraphHandle) -> ClosedError:
    """Return the exception for the use of an object that CUDA has destroyed."""
    name = type(face).__name__
    if isinstance(face, _native.NodeHandle):
        return ClosedError(
            f"{name} was destroyed, or lost with a primary context that was reset: it is in no graph any more; add "
            "a new node"
        )
    return ClosedError(
        f"{name} does not exist any more: CUDA destroyed it with the node that it was in, with a capture that failed, "
        "or with a primary context that was reset"
    )


def hold_there(face: _native.NodeHandle | _native.GraphHandle) -> Any:
    """Return a reference to a box, like :func:`hold`; raise an error if CUDA has destroyed the node or graph."""
    box = hold(face)
    if not face.is_valid:
        raise gone(face)
    return box


def node_failed(status: int, kind: str, place: int) -> NoReturn:
    """Raise an error for a node that the driver or library refused.

    `place` is its index in a batch, `PLACE_IN_EXEC` for a node of an executable graph, or another negative number.
    """
    raise _explained(last_error(status), status, kind, place)


def _explained(error: CUDAError, status: int, kind: str, place: int) -> Exception:
    where = f" (node {place} of the batch)" if place >= 0 else ""
    if status == lib.CCH_EGONE:
        return ClosedError(f"{kind}: the graph, or one of the nodes, was destroyed: {error.meaning}{where}")
    # The library checks values, such as the overlap of the operands of a copy, and whether nodes are of the graph.
    if status in (lib.CCH_EINVAL, lib.CCH_EMISMATCH):
        return ValueError(f"{kind}: {error.meaning}{where}")
    if status in (results.INVALID_VALUE, results.NOT_SUPPORTED, results.GRAPH_EXEC_UPDATE_FAILURE):
        if kind == "deallocate":
            refused = ValueError(f"dptr cannot be freed by a node of this graph: {_FREE} ({error})")
            refused.__cause__ = error
            return refused
        error.hint = (EXEC_HINTS if place == _native.PLACE_IN_EXEC else HINTS).get(kind, error.hint)
    elif status == results.ILLEGAL_STATE and kind == "destroy":
        error.hint = "Nodes are taken out before a capture into their graph begins, or after it has ended"
    if place >= 0:
        done = _DONE.get(kind, "added")
        before = "; the nodes before it were removed" if place and kind == "destroy" else ""
        error.hint = f"It is node {place} of the batch, {done} by {kind!r}{before}. {error.hint}".rstrip()
    return error


_NOT_BEGUN = {
    "CUDA_ERROR_ILLEGAL_STATE": "The stream is being captured already: give each builder a stream of its own",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": (
        "The legacy default stream cannot be captured: use Device.create_graph_builder(), or that of another stream"
    ),
}


def _not_begun(status: int) -> CUDAError:
    error = last_error(status)
    error.hint = _NOT_BEGUN.get(error.code_name, error.hint)
    return error


def check_begun(status: int) -> None:
    """Raise an error with advice if `status` says that a capture could not begin."""
    if status:
        raise _not_begun(status)


def explain_loss(error: CUDAError, mode: str) -> None:
    """Add advice to the error of a capture whose graph is lost."""
    if error.code > 0:  # only for errors of the driver, because errors of the library explain themselves
        advice = (
            "captured work cannot be waited for, nor can an event that was recorded in the capture"
            if mode == "relaxed"
            else "begin_building('relaxed') allows most"
        )
        error.hint = error.hint or (
            f"An operation that is not allowed in a capture was called, and the graph is lost: {advice}"
        )
