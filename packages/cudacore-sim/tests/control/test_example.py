# SPDX-License-Identifier: Apache-2.0
"""The example project in docs/examples/simulated-ci, tested by its own CI recipe."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
EXAMPLE = ROOT / "docs" / "examples" / "simulated-ci"
WHEELS = Path(os.environ.get("CUDACORE_WHEELS", ROOT / "build" / "wheels")).resolve()
PACKAGES = ("cudacore", "cudacore-compile", "cudacore-graph", "cudacore-handles", "cudacore-sim")


@pytest.fixture
def constraints(tmp_path: Path) -> Path:
    """Make pip use the wheels that were built from this repository, even if an index has newer ones."""
    lines = []
    for name in PACKAGES:
        found = sorted(WHEELS.glob(f"{name.replace('-', '_')}-*.whl"))
        if len(found) != 1:
            pytest.skip(f"needs one built wheel of {name} in {WHEELS}, which has {len(found)}: nox -s build")
        lines.append(f"{name} @ {found[0].as_uri()}\n")
    file = tmp_path / "constraints.txt"
    file.write_text("".join(lines))
    return file


@pytest.fixture
def environment(tmp_path: Path, constraints: Path) -> dict[str, str]:
    """Create a virtual environment; return the environment variables for it, without this run's own settings."""
    ours = ("CUDACORE_", "LD_PRELOAD", "PYTHON", "PYTEST_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    venv = tmp_path / "venv"
    # An older pip refuses a file as the constraint of a package with extras.
    subprocess.run([sys.executable, "-m", "venv", "--upgrade-deps", venv], env=clean, check=True, timeout=300)
    return clean | {
        "PATH": os.pathsep.join([str(venv / "bin"), os.environ["PATH"]]),
        "VIRTUAL_ENV": str(venv),
        "PIP_CONSTRAINT": str(constraints),
    }


def commands() -> list[str]:
    """Return the commands of the workflow's steps, one per line."""
    workflow = (EXAMPLE / ".github" / "workflows" / "test.yml").read_text()
    return re.findall(r"^ *- run: (\w.*)$", workflow, re.MULTILINE)


@pytest.mark.cuda_sim
@pytest.mark.skipif(not EXAMPLE.is_dir(), reason="needs the repository's docs folder")
def test_the_recipe_works_as_written(tmp_path: Path, environment: dict[str, str]) -> None:
    """A copy of the example would have a failing CI."""
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    ran = []
    for command in commands():
        # GitHub runs a step on Linux in the same way.
        made = subprocess.run(
            ["bash", "-e", "-c", command], cwd=project, env=environment, capture_output=True, text=True, timeout=600
        )
        assert made.returncode == 0, f"{command}\n{made.stdout}\n{made.stderr}"
        ran.append(made.stdout)
    assert len(ran) >= 2
    for output in ran[1:]:
        assert "CUDA driver: simulated" in output
        assert re.search(r"\d+ passed, 1 skipped in", output), output  # the skipped test is the one that needs a GPU
