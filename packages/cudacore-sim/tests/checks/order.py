# SPDX-License-Identifier: Apache-2.0
"""Programs whose units of work are ordered, or only seem to be ordered.

They run on any driver; ``planted.py`` runs one.

Each program has two independent streams, ``a`` and ``b``. The arguments of ``@planted`` are texts that the report of
the program's defect must contain, one for each of the two units of work. A program without such arguments is correct;
most of these are corrected versions of a program with a defect.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

NON_BLOCKING, ATTACH_GLOBAL, WAIT_EQUAL = 1, 1, 1
THREADS = 32
BYTES = 4 * THREADS
LEGACY = c_void_p(1)


class Stage:
    """The environment of a program: its streams, and short names for calls of the driver."""

    def __init__(self, cuda: Any, module: Any) -> None:
        self.cuda, self.module = cuda, module
        self.a, self.b = self.stream(), self.stream()
        self.kept: list[Any] = []

    def stream(self, flags: int = NON_BLOCKING) -> Any:
        return self.cuda.out("cuStreamCreate", flags)

    def memory(self, size: int = BYTES) -> c_uint64:
        """Allocate device memory and fill it with zeros. Return the memory when the fill is done."""
        memory = self.cuda.allocate(size)
        self.cuda.cuMemsetD8_v2(memory, 0, c_size_t(size))
        self.cuda.cuCtxSynchronize()
        return memory

    def pooled(self, stream: Any) -> c_uint64:
        return self.cuda.out("cuMemAllocAsync", c_size_t(BYTES), stream, kind=c_uint64)

    def free_pooled(self, memory: c_uint64, stream: Any) -> None:
        self.cuda.cuMemFreeAsync(memory, stream)

    def pinned(self, size: int = BYTES) -> c_void_p:
        memory = self.cuda.out("cuMemAllocHost_v2", c_size_t(size))
        ctypes.memset(memory, 0, size)
        return memory

    def launch(self, name: str, stream: Any, *arguments: Any) -> None:
        given = [c_int(one) if isinstance(one, int) else c_uint64(one.value) for one in arguments]
        self.cuda.launch(self.module, name, 1, THREADS, 0, *given, stream=stream)

    def fill(self, memory: c_uint64, stream: Any, at: int = 0, size: int = BYTES) -> None:
        self.cuda.cuMemsetD8Async(c_uint64(memory.value + at), 1, c_size_t(size), stream)

    def to_host(self, host: Any, memory: c_uint64, stream: Any, size: int = BYTES) -> None:
        self.cuda.cuMemcpyDtoHAsync_v2(host, memory, c_size_t(size), stream)

    def to_device(self, memory: c_uint64, host: Any, stream: Any, size: int = BYTES) -> None:
        self.cuda.cuMemcpyHtoDAsync_v2(memory, host, c_size_t(size), stream)

    def wait(self, waiting: Any, stream: Any) -> None:
        """Make the stream `waiting` wait for the work of `stream`."""
        event = self.cuda.out("cuEventCreate", 0)
        self.cuda.cuEventRecord(event, stream)
        self.cuda.cuStreamWaitEvent(waiting, event, 0)
        self.cuda.cuEventDestroy_v2(event)

    def graph(self, work: Callable[[Any], None]) -> Any:
        """Capture `work` in a stream, and return an executable graph of the captured work."""
        stream = self.stream()
        self.cuda.cuStreamBeginCapture_v2(stream, 0)
        work(stream)
        graph = c_void_p()
        self.cuda.cuStreamEndCapture(stream, byref(graph))
        return self.cuda.out("cuGraphInstantiateWithFlags", graph, c_uint64(0))

    def end(self) -> None:
        self.cuda.library.cuCtxSynchronize()  # result not checked: a program with a defect may have failed


@dataclass(frozen=True)
class Program:
    run: Callable[[Stage], None]
    text: tuple[str, ...]
    """The texts of both sides in the report; empty for a correct program."""


PROGRAMS: dict[str, Program] = {}


def planted(*text: str) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    def note(function: Callable[[Stage], None]) -> Callable[[Stage], None]:
        def run(stage: Stage) -> None:
            function(stage)
            stage.end()

        PROGRAMS[function.__name__] = Program(run, text)
        return function

    return note


# --- stream-ordered memory


@planted("fill (cuMemsetD8Async", "allocates")
def used_before_its_allocation(s: Stage) -> None:
    s.launch("slow_fill", s.a, s.memory(), 1, 100000)
    memory = s.pooled(s.a)
    s.fill(memory, s.b)


@planted()
def used_after_its_allocation(s: Stage) -> None:
    memory = s.pooled(s.a)
    s.wait(s.b, s.a)
    s.fill(memory, s.b)
    s.wait(s.a, s.b)
    s.free_pooled(memory, s.a)


@planted()
def used_in_its_stream(s: Stage) -> None:
    for _ in range(3):
        memory = s.pooled(s.a)
        s.launch("fill", s.a, memory, 1)
        s.free_pooled(memory, s.a)


@planted("kernel 'fill'", "frees")
def used_beside_its_free(s: Stage) -> None:
    memory = s.pooled(s.a)
    s.cuda.cuStreamSynchronize(s.a)
    s.launch("fill", s.b, memory, 1)
    s.free_pooled(memory, s.a)


@planted()
def used_before_its_free(s: Stage) -> None:
    memory = s.pooled(s.a)
    s.cuda.cuStreamSynchronize(s.a)
    s.launch("fill", s.b, memory, 1)
    s.wait(s.a, s.b)
    s.free_pooled(memory, s.a)


@planted("copy (cuMemcpyDtoHAsync_v2", "frees")
def copied_beside_its_free(s: Stage) -> None:
    memory, host = s.pooled(s.a), s.pinned()
    s.fill(memory, s.a)
    s.wait(s.b, s.a)
    s.to_host(host, memory, s.b)
    s.free_pooled(memory, s.a)


@planted()
def copied_before_its_free(s: Stage) -> None:
    memory, host = s.pooled(s.a), s.pinned()
    s.fill(memory, s.a)
    s.to_host(host, memory, s.a)
    s.cuda.cuStreamSynchronize(s.a)
    s.free_pooled(memory, s.b)


def _memory_of_a_graph(s: Stage) -> tuple[Any, c_uint64]:
    memory = c_uint64()

    def work(stream: Any) -> None:
        memory.value = s.pooled(stream).value
        s.fill(memory, stream)

    return s.graph(work), memory


@planted("fill (cuMemsetD8Async", "(cuGraphLaunch")
def memory_of_a_graph_beside_it(s: Stage) -> None:
    graph, memory = _memory_of_a_graph(s)
    s.launch("slow_fill", s.a, s.memory(), 1, 1000)
    s.cuda.cuGraphLaunch(graph, s.a)
    s.fill(memory, s.b)


@planted()
def memory_of_a_graph_after_it(s: Stage) -> None:
    graph, memory = _memory_of_a_graph(s)
    for _ in range(2):
        s.cuda.cuGraphLaunch(graph, s.a)
        s.wait(s.b, s.a)
        s.fill(memory, s.b)
        s.free_pooled(memory, s.b)
        s.wait(s.a, s.b)


# --- two units of work that access the same bytes


@planted("fill (cuMemsetD8Async", "fill (cuMemsetD8Async")
def two_fills(s: Stage) -> None:
    memory = s.memory()
    s.fill(memory, s.a)
    s.fill(memory, s.b)


@planted()
def two_fills_of_two_halves(s: Stage) -> None:
    memory = s.memory()
    s.fill(memory, s.a, 0, 61)
    s.fill(memory, s.b, 61, 67)


@planted()
def two_fills_with_an_event(s: Stage) -> None:
    memory = s.memory()
    s.fill(memory, s.a)
    s.wait(s.b, s.a)
    s.fill(memory, s.b)


@planted("kernel 'fill'", "copy (cuMemcpyDtoHAsync_v2")
def kernel_and_copy(s: Stage) -> None:
    memory, host = s.memory(), s.pinned()
    s.launch("fill", s.a, memory, 1)
    s.to_host(host, memory, s.b)


@planted()
def kernel_and_copy_with_an_event(s: Stage) -> None:
    memory, host = s.memory(), s.pinned()
    s.launch("fill", s.a, memory, 1)
    s.wait(s.b, s.a)
    s.to_host(host, memory, s.b)


@planted()
def kernel_and_copy_after_a_synchronisation(s: Stage) -> None:
    memory, host = s.memory(), s.pinned()
    s.launch("fill", s.a, memory, 1)
    s.cuda.cuStreamSynchronize(s.a)
    s.to_host(host, memory, s.b)


@planted()
def kernel_and_copy_after_a_query(s: Stage) -> None:
    memory, host = s.memory(), s.pinned()
    s.launch("fill", s.a, memory, 1)
    while s.cuda.library.cuStreamQuery(s.a) != 0:
        pass
    s.to_host(host, memory, s.b)


@planted()
def kernel_and_copy_after_an_event_is_done(s: Stage) -> None:
    memory, host = s.memory(), s.pinned()
    event = s.cuda.out("cuEventCreate", 0)
    s.launch("fill", s.a, memory, 1)
    s.cuda.cuEventRecord(event, s.a)
    s.cuda.cuEventSynchronize(event)
    s.to_host(host, memory, s.b)


@planted()
def kernel_and_copy_with_an_event_that_is_done(s: Stage) -> None:
    memory, host = s.memory(), s.pinned()
    s.launch("fill", s.a, memory, 1)
    event = s.cuda.out("cuEventCreate", 0)
    s.cuda.cuEventRecord(event, s.a)
    time.sleep(0.05)  # long enough for the kernel to end
    s.cuda.cuStreamWaitEvent(s.b, event, 0)
    s.to_host(host, memory, s.b)


@planted()
def three_streams_in_turn(s: Stage) -> None:
    memory, third = s.memory(), s.stream()
    for stream in (s.b, third):
        s.fill(s.memory(), stream)  # these fills use memory of their own
    s.fill(memory, s.a)
    s.wait(s.b, s.a)
    s.wait(third, s.b)
    s.fill(memory, third)


@planted("kernel 'fill'", "copy (cuMemcpyDtoHAsync_v2")
def event_before_the_work(s: Stage) -> None:
    memory, host = s.memory(), s.pinned()
    event = s.cuda.out("cuEventCreate", 0)
    s.cuda.cuEventRecord(event, s.a)
    s.launch("fill", s.a, memory, 1)
    s.cuda.cuStreamWaitEvent(s.b, event, 0)
    s.to_host(host, memory, s.b)


@planted("kernel 'copy' (cuLaunchKernel, no. 1 in stream", "kernel 'fill' (cuLaunchKernel, no. 1 in stream")
def two_kernels(s: Stage) -> None:
    memory, other = s.memory(), s.memory()
    s.launch("copy", s.a, other, memory)
    s.launch("fill", s.b, memory, 3)


@planted()
def two_readers(s: Stage) -> None:
    memory, one, two = s.memory(), s.memory(), s.memory()
    s.launch("copy", s.a, one, memory)
    s.launch("copy", s.b, two, memory)
    s.to_host(s.pinned(), memory, s.b)


@planted("kernel 'fill'", "kernel 'fill'")
def two_kernels_that_share_a_word(s: Stage) -> None:
    memory = s.memory(2 * BYTES)
    s.launch("fill", s.a, memory, 1)
    s.launch("fill", s.b, c_uint64(memory.value + BYTES - 4), 2)


@planted()
def two_kernels_side_by_side(s: Stage) -> None:
    memory = s.memory(2 * BYTES)
    s.launch("fill", s.a, memory, 1)
    s.launch("fill", s.b, c_uint64(memory.value + BYTES), 2)


@planted()
def one_counter(s: Stage) -> None:
    counter = s.memory()
    s.launch("count", s.a, counter)
    s.launch("count", s.b, counter)


@planted("kernel 'count'", "copy (cuMemcpyDtoHAsync_v2")
def counter_that_is_read(s: Stage) -> None:
    counter = s.memory()
    s.launch("count", s.a, counter)
    s.to_host(s.pinned(), counter, s.b)


@planted()
def counter_that_is_read_in_one_piece(s: Stage) -> None:
    counter = s.memory()
    s.launch("count", s.a, counter)
    s.to_host(s.pinned(), counter, s.b, 4)


@planted()
def flag_that_a_copy_sets(s: Stage) -> None:
    data, flag, result = s.memory(), s.memory(), s.memory()
    s.launch("fill", s.b, data, 1)
    s.fill(flag, s.b, 0, 1)
    s.launch("consume", s.a, result, data, flag)


@planted()
def producer_and_consumer(s: Stage) -> None:
    data, flag, result = s.memory(), s.memory(), s.memory()
    s.launch("produce", s.a, data, flag)
    s.launch("consume", s.b, result, data, flag)


@planted()
def flag_that_the_host_sees(s: Stage) -> None:
    data, flag = s.memory(), s.pinned()
    s.launch("produce", s.a, data, flag)
    while ctypes.c_int.from_address(flag.value).value == 0:
        time.sleep(0)
    s.fill(data, s.b)


@planted()
def value_that_is_waited_for(s: Stage) -> None:
    memory, flag = s.memory(), s.memory()
    s.launch("fill", s.a, memory, 1)
    s.cuda.cuStreamWriteValue32_v2(s.a, flag, 1, 0)
    s.cuda.cuStreamWaitValue32_v2(s.b, flag, 1, WAIT_EQUAL)
    s.fill(memory, s.b)


@planted()
def default_stream_and_blocking_ones(s: Stage) -> None:
    memory, one, two = s.memory(), s.stream(0), s.stream(0)
    s.fill(memory, one)
    s.launch("fill", LEGACY, memory, 1)
    s.fill(memory, two)


@planted("in the default stream", "fill (cuMemsetD8Async")
def default_stream_and_one_that_does_not_block(s: Stage) -> None:
    memory = s.memory()
    s.launch("fill", LEGACY, memory, 1)
    s.fill(memory, s.a)


@planted("fill (cuMemsetD8Async", "fill (cuMemsetD8Async")
def two_blocking_ones(s: Stage) -> None:
    memory, one, two = s.memory(), s.stream(0), s.stream(0)
    s.fill(memory, one)
    s.fill(memory, two)


@planted()
def stream_that_was_destroyed(s: Stage) -> None:
    memory, one = s.memory(), s.stream()
    s.fill(memory, one)
    time.sleep(0.05)
    s.cuda.cuStreamDestroy_v2(one)
    s.cuda.cuCtxSynchronize()
    s.fill(memory, s.a)


@planted()
def blocking_stream_that_was_destroyed(s: Stage) -> None:
    memory, one = s.memory(), s.stream(0)
    s.fill(memory, one)
    time.sleep(0.05)
    s.cuda.cuStreamDestroy_v2(one)
    s.launch("fill", LEGACY, memory, 1)


# --- graphs


@planted("fill of a graph (cuGraphLaunch", "fill of a graph (cuGraphLaunch")
def graph_that_lacks_an_edge(s: Stage) -> None:
    memory = s.memory()

    def work(stream: Any) -> None:
        s.wait(s.b, stream)
        s.fill(memory, stream)
        s.fill(memory, s.b)
        s.wait(stream, s.b)

    s.cuda.cuGraphLaunch(s.graph(work), s.a)


@planted()
def graph_with_its_edges(s: Stage) -> None:
    memory = s.memory(2 * BYTES)

    def work(stream: Any) -> None:
        s.wait(s.b, stream)
        s.fill(memory, stream)
        s.fill(memory, s.b, BYTES)
        s.wait(stream, s.b)
        s.fill(memory, stream, 0, 2 * BYTES)

    graph = s.graph(work)
    s.cuda.cuGraphLaunch(graph, s.a)
    s.cuda.cuGraphLaunch(graph, s.b)  # launches of one executable graph run one after another
    s.cuda.cuGraphLaunch(graph, s.a)


@planted("fill of a graph (cuGraphLaunch", "kernel 'fill' (cuGraphLaunch")
def two_graphs(s: Stage) -> None:
    memory = s.memory()
    s.cuda.cuGraphLaunch(s.graph(lambda stream: s.fill(memory, stream)), s.a)
    s.cuda.cuGraphLaunch(s.graph(lambda stream: s.launch("fill", stream, memory, 1)), s.b)


# --- host memory


@planted()
def pinned_memory_freed_in_use(s: Stage) -> None:
    memory, host = s.memory(), s.pinned()
    s.launch("slow_fill", s.a, memory, 1, 100000)
    s.to_host(host, memory, s.a)
    s.cuda.cuMemFreeHost(host)  # waits for the copy


def _in_another_context(s: Stage, then: Callable[[Any, Any], None]) -> None:
    host, other = s.pinned(), s.cuda.out("cuCtxCreate_v2", 0, 0)
    memory, stream = s.memory(), s.stream()
    s.to_host(host, memory, stream)
    s.cuda.cuCtxSetCurrent(s.cuda.context)
    then(host, stream)
    s.cuda.library.cuCtxSetCurrent(other)  # result not checked: `then` may have failed
    s.end()
    s.cuda.cuCtxSetCurrent(s.cuda.context)


@planted("copy (cuMemcpyDtoHAsync_v2", "cuMemFreeHost frees")
def pinned_memory_freed_under_another_context(s: Stage) -> None:
    _in_another_context(s, lambda host, _: s.cuda.cuMemFreeHost(host))  # cuMemFreeHost waits only for its own context


@planted()
def pinned_memory_freed_after_another_context(s: Stage) -> None:
    def then(host: Any, stream: Any) -> None:
        s.cuda.cuStreamSynchronize(stream)
        s.cuda.cuMemFreeHost(host)

    _in_another_context(s, then)


@planted()
def pinned_memory_freed_after_use(s: Stage) -> None:
    memory, host = s.memory(), s.pinned()
    s.to_host(host, memory, s.a)
    s.cuda.cuStreamSynchronize(s.a)
    s.cuda.cuMemFreeHost(host)


@planted()
def device_memory_freed_in_use(s: Stage) -> None:
    memory = s.memory()
    s.launch("slow_fill", s.a, memory, 1, 100000)
    s.cuda.cuMemFree_v2(memory)  # waits for the kernel


@planted("copy (cuMemcpyDtoH_v2", "copy (cuMemcpyHtoDAsync_v2")
def copy_to_what_is_being_read(s: Stage) -> None:
    one, two, host = s.memory(), s.memory(), s.pinned()
    s.launch("slow_fill", s.a, one, 1, 100000)
    s.to_device(one, host, s.a)
    s.cuda.cuMemcpyDtoH_v2(host, two, c_size_t(BYTES))


@planted()
def copy_to_what_was_read(s: Stage) -> None:
    one, two, host = s.memory(), s.memory(), s.pinned()
    s.to_device(one, host, s.a)
    s.cuda.cuStreamSynchronize(s.a)
    s.cuda.cuMemcpyDtoH_v2(host, two, c_size_t(BYTES))


@planted("copy (cuMemcpyHtoD_v2", "copy (cuMemcpyDtoHAsync_v2")
def copy_from_what_is_being_written(s: Stage) -> None:
    one, two, host = s.memory(), s.memory(), s.pinned()
    s.launch("slow_fill", s.a, one, 1, 100000)
    s.to_host(host, one, s.a)
    s.cuda.cuMemcpyHtoD_v2(two, host, c_size_t(BYTES))


@planted()
def pageable_memory_used_again(s: Stage) -> None:
    one, two = s.memory(), s.memory()
    host = (ctypes.c_char * BYTES)()
    s.to_device(one, host, s.a)
    s.cuda.cuMemcpyDtoH_v2(host, two, c_size_t(BYTES))
    s.to_host(host, two, s.b)


@planted()
def host_function_that_tells(s: Stage) -> None:
    memory, told = s.memory(), []
    function = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: told.append(1))
    s.kept.append(function)
    s.launch("fill", s.a, memory, 1)
    s.cuda.cuLaunchHostFunc(s.a, function, None)
    while not told:
        s.cuda.library.cuStreamQuery(s.a)
    s.fill(memory, s.b)


@planted()
def host_function_that_waits(s: Stage) -> None:
    memory, done = s.memory(), threading.Event()
    function = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: done.wait())
    s.kept.append(function)
    s.launch("fill", s.a, memory, 1)
    s.cuda.cuLaunchHostFunc(s.b, function, None)
    s.fill(memory, s.b)
    s.cuda.cuStreamSynchronize(s.a)
    done.set()


@planted()
def copies_that_wait(s: Stage) -> None:
    memory, host = s.memory(), s.pinned()
    for _ in range(3):
        s.cuda.cuMemcpyHtoD_v2(memory, host, c_size_t(BYTES))
        s.launch("fill", s.a, memory, 1)
        s.cuda.cuStreamSynchronize(s.a)
        s.cuda.cuMemcpyDtoH_v2(host, memory, c_size_t(BYTES))
