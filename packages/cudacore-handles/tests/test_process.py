# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

from threads_at_once import GIL

BEGIN = """
import atexit, gc, os, sys, threading
import cudacore_handles as ch
from kernel_sources import PTX

one_block = ch.LaunchConfig(grid=1, block=1)


def use_everything():
    "Make one of each, in use, and return them all."
    device = ch.Device(0)
    device.set_current()
    stream = device.create_stream()
    buffer = device.allocate(64, stream=stream)
    pinned = ch.LegacyPinnedMemoryResource().allocate(64, stream=stream)
    kernel = ch.ObjectCode.from_ptx(PTX).get_kernel("add")
    buffer.fill(0, stream=stream)
    ch.launch(stream, one_block, kernel, buffer, 1)
    prepared = kernel.prepare(stream, one_block, buffer, 1)
    prepared()
    owned = ch.Buffer.from_handle(4096, 0, owner=Owner())
    mapped = [ch.Buffer.from_handle(4096, 0, mr=Memory(), stream=stream), ch.Buffer.from_handle(4096, 0, mr=Memory())]
    return [device, stream, buffer, pinned, pinned.__buffer__(), kernel, prepared, stream.record(), owned, *mapped,
            device.context, ch.DeviceMemoryResource(0, ch.DeviceMemoryResourceOptions()), buffer.__dlpack_device__()]


class Owner:
    pass


class Memory(ch.MemoryResource):
    def deallocate(self, ptr, size, *, stream):
        stream.sync()


class Loud(ch.MemoryResource):
    def deallocate(self, ptr, size, *, stream):
        os.write(1, b"freed %d. " % ptr)


def in_child(function, leave=sys.exit):
    "Call a function in a forked child, which then ends as a program does."
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        function()
        leave(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status


def forked():
    "In a child, try operations with the objects of its parent, and release these."
    device, stream, buffer, pinned, view, kernel, prepared, event = alive[:8]
    uses = [
        device.sync, device.create_stream, device.create_event, device.set_current, lambda: ch.Device(), stream.sync,
        stream.record, event.sync, lambda: event.is_done, lambda: buffer.fill(1, stream=stream), prepared,
        lambda: device.allocate(64, stream=stream), lambda: ch.launch(stream, one_block, kernel, buffer, 1),
        lambda: buffer.copy_to(pinned, stream=stream), lambda: stream.wait(event), ch.Device.get_all_devices,
        lambda: ch.ObjectCode.from_ptx(PTX).get_kernel("add"), lambda: ch.LegacyPinnedMemoryResource().allocate(64),
    ]
    for i, use in enumerate(uses):
        try:
            use()
        except ch.CUDAError as error:
            assert error.code_name == "CCH_EFORKED", (i, error)
            assert "multiprocessing's 'spawn' method" in str(error), (i, error)
        else:
            raise AssertionError(f"use {i} went through")
    for thing in alive[1:]:
        if hasattr(thing, "close"):
            thing.close()
    alive.clear()
    gc.collect()
"""


@pytest.fixture
def run(run_on_driver: Callable[..., str]) -> Callable[..., str]:
    """Give a function that runs code after the beginning in a new process."""
    return lambda code, **env: run_on_driver(BEGIN + code, **env)


# Ways to keep objects alive until the interpreter ends.
AT_EXIT = {
    "in a global": "alive = use_everything()",
    "in a cycle": "alive = use_everything(); alive.append(alive); del alive",
    "in a module": "sys.modules['somewhere'] = use_everything()",
    "in a class": "class Keeper: alive = use_everything()",
    "in a builtin": "import builtins; builtins.alive = use_everything()",
    "in an atexit function": "alive = use_everything(); atexit.register(lambda: alive[1].sync())",
    "in an object with __del__": """
class Late:
    def __init__(self): self.alive = use_everything()
    def __del__(self):
        try:
            self.alive[1].sync()
            self.alive[2].close()
        except (TypeError, AttributeError, ch.CUDAError):
            pass  # the interpreter has taken modules apart
late = Late()
late.me = late
""",
    "in a thread that has ended": """
local = threading.local()
def work(): local.alive = use_everything()
thread = threading.Thread(target=work)
thread.start()
thread.join()
""",
    "in a daemon thread that waits": """
ready, never = threading.Event(), threading.Event()
def work():
    alive = use_everything()
    ready.set()
    never.wait()
threading.Thread(target=work, daemon=True).start()
ready.wait()
""",
    "in a daemon thread that works": """
ready = threading.Event()
def work():
    while True:
        alive = use_everything()
        alive[1].sync()
        ready.set()
threading.Thread(target=work, daemon=True).start()
ready.wait()
""",
    "in a suspended generator": """
def generate():
    alive = use_everything()
    try:
        yield
    finally:
        alive[1].sync()
generator = generate()
next(generator)
""",
    "when it is left by sys.exit": "alive = use_everything(); sys.exit(0)",
    "when nothing was used": "",
}


