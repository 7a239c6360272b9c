#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copy the tests, and the files that pytest needs for them, to a folder without the sources of the packages.

usage: copy_tests.py FOLDER [PACKAGES]       PACKAGES: the folder of the packages, such as unpacked source distributions
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IGNORE = shutil.ignore_patterns("__pycache__", "build", "_build")


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    target = Path(sys.argv[1])
    packages = Path(sys.argv[2]) if len(sys.argv) == 3 else ROOT / "packages"
    shutil.rmtree(target, ignore_errors=True)
    for tests in sorted(packages.glob("cudacore*/tests")):
        shutil.copytree(tests, target / "packages" / tests.relative_to(packages), ignore=IGNORE)
        shutil.copy(tests.with_name("README.md"), target / "packages" / tests.parent.name)  # tests run its examples
    shutil.copytree(ROOT / "ci", target / "ci", ignore=IGNORE)
    for name in ("docs", "examples"):  # tests run the programs in these folders
        shutil.copytree(ROOT / name, target / name, ignore=IGNORE)
    for name in ("README.md", "conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, target / name)


if __name__ == "__main__":
    main()
