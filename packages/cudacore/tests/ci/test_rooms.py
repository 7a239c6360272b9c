# SPDX-License-Identifier: Apache-2.0
"""The layout of the sources. ``ci/check_rooms.py`` finds the problems; the lint session runs it, too."""

from __future__ import annotations

import importlib
import subprocess
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
        "packages/p/src/lib/low/x.c:2: uses high, which is above low",
        "packages/p/src/q/_low/x.py:2: uses _high, which is above _low",
        "packages/p/src/q/_low/x.py:4: uses _high, which is above _low",
        "src/lib/low/gone.c does not use high any more: take it out of UPWARD",
    ]


def test_modules_have_places_in_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A room could import a module of its package that is above it, unnoticed, because the module is in no room."""
    monkeypatch.setattr(check_rooms, "LAYERS", {"p/src/q": ("names", "_low", ".", "_high")})
    monkeypatch.setattr(check_rooms, "UPWARD", {})
    write(tmp_path, "p/src/q/__init__.py", "from q._high import a\n")
    write(tmp_path, "p/src/q/names.py", "import q._low.x\n")
    write(tmp_path, "p/src/q/between.py", "from q import _low, _high, names\n")
    write(tmp_path, "p/src/q/_low/x.py", "import q.names\nimport q.between\nfrom q import between\n")
    write(tmp_path, "p/src/q/_high/x.py", "from q import between, something\n")
    assert list(check_rooms.uses_of_upper_rooms(tmp_path)) == [
        "packages/p/src/q/_low/x.py:2: uses between, which is above _low",
        "packages/p/src/q/_low/x.py:3: uses between, which is above _low",
        "packages/p/src/q/between.py:1: uses _high, which is above between",
        "packages/p/src/q/names.py:1: uses _low, which is above names",
    ]


def test_rooms_that_are_not_listed_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new room would have no place in the order, so anything could use it, and it could use anything."""
    monkeypatch.setattr(check_rooms, "LAYERS", {"p/src/q": ("_low", "gone")})
    monkeypatch.setattr(check_rooms, "UPWARD", {})
    write(tmp_path, "p/src/q/_low/x.py", "")
    write(tmp_path, "p/src/q/_new/x.py", "")
    assert list(check_rooms.uses_of_upper_rooms(tmp_path)) == [
        "packages/p/src/q: its rooms are ['_low', '_new']; LAYERS says ['_low', 'gone']"
    ]


def test_large_folders_and_long_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders and files would grow until nobody finds their way in them, or an exception would outlive its reason."""
    monkeypatch.setattr(check_rooms, "MAX_FILES", 2)
    monkeypatch.setattr(check_rooms, "MAX_LINES", 3)
    monkeypatch.setattr(check_rooms, "LARGE_FOLDERS", {})
    monkeypatch.setattr(check_rooms, "LONG_FILES", {"packages/short.def": "a reason"})
    monkeypatch.setattr(check_rooms, "GENERATED", {"packages/p/generated.inc"})
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("ignored.c\n")
    for name in ("generated.inc", "ignored.c", "text.txt", "a.c", "b.h"):
        write(tmp_path, f"p/{name}", "line\n" * (9 if name in {"generated.inc", "ignored.c"} else 3))
    write(tmp_path, "short.def", "line\n")
    assert list(check_rooms.sizes(tmp_path)) == [
        "packages/short.def has 1 lines; the limit is 3: divide it, or correct LONG_FILES"
    ]
    write(tmp_path, "p/c.py", "line\n" * 4)
    write(tmp_path, "short.def", "line\n" * 4)
    assert list(check_rooms.sizes(tmp_path)) == [
        "packages/p has 3 files; the limit is 2: divide it, or correct LARGE_FOLDERS",
        "packages/p/c.py has 4 lines; the limit is 3: divide it, or correct LONG_FILES",
    ]


def test_files_that_pages_name_wrongly_are_found(tmp_path: Path) -> None:
    """A page for contributors would send its readers to a file that was renamed."""
    write(tmp_path, "p/src/there.c", "")
    (tmp_path / "docs" / "contributing").mkdir(parents=True)
    (tmp_path / "docs" / "conventions.rst").write_text("``there.c``, ``src/there.c``, ``src/gone.c``\n")
    (tmp_path / "docs" / "contributing" / "page.rst").write_text("``lost.py``\n")
    assert list(check_rooms.files_in_conventions(tmp_path)) == [
        "docs/conventions.rst: there is no gone.c",
        "docs/contributing/page.rst: there is no lost.py",
    ]


def test_functions_of_other_rooms_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lower room would call a function of an upper one without an include, because a lower header declares it."""
    monkeypatch.setattr(check_rooms, "LAYERS", {"p/src/lib": ("low", "high")})
    monkeypatch.setattr(check_rooms, "DECLARED_BELOW", {"packages/p/src/lib/low/known.h": ("cch__a_end", "")})
    declarations = "bool cch__a_end(int a);\nCCH__COLD int\ncch__low(int a);\nint cch__high(int a,\n    int b);\n"
    for header in ("low/known.h", "low/x.h", "high/x.h"):
        write(tmp_path, f"p/src/lib/{header}", declarations)
    write(tmp_path, "p/src/lib/low/x.c", "int cch__low(int a) { return cch__high(a, a); }\n")
    write(tmp_path, "p/src/lib/high/x.c", "bool cch__a_end(int a) {\n}\n\nint cch__high(int a,\n    int b) {\n}\n")
    assert list(check_rooms.functions_of_other_rooms(tmp_path)) == [
        "packages/p/src/lib/low/known.h: declares cch__high, which the room high defines",
        "packages/p/src/lib/low/x.h: declares cch__a_end, which the room high defines",
        "packages/p/src/lib/low/x.h: declares cch__high, which the room high defines",
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


def test_additions_that_touch_many_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding a type of graph node would touch more files with every change, without anybody noticing."""
    monkeypatch.setattr(check_rooms, "MAX_TOUCHED", {"a thing": (2, 1)})

    def errors_with(*names: str) -> set[str]:
        for name in names:
            write(tmp_path, name, "thing0 thing1 thing2 thing3 thing4")
        files = ", ".join(f"`{name}`" for name in names)
        (tmp_path / "CONTRIBUTING.md").write_text("".join(f"| a thing | `thing{i}` | {files} |\n" for i in range(5)))
        return set(check_rooms.recipes(tmp_path))

    assert errors_with("p/src/a.py", "p/src/b.py", "cudacore-sim/src/c.cpp") == set()
    assert errors_with("p/src/a.py", "p/src/b.py", "p/src/d.c", "cudacore-sim/src/c.cpp", "cudacore-sim/src/e.h") == {
        "CONTRIBUTING.md: a thing touches 3 files outside of the simulator; the limit is 2",
        "CONTRIBUTING.md: a thing touches 2 files in the simulator; the limit is 1",
    }
