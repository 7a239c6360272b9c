# SPDX-License-Identifier: Apache-2.0
"""Graphs that are lost because a capture into a body failed: the driver must not reach what it has destroyed.

On a GPU, the driver would end the process by SIGSEGV (13.0, H200). So each test runs a process of its own. Some streams
remain in a capture that cannot be ended, which would also affect other tests.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.needs_driver("12.3", "conditional nodes")

SETUP = """
import gc, threading
import cudacore_graph as cg
import cudacore_handles as ch
import graph_tools
from cudacore_handles._stream.stream import is_capturing

device = ch.Device()
device.set_current()
add = ch.ObjectCode.from_ptx(graph_tools.PTX).get_kernel("add")
numbers = graph_tools.Numbers(4)

def launch(stream, value=1):
    ch.launch(stream, graph_tools.ONE, add, numbers.buffer, value)

def fails(call, error=ch.CUDAError):
    try:
        call()
    except error as failure:
        return str(failure)
    raise AssertionError("it does not fail")

def check_usable(stream):
    assert not is_capturing(stream)
    before = numbers[0]
    launch(stream)
    stream.sync()
    assert numbers[0] == before + 1

def check_unusable(stream):
    for use in (lambda: launch(stream), stream.sync, stream.record, lambda: device.allocate(64, stream=stream)):
        message = fails(use)
        assert "Create another stream" in message, message

stream = device.create_stream()
builder = stream.create_graph_builder().begin_building()
body = builder.if_then(builder.create_condition(1)).begin_building()
launch(builder)
launch(body)
"""

LOSE = """
fails(body.stream.sync)
fails(body.end_building)
"""

WAYS = {
    "end": "assert 'lost' in fails(builder.end_building); assert builder.is_closed",
    "close": "builder.close()",
    "drop": "_ = None; del builder; gc.collect()",
}

END = """
check_usable(device.create_stream())
assert numbers[0] >= 1
"""


def check(run_python: Run, *parts: str) -> None:
    result = run_python("\n".join((SETUP, *parts, END)))
    if result.returncode or result.stderr:
        pytest.fail(f"exit status {result.returncode}\n{result.stderr}", pytrace=False)


FORK = "_, fork = builder.split(2); launch(fork); forked = fork.stream; own = builder.stream; inner = body.stream"


@pytest.mark.parametrize("way", WAYS)
def test_a_fork_outside_a_lost_body(run_python: Run, way: str) -> None:
    """The capture around the body would fail for the fork, and the driver would destroy the body a second time."""
    check(run_python, FORK, LOSE, WAYS[way], "check_usable(stream); check_usable(forked); check_usable(inner)")


@pytest.mark.parametrize("way", WAYS)
def test_an_invalidated_capture_around_a_lost_body(run_python: Run, way: str) -> None:
    """The capture around the body could not be ended, and the driver would destroy the body a second time."""
    ends = "own.close(); forked.close(); stream.close()"
    check(run_python, FORK, "fails(stream.sync)", LOSE, WAYS[way], "check_unusable(own); check_unusable(forked)", ends)


@pytest.mark.parametrize("way", WAYS)
def test_a_body_of_a_lost_graph(run_python: Run, way: str) -> None:
    """The driver has destroyed the body with the graph, and would destroy it again with the capture of the body."""
    lost = "fails(stream.sync); builder.close(); check_usable(stream); builder = body; del body"
    check(run_python, FORK, lost, WAYS[way], "check_usable(forked); check_unusable(inner)")


@pytest.mark.parametrize("way", WAYS)
def test_bodies_beside_and_around_a_lost_body(run_python: Run, way: str) -> None:
    """The captures of other bodies would reach the body that the driver has destroyed, or would not end."""
    nested = """
beside = builder.if_then(builder.create_condition(1)).begin_building()
launch(beside)
innermost = body.if_then(body.create_condition(1)).begin_building()
_, fork_of_body = body.split(2)
launch(fork_of_body)
streams = [one.stream for one in (builder, body, beside, innermost, fork_of_body)]
fails(innermost.stream.sync)
fails(innermost.end_building)
"""
    ends = """
for builder in (body, beside, builder):
    assert not builder.is_building
    if WAY == "end":
        assert "lost" in fails(builder.end_building)
    elif WAY == "close":
        builder.close()
del builder, body, beside, innermost, fork_of_body, _
gc.collect()
for one in streams:
    check_usable(one)
"""
    check(run_python, nested, ends.replace("WAY", repr(way)))


def test_a_graph_that_is_lost_without_references(run_python: Run) -> None:
    """The last reference to the graph would end its capture in the driver, or leave a usable stream in it."""
    check(run_python, FORK, "fails(stream.sync); del _, fork, builder", LOSE, "body.close(); del body; gc.collect()")
