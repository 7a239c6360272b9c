# SPDX-License-Identifier: Apache-2.0
"""The programs in the folder examples, which the documentation's gallery shows with their output."""

from __future__ import annotations

import doctest
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Examples that use CUDA's runtime library, which the simulated driver does not support.
NEED_A_GPU = {"cupy_kernel", "pytorch_kernel"}


def pixels(png: Path) -> np.ndarray:
    """Return the pixels of a PNG file that uses no row filters."""
    data, place, packed = png.read_bytes(), 8, b""
    width, height = struct.unpack_from(">II", data, 16)
    while place < len(data):
        (size,) = struct.unpack_from(">I", data, place)
        packed += data[place + 8 : place + 8 + size] * (data[place + 4 : place + 8] == b"IDAT")
        place += size + 12
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, -1).astype(int)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs_and_says_what_the_gallery_shows(example: Path, tmp_path: Path, on_sim: bool) -> None:
    """A reader who runs an example would see another output, or an error."""
    environment = os.environ | {"CUDACORE_SIM_DEVICES": "2"}
    command = [sys.executable, example]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    if ran.returncode == 1 and ran.stderr.startswith("skipped: ") and (not on_sim or example.stem in NEED_A_GPU):
        pytest.skip(f"{example.name}: {ran.stderr.strip().removeprefix('skipped: ')}")
    assert ran.returncode == 0, ran.stderr
    shown = (example.parent / "output" / f"{example.stem}.txt").read_text()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE  # the shown output may break long lines
    assert doctest.OutputChecker().check_output(shown, ran.stdout, flags), f"{ran.stdout}\nnot\n{shown}"
    for picture in tmp_path.glob("*.png"):
        difference = np.abs(pixels(picture) - pixels(ROOT / "docs" / "pictures" / picture.name))
        # For coordinates between texels, a GPU rounds differently than the simulated driver.
        assert difference.max() <= (0 if on_sim else 8)


def test_all_are_in_the_gallery() -> None:
    """The gallery would lack an example or its output."""
    gallery = (ROOT / "docs" / "gallery.rst").read_text()
    assert EXAMPLES
    for example in EXAMPLES:
        assert f"literalinclude:: ../examples/{example.name}" in gallery
        assert f"literalinclude:: ../examples/output/{example.stem}.txt" in gallery
