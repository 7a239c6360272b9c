#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the wheels in a folder: missing and unexpected files, tags, extras, the libraries they need, sizes.

usage: check_wheels.py FOLDER PACKAGE...
PACKAGE: a package that must have a wheel in the folder; other packages must have none

If there are wheels for several architectures, each architecture is checked separately, together with the wheels that
run on all of them. So is each wheel of cudacore-handles: there is one for CPython with a GIL, and one for each version
without.
"""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ROOT / "packages" / "cudacore-handles" / "include" / "cudacore"

# Limits in kB: for a wheel, and for everything that `pip install cudacore` installs, which does not include the
# simulated driver.
LIMITS = {"cudacore-handles": 585.0, "cudacore-graph": 75.0, "cudacore-sim": 2500.0}
LIMIT_OF_ALL = 865.0

# The folder of each package, by the name of its distribution. The name is one line of the package's pyproject.toml.
FOLDERS = {
    re.findall(r'(?m)^name = "(.*)"$', path.read_text(encoding="utf-8"))[0]: path.parent.name
    for path in ROOT.glob("packages/*/pyproject.toml")
}

ARCHITECTURES = ("x86_64", "aarch64")
TAGS = {
    "cudacore-handles": r"(cp310-abi3|cp(\d+)-cp\2t)-(\w*linux\w*\.?)+",
    "cudacore-sim": r"py3-none-(\w*linux\w*\.?)+",
}
# Patterns of the files of a package that has more than Python modules; {0} stands for the folder of the modules. At
# least one file of the wheel must match each pattern.
FILES = {
    "cudacore-handles": (
        r"{0}/\w+\.(abi3|cpython-\d+t-\w+-linux-gnu)\.so",
        r"{0}/(\w+/)*libcudacore_handles\.so\.1",
        r"{0}/(\w+/)*include/cudacore/\w+\.(h|hpp)",
        r"{0}/(\w+/)*pkgconfig/cudacore-handles\.pc",
        r"{0}/(\w+/)*cmake/cudacore-config\.cmake",
        r"{0}/(\w+/)*cmake/cudacore-config-version\.cmake",
    ),
    "cudacore-sim": (
        r"{0}/lib/libcuda\.so\.1",
        r"{0}/lib/libcuda\.so",
        r"{0}/lib/libnvidia-ml\.so\.1",
        r"{0}/lib/libcudacore_sim_preload\.so",
        r"{0}/include/cudacore_sim\.h",
        r"[\w.-]+\.dist-info/entry_points\.txt",
    ),
    "cudacore-compile": (r"[\w.-]+\.dist-info/entry_points\.txt",),
}
MODULES = (r"{0}/__init__\.py", r"{0}/py\.typed", r"[\w.-]+\.dist-info/licenses/LICENSE")
OTHERS = (r"{0}/(\w+/)*\w+\.pyi?", r"[\w.-]+\.dist-info/(METADATA|WHEEL|RECORD)")
# The libraries that the shared objects may depend on: those of the system's C library and compiler, and our C library.
NEEDED = re.compile(r"ld-linux.*|lib(c|dl|m|pthread|gcc_s)\.so\.\d+|libcudacore_handles\.so\.1")
# The simulated NVML depends on the simulated driver in the same folder, and so does the driver's name for linkers.
# Nothing else may be linked to a driver.
NEEDED_BY = {"libnvidia-ml.so.1": "libcuda.so.1", "libcuda.so": "libcuda.so.1"}


class Wheel:
    """A wheel to check."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.archive = zipfile.ZipFile(path)
        self.names = [info.filename for info in self.archive.infolist() if not info.is_dir()]
        self.size = path.stat().st_size / 1000
        parts = re.fullmatch(r"(\w+)-([\d.]+)-([^-]+-[^-]+-.+)\.whl", path.name)
        if not parts:
            raise SystemExit(f"{path.name}: not a wheel's name")
        name, self.version, self.tag = map(str, parts.groups())
        self.package = FOLDERS.get(name.replace("_", "-"), name)
        self.metadata = email.message_from_bytes(self.archive.read(f"{name}-{self.version}.dist-info/METADATA"))

    def extras(self) -> dict[str, list[str]]:
        """Return the requirements of each extra, without environment markers."""
        found: dict[str, list[str]] = {extra: [] for extra in self.metadata.get_all("Provides-Extra", [])}
        for requirement in self.metadata.get_all("Requires-Dist", []):
            what, _, marker = requirement.partition(";")
            if extra := re.search(r"extra == '([^']+)'", marker):
                found[extra[1]].append(what.strip())
        return found

    def problems(self) -> Iterator[str]:
        tag = TAGS.get(self.package, "py3-none-any")
        if not re.fullmatch(tag, self.tag):
            yield f"tag {self.tag}, not {tag}"
        if self.size > LIMITS.get(self.package, LIMIT_OF_ALL):
            yield f"{self.size:.1f} kB, more than {LIMITS.get(self.package, LIMIT_OF_ALL):.0f} kB"
        module = self.package.replace("-", "_")
        required = [pattern.format(module) for pattern in (*MODULES, *FILES.get(self.package, ()))]
        yield from (f"no {each}" for each in required if not any(re.fullmatch(each, name) for name in self.names))
        allowed = "|".join([*required, *(pattern.format(module) for pattern in OTHERS)])
        yield from (f"stray file {name}" for name in self.names if not re.fullmatch(allowed, name))
        if self.package == "cudacore-handles":
            inside = {Path(name).name: self.archive.read(name) for name in self.names if name.endswith((".h", ".hpp"))}
            if inside != {path.name: path.read_bytes() for path in HEADERS.glob("*.h*")}:
                yield f"headers differ from {HEADERS.relative_to(ROOT)}"
        with tempfile.TemporaryDirectory() as folder:
            for name in self.names:
                if ".so" in Path(name).name:
                    yield from problems_of_library(Path(self.archive.extract(name, folder)))


