# SPDX-License-Identifier: Apache-2.0
"""DLPack in the extension module _native: exported capsules, how long they keep memory, and imported capsules."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from dlpack_producers import (
    CPU,
    Exporter,
    Managed,
    Versioned,
    get_pointer,
    needs_versioned_numpy,
)

from cudacore_handles import Buffer, ClosedError, Device, LegacyPinnedMemoryResource, live_counts
from cudacore_handles._base.errors import check
from cudacore_handles._base.handle import address, hold, out_box
from cudacore_handles._cffi import lib

BOTH = pytest.mark.parametrize("versioned", [False, True], ids=["unversioned", "versioned"])
BOTH_WITH_NUMPY = pytest.mark.parametrize(
    "versioned", [False, pytest.param(True, marks=needs_versioned_numpy)], ids=["unversioned", "versioned"]
)

get_name = ctypes.pythonapi.PyCapsule_GetName
get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
set_name = ctypes.pythonapi.PyCapsule_SetName
set_name.restype, set_name.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]

DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # ctypes releases the GIL while it calls such a function
USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}


class Owner:
    """The owner of foreign memory."""

    def __init__(self, size: int) -> None:
        self.array = np.arange(size, dtype=np.int8)

    @property
    def ptr(self) -> int:
        return int(self.array.ctypes.data)


def structure(capsule: object) -> Any:
    """Return the structure in a capsule that was not consumed."""
    name = get_name(capsule)
    kind = Versioned if name == b"dltensor_versioned" else Managed
    return kind.from_address(get_pointer(capsule, name))


def export_buffer(buffer: Buffer, versioned: bool) -> object:
    """Return the capsule of a buffer."""
    return buffer.__dlpack__(max_version=(1, 0) if versioned else None)


def export(array: Any, versioned: bool) -> Any:
    """Return the capsule of a NumPy array."""
    return array.__dlpack__(max_version=(1, 0)) if versioned else array.__dlpack__()


def gone(alive: Any) -> bool:
    """Return whether an object was destroyed, or will be at the interpreter's next safe point, a few calls later."""
    return any(alive() is None for _ in range(100))


def wrap(owner: Owner) -> Buffer:
    return Buffer.from_handle(owner.ptr, owner.array.size, owner=owner)


@pytest.fixture
def foreign(device: Device) -> Iterator[tuple[Buffer, weakref.ref[Owner]]]:
    """Give 16 bytes of host memory, 0 to 15, and a weak reference to their owner, which only the memory keeps."""
    owner = Owner(16)
    memory, alive = wrap(owner), weakref.ref(owner)
    del owner
    yield memory, alive
    memory.close()


@BOTH
def test_fields(foreign: tuple[Buffer, Any], versioned: bool) -> None:
    """A consumer would misread the memory if a field of the structure were at a wrong offset."""
    memory, _ = foreign
    capsule = export_buffer(memory, versioned)
    assert get_name(capsule) == (b"dltensor_versioned" if versioned else b"dltensor")
    managed = structure(capsule)
    if versioned:
        assert (managed.major, managed.minor, managed.flags) == (1, 0, 0)
    tensor = managed.tensor
    assert (tensor.data, tensor.device_type, tensor.device_id, tensor.byte_offset) == (memory.handle, CPU, 0, 0)
    assert (tensor.ndim, tensor.shape[0], tensor.strides[0]) == (1, 16, 1)
    assert (tensor.code, tensor.bits, tensor.lanes) == (0, 8, 1)


def test_an_empty_tensor_has_no_address(device: Device) -> None:
    """A tensor of size 0 would have an address other than NULL, which consumers would treat as memory."""
    tensor = structure(export_buffer(LegacyPinnedMemoryResource().allocate(16)[8:8], True)).tensor
    assert tensor.data is None
    assert tensor.shape[0] == 0


@BOTH_WITH_NUMPY
@pytest.mark.parametrize("consumed", [False, True], ids=["unused", "consumed"])
def test_a_tensor_keeps_the_memory(foreign: tuple[Buffer, Any], versioned: bool, consumed: bool) -> None:
    """Memory would be freed while a capsule or a consumer's array uses it, or leak with them."""
    memory, alive = foreign
    holder: Any = export_buffer(memory, versioned)
    if consumed:
        capsule, holder = holder, np.from_dlpack(Exporter(holder))
        assert get_name(capsule) == USED[versioned]
        del capsule
        assert (holder.dtype, holder.tolist()) == (np.int8, list(range(16)))
    memory.close()
    gc.collect()
    assert alive() is not None
    del holder
    assert gone(alive)


@BOTH
def test_the_deleter_runs_on_any_thread_without_the_gil(foreign: tuple[Buffer, Any], versioned: bool) -> None:
    """A deleter that touched Python would crash in a consumer's own thread."""
    memory, alive = foreign
    capsule = export_buffer(memory, versioned)
    managed = structure(capsule)
    deleter, tensor = DELETER(managed.deleter), ctypes.addressof(managed)
    assert set_name(capsule, USED[versioned]) == 0
    memory.close()
    del capsule
    assert alive() is not None
    thread = threading.Thread(target=deleter, args=(tensor,))
    thread.start()
    thread.join()
    assert alive() is None


