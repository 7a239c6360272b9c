# SPDX-License-Identifier: Apache-2.0
"""Contexts: the current context, references to primary contexts, and destruction."""

from __future__ import annotations

from ctypes import c_int, c_size_t, c_uint, c_uint64, c_void_p

from ptx import KERNELS
from recorder import Recorder, bare, sequence


def see_current(cu: Recorder, **known: int) -> None:
    """List which of the given contexts is current."""
    current = cu.new("cuCtxGetCurrent", c_void_p)
    names = [name for name, handle in known.items() if handle == current]
    cu.see("current", "none" if not current else " and ".join(names) or "another")


def create(cu: Recorder, flags: int = 0) -> int:
    """Create a context, which becomes current."""
    return int(cu.prepare("cuCtxCreate_v4", c_void_p, None, flags, 0))


@bare
def none_current(cu: Recorder) -> None:
    """Without a current context, calls that need one return an error."""
    cu.prepare("cuInit", 0)
    see_current(cu)
    cu.call_each(
        ("cuCtxGetDevice", c_int), ("cuCtxGetFlags", c_uint), ("cuCtxGetId", None, c_uint64),
        ("cuCtxGetApiVersion", None, c_uint), ("cuCtxGetLimit", c_size_t, 0), ("cuCtxSetLimit", 0, 1024),
        ("cuCtxSynchronize",), ("cuCtxPopCurrent_v2", c_void_p), ("cuCtxSetCurrent", None),
        ("cuCtxGetStreamPriorityRange", c_int, c_int), ("cuMemAlloc_v2", c_uint64, 16),
        ("cuMemAllocManaged", c_uint64, 16, 1), ("cuMemHostAlloc", c_void_p, 16, 0),
        ("cuMemGetInfo_v2", c_size_t, c_size_t), ("cuMemAllocAsync", c_uint64, 16, None),
        ("cuStreamCreate", c_void_p, 0), ("cuStreamQuery", None), ("cuStreamSynchronize", 1),
        ("cuStreamSynchronize", 2), ("cuEventCreate", c_void_p, 0), ("cuModuleLoadData", c_void_p, KERNELS),
    )  # fmt: skip
    library = cu.new("cuLibraryLoadData", c_void_p, KERNELS, None, None, 0, None, None, 0)
    kernel = cu.new("cuLibraryGetKernel", c_void_p, library, b"nothing")
    cu.call("cuKernelGetFunction", c_void_p, kernel)
    cu.launch(kernel)
    cu.call("cuLibraryUnload", library)
    cu.call("cuProfilerStart")


@bare
def primary_references(cu: Recorder) -> None:
    """A primary context exists as long as it is retained."""
    cu.prepare("cuInit", 0)
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    cu.call("cuDevicePrimaryCtxRelease_v2", 0)
    first = cu.new("cuDevicePrimaryCtxRetain", c_void_p, 0)
    second = cu.new("cuDevicePrimaryCtxRetain", c_void_p, 0)
    cu.see("the same", first == second)
    see_current(cu, primary=first)
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    cu.call("cuDevicePrimaryCtxRelease_v2", 0)
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    cu.call("cuDevicePrimaryCtxRelease_v2", 0)
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    cu.call("cuDevicePrimaryCtxRelease_v2", 0)
    cu.call("cuDevicePrimaryCtxRetain", None, 0)
    cu.call("cuDevicePrimaryCtxGetState", 0, None, c_int)
    cu.call("cuDevicePrimaryCtxGetState", 0, c_uint, None)


@bare
def primary_flags(cu: Recorder) -> None:
    """Flags of the primary context are set before the context exists, and while it exists."""
    cu.prepare("cuInit", 0)
    for flags in (4, 3, 6, 0x80, 0x100, 0x1000, 8, 16, 0):
        cu.call("cuDevicePrimaryCtxSetFlags_v2", 0, flags)
        cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    cu.call("cuDevicePrimaryCtxSetFlags_v2", 0, 4)
    cu.use_primary_context()
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    cu.read("cuCtxGetFlags", c_uint)
    cu.call("cuDevicePrimaryCtxSetFlags_v2", 0, 2)
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    cu.read("cuCtxGetFlags", c_uint)


def use_current(cu: Recorder) -> None:
    """Make calls that need a current context."""
    cu.call("cuStreamCreate", c_void_p, 0)
    cu.call("cuMemAlloc_v2", c_uint64, 16)
    cu.call("cuCtxSynchronize")
    cu.call("cuCtxGetDevice", c_int)
    cu.call("cuCtxGetFlags", c_uint)
    cu.call("cuCtxGetLimit", c_size_t, 0)
    cu.call("cuCtxGetId", None, c_uint64)
    cu.call("cuCtxGetApiVersion", None, c_uint)


