# SPDX-License-Identifier: Apache-2.0
"""The programs of the pages of the documentation: the blocks of Python of a page, in their order, are one program.

The examples of methods, which the pages of their classes show, are in ``docs/python/examples``.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent.parent / "docs"
DIRECTIVE = re.compile(
    r"^\.\. (?:code-block:: (?P<language>\S+)|literalinclude:: (?P<file>\S+))\n(?P<options>(?:   :.*\n)*)"
    r"(?:\n(?P<code>(?:   .*\n|\n)+))?",
    re.MULTILINE,
)


class Block(NamedTuple):
    """A block of a page: its language, its options such as "class" and "caption", and the code."""

    language: str
    options: dict[str, str]
    code: str


def blocks_of(page: str, *languages: str) -> list[Block]:
    """Return the blocks of a page that are in one of the languages. A file that the page includes is a block, too."""
    path = DOCS / f"{page}.rst"
    blocks = []
    for found in DIRECTIVE.finditer(path.read_text(encoding="utf-8")):
        options = dict(re.findall(r":([\w-]+): *(.*)\n", found["options"]))
        language = found["language"] or options.get("language", "")
        if language not in languages:
            continue
        if found["file"] is None:
            code = textwrap.dedent(found["code"])
        else:
            code = (path.parent / found["file"]).read_text(encoding="utf-8")
            code = code.partition(options["start-after"])[2] if "start-after" in options else code
            code = code.partition(options["end-before"])[0] if "end-before" in options else code
        blocks.append(Block(language, options, code))
    return blocks


def names_of_pages() -> list[str]:
    """Return the pages that have blocks of Python."""
    pages = sorted(str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.rst"))
    return [page for page in pages if blocks_of(page, "python")]


def program_of(page: str, can_run: Callable[[str | None], bool]) -> str:
    """Return the program of a page: the blocks of Python whose class `can_run` accepts."""
    return "\n".join(block.code for block in blocks_of(page, "python") if can_run(block.options.get("class")))


@functools.cache
def examples_of_methods() -> dict[str, str]:
    """Return the examples of methods by their names, such as ``Stream.close`` and, for all faces, ``Handle.close``."""
    files = sorted((DOCS / "python" / "examples").glob("*.txt"))
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return dict(re.findall(r"^(\w+\.\w+)\n((?:.+\n)+)", text, re.MULTILINE))


def example_of(cls: type, method: str) -> str:
    """Return the example of a method of a class, or "" if it has none."""
    found = examples_of_methods()
    return next((found[name] for each in cls.__mro__ if (name := f"{each.__name__}.{method}") in found), "")


@functools.cache
def why_numba_cannot_compile() -> str:
    """Return why Numba cannot compile a kernel here, or "" if it can.

    Newer NumPy releases drop functions that installed versions of Numba may still use.
    """
    program = "from numba import cuda\ncuda.compile_ptx(lambda: None, ())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return ran.stderr.strip().rpartition("\n")[2] if ran.returncode else ""
