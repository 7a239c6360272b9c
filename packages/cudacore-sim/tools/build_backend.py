# SPDX-License-Identifier: Apache-2.0
"""meson-python, with wheels for any Python 3: it takes a shared library among modules for an extension module."""

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


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel and return its name, tagged for the platform alone."""
    name = mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)
    command = [sys.executable, "-m", "wheel", "tags", "--remove", "--python-tag", "py3", "--abi-tag", "none", name]
    made = subprocess.run(command, cwd=wheel_directory, check=True, capture_output=True, text=True).stdout
    return Path(made.splitlines()[-1].strip()).name
