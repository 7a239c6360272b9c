# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the recordings of the sequences on a GPU: ``recordings`` has a file for each module of sequences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("recordings")
GPU = FOLDER / "_gpu.json"


def read_gpu() -> dict[str, Any]:
    """Return the name of the device on which the sequences were recorded, and the version of its driver."""
    gpu: dict[str, Any] = _read(GPU)
    return gpu


def read_sequences() -> dict[str, list[str]]:
    """Return the listings of all sequences that were recorded, by name."""
    sequences: dict[str, list[str]] = {}
    for file in sorted(FOLDER.glob("[!_]*.json")):
        sequences |= _read(file)
    return sequences


def write(gpu: dict[str, Any], sequences: dict[str, list[str]]) -> None:
    """Replace the recordings."""
    _write(GPU, gpu)
    by_module: dict[str, dict[str, list[str]]] = {}
    for name, listing in sequences.items():
        by_module.setdefault(name.partition(".")[0], {})[name] = listing
    for file in FOLDER.glob("[!_]*.json"):
        if file.stem not in by_module:
            file.unlink()
    for module, listings in by_module.items():
        _write(FOLDER / f"{module}.json", listings)


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _write(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
