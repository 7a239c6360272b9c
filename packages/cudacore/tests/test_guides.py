# SPDX-License-Identifier: Apache-2.0
"""The programs of the guides, as a reader would paste them: the blocks of a page, in order, are one program."""

from __future__ import annotations

import csv
import html
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cudacore as core
import guide_programs
from guide_programs import DOCS, blocks_of, names_of_pages

# Pages that contain several programs, commands or tests, and the files of the tests that run them.
ELSEWHERE = {
    "c/python": "packages/cudacore-handles/tests/test_capsule.py",
    "command": "packages/cudacore-compile/tests/cache/test_docs_cache.py",
    "compile-cache": "packages/cudacore-compile/tests/cache/test_docs_cache.py",
    "compile-cluster": "packages/cudacore-compile/tests/cache/test_docs_cache.py",
    "gallery": "packages/cudacore/tests/test_examples.py",
    "sharing": "packages/cudacore/tests/test_sharing_guide.py",
    "simulator/checks": "packages/cudacore/tests/test_simulator_guides.py",
    "simulator/control": "packages/cudacore/tests/test_simulator_guides.py",
    "simulator/extending": "packages/cudacore-sim/tests/driver/stream/test_streams.py",
    "simulator/testing": "packages/cudacore/tests/test_simulator_guides.py",
    "simulator/trace": "packages/cudacore/tests/test_trace_guide.py",
    "tutorial/testing": "packages/cudacore/tests/test_simulator_guides.py",
}
# Assertions that are added to the end of a page's program.
AFTERWARDS = {
    "compile": """
assert numbers[63] == 127
if __name__ == "__main__":
    assert b".entry twice" in code.code
""",
    "green-contexts": """
assert [quarter.sm_count for quarter in quarters] == [32, 32]
assert context.resources.sm.sm_count == 16
assert context.resources.workqueue.concurrency_limit == 4
assert not device.context.is_green
""",
    "graph/index": """
stream.sync()
for name, drawn in (("definition", definition), ("loop", looping)):
    with open(name + ".dot", "w") as file:
        file.write(drawn.to_dot())
""",
    "index": f"""
source = 'extern "C" __global__ void axpy(float a, const float *x, float *y, size_t n) {{}}'
{blocks_of("index", "python")[0].code}
""",
    "tensor-maps": """
assert "swizzle=SWIZZLE_128B" in repr(tensor_map)
""",
    "textures": """
padded = np.pad(image, 1, mode="edge")
wanted = sum(padded[i : i + height, j : j + width] for i in range(3) for j in range(3)) / 9
assert np.allclose(blurred, wanted)
assert surface.resource.source is target
""",
}
PRINTED = {
    "checkpoint": "checkpointed\n",
    "compile": "Nothing that is linked defines 'f': link what does",
    "index": "[3. 3. 3. 3.]\n",
    "graph/index": "GraphDefinition",
    "debugging": "{'stream': 3}\n",
    "green-contexts": "16\n",
    "migration": "1.2.2 True\n",
}
# The addresses and times in a program's output, which differ from run to run.
VARIES = re.compile(r"0x[0-9a-f]+|\d+\.\d+ ms|\.\.[0-9a-f]{6}")
_ADDRESS = re.compile(r"\.\.[0-9a-f]{6}|0x[0-9a-f]+")


def has_headers() -> bool:
    from cudacore_compile._compilers.wheel_headers import wheel_headers

    return any((Path(place) / "nv" / "target").is_file() for place in wheel_headers(b"#include", [], ()))


def has_module(name: str, on_sim: bool) -> bool:
    """Return whether a library that needs a GPU can be used."""
    return not on_sim and importlib.util.find_spec(name) is not None


def program_of(page: str, on_sim: bool) -> str:
    """Return the program of a page, without the blocks that this machine cannot run."""
    can_run: dict[str | None, Callable[[], bool]] = {
        None: lambda: True,
        "cupy": lambda: has_module("cupy", on_sim),
        "excerpt": lambda: False,  # is in AFTERWARDS
        "headers": has_headers,
        "opengl": lambda: has_module("moderngl", on_sim),
        "simulator": lambda: on_sim,
        "jax": lambda: has_module("jax", on_sim),
        "numba": lambda: has_module("numba", on_sim) and not guide_programs.why_numba_cannot_compile(),
        "nvtx": lambda: importlib.util.find_spec("nvtx") is not None,
        "pytorch": lambda: has_module("torch", on_sim),
        "pytorch-alone": lambda: False,  # test_interop_libraries.py runs this block separately
        "rmm": lambda: has_module("rmm", on_sim),
        "elsewhere": lambda: False,  # the session `clients` of nox runs these blocks
        "wrong": lambda: False,  # test_simulator_guides.py runs these blocks separately
        "two-gpus": lambda: not on_sim and len(core.Device.get_all_devices()) == 2,
    }
    return guide_programs.program_of(page, lambda needs: can_run[needs]())


