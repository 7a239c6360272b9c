# SPDX-License-Identifier: Apache-2.0
"""The primary context is reset by another library: cudaDeviceReset(), numba.cuda.close(), cuDevicePrimaryCtxReset()."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from kernel_sources import PTX

import cudacore_handles as ch

RESET = """
import ctypes, gc, sys, threading
import cudacore_handles as ch
import cudacore_graph as cg
from cudacore_handles._sdk import call_driver

device = ch.Device(0)
device.set_current()
driver = ctypes.CDLL("libcuda.so.1")
retained = ctypes.c_void_p()

def reset():
    assert driver.cuDevicePrimaryCtxReset_v2(0) == 0

def retain():  # as another library does at its next call
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(retained), 0) == 0
    assert driver.cuCtxSetCurrent(retained) == 0

def foreign():
    stream = ctypes.c_void_p()
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
    return stream.value

def raises(function):
    try:
        function()
    except (ch.ClosedError, ch.CUDAError) as error:
        assert "reset" in str(error) and "primary context" in str(error), error
    else:
        raise AssertionError("it went through")

def check_new():
    stream = device.create_stream()
    event = stream.record()
    buffer = device.allocate(64, stream=stream)
    back = bytearray(64)
    buffer.copy_from(bytes(range(64)), stream=stream)
    buffer.copy_to(back, stream=stream)
    stream.sync()
    assert back == bytes(range(64)) and event.is_done
"""
END = """
check_new()
gc.collect()
check_new()
if "cudacore_sim" in sys.modules:
    sim = sys.modules["cudacore_sim"]
    # that the reset destroys what is alive in the context is what this is about
    assert not [r for r in sim.reports() if not r.startswith("cuDevicePrimaryCtxReset")], sim.reports()
"""
MAKE = {
    "stream": "device.create_stream()",
    "event": "device.create_event()",
    "recorded event": "device.create_stream().record()",
    "event of a foreign stream": "ch.Stream.from_handle(foreign()).record()",
    "pinned memory": "ch.LegacyPinnedMemoryResource().allocate(64)",
    "pool memory": "device.allocate(64, stream=device.create_stream())",
    "memory of an own pool": "ch.DeviceMemoryResource(device, {}).allocate(64, stream=device.create_stream())",
    "virtual memory": "ch.VirtualMemoryResource(device).allocate(64)",
    "memory on the default stream": "device.allocate(64, stream=device.default_stream)",
    "code": f"ch.ObjectCode.from_ptx({PTX!r})",
    "kernel": f"ch.ObjectCode.from_ptx({PTX!r}).get_kernel('add')",
    "graph definition": "definition()",
    "graph": "definition().instantiate()",
    "launched graph": "launched()",
    "capture": "capturing()",
    "context": "device.context",
}
GRAPHS = """
def definition():
    made = cg.GraphDefinition()
    made.callback(lambda: None)
    buffer = device.allocate(64, stream=device.default_stream)
    made.memset(buffer, 0, 64)
    return made

def launched():
    graph = definition().instantiate()
    stream = device.create_stream()
    graph.launch(stream)
    stream.sync()
    return graph

def capturing():
    builder = device.create_graph_builder()
    builder.begin_building()
    return builder
"""


@pytest.fixture
def run_reset(on_sim: bool, run_python: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[[str], None]:
    """Give a function that runs code in a separate process, because the driver crashes if it gets a lost object."""

    def run(code: str) -> None:
        begin = "import cudacore_sim as sim\nsim.load()\n" if on_sim else ""
        env = {"CUDACORE_DRIVER": "sim", "CUDACORE_SIM_DEVICES": "2"} if on_sim else {}
        child = run_python(begin + RESET + GRAPHS + code + END, **env)
        assert child.returncode == 0, f"{child.stderr}\nafter: {child.stdout[-40:]}"
        told = [line for line in child.stderr.splitlines() if "cuDevicePrimaryCtxReset" not in line]
        assert not told, child.stderr

    return run


@pytest.mark.parametrize("active", [False, True], ids=["not active", "active again"])
def test_what_was_lost_is_dropped(run_reset: Callable[[str], None], active: bool) -> None:
    """Dropping an object after a reset would end the process: SIGSEGV in the driver."""
    makers = ", ".join(f"{name!r}: lambda: {make}" for name, make in MAKE.items())
    run_reset(f"""
