# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings, which the API pages show."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

import cudacore as core
import cudacore.graph
import cudacore.texture
import cudacore.utils

MODULES: tuple[ModuleType, ...] = (core, core.graph, core.texture, core.utils)
# Objects whose documentation must have an example.
MAIN = (
    "Buffer",
    "Device",
    "DeviceMemoryResource",
    "Event",
    "Kernel",
    "LaunchConfig",
    "LegacyManagedMemoryResource",
    "LegacyPinnedMemoryResource",
    "Linker",
    "ManagedMemoryResource",
    "ObjectCode",
    "PinnedMemoryResource",
    "Program",
    "Stream",
    "TensorMapDescriptor",
    "VirtualMemoryResource",
    "graph.Graph",
    "graph.GraphBuilder",
    "graph.GraphDefinition",
    "launch",
    "texture.TextureObject",
    "utils.StridedMemoryView",
)


def documented() -> Iterator[tuple[str, object]]:
    """Return public objects and their methods, each once, with their names in ``cudacore``."""
    seen = set()
    for module in MODULES:
        for name in module.__all__:
            obj = getattr(module, name)
            if not (inspect.isclass(obj) or inspect.isroutine(obj)) or obj in seen:
                continue
            seen.add(obj)
            full = f"{module.__name__}.{name}".removeprefix("cudacore.")
            yield full, obj
            for method in dir(obj) if inspect.isclass(obj) else ():
                if not method.startswith("_"):
                    yield f"{full}.{method}", inspect.getattr_static(obj, method)


def examples() -> dict[str, str]:
    """Return docstrings with examples, by name. A docstring that several classes inherit is returned once."""
    texts: dict[str, str] = {}
    for name, obj in documented():
        text = inspect.getdoc(obj.__func__ if isinstance(obj, classmethod | staticmethod) else obj) or ""
        if ">>> " in text and text not in texts.values():
            texts[name] = text
    return texts


EXAMPLES = examples()


def test_all_main_objects_have_examples() -> None:
    """The page of a main class would show no example, or one that no test runs."""
    assert set(MAIN) <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, device: core.Device) -> None:
    """A reader who pastes the example would get an error, or another result."""
    if name == "TensorMapDescriptor" and not device.properties.tensor_map_access_supported:
        pytest.skip("needs a device of compute capability 9.0")
    names = {"core": core, "np": np, "device": device, "stream": device.create_stream()}
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], names, name, None, 0)
    try:
        doctest.DebugRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    except doctest.UnexpectedException as failure:
        raise failure.exc_info[1] from None
    finally:
        names.clear()
