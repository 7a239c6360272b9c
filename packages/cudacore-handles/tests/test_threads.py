# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import pytest

# Eight threads do `work(i)` over and over while another thread collects garbage all the time. A deadlock ends in a
# timeout.
HAMMER = """
import gc, sys, threading
import cudacore_handles as ch
from child_setup import counts, device, one_block
from kernel_sources import PTX

THREADS, ROUNDS = 8, {rounds}
sys.setswitchinterval(1e-5)
{prelude}

begin, errors, done = counts(), [], threading.Event()


def hammer(i):
    try:
        device.set_current()
        for _ in range(ROUNDS):
            work(i)
    except BaseException as error:
        errors.append(repr(error))


def collect():
    while not done.is_set():
        gc.collect()


collector = threading.Thread(target=collect)
threads = [threading.Thread(target=hammer, args=(i,)) for i in range(THREADS)]
for thread in [collector, *threads]:
    thread.start()
for thread in threads:
    thread.join()
done.set()
collector.join()
assert not errors, errors
shared = code = None  # what the work may have left
assert counts() == begin, (begin, counts())
"""

WORK = {
    "streams and events": (
        400,
        """
def work(i):
    stream, other = device.create_stream(), device.create_stream()
    event = stream.record()
    other.wait(event)
    other.wait(stream)
    assert ch.Stream.from_handle(int(stream.handle)) == stream
    stream.sync()
    event.sync()
""",
    ),
    "memory": (
        400,
        """
stream = device.create_stream()
pinned = ch.LegacyPinnedMemoryResource()

def work(i):
    a = device.allocate(256, stream=stream)
    a.fill(i, stream=stream)
    b = pinned.allocate(256, stream=stream)
    a.copy_to(b, stream=stream)
    del a
    stream.sync()
    assert bytes(b.__buffer__()) == bytes([i]) * 256
""",
    ),
    "code that each loads": (
        100,
        """
def work(i):
    code = ch.ObjectCode.from_ptx(PTX)
    kernel = code.get_kernel("add")
    assert ch.Kernel.from_handle(int(kernel.handle)) == kernel
    assert kernel.num_arguments == 2
    ch.launch(device.default_stream, one_block, code.get_kernel("nothing"))
""",
    ),
    "code that all load at once": (
        1,
        """
code = ch.ObjectCode.from_ptx(PTX)
ready = threading.Barrier(8)
libraries = set()

def work(i):
    ready.wait()
    kernel = code.get_kernel("nothing")
    ch.launch(device.default_stream, one_block, kernel)
    libraries.add(int(code._library()))
    assert len(libraries) == 1
""",
    ),
    "launches of one kernel": (
        400,
        """
stream = device.create_stream()
kernel = ch.ObjectCode.from_ptx(PTX).get_kernel("add")
out = device.allocate(4, stream=stream)

def work(i):
    ch.launch(stream, one_block, kernel, out, i)
    prepared = kernel.prepare(stream, one_block, out, i)
    prepared(out, i + 1)
""",
    ),
    "objects that others drop": (
        300,
        """
import collections
shared = collections.deque(maxlen=20)

def work(i):
    stream = device.create_stream()
    buffer = device.allocate(64, stream=stream)
    buffer.fill(i, stream=stream)
    shared.append((buffer, stream, stream.record()))
    try:
        shared.popleft()[i % 2].close()
    except IndexError:
        pass
""",
    ),
    "owners in Python": (
        300,
        """
class Owner:
    def __init__(self):
        self.me = self
    def __del__(self):
        device.create_event()

class Memory(ch.MemoryResource):
    def deallocate(self, ptr, size, *, stream):
        device.create_stream().sync()

memory = Memory()

def work(i):
    buffer = ch.Buffer.from_handle(4096, 64, owner=Owner())
    other = ch.Buffer.from_handle(4096, 64, mr=memory)
    other.close()
    del buffer
""",
    ),
}


@pytest.mark.parametrize("work", WORK)
def test_eight_threads_and_the_collector(run_on_driver: Callable[..., str], work: str) -> None:
    """Threads that make, use and drop objects simultaneously would deadlock, crash, leak, or mix up their objects."""
    rounds, prelude = WORK[work]
    run_on_driver(HAMMER.format(rounds=rounds, prelude=prelude))
