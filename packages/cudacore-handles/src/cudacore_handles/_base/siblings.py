# SPDX-License-Identifier: Apache-2.0
"""What the packages of one release do when they are imported: see that they are of one release."""

from __future__ import annotations

import sys


def check_handles(package: str, version: str) -> None:
    """Refuse to run below a package of another minor version: they are released, and tested, together.

    All packages stand on this one: two that fit it fit each other.
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
