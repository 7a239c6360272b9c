# SPDX-License-Identifier: Apache-2.0
"""Graphs on drivers for CUDA 12.0 to 12.3, which have older functions."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.cuda_sim
Run = Callable[..., subprocess.CompletedProcess[str]]

START = """
import warnings
import cudacore_graph as cg
import cudacore_handles as ch
from graph_tools import ONE, PTX, Numbers

warnings.simplefilter("error")
device = ch.Device(0)
device.set_current()
stream, numbers = device.create_stream(), Numbers(16)
code = ch.ObjectCode.from_ptx(PTX)
add, times = code.get_kernel("add"), code.get_kernel("times")
definition = cg.GraphDefinition()

def error_of(call):
    try:
        call()
    except ch.CUDAError as error:
        return str(error)
    raise AssertionError("no error")
"""


def run_on(run_python: Run, version: str, text: str) -> None:
    result = run_python(START + text, CUDACORE_DRIVER="sim", CUDACORE_SIM_DRIVER_VERSION=version)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr


@pytest.mark.parametrize("version", ["12.0", "12.1", "12.2", "12.3"])
def test_nodes_of_every_type(run_python: Run, version: str) -> None:
    """A node could not be added or updated: before CUDA 12.2, each type of node has its own functions for that."""
    run_on(
        run_python,
        version,
        """
called, event, other = [], device.create_event(), device.create_event()
child = cg.GraphDefinition()
child.launch(ONE, add, numbers.at(4), 1)
memory = definition.allocate(64)
fill = memory.memset(memory.dptr, 1, 4)
kernel = fill.launch(ONE, add, memory.dptr, 1)
copy = kernel.memcpy(numbers.buffer, memory.dptr, 4)
copy.deallocate(memory.dptr)
call = copy.callback(lambda: called.append(1))
inner = call.embed(child)
recorded = inner.record(event)
waited = recorded.wait(event)
waited.join(definition.empty())

def launched(graph):
    numbers[4] = 0
    graph.launch(stream)
    stream.sync()
    return numbers[0], numbers[4], len(called)

graph = definition.instantiate()
assert launched(graph) == (0x01010102, 1, 1)
fill.update(value=2)
kernel.update(args=(memory.dptr, 3))
copy.update(size=4)
call.update(lambda: called.extend([2, 2]))
recorded.update(other)
waited.update(other)
assert launched(graph) == (0x01010102, 1, 2)
graph.close()
graph = definition.instantiate()
assert launched(graph) == (0x02020205, 1, 4)
graph[kernel].update(config=ONE, kernel=add, args=(memory.dptr, 4))
graph.update_many([kernel], memory.dptr, 4)
graph[call].update(lambda: called.append(3))
graph[recorded].update(event)
graph[waited].update(event)
assert launched(graph) == (0x02020206, 1, 5)
with stream.create_graph_builder() as builder:
    ch.launch(builder, ONE, add, numbers.at(4), 5)
numbers[4] = 0
builder.complete().launch(stream)
stream.sync()
assert numbers[4] == 5
copied, nodes = child.clone()
copied.instantiate().launch(stream)
stream.sync()
assert numbers[4] == 6
""",
    )


def test_kinds_of_parameters(run_python: Run) -> None:
    """The kernel of a node would have parameters of unknown kinds: CUDA 12.0 to 12.2 do not report a kernel's name."""
    run_on(
        run_python,
        "12.2",
        """
text = b".version 7.0\\n.target sm_75\\n.address_size 64\\n.visible .entry _Z5scalePf(.param .u64 x) { ret; }"
kernel = ch.ObjectCode.from_ptx(text).get_kernel("_Z5scalePf")
node = definition.launch(ONE, kernel, numbers.buffer.view("float32"))
del kernel
assert [(p.kind, p.pointee) for p in node.kernel.arguments_info] == [("pointer", "float32")]
try:
    node.update(args=(numbers.buffer.view("int32"),))
except TypeError as error:
    assert "the parameter is a pointer to float" in str(error)
else:
    raise AssertionError("no error")
""",
    )


