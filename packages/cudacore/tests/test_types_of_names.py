# SPDX-License-Identifier: Apache-2.0
"""Signatures of public functions use public types, and their sets of strings are those of the enumerations."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import cudacore
import cudacore.typing
import cudacore_compile
import cudacore_graph
import cudacore_handles
from cudacore_compile.typing import CompilerBackendType, SourceCodeType

PACKAGES = ("cudacore", "cudacore_handles", "cudacore_graph", "cudacore_compile", "cudacore_sim")
SUBMODULES = ("texture", "utils", "checkpoint", "system", "graph", "interop", "typing")
MODULES = (*PACKAGES, *(f"cudacore.{name}" for name in SUBMODULES))
# Private names. Type variables, which have one letter, are excluded, and so is _StridedLayout, as in cuda.core.
PRIVATE = re.compile(r"(?<![\w.'\"])_(?!StridedLayout)[A-Za-z]\w+|\b(?!IPCAllocation|CUgraph)[A-Z]\w*Handle\b")
STUBS = ("_native.pyi", "_sdk/graph_native.pyi")


def annotations_of(function: Any) -> Iterator[str]:
    yield from (str(value) for value in getattr(function, "__annotations__", {}).values())


def annotations() -> Iterator[tuple[str, str]]:
    """Return the name and the annotation of each public function, method, property and field."""
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value):
                yield from ((name, text) for text in annotations_of(value))
            elif inspect.isclass(value) and issubclass(value, Enum) is False:
                for member, what in vars(value).items():
                    if member.startswith("_") and member not in ("__init__", "__getitem__", "__call__", "__new__"):
                        continue
                    function = what.fget if isinstance(what, property) else getattr(what, "__func__", what)
                    yield from ((f"{name}.{member}", text) for text in annotations_of(function))
                fields = getattr(value, "__dataclass_fields__", {})
                yield from ((f"{name}.{field}", str(what.type)) for field, what in fields.items())
    for stub in STUBS:
        tree = ast.parse((Path(cudacore_handles.__file__).parent / stub).read_text(encoding="utf-8"))
        methods = [
            (f"{cls.name}.{method.name}", method)
            for cls in tree.body
            if isinstance(cls, ast.ClassDef)
            for method in cls.body
            if isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
        ]
        methods += [
            (node.name, node) for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "launch"
        ]
        for where, method in methods:
            arguments = method.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg]
            stated = [argument.annotation for argument in every if argument is not None] + [method.returns]
            yield from ((where, ast.unparse(text)) for text in stated if text is not None)


def test_signatures_name_public_types() -> None:
    """A signature in an editor would have names that nobody can import or look up."""
    found = sorted({f"{where}: {text}" for where, text in annotations() if PRIVATE.search(text)})
    assert not found, "\n".join(found)


def sets() -> Iterator[tuple[str, set[str], set[str]]]:
    """Return the name of each set of strings, its strings, and the expected strings."""
    names = cudacore.typing
    for name in names.__all__:
        enum = getattr(names, f"{name.removesuffix('Name')}Type", None)
        if name.endswith("Name") and enum is not None:
            yield name, set(get_args(getattr(names, name))), {str(member) for member in enum}
    for name in ("MemcpySrcAccessOrder", "MemcpyOverlapMode"):
        members = {str(member) for member in getattr(cudacore_handles, name)}
        yield f"{name}Name", set(get_args(getattr(cudacore_handles.typing, f"{name}Name"))), members


EXPECTED = {
    "CompileTargetName": {str(target) for targets in cudacore_compile.SUPPORTED_TARGETS.values() for target in targets},
    "CompilerBackendName": {str(member) for member in CompilerBackendType}
    | {str(member).lower() for member in CompilerBackendType},
    "SourceCodeName": {str(member) for member in SourceCodeType},
}


@pytest.mark.parametrize(("name", "strings", "members"), [pytest.param(*one, id=one[0]) for one in sets()])
def test_sets_of_strings_are_those_of_the_enumerations(name: str, strings: set[str], members: set[str]) -> None:
    """Type checkers would refuse a valid string, or accept an invalid one."""
    assert strings == EXPECTED.get(name, members)


def test_sets_of_targets() -> None:
    """Type checkers would refuse a format that Program.compile() or Linker.link() accepts."""
    names = cudacore.typing
    assert set(get_args(names.CompileTargetName)) == EXPECTED["CompileTargetName"]
    for target in get_args(names.LinkTargetName):
        assert target in {"cubin", "ptx", "ltoir"}
    assert all(get_origin(getattr(names, name)) is not None for name in names.__all__ if name.endswith("Name"))


OPTION_DICTS = (
    (cudacore_handles, "_option_dicts.pyi"),
    (cudacore_compile, "_compilers/option_dicts.pyi"),
    (cudacore_graph, "_option_dicts.pyi"),
)


@pytest.mark.parametrize(("package", "stub"), OPTION_DICTS, ids=lambda value: getattr(value, "__name__", ""))
def test_dicts_of_options(package: Any, stub: str) -> None:
    """Type checkers would refuse an option in a dict, or accept one that does not exist or a value of a wrong type."""
    tree = ast.parse((Path(package.__file__).parent / stub).read_text(encoding="utf-8"))
    dicts = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert dicts
    for one in dicts:
        cls = getattr(package, one.name.removesuffix("Dict"))
        kinds = {name: getattr(kind, "__forward_arg__", kind) for name, kind in cls.__annotations__.items()}
        found = {ast.unparse(field.target): ast.unparse(field.annotation) for field in one.body[1:]}
        assert found == {name: kinds[name] for name in cls.__dataclass_fields__}, one.name


def test_properties_have_types() -> None:
    """Type checkers would see a variable instead of a read-only property, and the documentation would have no type."""
    found = [
        f"{module}.{name}.{member}"
        for module in MODULES
        for name in importlib.import_module(module).__all__
        if inspect.isclass(cls := getattr(importlib.import_module(module), name))
        for member, value in inspect.getmembers(cls, lambda value: isinstance(value, property))
        if not member.startswith("_") and "return" not in getattr(value.fget, "__annotations__", {})
    ]
    assert found == []


@pytest.mark.parametrize(
    "cls",
    [cudacore.Buffer, cudacore.Stream, cudacore.ManagedMemoryResource, cudacore.ObjectCode, cudacore.graph.AllocNode],
)
def test_type_hints_of_a_class(cls: type) -> None:
    """Programs that read the type hints of a class would get a NameError: its module is not the one that defines it."""
    get_type_hints(cls)
