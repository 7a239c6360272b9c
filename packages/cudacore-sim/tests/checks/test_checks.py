# SPDX-License-Identifier: Apache-2.0
"""CUDACORE_SIM_CHECK: undefined behaviour of a kernel is reported at its place, and nothing else is reported.

``checks/planted.py`` describes and runs the kernels.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from planted import FILES, FOLDER, kernels_of
from running import RUN, Run, problem_with, reports_of


@pytest.mark.parametrize("file", FILES)
def test_defects_are_found(file: str, run_python: Run, tmp_path: Path) -> None:
    """A defect would not be found, or its report would name a wrong line."""
    reports = reports_of(file, run_python, tmp_path, CHECK=FILES[file])
    problems = {one.name: problem_with(one, reports[one.name], f"{file}.cu") for one in kernels_of(file)}
    assert not any(problems.values()), "\n".join(f"{name}: {problem}" for name, problem in problems.items() if problem)


@pytest.mark.parametrize("file", FILES)
def test_no_false_alarms(file: str, run_python: Run, tmp_path: Path) -> None:
    """One of the checks would report a correct kernel."""
    reports = reports_of(file, run_python, tmp_path, CHECK="race,sync,init,order")
    assert not {one.name: reports[one.name] for one in kernels_of(file) if not one.text and reports[one.name]}


# Correct kernels that compute-sanitizer reports and the simulator does not, with the reason for the difference.
NOT_FOUND = {
    "two_barriers_right": "warps at two barriers of one number, which PTX allows and CUDA C++ does not promise",
    "counter_right": "an exchange, whose result nobody uses, is no read",
    "copies_of_one_value_right": "all of them write what is there already",
    "copies_of_nothing_right": "zeros, all of them",
    "bulk_copies_of_one_value_right": "all of them write what is there already",
    "two_warps_right": "the barrier of a group of several warps is a loop over shared memory",
    "a_store_to_new_memory_right": "the tensor copy has written what is read",
    "compared_for_nothing_right": "nobody uses the result of the comparison",
    "arrival_nobody_waits_for": "it takes what the first thread alone does to an mbarrier for another thread's",
}

# compute-sanitizer names the first line, and the simulator the second: one instruction of the GPU executes both lines,
# an asynchronous copy reads what nobody wrote and the kernel uses it later, or a fence comes before the product.
ANOTHER_LINE = {
    ("syncwarp_of_others", 110): 108,
    ("compared_with_effect", 33): 34,
    ("three_warps", 200): 201,
    ("small_block", 209): 210,
    ("copies_what_nobody_wrote", 294): 298,
    ("copies_words_that_nobody_wrote", 307): 309,
}


RECORDED = json.loads((FOLDER / "compute_sanitizer.json").read_text())["findings"]


@pytest.mark.parametrize("file", [file for file in RECORDED if file != "order"])
def test_all_that_compute_sanitizer_finds(file: str, run_python: Run, tmp_path: Path) -> None:
    """The simulator would not find a defect that compute-sanitizer finds."""
    reports = reports_of(file, run_python, tmp_path, CHECK=FILES[file])
    problems = []
    for tool, by_name in RECORDED[file].items():
        assert set(by_name) == set(reports), f"{tool} has other kernels: record them again"
        for name, kinds in by_name.items():
            ours = {int(line) for one in reports[name] for line in re.findall(rf"/{file}.cu:(\d+)\]", one)}
            for kind, lines in kinds.items():
                wanted = {ANOTHER_LINE.get((name, line), line) for line in lines}
                if not wanted or (name in NOT_FOUND) != bool(wanted - ours):
                    problems.append(f"{name}: {tool} has {kind} at {lines}, we have {reports[name]}")
    assert not problems, "\n".join(problems)


# The rows of the documentation's table, with the files of kernels that they count.
SUBJECTS = {
    "accesses of threads": ["race", "blocks"],
    "scopes, look-back, locks, pipelines of ``mbarrier``": ["scopes", "protocols"],
    "cooperative groups": ["groups"],
    "clusters, asynchronous stores and bulk copies": ["asynchronous"],
    "``cp.async``": ["copies"],
    "tensor copies (TMA)": ["tensor"],
    "``wgmma``": ["wgmma"],
    "barriers and masks": ["sync", "masks"],
    "memory that was never written": ["init", "unused"],
    "streams and graphs": ["order"],
}


def rows_to_document() -> list[list[str]]:
    """Return the rows of the documentation's table, in which the other tests make sure of the simulator's numbers."""
    from order import PROGRAMS

    is_defect = {(file, one.name): bool(one.text) for file in FILES for one in kernels_of(file)}
    is_defect |= {("order", name): bool(program.text) for name, program in PROGRAMS.items()}
    reported = {
        (file, name)
        for file, findings in RECORDED.items()
        for by_name in findings.values()
        for name, kinds in by_name.items()
        if kinds and not (is_defect[file, name] and name in NOT_FOUND)
    }
    rows: list[list[str]] = []
    for subject, files in SUBJECTS.items():
        of_row = {one for one in is_defect if one[0] in files}
        defects = {one for one in of_row if is_defect[one]}
        counts = [len(defects), len(defects), len(defects & reported), len(of_row - defects), 0]
        rows.append([subject, *map(str, [*counts, len(of_row - defects & reported)])])
    total = [str(sum(int(row[i]) for row in rows)) for i in range(1, 7)]
    return [*rows, ["all", *total]]


def test_the_documented_numbers() -> None:
    """The documentation's table of the findings of the simulator and of compute-sanitizer would be outdated."""
    path = FOLDER.parents[3] / "docs/simulator/checks.rst"
    if not path.is_file():
        pytest.skip("the documentation is not there")
    written = path.read_text().partition(".. list-table:: Reports for")[2].partition("\n\ncompute-sanitizer")[0]
    cells = [re.findall(r"- (.*)", row) for row in re.split(r"\n   \* ", written)[2:]]
    assert cells == rows_to_document()
    _, defects, _, _, correct, *_ = cells[-1]
    front = " ".join(path.parent.with_suffix(".rst").read_text().split())
    assert f"Of {defects} kernels and programs with a defect it reports all, and of {correct} correct ones" in front


