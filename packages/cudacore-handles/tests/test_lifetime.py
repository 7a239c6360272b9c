# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

# The beginning of the child programs. `counts` must be the same at the end as at the beginning.
BEGIN = """
import gc, itertools, random, sys, threading, weakref
import cudacore_handles as ch
from child_setup import counts, device, one_block
from kernel_sources import PTX

begin = counts()
"""


@pytest.fixture
def run(run_on_driver: Callable[..., str]) -> Callable[[str], str]:
    """Give a function that runs code in a new process. No live object may be left at the end."""
    return lambda code: run_on_driver(f"{BEGIN}\n{code}\nassert counts() == begin, (begin, counts())\n")


def test_collected_in_a_host_function(run: Callable[[str], str]) -> None:
    """Objects that a garbage collection destroys in a host function, where CUDA calls are forbidden, would leak."""
    run("""
import ctypes
from cuda.bindings import driver

def make():
    stream = device.create_stream()
    garbage = [stream, device.create_event(), device.allocate(64, stream=stream), ch.ObjectCode.from_ptx(PTX)]
    garbage += [ch.LegacyPinnedMemoryResource().allocate(64), garbage]

@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def host_function(_):
    collected.append(gc.collect())

collected, stream = [], device.create_stream()
gc.disable()
make()
(result,) = driver.cuLaunchHostFunc(stream.handle, ctypes.cast(host_function, ctypes.c_void_p).value, 0)
assert result == 0, result
stream.sync()
gc.enable()
assert collected and collected[0] > 0
del stream
""")


def test_memory_resources_do_not_free_in_host_functions(run: Callable[[str], str]) -> None:
    """A memory resource would be called where no CUDA call is permitted, and the memory would be lost."""
    run("""
import ctypes, time
from cuda.bindings import driver
from cudacore_handles._base.handle import hold

class Pooled(ch.MemoryResource):
    def deallocate(self, ptr, size, *, stream):
        device.allocate(size, stream=stream).close()
        freed.append(inside)

def last_reference_goes_elsewhere():
    time.sleep(0.2)  # the main thread waits in a call that holds no GIL: it cannot free either
    global pointer
    del pointer
    go.set()

@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def host_function(_):
    global inside
    go.wait()
    inside = True
    event.close()  # releases what is queued, if that is possible
    inside = False

freed, inside, go = [], False, threading.Event()
stream, event = device.create_stream(), device.create_event()
buffer = ch.Buffer.from_handle(4096, 64, mr=Pooled(), stream=device.create_stream())
pointer = hold(buffer)
buffer.close()
thread = threading.Thread(target=last_reference_goes_elsewhere)
thread.start()
(result,) = driver.cuLaunchHostFunc(stream.handle, ctypes.cast(host_function, ctypes.c_void_p).value, 0)
assert result == 0, result
stream.sync()
thread.join()
device.create_event().close()
assert freed == [False], freed
del stream
""")


def test_every_order(run: Callable[[str], str]) -> None:
    """In some order of destruction, an object would be destroyed before the objects that need it."""
    run("""
def make():
    stream = device.create_stream()
    pool = ch.DeviceMemoryResource(0, ch.DeviceMemoryResourceOptions())
    buffer = pool.allocate(64, stream=stream)
    code = ch.ObjectCode.from_ptx(PTX)
    kernel = code.get_kernel("add")
    buffer.fill(0, stream=stream)
    ch.launch(stream, one_block, kernel, buffer, 1)
    prepared = kernel.prepare(stream, one_block, buffer, 1)
    return {
        "stream": stream, "pool": pool, "buffer": buffer, "code": code, "kernel": kernel, "prepared": prepared,
        "event": stream.record(), "context": stream.context, "twin": ch.Stream.from_handle(int(stream.handle)),
    }

rng = random.Random(1)
names = list(make())
for i in range(60):
    made = make()
    rng.shuffle(names)
    for name in names:
        thing = made.pop(name)
        # Closed, dropped, or closed and dropped; here or on another thread.
        if hasattr(thing, "close") and rng.random() < 0.5:
            thing.close()
        if rng.random() < 0.2:
            holder = [thing]
            del thing
            thread = threading.Thread(target=holder.clear)
            thread.start()
            thread.join()
        else:
            del thing
""")


