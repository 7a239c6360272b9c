#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the wheels of packages into a folder. A package with unchanged sources is not built again.

usage: build_wheels.py FOLDER PACKAGE... (the Python that runs it needs pip and the build requirements of the simulator)
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "packages"
NOT_SOURCES = {"tests", "build", "dist", "__pycache__"}
BUILT_TESTS = {".cpp", ".build"}
# The simulator takes minutes to compile, so its build folder is kept, and only changed files are compiled again. The
# folder also contains the simulator's tests in C++.
OPTIONS = {
    "cudacore-sim": [
        "--no-build-isolation",
        f"-Cbuild-dir={ROOT / 'build' / 'sim'}",
        "-Csetup-args=-Dtests=true",
        "-Csetup-args=-Dpython=true",
    ],
}


def digest(package: Path) -> str:
    """Return a digest of the names and contents of a package's sources."""
    state = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        relative = path.relative_to(package)
        hidden = any(part.startswith(".") for part in relative.parts)
        skipped = NOT_SOURCES.intersection(relative.parts) and path.suffix not in BUILT_TESTS
        if path.is_file() and not hidden and not skipped:
            state.update(f"{relative}\0{path.stat().st_size}\0".encode())
            state.update(path.read_bytes())
    return state.hexdigest()


def build(package: Path, folder: Path) -> Path:
    """Build one wheel into a folder that contains no other wheel."""
    python = sys.executable
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    options = OPTIONS.get(package.name, [])
    subprocess.run([*pip, "wheel", "--no-deps", *options, "--wheel-dir", str(folder), str(package)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    out = Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    for package in (PACKAGES / name for name in sys.argv[2:]):
        stamp = out / f"{package.name}.sha256"
        sources = digest(package)
        # A wheel's name contains the version and the name of the distribution, which can change in pyproject.toml.
        made_from, _, old = (stamp.read_text() if stamp.is_file() else "").partition(" ")
        if old and (out / old).is_file():
            if made_from == sources:
                print(f"{old}: up to date")
                continue
            (out / old).unlink()
        print(f"building {package.name} ...", flush=True)
        with tempfile.TemporaryDirectory(dir=out) as folder:
            wheel = build(package, Path(folder))
            wheel = wheel.rename(out / wheel.name)
        stamp.write_text(f"{sources} {wheel.name}")
        print(f"{wheel.name}: {wheel.stat().st_size / 1000:.1f} kB")


if __name__ == "__main__":
    main()
