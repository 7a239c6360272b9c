# SPDX-License-Identifier: Apache-2.0
"""Error messages and reprs have the names of public classes."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator

import pytest

import cudacore_graph as cg
import cudacore_handles as ch

PTX = b".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry k(.param .u64 p){ ret; }\n"
ONE = ch.LaunchConfig(grid=1, block=1)
# _StridedLayout is a public name in cudacore, as in cuda.core.
INTERNAL = re.compile(r"(?<![\w.])_(?!StridedLayout)[A-Z]\w+|\b(?!IPCAllocation)[A-Z]\w*Handle\b|\b_native\b|\b_cffi\b")
# Methods for which every call is valid.
ANY_CALL = {"join", "launch"}


@pytest.fixture
def objects() -> Iterator[list[object]]:
    """Give an object of each class that has methods of the extension module, and objects of some other classes."""
    device = ch.Device()
    device.set_current()
    stream = device.create_stream()
    buffer = device.allocate(64, stream=stream)
    kernel = ch.ObjectCode.from_ptx(PTX).get_kernel("k")
    definition = cg.GraphDefinition()
    node = definition.launch(ONE, kernel, buffer)
    graph = definition.instantiate()
    pool = ch.DeviceMemoryResource(device, {})
    yield [
        device, device.context, device.resources, device.properties, stream, stream.record(), buffer, buffer.view("u1"),
        kernel, kernel.attributes, kernel.occupancy, kernel.prepare(stream, ONE, buffer), ONE,
        definition, node, node.pred, definition.empty(), graph, graph[node], device.create_graph_builder(),
        definition.nodes(), pool, pool.attributes, ch.LegacyPinnedMemoryResource(), ch.VirtualMemoryResource(device),
        cg.GraphMemoryResource(device), cg.GraphMemoryResource(device).attributes, ch.Host(),
    ]  # fmt: skip
    stream.sync()


def messages(value: object) -> Iterator[str]:
    """Yield the repr of an object, and the messages for invalid calls of its methods."""
    yield repr(value)
    yield str(value)
    cls = type(value)
    calls: list[tuple[object, tuple[object, ...], dict[str, object]]] = [(cls, (), {}), (cls, (1,) * 20, {})]
    for name in dir(cls):
        if name.startswith("_"):
            continue
        try:
            unbound, bound = getattr(cls, name), getattr(value, name)
        except Exception as error:  # the value is not set yet, or this driver does not support it
            yield str(error)
            continue
        if not callable(bound):
            yield repr(bound)
            calls += [(setattr, (value, name, object()), {})] if isinstance(unbound, property) else []
            continue
        calls.append((unbound, (object(),), {}))
        if name not in ANY_CALL:
            calls += [(bound, (object(),) * 20, {}), (bound, (), {"no_such_argument": 1})]
    for function, arguments, keywords in calls:
        try:
            function(*arguments, **keywords)  # type: ignore[operator]
        except Exception as error:
            yield str(error)


def test_names_of_public_classes(objects: list[object]) -> None:
    """A message would name an undocumented class, as in "StreamHandle.sync() takes no arguments"."""
    found = [(type(value).__name__, text) for value in objects for text in messages(value) if INTERNAL.search(text)]
    assert not found, "\n".join(map(str, found))


PACKAGES = ("cudacore", "cudacore_handles", "cudacore_graph", "cudacore_compile", "cudacore_sim")


@pytest.mark.parametrize("name", PACKAGES)
def test_classes_behind_public_ones(name: str) -> None:
    """CPython's message about an invalid call would name a private base class that defines the method."""
    package = importlib.import_module(name)
    classes = [cls for cls in (getattr(package, one) for one in package.__all__) if isinstance(cls, type)]
    bases = {base for cls in classes for base in cls.__mro__ if base.__module__.startswith("cudacore")}
    found = {
        base.__qualname__
        for base in bases
        for method, value in vars(base).items()
        if INTERNAL.search(base.__qualname__) and callable(value) and not method.startswith("_")
    }
    assert not found


@pytest.mark.parametrize("name", PACKAGES)
def test_errors_are_where_people_find_them(name: str) -> None:
    """The last line of a traceback would name a module from which programs cannot import the error."""
    package = importlib.import_module(name)
    for error in (getattr(package, one) for one in package.__all__):
        if isinstance(error, type) and issubclass(error, BaseException):
            assert getattr(sys.modules[error.__module__], error.__name__) is error
            assert "._" not in error.__module__
    device = ch.Device()
    device.set_current()
    closed = device.create_event()
    closed.close()
    with pytest.raises(ch.ClosedError) as caught:
        closed.sync()
    assert f"{type(caught.value).__module__}.{type(caught.value).__qualname__}" == "cudacore_handles.ClosedError"