def see_released(cu: Recorder, primary: int) -> None:
    """List which calls work while the current context is a primary context that was released."""
    see_current(cu, primary=primary)
    use_current(cu)
    cu.call("cuCtxGetApiVersion", primary, c_uint)


@sequence
def released_while_current(cu: Recorder) -> None:
    """A primary context that was released stays current, and cannot be used."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    cu.call("cuDevicePrimaryCtxRelease_v2", 0)
    see_released(cu, primary)
    cu.call("cuCtxSetCurrent", primary)
    see_current(cu, primary=primary)
    cu.call("cuCtxPushCurrent_v2", primary)
    see_current(cu, primary=primary)
    popped = cu.new("cuCtxPopCurrent_v2", c_void_p)
    cu.see("popped it", popped == primary)
    see_current(cu, primary=primary)
    cu.call("cuCtxSetCurrent", None)
    see_current(cu, primary=primary)
    cu.call("cuCtxSetCurrent", primary)
    see_current(cu, primary=primary)
    cu.call("cuCtxPushCurrent_v2", primary)
    see_current(cu, primary=primary)
    cu.call("cuStreamCreate", c_void_p, 0)


@sequence
def released_and_retained(cu: Recorder) -> None:
    """A thread whose current context is a released primary context can use it again once it is retained again."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    identifier = cu.prepare("cuCtxGetId", primary, c_uint64)
    address = cu.memory(64)
    cu.call("cuDevicePrimaryCtxRelease_v2", 0)
    again = cu.new("cuDevicePrimaryCtxRetain", c_void_p, 0)
    cu.see("the same", again == primary)
    see_current(cu, primary=again)
    cu.call("cuStreamCreate", c_void_p, 0)
    cu.call("cuCtxSynchronize")
    cu.call("cuCtxGetDevice", c_int)
    new = cu.new("cuCtxGetId", None, c_uint64)
    cu.see("a new context", new != identifier)
    cu.call("cuMemFree_v2", address)
    cu.call("cuMemAlloc_v2", c_uint64, 16)
    cu.call("cuCtxSetCurrent", again)
    cu.call("cuStreamCreate", c_void_p, 0)


@sequence
def retained_by_another_thread(cu: Recorder) -> None:
    """A released primary context can be used again on all threads, whichever thread retains it."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    cu.call("cuDevicePrimaryCtxRelease_v2", 0)

    def other() -> None:
        again = cu.new("cuDevicePrimaryCtxRetain", c_void_p, 0)
        cu.see("the same", again == primary)
        see_current(cu, primary=primary)
        cu.call("cuCtxSetCurrent", again)
        cu.call("cuStreamCreate", c_void_p, 0)

    cu.in_thread(other)
    see_current(cu, primary=primary)
    cu.call("cuStreamCreate", c_void_p, 0)
    popped = cu.new("cuCtxPopCurrent_v2", c_void_p)
    cu.see("popped it", popped == primary)
    cu.call("cuCtxPopCurrent_v2", c_void_p)


@sequence
def reset_while_current(cu: Recorder) -> None:
    """A reset destroys the primary context and its objects, but does not release the references to the context."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    address = cu.memory(64)
    cu.call("cuDevicePrimaryCtxReset_v2", 0)
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    see_released(cu, primary)
    cu.call("cuMemFree_v2", address)
    again = cu.new("cuDevicePrimaryCtxRetain", c_void_p, 0)
    cu.see("the same", again == primary)
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    cu.call("cuMemFree_v2", address)
    cu.call("cuStreamCreate", c_void_p, 0)
    for _ in range(3):
        cu.call("cuDevicePrimaryCtxRelease_v2", 0)
        cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)


@bare
def reset_without_references(cu: Recorder) -> None:
    """A primary context that was never retained can be reset."""
    cu.prepare("cuInit", 0)
    cu.call("cuDevicePrimaryCtxReset_v2", 0)
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)