@pytest.mark.parametrize("where", AT_EXIT)
def test_exit_with_live_objects(run: Callable[..., str], where: str) -> None:
    """A program would crash at exit, hang, fail, or print something unexpected."""
    run(AT_EXIT[where], MALLOC_PERTURB_="170")  # freed memory is overwritten


def test_owners_are_left_alone_at_the_end(run: Callable[..., str]) -> None:
    """A clean-up function in Python would be called while the interpreter shuts down."""
    out = run("""
import builtins

class Keeper:
    pass

alive = [ch.Buffer.from_handle(ptr, 0, mr=Loud(), stream=ch.LEGACY_DEFAULT_STREAM) for ptr in range(1, 6)]
alive.pop(0)
builtins.alive = alive.pop()
sys.modules["somewhere"] = alive.pop()
Keeper.alive = alive.pop()
Keeper.me = Keeper()
""")
    assert out == "freed 1. "


# ---- fork


def test_a_garbage_collection_in_the_middle(run_on_sim: Callable[..., str]) -> None:
    """A finalizer that calls Device() or Host() while such an object is being created would wait forever."""
    run_on_sim("""
import gc, itertools
import cudacore_handles as ch

numbers = itertools.count(1000)
gc.callbacks.append(lambda *_: (ch.Host(next(numbers)), ch.Device(1)))  # called where finalizers are
gc.set_threshold(1)
for number in range(100):
    assert ch.Host(number) is ch.Host(number)
    assert ch.Device(number % 2) is ch.Device(number % 2)
gc.callbacks.clear()
""")


def test_a_garbage_collection_in_the_first_use_of_a_type(run_on_driver: Callable[..., str]) -> None:
    """A finalizer that uses a C type while cffi completes it would end the process: SIGABRT."""
    run_on_driver("""
import gc, os
import cudacore_handles
from cudacore_handles._cffi import ffi, lib

def of_its_own(name):
    return lambda: ffi.new(name)

uses = [of_its_own(f"{name} *") for name in (
    "cch_error", "cch_code", "cch_node_spec", "cch_kernel_node", "cch_report_fn", "cch_graph *", "cch_resource",
)]
uses += [lambda: lib.cch_error_last().code, lambda: ffi.callback("cch_search_fn", int)]

gc.collect()
gc.freeze()

def in_child(use, threshold):  # types are completed once in a process
    hold = [{} for _ in range(300)], [(i,) for i in range(3000)]  # what is allocated is new
    gc.freeze()
    gc.callbacks.append(lambda phase, info: use())
    gc.set_threshold(threshold)
    use()
    os._exit(0)

for use in uses:
    for threshold in range(1, 13):
        child = os.fork()
        if child == 0:
            in_child(use, threshold)
        assert os.waitpid(child, 0)[1] == 0, threshold
""")


def test_fork_after_another_library_has_used_cuda(run_on_driver: Callable[..., str]) -> None:
    """A child of a process in which NVRTC has initialised CUDA would only say that CUDA is not initialised."""
    out = run_on_driver("""
import ctypes, os
import cudacore_handles as ch
assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
child = os.fork()
if child == 0:
    for _ in range(2):
        try:
            ch.Device()
        except ch.CUDAError as error:
            print(error.code_name, error, flush=True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
ch.Device()
""")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["CCH_EFORKED"] * 2
    assert all("before this process was forked" in line and "spawn" in line for line in lines)


