# SPDX-License-Identifier: Apache-2.0
"""The examples of the guide about textures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "textures.rst"

AFTER = """
padded = np.pad(image, 1, mode="edge")
wanted = sum(padded[i : i + height, j : j + width] for i in range(3) for j in range(3)) / 9
assert np.allclose(blurred, wanted)
assert surface.resource.source is target
"""


def test_guide(pytestconfig: pytest.Config) -> None:
    """What the guide shows would not work, or an image would be blurred in another way."""
    text = GUIDE.read_text(encoding="utf-8")
    examples = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    assert len(examples) == 4
    code = "\n".join([*map(textwrap.dedent, examples), AFTER])
    environment = dict(os.environ)
    if pytestconfig.getoption("driver", None) != "gpu":
        environment["CUDACORE_DRIVER"] = "sim"
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=240)
    assert (result.returncode, result.stderr) == (0, "")
