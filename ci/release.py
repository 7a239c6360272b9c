#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print the section of CHANGELOG.md about the version of a tag, for the release's page; fail if it has no date yet.

usage: release.py TAG       TAG: v1.2.3
       release.py --names   print the names of the distributions as JSON
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def notes_of(tag: str, changelog: str, version: str) -> str:
    """Return the section of a version.

    Parameters
    ----------
    tag : str
        The tag that was pushed.
    changelog : str
        The text of the changelog.
    version : str
        The version that the packages have.
    """
    if tag != f"v{version}":
        raise ValueError(f"the tag {tag} is not v{version}, the version of the packages")
    found = re.search(rf"^## {re.escape(version)} - (.*)\n((?:(?!## ).*\n)*)", changelog, re.MULTILINE)
    if found is None:
        raise ValueError(f"CHANGELOG.md has no section '## {version} - DATE'")
    if not re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", found[1]):
        raise ValueError(f"CHANGELOG.md says {found[1]!r} about {version}: write the date, as in 2030-01-31")
    return found[2].strip() + "\n"


def names() -> list[str]:
    """Return the names of the distributions, which can differ from the names of the folders."""
    settings = sorted(ROOT.glob("packages/*/pyproject.toml"))
    return [re.findall(r'(?m)^name = "(.*)"$', path.read_text(encoding="utf-8"))[0] for path in settings]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--names":
        print(json.dumps(names()))
        return
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (version,) = re.findall(r'^current_version = "(.*)"', settings, re.MULTILINE)
    try:
        print(notes_of(sys.argv[1], (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version), end="")
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