def test_the_documented_costs() -> None:
    """The documentation's table of costs would show results of another measurement than the recorded one."""
    docs = FOLDER.parents[3] / "docs"
    if not docs.is_dir():
        pytest.skip("the documentation is not there")
    measured = {
        what: value for what, value, _ in csv.reader((docs / "measured/simulator.csv").read_text().splitlines())
    }
    written = (docs / "simulator/checks.rst").read_text().partition(".. list-table:: Costs of checks")[2]
    cells = re.findall(r"     - ([\d.]+)\n", written.partition("\nWith")[0])
    checks = ("sync", "init", "race", "order")
    assert cells == [measured[f"{check} of {kernel}"] for kernel in ("scan", "saxpy") for check in checks]
    ours, numbas = measured["saxpy of 16384"], measured["saxpy of 16384 in numba's simulator"]
    for page in ("simulator.rst", "simulator/scope.rst"):
        text = (docs / page).read_text()
        assert f"{int(measured['arithmetic']):,} million" in text, page
        assert f"{ours} ms" in text, page
        assert f"{numbas} ms" in text, page


@pytest.mark.parametrize("file", FILES)
def test_nothing_is_said_without(file: str, run_python: Run, tmp_path: Path) -> None:
    """Checks that were not requested would cost time, or fail correct programs."""
    assert not any(reports_of(file, run_python, tmp_path).values())


def test_a_list_that_is_not_one(run_python: Run) -> None:
    """A misspelled check would be ignored silently, and a run would pass without checking."""
    result = run_python("print(cudacore_sim.ignored_settings())", CHECK="races")
    assert "CUDACORE_SIM_CHECK=races is ignored: a list of race, sync, init and order" in result.stdout


