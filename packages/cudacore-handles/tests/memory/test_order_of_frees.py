# SPDX-License-Identifier: Apache-2.0
"""Memory that is used on several streams, and in several contexts, is freed after the work of all of them.

The scenarios run in another process. On the simulator, the check `order` reports a free that is not ordered after the
work. On a GPU, the memory would be reused while the work is queued, and the copy would have other values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import cudacore_handles as ch

PRELUDE = """
import os, threading
import cudacore_handles as ch

LEGACY, PER_THREAD = ch.LEGACY_DEFAULT_STREAM, ch.PER_THREAD_DEFAULT_STREAM
SIZE, ROUNDS = (1 << 14, 3) if os.environ.get("CUDACORE_DRIVER") == "sim" else (1 << 20, 3000)
devices = ch.Device.get_all_devices()
device = devices[0]
device.set_current()
stream = device.create_stream()
pool = ch.DeviceMemoryResource(device, {})
pinned = ch.LegacyPinnedMemoryResource()
copied = pinned.allocate(SIZE)
contexts: list[ch.Context] = []
results = [copied]  # of the work; all bytes must be those of the buffer

def green() -> ch.Context:
    (group,), _ = device.resources.sm.split(ch.SMResourceOptions(count=8))
    contexts.append(device.create_context(ch.ContextOptions([group])))  # the end of a context would wait for its work
    return contexts[-1]

class Resource(ch.MemoryResource):
    is_device_accessible, is_host_accessible, device_id = True, False, 0

    def allocate(self, size, *, stream):
        self.block = pool.allocate(size, stream=stream)
        return ch.Buffer.from_handle(self.block.handle, size, mr=self, stream=stream)

    def deallocate(self, ptr, size, *, stream):
        self.block.close(stream)

def full(mr: ch.MemoryResource = pool) -> ch.Buffer:
    buffer = mr.allocate(SIZE, stream=stream)
    buffer.fill(7, stream=stream)
    stream.sync()
    return buffer

def use(buffer: ch.Buffer, on: ch.Stream, into: ch.Buffer = copied) -> None:
    '''Queue a copy of the buffer behind long work.'''
    scratch = ch.Device().allocate(SIZE, stream=on)
    for _ in range(ROUNDS):
        scratch.fill(0, stream=on)
    buffer.copy_to(into, stream=on)
"""

END = """
device.set_current()
for _ in range(3):  # write to memory that was just freed
    pool.allocate(SIZE, stream=stream).fill(9, stream=stream)
stream.sync()
for each in devices:
    each.sync()
for each in contexts:
    device.set_current(each)
    LEGACY.sync()
for result in results:
    assert set(bytes(result.__buffer__())) == {7}
