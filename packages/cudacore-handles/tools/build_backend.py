# SPDX-License-Identifier: Apache-2.0
"""meson-python, with wheels for Python 3.10 and later: it puts the interpreter that builds into the tag."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import mesonpy
from mesonpy import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

# What is compiled asks for no more: the extension modules are of its limited API.
LOWEST_PYTHON = "cp310"


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel and return its name, tagged for the lowest Python that it is for."""
    name = mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)
    command = [sys.executable, "-m", "wheel", "tags", "--remove", "--python-tag", LOWEST_PYTHON, name]
    made = subprocess.run(command, cwd=wheel_directory, check=True, capture_output=True, text=True).stdout
    return Path(made.splitlines()[-1].strip()).name