def test_garbage_cycles(run: Callable[[str], str]) -> None:
    """Objects that the garbage collector destroys would be freed in an order that crashes, or never."""
    run("""
class Node:
    pass

class Owner:
    pass

for i in range(20):
    node = Node()
    node.me = node
    node.stream = device.create_stream()
    node.buffer = device.allocate(64, stream=node.stream)
    node.pinned = ch.LegacyPinnedMemoryResource().allocate(64, stream=node.stream)
    node.view = node.pinned.__buffer__()
    node.kernel = ch.ObjectCode.from_ptx(PTX).get_kernel("nothing")
    node.prepared = node.kernel.prepare(node.stream, one_block)
    node.event = node.stream.record()
    owner = Owner()
    owner.node = node
    node.owned = ch.Buffer.from_handle(4096, 0, owner=weakref.proxy(owner))
del node, owner
""")


def test_use_in_del(run: Callable[[str], str]) -> None:
    """Objects that are used while they are collected would crash, or deadlock with the collector."""
    run("""
freed = []

class Worker:
    def __init__(self):
        self.me = self
        self.stream = device.create_stream()
        self.buffer = device.allocate(64, stream=self.stream)

    def __del__(self):
        self.buffer.fill(1, stream=self.stream)
        self.stream.sync()
        device.allocate(64, stream=self.stream).close()
        freed.append(self.buffer.size)

for i in range(10):
    Worker()
gc.collect()
assert freed == [64] * 10
""")


def test_owners_that_use_cuda_when_they_go(run: Callable[[str], str]) -> None:
    """An owner whose finalizer uses CUDA would deadlock, or run with a wrong current context."""
    run("""
class Owner:
    def __init__(self):
        self.stream = device.create_stream()
        self.memory = device.allocate(64, stream=self.stream)

    def __del__(self):
        self.memory.close()
        self.stream.sync()
        self.stream.close()
        freed.append(ch.Device() is device)

class Pooled(ch.MemoryResource):
    def deallocate(self, ptr, size, *, stream):
        device.allocate(size, stream=stream).close()
        stream.sync()
        freed.append(ptr)

freed = []
ch.Buffer.from_handle(4096, 64, owner=Owner()).close()
ch.Buffer.from_handle(8192, 64, mr=Pooled(), stream=device.create_stream()).close()
thread = threading.Thread(target=ch.Buffer.from_handle(4096, 64, owner=Owner()).close)
thread.start()
thread.join()
assert freed == [True, 8192, True]
""")


def test_errors_in_an_owners_clean_up(run: Callable[[str], str]) -> None:
    """Failures while an owner cleans up would be lost, or replace the program's own error."""
    run("""
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._base.errors import check

class Failing(ch.MemoryResource):
    def deallocate(self, ptr, size, *, stream):
        try:
            check(lib.cch_kernel_wrap(ffi.new("cch_kernel **"), ffi.NULL, ffi.NULL, ffi.NULL, ffi.NULL))
        except ch.CUDAError as error:
            seen.append(str(error))

seen = []
buffer = ch.Buffer.from_handle(4096, 64, mr=Failing())
status = lib.cch_stream_create(ffi.new("cch_stream **"), ffi.NULL, 0, 0)
buffer.close()  # between a failure and the look at it, as the collector may
error = lib.cch_error_last()
assert (error.code, ffi.string(error.operation)) == (status, b"cch_stream_create"), ffi.string(error.operation)
assert seen == ["cch_kernel_wrap: CCH_EINVAL (-2): the argument raw is NULL"], seen
""")


def test_an_owner_whose_del_raises(run: Callable[[str], str]) -> None:
    """An error in an owner's clean-up would be lost, or abort the process."""
    run("""
class Owner:
    def __del__(self):
        raise LookupError("lost")

seen = []
sys.unraisablehook = lambda args: seen.append(str(args.exc_value))
ch.Buffer.from_handle(4096, 64, owner=Owner()).close()
assert seen == ["lost"], seen
""")


