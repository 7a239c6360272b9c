# SPDX-License-Identifier: Apache-2.0
"""Allocations that fail because no memory is left: the second attempt, and the report in the error."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from cudacore_handles import _native
from cudacore_handles._base import results
from cudacore_handles._base.errors import CUDAError, OutOfMemoryError, last_error, set_memory_report
from cudacore_handles._base.handle import hold
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.device import Device
from cudacore_handles._memory.arguments import size_text
from cudacore_handles._stream.stream import IsStreamType, Stream, Stream_accept, is_capturing

if TYPE_CHECKING:
    from cudacore_handles._memory.resource import MemoryResource

_Error = TypeVar("_Error", bound=CUDAError)

_SHOWN = 5
_PATIENCE = 0.25  # seconds to wait for the collection of another thread
_CODES = (lib.CCH_ENOMEM, results.OUT_OF_MEMORY)
_thread = threading.local()  # `collects`: true while this thread is in _collect(), or must not collect
_ADVICE = (
    "Close buffers that are not needed any more, or request less. Memory whose free still waits for its stream can "
    "only be used by its own pool: sync() the stream first. A TrackingResourceAdaptor shows where memory was allocated"
)


def collect_garbage(resource: MemoryResource, stream: Stream | IsStreamType | None) -> bool:
    """Collect garbage before an allocation is tried again; return whether it should be tried again.

    Nothing is collected while a stream is captured: finalizers could call CUDA, which can invalidate the capture, and
    freed memory may not be returned before the capture ends. An allocation in a host function fails with another error,
    and does not call this function.
    """
    if not resource.collects_garbage or lib.cch_capture_count():
        return False
    if stream is not None:
        try:
            if is_capturing(Stream_accept(stream, allow_stream_protocol=True)):
                return False
        except CUDAError:
            return False
    _collect()
    return True


def _collect() -> None:
    """Collect garbage. If another thread is collecting, gc.collect() does nothing, so wait for that thread first."""
    if getattr(_thread, "collects", False):  # called by a finalizer that the collection below runs
        return
    # The wait for another thread has a limit, because finalizers on that thread can wait for this one, or can allocate.
    deadline = time.monotonic() + _PATIENCE
    before = _full_collections()
    _thread.collects = True
    try:
        gc.collect()
        while _full_collections() == before and time.monotonic() < deadline:
            time.sleep(1e-3)
            gc.collect()
    finally:
        _thread.collects = False


@contextmanager
def without_collection() -> Iterator[None]:
    """Let allocations of this thread collect no garbage, because the caller has locks that finalizers need."""
    before = getattr(_thread, "collects", False)
    _thread.collects = True
    try:
        yield
    finally:
        _thread.collects = before


def _full_collections() -> int:
    return int(gc.get_stats()[-1]["collections"])


def allocate_with(
    resource: MemoryResource,
    size: int,
    stream: Stream | IsStreamType | None,
    where: str,
    call: Callable[[], int],
) -> None:
    """Call a function of the library that allocates, a second time if necessary; raise its error.

    Parameters
    ----------
    resource : MemoryResource
        The resource that allocates.
    size : int
        Size in bytes.
    stream : Stream, optional
        The stream of the allocation.
    where : str
        Where the memory is, for the error: "device 0".
    call : callable
        Makes the call, and returns its status.
    """
    status = call()
    if status in _CODES and collect_garbage(resource, stream):
        status = call()
    if status:
        raise explained(last_error(status), resource, size, where)


def explained(error: _Error, resource: MemoryResource, size: int, where: str, max_size: int = 0) -> _Error:
    """Add the requested size to an allocation's error; if no memory is left, also how much there is and what uses it.

    The error of an earlier kernel's fault keeps its own hint, because the allocation did not cause it.
    """
    request = f"{size:,} bytes were requested from {where}"
    if isinstance(error, OutOfMemoryError):
        lines = [request]
        if max_size:
            lines.append(
                f"The limit is the max_size of the pool, {size_text(max_size)}: request less, or create the pool with "
                "a larger max_size"
            )
        error.hint = "\n".join([*lines, memory_report(_device_of(resource))])
    elif not error.hint:
        error.hint = request
    return error


def memory_report(device_id: int | None = None) -> str:
    """Describe the memory of a device, and the pools and the largest buffers of this process, for messages.

    Live objects are found by the garbage collector, so that allocations need not keep a list of them.

    Parameters
    ----------
    device_id : int, optional
        Ordinal of the device; -1 for host memory. Default: the current device.
    """
    if device_id is None:
        out = ffi.new("int *")
        device_id = -1 if lib.cch_current_device(out) else int(out[0])
    lines = []
    if device_id >= 0:
        try:
            free, total = Device(device_id).memory_info
            lines.append(f"Device {device_id} has {size_text(total)}, of which {size_text(free)} are free")
        except (CUDAError, RuntimeError, ValueError):
            pass
    try:
        pools, buffers = _holders(device_id)
    except Exception:  # when the interpreter ends, modules can no longer be imported
        pools, buffers = [], []
    if pools:
        lines.append("Pools of this process:")
        lines += (
            f"  {size_text(kept)}, of which {size_text(used)} are in use: {name}" for kept, used, name in pools[:_SHOWN]
        )
    if buffers:
        more = f", of {len(buffers):,}" if len(buffers) > _SHOWN else ""
        lines.append(f"The largest buffers of this process{more}:")
        lines += (f"  {size_text(size)} at {address:#x}: {name}" for size, address, name in buffers[:_SHOWN])
    return "\n".join([*lines, _ADVICE])


def _holders(device_id: int) -> tuple[list[tuple[int, int, str]], list[tuple[int, int, str]]]:
    """Return (bytes kept, bytes used, name) of pools, and (bytes, address, name) of buffers, the largest first."""
    from cudacore_handles._memory.resource import MemoryResource

    resources: list[Any] = []
    faces: list[Any] = []
    lists: dict[type, list[Any] | None] = {}
    for obj in gc.get_objects():
        kind = type(obj)  # not isinstance(), which would run code of proxies
        if kind not in lists:
            is_buffer = issubclass(kind, _native.BufferHandle)
            lists[kind] = faces if is_buffer else resources if issubclass(kind, MemoryResource) else None
        found = lists[kind]
        if found is not None:
            found.append(obj)
    pools: dict[tuple[type, int], tuple[int, int, str]] = {}
    for resource in resources:
        try:
            key = type(resource), resource._pool._raw  # resources for memory of graphs have other attributes
            if _device_of(resource) == device_id and key not in pools:
                attributes = resource.attributes
                pools[key] = (attributes.reserved_mem_current, attributes.used_mem_current, _pool_name(resource))
        except Exception:  # a closed or unfinished object, or one without a pool, which the report leaves out
            continue
    wholes: dict[int, tuple[int, int, str]] = {}
    for face in faces:
        try:
            box, resource = hold(face), face.memory_resource
            if resource is None or _device_of(resource) != device_id:
                continue
            whole = lib.cch_deviceptr_whole(box)
            where = int(lib.cch_deviceptr_raw(whole))
            wholes[where] = (int(lib.cch_deviceptr_size(whole)), where, _pool_name(resource))
        except Exception:
            continue
    return (
        sorted((pool for pool in pools.values() if pool[0]), reverse=True),
        sorted((whole for whole in wholes.values() if whole[0]), reverse=True),
    )


def name_of(resource: Any) -> str:
    """Describe a memory resource for messages."""
    try:
        return repr(resource)
    except Exception:  # a user's own class, which can raise anything
        return f"<{type(resource).__name__}>"


def _pool_name(resource: Any) -> str:
    """Describe a memory resource, with the handle of its pool, because a device can have many pools."""
    pool = getattr(resource, "_pool", None)
    return name_of(resource) if pool is None else f"{name_of(resource)}, pool {pool._raw:#x}"


def _device_of(resource: MemoryResource) -> int | None:
    try:
        return resource.device_id
    except Exception:  # a user's own class, which can raise anything
        return None


set_memory_report(memory_report)