def test_use_after_fork(run: Callable[..., str]) -> None:
    """A forked child that uses CUDA would crash or hang, or free objects of its parent."""
    run("""
alive = use_everything()
before = ch.live_counts()
in_child(forked)
in_child(lambda: None)  # with everything alive
in_child(lambda: in_child(forked))  # a grandchild

# The parent has all that it had.
device, stream, buffer, pinned, view, kernel, prepared, event = alive[:8]
prepared()
buffer.copy_to(pinned, stream=stream)
stream.sync()
assert ch.live_counts() == before
""")


def test_fork_on_a_thread(run_on_driver: Callable[..., str]) -> None:
    """In the child of another thread's fork, which is its main thread, Ctrl+C would be delayed by waits."""
    run_on_driver("""
import os, threading
from cudacore_handles._native import call_interruptibly

def is_main():
    return call_interruptibly(threading.get_native_id) != threading.get_native_id()

def fork():
    assert not is_main()
    child = os.fork()
    if child == 0:
        os._exit(0 if is_main() else 1)
    results.append(os.waitpid(child, 0)[1])

results = []
assert is_main()
thread = threading.Thread(target=fork)
thread.start()
thread.join()
assert results == [0], results
""")


def test_fork_before_the_first_use(run: Callable[..., str]) -> None:
    """A child that was forked before its parent used CUDA could not use CUDA."""
    run("""
in_child(use_everything)
in_child(use_everything)
use_everything()
""")


def test_fork_while_threads_work(run: Callable[..., str]) -> None:
    """A forked child would wait forever for a lock that a thread of its parent held."""
    run("""
done = threading.Event()

def work():
    while not done.is_set():
        use_everything()

alive = use_everything()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(10):
    in_child(forked, os._exit)  # the driver's own locks are not ours to open
done.set()
for thread in threads:
    thread.join()
""")


# ---- spawn


def test_spawned_worker_processes(run: Callable[..., str]) -> None:
    """A worker process could not use CUDA, or could not use the code and the device that were sent to it."""
    run("""
import multiprocessing

def work(device, code, config, amount):
    device.set_current()
    stream = device.create_stream()
    kernel = code.get_kernel("plus")
    out = ch.LegacyPinnedMemoryResource().allocate(4)
    ch.launch(stream, config, kernel, out, amount)
    stream.sync()
    return device, code, config, amount

if __name__ == "__main__":
    alive = use_everything()
    code = ch.ObjectCode.from_ptx(PTX, name="k", symbol_mapping={"plus": "add"})
    code.get_kernel("plus")  # loaded
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        answers = pool.starmap(work, [(alive[0], code, one_block, amount) for amount in (1, 2)])
    for amount, (device, twin, config, was) in zip((1, 2), answers):
        assert device is alive[0]
        assert (twin.code, twin.name, twin.symbol_mapping) == (code.code, code.name, code.symbol_mapping)
        assert (config, was) == (one_block, amount)
""")


# ---- several interpreters, and the order of shutdown

INTERPRETERS = """
try:
    import _interpreters as interpreters
    create = lambda: interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    create = lambda: interpreters.create(isolated=False)

def run(code):
    other = create()
    try:
        failure = interpreters.run_string(other, code)
    finally:
        interpreters.destroy(other)
    assert failure is None, failure
"""

needs_interpreters = pytest.mark.skipif(
    not GIL or not any(importlib.util.find_spec(name) for name in ("_interpreters", "_xxsubinterpreters")),
    reason="needs a Python that makes interpreters, with a GIL",
)

RESOURCES = """
import cudacore_handles as ch, os

class Loud(ch.MemoryResource):
    def deallocate(self, ptr, size, *, stream):
        ch.Device().allocate(size, stream=stream).close()
        os.write(1, b"freed %d. " % ptr)

class Owner:
    def __del__(self):
        os.write(1, b"released. ")
"""

