# SPDX-License-Identifier: Apache-2.0
"""Headers of installed packages and toolkits, which a program cache takes as whole directories."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from cache_programs import check, forget, in_a_folder, key, write

from cudacore_compile import InMemoryProgramCache, Program, ProgramOptions, UncacheableError, cuda_include_path
from guide_programs import DOCS

__all__ = ["in_a_folder"]  # a fixture

pytestmark = pytest.mark.usefixtures("in_a_folder")


@pytest.fixture
def installed() -> list[str]:
    """Make an installed package with headers; return an include path with a directory of the program before it."""
    write("site/package-1.0.dist-info/RECORD", "")
    write(
        "site/package/include/lib/main.h", '/**/ # include "part/one.h"\n%: include <more/two.h>\n#include <config.h>\n'
    )
    write("site/package/include/lib/part/one.h", '#include "../three.h"\n# include __THREE(four.h)\n')
    write(
        "site/package/include/lib/three.h", "/*\n * #include <unused/five.h>\n */\n#define __THREE(name) <lib/name>\n"
    )
    write("site/package/include/lib/four.h", "")
    write(
        "site/package/include/more/two.h", "#include _IN(name)\n#define _IN(x) <_ROOT/x>\n#if _HAS(<extra/six>)\n#endif"
    )
    write("site/package/include/more/deep/any.h", "")
    write("site/package/include/unused/five.h", "")
    write("inc/other.h", "")
    return ["inc", "site/package/include"]


TREE = "site/package/include"


@pytest.mark.parametrize(
    "change",
    [
        lambda: write(f"{TREE}/lib/part/one.h", "1"),
        lambda: write(f"{TREE}/lib/three.h", "1"),
        lambda: write(f"{TREE}/lib/four.h", "1"),  # its name is the argument of a macro
        lambda: write(f"{TREE}/more/two.h", "1"),
        lambda: write(f"{TREE}/more/deep/any.h", "1"),  # its name is not known
        lambda: write(f"{TREE}/more/new.h", ""),
        lambda: os.symlink("two.h", f"{TREE}/more/link.h"),
        lambda: os.unlink(f"{TREE}/lib/three.h"),
        lambda: write("inc/config.h", ""),  # the program's directory comes first
        lambda: write("inc/extra/six.stdh", ""),
        lambda: write("inc/more/two.h", ""),
        lambda: write("inc/more/deep/new.h", ""),  # a copy of a part of the package, in which the compiler may look
        lambda: shutil.move(f"{TREE}/lib", f"{TREE}/gone"),
    ],
)
def test_changes_of_installed_headers(installed: list[str], change: object) -> None:
    """After an upgrade, or with a header that hides an installed one, old code would still be used."""
    source = "#include <lib/main.h>\n"
    before = key(source, include_path=installed)
    assert key(source, include_path=installed) == before
    change()  # type: ignore[operator]
    for forgets in (False, True):
        if forgets:
            forget()
        assert key(source, include_path=installed) != before


@pytest.mark.parametrize("slashes", ["/", "//"])
def test_slashes_at_the_end_of_a_place(installed: list[str], slashes: str) -> None:
    """Installed headers would be refused, or one whose name is not known would be overlooked."""
    places = [place + slashes for place in installed]
    before = key("#include <lib/main.h>", include_path=places)
    write(f"{TREE}/more/deep/any.h", "1")
    assert key("#include <lib/main.h>", include_path=places) != before


def test_what_does_not_change_the_key(installed: list[str]) -> None:
    """Programs would be compiled again after a change of a package, or a directory, that they do not use."""
    before, plain = key("#include <lib/main.h>", include_path=installed), key("int i;", include_path=installed)
    write(f"{TREE}/unused/five.h", "1")
    write(f"{TREE}/lib/new.h", "")
    write("inc/another.h", "")
    os.utime(f"{TREE}/lib/main.h")
    assert key("#include <lib/main.h>", include_path=installed) == before
    write(f"{TREE}/lib/main.h", "")
    assert key("int i;", include_path=installed) == plain


def test_installed_headers_in_a_compilation(installed: list[str]) -> None:
    """The code of old headers of a package would be returned."""
    write(f"{TREE}/more/two.h", "")
    write("inc/config.h", "")
    write(f"{TREE}/lib/part/one.h", '#include "../three.h"')
    check(
        "#include <lib/main.h>",
        change=lambda n: write(f"{TREE}/lib/three.h", f"#define VALUE {n}"),
        include_path=installed,
    )


def test_all_that_the_compiler_reads(nvrtc_version: tuple[int, ...], tmp_path: Path) -> None:
    """Of the hundreds of headers of a real library, one that the compiler reads would be missing from the key."""
    if nvrtc_version < (13, 3):
        pytest.skip("headers come with NVRTC from 13.3 on")
    source = "#include <cuda/std/tuple>\n#include <cuda_fp16.h>\n#include <cooperative_groups.h>"
    options = ProgramOptions(arch="sm_90", use_bundled_headers=True, fdevice_time_trace=tmp_path / "trace")
    Program(source, "c++", options).compile("ptx")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    read = {event["args"]["detail"] for event in events if event.get("name") == "Processing Header File"}
    found = set(map(os.path.realpath, Program(source, "c++", options).dependencies()))
    assert len(read) > 100
    assert {os.path.realpath(name) for name in read if os.path.exists(name)} <= found
    cache = InMemoryProgramCache()
    for _ in range(2):
        Program(source, "c++", {"arch": "sm_90", "use_bundled_headers": True}).compile("ptx", cache=cache)
    assert cache.statistics.hits == 1


def test_macro_of_an_installed_header(installed: list[str]) -> None:
    """A header whose name an installed header defines would be overlooked."""
    write(f"{TREE}/lib/three.h", "#define NAMED <named.h>")
    check(
        "#include <lib/three.h>\n#include NAMED",
        change=lambda n: write("inc/named.h", f"#define VALUE {n}"),
        include_path=installed,
    )


LIBRARIES = {
    "libcu++": "cuda/",
    "CUB": "cub/",
    "Thrust": "thrust/",
    "cooperative_groups": "cooperative_groups",
    "cuRAND": "curand",
}


def headers_of(folder: str) -> list[str]:
    found = (os.path.relpath(os.path.join(top, name), folder) for top, _, names in os.walk(folder) for name in names)
    return sorted(name for name in found if name.startswith((*LIBRARIES.values(), "cute/", "cutlass/")))


def are_cached(names: list[str], include_path: list[str]) -> bool:
    try:
        return bool(key("".join(f"#include <{name}>\n" for name in names), include_path=include_path))
    except UncacheableError:
        return False


def count(include_path: list[str]) -> dict[str, str]:
    """Return, for each library, how many of its headers can be cached, and how many there are."""
    libraries = LIBRARIES | {"CuTe": "cute/", "CUTLASS": "cutlass/"}
    names = list(dict.fromkeys(name for folder in include_path for name in headers_of(folder)))
    # If a program with all of them has a key, so has a program with one of them.
    cached = names if are_cached(names, include_path) else [one for one in names if are_cached([one], include_path)]
    totals = {
        library: [sum(one.startswith(start) for one in some) for some in (cached, names)]
        for library, start in libraries.items()
    }
    return {library: f"{good} of {total}" for library, (good, total) in totals.items() if total}


def include_paths() -> dict[str, list[str]]:
    """Return the include paths of the installed headers, and those in $CUDACORE_HEADERS/VERSION, by version."""
    found = {}
    folder = os.environ.get("CUDACORE_HEADERS")
    for top in sorted(Path(folder).iterdir()) if folder else ():
        places = [top / "include", top / "nvidia/cu13/include", top / "nvidia/cu13/include/cccl"]
        places += sorted(top.glob("nvidia/*/include"))
        if found_places := [str(place) for place in dict.fromkeys(places) if place.is_dir()]:
            found[top.name] = found_places
    return found


def test_counts_of_cached_headers() -> None:
    """The headers that everybody includes would not be cached; the table in the documentation has the counts."""
    rows = re.findall(r"^   \* - ``(\S+)``((?:\n     - .*)+)", (DOCS / "compile-cache.rst").read_text(), re.MULTILINE)
    table = {name: [cell[7:] for cell in cells.strip("\n").split("\n")] for name, cells in rows}
    try:
        current = cuda_include_path()
    except FileNotFoundError:
        current = []
    counts = {"installed": count(current)} | {name: count(path) for name, path in include_paths().items()}
    for name, found in counts.items():
        assert all(a == b for a, b in (cell.split(" of ") for cell in found.values())), (name, found)
        if name in table:
            assert table[name] == list(found.values()), (name, found)
    assert not os.environ.get("CUDACORE_HEADERS") or counts.keys() >= table.keys()
