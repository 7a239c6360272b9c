# SPDX-License-Identifier: Apache-2.0
"""The kernels of the corpus, read from the files in ``kernels/`` and its subfolders.

The line above a kernel describes its inputs, its outputs, and how it is launched::

    //! f32 u32(0,80) i32:1000 =i32:3 -> rows:f32 u64:16 grid=4 block=64 shared=512 cluster=2 cooperative print=sorted

An input has a type (`corpus.values`), the interval of its numbers, and their count. ``=`` passes it by value. Outputs
are zero at first. ``rows`` is a table, with a row of 256 results for each expression:

- Results of ``ROW(expression)`` must be equal bit for bit.
- Results of ``ULP(bound, expression)`` may differ by units in the last place.
- Results of ``ABS(bound, expression)`` may differ by an absolute error.

A statement can have several expressions, one for each row. An expression with a comma outside of parentheses is put in
parentheses.

A bound is the error that the CUDA programming guide or the PTX manual documents for the operation. The test applies it
to the difference of two results. This is stricter than these documents, which allow the error in each of the two
results. The simulator is exact enough.

Without ``grid`` and ``block``, there are 4 blocks of 64 threads. ``cluster`` is the number of blocks in a cluster. With
``print``, the printed text is recorded. ``print=sorted`` sorts the printed lines; it is for kernels whose threads print
in an undefined order.

Textures and surfaces are inputs, with format, channels and shape. After ``@`` are the options for reading them
(`corpus.images`). The texels of a surface are also outputs, after all others::

    //! texture:f32(-1,1)x4:16x12@wrap,normalized surface:u32x1:8 -> rows:f32

Several kernels in consecutive lines ``KERNEL(name, statement)`` share one ``//!`` line above the first of them.

``//! nvrtc: OPTION...`` has options of the compiler for the whole file. ``//! cuda: 13`` is the oldest version of CUDA
that can compile it.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corpus import images, values
from corpus.images import Image
from corpus.values import FORMATS, Array

FOLDER = Path(__file__).parent
ELEMENTS = 256

_INPUT = re.compile(r"(?P<value>=?)(?P<kind>\w+?)(\((?P<low>[^,]+),(?P<high>[^)]+)\))?(:(?P<count>\d+))?")
_OUTPUT = re.compile(r"(?P<rows>rows:)?(?P<kind>\w+?)(:(?P<count>\d+))?")
_ROW = re.compile(r"^ *(?:ROW\(|(?P<how>ULP|ABS)\((?P<bound>[^,]+), *)(?P<text>(?s:.*?))\);$", re.MULTILINE)
_KERNELS = re.compile(
    r"^//! (?P<line>[^\n]*->[^\n]*)\n(?P<text>(?P<table>(?:KERNEL\([^\n]*\n)+)|.*?^})", re.MULTILINE | re.DOTALL
)
_DEFINED = re.compile(r"__global__|^ *KERNEL\(", re.MULTILINE)
_NAME = re.compile(r'^(?:KERNEL\(|extern "C" __global__ [^(]*?(?:__\w+\([^)]*\) )*)(\w+)[(,]', re.MULTILINE)


@dataclass(frozen=True)
class Input:
    """An argument that a kernel reads."""

    kind: str
    count: int
    interval: tuple[float, float] | None
    by_value: bool
    image: Image | None = None


@dataclass(frozen=True)
class Row:
    """A row of results: its expression, and bounds for the difference of two results (without bounds: equal bits)."""

    text: str
    ulp: float = 0
    absolute: float = 0


@dataclass(frozen=True)
class Output:
    """An argument that a kernel writes. A table has several rows; any other output is one row."""

    kind: str
    count: int
    rows: tuple[Row, ...]
    is_table: bool

    @property
    def shape(self) -> tuple[int, int]:
        """tuple of int: The numbers of rows and columns."""
        return len(self.rows), self.count


@dataclass(frozen=True)
class Kernel:
    """A kernel of the corpus. Each file has the kernels of one theme."""

    theme: str
    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    grid: int
    block: int
    shared: int
    cluster: int
    cooperative: bool
    print_order: str

    def make_inputs(self) -> list[Array]:
        """Make the inputs. Every call returns the same numbers.

        Returns
        -------
        list of numpy.ndarray
            The bits, as unsigned integers.
        """
        return [
            values.make(f"{self.name}/{place}", one.kind, one.count, one.interval)
            for place, one in enumerate(self.inputs)
        ]

    def fingerprint(self) -> int:
        """Return a checksum of the inputs, by which a test notices that a recording was made with other inputs."""
        return functools.reduce(lambda sum_, array: zlib.crc32(array.tobytes(), sum_), self.make_inputs(), 0)


@dataclass(frozen=True)
class Theme:
    """A file of kernels."""

    name: str
    folder: str
    source: str
    options: tuple[str, ...]
    cuda: int
    kernels: tuple[Kernel, ...]

    @property
    def recording(self) -> Path:
        """pathlib.Path: The file with the results of a GPU."""
        return FOLDER / "recordings" / f"{self.name}.npz"


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None or found["kind"] not in FORMATS:
        raise ValueError(f"not an input or output of a kernel: {text!r}")
    return found


def _input(text: str) -> Input:
    is_image = images.PATTERN.fullmatch(text) is not None
    found = _match(images.PATTERN if is_image else _INPUT, text)
    interval = (float(found["low"]), float(found["high"])) if found["low"] else None
    if is_image:
        image = images.image_of(found)
        return Input(image.kind, image.count, interval, by_value=False, image=image)
    return Input(found["kind"], int(found["count"] or ELEMENTS), interval, bool(found["value"]))


def _number(text: str) -> float:
    return float.fromhex(text) if "0x" in text else float(text)


def _output(text: str, rows: tuple[Row, ...]) -> Output:
    found = _match(_OUTPUT, text)
    if found["rows"]:
        return Output(found["kind"], ELEMENTS, rows, is_table=True)
    return Output(found["kind"], int(found["count"] or ELEMENTS), (Row("output"),), is_table=False)


def _expressions(text: str) -> Iterator[str]:
    """Split the arguments of a macro at the commas that are not inside of brackets or strings."""
    depth = start = 0
    for token in re.finditer(r'"[^"]*"|[()[\]{},]', text):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if token[0] == "," and not depth:
            yield text[start : token.start()]
            start = token.end()
    yield text[start:]


def _rows(statement: re.Match[str]) -> Iterator[Row]:
    bound = _number(statement["bound"]) if statement["bound"] else 0
    for expression in _expressions(statement["text"]):
        text = " ".join(expression.split())
        yield Row(text, absolute=bound) if statement["how"] == "ABS" else Row(text, ulp=bound)


def _kernel(theme: str, line: str, text: str) -> Kernel:
    name = _NAME.search(text)
    if name is None:
        raise ValueError(f"{theme}.cu: no kernel after {line!r}")
    before, _, after = line.partition("->")
    words = [word.partition("=") for word in after.split()]
    settings = {key: value for key, equals, value in words if equals or key == "cooperative"}
    statements = list(_ROW.finditer(text))
    if len(statements) != len(re.findall(r"\b(?:ROW|ULP|ABS)\(", text)):
        raise ValueError(f"{theme}.cu, {name[1]}: a row is not a statement on lines of its own")
    rows = tuple(row for statement in statements for row in _rows(statement))
    inputs = tuple(_input(word) for word in before.split())
    outputs = [_output(key, rows) for key, equals, _ in words if not equals and key != "cooperative"]
    surfaces = [one for one in inputs if one.image is not None and one.image.is_surface]
    outputs += [Output(one.kind, one.count, (Row("texels"),), is_table=False) for one in surfaces]
    return Kernel(
        theme,
        name[1],
        inputs,
        tuple(outputs),
        int(settings.get("grid", 4)),
        int(settings.get("block", 64)),
        int(settings.get("shared", 0)),
        int(settings.get("cluster", 0)),
        "cooperative" in settings,
        settings.get("print", ""),
    )


@functools.cache
def themes() -> tuple[Theme, ...]:
    """Read all files of kernels.

    Returns
    -------
    tuple of Theme
        The files, sorted by name.
    """
    found = []
    for path in sorted((FOLDER / "kernels").rglob("*.cu"), key=lambda path: path.stem):
        source = path.read_text()
        options = re.search(r"^//! nvrtc: (.*)$", source, re.MULTILINE)
        kernels = tuple(
            _kernel(path.stem, one["line"], text)
            for one in _KERNELS.finditer(source)
            for text in (one["table"].splitlines() if one["table"] else [one["text"]])
        )
        if len(kernels) != len(_DEFINED.findall(source)):
            raise ValueError(f"{path.name}: a kernel has no line that describes it")
        chosen = tuple(options[1].split()) if options else ("--fmad=false",)
        cuda = re.search(r"^//! cuda: (\d+)$", source, re.MULTILINE)
        found.append(Theme(path.stem, path.parent.name, source, chosen, int(cuda[1]) if cuda else 0, kernels))
    return tuple(found)