def problems_of_library(path: Path) -> Iterator[str]:
    """Return the problems of a shared object."""
    dynamic = subprocess.check_output(["readelf", "--dynamic", "--wide", path], text=True)
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not NEEDED.fullmatch(needed) and NEEDED_BY.get(path.name) != needed:
            yield f"{path.name} is linked to {needed}"
    for folder in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
        if not folder.startswith("$ORIGIN"):
            yield f"{path.name} looks for libraries in {folder}"


def check_together(wheels: list[Wheel], packages: list[str]) -> Iterator[str]:
    """Print the sizes of the wheels that one machine installs; return the problems of the whole set."""
    for wheel in wheels:
        print(f"{wheel.size:8.1f} kB  {len(wheel.names):3} files  {wheel.path.name}")
    total = sum(wheel.size for wheel in wheels if wheel.package != "cudacore-sim")
    print(f"{total:8.1f} kB  without the simulated driver; at most {LIMIT_OF_ALL:.0f} kB")
    # An extra of cudacore must be the extra of cudacore-compile with the same name. The extra of a CUDA version must
    # install only NVRTC.
    extras = {wheel.package: wheel.extras() for wheel in wheels}
    compiling, all_of_it = extras.get("cudacore-compile", {}), extras.get("cudacore", {})
    for extra in sorted(compiling.keys() - {"terminal"}):
        if all_of_it.get(extra) != [f"cudacore-compile[{extra}]"]:
            yield f"the extra {extra} of cudacore is not that of cudacore-compile"
    for extra in ("cu12", "cu13"):
        if [name for name in compiling.get(extra, ()) if "cuda-toolkit" in name and "[nvrtc]" not in name]:
            yield f"the extra {extra} of cudacore-compile brings more than NVRTC"
    if sorted(wheel.package for wheel in wheels) != sorted(packages):
        yield f"expected one wheel each of: {', '.join(sorted(packages))}"
    if len({wheel.version for wheel in wheels}) > 1:
        yield "the wheels have different versions"
    if total > LIMIT_OF_ALL:
        yield f"all wheels but the simulated driver's: {total:.1f} kB, more than {LIMIT_OF_ALL:.0f} kB"


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    wheels = [Wheel(path) for path in sorted(Path(sys.argv[1]).glob("*.whl"))]
    problems = [f"{wheel.path.name}: {problem}" for wheel in wheels for problem in wheel.problems()]
    found = [name for name in ARCHITECTURES if any(wheel.tag.endswith(name) for wheel in wheels)]
    for architecture in found or [""]:
        here = [wheel for wheel in wheels if wheel.tag.endswith(("-any", architecture))]
        others = [wheel for wheel in here if wheel.package != "cudacore-handles"]
        for handles in [[wheel] for wheel in here if wheel not in others] or [[]]:
            problems += check_together([*handles, *others], sys.argv[2:])
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