for name, make in {{{makers}}}.items():
    print(name, flush=True)  # the last one, if it ends the process
    thing = make()
    reset()
    if {active}:
        retain()
    del thing
    gc.collect()
    device.set_current()
    check_new()
""")


USES = {
    "sync": "stream.sync()",
    "copy": "buffer.copy_from(bytes(64), stream=stream)",
    "fill": "buffer.fill(0, stream=stream)",
    "allocate": "device.allocate(64, stream=stream)",
    "record": "stream.record()",
    "record again": "stream.record(event)",
    "wait for an event": "ch.LEGACY_DEFAULT_STREAM.wait(event)",
    "query an event": "event.is_done",
    "elapsed time": "late - early",
    "callback": "stream.callback(print)",
    "launch": "ch.launch(stream, ch.LaunchConfig(grid=1, block=1), kernel, pinned, 4)",
    "prepared": "prepared()",
    "event sync": "event.sync()",
    "wait for a stream": "ch.LEGACY_DEFAULT_STREAM.wait(stream)",
    "graph launch": "graph.launch(stream)",
    "graph launch elsewhere": "graph.launch(ch.LEGACY_DEFAULT_STREAM)",
    "instantiate": "nodes.instantiate()",
    "clone": "nodes.clone()",
    "clone of kernels": "kernels.clone()",
    "instantiate kernels": "kernels.instantiate()",
    "embed": "cg.GraphDefinition().embed(kernels)",
    "graph upload": "graph.upload(stream)",
    "graph upload elsewhere": "graph.upload(ch.LEGACY_DEFAULT_STREAM)",
    "graph update": "graph.update(cg.GraphDefinition())",
    "graph update from what was lost": "cg.GraphDefinition().instantiate().update(kernels)",
    "update in an executable graph": "graph[node].update(fn=print)",
    "configuration of a kernel node": "kernel_node.config",
    "update of a kernel node": "kernel_node.update(args=(pinned, 5))",
    "capture": "stream.create_graph_builder().begin_building()",
    "a new stream": "ch.launch(device.create_stream(), ch.LaunchConfig(grid=1, block=1), kernel, pinned, 4)",
    "pinned": "pinned.copy_from(bytes(64), stream=ch.LEGACY_DEFAULT_STREAM)",
    "a function of the driver": "call_driver('cuStreamGetFlags', stream, 0)",
}


@pytest.mark.parametrize("active", [False, True], ids=["not active", "active again"])
def test_what_was_lost_says_so(run_reset: Callable[[str], None], active: bool) -> None:
    """Using an object after a reset would end the process, or fail with an error that does not mention the reset."""
    uses = ", ".join(f"({name!r}, lambda: {use})" for name, use in USES.items())
    run_reset(f"""
stream, event, nodes = device.create_stream(), device.create_event(), definition()
node = next(iter(nodes.nodes()))
buffer, pinned = device.allocate(64, stream=stream), ch.LegacyPinnedMemoryResource().allocate(64)
kernel = ch.ObjectCode.from_ptx({PTX!r}).get_kernel("add")
prepared = kernel.prepare(stream, ch.LaunchConfig(grid=1, block=1), pinned, 4)
kernels = cg.GraphDefinition()
kernel_node = kernels.launch(ch.LaunchConfig(grid=1, block=1), kernel, pinned, 4)
graph = nodes.instantiate()
early, late = (stream.record(options=ch.EventOptions(timing_enabled=True)) for _ in range(2))
stream.sync()
reset()
if {active}:
    retain()
uses = [{uses}]
for name, use in uses:
    print(name, flush=True)  # the last one, if it ends the process
    raises(use)
device.set_current()
for name, use in uses:
    print(name, flush=True)
    raises(use)
