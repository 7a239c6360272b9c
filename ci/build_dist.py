#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the releases into a folder: source distributions, and wheels for x86-64 and aarch64 with glibc 2.28 or later.

Needs the group "dist" of pyproject.toml.

Zig's C and C++ compilers can link for any version of glibc and any architecture. The wheels are linked for glibc 2.28.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

PACKAGES = Path(__file__).resolve().parent.parent / "packages"
GLIBC = "2.28"
ARCHITECTURES = ("x86_64", "aarch64")

CROSS_FILE = """\
[binaries]
c = '{tools}/cc'
cpp = '{tools}/c++'
ar = '{tools}/ar'

[host_machine]
system = 'linux'
cpu_family = '{architecture}'
cpu = '{architecture}'
endian = 'little'
"""


def make_tools(folder: Path, architecture: str) -> None:
    """Fill a folder with compiler commands for an architecture, and with a cross file by which Meson finds them."""
    target = f"-target {architecture}-linux-gnu.{GLIBC}"
    # -s omits the symbols for debuggers.
    for name, command in (("cc", f"cc {target} -s"), ("c++", f"c++ {target} -s"), ("ar", "ar")):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {command} "$@"\n')
        script.chmod(0o755)
    (folder / "cross.ini").write_text(CROSS_FILE.format(tools=folder, architecture=architecture))


def is_compiled(package: Path) -> bool:
    return (package / "meson.build").exists()


def build_wheel(package: Path, architecture: str, out: Path) -> None:
    """Build one compiled wheel, and let auditwheel set its platform tag."""
    with tempfile.TemporaryDirectory() as folder:
        tools, made = Path(folder) / "tools", Path(folder) / "made"
        tools.mkdir()
        make_tools(tools, architecture)
        environment = os.environ | {"_PYTHON_HOST_PLATFORM": f"linux-{architecture}"}
        setup = f"--config-setting=setup-args=--cross-file={tools}/cross.ini"
        # Not isolated, because pip would install build requirements for the other architecture.
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", setup, "--outdir", str(made), str(package)]
        subprocess.run(build, check=True, env=environment)
        (wheel,) = made.glob("*.whl")
        # auditwheel determines from the symbols which glibc the wheel needs, and --only-plat makes that the only tag.
        repair = [sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "--only-plat"]
        subprocess.run([*repair, "--wheel-dir", str(out), str(wheel)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder, which is emptied first")
    every = sorted(file.parent.name for file in PACKAGES.glob("*/pyproject.toml"))
    parser.add_argument("packages", nargs="*", default=every, help="the packages to build (default: all)")
    parser.add_argument("--architecture", choices=ARCHITECTURES, help="the only architecture to build wheels for")
    arguments = parser.parse_args()
    architectures = (arguments.architecture,) if arguments.architecture else ARCHITECTURES
    out = arguments.folder.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    for package in (PACKAGES / name for name in arguments.packages):
        subprocess.run([sys.executable, "-m", "build", "--sdist", "--outdir", str(out), str(package)], check=True)
        if is_compiled(package):
            for architecture in architectures:
                build_wheel(package, architecture, out)
        else:
            subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(package)], check=True)


if __name__ == "__main__":
    main()