@bare
def create_and_destroy(cu: Recorder) -> None:
    """A new context becomes current, and is no longer current after it is destroyed."""
    cu.prepare("cuInit", 0)
    context = cu.new("cuCtxCreate_v4", c_void_p, None, 0, 0)
    see_current(cu, context=context)
    cu.read("cuCtxGetDevice", c_int)
    cu.read("cuCtxGetFlags", c_uint)
    cu.read("cuDevicePrimaryCtxGetState", 0, c_uint, c_int)
    cu.call("cuCtxDestroy_v2", context)
    see_current(cu, context=context)
    cu.call("cuCtxPopCurrent_v2", c_void_p)
    cu.call("cuCtxDestroy_v2", None)
    cu.call("cuCtxCreate_v4", None, None, 0, 0)
    cu.call("cuCtxCreate_v2", None, 0, 0)


@bare
def create_flags(cu: Recorder) -> None:
    """Contexts are created with flags, including flags that do not exist."""
    cu.prepare("cuInit", 0)
    for flags in (1, 2, 3, 4, 5, 7, 8, 16, 4 | 16, 32, 128, 256, 512, 0x10000):
        if cu.call("cuCtxCreate_v2", c_void_p, flags, 0) == 0:
            cu.read("cuCtxGetFlags", c_uint)
            cu.prepare("cuCtxDestroy_v2", cu.prepare("cuCtxGetCurrent", c_void_p))


@sequence
def flags_of_current(cu: Recorder) -> None:
    """The flags of the current context are set."""
    context = create(cu)
    for flags in (4, 2, 3, 8, 16, 0x1000, 0):
        cu.call("cuCtxSetFlags", flags)
        cu.read("cuCtxGetFlags", c_uint)
    cu.call("cuCtxGetFlags", None)
    cu.call("cuCtxDestroy_v2", context)


@sequence
def destroyed_twice(cu: Recorder) -> None:
    """A context is destroyed a second time, and its handle is used in other calls."""
    context = create(cu)
    cu.call("cuCtxDestroy_v2", context)
    cu.attempt("cuCtxDestroy_v2", context)  # the driver returns one of two codes, depending on timing
    cu.call_each(
        ("cuCtxSetCurrent", context), ("cuCtxPushCurrent_v2", context),
        ("cuCtxGetApiVersion", context, c_uint), ("cuCtxGetId", context, c_uint64),
    )  # fmt: skip


@sequence
def destroyed_on_another_thread(cu: Recorder) -> None:
    """A context that another thread has destroyed stays current on this thread, but cannot be used."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    context = create(cu)
    cu.in_thread(lambda: cu.prepare("cuCtxDestroy_v2", context))
    see_current(cu, primary=primary, context=context)
    use_current(cu)
    cu.call("cuCtxGetStreamPriorityRange", c_int, c_int)
    cu.call("cuCtxSetCurrent", context)
    cu.call("cuCtxPushCurrent_v2", context)
    popped = cu.new("cuCtxPopCurrent_v2", c_void_p)
    cu.see("popped it", popped == context)
    see_current(cu, primary=primary, context=context)
    cu.call("cuStreamCreate", c_void_p, 0)


@sequence
def destroyed_below_the_top(cu: Recorder) -> None:
    """A context that is destroyed while another context is above it on the stack stays on the stack."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    low = create(cu)
    high = create(cu)
    cu.call("cuCtxDestroy_v2", low)
    see_current(cu, primary=primary, low=low, high=high)
    popped = cu.new("cuCtxPopCurrent_v2", c_void_p)
    cu.see("popped high", popped == high)
    see_current(cu, primary=primary, low=low, high=high)
    cu.call("cuStreamCreate", c_void_p, 0)
    popped = cu.new("cuCtxPopCurrent_v2", c_void_p)
    cu.see("popped low", popped == low)
    see_current(cu, primary=primary, low=low, high=high)
    cu.call("cuStreamCreate", c_void_p, 0)


@sequence
def destroyed_where_it_is_twice(cu: Recorder) -> None:
    """A context that is on the stack twice is destroyed: only the entry on top is removed."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    context = create(cu)
    cu.call("cuCtxPushCurrent_v2", context)
    cu.call("cuCtxDestroy_v2", context)
    see_current(cu, primary=primary, context=context)
    cu.call("cuStreamCreate", c_void_p, 0)
    cu.call("cuCtxPopCurrent_v2", c_void_p)
    see_current(cu, primary=primary, context=context)


@sequence
def primary_cannot_be_destroyed(cu: Recorder) -> None:
    """cuCtxDestroy refuses a primary context, which can still be used."""
    primary = cu.prepare("cuCtxGetCurrent", c_void_p)
    cu.call("cuCtxDestroy_v2", primary)
    see_current(cu, primary=primary)
    cu.call("cuStreamCreate", c_void_p, 0)
