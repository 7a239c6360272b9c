# SPDX-License-Identifier: Apache-2.0
"""meson-python, with the tags of wheels that ``[tool.cudacore]`` in pyproject.toml states.

meson-python puts the version of the building interpreter into the tag, and treats a shared library in a package as an
extension module. Each compiled package has a copy of this file, because its source distribution must not depend on
others; the copies are equal.

CPython without a GIL has a limited API only from 3.15 on. For such an interpreter, the modules are built for its
version, and the wheel keeps the tag of meson-python, such as ``cp314-cp314t``.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import mesonpy
from mesonpy import (
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


_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def _settings(given: dict[str, Any] | None) -> dict[str, Any]:
    """Add the option of Meson that turns the limited API off, for an interpreter without a GIL."""
    settings = dict(given or {})
    if _FREE_THREADED:
        arguments = settings.get("setup-args", [])
        arguments = [arguments] if isinstance(arguments, str) else list(arguments)
        settings["setup-args"] = ["-Dpython.allow_limited_api=false", *arguments]
    return settings


def build_editable(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build an editable wheel, and return its name."""
    return mesonpy.build_editable(wheel_directory, _settings(config_settings), metadata_directory)


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel and return its name, with the tags that pyproject.toml states."""
    name = mesonpy.build_wheel(wheel_directory, _settings(config_settings), metadata_directory)
    tags = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["cudacore"]["wheel-tags"]
    if _FREE_THREADED and "--abi-tag" not in tags:  # the stated version is that of the limited API
        return name
    command = [sys.executable, "-m", "wheel", "tags", "--remove", *tags, name]
    made = subprocess.run(command, cwd=wheel_directory, check=True, capture_output=True, text=True).stdout
    return Path(made.splitlines()[-1].strip()).name
