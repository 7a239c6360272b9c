#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run mypy and pyright on programs: a file of mistakes, the examples, and the guides.

usage: check_programs.py       needs mypy and pyright

Both must complain about each line with ``# wrong:`` of the file of mistakes, and about nothing else: such lines are
ignored, and needless ignoring is an error.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from guide_programs import names_of_pages, program_of

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [str(path) for path in ROOT.glob("packages/*/src")]
MISTAKES = ROOT / "packages" / "cudacore" / "tests" / "wrong_programs.py"
#: Pages whose blocks are not one program but several files, or parts of files. The gallery includes the examples, which
#: are checked separately.
NO_PROGRAM = {"gallery", "simulator/extending", "simulator/testing", "tutorial/testing"}
#: The rules of pyright that the guides must follow: those about calls, and about members of subclasses.
CALLS = ("reportArgumentType", "reportAssignmentType", "reportCallIssue", "reportIncompatibleMethodOverride")
# Default settings, like those of most users. Errors in installed packages are not reported. Names of libraries that are
# not installed have the type Any.
MYPY = ["mypy", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports", "--warn-unused-ignores"]


def write_programs(folder: Path) -> None:
    for path in (MISTAKES, *(ROOT / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8").replace("  # wrong: ", "  # type: ignore  # wrong: ")
        (folder / path.name).write_text(text, encoding="utf-8")


def write_guides(folder: Path) -> None:
    for page in names_of_pages():
        if page not in NO_PROGRAM:
            program = program_of(page, lambda needs: True)
            (folder / f"{re.sub('[/-]', '_', page)}.py").write_text(program, encoding="utf-8")


def pyright(folder: Path, **rules: str) -> list[str]:
    """Return the command that checks a folder with these rules in addition to, or instead of, the default ones."""
    settings = {"extraPaths": SOURCES, "reportMissingImports": "none", **rules}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    return ["pyright", "--project", str(folder)]


def main() -> None:
    environment = os.environ | {"MYPYPATH": os.pathsep.join(SOURCES)}
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        programs, guides = Path(first), Path(second)
        write_programs(programs)
        write_guides(guides)
        # Mypy does not check the guides, because it refuses a variable whose type changes.
        commands = [
            [*MYPY, *map(str, programs.glob("*.py"))],
            pyright(programs, reportUnnecessaryTypeIgnoreComment="error"),
            pyright(guides, typeCheckingMode="off", reportUndefinedVariable="none", **dict.fromkeys(CALLS, "error")),
        ]
        failed = [each for each in commands if subprocess.run(each, cwd=ROOT, env=environment, check=False).returncode]
    sys.exit(len(failed))


if __name__ == "__main__":
    main()
