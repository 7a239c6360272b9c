#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw the devices' part of a trace of the simulator: the work on each stream, and its dependencies.

usage: timeline.py TRACE > PICTURE.svg
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

WIDTH, LABELS, ROW, BAR = 900, 190, 46, 26
STYLE = (
    "text{fill:#222} .row{stroke:#ddd} .edge{stroke:#444;fill:#444} .time{fill:#666} .label{fill:white} "
    "@media (prefers-color-scheme: dark) "
    "{ text{fill:#ddd} .row{stroke:#444} .edge{stroke:#bbb;fill:#bbb} .time{fill:#aaa} .label{fill:white} }"
)
COLOURS = ("#4c78a8", "#59a14f", "#e8a33d", "#b07aa1", "#9c755f")


def draw(events: list[dict[str, Any]]) -> str:
    """Return the picture, as SVG."""
    device = {e["pid"] for e in events if e["ph"] == "M" and e["args"]["name"].startswith("GPU ")}
    slices = [e for e in events if e["ph"] == "X" and e["pid"] in device]
    tracks = sorted({(e["pid"], e["tid"]) for e in slices})
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    first = min(e["ts"] for e in slices)
    last = max(e["ts"] + e["dur"] for e in slices)

    def x(time: float) -> float:
        return LABELS + (time - first) / (last - first) * (WIDTH - LABELS - 10)

    def y(event: dict[str, Any]) -> float:
        return tracks.index((event["pid"], event["tid"])) * ROW + (ROW - BAR) / 2

    colours: dict[str, str] = {}
    height = len(tracks) * ROW + 24
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
        '  font-family="sans-serif" font-size="12">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">',
        '  <path d="M0,0 L8,4 L0,8 z" class="edge"/></marker></defs>',
        f"<style>{STYLE}</style>",
    ]
    for number, track in enumerate(tracks):
        middle = number * ROW + ROW / 2
        out.append(f'<text x="8" y="{middle + 4}">{escape(names[track])}</text>')
        out.append(f'<line x1="{LABELS}" x2="{WIDTH - 10}" y1="{middle}" y2="{middle}" class="row"/>')
    for e in slices:
        colour = colours.setdefault(e["name"], COLOURS[len(colours) % len(COLOURS)])
        left, width = x(e["ts"]), max(x(e["ts"] + e["dur"]) - x(e["ts"]), 1)
        out.append(
            f'<rect x="{left:.1f}" y="{y(e):.1f}" width="{width:.1f}" height="{BAR}" rx="2" fill="{colour}">'
            f"<title>{escape(e['name'])}: {e['dur'] / 1000:.2f} ms</title></rect>"
        )
        label = e["name"].partition("(")[0]
        if width > 7 * len(label):
            out.append(f'<text x="{left + 5:.1f}" y="{y(e) + 17:.1f}" class="label">{escape(label)}</text>')
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    for e in events:
        if e["ph"] == "s" and e["cat"] == "dependency":
            to = ends[e["id"]]
            down = y(to) > y(e)
            begin, end = y(e) + (BAR if down else 0), y(to) + (0 if down else BAR)
            out.append(
                f'<line x1="{x(e["ts"]):.1f}" y1="{begin:.1f}" x2="{x(to["ts"]):.1f}" y2="{end:.1f}" class="edge" '
                'marker-end="url(#tip)"/>'
            )
    out.append(f'<text x="{LABELS}" y="{height - 8}" class="time">{(last - first) / 1000:.0f} ms</text></svg>')
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(draw(json.loads(Path(sys.argv[1]).read_text())))
