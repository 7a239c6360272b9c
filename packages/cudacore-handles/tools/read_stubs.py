# SPDX-License-Identifier: Apache-2.0
"""Read the stubs of the extension module, and write the text of its docstrings for the C compiler.

``read_stubs.py STUB... OUT_HEADER`` writes a macro for each function, class, method and property that has a docstring:
``DOC_launch``, ``DOC_Handle``, ``DOC_Handle_close``. The docstring of a function or method follows its signature, as
CPython expects of built-in ones. So a docstring is written only in the stub, where editors read it, and help() shows
the same text. Functions that only this package calls, which have no sections such as ``Parameters``, and private
methods have only their signature: the text would be in the wheel twice.

The methods of the class ``NodeMethods`` add nodes to graphs. ``SHARED_NODE_METHODS(X)`` is a list of them:
``X(method, positional, required, variadic, names...)``, with the number of arguments that may be given by position, the
number of those that must be given, whether any number may follow, and a name and a comma for each argument.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

#: The class whose methods add nodes.
NODE_METHODS = "NodeMethods"
#: The first parameter of a method, as CPython names it in the signatures of built-in methods.
FIRST = {"self": "$self", "cls": "$type"}


def read_signature(function: ast.FunctionDef, *, is_method: bool) -> str:
    """Return the parameters of a function, without types, as CPython reads them from docstrings."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    parts = [argument.arg for argument in positional]
    for place, default in enumerate(arguments.defaults, len(positional) - len(arguments.defaults)):
        parts[place] += f"={ast.unparse(default)}"
    only_by_position = len(arguments.posonlyargs)
    if is_method:
        parts[0] = FIRST[parts[0]]
        only_by_position = max(only_by_position, 1)
    if only_by_position:
        parts.insert(only_by_position, "/")
    if arguments.vararg is not None:
        parts.append(f"*{arguments.vararg.arg}")
    elif arguments.kwonlyargs:
        parts.append("*")
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parts.append(argument.arg + (f"={ast.unparse(keyword_default)}" if keyword_default is not None else ""))
    if arguments.kwarg is not None:
        parts.append(f"**{arguments.kwarg.arg}")
    return f"({', '.join(parts)})\n--\n\n"


def docstring_of(node: ast.FunctionDef | ast.ClassDef) -> str | None:
    """Return a docstring without its indentation; None if there is none."""
    text = ast.get_docstring(node, clean=False)
    return None if text is None else inspect.cleandoc(text)


def is_property(function: ast.FunctionDef) -> bool:
    """Return whether a method is the getter of a property."""
    return any(isinstance(decorator, ast.Name) and decorator.id == "property" for decorator in function.decorator_list)


def read_class(cls: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Return the macros of a class and of its members, with their texts."""
    methods = [node for node in cls.body if isinstance(node, ast.FunctionDef)]
    # If the parameter `cls` has a type, the class is a base class, and the signature of `__new__` is for derived
    # classes.
    constructors = (method for method in methods if method.name == "__new__" and not method.args.args[0].annotation)
    constructor = next(constructors, None)
    text = docstring_of(cls)
    name = cls.name
    if text is not None:
        if constructor is not None:
            constructor.args.args = constructor.args.args[1:]
            text = f"{cls.name}{read_signature(constructor, is_method=False)}{text}"
        yield f"DOC_{name}", text
    for method in methods:
        text = docstring_of(method)
        if text is not None:
            head = "" if is_property(method) else f"{method.name}{read_signature(method, is_method=True)}"
            is_private = method.name.startswith("_") and not method.name.startswith("__")
            yield f"DOC_{name}_{method.name}", head + ("" if is_private else text)


def read_stub(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Return the macros of a stub, with their texts."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from read_class(node)
        elif isinstance(node, ast.FunctionDef):
            text = docstring_of(node)
            if text is not None:
                head = f"{node.name}{read_signature(node, is_method=False)}"
                yield f"DOC_{node.name}", head + (text if "\n---" in text else "")


def read_node_methods(tree: ast.Module) -> Iterator[str]:
    """Return the rows of ``SHARED_NODE_METHODS(X)``, one for each method that adds nodes."""
    for cls in tree.body:
        if not isinstance(cls, ast.ClassDef) or cls.name != NODE_METHODS:
            continue
        for method in cls.body:
            if isinstance(method, ast.FunctionDef):
                arguments = method.args
                positional = len(arguments.args) - 1
                required = positional - len(arguments.defaults)
                variadic = "true" if arguments.vararg is not None else "false"
                names = "".join(f'"{argument.arg}", ' for argument in [*arguments.args[1:], *arguments.kwonlyargs])
                yield f"X({method.name}, {positional}, {required}, {variadic}, {names})"


def as_literal(text: str) -> str:
    """Return a text as a C string literal, with one line of the text on each line."""
    escaped = re.sub(r'["\\]', r"\\\g<0>", text)
    return " \\\n".join(f'  "{line}\\n"' for line in escaped.split("\n")).removesuffix('\\n"') + '"'


def main() -> None:
    """Write the header for the stubs that the command line names."""
    *stubs, out = map(Path, sys.argv[1:])
    lines = ["/* Written by read_stubs.py. */"]
    trees = [ast.parse(stub.read_text(encoding="utf-8")) for stub in stubs]
    methods = [row for tree in trees for row in read_node_methods(tree)]
    lines += ["#define SHARED_NODE_METHODS(X) \\\n  " + " \\\n  ".join(methods)]
    for tree in trees:
        lines += [f"#define {name} \\\n{as_literal(text)}" for name, text in read_stub(tree)]
    out.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
