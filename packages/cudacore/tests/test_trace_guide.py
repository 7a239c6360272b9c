# SPDX-License-Identifier: Apache-2.0
"""The example of the guide to traces, and the picture that is drawn from its trace."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs" / "simulator"


@pytest.mark.cuda_sim
def test_guide(tmp_path: Path) -> None:
    """The example would not run, or its trace would be missing or not be drawable."""
    trace = tmp_path / "trace.json"
    environment = os.environ | {"CUDACORE_DRIVER": "sim", "CUDACORE_SIM_TRACE": str(trace)}
    environment.pop("CUDACORE_SIM_DRIVER_VERSION", None)  # an older driver may refuse the compiled PTX
    small = (DOCS / "pipeline.py").read_text().replace("16 << 20", "1 << 20")
    subprocess.run([sys.executable, "-c", small], env=environment, check=True)
    drawn = subprocess.run([sys.executable, DOCS / "timeline.py", trace], capture_output=True, text=True, check=True)
    picture = ElementTree.fromstring(drawn.stdout)
    titles = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert len([title for title in titles if title and title.startswith("copy")]) == 8
    assert len([title for title in titles if title and title.startswith("relax")]) == 4
