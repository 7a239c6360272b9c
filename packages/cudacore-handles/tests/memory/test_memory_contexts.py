# SPDX-License-Identifier: Apache-2.0
"""Memory keeps the primary context of its device, even if it is allocated on a stream of another device.

Each test has a process of its own, in which nothing else retains the primary context of device 1.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

BEGIN = """
import ctypes, gc, sys
import numpy as np
import cudacore_handles as ch

device = ch.Device(0)
device.set_current()
stream = device.create_stream()
driver = ctypes.CDLL("libcuda.so.1")

def is_active():
    flags, active = ctypes.c_uint(), ctypes.c_int()
    assert driver.cuDevicePrimaryCtxGetState(1, ctypes.byref(flags), ctypes.byref(active)) == 0
    return bool(active.value)

def seen(buffer):
    out = np.zeros(buffer.size, np.uint8)
    buffer.copy_to(out, stream=stream)
    return out

values = np.arange(4096, dtype=np.uint8)
here = device.allocate(4096, stream=stream)
here.copy_from(values, stream=stream)
"""
MEMORY = {
    "pool": "ch.DeviceMemoryResource(1, {}).allocate(4096, stream=stream)",
    "default pool": "ch.DeviceMemoryResource(1).allocate(4096, stream=stream)",
    "virtual": "ch.VirtualMemoryResource(1).allocate(1 << 21, stream=stream)[:4096]",
    "virtual host": "ch.VirtualMemoryResource(1, {'location_type': 'host', 'handle_type': None})"
    ".allocate(1 << 21, stream=stream)[:4096]",
}

RunMemory = Callable[[str, str], None]


@pytest.fixture
def run_memory(run_on_driver: Callable[..., str], other_device: object) -> RunMemory:
    """Give a function that runs code in a process in which ``there`` is the only object of device 1."""

    def run(memory: str, code: str) -> None:
        run_on_driver(f"{BEGIN}\nassert not is_active()\nthere = {memory}\nassert is_active()\n{code}")

    return run


@pytest.mark.parametrize("memory", MEMORY.values(), ids=MEMORY)
def test_the_context_lives_as_long_as_the_memory(run_memory: RunMemory, memory: str) -> None:
    """Each copy would create and destroy a context, which takes a GPU 165 ms, or the context would never end."""
    run_memory(
        memory,
        """
for part in (there, there[1024:]):
    part.copy_from(here[: part.size], stream=stream)
    assert (seen(part) == values[: part.size]).all()
    ch.copy_batch(stream, [part], [here[: part.size]])
    part.copy_part_from(here, 64, height=4, dst_pitch=128, src_pitch=256, stream=stream)
there.copy_from(here, stream=stream)
there.view("u1", (64, 64)).copy_to(here.view("u1", (64, 64)), stream)
del part
assert is_active()
there.close()
stream.sync()
gc.collect()
assert not is_active()
""",
    )


@pytest.mark.cuda_sim
@pytest.mark.parametrize("memory", MEMORY.values(), ids=MEMORY)
def test_copies_retain_nothing(run_memory: RunMemory, memory: str) -> None:
    """A copy between devices would retain and release primary contexts, instead of using those of the memory."""
    run_memory(
        memory,
        """
def contexts():
    return sim.calls("cuDevicePrimaryCtxRetain"), sim.calls("cuDevicePrimaryCtxRelease")

before = contexts()
there.copy_from(here, stream=stream)
here.copy_to(there, stream=stream)
there[:64].copy_from(here[64:128], stream=stream)
there.copy_part_from(here, 64, height=4, dst_pitch=128, src_pitch=256, stream=stream)
ch.copy_batch(stream, [here[:64], there[128:192]], [there[:64], here[64:128]])
there.copy_from(values, stream=stream)
there.copy_to(values, stream=stream)
assert contexts() == before
""",
    )


@pytest.mark.parametrize("memory", list(MEMORY.values())[:3], ids=list(MEMORY)[:3])
def test_exports(run_memory: RunMemory, memory: str) -> None:
    """DLPack exports would fail with CONTEXT_IS_DESTROYED, because the context ended before it was used."""
    run_memory(
        memory,
        """
view = there.view("u1")
for number in (1, 2, stream.handle):
    capsule = view.__dlpack__(stream=int(number), max_version=(1, 0))
    del capsule
again = ch.StridedMemoryView.from_dlpack(view, 1)
again.copy_from(here.view("u1"), stream)
assert (seen(there) == values).all()
""",
    )


@pytest.mark.parametrize("memory", list(MEMORY.values())[:3], ids=list(MEMORY)[:3])
@pytest.mark.parametrize("kept", [False, True], ids=["address", "buffer"])
def test_nodes(run_memory: RunMemory, memory: str, kept: bool) -> None:
    """Copy and fill nodes would be added with a context that is destroyed at once."""
    run_memory(
        memory,
        f"""
import cudacore_graph as cg
there.copy_from(here, stream=stream)
stream.sync()
pinned = ch.LegacyPinnedMemoryResource().allocate(4096)
definition = cg.GraphDefinition()
target = there if {kept} else there.handle
node = definition.memset(target, 7, 64)
node = node.memcpy(pinned, target, 4096)
node.update(size=2048)
graph = definition.instantiate()
graph.launch(stream)
stream.sync()
out = np.frombuffer(pinned.__buffer__(), np.uint8)
assert (out[:64] == 7).all() and (out[64:2048] == values[64:2048]).all()
""",
    )


def test_memory_of_others(run_on_driver: Callable[..., str], other_device: object) -> None:
    """If nobody retains the context of foreign memory, using the memory would fail, or leave a dead context current."""
    run_on_driver(f"""{BEGIN}
from cuda.bindings import driver as cuda
_, pool = cuda.cuDeviceGetDefaultMemPool(1)
error, address = cuda.cuMemAllocFromPoolAsync(4096, pool, int(stream.handle))
assert not error and not is_active()
class Foreign:
    __cuda_array_interface__ = {{
        "shape": (4096,), "typestr": "|u1", "data": (int(address), False), "version": 3, "stream": 1
    }}
for consumer in (2, stream):
    imported = ch.StridedMemoryView.from_cuda_array_interface(Foreign(), consumer)
    imported.copy_from(here.view("u1"), stream)
    assert ch.Device() is device
back = device.allocate(4096, stream=stream)
imported.copy_to(back.view("u1"), stream)
assert (seen(back) == values).all()
cuda.cuMemFreeAsync(address, int(stream.handle))
""")
