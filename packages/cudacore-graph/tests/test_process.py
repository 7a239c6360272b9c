# SPDX-License-Identifier: Apache-2.0
"""Effects of graphs on a process: imports, exit, and forks."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

SETUP = """
import cudacore_graph as cg
import cudacore_handles as ch
import graph_tools

device = ch.Device()
device.set_current()
stream = device.create_stream()
add = ch.ObjectCode.from_ptx(graph_tools.PTX).get_kernel("add")
numbers = graph_tools.Numbers(4)
"""

CONDITIONAL = pytest.mark.needs_driver("12.3", "conditional nodes")
# A capture with allocated memory, a fork and a conditional body.
BUILDING = """
builder = stream.create_graph_builder().begin_building('global')
memory = device.allocate(64, stream=builder)
_, fork = builder.split(2)
body = builder.if_then(builder.create_condition(1)).begin_building('global')
ch.launch(body, graph_tools.ONE, add, memory, 1)
"""

# Captures of a thread that has ended.
ON_A_THREAD = """
import threading

builders = []
def build():
    device.set_current()
    for stream in device.create_stream(), ch.PER_THREAD_DEFAULT_STREAM:
        builders.append(stream.create_graph_builder().begin_building('thread_local'))
thread = threading.Thread(target=build)
thread.start()
thread.join()
"""


def test_import_is_light(run_python: Run) -> None:
    """Importing the package would load the driver, the bindings or other heavy modules."""
    result = run_python(
        """
        import sys
        import cudacore_graph
        heavy = ("cuda.bindings", "numpy", "ctypes", "graphviz", "cudacore_compile", "importlib.metadata")
        assert not [name for name in heavy if name in sys.modules]
        assert "libcuda.so" not in open("/proc/self/maps").read()
        """
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    "last",
    [
        "keep = definition, graph, node, builder",
        "cycle = [definition, graph]; cycle.append(cycle); del definition, graph",
        "definition.callback(lambda keep=definition: keep); del definition, node",  # a cycle that cannot be collected
        "import threading; threading.local().x = graph",
        "graph.launch(stream)",
        "definition.callback(lambda: time.sleep(0.3)); definition.instantiate().launch(stream)",
        "atexit.register(lambda: (graph.launch(stream), stream.sync()))",
        "builder = stream.create_graph_builder().begin_building('global')",
        pytest.param(BUILDING, marks=CONDITIONAL),
        pytest.param(
            BUILDING + "cycle = [builder, fork, body, memory]; cycle.append(cycle); del builder, fork, body, memory",
            marks=CONDITIONAL,
        ),
        "builder = ch.PER_THREAD_DEFAULT_STREAM.create_graph_builder().begin_building()",
        ON_A_THREAD,
        "class Late:\n    def __del__(self): graph.launch(stream)\nlate = Late()",
    ],
)
def test_end_of_the_interpreter(run_python: Run, last: str) -> None:
    """An interpreter that ends with graphs, captures or callbacks in progress would crash, hang, or write to stderr."""
    code = f"""
import atexit, sys, time
{SETUP}
called = []
definition = cg.GraphDefinition()
node = definition.launch(graph_tools.ONE, add, numbers.buffer, 1)
node.callback(lambda: called.append(1))
graph = definition.instantiate()
with stream.create_graph_builder() as builder:
    ch.launch(builder, graph_tools.ONE, add, numbers.buffer, 1)
{last}
"""
    result = run_python(code)
    assert (result.returncode, result.stderr) == (0, "")


def test_callback_that_exits(run_python: Run) -> None:
    """``SystemExit`` in a callback would end the process in the middle of the driver."""
    result = run_python(
        f"""
import sys
{SETUP}
definition = cg.GraphDefinition()
definition.callback(sys.exit)
definition.instantiate().launch(stream)
stream.sync()
print("still here")
"""
    )
    assert (result.returncode, result.stdout) == (0, "still here\n")
    assert "SystemExit" in result.stderr


def test_fork(run_python: Run) -> None:
    """A child would hang in an inherited graph, or the error would not give a reason."""
    result = run_python(
        f"""
import os
{SETUP}
definition = cg.GraphDefinition()
node = definition.empty()
graph = definition.instantiate()
pid = os.fork()
if pid == 0:
    try:
        node.join()
    except ch.CUDAError as error:
        os._exit(0 if error.code_name == "CCH_EFORKED" else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    )
    assert (result.returncode, result.stderr) == (0, "")


@CONDITIONAL
def test_fork_in_a_capture(run_python: Run) -> None:
    """A child would hang in a capture that it inherited, or end the parent's capture."""
    result = run_python(
        f"""
import gc, os, sys
{SETUP}
{BUILDING}
pid = os.fork()
if pid == 0:
    for call in (
        lambda: ch.launch(fork, graph_tools.ONE, add, numbers.buffer, 1),
        lambda: builder.split(2),
        lambda: builder.join(builder, fork),
        lambda: builder.callback(print),
        body.end_building,
        stream.create_graph_builder().begin_building,
    ):
        try:
            call()
        except ch.CUDAError as error:
            if error.code_name == "CCH_EFORKED":
                continue
        os._exit(1)
    memory.close()
    body.close()
    del builder, fork
    gc.collect()
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
body.end_building()
memory.close()
builder.join(builder, fork)
builder.end_building().complete().launch(stream)
stream.sync()
"""
    )
    assert (result.returncode, result.stderr) == (0, "")


@CONDITIONAL
def test_a_builder_that_outlives_the_modules(run_python: Run) -> None:
    """The interpreter would report an exception in GraphBuilder.__del__ at its end."""
    # The contents of builtins are destroyed last.
    keep = """
import builtins
from cudacore_graph import _builder

class Last:
    def __init__(self, module):
        self.names = vars(module)

    def __del__(self):
        self.names["hold"] = None  # as the interpreter clears modules

builtins.last = Last(_builder)
builtins.kept = builder, fork, body
del builder, fork, body, _
"""
    result = run_python(SETUP + BUILDING + keep)
    assert (result.returncode, result.stderr) == (0, "")
