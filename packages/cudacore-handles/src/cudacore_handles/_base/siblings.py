# SPDX-License-Identifier: Apache-2.0
"""The packages that depend on this one: the check of their versions, and their imports by methods of this package."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def check_handles(package: str, version: str) -> None:
    """Raise an error if a package's minor version differs from that of cudacore-handles.

    The packages are released and tested together. Each package is compared only with cudacore-handles, so all of them
    have the same minor version.
    """
    ours = sys.modules["cudacore_handles"]
    series = _series(version)
    if _series(ours.__version__) != series:
        package = package.replace("_", "-")
        raise ImportError(
            f"{package} {version} needs cudacore-handles {series}.*, but {ours.__version__} is installed; "
            f'run: python -m pip install "{package}=={series}.*" "cudacore-handles=={series}.*"',
            name=ours.__name__,
            path=ours.__file__,
        )


def _series(version: str) -> str:
    return ".".join(version.split(".")[:2])


def upper_package(name: str, advice: str) -> Any:
    """Import a package that depends on this one, by its name. If it is not installed, the error is `advice`."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise
    raise ImportError(advice)


def graph_package() -> Any:
    """Import ``cudacore_graph``."""
    advice = "graph builders are in the package cudacore-graph: pip install cudacore-graph"
    return upper_package("cudacore_graph", advice)
