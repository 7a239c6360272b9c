#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of this folder from their ``.dot`` files, readable on light and on dark pages. Needs Graphviz."""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The colors in the sources, and those that replace them on a dark page.
DARK = {
    "fill": {"white": "none", "#eef6dd": "#2b3a17", "#eeeeee": "#333333", "#eeeeff": "#2a2a45", "#555555": "#bbbbbb"},
    "stroke": {"#555555": "#bbbbbb", "#777777": "#aaaaaa", "#5a8f00": "#8fc93a", "#5555aa": "#9a9ae0"},
}


def with_dark_style(svg: str) -> str:
    """Return a picture with a style for dark pages."""
    rules = [f'[{name}="{light}"]{{{name}:{dark}}}' for name, pairs in DARK.items() for light, dark in pairs.items()]
    style = f"<style>@media (prefers-color-scheme: dark) {{ text{{fill:#dddddd}} {' '.join(rules)} }}</style>\n"
    before, tag, after = svg.partition('<g id="graph0"')
    return before + style + tag + after


def main() -> None:
    """Draw all pictures."""
    for source in sorted(HERE.glob("*.dot")):
        drawn = subprocess.run(["dot", "-Tsvg", source], capture_output=True, text=True, check=True).stdout
        source.with_suffix(".svg").write_text(with_dark_style(drawn), encoding="utf-8")


if __name__ == "__main__":
    main()
