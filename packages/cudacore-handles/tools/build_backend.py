# SPDX-License-Identifier: Apache-2.0
"""meson-python, with the tags of wheels that ``[tool.cudacore]`` in pyproject.toml states.

meson-python puts the version of the building interpreter into the tag, and treats a shared library in a package as an
extension module. Each compiled package has a copy of this file, because its source distribution must not depend on
others; the copies are equal.
"""

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

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # meson-python requires tomli on these versions of Python

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
    """Build the wheel and return its name, with the tags that pyproject.toml states."""
    name = mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)
    tags = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["cudacore"]["wheel-tags"]
    command = [sys.executable, "-m", "wheel", "tags", "--remove", *tags, name]
    made = subprocess.run(command, cwd=wheel_directory, check=True, capture_output=True, text=True).stdout
    return Path(made.splitlines()[-1].strip()).name
