# SPDX-License-Identifier: Apache-2.0
"""CUDACORE_SIM_CHECK=order: unordered work on different streams is found, whichever runs first.

``checks/order.py`` has the programs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from order import PROGRAMS
from plugin_runs import EDITABLE, PLUGINS
from running import FOLDER, RUN, compile_to_ptx

import cudacore_sim

Run = Callable[..., "subprocess.CompletedProcess[str]"]

RUN_ALL = """
from order import PROGRAMS, Stage
said = {}
for name, program in PROGRAMS.items():
    cuda = Cuda(cu)
    before = cudacore_sim.count_reports()
    program.run(Stage(cuda, cuda.out("cuModuleLoadData", open(PATH, "rb").read() + b"\\0")))
    cudacore_sim.clear_errors()  # and whatever is left to run, where a program has failed
    said[name] = cudacore_sim.reports(after=before)
    cudacore_sim.reset_device()
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def ptx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("order") / "order.ptx"
    path.write_text(compile_to_ptx((FOLDER / "order.cu").read_text(), "order.cu"))
    return path


def reports_of(run_python: Run, ptx: Path, **settings: object) -> dict[str, list[str]]:
    result = run_python(RUN + RUN_ALL.replace("PATH", repr(str(ptx))), **settings)
    assert result.returncode == 0, f"{result.returncode}: {result.stderr[-2000:]}"
    return json.loads(result.stdout)


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_programs(seed: int | None, run_python: Run, ptx: Path) -> None:
    """Whether a missing wait is found would depend on the order of the work, or a correct program would be reported."""
    shuffle = {} if seed is None else {"SHUFFLE": seed}
    said = reports_of(run_python, ptx, CHECK="order", **shuffle)
    problems = []
    for name, program in PROGRAMS.items():
        reports = [one for one in said[name] if one.startswith("order: ")]
        if not program.text:
            problems += [f"{name}: {one}" for one in said[name]]
            continue
        one, other = program.text
        sides = [report.split(", which ", 1) for report in reports]
        if not any((one in a and other in b) or (one in b and other in a) for a, b in sides):
            problems.append(f"{name}: no report of {said[name]} has {one!r} on one side and {other!r} on the other")
    assert not problems, "\n".join(problems)


def test_nothing_is_said_without(run_python: Run, ptx: Path) -> None:
    """A check that was not requested would cost time, or fail correct programs."""
    assert not [one for said in reports_of(run_python, ptx).values() for one in said if one.startswith("order: ")]


def test_loops_of_graphs(tmp_path: Path) -> None:
    """The iterations of a loop in a graph, which are submitted one by one, would seem to have no order."""
    command = [sys.executable, "-m", "pytest", "-qs", *PLUGINS, *EDITABLE, "--cuda-driver=sim"]
    command += [str(FOLDER.parent / "driver/graph/test_graphs.py"), "-k", "test_long_loops or bodies"]
    settings = {"CHECK": "order", "LIBRARY": cudacore_sim.get_library()}
    environment = os.environ | {f"CUDACORE_SIM_{name}": value for name, value in settings.items()}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 passed" in result.stdout
    assert "order: " not in result.stdout + result.stderr


def test_all_that_compute_sanitizer_finds() -> None:
    """The simulator would not find a defect that compute-sanitizer finds."""
    recorded = json.loads((FOLDER / "compute_sanitizer.json").read_text())["findings"]["order"]["memcheck"]
    never_ended = {"host_function_that_waits"}  # this program does not end under compute-sanitizer
    assert set(recorded) == set(PROGRAMS) - never_ended, "it has other programs: record them again"
    found = {name for name, kinds in recorded.items() if kinds}
    assert len(found) >= 4
    assert all(PROGRAMS[name].text for name in found)


TWO_MAPPINGS = """
mapped, physical = (c_uint64 * 2)(), c_uint64()
properties, access = (c_int * 8)(1, 0, 1), (c_int * 3)(1, 0, 3)  # pinned memory of device 0, to read and write
size = c_size_t(2 << 20)
cuda = Cuda(cu)
cuda.cuMemCreate(byref(physical), size, properties, c_uint64(0))
streams = [cuda.out("cuStreamCreate", 1) for _ in range(2)]
for at in range(2):
    place = cast(addressof(mapped) + 8 * at, POINTER(c_uint64))
    cuda.cuMemAddressReserve(place, size, c_size_t(0), c_uint64(0), c_uint64(0))
    cuda.cuMemMap(c_uint64(mapped[at]), size, c_size_t(0), physical, c_uint64(0))
    cuda.cuMemSetAccess(c_uint64(mapped[at]), size, access, c_size_t(1))
assert mapped[0] != mapped[1]
cuda.cuMemsetD8Async(c_uint64(mapped[0] + 64), 1, c_size_t(64), streams[0])
cuda.cuMemsetD8Async(c_uint64(mapped[1] + BEGIN), 2, c_size_t(64), streams[1])
cuda.cuCtxSynchronize()
print(json.dumps(cudacore_sim.reports()))
print(json.dumps([f"in stream {s.value:#x}) writes 32 bytes at {at + 96:#x}," for s, at in zip(streams, mapped)]))
"""


@pytest.mark.parametrize(("begin", "is_found"), [(96, True), (128, False)])
def test_two_mappings_of_the_same_bytes(run_python: Run, begin: int, is_found: bool) -> None:
    """Unordered work that reaches the same bytes by two addresses would not be found, or other bytes would be."""
    result = run_python(RUN + TWO_MAPPINGS.replace("BEGIN", str(begin)), CHECK="order")
    assert result.returncode == 0, result.stderr
    said, writes = map(json.loads, result.stdout.splitlines())
    found = [one for one in said if one.startswith("order: ")]
    assert len(found) == is_found
    # The fill that ran second is reported. Streams run at the same time, so that can be either of them.
    assert all(any(write in one for write in writes) for one in found), found


MANY = """extern "C" __global__ void fill(WORD *to) {
  to[blockIdx.x * 256 + threadIdx.x] = 1;
}"""
MANY_BLOCKS = """
cuda = Cuda(cu)
module = cuda.out("cuModuleLoadData", open(PATH, "rb").read() + b"\\0")
memory = cuda.allocate(1 << 20)
one, other = (cuda.out("cuStreamCreate", 1) for _ in range(2))
cuda.launch(module, "fill", 512, 256, 0, memory, stream=one)
cuda.cuMemsetD8Async(c_uint64(memory.value + AT), 1, c_size_t(10), other)
cuda.cuCtxSynchronize()
print(json.dumps([one.replace(hex(memory.value + AT), "PLACE") for one in cudacore_sim.reports()]))
"""


@pytest.mark.parametrize("word", ["char", "int"])
@pytest.mark.parametrize("at", [0, 70001, -10])
def test_many_blocks(run_python: Run, tmp_path: Path, word: str, at: int) -> None:
    """Accesses of blocks that run on other threads of the host would be lost, or others would be added."""
    path = tmp_path / "many.ptx"
    path.write_text(compile_to_ptx(MANY.replace("WORD", word), "many.cu"))
    size = 512 * 256 * (1 if word == "char" else 4)
    code = RUN + MANY_BLOCKS.replace("PATH", repr(str(path)))
    for place, is_found in ((at % size, True), (size, False)):
        result = run_python(code.replace("AT", str(place)), CHECK="order")
        assert result.returncode == 0, result.stderr
        found = [said for said in json.loads(result.stdout) if said.startswith("order: ")]
        assert len(found) == is_found
        assert all("writes 10 bytes at PLACE" in said and "/many.cu:2]" in said for said in found), found
