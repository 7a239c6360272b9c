# SPDX-License-Identifier: Apache-2.0
"""The stubs of the extension module contain its docstrings and signatures."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cudacore_handles
from cudacore_handles import _native

FOLDER = Path(cudacore_handles.__file__).parent
STUBS = [FOLDER / "_native.pyi", FOLDER / "_sdk" / "graph_native.pyi"]
#: Classes that exist only in the stubs, each with a class that has its methods. NodeMethods are those that add nodes.
CLASSES = {"NodeMethods": _native.GraphHandle}


def functions(body: list[ast.stmt]) -> list[ast.FunctionDef]:
    """Return the functions in a class or module of a stub, without the setters of properties."""
    found = [node for node in body if isinstance(node, ast.FunctionDef)]
    return [node for node in found if not any(isinstance(item, ast.Attribute) for item in node.decorator_list)]


def stated() -> Iterator[tuple[str, Any, ast.FunctionDef | ast.ClassDef]]:
    """Return the name, the object and the stub of each function, class, method and property."""
    for path in STUBS:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in functions(tree.body):
            yield function.name, getattr(_native, function.name), function
        for cls in (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name != "_Stream"):
            owner = CLASSES.get(cls.name) or getattr(_native, cls.name)
            if cls.name not in CLASSES:
                yield cls.name, owner, cls
            for method in functions(cls.body):
                # Only subclasses have _accept_work.
                if not method.name.startswith("__") and method.name != "_accept_work":
                    yield f"{cls.name}.{method.name}", vars(owner)[method.name], method


@pytest.mark.parametrize(("name", "real", "stub"), [pytest.param(*item, id=item[0]) for item in stated()])
def test_help_says_what_the_stub_says(name: str, real: Any, stub: ast.FunctionDef | ast.ClassDef) -> None:
    """help() would show another docstring than an editor, which reads the stub, or none for what users call."""
    text = ast.get_docstring(stub)
    is_private = stub.name.startswith("_") or (inspect.isbuiltin(real) and "\n---" not in (text or ""))
    assert (real.__doc__ or None) == (None if is_private else text)


@pytest.mark.parametrize("name", [name for name in vars(_native) if inspect.isbuiltin(getattr(_native, name))])
def test_each_function_is_in_a_stub(name: str) -> None:
    """Type checkers would lack a function of the extension module."""
    assert name in {name for name, _, _ in stated()} | {"_forget"}


def test_the_stub_of_the_lowest_module_imports_no_room() -> None:
    """Every module uses the extension module, so all would import each other, for type checkers and readers."""
    imported = re.findall(r"^from (cudacore\S*) import", STUBS[0].read_text(encoding="utf-8"), re.MULTILINE)
    assert imported == ["cudacore_handles.typing"]


def test_signatures_are_those_of_the_stub() -> None:
    """inspect.signature() of a built-in function or method would not have the stub's parameters."""
    assert str(inspect.signature(_native.launch)) == "(stream, config, kernel, /, *kernel_args)"
    assert str(inspect.signature(_native.Handle._adopt)) == "(address_of_out, /)"
    assert list(inspect.signature(_native.StreamHandle.callback).parameters) == ["self", "fn", "user_data"]
