# SPDX-License-Identifier: Apache-2.0
"""The programs of the pages of the documentation: the blocks of Python of a page, in their order, are one program."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
BLOCK = re.compile(
    r"^\.\. code-block:: python\n(?:   :class: (?P<needs>[\w-]+)\n|   :caption: .*\n)?\n(?P<code>(?:   .*\n|\n)+)"
    r"|^\.\. literalinclude:: (?P<file>\S+)\n   :language: python\n(?P<options>(?:   :.*\n)*)",
    re.MULTILINE,
)


def names_of_pages() -> list[str]:
    """Return the pages that have blocks of Python."""
    pages = (page for page in sorted(DOCS.rglob("*.rst")) if BLOCK.search(page.read_text(encoding="utf-8")))
    return [str(page.relative_to(DOCS).with_suffix("")) for page in pages]


def program_of(page: str, can_run: Callable[[str | None], bool]) -> str:
    """Return the program of a page, without the blocks of a class for which `can_run` is false."""
    path = DOCS / f"{page}.rst"
    blocks = []
    for found in BLOCK.finditer(path.read_text(encoding="utf-8")):
        if found["file"] is None:
            if can_run(found["needs"]):
                blocks.append(textwrap.dedent(found["code"]))
            continue
        text = (path.parent / found["file"]).read_text(encoding="utf-8")
        options = dict(re.findall(r":([\w-]+): (.*)\n", found["options"]))
        text = text.partition(options.get("start-after", ""))[2] if "start-after" in options else text
        blocks.append(text.partition(options["end-before"])[0] if "end-before" in options else text)
    return "\n".join(blocks)
