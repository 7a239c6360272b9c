# SPDX-License-Identifier: Apache-2.0
"""Sphinx extension: the Python API under the names that users import, with types in all signatures.

- Signatures of the extension module get their types from its stubs and from declarations for type checkers.
- Methods have the examples of ``python/examples``, and classes with several members have a table of them.
- References find an object by any of its names: ``cudacore.Device``, ``cudacore_handles.Device``, ``Device``.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.nodes import make_refnode
from sphinx.util.typing import ExtensionMetadata

import cudacore
import cudacore.checkpoint
import cudacore.graph
import cudacore.interop
import cudacore.system
import cudacore.texture
import cudacore.typing
import cudacore.utils
import cudacore_handles
from cudacore_handles._sdk import Made
from guide_programs import example_of

UMBRELLA = (
    cudacore,
    cudacore.graph,
    cudacore.utils,
    cudacore.texture,
    cudacore.typing,
    cudacore.checkpoint,
    cudacore.interop,
    cudacore.system,
)
PACKAGES = ("cudacore_handles", "cudacore_compile", "cudacore_graph")
MANY_MEMBERS = 5  # a class with fewer members has no table of them
STUBS = ("_native.pyi", "_sdk/graph_native.pyi")
# Private type names of the stubs, and the simpler types that the documentation shows instead.
PLAIN = {"type[_H]": "type", "type[_B]": "type", "_T": "Any", "_H": "Self", "_B": "Self", "_G": "Self", "_C": "Any"}


def read_stubs() -> dict[str, list[ast.FunctionDef]]:
    """Return the functions and the methods of the extension module, by their names.

    Signatures that are repeated for type checkers, with the classes of Python, come before those of the stubs.
    """
    found = defaultdict(list)
    folder = Path(cudacore_handles.__file__).parent
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                for function in node.body:
                    if isinstance(function, ast.FunctionDef):
                        found[function.name].append(function)
    for stub in STUBS:
        for node in ast.walk(ast.parse((folder / stub).read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                found[node.name].append(node)
    return found


def plain(text: str) -> str:
    """Replace the private type names of the stubs."""
    return re.sub(r"\b_\w+(\[_\w+\])?", lambda match: PLAIN.get(match[0], match[0]), text)


def names_of(function: ast.FunctionDef) -> list[str]:
    """Return the names of the parameters, without `self` and `cls`."""
    arguments = function.args
    listed = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    return [argument.arg for argument in listed if argument is not None and argument.arg not in ("self", "cls")]


def signature_of(function: ast.FunctionDef) -> tuple[str, str | None]:
    """Return the parameters of a function in a stub, without `self` and `cls`, and the type of its result."""
    arguments = function.args
    arguments.args = [argument for argument in arguments.args if argument.arg not in ("self", "cls")]
    arguments.posonlyargs = [argument for argument in arguments.posonlyargs if argument.arg not in ("self", "cls")]
    result = function.returns
    return f"({plain(ast.unparse(arguments))})", plain(ast.unparse(result)) if result is not None else None


STUB_FUNCTIONS = read_stubs()


def complete_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: object, signature: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """Take the types of built-in functions from the stubs. Show no signature for classes that cannot be called."""
    if what == "class":
        return ("", None) if signature == "(*args, **kwargs)" or issubclass(obj, Made) else None
    if inspect.isbuiltin(obj) or inspect.ismethoddescriptor(obj):
        wanted = [parameter for parameter in re.findall(r"\*{0,2}(\w+)", signature or "") if parameter]
        for function in STUB_FUNCTIONS.get(name.rpartition(".")[2], ()):
            if all(parameter in wanted for parameter in names_of(function)):
                return signature_of(function)
    return None


def add_example(app: Sphinx, what: str, name: str, obj: Any, options: object, lines: list[str]) -> None:
    """Add the example of a method to its description."""
    if what == "method":
        module, cls, method = name.rsplit(".", 2)
        example = example_of(getattr(sys.modules[module], cls), method)
        if example:
            lines += ["", ".. rubric:: Examples", "", *example.splitlines(), ""]


def umbrella_names() -> dict[str, str]:
    """Return the full names that users import, by the names of the objects."""
    return {name: f"{module}.{name}" for module, names in reversed(NAMES.items()) for name in names}


# The public names in each module of the umbrella, without names of modules.
NAMES = {
    module.__name__: [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]
    for module in UMBRELLA
}
IMPORTED = umbrella_names()


def imported_name(target: str, module: str | None) -> str:
    """Return the name by which users import the object that a reference in a module names."""
    parts = target.split(".")
    if parts[0] in PACKAGES:
        public = [part for part in parts[1:] if not part.startswith("_") or part[1:2].isupper()]
        parts = public if public else parts
    if module in NAMES and parts[0] in NAMES[module]:
        return ".".join([module, *parts])
    return ".".join([IMPORTED[parts[0]], *parts[1:]]) if parts[0] in IMPORTED else target


def name_as_imported(app: Sphinx, doctree: nodes.document) -> None:
    """Give references the names that users import. Show the types of properties instead of their descriptors."""
    for node in doctree.findall(addnodes.pending_xref):
        target = node.get("reftarget", "")
        if node.get("refdomain") == "py" and not target.startswith(("cudacore.", "python.")):
            node["reftarget"] = imported_name(target, node.get("py:module"))
    for annotation in doctree.findall(addnodes.desc_annotation):
        found = re.fullmatch(r": (?:[\w.]+\.)?(?:(Number)|(Flag)|(?:Attribute|Setting)\[(\w+)\])", annotation.astext())
        if found:
            annotation.children = [nodes.Text(": int" if found[1] else ": bool" if found[2] else f": {found[3]}")]


def drop_types(app: Sphinx, doctree: nodes.document) -> None:
    """Remove the types in the descriptions of properties whose signatures have a type, too."""
    for described in doctree.findall(addnodes.desc):
        if described["objtype"] == "property" and ": " in described[0].astext():
            for field in [field for field in described[-1].findall(nodes.field) if field[0].astext() == "Type"]:
                field.parent.parent.remove(field.parent)


def merge_comments(app: Sphinx) -> None:
    """Let autodoc find the comments of attributes, and the order of members, in the modules that define the classes.

    Classes have the names of public modules, and autodoc would only read these.
    """
    for package in ("cudacore", *PACKAGES):
        modules = [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]
        written = [name for name in modules if (getattr(sys.modules[name], "__file__", None) or "").endswith(".py")]
        found = [ModuleAnalyzer.for_module(name) for name in written]
        for analyzer in found:
            analyzer.analyze()
        for analyzer in found:
            if "._" not in analyzer.modname:
                for other in found:
                    analyzer.attr_docs = other.attr_docs | analyzer.attr_docs
                    analyzer.tagorder = other.tagorder | analyzer.tagorder


def first_sentence(member: addnodes.desc) -> str:
    """Return the first sentence of a description, without the functions of CUDA that it names in parentheses."""
    paragraph = next(member[-1].findall(nodes.paragraph), None)
    text = paragraph.astext().replace("\n", " ") if paragraph is not None else ""
    sentence = re.split(r"(?<=\.)\s", text)[0]
    return re.sub(r" \((cu|nv)\w+[^)]*\)", "", sentence)


def list_members(app: Sphinx, doctree: nodes.document) -> None:
    """Describe protocols after other members, and put a table of the members behind the first paragraph of a class."""
    for described in doctree.findall(addnodes.desc):
        members = [node for node in described[-1] if isinstance(node, addnodes.desc) and node[0]["ids"]]
        if described["objtype"] != "class" or len(members) < MANY_MEMBERS:
            continue
        members.sort(key=lambda node: node[0]["fullname"].rpartition(".")[2].startswith("__"))
        body = nodes.tbody()
        for member in members:
            described[-1].remove(member)
            described[-1] += member
            name = member[0]["fullname"].rpartition(".")[2] + ("()" if "method" in member["objtype"] else "")
            link = nodes.reference("", "", nodes.literal(name, name), refid=member[0]["ids"][0], internal=True)
            cells = (nodes.paragraph("", "", link), nodes.paragraph("", first_sentence(member)))
            body += nodes.row("", *(nodes.entry("", cell) for cell in cells))
        columns = [nodes.colspec(colwidth=width) for width in (30, 70)]
        table = nodes.table("", nodes.tgroup("", *columns, body, cols=2), classes=["members"])
        place = next((i for i, node in enumerate(described[-1]) if isinstance(node, nodes.paragraph)), -1)
        described[-1].insert(place + 1, table)


def find_in_packages(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, contnode: nodes.TextElement
) -> nodes.reference | None:
    """Resolve a reference to an object that is in a package but not in the umbrella."""
    if node.get("refdomain") != "py":
        return None
    objects = env.domains.python_domain.objects
    inside = node["reftarget"].rpartition("cudacore.")[2]
    for name in (f"{package}.{inside}" for package in PACKAGES):
        if name in objects:
            return make_refnode(
                app.builder, node["refdoc"], objects[name].docname, objects[name].node_id, contnode, name
            )
    return None


def add_names_of_packages(app: Sphinx, env: BuildEnvironment) -> None:
    """List objects under the names of their packages, too, for references from other projects' documentation."""
    objects = env.domains.python_domain.objects
    for full_name, entry in list(objects.items()):
        for module in UMBRELLA:
            inside = full_name.removeprefix(f"{module.__name__}.")
            first = inside.partition(".")[0]
            if inside == full_name or first not in NAMES[module.__name__]:
                continue
            package = (getattr(getattr(module, first, None), "__module__", None) or "").partition(".")[0]
            if package in PACKAGES:
                objects.setdefault(f"{package}.{inside}", entry._replace(aliased=True))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect the extension to the build."""
    app.connect("builder-inited", merge_comments)
    app.connect("autodoc-process-signature", complete_signature)
    app.connect("autodoc-process-docstring", add_example, priority=600)  # called after napoleon
    app.connect("doctree-read", name_as_imported)
    app.connect("doctree-read", drop_types)
    app.connect("doctree-read", list_members)
    app.connect("missing-reference", find_in_packages, priority=400)  # called before the handler of intersphinx
    app.connect("env-check-consistency", add_names_of_packages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
