# SPDX-License-Identifier: Apache-2.0
"""Rules for raising exceptions in all packages."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("cudacore", "cudacore_compile", "cudacore_graph", "cudacore_handles", "cudacore_sim")


def functions(package: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    for path in sorted(Path(spec.origin).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.name}:{node.lineno} {node.name}", node


def names_in(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def bound_names(function: ast.FunctionDef) -> set[str]:
    """Return the names of a function's parameters and variables."""
    return names_in(function, ast.Store) | {n.arg for n in ast.walk(function.args) if isinstance(n, ast.arg)}


def made_exceptions(function: ast.FunctionDef) -> set[str]:
    """Return the variables that hold the result of a function such as ``last_error()``."""
    names: set[str] = set()
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func).endswith("_error")
        ):
            names.update(*(names_in(target, ast.Store) for target in node.targets))
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_no_frame_holds_the_exception_that_it_raises(package: str) -> None:
    """An exception, its traceback and our frame would form a reference cycle, which keeps a program's objects."""
    found = list(functions(package))
    assert found
    for where, function in found:
        names, made = bound_names(function), made_exceptions(function)
        for node in ast.walk(function):
            if not isinstance(node, ast.Raise) or node.exc is None:
                continue
            held = names & {node.exc.id} if isinstance(node.exc, ast.Name) else made & names_in(node.exc, ast.Load)
            assert not held, f"{where} raises {held}; return the exception from a function, and raise the call of that"
