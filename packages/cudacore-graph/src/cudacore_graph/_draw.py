# SPDX-License-Identifier: Apache-2.0
"""Draws boxes and arrows as SVG, in layers (the method of Sugiyama, Tagawa and Toda).

Boxes are put into layers, so that arrows point downwards. An arrow that crosses a layer gets its own place there.
Several sweeps search for an order with few crossings; other sweeps move boxes close to their neighbours. No other
package is needed.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from cudacore_graph._summary import neighbours, possible_order

_FONT, _SIZE, _LINE = "Helvetica, Arial, sans-serif", 12, 15  # pixels
_PAD, _GAP, _DEEP = 10, 22, 38  # padding inside boxes, gap beside them, gap between layers
_MARGIN, _ROW = 8, 900  # space around a picture; width of the rows of boxes that have no arrows
_ORDER_SWEEPS, _PLACE_SWEEPS = 16, 24
_NARROW, _WIDE = frozenset("ijlI|!.,:;'()[]{}ft/ "), frozenset("mwMWGOQ@%")
# Boxes have fixed colours with dark text. Lines are of a grey that is visible on white and on black.
_TEXT, _GREY, _RED = "#1b1b1b", "#8a8a8a", "#d04040"


@dataclass
class Box:
    """A box: its text, and the pictures within it, each with a caption."""

    lines: Sequence[str]
    color: str
    stacked: bool = False  # whether the box represents several nodes
    inner: Sequence[tuple[str, Picture]] = ()
    width: float = field(init=False, default=0)
    height: float = field(init=False, default=0)
    head: float = field(init=False, default=0)  # height of the part with the text

    def measure(self) -> None:
        """Compute the size of the box."""
        self.head = len(self.lines) * _LINE + 2 * _PAD - 4
        widths = [text_width(line, bold=i == 0) for i, line in enumerate(self.lines)]
        self.width, self.height = max(widths, default=0) + 2 * _PAD, self.head
        if self.inner:
            wide = sum(picture.width for _, picture in self.inner) + _PAD * (len(self.inner) + 1)
            self.width = max(self.width, wide)
            self.height += max(picture.height for _, picture in self.inner) + _caption_height(self.inner) + _PAD


@dataclass
class Picture:
    """The boxes with their positions, and the lines of the arrows."""

    boxes: Sequence[Box]
    places: list[tuple[float, float]]  # left and top of each box
    # for each arrow: its points from top to bottom, and whether it points upwards
    arrows: list[tuple[list[tuple[float, float]], bool]]
    width: float
    height: float


def text_width(text: str, *, bold: bool = False) -> float:
    """Return an upper estimate of the width of a text in pixels, because browsers choose different fonts."""
    width = 0.0
    for c in text:
        width += 4.4 if c in _NARROW else 12 if c in _WIDE or c > "\u2e80" else 8.6 if c.isupper() else 7.4
    return width * (1.13 if bold else 1)


def _caption_height(inner: Iterable[tuple[str, Picture]]) -> float:
    return _LINE + 4 if any(caption for caption, _ in inner) else 0


# ---- layers


class _Layers:
    """Vertices in layers: boxes, and the places of arrows that cross a layer."""

    def __init__(self, boxes: Sequence[Box], edges: Iterable[tuple[int, int]]) -> None:
        self.widths = [box.width for box in boxes]
        self.heights = [box.height for box in boxes]
        level = self._levels(len(boxes), edges)
        self.layers: list[list[int]] = [[] for _ in range(max(level, default=0) + 1)]
        for vertex, at in enumerate(level):
            self.layers[at].append(vertex)
        self.above: list[list[int]] = [[] for _ in boxes]
        self.below: list[list[int]] = [[] for _ in boxes]
        self.routes: dict[tuple[int, int], list[int]] = {}
        for first, last in self.edges:
            route = [first, *map(self._add_bend, range(level[first] + 1, level[last])), last]
            for upper, lower in pairwise(route):
                self.below[upper].append(lower)
                self.above[lower].append(upper)
            self.routes[first, last] = route

    def _levels(self, count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
        """Return the layer of each box. Edges that close a cycle are reversed."""
        wanted = sorted(set(edges))
        order = possible_order(*neighbours(count, wanted))
        place = {vertex: i for i, vertex in enumerate(order)}
        turned = [(a, b) if place[a] < place[b] else (b, a) for a, b in wanted]
        self.backward = {edge for edge, given in zip(turned, wanted, strict=True) if edge != given}
        self.edges = list(dict.fromkeys(turned))
        level = [0] * count
        above, below = neighbours(count, self.edges)
        for vertex in order:
            level[vertex] = max((level[first] + 1 for first in above[vertex]), default=0)
        for vertex in reversed(order):  # a vertex with more dependents than dependencies is placed just above them
            if below[vertex] and len(below[vertex]) > len(above[vertex]):
                level[vertex] = min(level[last] for last in below[vertex]) - 1
        row, width = max((level[last] for _, last in self.edges), default=-1), float(_ROW)
        for vertex in order:  # boxes without arrows are in rows below the others
            if not above[vertex] and not below[vertex]:
                if width + self.widths[vertex] > _ROW:
                    row, width = row + 1, 0.0
                level[vertex] = row
                width += self.widths[vertex] + _GAP
        return level

    def _add_bend(self, layer: int) -> int:
        self.widths.append(6)
        self.heights.append(0)
        self.above.append([])
        self.below.append([])
        self.layers[layer].append(len(self.widths) - 1)
        return len(self.widths) - 1

    # ---- the order within layers

    def order(self) -> None:
        """Sort the vertices of each layer by the mean position of their neighbours, repeatedly; keep the best order."""
        best, min_crossings = [list(layer) for layer in self.layers], self._crossings()
        for sweep in range(_ORDER_SWEEPS):
            if not min_crossings:
                break
            down = sweep % 2 == 0
            layers = self.layers if down else self.layers[::-1]
            for fixed, layer in pairwise(layers):
                self._order_layer(fixed, layer, self.above if down else self.below)
            crossings = self._crossings()
            if crossings < min_crossings:
                best, min_crossings = [list(layer) for layer in self.layers], crossings
        self.layers = best

    @staticmethod
    def _order_layer(fixed: list[int], layer: list[int], neighbours: list[list[int]]) -> None:
        place = {v: i for i, v in enumerate(fixed)}
        own = {v: float(i) for i, v in enumerate(layer)}
        middle = {v: sum(map(place.__getitem__, those)) / len(those) for v in layer if (those := neighbours[v])}
        layer.sort(key=lambda v: (middle.get(v, own[v]), own[v]))

    def _crossings(self) -> int:
        total = 0
        for upper, lower in pairwise(self.layers):
            place = {v: i for i, v in enumerate(lower)}
            seen: list[int] = []
            for vertex in upper:
                ends = sorted(place[n] for n in self.below[vertex])
                total += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total

    # ---- places

    def place(self) -> list[float]:
        """Return the horizontal centre of each vertex, as close to its neighbours as the other vertices permit."""
        x = [0.0] * len(self.widths)
        for layer in self.layers:
            self._fit(layer, x, [[] for _ in x])
        for sweep in range(_PLACE_SWEEPS):
            both = sweep >= _PLACE_SWEEPS - 4
            down = sweep % 2 == 0
            for layer in self.layers if down else self.layers[::-1]:
                sides = [
                    self.above[v] + self.below[v] if both else (self.above[v] if down else self.below[v]) for v in layer
                ]
                self._fit(layer, x, sides)
        return x

    def _fit(self, layer: list[int], x: list[float], sides: list[list[int]]) -> None:
        """Place the vertices of a layer as close as possible to the wanted positions, in order and without overlaps."""
        offset, offsets = 0.0, []
        for i, v in enumerate(layer):
            if i:
                offset += self.widths[layer[i - 1]] / 2 + _GAP + self.widths[v] / 2
            offsets.append(offset)
        # With a fixed order, the least-squares solution is an average over each block of vertices that would overlap.
        blocks: list[tuple[float, float, int]] = []  # sum of wanted positions, sum of weights, number of vertices
        for v, side, own in zip(layer, sides, offsets, strict=False):
            wish = sum(x[n] for n in side) / len(side) if side else x[v]
            weight = 0.1 if not side else 4.0 if not self.heights[v] else 1.0 + len(side) / 4
            block = ((wish - own) * weight, weight, 1)
            while blocks and blocks[-1][0] / blocks[-1][1] >= block[0] / block[1]:
                last = blocks.pop()
                block = (block[0] + last[0], block[1] + last[1], block[2] + last[2])
            blocks.append(block)
        i = 0
        for total, weight, count in blocks:
            for _ in range(count):
                x[layer[i]] = total / weight + offsets[i]
                i += 1


def arrange(boxes: Sequence[Box], edges: Iterable[tuple[int, int]]) -> Picture:
    """Assign positions to the boxes."""
    for box in boxes:
        box.measure()
    layers = _Layers(boxes, edges)
    layers.order()
    x = layers.place()
    left = min(at - width / 2 for at, width in zip(x, layers.widths, strict=True))
    x = [at - left for at in x]
    tops, depths = _depths(layers, x)
    places: list[tuple[float, float]] = [(0, 0)] * len(boxes)
    for layer, top, depth in zip(layers.layers, tops, depths, strict=True):
        for v in layer:
            if v < len(boxes):
                places[v] = (x[v] - boxes[v].width / 2, top + (depth - boxes[v].height) / 2)
    width = max(at + width / 2 for at, width in zip(x, layers.widths, strict=True))
    return Picture(boxes, places, list(_routes(layers, x, tops, depths)), width, tops[-1] + depths[-1])


def _depths(layers: _Layers, x: list[float]) -> tuple[list[float], list[float]]:
    """Return the top and the height of each layer. Gaps are larger where arrows go far to the side."""
    tops, depths, top = [], [], 0.0
    for layer in layers.layers:
        depths.append(max(layers.heights[v] for v in layer))
        tops.append(top)
        aside = max((abs(x[n] - x[v]) for v in layer for n in layers.below[v]), default=0)
        top += depths[-1] + _DEEP + min(aside / 10, 60)
    return tops, depths


def _routes(
    layers: _Layers, x: list[float], tops: list[float], depths: list[float]
) -> Iterator[tuple[list[tuple[float, float]], bool]]:
    """Return the points of each arrow: its ends, and where it enters and leaves the layers in between."""
    at = {v: i for i, layer in enumerate(layers.layers) for v in layer}

    def ports(v: int, others: list[int]) -> dict[int, float]:
        spread = min(layers.widths[v] * 0.7, 14.0 * (len(others) - 1))
        ordered = sorted(others, key=lambda n: x[n])
        step = spread / max(len(ordered) - 1, 1)
        return {n: x[v] - spread / 2 + i * step for i, n in enumerate(ordered)}

    leaving = {first: ports(first, layers.below[first]) for first, _ in layers.routes}
    coming = {last: ports(last, layers.above[last]) for _, last in layers.routes}
    for (first, last), route in layers.routes.items():
        upper, lower = at[first], at[last]
        slack = (depths[upper] - layers.heights[first]) / 2
        points = [(leaving[first][route[1]], tops[upper] + depths[upper] - slack)]
        for bend in route[1:-1]:
            points += [(x[bend], tops[at[bend]]), (x[bend], tops[at[bend]] + depths[at[bend]])]
        slack = (depths[lower] - layers.heights[last]) / 2
        points.append((coming[last][route[-2]], tops[lower] + slack))
        yield points, (first, last) in layers.backward


# ---- SVG


def to_svg(picture: Picture, title: str) -> str:
    """Return a picture as SVG."""
    width, height = picture.width + 2 * _MARGIN, picture.height + 2 * _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-_MARGIN} {-_MARGIN} {width:.0f} {height:.0f}" role="img" '
        f'font-family="{_FONT}" font-size="{_SIZE}">'
    )
    return "\n".join((head, f"<title>{escape(title)}</title>", *_picture(picture, 0, 0), "</svg>", ""))


def _picture(picture: Picture, x: float, y: float) -> Iterator[str]:
    for points, upwards in picture.arrows:
        yield from _arrow([(x + a, y + b) for a, b in points], upwards)
    for box, (left, top) in zip(picture.boxes, picture.places, strict=True):
        yield from _box(box, x + left, y + top)


def _arrow(points: list[tuple[float, float]], upwards: bool) -> Iterator[str]:
    color = _RED if upwards else _GREY
    (x, y), path = points[0], []
    tip = points[0] if upwards else points[-1]
    if upwards:
        y += 6
    else:
        points = [*points[:-1], (points[-1][0], points[-1][1] - 6)]
    path.append(f"M{x:.1f} {y:.1f}")
    for i, (to_x, to_y) in enumerate(points[1:]):
        if i % 2:  # a straight line inside a layer
            path.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            middle = (y + to_y) / 2
            path.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    yield f'<path d="{" ".join(path)}" fill="none" stroke="{color}" stroke-width="1.3"/>'
    back = 8 if upwards else -8
    yield (
        f'<path d="M{tip[0]:.1f} {tip[1]:.1f}L{tip[0] - 3.8:.1f} {tip[1] + back:.1f}H{tip[0] + 3.8:.1f}Z" '
        f'fill="{color}"/>'
    )


def _box(box: Box, x: float, y: float) -> Iterator[str]:
    rect = 'rx="5" stroke="#5f6b76"'
    if box.stacked:
        for shift in (6, 3):
            yield (
                f'<rect x="{x + shift:.1f}" y="{y + shift:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
                f'{rect} fill="{box.color}"/>'
            )
    if box.inner:
        yield (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="5" '
            f'stroke="{_GREY}" fill="{_GREY}" fill-opacity="0.12"/>'
        )
    yield f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.head:.1f}" {rect} fill="{box.color}"/>'
    for i, line in enumerate(box.lines):
        weight = ' font-weight="600"' if i == 0 else ""
        yield (
            f'<text x="{x + box.width / 2:.1f}" y="{y + _PAD + 9 + i * _LINE:.1f}" text-anchor="middle" '
            f'fill="{_TEXT}"{weight}>{escape(line)}</text>'
        )
    left, top = x + _PAD, y + box.head + _PAD / 2
    caption_height = _caption_height(box.inner)
    for caption, picture in box.inner:
        if caption:
            yield (
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{text_width(caption) + 8:.1f}" height="{_LINE}" rx="3" '
                f'fill="#e3e3e3"/><text x="{left + 4:.1f}" y="{top + 11:.1f}" fill="{_TEXT}">{escape(caption)}</text>'
            )
        yield from _picture(picture, left, top + caption_height)
        left += picture.width + _PAD
