# SPDX-License-Identifier: Apache-2.0
"""The layout of the sources. ``ci/check_rooms.py`` finds the problems; the lint session runs it, too."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import check_rooms
from cudacore_handles._sdk import graph_native

ROOT = Path(__file__).resolve().parents[4]


def write(root: Path, name: str, text: str) -> None:
    path = root / "packages" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.skipif(not (ROOT / "packages/cudacore-handles/src").is_dir(), reason="needs the sources")
def test_sources_keep_the_rules() -> None:
    """A package would use private names of another one, or a lower room would use an upper one."""
    assert check_rooms.problems(ROOT) == []


def test_private_imports_are_found(tmp_path: Path) -> None:
    """The check of imports between packages would always pass, because it finds no imports."""
    for name in ("low", "high"):
        write(tmp_path, f"{name}/src/{name}/__init__.py", "")
    write(tmp_path, "low/src/low/_mine.py", "import low._other\n")
    write(tmp_path, "high/src/high/_x.py", "import low\nfrom low import Public, _mine\nfrom low._mine.deep import y\n")
    found = list(check_rooms.imports_across_packages(tmp_path))
    assert [line.partition(": ")[0] for line in found] == [
        "packages/high/src/high/_x.py:2",
        "packages/high/src/high/_x.py:3",
    ]


def test_uses_of_upper_rooms_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of rooms would miss includes, imports, or imports inside functions, and pass wrongly."""
    monkeypatch.setattr(check_rooms, "LAYERS", {"p/src/lib": ("low", "high"), "p/src/q": ("_low", "_high")})
    monkeypatch.setattr(
        check_rooms, "UPWARD", {("src/lib/low/known.c", "high"): "", ("src/lib/low/gone.c", "high"): ""}
    )
    write(tmp_path, "p/src/lib/low/x.c", '#include "low/y.h"\n#include "high/z.h"\n#include <high/z.h>\n')
    write(tmp_path, "p/src/lib/low/known.c", '#include "high/z.h"\n')
    write(tmp_path, "p/src/lib/high/z.h", '#include "low/y.h"\n')
    lazy = "def f():\n    from q._high.y import z\n\nif TYPE_CHECKING:\n    from q._high.y import z\n"
    write(tmp_path, "p/src/q/_low/x.py", f"from q._low import y\nfrom q._high import y\n{lazy}")
    write(tmp_path, "p/src/q/_high/y.py", "from q._low import x\n")
    assert list(check_rooms.uses_of_upper_rooms(tmp_path)) == [
        "packages/p/src/lib/low/x.c:2: uses the room high, which is above low",
        "packages/p/src/q/_low/x.py:2: uses the room _high, which is above _low",
        "packages/p/src/q/_low/x.py:4: uses the room _high, which is above _low",
        "src/lib/low/gone.c does not use high any more: take it out of UPWARD",
    ]


def test_the_compiled_half_of_graphs_is_all_there() -> None:
    """A name of the graph module would be missing in the extension module, or be another object there."""
    native = importlib.import_module("cudacore_handles._native")
    for name in graph_native.__all__:
        assert getattr(graph_native, name) is getattr(native, name)


def test_copies_that_differ_are_found(tmp_path: Path) -> None:
    """A change to a package's copy of a shared file, such as the build backend, could be missing in the other copy."""
    for name in check_rooms.COPIES:
        for package in ("one", "two"):
            write(tmp_path, f"{package}/{name}", "")
    assert list(check_rooms.copies_that_differ(tmp_path)) == []
    write(tmp_path, f"two/{check_rooms.COPIES[0]}", "changed")
    (found,) = check_rooms.copies_that_differ(tmp_path)
    assert found == "packages/one/tools/build_backend.py and packages/two/tools/build_backend.py: must be equal copies"


def test_rows_that_are_not_true_are_found(tmp_path: Path) -> None:
    """The table in CONTRIBUTING.md would list files that need no change, or lack files that do."""
    rows = [f"| a thing | `thing{i}` | `p/src/a.py`, `p/src/b.py` |\n" for i in range(5)]
    (tmp_path / "CONTRIBUTING.md").write_text("".join(rows))
    write(tmp_path, "p/src/a.py", "thing0 thing1 thing2 thing3 thing4")
    write(tmp_path, "p/src/b.py", "thing0 thing1 thing2 thing3")
    write(tmp_path, "p/src/c.py", "thing3")
    assert list(check_rooms.recipes(tmp_path)) == [
        "CONTRIBUTING.md: a thing: the row of thing3 does not name p/src/c.py",
        "CONTRIBUTING.md: a thing: the row of thing4 names p/src/b.py",
    ]
