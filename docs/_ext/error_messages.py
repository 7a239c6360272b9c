# SPDX-License-Identifier: Apache-2.0
"""Sphinx extension: ``.. error-messages:: PAGE`` lists the messages of a page, by the classes of the errors.

Each section of the page about a message has the message as its title, and begins with a field: ``:Error: `` and the
names of the classes.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

import cudacore

ENTRY = re.compile(r"^(``.*``)\n~+\n\n:Error: (.*)$", re.MULTILINE)


class ErrorMessages(SphinxDirective):
    """The directive."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return a table: an error in each row, with links to its messages."""
        page = self.arguments[0]
        path = Path(self.env.doc2path(page))
        self.env.note_dependency(path)
        address = self.env.app.builder.get_relative_uri(self.env.docname, page)
        links: dict[str, list[str]] = {}
        for title, errors in ENTRY.findall(path.read_text(encoding="utf-8")):
            text = title.replace("``", "")
            for error in re.findall(r"\w+", errors):
                links.setdefault(error, []).append(f"| `{text} <{address}#{nodes.make_id(text)}>`__")
        lines = [".. list-table::", "   :widths: 25 75", ""]
        for error in sorted(links):
            lines.append(f"   * - :exc:`{error}`" if hasattr(cudacore, error) else f"   * - ``{error}``")
            lines += [("     - " if link is links[error][0] else "       ") + link for link in links[error]]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the directive."""
    app.add_directive("error-messages", ErrorMessages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