def what_is_missing(page: str, on_sim: bool) -> str:
    if page == "system":
        from cudacore import system

        return "" if system.CUDA_BINDINGS_NVML_IS_COMPATIBLE else "needs newer cuda-bindings, with NVML"
    if page == "tensor-maps" and not core.Device().properties.tensor_map_access_supported:
        return "needs a device of compute capability 9.0"
    return "needs a driver for CUDA 13.1" if page == "green-contexts" and not on_sim else ""


@pytest.mark.parametrize("page", [name for name in names_of_pages() if name not in ELSEWHERE])
def test_what_is_pasted_runs(page: str, tmp_path: Path, on_sim: bool) -> None:
    """A reader who pastes the programs of a page into a file would get an error."""
    reason = what_is_missing(page, on_sim)
    if reason:
        pytest.skip(reason)
    file = tmp_path / "program.py"
    file.write_text(program_of(page, on_sim) + AFTERWARDS.get(page, ""), encoding="utf-8")
    environment = os.environ | ({"CUDACORE_DRIVER": "sim"} if on_sim else {})
    if page == "green-contexts":
        environment["CUDACORE_SIM_DRIVER_VERSION"] = "13.1"
    ran = subprocess.run(
        [sys.executable, file], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert ran.returncode == 0, ran.stderr
    assert PRINTED.get(page, "") in ran.stdout
    printed = VARIES.sub("", ran.stdout).splitlines()
    for line in lines_shown(page) if on_sim else ():
        assert VARIES.sub("", line) in printed
    if page == "graph/index":
        for name in ("definition", "loop"):
            check_picture(DOCS / "graph" / f"{name}.svg", (tmp_path / f"{name}.dot").read_text(encoding="utf-8"))


def lines_shown(page: str) -> list[str]:
    """Return the lines of output in the console blocks of a page of the tutorial."""
    blocks = blocks_of(page, "console") if page.startswith("tutorial/") else []
    lines = [line.strip() for block in blocks for line in block.code.splitlines()]
    return [line for line in lines if line and line != "..." and not line.startswith("$")]


def check_picture(file: Path, dot: str) -> None:
    """Compare a picture of the guide with the graph that it shows."""
    labels = re.findall(r'label="(.*?)"', dot)
    drawn = re.findall(r"<text [^>]*>(.*?)</text>", file.read_text(encoding="utf-8"))
    assert sorted(_ADDRESS.sub("", html.unescape(line)) for line in drawn) == sorted(
        _ADDRESS.sub("", line) for label in labels for line in label.split("\\n") if line
    )


def test_all_pages_are_tried() -> None:
    """The programs of a page would not be tested, or a test would name a page that no longer exists."""
    pages = set(names_of_pages())
    assert pages >= set(ELSEWHERE) | set(AFTERWARDS) | set(PRINTED)
    assert not (set(AFTERWARDS) | set(PRINTED)) & set(ELSEWHERE)
    for test in ELSEWHERE.values():
        assert (DOCS.parent / test).is_file(), test


@pytest.mark.parametrize("page", ["index", "performance", "help/comparison"])
def test_figures(page: str) -> None:
    """A page would show results of another measurement than the README."""
    text = (DOCS / f"{page}.rst").read_text(encoding="utf-8")
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    rows = [line.rstrip("| ") for line in readme.splitlines() if line.startswith("|")]
    measured = {cell.strip() for row in rows for cell in re.split("[|,] ", row)}
    shown = re.findall(r"     - ([\d.,]+(?: \wm?s)?)\n", text)
    for file in set(re.findall(r"measured/\w+\.csv", text)):  # of pictures and tables
        _, *lines = csv.reader((DOCS / file).read_text(encoding="utf-8").splitlines())
        shown += [cell for line in lines for cell in line[1:]]
    assert len(shown) >= 12
    assert set(shown) <= measured | {f"{cell} ns" for cell in measured}