@BOTH
def test_a_pending_exception_survives(device: Device, versioned: bool) -> None:
    """If an export ends while an exception is pending, the owner's finalizer would replace the exception."""
    released = []

    class Noted(Owner):
        def __del__(self) -> None:
            released.append(self.array.tolist())

    def last_reference() -> Any:
        memory = wrap(Noted(4))
        return export_buffer(memory, versioned)

    # The interpreter drops the argument of len() while the exception of len() is pending.
    with pytest.raises(TypeError, match="has no len"):
        len(last_reference())
    assert released == [[0, 1, 2, 3]]


@BOTH_WITH_NUMPY
def test_pinned_memory_waits_for_a_safe_point(device: Device, versioned: bool) -> None:
    """When a consumer drops an array, with the GIL held, a free that waits for the device could deadlock."""
    lib.cch_reclaim_drain()
    live, pending = live_counts()["deviceptr"], lib.cch_reclaim_pending()
    memory = LegacyPinnedMemoryResource().allocate(64)
    array = np.from_dlpack(Exporter(export_buffer(memory, versioned)))
    memory.close()
    del array
    assert lib.cch_reclaim_pending() == pending + 1
    assert live_counts()["deviceptr"] == live + 1
    LegacyPinnedMemoryResource().allocate(64).close()
    assert lib.cch_reclaim_pending() == pending
    assert live_counts()["deviceptr"] == live


def test_pool_memory_is_freed_at_once(device: Device) -> None:
    """The free of pool memory would be postponed, and memory of a consumer's dropped arrays would accumulate."""
    live = live_counts()["deviceptr"]
    stream = device.create_stream()
    memory = device.allocate(64, stream=stream)
    capsule = export_buffer(memory, True)
    managed = structure(capsule)
    set_name(capsule, USED[True])
    memory.close()
    assert live_counts()["deviceptr"] == live + 1
    DELETER(managed.deleter)(ctypes.addressof(managed))
    assert live_counts()["deviceptr"] == live


@pytest.mark.parametrize("drop", ["array", "capsule"])
@pytest.mark.parametrize(
    "resource",
    ["LegacyPinnedMemoryResource()", "VirtualMemoryResource(device, {'location_type': 'host', 'handle_type': None})"],
)
def test_dropping_a_tensor_does_not_deadlock_with_a_host_function(
    run_on_driver: Callable[..., str], resource: str, drop: str
) -> None:
    """The free of host memory would wait, with the GIL held, for a host function that waits for the GIL."""
    run_on_driver(f"""
        import ctypes, threading, time
        import numpy as np
        from cuda.bindings import driver
        from cudacore_handles import Device, LegacyPinnedMemoryResource, VirtualMemoryResource

        device = Device()
        device.set_current()
        stream = device.create_stream()
        buffer = {resource}.allocate(64, stream=stream)
        capsule = array = None
        if {drop!r} == "array":
            array = np.from_dlpack(buffer)
        else:
            capsule = buffer.__dlpack__()
        started, ran = threading.Event(), []

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def host_function(_):
            started.set()
            time.sleep(0.5)  # without the GIL, which it then needs back
            ran.append(1)

        address = ctypes.cast(host_function, ctypes.c_void_p).value
        result, = driver.cuLaunchHostFunc(stream.handle, driver.CUhostFn(address), 0)
        assert result == 0, result
        buffer.close()
        started.wait()
        del array, capsule
        stream.sync()
        assert ran == [1]
    """)


@needs_versioned_numpy
def test_interpreter_exit_with_tensors_alive(run_on_driver: Callable[..., str]) -> None:
    """A deleter that runs during or after the interpreter's shutdown would crash or print a warning."""
    run_on_driver("""
        import ctypes, gc
        import numpy as np
        from cudacore_handles import Buffer

        memory = np.zeros(64, dtype=np.int8)
        buffer = Buffer.from_handle(memory.ctypes.data, 64, owner=memory)

        class Exporter:
            def __dlpack__(self, **_):
                return make()

            def __dlpack_device__(self):
                return (1, 0)

        def make():
            return buffer.__dlpack__(max_version=(1, 0))

        capsule, array = make(), np.from_dlpack(Exporter())
        cycle = [make(), np.from_dlpack(Exporter())]
        cycle.append(cycle)

        # A tensor whose consumer lets go of it when the C library ends the process.
        late = make()
        api = ctypes.pythonapi
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
        tensor = api.PyCapsule_GetPointer(late, b"dltensor_versioned")
        api.PyCapsule_SetName(late, b"used_dltensor_versioned")
        deleter = ctypes.c_void_p.from_address(tensor + 16)
        assert ctypes.CDLL(None).__cxa_atexit(deleter, ctypes.c_void_p(tensor), None) == 0
    """)


class Closes(LegacyPinnedMemoryResource):
    """A memory resource that closes its buffer when a property is read, as another thread could do."""

    buffer: Buffer

    @property
    def is_host_accessible(self) -> bool:
        self.buffer.close()
        return True


def test_a_buffer_that_is_closed_meanwhile(device: Device) -> None:
    """A tensor would be exported without its memory, or with a wrong size."""
    resource = Closes()
    out = out_box("cch_deviceptr")
    check(lib.cch_deviceptr_part(out, hold(LegacyPinnedMemoryResource().allocate(8)), 0, 8))
    buffer = resource.buffer = Buffer._adopt_memory(address(out), resource, None)
    with pytest.raises(ClosedError):
        buffer.__dlpack__()
