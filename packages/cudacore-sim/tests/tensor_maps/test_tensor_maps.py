# SPDX-License-Identifier: Apache-2.0
"""Tensor maps have the same bytes as on an H200, and copies the same results. ``recordings`` has those of the H200."""

from __future__ import annotations

import contextlib
import ctypes
import gzip
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus.machine import Machine

import cudacore_sim
from tensor_maps.copies import Case, Copier
from tensor_maps.record import RECORDING, read

RECORDED = read()
GROUPS = sorted({f"{case['op']}-{case['mode']}" for case, _, _ in RECORDED})


@pytest.fixture(scope="module")
def machine(on_gpu: bool) -> Iterator[Machine]:
    with Machine(ctypes.CDLL("libcuda.so.1") if on_gpu else cudacore_sim.load()) as machine:
        yield machine


@pytest.fixture
def copier(machine: Machine) -> Iterator[Copier]:
    with contextlib.closing(Copier(machine)) as copier:
        yield copier


@pytest.mark.parametrize("group", GROUPS)
def test_copies(copier: Copier, group: str) -> None:
    """A copy would move the wrong elements, or move them to the wrong places."""
    for case, facts, data in RECORDED:
        if f"{case['op']}-{case['mode']}" == group:
            found, bytes_ = copier.run(case)
            assert (found, bytes_.tobytes().hex()) == (facts, data.tobytes().hex()), case


def test_encoding(copier: Copier) -> None:
    """A tensor map would differ from the driver's, or would be encoded from arguments that the driver refuses."""
    with gzip.open(RECORDING.with_name("encodings.json.gz"), "rt") as file:
        rows = json.load(file)
    for case, code, bytes_ in rows:
        found = copier.encode(case, case["address"])
        assert (found[0], found[1].hex()) == (code, bytes_), case


def test_replacements(copier: Copier) -> None:
    """A kernel that changes a tensor map would make a different tensor map than on a GPU."""
    with gzip.open(RECORDING.with_name("replacements.json.gz"), "rt") as file:
        rows = json.load(file)
    for field, dimension, value, before, after in rows:
        found = copier.replace(field, dimension, value, bytes.fromhex(before))
        assert found.hex() == after, (field, dimension, value)


TILE: Case = {
    "op": "load", "mode": "tile", "type": 2, "dims": [24, 9], "strides": [96], "es": None, "il": 0, "sw": 0, "fill": 0,
    "data": "pattern", "at": [0, 0], "off": [0, 0, 0], "box": [16, 4],
}  # fmt: skip
MISUSE: list[tuple[dict[str, Any], int, str]] = [
    ({"mode": "shifted", "off": [64, 0, 0]}, 716, "the address in shared memory is not a multiple of 128"),
    ({"mode": "shifted", "off": [1 << 20, 0, 0]}, 700, "shared"),
    ({"at": [3, 0]}, 715, "the first coordinate is 3, which is 12 bytes: it must be a multiple of 16 bytes"),
    ({"op": "add", "type": 0, "dims": [96, 9], "box": [64, 4]}, 715, "the elements of the tensor map have no such"),
    ({"dims": [24, 1 << 20], "at": [0, 1 << 19]}, 700, "global"),
]


@pytest.mark.parametrize(("change", "code", "message"), MISUSE)
def test_misuse(
    run_python: Callable[..., subprocess.CompletedProcess[str]], change: dict[str, Any], code: int, message: str
) -> None:
    """A copy that fails on a GPU, or that exceeds the tensor's memory, would not be reported."""
    result = run_python(
        f"""
        import os, sys
        sys.path.append({str(Path(__file__).parents[1])!r})
        import cudacore_sim
        from corpus.machine import CUDAError, Machine
        from tensor_maps.copies import Copier
        with Machine(cudacore_sim.load()) as machine:
            try:
                Copier(machine).run({TILE | change!r})
            except CUDAError as error:
                print(error.code, flush=True)
                os._exit(0)
        """
    )
    assert result.stdout == f"{code}\n", result.stderr
    assert message in result.stderr


def test_recordings_are_complete() -> None:
    """A failed recording would be treated as a result."""
    assert all("done" in facts or "start" in facts for _, facts, _ in RECORDED)
    assert all(facts.get("done", True) for _, facts, _ in RECORDED)
