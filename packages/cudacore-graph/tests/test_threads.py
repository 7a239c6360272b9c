# SPDX-License-Identifier: Apache-2.0
"""Threads that work on graphs at the same time: which of them wait for which."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from graph_tools import ONE, Numbers, add_function

import cudacore_graph as cg
import cudacore_handles as ch
from cudacore_handles._base import results as status_module

_TIMEOUT = 30
_OTHERS = 20

pytestmark = pytest.mark.cuda_sim


def start(function: Callable[[], object]) -> threading.Thread:
    """Call a function in a thread that does not keep the process alive, should it wait forever."""
    device = ch.Device()

    def call() -> None:
        device.set_current()
        function()

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def ends(threads: list[threading.Thread]) -> bool:
    for thread in threads:
        thread.join(_TIMEOUT)
    return not any(thread.is_alive() for thread in threads)


@contextmanager
def in_the_middle(cuda_sim: Any, name: str, function: Callable[[], object]) -> Iterator[threading.Thread]:
    """Run a block while another thread is in the middle of a call of the driver."""
    cuda_sim.hold(name)
    try:
        thread = start(function)
        deadline = time.monotonic() + _TIMEOUT
        while not cuda_sim.held(name):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        yield thread
    finally:
        cuda_sim.let_go(name)


def test_unrelated_graphs(definition: cg.GraphDefinition, stream: ch.Stream, cuda_sim: Any) -> None:
    """A call for a graph would wait for a long call for another one."""
    others = [cg.GraphDefinition() for _ in range(_OTHERS)]
    running = definition.instantiate()

    def work() -> None:
        for other in others:
            other.empty().join()
            assert len(other.nodes()) == 2
            other.instantiate().launch(stream)
        running.launch(stream)
        stream.sync()

    with in_the_middle(cuda_sim, "cuGraphClone", definition.copy) as thread:
        assert ends([start(work)])
    assert ends([thread])


def test_one_graph(definition: cg.GraphDefinition, cuda_sim: Any) -> None:
    """Two threads would work on one graph at the same time, which CUDA does not allow."""
    with in_the_middle(cuda_sim, "cuGraphClone", definition.copy) as thread:
        waiting = start(definition.empty)
        waiting.join(0.05)
        assert waiting.is_alive()
    assert ends([thread, waiting])
    assert len(definition.nodes()) == 1


def test_python_code_while_an_error_is_made(
    definition: cg.GraphDefinition, cuda_sim: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Making the error of a failed call can collect garbage, whose finalizers can use graphs. Under the lock of a graph
    they would wait forever, for a thread that waits for that graph."""
    first = definition.empty()
    first.pred.add(first.join())
    others = [cg.GraphDefinition() for _ in range(_OTHERS)]
    status = status_module.Status
    seen: list[int] = []

    def make(*args: Any) -> Any:
        made = status(*args)
        seen.extend(len(other.nodes()) for other in others)
        return made

    def fail() -> None:
        with pytest.raises(ch.CUDAError):
            definition.instantiate()

    with in_the_middle(cuda_sim, "cuGraphInstantiateWithParams", fail) as thread:
        waiting = [start(lambda other=other: other.embed(definition)) for other in others]
        time.sleep(0.2)  # until each of them has what it can get
        monkeypatch.setattr(status_module, "Status", make)
    assert ends([thread, *waiting])
    assert len(seen) == _OTHERS


def test_builders_end_alone(device: ch.Device, stream: ch.Stream, add: ch.Kernel, cuda_sim: Any) -> None:
    """A launch that another thread has begun would run at once, because the capture would end before it."""
    other = device.create_stream().create_graph_builder().begin_building()
    builder = stream.create_graph_builder().begin_building()
    fork = builder.split(2)[1]
    prepared = add.prepare(fork, ONE, 0, 1)
    for launch in (partial(ch.launch, fork, ONE, add, 0, 1), prepared):
        with in_the_middle(cuda_sim, "cuLaunchKernelEx", launch) as thread:
            for call in (fork.close, partial(cg.GraphBuilder.join, builder, fork), partial(fork.callback, print)):
                with pytest.raises(RuntimeError, match="another call is using this GraphBuilder"):
                    call()
            other.callback(print)  # has nothing to do with it
        assert ends([thread])
    cg.GraphBuilder.join(builder, fork).end_building()
    assert len(builder.graph_definition.nodes()) == 2
    with pytest.raises(RuntimeError, match="is not building any more"):
        prepared()
    other.close()


