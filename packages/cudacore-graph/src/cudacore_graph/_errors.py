# SPDX-License-Identifier: Apache-2.0
"""Exceptions of graphs: what the compiled half of the package asks for, and what the driver does not say."""

from __future__ import annotations

from typing import NoReturn

from cudacore_handles import ClosedError, CUDAError, _native
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._errors import last_error

_NOT_SUPPORTED = 801  # CUDA_ERROR_NOT_SUPPORTED
_INVALID_VALUE = 1

# What a refusal most often means, by the method.
_HINTS = {
    "deallocate": (
        "dptr must be the address of an allocation node (AllocNode.dptr), and be freed once in a graph, or by nobody"
    ),
    "embed": "A child graph cannot have memory nodes or conditional nodes on this driver",
    "memcpy": "dst and src must be addresses that CUDA knows, or of the host's own memory; so many bytes must be there",
    "memset": "dst must be memory that the device can use; width and height at least 1",
    "if_else": "A second body needs a driver for CUDA 12.8",
    "switch": "A switch needs a driver for CUDA 12.8",
}


def gone(face: _native.NodeHandle | _native.GraphHandle) -> ClosedError:
    """Make the exception for the use of what CUDA has destroyed."""
    name = type(face).__name__
    if isinstance(face, _native.NodeHandle):
        return ClosedError(f"{name} was destroyed: it is in no graph any more; add a new node")
    return ClosedError(
        f"{name} is not there any more: CUDA destroyed it with the node that it was in, or with a capture that failed"
    )


def failed_node() -> int:
    """Return the handle of the node that the last failure on this thread is about, 0 for none."""
    record = ffi.new("cch_error_record *")
    record.size = ffi.sizeof("cch_error_record")
    lib.cch_error_get(record)
    return int(ffi.cast("uintptr_t", record.node))


def _node_failed(status: int, kind: str) -> NoReturn:
    """Raise for a node that the driver, or the library, refused."""
    error = last_error(status)
    if status == lib.CCH_EGONE:
        raise ClosedError(f"{kind}: the graph, or one of the nodes, was destroyed: {error.meaning}")
    if status == lib.CCH_EMISMATCH:
        error.hint = "Nodes belong to one graph, and conditions to it or to one that it is in"
    elif status in (_INVALID_VALUE, _NOT_SUPPORTED):
        error.hint = _HINTS.get(kind, error.hint)
    if kind == "deallocate" and status == _INVALID_VALUE:
        raise ValueError(f"dptr cannot be freed by a node of this graph. {error.hint} ({error})") from error
    raise error


def explain(error: CUDAError, hint: str) -> CUDAError:
    """Give an error a hint, where it has none."""
    error.hint = error.hint or hint
    return error


_native.set_face("gone", gone)
_native.set_face("node_failed", _node_failed)
