# SPDX-License-Identifier: Apache-2.0
"""Objects made from the handles of extension modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudacore_handles import _native
from cudacore_handles._base.handle import address, adopt
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._code.kernel import Kernel
from cudacore_handles._driver.context import Context
from cudacore_handles._driver.device import graph_module
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._memory.pool import Pool
from cudacore_handles._stream.event import Event
from cudacore_handles._stream.stream import Stream

# For each kind, the function that makes an object from a box, and takes over one reference to the box.
_MAKERS: dict[str, Callable[[Any], Any]] = {
    "context": lambda box: adopt(Context, box),
    "stream": lambda box: adopt(Stream, box),
    "event": lambda box: adopt(Event, box),
    "kernel": lambda box: Kernel._init(box),
    "deviceptr": lambda box: Buffer._adopt_memory(address(box), None, None),
    "pool": lambda box: _resource_of(adopt(Pool, box)),
    "graph": lambda box: adopt(graph_module().GraphDefinition, box),
    "graph_node": lambda box: graph_module() and _native.adopt_node(address(box)),
    "graph_exec": lambda box: graph_module().Graph._init(box),
}


def _resource_of(pool: Pool) -> Any:
    from cudacore_handles._memory.device_pool import DeviceMemoryResource

    return DeviceMemoryResource._init(pool)


def from_capsule(capsule: object) -> Any:
    """Make an object from a handle of an extension module.

    The object has its own reference, so the capsule can be released. Handles of graphs, nodes and executable graphs
    need the package ``cudacore-graph``.

    Parameters
    ----------
    capsule : capsule
        A handle as returned by ``__cudacore_handle__()``: a capsule that is named for its kind, such as
        ``"cudacore_handles.stream"``, and holds a ``cch_stream *``.

    Raises
    ------
    TypeError
        If it is not such a capsule, or its kind has no class. For example, an :class:`ObjectCode` is made from code,
        not from a loaded library.
    """
    kind, box = _native.open_handle_capsule(capsule)
    if kind not in _MAKERS:
        raise TypeError(
            f"capsule holds a {kind}, which cannot be converted to an object; supported are: {', '.join(_MAKERS)}"
        )
    return _MAKERS[kind](lib.cch_ref(ffi.cast("void *", box)))
