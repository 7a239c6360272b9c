# SPDX-License-Identifier: Apache-2.0
"""Sphinx extension: a reference of the C API, made from its headers.

``.. c-header:: stream.h`` renders a header of the folder in the setting ``cheaders_folder``: its ``@file`` comment as
text, and every macro, type, enumeration, structure and function with the comment before it, in the C domain. So the
headers remain the only description of the C API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

logger = logging.getLogger(__name__)

SHOWN = re.compile(r"^\.\. c-header:: (\S+)", re.MULTILINE)
TOKEN = re.compile(
    r"""
      (?P<doc>      /\*\* .*? \*/ )
    | (?P<comment>  /\* .*? \*/ )
    | (?P<define>   ^\#define [^\n]* (?: (?<=\\) \n [^\n]* )* )
    | (?P<other>    ^\# [^\n]* | ^CCH_(?:BEGIN|END)_DECLS\b | ^CCH_REFERENCES\([^\n]* )
    | (?P<blank>    \n [ \t]* \n )
    | (?P<space>    \s+ )
    | (?P<code>     [^;{}/]* (?: \{ .*? \} )? [^;{}/]* ; )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
TRAILING = r"\s*(?:/\*\*<(?P<doc>.*?)\*/)?"
FIELD = re.compile(r"(?P<code>[^;]+);" + TRAILING)
ENUMERATOR = re.compile(r"(?P<code>[^,/]+)(?:,|(?=/)|$)" + TRAILING)
# Macros that the documentation omits.
INTERNAL = re.compile(r"\w+_H|CCH_(BEGIN|END)_DECLS|CCH_EXPORT|CCH_REFERENCES\(.*")
VERBS = re.compile(r"_(ref|unref|raw)\(")


@dataclass
class Entity:
    """One declaration: its C domain directive, its signatures, its text, its members."""

    kind: str
    signatures: list[str]
    doc: str = ""
    members: list[Entity] = field(default_factory=list)


@dataclass
class Header:
    """The declarations of a header, in order."""

    doc: str
    entities: list[Entity]


def strip_comment(comment: str) -> str:
    """Return the text of a comment without its stars and slashes."""
    lines = comment.removeprefix("/**").removesuffix("*/").strip().splitlines()
    return "\n".join(re.sub(r"^\s*\*? ?", "", line).rstrip() for line in lines).strip()


def parse(source: str) -> Header:
    """Read a header. It may contain only comments, defines, typedefs and prototypes in the forms of our headers."""
    header = Header("", [])
    doc = ""
    before: Entity | None = None  # the declaration right above, without a blank line between
    position = 0
    while position < len(source):
        token = TOKEN.match(source, position)
        if not token:
            raise ValueError(f"cannot read this C: {source[position : position + 60]!r}")
        position = token.end()
        text = token.group()
        if token.lastgroup == "doc":
            doc = strip_comment(text)
            if doc.startswith("@file"):
                header.doc, doc = doc.partition("\n")[2].strip(), ""
        elif token.lastgroup == "blank":
            doc, before = "", None
        elif token.lastgroup in ("define", "code"):
            entity = define(text, doc) if token.lastgroup == "define" else declaration(text, doc)
            doc = ""
            if entity is None:
                continue
            bare = entity.kind in ("function", "type") and not entity.doc
            if bare and before and before.kind == entity.kind and not before.doc:
                before.signatures += entity.signatures
            elif bare or entity.doc or (before and before.kind == "macro"):
                header.entities.append(entity)
                before = entity
    return header


def define(code: str, doc: str) -> Entity | None:
    """Return the macro of a define, or None if the documentation omits it."""
    code, _, trailing = code.partition("/**<")
    name = re.match(r"#define\s+(\w+(?:\([^)]*\))?)", code)
    if not name or INTERNAL.fullmatch(name[1]):
        return None
    return Entity("macro", [name[1]], doc or strip_comment(trailing))


def declaration(code: str, doc: str) -> Entity | None:
    """Return the entity of a declaration, or None if the documentation omits it."""
    nullable = re.findall(r"\bCCH_NULLABLE\s+(\w+)", code)
    if nullable and doc:
        text, since, version = doc.partition("@since")
        names = ", ".join(f"`{name}`" for name in nullable)
        doc = f"{text.rstrip()}\n\nMay be NULL: {names}. {since}{version}"
    code = " ".join(re.sub(r"\bCCH_(EXPORT|NULLABLE) ?", "", code).rstrip(";").split())
    compound = re.fullmatch(r"typedef (struct|enum) (\w+) \{(.*)\} \w+", code)
    if compound:
        kind, name, body = compound.groups()
        pattern, member = (ENUMERATOR, "enumerator") if kind == "enum" else (FIELD, "member")
        found = (Entity(member, [m["code"].strip()], (m["doc"] or "").strip()) for m in pattern.finditer(body))
        return Entity(kind, [name], doc, [entity for entity in found if entity.signatures[0]])
    opaque = re.fullmatch(r"typedef struct (cch_\w+) \1", code)
    if opaque:
        return Entity("type", [opaque[1]], doc)
    if code.startswith("typedef "):
        return Entity("type", [code.removeprefix("typedef ")], doc) if "(*cch_" in code or doc else None
    return Entity("function", [code], doc) if "(" in code else None


class Markup:
    """Converts the plain text of comments to reStructuredText, with links to declarations of the headers."""

    def __init__(self, headers: list[Header]) -> None:
        self.roles: dict[str, str] = {}
        for header in headers:
            for entity in header.entities:
                for item in (entity, *entity.members):
                    if item.kind in ("macro", "enumerator"):
                        self.roles[re.split(r"[ (=]", item.signatures[0])[0]] = item.kind

    def convert(self, text: str) -> str:
        """Return a comment as reStructuredText."""
        text = re.sub(r"@return\s+", ":returns: ", text)
        text = re.sub(r"\s*@since\s+(\S+)", r"\n\n.. versionadded:: \1", text)
        # Text in backticks is literal; only the rest has links and needs escapes.
        parts = re.split(r"(`[^`]+`)", text)
        return "".join(f"`{part}`" if part.startswith("`") else self.convert_plain(part) for part in parts)

    def convert_plain(self, text: str) -> str:
        text = re.sub(r"(?<!\w)\*(?!\w[\w -]*\*)|(?<=\w)\*(?!\W|$)|(?<=[A-Z_])\*", r"\\*", text)
        text = re.sub(r"\b(cch_\w+)\(\)", r":c:func:`\1`", text)
        text = re.sub(r"\b([A-Z]\w+)\b", self.link, text)
        return re.sub(r"(?<=\w)_(?=\W|$)(?!`)", r"\\_", text)

    def link(self, match: re.Match[str]) -> str:
        role = self.roles.get(match[1])
        return f":c:{role}:`{match[1]}`" if role else match[1]

    def render(self, entity: Entity) -> Iterator[str]:
        """Return an entity's directive, line by line."""
        first, *more = entity.signatures
        yield f".. c:{entity.kind}:: {first}"
        indent = " " * len(f".. c:{entity.kind}:: ")
        yield from (indent + signature for signature in more)
        yield ""
        doc = entity.doc
        if not doc and entity.kind == "type":
            yield "   Opaque: a box of each kind."
        elif not doc and all(VERBS.search(signature) for signature in entity.signatures):
            yield "   The functions that every kind has; see :ref:`c-verbs`."
        yield from ("   " + line for line in self.convert(doc).splitlines())
        yield ""
        for member in entity.members:
            if "(*" in member.signatures[0] and not member.doc:
                continue  # a field of the function table: its function is described elsewhere
            yield from ("   " + line for line in self.render(member))


class CHeader(SphinxDirective):
    """``.. c-header:: NAME``: the reference of one header."""

    required_arguments = 1
    option_spec: ClassVar = {"no-text": directives.flag}

    def run(self) -> list[nodes.Node]:
        folder = Path(self.env.srcdir, self.config.cheaders_folder)
        headers = {path.name: parse(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.h"))}
        name = self.arguments[0]
        if name not in headers:
            raise self.error(f"no header {name} in {folder}")
        for path in folder.glob("*.h"):
            self.env.note_dependency(str(path))
        markup = Markup(list(headers.values()))
        lines = [f"``#include <{folder.name}/{name}>``", ""]
        if "no-text" not in self.options:
            lines += [*markup.convert(headers[name].doc).splitlines(), ""]
        for entity in headers[name].entities:
            lines += markup.render(entity)
        container = nodes.container()
        self.state.nested_parse(StringList(lines, source=str(folder / name)), self.content_offset, container)
        return container.children


def check_that_all_are_shown(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn about headers with declarations that no document shows."""
    documents = [env.doc2path(name) for name in env.found_docs]
    shown = {name for path in documents for name in SHOWN.findall(Path(path).read_text(encoding="utf-8"))}
    for path in sorted(Path(env.srcdir, app.config.cheaders_folder).glob("*.h")):
        if path.name not in shown and parse(path.read_text(encoding="utf-8")).entities:
            logger.warning("no document shows the header %s", path.name)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive and its setting."""
    app.add_config_value("cheaders_folder", "", "env", str)
    app.add_directive("c-header", CHeader)
    app.connect("env-check-consistency", check_that_all_are_shown)
    return {"version": "1", "parallel_read_safe": True}
