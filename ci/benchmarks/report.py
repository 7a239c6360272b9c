# SPDX-License-Identifier: Apache-2.0
"""Compare measurements with their targets, and print them."""

from __future__ import annotations

import collections
import statistics
from dataclasses import dataclass, field

from measure import Series
from rows import BASELINE, GEOMETRIC_MEAN, OURS, SHORT_NS, SHORT_RATIO, USUAL_RATIO, Row

FLOOR = "C"


@dataclass
class Result:
    """One line of the table: minima and quartiles of each candidate, the target, and whether it was met."""

    name: str
    unit: str
    minima: dict[str, float]
    quartiles: dict[str, list[float]] = field(default_factory=dict)
    rounds: dict[str, list[float]] = field(default_factory=dict)  # the minimum of each round, by candidate
    notes: dict[str, str] = field(default_factory=dict)
    target: str = ""
    of_target: float | None = None  # the ratio that is compared with the target
    passed: bool | None = None

    @classmethod
    def of(cls, series: Series) -> Result:
        """Return the result of a row, without a target."""
        result = cls(series.name, "ns", {}, notes=series.notes)
        for candidate, rounds in series.rounds.items():
            values = [value for times in rounds for value in times]
            result.minima[candidate] = min(values)
            result.rounds[candidate] = [min(times) for times in rounds]
            if len(values) > 1:
                result.quartiles[candidate] = statistics.quantiles(values, n=4, method="inclusive")
        return result

    def ratio(self, to: str) -> float | None:
        if OURS in self.minima and self.minima.get(to):
            return self.minima[OURS] / self.minima[to]
        return None

    def judge(self, reference: float, target: str, factor: float = 1.0, extra: float = 0.0) -> None:
        """Compare the result with a target: at most `reference` times `factor` plus `extra`, in the unit of the minima.

        A row that could not be measured misses its target.
        """
        self.target = target
        self.passed = OURS in self.minima and self.minima[OURS] <= reference * factor + extra
        self.of_target = self.minima[OURS] / reference if OURS in self.minima else None

    def judge_by(self, candidate: str, factor: float, extra: float = 0.0) -> None:
        """Compare the result with a multiple of another candidate's result, unless that was not measured."""
        if candidate in self.minima:
            more = f" + {extra:.0f} ns" if extra else ""
            self.judge(self.minima[candidate], f"{candidate} x {factor:.2f}{more}", factor, extra)


def judge_row(row: Row, results: dict[str, Result]) -> None:
    """Judge the result of a row by its target."""
    result = results[row.name]
    if row.over_row:
        other = results[row.over_row[0]]
        # A row is not judged if the library that it needs is missing.
        if OURS in other.minima and not result.notes.get(OURS, "").startswith("needs "):
            result.judge(other.minima[OURS], f"{other.name} x {row.over_row[1]:.2f}", row.over_row[1])
    elif row.over_floor:
        result.judge_by(FLOOR, *row.over_floor)
    elif BASELINE in result.minima:
        usual = SHORT_RATIO if result.minima[BASELINE] < SHORT_NS else USUAL_RATIO
        result.judge_by(BASELINE, row.ratio or usual)


def geometric_mean(results: list[Result]) -> Result | None:
    """Return the geometric mean of the operations' ratios, as another result."""
    ratios = [ratio for result in results if (ratio := result.ratio(BASELINE))]
    if not ratios:
        return None
    result = Result(f"geometric mean of {len(ratios)} ratios", "x", {OURS: statistics.geometric_mean(ratios)})
    result.judge(GEOMETRIC_MEAN, f"x {GEOMETRIC_MEAN:.2f}")
    return result


def format_number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value < 1e6 else f"{value / 1e6:,.2f} ms"


def print_table(results: list[Result], columns: list[str]) -> None:
    """Print minima, the quartiles of cudacore, and ratios."""
    others = [column for column in columns if column != OURS]
    heads = [
        "ns a call, minima",
        *columns,
        f"quartiles of {OURS}",
        *(f"to {each}" for each in others),
        "ratio",
        "target",
        "",
    ]
    lines = [heads]
    for result in results:
        if not result.minima and not result.target:
            continue
        quartiles = [format_number(value, result.unit) for value in result.quartiles.get(OURS, ())]
        ratios = [f"x {ratio:.2f}" if ratio else "-" for ratio in (*map(result.ratio, others), result.of_target)]
        lines.append(
            [
                result.name,
                *(format_number(result.minima.get(column), result.unit) for column in columns),
                " ".join(quartiles) or "-",
                *ratios,
                result.target,
                {True: "ok", False: "MISSED", None: ""}[result.passed],
            ]
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    for number, line in enumerate(lines):
        cells = [
            line[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
        ]
        print("  ".join(cells).rstrip())
        if number == 0:
            print("-" * (sum(widths) + 2 * len(widths) - 2))
    for column in columns:
        notes = collections.Counter(result.notes[column] for result in results if column in result.notes)
        for note, count in notes.items():
            print(f"{column}: {count} not measured: {note}")
