#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the contents of the wheels in a folder: missing and unexpected files, tags, versions, dependencies, sizes.

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
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ROOT / "packages" / "cudacore-handles" / "include" / "cudacore"

# Limits in kB: for a wheel, and for everything that `pip install cudacore` installs, which does not include the
# simulated driver.
LIMITS = {"cudacore-handles": 635.0, "cudacore-graph": 80.0, "cudacore-sim": 2500.0}
LIMIT_OF_ALL = 935.0

# The folder of each package, by the name of its distribution. The name is one line of the package's pyproject.toml.
FOLDERS = {
    re.findall(r'(?m)^name = "(.*)"$', path.read_text(encoding="utf-8"))[0]: path.parent.name
    for path in ROOT.glob("packages/*/pyproject.toml")
}

PURE = "py3-none-any"
ARCHITECTURES = ("x86_64", "aarch64")
TAGS = {
    "cudacore-handles": r"(cp310-abi3|cp(\d+)-cp\2t)-(\w*linux\w*\.?)+",
    "cudacore-sim": r"py3-none-(\w*linux\w*\.?)+",
}
# The libraries that the shared objects may depend on: those of the system's C library and compiler, and our C library.
NEEDED = re.compile(r"ld-linux.*|lib(c|dl|m|pthread|gcc_s)\.so\.\d+|libcudacore_handles\.so\.1")
# The simulated NVML depends on the simulated driver in the same folder, and so does the driver's name for linkers.
# Nothing else may be linked to a driver.
NEEDED_BY = {"libnvidia-ml.so.1": "libcuda.so.1", "libcuda.so": "libcuda.so.1"}


def patterns(package: str, info: str) -> list[str]:
    """Return patterns of the files that a wheel may contain; `info` is the wheel's metadata folder."""
    module, info = package.replace("-", "_"), re.escape(info)
    allowed = [
        rf"{module}/(\w+/)*\w+\.pyi?",
        rf"{module}/py\.typed",
        rf"{info}/(METADATA|WHEEL|RECORD|licenses/LICENSE)",
    ]
    if package == "cudacore-handles":
        allowed += [
            rf"{module}/\w+\.(abi3|cpython-\d+t-\w+-linux-gnu)\.so",
            rf"{module}/(\w+/)*libcudacore_handles\.so\.1",
            rf"{module}/(\w+/)*include/cudacore/\w+\.(h|hpp)",
            rf"{module}/(\w+/)*pkgconfig/cudacore-handles\.pc",
            rf"{module}/(\w+/)*cmake/cudacore-config(-version)?\.cmake",
        ]
    if package == "cudacore-compile":
        allowed += [rf"{info}/entry_points\.txt"]
    if package == "cudacore-sim":
        allowed += [
            rf"{module}/lib/libcuda\.so(\.1)?",
            rf"{module}/lib/libnvidia-ml\.so\.1",
            rf"{module}/lib/libcudacore_sim_preload\.so",
            rf"{module}/include/cudacore_sim\.h",
            rf"{info}/entry_points\.txt",
        ]
    return allowed


