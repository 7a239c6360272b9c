# SPDX-License-Identifier: Apache-2.0
"""The examples of the API pages: those of classes and functions are in docstrings, those of methods in docs/."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, get_origin

import pytest

import cudacore as core
import cudacore.graph
import cudacore.texture
import cudacore.utils
import cudacore_compile
import cudacore_graph
import cudacore_handles
from cudacore import system
from cudacore_handles._code.kernel_attributes import KernelAttributes, KernelOccupancy
from guide_programs import blocks_of, example_of

MODULES: tuple[ModuleType, ...] = (
    *(core, core.graph, core.texture, core.utils),
    *(cudacore_handles, cudacore_compile, cudacore_graph),
)
# Classes that users get, but do not import.
RETURNED = (KernelAttributes, KernelOccupancy)
# Classes whose documentation must have an example.
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
    "texture.TextureObject",
    "utils.StridedMemoryView",
)


# Methods that people rarely call or that a test cannot call, and the pages that show them.
WITHOUT = {
    "GraphicsResource.from_gl_buffer": "graphics",
    "GraphicsResource.from_gl_image": "graphics",
    "GraphicsResource.map": "graphics",
    "GraphicsResource.unmap": "graphics",
    "ObjectCode.get_module": "migration",  # the module is never unloaded
    "TensorMapDescriptor.from_im2col_wide": "tensor-maps",  # needs a device of compute capability 10.0
    "WorkqueueResource.configure": "green-contexts",  # needs CUDA 13.1
    "cudacore_handles.reset_concurrent_access_warning": "python/memory",
    "utils.FileStreamProgramCache.count": "compile-cache",
}


def is_ours(member: object) -> bool:
    """Return whether a member of a class is a method that was defined in one of our packages."""
    owner = getattr(member, "__objclass__", member)
    return callable(member) and inspect.isroutine(member) and (owner.__module__ or "").startswith("cudacore")


def documented() -> Iterator[tuple[str, Any, type | None]]:
    """Yield the public functions, classes and methods, with their names and the classes of the methods.

    Methods with the same docstring, which several classes inherit, are returned once.
    """
    public = [(f"{module.__name__}.{name}", getattr(module, name)) for module in MODULES for name in module.__all__]
    seen: list[object] = []
    for full_name, obj in [*public, *((cls.__name__, cls) for cls in RETURNED)]:
        full = full_name.removeprefix("cudacore.")
        # Python 3.10 takes generic aliases, such as tuple[int, int], for classes.
        is_class = inspect.isclass(obj) and get_origin(obj) is None
        if obj in seen or not (is_class or inspect.isroutine(obj)):
            continue
        seen.append(obj)
        yield full, obj, None
        for method in dir(obj) if is_class and not issubclass(obj, BaseException) else ():
            member = inspect.getattr_static(obj, method)
            member = getattr(member, "__func__", member)
            is_public = not method.startswith("_") or method == "__getitem__"
            if is_public and is_ours(member) and member.__doc__ and member.__doc__ not in seen:
                seen.append(member.__doc__)
                yield f"{full}.{method}", member, obj


def example(name: str, obj: Any, cls: type | None) -> str:
    """Return the text with the example of a function, a class or a method, "" for none."""
    return (example_of(cls, name.rpartition(".")[2]) if cls else "") or inspect.getdoc(obj) or ""


DOCUMENTED = list(documented())
EXAMPLES = {each[0]: example(*each) for each in DOCUMENTED}


def test_all_have_examples() -> None:
    """The page of a class, a function or a method that people call would show no example, or one that no test runs."""
    called = {name for name, obj, _ in DOCUMENTED if name in MAIN or not inspect.isclass(obj)}
    assert {name for name in called if ">>> " not in EXAMPLES[name]} == set(WITHOUT)
    assert called >= set(MAIN)


def test_all_have_raises() -> None:
    """The page of a method would not say which errors it raises. The page of errors describes TypeError for all."""
    missing = {}
    for name, obj, _ in DOCUMENTED:
        if inspect.isfunction(obj):
            code = inspect.getsource(obj).split('"""', 2)[-1]
            section = obj.__doc__.partition("Raises\n")[2]
            raised = set(re.findall(r"raise (\w+Error)\(", code)) - {"TypeError"}
            missing[name] = {error for error in raised if error not in section}
    assert {name for name, errors in missing.items() if errors} == set()


@pytest.fixture(scope="module")
def begin() -> Iterator[dict[str, object]]:
    """The names that all examples can use: those of the first lines in the reference."""
    (block,) = blocks_of("python/index", "python")
    names: dict[str, object] = {}
    exec(block.code, names)
    core.GraphMemoryResource(core.Device())  # there is one for each device
    yield names
    names.clear()


@pytest.mark.parametrize("name", [name for name, text in EXAMPLES.items() if ">>> " in text])
def test_example(name: str, begin: dict[str, object], device: core.Device) -> None:
    """A reader who pastes the example would get an error, or another result."""
    if "ensor_map" in EXAMPLES[name] and not device.properties.tensor_map_access_supported:
        pytest.skip("needs a device of compute capability 9.0")
    if "system_device" in name and not system.CUDA_BINDINGS_NVML_IS_COMPATIBLE:
        pytest.skip("needs newer cuda-bindings, with NVML")
    names = dict(begin)
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], names, name, None, 0)
    try:
        doctest.DebugRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(test)
    except doctest.UnexpectedException as failure:
        error = failure.exc_info[1]
        if re.search("needs a driver for CUDA|pip install", str(error)):
            pytest.skip(str(error).splitlines()[0])
        raise error from None
    finally:
        names.clear()