""")


HOST_USES = {
    "bytes of a buffer": "memory.__buffer__()",
    "bytes of a part": "part.__buffer__()",
    "an array of a buffer": "np.asarray(memory)",
    "an array of a view": "np.asarray(view)",
    "DLPack of a buffer": "memory.__dlpack__()",
    "DLPack of a view": "view.__dlpack__()",
    "the exchange API": "ch.StridedMemoryView.from_any_interface(view, -1)",
    "the exchange API of a buffer": "ch.StridedMemoryView.from_any_interface(memory, -1)",
    "the interface of a buffer": "memory.__cuda_array_interface__",
    "the interface of a view": "view.__cuda_array_interface__",
    "copy of a view to the device": "there.copy_from(view, stream)",
    "copy of a view to NumPy": "ch.StridedMemoryView.from_any_interface(np.zeros(64, 'u1')).copy_from(view, stream)",
    "launch": "ch.launch(stream, ONE, kernel, memory, 4)",
    "launch with a view": "ch.launch(stream, ONE, kernel, view, 4)",
    "launch with a part": "ch.launch(stream, ONE, kernel, part, 4)",
    "prepare": "kernel.prepare(stream, ONE, view, 4)",
    "prepared": "prepared()",
    "prepared with a view": "of_view()",
    "a node that fills": "cg.GraphDefinition().memset(memory, 0, 64)",
    "a node that copies": "cg.GraphDefinition().memcpy(there, part, 16)",
    "a kernel node": "cg.GraphDefinition().launch(ONE, kernel, view, 4)",
}


@pytest.mark.parametrize("noticed", [False, True], ids=["not noticed yet", "noticed"])
def test_lost_pinned_memory_says_so(run_reset: Callable[[str], None], noticed: bool) -> None:
    """The host or a kernel would read memory that is no longer mapped: a SIGSEGV, or a lost context."""
    uses = ", ".join(f"({name!r}, lambda: {use})" for name, use in HOST_USES.items())
    run_reset(f"""
import numpy as np
ONE = ch.LaunchConfig(grid=1, block=1)
kernel = ch.ObjectCode.from_ptx({PTX!r}).get_kernel("add")
def make():
    memory = ch.LegacyPinnedMemoryResource().allocate(64)
    return memory, memory.view("u1"), memory[16:32]
memory, view, part = make()
stream = ch.LEGACY_DEFAULT_STREAM  # which is that of any context
prepared, of_view = kernel.prepare(stream, ONE, memory, 4), kernel.prepare(stream, ONE, view, 4)
there = device.allocate(64, stream=stream).view("u1")
prepared(), of_view(), device.sync()
reset()
retain()
if {noticed}:
    device.set_current()
for name, use in [{uses}]:
    print(name, flush=True)  # the last one, if it ends the process
    raises(use)
device.set_current()
""")


def test_a_callback_reads_pinned_memory(device: ch.Device) -> None:
    """Reading memory in a function that CUDA calls would check for a reset, although CUDA calls are forbidden there."""
    memory = ch.LegacyPinnedMemoryResource().allocate(4)
    memory.__buffer__()[:] = b"read"
    stream, seen = device.create_stream(), []
    stream.callback(lambda: seen.append(bytes(memory.__buffer__())))
    stream.sync()
    assert seen == [b"read"]


def test_memory_of_a_pool_outlives_a_reset(run_reset: Callable[[str], None]) -> None:
    """Memory that survives the reset, or its contents, would be lost."""
    run_reset("""
pool = ch.DeviceMemoryResource(device, {})
kept = pool.allocate(64, stream=device.create_stream())
dropped = pool.allocate(1 << 20, stream=device.create_stream())
kept.copy_from(bytes(range(64)), stream=ch.LEGACY_DEFAULT_STREAM)
device.sync()
reset()
device.set_current()
used = pool.attributes.used_mem_current
del dropped
assert pool.attributes.used_mem_current < used
back = bytearray(64)
kept.copy_to(back, stream=device.create_stream())
assert back == bytes(range(64))
""")


def test_parts_are_closed_after_a_reset(run_reset: Callable[[str], None]) -> None:
    """When memory with parts is freed after a reset, the driver would get a stream that the reset has destroyed."""
    run_reset("""
