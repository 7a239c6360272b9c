#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run mypy and pyright on programs: a file of mistakes, the examples, and the guides.

usage: check_programs.py       needs mypy and pyright

Both must complain about each line with ``# wrong:`` of the file of mistakes, and about nothing else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from guide_programs import names_of_pages, program_of

ROOT = Path(__file__).resolve().parent.parent
SOURCES = os.pathsep.join(map(str, ROOT.glob("packages/*/src")))
MISTAKES = ROOT / "packages" / "cudacore" / "tests" / "wrong_programs.py"
#: Pages whose blocks are not one program but several files, or parts of files. The gallery includes the examples, which
#: are checked separately.
NO_PROGRAM = {"gallery", "simulator/extending", "simulator/testing", "tutorial/testing"}
#: The rules of pyright that the guides must follow: those about calls, and about members of subclasses.
CALLS = {"reportArgumentType", "reportAssignmentType", "reportCallIssue", "reportIncompatibleMethodOverride"}
# Default settings, like those of most users. Errors in installed packages are not reported. Names of libraries that are
# not installed have the type Any.
MYPY = ["mypy", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports", "--output=json"]
MYPY += ["--no-error-summary"]
PYRIGHT = ["pyright", "--outputjson"]

Complaint = tuple[str, int, str]  # name of the file, line, text


def ask_mypy(files: list[Path]) -> Iterator[Complaint]:
    """Return the errors that mypy finds in files."""
    environment = os.environ | {"MYPYPATH": SOURCES}
    ran = subprocess.run([*MYPY, *map(str, files)], cwd=ROOT, env=environment, capture_output=True, text=True)
    if ran.returncode not in (0, 1):
        sys.exit(ran.stdout + ran.stderr)
    for said in map(json.loads, ran.stdout.splitlines()):
        if said["severity"] == "error":
            yield Path(said["file"]).name, said["line"], said["message"]


def ask_pyright(files: list[Path]) -> Iterator[Complaint]:
    """Return the errors that pyright finds in files."""
    environment = os.environ | {"PYTHONPATH": SOURCES}
    ran = subprocess.run([*PYRIGHT, *map(str, files)], cwd=ROOT, env=environment, capture_output=True, text=True)
    for said in json.loads(ran.stdout)["generalDiagnostics"]:
        rule = said.get("rule")
        is_guide = Path(said["file"]).name.startswith("guide_")
        if said["severity"] == "error" and (rule in CALLS if is_guide else rule != "reportMissingImports"):
            yield Path(said["file"]).name, said["range"]["start"]["line"] + 1, said["message"].replace("\n", " ")


def write_guides(folder: Path) -> list[Path]:
    """Write the programs of the guides into a folder, and return the files."""
    files = []
    for page in names_of_pages():
        if page not in NO_PROGRAM:
            files.append(folder / f"guide_{re.sub('[/-]', '_', page)}.py")
            files[-1].write_text(program_of(page, lambda needs: True), encoding="utf-8")
    return files


def main() -> None:
    lines = MISTAKES.read_text(encoding="utf-8").splitlines()
    planted = {number for number, line in enumerate(lines, 1) if "  # wrong: " in line}
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        files = [MISTAKES, *sorted((ROOT / "examples").glob("*.py"))]
        guides = write_guides(Path(folder))
        # Mypy does not check the guides, because it refuses a variable whose type changes.
        for name, complaints in (("mypy", ask_mypy(files)), ("pyright", ask_pyright(files + guides))):
            found = set()
            for file, line, text in complaints:
                if file == MISTAKES.name and line in planted:
                    found.add(line)
                else:
                    problems.append(f"{file}:{line}: {name}: {text}")
            problems += [f"{MISTAKES.name}:{line}: {name} does not find the mistake" for line in planted - found]
            print(f"{name}: {len(found)} of {len(planted)} mistakes")
    if problems:
        sys.exit("\n".join(sorted(problems)))


if __name__ == "__main__":
    main()