class Checker:
    """A wheel to check, and the problems that were found in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.archive = zipfile.ZipFile(path)
        self.names = [info.filename for info in self.archive.infolist() if not info.is_dir()]
        parts = re.fullmatch(r"(\w+)-([\d.]+)-([^-]+-[^-]+-.+)\.whl", path.name)
        if not parts:
            raise SystemExit(f"{path.name}: not a wheel's name")
        name, self.version, self.tag = map(str, parts.groups())
        self.package = FOLDERS.get(name.replace("_", "-"), name)
        self.info = f"{name}-{self.version}.dist-info"
        self.problems: list[str] = []

    def expect(self, condition: object, problem: str) -> None:
        if not condition:
            self.problems.append(f"{self.path.name}: {problem}")

    def check(self) -> None:
        self.contents()
        self.metadata()
        tag = TAGS.get(self.package, PURE)
        self.expect(re.fullmatch(tag, self.tag), f"tag {self.tag}, not {tag}")
        if self.package == "cudacore-handles":
            self.headers()
            self.shared_objects("libcudacore_handles.so.1")
        elif self.package == "cudacore-sim":
            self.shared_objects("libcuda.so.1")
            for library in ("libcuda.so", "libcudacore_sim_preload.so", "libnvidia-ml.so.1"):
                self.expect(any(name.endswith(f"/{library}") for name in self.names), f"no {library}")
        size = self.path.stat().st_size / 1000
        limit = LIMITS.get(self.package, LIMIT_OF_ALL)
        self.expect(size <= limit, f"{size:.1f} kB, more than {limit:.0f} kB")

    def contents(self) -> None:
        allowed = [re.compile(pattern) for pattern in patterns(self.package, self.info)]
        for name in self.names:
            self.expect(any(pattern.fullmatch(name) for pattern in allowed), f"stray file {name}")
        module = self.package.replace("-", "_")
        for required in (f"{module}/__init__.py", f"{module}/py.typed"):
            self.expect(required in self.names, f"no {required}")
        licence = f"{self.info}/licenses/LICENSE"
        self.expect(licence in self.names, f"no {licence}")
        if licence in self.names:
            same = self.archive.read(licence) == (ROOT / "LICENSE").read_bytes()
            self.expect(same, "its LICENSE differs from the repository's")

    def metadata(self) -> None:
        fields = email.message_from_bytes(self.archive.read(f"{self.info}/METADATA"))
        self.expect(fields["Version"] == self.version, f"version {fields['Version']} inside")
        self.expect(fields["Author"] or fields["Author-email"], "no author")
        self.expect(str(fields.get_payload()).startswith("# "), "no description")
        self.expect(fields["License-Expression"] == "Apache-2.0", "License-Expression is not Apache-2.0")
        self.expect(fields["Requires-Python"] == ">=3.10", f"Requires-Python is {fields['Requires-Python']}")
        series = self.version.rpartition(".")[0]
        for requirement in fields.get_all("Requires-Dist", []):
            sibling = re.match(r"cudacore[\w-]*", requirement)
            if sibling and "extra ==" not in requirement:
                self.expect(requirement == f"{sibling[0]}=={series}.*", f"{requirement!r} does not pin {series}.*")

    def extras(self) -> dict[str, list[str]]:
        """Return the requirements of each extra, without environment markers."""
        fields = email.message_from_bytes(self.archive.read(f"{self.info}/METADATA"))
        found: dict[str, list[str]] = {extra: [] for extra in fields.get_all("Provides-Extra", [])}
        for requirement in fields.get_all("Requires-Dist", []):
            what, _, marker = requirement.partition(";")
            if extra := re.search(r"extra == '([^']+)'", marker):
                found[extra[1]].append(what.strip())
        return found

    def headers(self) -> None:
        inside = {Path(name).name: self.archive.read(name) for name in self.names if name.endswith((".h", ".hpp"))}
        outside = {path.name: path.read_bytes() for path in HEADERS.glob("*.h*")}
        self.expect(inside == outside, f"headers differ from {HEADERS.relative_to(ROOT)}")
        self.expect(any(name.endswith(".pc") for name in self.names), "no pkg-config file")
        self.expect(any(name.endswith("-config.cmake") for name in self.names), "no package for CMake")

    def shared_objects(self, library: str) -> None:
        libraries = [name for name in self.names if ".so" in Path(name).name]
        self.expect(any(Path(name).name == library for name in libraries), f"no {library}")
        with tempfile.TemporaryDirectory() as folder:
            for name in libraries:
                dynamic = subprocess.run(
                    ["readelf", "--dynamic", "--wide", self.archive.extract(name, folder)],
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
                for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
                    allowed = NEEDED.fullmatch(needed) or NEEDED_BY.get(Path(name).name) == needed
                    self.expect(allowed, f"{name} is linked to {needed}")
                for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
                    self.expect(path.startswith("$ORIGIN"), f"{name} looks for libraries in {path}")


def check_together(checkers: list[Checker], packages: list[str]) -> list[str]:
    """Print the sizes of the wheels that one machine installs; return the problems of the whole set."""
    total = 0.0
    for checker in checkers:
        size = checker.path.stat().st_size / 1000
        total += size if checker.package != "cudacore-sim" else 0.0
        print(f"{size:8.1f} kB  {len(checker.names):3} files  {checker.path.name}")
    print(f"{total:8.1f} kB  without the simulated driver; at most {LIMIT_OF_ALL:.0f} kB")
    # An extra of cudacore must be the extra of cudacore-compile with the same name. The extra of a CUDA version must
    # install only NVRTC.
    extras = {checker.package: checker.extras() for checker in checkers}
    compiling, all_of_it = extras.get("cudacore-compile", {}), extras.get("cudacore", {})
    problems = [
        f"the extra {extra} of cudacore is not that of cudacore-compile"
        for extra in sorted(compiling.keys() - {"terminal"})
        if all_of_it.get(extra) != [f"cudacore-compile[{extra}]"]
    ]
    problems += [
        f"the extra {extra} of cudacore-compile brings more than NVRTC"
        for extra in ("cu12", "cu13")
        if [name for name in compiling.get(extra, ()) if "cuda-toolkit" in name and "[nvrtc]" not in name]
    ]
    if sorted(checker.package for checker in checkers) != sorted(packages):
        problems.append(f"expected one wheel each of: {', '.join(sorted(packages))}")
    if len({checker.version for checker in checkers}) > 1:
        problems.append("the wheels have different versions")
    if total > LIMIT_OF_ALL:
        problems.append(f"all wheels but the simulated driver's: {total:.1f} kB, more than {LIMIT_OF_ALL:.0f} kB")
    return problems


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    checkers = [Checker(path) for path in sorted(Path(sys.argv[1]).glob("*.whl"))]
    problems: list[str] = []
    for checker in checkers:
        checker.check()
        problems += checker.problems
    found = [name for name in ARCHITECTURES if any(checker.tag.endswith(name) for checker in checkers)]
    for architecture in found or [""]:
        here = [checker for checker in checkers if checker.tag.endswith(("-any", architecture))]
        others = [checker for checker in here if checker.package != "cudacore-handles"]
        for handles in [[checker] for checker in here if checker not in others] or [[]]:
            problems += check_together([*handles, *others], sys.argv[2:])
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
