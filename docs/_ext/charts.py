# SPDX-License-Identifier: Apache-2.0
"""Sphinx extension: ``.. chart:: FILE`` draws the figures of a CSV file as bars, a group for each row, or as lines.

The first line has the names of the columns, and the first column has those of the rows. Cells without a figure have no
bar. Options:

- ``alt``: what the picture shows.
- ``columns``: the numbers of the columns to draw, from 2 on. Default: all.
- ``relative``: the bars of a row are in proportion to the row's first one, and have this ratio. Default: to the largest
  of all.
- ``rate``: the figures are microseconds, and are shown as thousands a second.
- ``lines``: a line for each column instead of bars, over the rows, on a logarithmic scale.
"""

from __future__ import annotations

import csv
import math
import re
from html import escape
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

FIGURE = re.compile(r"([\d,.]+)(?: (ns|us|µs|ms|GB/s))?")
NANOSECONDS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6}
# In the units of a picture that a phone shows at its full size.
WIDTH, LONGEST, LINE, BAR = 360, 270, 16, 12


def value_of(cell: str) -> float | None:
    """Return the figure in a cell, times in nanoseconds; None if the cell has no figure."""
    found = FIGURE.fullmatch(cell)
    return float(found[1].replace(",", "")) * NANOSECONDS.get(found[2], 1.0) if found else None


# The name of each row, and for each column its value and the text of its cell.
Rows = list[tuple[str, list[tuple[float, str] | None]]]


def draw_names(names: list[str]) -> list[str]:
    """Return the shapes that say which colour is which column."""
    shapes = []
    for number, name in enumerate(names):
        y = number * LINE
        shapes.append(f'<rect x="0" y="{y + 2}" width="{BAR}" height="{BAR}" class="series{number}"/>')
        shapes.append(f'<text x="{LINE + 2}" y="{y + BAR}">{escape(name)}</text>')
    return shapes


def picture(shapes: list[str], height: int, alt: str) -> str:
    """Return a picture of shapes. Text has the colour of the page's text."""
    head = f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(alt)}">'
    return "\n".join([head, *shapes, "</svg>"])


def draw_bars(names: list[str], rows: Rows, alt: str, *, relative: bool) -> str:
    """Return a picture with a bar for each cell."""
    shapes = draw_names(names)
    y = len(names) * LINE
    largest = max(value for _, cells in rows for value, _ in filter(None, cells))
    for label, cells in rows:
        y += LINE // 2
        shapes.append(f'<text x="0" y="{y + BAR}" class="row">{escape(label)}</text>')
        whole = cells[0][0] if relative and cells[0] else largest
        for number, cell in enumerate(cells):
            if cell is not None:
                y += LINE
                width = max(cell[0] / whole * LONGEST, 1)
                text = f"{cell[1]} ({cell[0] / whole:.2f})" if relative and number else cell[1]
                shapes.append(f'<rect x="0" y="{y + 2}" width="{width:.1f}" height="{BAR}" class="series{number}"/>')
                shapes.append(f'<text x="{width + 6:.1f}" y="{y + BAR}">{escape(text)}</text>')
        y += LINE
    return picture(shapes, y + 4, alt)


def draw_lines(names: list[str], rows: Rows, alt: str) -> str:
    """Return a picture with a line for each column. The axes have names for powers of ten, and for each second row."""
    exponents = [math.log10(value) for _, cells in rows for value, _ in filter(None, cells)]
    lowest, highest = math.floor(min(exponents)), math.ceil(max(exponents))
    top = (len(names) + 2) * LINE
    left, decade = 3 * LINE, 4 * LINE
    bottom = top + (highest - lowest) * decade
    step = (WIDTH - left - LINE) / max(len(rows) - 1, 1)
    unit = next(text.split(" ")[-1] for _, cells in rows for _, text in filter(None, cells))
    shapes = [*draw_names(names), f'<text x="0" y="{top - LINE}">{escape(unit)}</text>']
    for exponent in range(lowest, highest + 1):
        y = bottom - (exponent - lowest) * decade
        shapes.append(f'<path d="M{left} {y}H{WIDTH}" class="grid"/>')
        shapes.append(f'<text x="{left - 4}" y="{y + 4}" text-anchor="end">{10.0**exponent:,g}</text>')
    for number, (label, _) in enumerate(rows):
        if number % 2 == 0:
            x = left + number * step
            shapes.append(f'<text x="{x:.1f}" y="{bottom + LINE}" text-anchor="middle">{escape(label)}</text>')
    for number in range(len(names)):
        points = [
            f"{left + row * step:.1f},{bottom - (math.log10(cell[0]) - lowest) * decade:.1f}"
            for row, (_, cells) in enumerate(rows)
            if (cell := cells[number]) is not None
        ]
        shapes.append(f'<polyline points="{" ".join(points)}" class="series{number}"/>')
    return picture(shapes, bottom + LINE + 4, alt)


class Chart(SphinxDirective):
    """The directive."""

    required_arguments = 1
    option_spec: ClassVar = {
        "alt": directives.unchanged_required,
        "columns": directives.positive_int_list,
        "relative": directives.flag,
        "rate": directives.flag,
        "lines": directives.flag,
    }

    def cell(self, text: str) -> tuple[float, str] | None:
        """Return the value of a cell, and its text in the picture."""
        value = value_of(text)
        if value is None:
            return None
        return (1000 / value, f"{1000 / value:,.0f},000") if "rate" in self.options else (value, text)

    def run(self) -> list[nodes.Node]:
        """Return the picture."""
        relative_path, path = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(relative_path)
        head, *lines = csv.reader(Path(path).read_text(encoding="utf-8").splitlines())
        columns = [number - 1 for number in self.options.get("columns", range(2, len(head) + 1))]
        rows = [(line[0], [self.cell(line[column]) for column in columns]) for line in lines]
        names = [head[column] for column in columns]
        alt = self.options["alt"]
        if "lines" in self.options:
            drawn = draw_lines(names, rows, alt)
        else:
            drawn = draw_bars(names, rows, alt, relative="relative" in self.options)
        return [nodes.raw("", drawn, format="html")]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the directive."""
    app.add_directive("chart", Chart)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