def test_one_thread_begins(stream: ch.Stream, cuda_sim: Any) -> None:
    """Closed meanwhile, a builder would leave its stream in a capture; two threads could begin captures at once."""
    builder = stream.create_graph_builder()
    with in_the_middle(cuda_sim, "cuStreamBeginCapture", builder.begin_building) as thread:
        for call in (builder.close, builder.begin_building):
            with pytest.raises(RuntimeError, match="another call is using this GraphBuilder"):
                call()
    assert ends([thread])
    assert builder.is_building
    builder.close()
    stream.sync()


@pytest.mark.parametrize(
    ("other", "call", "message"),
    [
        ("end_building", "split", "is not building any more"),
        ("close", "split", "has been closed"),
        ("close", "end_building", "has been closed"),
    ],
)
def test_another_call_was_first(
    stream: ch.Stream, monkeypatch: pytest.MonkeyPatch, other: str, call: str, message: str
) -> None:
    """The state could change after it was checked: the driver would get a captured stream, or the error would be
    misleading."""
    builder, alone = stream.create_graph_builder(), cg.GraphBuilder._alone
    builder.begin_building(*["global"] * (call == "end_building"))  # this mode is checked in Python

    def late(what: str, *builders: cg.GraphBuilder) -> Any:
        monkeypatch.undo()
        assert ends([start(getattr(builder, other))])
        return alone(what, *builders)

    monkeypatch.setattr(cg.GraphBuilder, "_alone", staticmethod(late))
    with pytest.raises(RuntimeError, match=message):
        getattr(builder, call)(*[2] * (call == "split"))
    assert not builder.is_building
    builder.close()


def test_forks_that_other_threads_change_while_a_builder_ends(stream: ch.Stream) -> None:
    """The error would be that a dict changed during iteration, and close() would leave the other forks open."""
    builder = stream.create_graph_builder().begin_building()
    forks = list(builder.split(3)[1:])
    capture = builder._capture
    assert capture is not None

    def split() -> cg.GraphBuilder:
        forks.extend(forks[0].split(2)[1:])
        return forks[0]

    def join() -> cg.GraphBuilder:
        capture.unjoined.popitem()
        return forks[0]

    first = next(iter(capture.unjoined))
    capture.unjoined[first] = split  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="2 builders that split"):
        builder.end_building()
    capture.unjoined[first] = join  # type: ignore[assignment]
    builder.close()
    assert len(forks) == 3
    assert all(fork.is_closed for fork in forks)


def test_builders_take_no_work_during_their_calls(
    stream: ch.Stream, add: ch.Kernel, numbers: Numbers, cuda_sim: Any
) -> None:
    """The call of one thread sets the dependencies of what follows: they would not have the work of other threads."""
    builder, add_host = stream.create_graph_builder().begin_building(), add_function("Host")
    prepared = add.prepare(builder, ONE, 0, 1)
    fill = partial(numbers.buffer.fill, 0, stream=builder)
    # The call of the other thread can also begin after the work has got the stream from the builder.
    late_fill = partial(numbers.buffer.fill, 0, stream=builder._accept_work())
    for work in (partial(ch.launch, builder, ONE, add, 0, 1), fill, late_fill, prepared):
        call = partial(builder.callback, print)
        with in_the_middle(cuda_sim, add_host, call) as thread, pytest.raises(RuntimeError, match="another"):
            work()
        assert ends([thread])
        work()
    assert len(builder.end_building().graph_definition.edges()) == 7