# Reads memory that copies, fills and other operations of the driver wrote, and memory that nothing wrote.
COPIES = """
module = cuda.out("cuModuleLoadData", PTX)
raw, copy, filled = (cuda.out("cuMemAlloc_v2", c_size_t(64), kind=c_uint64) for _ in range(3))
result = cuda.out("cuMemAlloc_v2", c_size_t(64), kind=c_uint64)
def said(what):
    before = cudacore_sim.count_reports()
    cuda.launch(module, "copy", 1, 1, 0, what, result)
    cuda.cuCtxSynchronize()
    return ["uninitialized read" in one for one in cudacore_sim.reports(after=before)]
back = (c_char * 64)()
def said_of_a_copy(what, size=64):
    before = cudacore_sim.count_reports()
    cuda.cuMemcpyDtoH_v2(back, what, c_size_t(size))
    return ["nothing to read: nobody wrote the 64 bytes" in one for one in cudacore_sim.reports(after=before)]
cuda.cuMemcpyDtoD_v2(copy, raw, c_size_t(64))
to_the_host = said_of_a_copy(copy)
cuda.cuMemsetD8_v2(copy, 1, c_size_t(1))
to_the_host += said_of_a_copy(copy)
cuda.cuMemcpyDtoD_v2(copy, raw, c_size_t(64))
cuda.cuMemsetD8_v2(filled, 0, c_size_t(64))
found = {"to the host": to_the_host, "copy of nothing": said(copy), "filled": said(filled)}
cuda.cuMemcpyHtoD_v2(raw, (c_char * 64)(), c_size_t(64))
found["from the host"] = said(raw)
cuda.cuMemcpyDtoD_v2(copy, raw, c_size_t(64))
found["copy of it"] = said(copy)
stream = cuda.out("cuStreamCreate", 0)
pooled = cuda.out("cuMemAllocAsync", c_size_t(64), stream, kind=c_uint64)
cuda.cuStreamSynchronize(stream)
found["pooled"] = said(pooled)
cuda.cuStreamWriteValue32_v2(stream, pooled, 5, 0)
cuda.cuStreamSynchronize(stream)
found["written by a stream"] = said(pooled)
cuda.cuMemFreeAsync(pooled, stream)
cuda.cuStreamSynchronize(stream)
managed = cuda.out("cuMemAllocManaged", c_size_t(64), 1, kind=c_uint64)
found["managed"] = said(managed)
variable, size = c_uint64(), c_size_t()
cuda.cuModuleGetGlobal_v2(byref(variable), byref(size), module, b"counter")
found["a variable"] = said(variable)
print(json.dumps(found))
"""
COPY = """
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 counter;
.visible .entry copy(.param .u64 from, .param .u64 to)
{
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [to];
  ld.global.u32 %r1, [%rd1];
  st.global.u32 [%rd2], %r1;
  ret;
}
"""


def test_what_the_driver_writes(run_python: Run) -> None:
    """Reading memory that a copy or a fill wrote would be reported, or copies of uninitialized memory would not be."""
    result = run_python(RUN + COPIES.replace("PTX", repr(COPY.encode())), CHECK="init")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {
        "to the host": [True],
        "copy of nothing": [True],
        "filled": [],
        "from the host": [],
        "copy of it": [],
        "pooled": [True],
        "written by a stream": [],
        "managed": [],
        "a variable": [],
    }


def test_records_of_freed_memory(run_python: Run) -> None:
    """A program that allocates and frees would need as much memory for records as it has ever allocated."""
    code = """
import ctypes, resource
cuda.cuMemFree_v2(cuda.allocate(1))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(100):
    memory = cuda.allocate(4 << 20)
    cuda.cuMemsetD8_v2(memory, 1, ctypes.c_size_t(4 << 20))
    cuda.cuCtxSynchronize()
    cuda.cuMemFree_v2(memory)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
    result = run_python(RUN + code, CHECK="init")
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 100, "MiB for 100 rounds of 4 MiB"
