# SPDX-License-Identifier: Apache-2.0
"""Objects made from the handles of extension modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudacore_handles import _native
from cudacore_handles._base.handle import address, adopt, out_box
from cudacore_handles._base.siblings import graph_package
from cudacore_handles._code.kernel import Kernel
from cudacore_handles._driver.context import Context
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._memory.pool import Pool
from cudacore_handles._stream.event import Event
from cudacore_handles._stream.stream import Stream

# For each kind, the function that makes an object for the box in an out-parameter, and takes the reference out of it.
_MAKERS: dict[str, Callable[[Any], Any]] = {
    "context": lambda out: adopt(Context, out),
    "stream": lambda out: adopt(Stream, out),
    "event": lambda out: adopt(Event, out),
    "kernel": lambda out: Kernel._init(out),
    "deviceptr": lambda out: Buffer._adopt_memory(address(out), None, None),
    "pool": lambda out: _resource_of(adopt(Pool, out)),
    "graph": lambda out: adopt(graph_package().GraphDefinition, out),
    "graph_node": lambda out: graph_package() and _native.adopt_node(address(out)),
    "graph_exec": lambda out: adopt(graph_package().Graph, out),
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

    Examples
    --------
    >>> import cudacore_handles
    >>> cudacore_handles.from_capsule(stream.__cudacore_handle__()) == stream
    True
    """
    out = out_box("void")
    kind = _native.open_handle_capsule(address(out), capsule)
    if kind not in _MAKERS:
        raise TypeError(
            f"capsule holds a {kind}, which cannot be converted to an object; supported are: {', '.join(_MAKERS)}"
        )
    return _MAKERS[kind](out)