class Foreign(ch.MemoryResource):
    is_device_accessible, is_host_accessible, device_id = True, False, 0
    kept = []
    def allocate(self, size, *, stream):
        self.kept.append(device.allocate(size, stream=stream))
        return ch.Buffer.from_handle(self.kept[-1].handle, size, mr=self, stream=stream)
    def deallocate(self, ptr, size, *, stream):
        stream.sync()

made = []
for mr in (device.memory_resource, ch.VirtualMemoryResource(device), Foreign()):
    for count in (1, 2):
        whole = mr.allocate(64, stream=device.create_stream())
        made.append((whole, [whole[i : i + 1] for i in range(count)]))
device.sync()
reset()
device.set_current()
for whole, parts in made:
    for part in parts:
        part.close(device.create_stream())
    whole.close()
""")


def test_code_outlives_a_reset(run_reset: Callable[[str], None]) -> None:
    """After a reset, a program would have to load and compile everything again."""
    run_reset(f"""
kernel = ch.ObjectCode.from_ptx({PTX!r}).get_kernel("add")
reset()
device.set_current()
stream = device.create_stream()
memory = ch.LegacyPinnedMemoryResource().allocate(4)
memory.copy_from(bytes(4), stream=stream)
ch.launch(stream, ch.LaunchConfig(grid=1, block=1), kernel, memory, 4)
back = bytearray(4)
memory.copy_to(back, stream=stream)
assert back[0] == 4
""")


def test_the_function_of_a_lost_context(run_reset: Callable[[str], None]) -> None:
    """The error would name the function by which Python calls the driver, instead of the driver's function."""
    run_reset("""
reset()
new_stream = lambda: device.create_stream(options=ch.StreamOptions(priority=-1))
raises(new_stream)  # now the context is known to be lost
try:
    new_stream()
except ch.GoneError as error:
    assert error.operation == "cuCtxGetStreamPriorityRange", error
else:
    raise AssertionError("it went through")
device.set_current()
""")


def test_every_thread_recovers(run_reset: Callable[[str], None]) -> None:
    """set_current() would succeed, but creating objects would fail in every thread forever."""
    run_reset("""
barrier = threading.Barrier(3)
failed = []

def work():
    device.set_current()
    barrier.wait()
    barrier.wait()
    try:
        device.set_current()
        for _ in range(20):
            check_new()
    except BaseException as error:
        failed.append(error)

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
barrier.wait()
for _ in range(3):
    reset()
barrier.wait()
for thread in threads:
    thread.join()
assert not failed, failed
for _ in range(3):  # and again
    reset()
    device.set_current()
    check_new()
""")


def test_another_device_is_current(run_reset: Callable[[str], None]) -> None:
    """If the driver does not report that a context was reset, objects of the context would be passed to the driver."""
    run_reset("""
if len(ch.Device.get_all_devices()) > 1:
    stream, event = device.create_stream(), device.create_event()
    pinned = ch.LegacyPinnedMemoryResource().allocate(64)
    graph = definition().instantiate()
    ch.Device(1).set_current()
    reset()
    raises(stream.sync)
    del stream, event, pinned, graph
    gc.collect()
    assert ch.Device() is ch.Device(1)
device.set_current()
""")


def test_green_contexts_refuse_a_reset(run_reset: Callable[[str], None]) -> None:
    """If a green context prevents a reset, objects would count as lost, or a later reset would not be detected."""
    run_reset("""
group = device.resources.sm.split(ch.SMResourceOptions(count=16))[0][0]
context = device.create_context(ch.ContextOptions([group]))
stream, plain = context.create_stream(), device.create_stream()
buffer = device.allocate(64, stream=stream)
assert driver.cuDevicePrimaryCtxReset_v2(0) == 800  # CUDA_ERROR_NOT_PERMITTED
buffer.copy_from(bytes(range(64)), stream=stream)
event = stream.record()
plain.wait(event)
plain.sync()
check_new()
del stream, buffer, event
device.set_current()
context.close()
gc.collect()
reset()
raises(plain.sync)
device.set_current()
""")
