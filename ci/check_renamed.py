#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the package cudacore under another name of the distribution, install it, and run a program.

usage: check_renamed.py FOLDER       FOLDER: the wheels of the other packages; needs the group "dist" of pyproject.toml

The name is one line of packages/cudacore/pyproject.toml. The import name does not change.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "renamed-for-test"
PROGRAM = """
import cudacore as core
device = core.Device()
device.set_current()
stream = device.create_stream()
buffer = device.allocate(64, stream=stream)
buffer.fill(1, stream=stream)
values = bytearray(64)
buffer.copy_to(values, stream=stream)
assert values == bytes([1]) * 64, values
print(core.__file__)
"""


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wheels = [path for path in Path(sys.argv[1]).resolve().glob("*.whl") if not path.name.startswith("cudacore-")]
    others = [str(path) for path in wheels if path.name.endswith(("-any.whl", f"{platform.machine()}.whl"))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package = shutil.copytree(ROOT / "packages" / "cudacore", folder / "package")
        settings = package / "pyproject.toml"
        text, count = re.subn(r'(?m)^name = ".*"$', f'name = "{NAME}"', settings.read_text(encoding="utf-8"))
        assert count == 1
        settings.write_text(text, encoding="utf-8")
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(package)]
        subprocess.run(build, check=True)
        (wheel,) = folder.glob(f"{NAME.replace('-', '_')}-*.whl")
        site = folder / "site"
        # Without dependencies, because these include cuda.bindings, which the program does not need.
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
        subprocess.run([*install, "cffi", "cuda-pathfinder", "platformdirs", *others, str(wheel)], check=True)
        environment = os.environ | {"PYTHONPATH": str(site), "CUDACORE_DRIVER": "sim"}
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM], check=True, cwd=folder, env=environment, capture_output=True, text=True
        )
        assert ran.stdout.startswith(str(site)), ran.stdout
        print(f"{wheel.name} installs, and import cudacore works")


if __name__ == "__main__":
    main()
