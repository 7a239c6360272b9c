# SPDX-License-Identifier: Apache-2.0
"""The check at import that the installed packages have the same minor version."""

from __future__ import annotations

import sys


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
