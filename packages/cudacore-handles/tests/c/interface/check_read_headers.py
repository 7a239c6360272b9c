# SPDX-License-Identifier: Apache-2.0
"""Check that the build fails, and names the function, if the function table and the exported functions differ."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "tools" / "read_headers.py"
CHANGES = {
    "exported and not in the table": ("api.h", "  uint32_t (*version)(void);\n", "", "cch_version"),
    "in the table and not exported": ("base.h", "CCH_EXPORT uint32_t cch_version(void);", "", "cch_version"),
    "twice in the table": ("api.h", "} cch_api;", "  uint32_t (*version)(void);\n} cch_api;", "cch_version"),
    "not exported": ("base.h", "CCH_EXPORT uint32_t cch_version", "uint32_t cch_version", "cch_version"),
    "not included": ("cudacore.h", "#include <cudacore/occupancy.h>\n", "", ""),
}


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script that reads the headers. It writes its output to the parent of the headers' folder."""
    outputs = [str(folder.parent / name) for name in ("cdef", "map", "table", "nodes")]
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), *outputs], capture_output=True, text=True, check=False
    )


def main(headers: str) -> None:
    """Make each of the changes to a copy of the headers. Check that the script fails and names the function."""
    with tempfile.TemporaryDirectory() as away:
        folder = Path(away) / "headers"
        shutil.copytree(headers, folder)
        right = build(folder)
        assert right.returncode == 0, right.stderr
        for change, (name, old, new, named) in CHANGES.items():
            shutil.copytree(headers, folder, dirs_exist_ok=True)
            changed = folder / name
            text = changed.read_text()
            assert old in text, change
            changed.write_text(text.replace(old, new))
            if change == "not included":
                (folder / "api.h").write_text((folder / "api.h").read_text().replace(old, new))
                named = "occupancy.h"
            wrong = build(folder)
            assert wrong.returncode != 0, change
            assert named in wrong.stderr, (change, wrong.stderr)


main(sys.argv[1])