def test_what_is_missing(run_python: Run) -> None:
    """The error would not name the version of the driver that has the feature."""
    run_on(
        run_python,
        "12.0",
        """
needs = "needs a driver for CUDA {} or newer; the loaded driver is for CUDA 12.0"
assert needs.format("12.3") in error_of(definition.create_condition)
first = definition.launch(ONE, add, numbers.buffer, 1)
early = ch.LaunchConfig(grid=1, block=1, programmatic_stream_serialization=True)
assert needs.format("12.3") in error_of(lambda: first.launch(early, add, numbers.buffer, 1))
second = first.launch(ONE, add, numbers.buffer, 1)
assert needs.format("12.3") in error_of(lambda: second.pred.add(first, "programmatic"))
assert definition.edge_types() == {(first, second): "default"}
second.destroy()
inner = definition.embed(cg.GraphDefinition())
assert needs.format("12.2") in error_of(lambda: inner.update(cg.GraphDefinition()))
assert len(definition.nodes()) == 2
memory = definition.allocate(64)
try:
    definition.add_many([("deallocate", memory, 4096)])  # which is tried by a fill in another graph
except ValueError as error:
    assert "dptr cannot be freed by a node of this graph" in str(error)
""",
    )


@pytest.mark.parametrize("version", ["12.0", "12.2", "12.3"])
def test_failing_edges(run_python: Run, version: str) -> None:
    """An error would name a function that the driver does not have, because cuda.h renames it."""
    run_on(
        run_python,
        version,
        """
import cudacore_sim as sim
first, second = definition.empty(), definition.empty()
second.pred.add(first)
for name, call in {
    "cuGraphAddDependencies": lambda: first.pred.add(second),
    "cuGraphRemoveDependencies": lambda: second.pred.remove(first),
    "cuGraphGetEdges": definition.edges,
    "cuGraphNodeGetDependencies": lambda: list(first.pred),
    "cuGraphNodeGetDependentNodes": lambda: list(first.succ),
}.items():
    with sim.failing(name, error=999):
        assert error_of(call).startswith(name + ": "), error_of(call)
""",
    )


@pytest.mark.parametrize("version", ["12.3", "12.6"])
def test_choices(run_python: Run, version: str) -> None:
    """A driver with only some conditional nodes would not report which version has the others."""
    run_on(
        run_python,
        version,
        """
definition.if_then(definition.create_condition(1)).then.launch(ONE, add, numbers.buffer, 1)
for name, more in ("if_else", ()), ("switch", (2,)):
    condition = definition.create_condition(1)
    error = error_of(lambda: getattr(definition, name)(condition, *more))
    assert "needs a driver for CUDA 12.8" in error, error
    definition.if_then(condition)
definition.instantiate().launch(stream)
stream.sync()
assert numbers[0] == 1
""",
    )


def test_a_kernel_of_others(run_python: Run) -> None:
    """A kernel with unknown parameters could not be in a graph, with its arguments packed by their own types."""
    run_on(
        run_python,
        "12.0",
        """
import numpy as np
from cuda.bindings import driver
library = driver.cuLibraryLoadData(PTX + bytes(1), [], [], 0, [], [], 0)[1]
kernel = ch.Kernel.from_handle(int(driver.cuLibraryGetKernel(library, b"add")[1]))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    node = definition.launch(ONE, kernel, numbers.buffer, 3)
    node.launch(ONE, kernel, numbers.buffer, np.uint32(4))
(warning,) = caught
assert warning.filename == __file__ and "are unknown" in str(warning.message), warning
graph = definition.instantiate()
graph.launch(stream)
stream.sync()
assert numbers[0] == 7
assert node.kernel == kernel
del graph, node, kernel, definition
""",
    )