"""

# A stream that is another one in each context, and in each thread, and the ways to free memory that it has used.
STREAMS = {
    "default stream of a green context": "device.set_current(green()); on = LEGACY",
    "default stream of another device": "devices[1].set_current(); on = LEGACY",
    "per-thread default stream of another device": "devices[1].set_current(); on = PER_THREAD",
}
FREES = {
    "closed": "buffer.close(on)",
    "part closed": "buffer[: SIZE // 2].close(on); device.set_current(); buffer.close()",
    "recorded": "buffer.record_stream(on); device.set_current(); buffer.close()",
    "deallocation stream": "buffer.set_deallocation_stream(on); device.set_current(); del buffer",
}
SCENARIOS = {
    f"{stream}, {free}": f"buffer = full()\n{STREAMS[stream]}\nuse(buffer, on)\n{FREES[free]}"
    for stream in STREAMS
    for free in FREES
} | {
    "allocated on the default stream of a green context": """
        device.set_current(green())
        buffer = pool.allocate(SIZE, stream=LEGACY)
        buffer.fill(7, stream=LEGACY)
        use(buffer, LEGACY)
        device.set_current()
        buffer.close()
    """,
    "per-thread default stream, freed while a green context, which has none, is current": """
        second = device.create_stream()
        for mr in (pool, Resource(), pinned):
            for own, other in ((PER_THREAD, second), (second, PER_THREAD)):
                buffer = full(mr)
                use(buffer, PER_THREAD)
                buffer.set_deallocation_stream(own)
                buffer.record_stream(other)
                device.set_current(green())
                del buffer
                device.set_current()
    """,
    "pinned memory, default stream of another device": """
        buffer = full()
        target = pinned.allocate(SIZE)
        devices[1].set_current()
        use(buffer, LEGACY, target)
        target.set_deallocation_stream(LEGACY)
        device.set_current()
        target.close()  # waits
        results = []
    """,
    "per-thread default streams of two threads": """
        buffer = full()
        results = [pinned.allocate(SIZE) for _ in range(2)]

        def work(result: ch.Buffer) -> None:
            device.set_current()
            use(buffer, PER_THREAD, result)
            buffer.record_stream(PER_THREAD)

        threads = [threading.Thread(target=work, args=(result,)) for result in results]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        buffer.close()
    """,
    "borrowed by another buffer": """
        second = device.create_stream()
        owner = full()
        buffer = ch.Buffer.from_handle(owner.handle, SIZE, owner=owner)
        use(buffer, second)
        owner.close()
        buffer.close(second)
    """,
    "part of a borrowed buffer": """
        second = device.create_stream()
        owner = full()
        buffer = ch.Buffer.from_handle(owner.handle, SIZE, owner=owner[:])
        part = buffer[: SIZE // 2]
        use(buffer, second)
        part.close(second)
        buffer.close()
        owner.close()
    """,
    "borrowed from memory with a resource of one's own": """
        owner = full(Resource())
        second = device.create_stream()
        buffer = ch.Buffer.from_handle(owner.handle, SIZE, owner=owner)
        use(buffer, second)
        buffer.close(second)
        owner.close()
    """,
    "many recorded streams, idle when they are recorded": """
        streams = [device.create_stream() for _ in range(30)]
        buffer = full()
        for each in streams:
            buffer.record_stream(each)
        use(buffer, streams[0])
        buffer.close()
    """,
    "view of a closed buffer": """
        second = device.create_stream()
        buffer = full()
        view = buffer.view("u1")
        use(buffer, second)
        buffer.close()
        view.view(dtype="int8").record_stream(second)
        del view
    """,
    "recorded part": """
        second = device.create_stream()
        buffer = full()
        part = buffer[:8]
        use(buffer, second)
        part.record_stream(second)
        part.close()
        buffer.close()
    """,
}


def test_views_of_other_memory(stream: ch.Stream) -> None:
    """A stream would be recorded, without effect, for memory that another library frees."""
    view = ch.StridedMemoryView.from_any_interface(np.zeros(4, np.int32), -1)
    with pytest.raises(TypeError, match="the memory of the view is not a Buffer's: its own library must order"):
        view.record_stream(stream)


# Runs the scenarios one after the other.
RUN = """
import gc, textwrap
for name, code in SCENARIOS.items():
    device.set_current()
    print(name, flush=True)
    names = dict(globals())
    exec(textwrap.dedent(code) + END, names)
    if "sim" in names:
        assert not sim.reports(), (name, sim.reports())
    names.clear()
    gc.collect()
"""


@pytest.mark.parametrize("devices", [1, 2])
def test_scenarios(run_on_driver: Callable[..., str], devices: int) -> None:
    """Memory would be reused while work that uses it is still queued."""
    if devices > len(ch.Device.get_all_devices()):
        pytest.skip("needs two devices")
    scenarios = {name: code for name, code in SCENARIOS.items() if ("device" in name) == (devices == 2)}
    run_on_driver(f"{PRELUDE}\nSCENARIOS, END = {scenarios!r}, {END!r}\n{RUN}", CUDACORE_SIM_CHECK="order")