IN_ANOTHER = f"""
import sys, types
import cudacore_handles as ch

module = types.ModuleType("resources")
exec({RESOURCES!r}, module.__dict__)
sys.modules["resources"] = module

device = ch.Device()
device.set_current()
stream = device.create_stream()
closed = ch.Buffer.from_handle(1, 8, mr=module.Loud(), stream=stream)
closed.close()
alive = ch.Buffer.from_handle(2, 8, mr=module.Loud(), stream=stream)
owned = ch.Buffer.from_handle(3, 8, owner=module.Owner())
mine = device.allocate(8, stream=stream)
event = stream.record()
"""


@needs_interpreters
def test_an_interpreter_that_ends_loses_nothing(run: Callable[..., str]) -> None:
    """Memory of a second interpreter would leak, or the interpreter's end would count as the end of the process."""
    out = run(
        INTERPRETERS
        + f"""
freed = []
class Mine(ch.MemoryResource):
    def deallocate(self, ptr, size, *, stream):
        freed.append(ptr)

alive = use_everything()
before = ch.live_counts()
for _ in range(3):
    run({IN_ANOTHER!r})
    os.write(1, b"ended. ")
    ch.Buffer.from_handle(7, 0, mr=Mine()).close()  # this interpreter's owners are still released
assert freed == [7, 7, 7], freed
alive[0].sync()
assert ch.live_counts() == before, (before, ch.live_counts())
"""
    )
    parts = out.split("ended. ")
    assert len(parts) == 4
    for part in parts[:3]:
        assert sorted(part.split(". ")[:-1]) == ["freed 1", "freed 2", "released"], out


@needs_interpreters
def test_boxes_that_outlive_their_interpreter(run: Callable[..., str]) -> None:
    """Releasing an object after an interpreter has ended would call into freed memory."""
    run(
        INTERPRETERS
        + """
from cudacore_handles._cffi import ffi, lib
reading, writing = os.pipe()
run(f'''
import cudacore_handles as ch, os
from cudacore_handles._base.handle import address, hold
from cudacore_handles._cffi import lib
class Memory(ch.MemoryResource):
    deallocate = os._exit  # a function that knows nothing of this interpreter
ch.Device().set_current()
buffers = [ch.Buffer.from_handle(8, 8, mr=Memory()), ch.Buffer.from_handle(8, 8, owner=object())]
os.write({writing}, b" ".join(b"%d" % address(lib.cch_ref(hold(buffer))) for buffer in buffers))
''')
for address in os.read(reading, 100).split():
    lib.cch_unref(ffi.cast("void *", int(address)))
gc.collect()
assert ch.live_counts()["deviceptr"] == 0, ch.live_counts()
"""
    )


def test_functions_at_exit_that_are_older_than_the_import(run_on_driver: Callable[..., str]) -> None:
    """Objects that an atexit function releases would leak if the function was registered before the import."""
    out = run_on_driver("""
import atexit, os

def at_exit():
    for buffer in buffers:
        buffer.close()
    stream.sync()
    with device.allocate(64, stream=stream) as buffer:
        buffer.fill(1, stream=stream)
    os.write(1, b"done. ")

atexit.register(at_exit)
import cudacore_handles as ch

class Loud(ch.MemoryResource):
    def deallocate(self, ptr, size, *, stream):
        os.write(1, b"freed %d. " % ptr)

device = ch.Device()
device.set_current()
stream = device.create_stream()
buffers = [ch.Buffer.from_handle(ptr, 8, mr=Loud(), stream=stream) for ptr in (1, 2)]
""")
    assert out == "freed 1. freed 2. done. "


def test_owners_in_a_forked_child_are_the_parents(run: Callable[..., str]) -> None:
    """A child would free its parent's memory, or report an error because it cannot."""
    out = run("""
class Synchronizing(Loud):
    def deallocate(self, ptr, size, *, stream):
        ch.Device().sync()
        super().deallocate(ptr, size, stream=stream)

ch.Device().set_current()
buffer = ch.Buffer.from_handle(5, 8, mr=Synchronizing())
if (child := os.fork()) == 0:
    buffer.close()
    del buffer
    gc.collect()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
buffer.close()
""")
    assert out == "freed 5. "