@pytest.mark.parametrize("current", ["another device's", "none"])
def test_what_is_current_when_things_go(run_on_sim: Callable[..., str], current: str) -> None:
    """Destruction would need the object's context to be current, or leave another context current."""
    run_on_sim(f"""{BEGIN}
_ = ch.Device(1).context  # is made at first use and stays
begin, alive = counts(), sim.live()
stream = device.create_stream()
things = [
    stream, device.create_event(), device.allocate(64, stream=stream), ch.LegacyPinnedMemoryResource().allocate(64),
    ch.LegacyPinnedMemoryResource().allocate(64, stream=stream), ch.ObjectCode.from_ptx(PTX).get_kernel("add"),
    device.allocate(64, stream=ch.LEGACY_DEFAULT_STREAM),
]

def drop():
    if {current!r} != "none":
        ch.Device(1).set_current()
    before = current()
    while things:
        things.pop()
        assert current() == before

def current():
    import ctypes
    out = ctypes.c_void_p()
    assert sim.load().cuCtxGetCurrent(ctypes.byref(out)) == 0
    return out.value

del stream
thread = threading.Thread(target=drop)
thread.start()
thread.join()
assert not things
assert counts() == begin
assert sim.live() == alive
""")


@pytest.mark.parametrize(
    ("make", "call"),
    [
        ("device.create_stream()", "cuStreamDestroy"),
        ("device.create_event()", "cuEventDestroy"),
        ("device.allocate(64, stream=ch.LEGACY_DEFAULT_STREAM)", "cuMemFreeAsync"),
        ("ch.LegacyPinnedMemoryResource().allocate(64)", "cuMemFreeHost"),
        ("ch.DeviceMemoryResource(0, ch.DeviceMemoryResourceOptions())", "cuMemPoolDestroy"),
        ("ch.ObjectCode.from_ptx(PTX).get_kernel('add')", "cuLibraryUnload"),
    ],
)
def test_a_failure_in_a_destructor_is_reported_once(run_python: Callable[..., Any], make: str, call: str) -> None:
    """A failed free would not be reported, would flood stderr, or would abort the process."""
    result = run_python(
        f"""{BEGIN}
import cudacore_sim as sim
for i in range(3):
    thing = {make}
    sim.fail("{call}", 1, 999)
    del thing
assert counts() == begin
again = {make}
""",
        CUDACORE_DRIVER="sim",
        CUDACORE_SIM_REPORTS="0",  # no reports, because objects are left in the context at the end
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines() == [
        f"cudacore: {call} failed while an object was being destroyed: CUDA_ERROR_UNKNOWN: unknown error"
    ]


def test_the_driver_goes_first(run_on_sim: Callable[..., str]) -> None:
    """Objects that outlive the driver at the end of a process would be reported as failures."""
    code = f"""{BEGIN}
stream, event = device.create_stream(), device.create_event()
sim.fail("cuStreamDestroy", 1, 4)  # CUDA_ERROR_DEINITIALIZED
sim.fail("cuEventDestroy", 1, 709)  # CUDA_ERROR_CONTEXT_IS_DESTROYED
del stream, event
"""
    run_on_sim(code, CUDACORE_SIM_REPORTS="0")  # no reports, because the stream and the event are left


def test_an_address_that_is_used_again(run: Callable[[str], str]) -> None:
    """Wrapping a handle would return an earlier object whose handle had the same address."""
    run("""
for i in range(200):
    stream = device.create_stream(options=ch.StreamOptions(nonblocking=bool(i % 2), priority=-(i % 3)))
    twin = ch.Stream.from_handle(int(stream.handle))
    old = stream
    assert (twin.is_nonblocking, twin.priority) == (bool(i % 2), -(i % 3))
    assert twin == stream
    stream.close()
    assert twin != old
    twin.sync()
    del twin, stream, old
""")


def test_memory_in_use_by_a_queued_kernel(run: Callable[[str], str]) -> None:
    """Memory that is dropped right after a launch would be freed while the kernel uses it."""
    run("""
stream = device.create_stream()
kernel = ch.ObjectCode.from_ptx(PTX).get_kernel("add")
for i in range(50):
    buffer = device.allocate(4, stream=stream)
    buffer.fill(0, stream=stream)
    ch.launch(stream, one_block, kernel, buffer, 1)
    del buffer
stream.sync()
del stream, kernel
""")
