# SPDX-License-Identifier: Apache-2.0
"""CUDACORE_SIM_CHECK: undefined behaviour of a kernel is reported at its place, and nothing else is reported.

``checks/planted.py`` describes and runs the kernels.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from planted import CHECKS, FOLDER, kernels_of
from running import RUN, Run, check_kernels, reports_of


@pytest.mark.parametrize("check", CHECKS)
def test_kernels(check: str, run_python: Run, tmp_path: Path) -> None:
    """A defect would not be found or its report would name a wrong line, or a correct kernel would be reported."""
    check_kernels(check, reports_of(check, run_python, tmp_path, CHECK=check), planted=12)


# Correct kernels that compute-sanitizer reports and the simulator does not, with the reason for the difference.
NOT_FOUND = {
    "two_barriers_right": "warps at two barriers of one number, which PTX allows and CUDA C++ does not promise",
    "counter_right": "an exchange, whose result nobody uses, is no read",
    "copies_of_one_value_right": "all of them write what is there already",
    "copies_of_nothing_right": "zeros, all of them",
    "bulk_copies_of_one_value_right": "all of them write what is there already",
    "arrival_nobody_waits_for": "it takes what the first thread alone does to an mbarrier for another thread's",
}

# compute-sanitizer names the first line, and the simulator the second: on the GPU, one instruction executes both lines.
ONE_INSTRUCTION = {("syncwarp_of_others", 110): 108}


# More files for the check race, with the number of findings of compute-sanitizer. compute-sanitizer does not check
# global memory.
RACES = {"asynchronous": 4, "scopes": 0}


@pytest.mark.parametrize("check", [*CHECKS, *RACES])
def test_all_that_compute_sanitizer_finds(check: str, run_python: Run, tmp_path: Path) -> None:
    """The simulator would not find a defect that compute-sanitizer finds."""
    recorded = json.loads((FOLDER / "compute_sanitizer.json").read_text())["findings"][check]
    reports = reports_of(check, run_python, tmp_path, CHECK="race" if check in RACES else check)
    problems, found = [], 0
    for tool, by_name in recorded.items():
        assert set(by_name) == set(reports), f"{tool} has other kernels: record them again"
        for name, kinds in by_name.items():
            ours = {int(line) for one in reports[name] for line in re.findall(rf"/{check}.cu:(\d+)\]", one)}
            for kind, lines in kinds.items():
                found += name not in NOT_FOUND
                wanted = {ONE_INSTRUCTION.get((name, line), line) for line in lines}
                if not wanted or (name in NOT_FOUND) != bool(wanted - ours):
                    problems.append(f"{name}: {tool} has {kind} at {lines}, we have {reports[name]}")
    assert not problems, "\n".join(problems)
    assert found >= RACES.get(check, 3)


def test_the_documented_numbers() -> None:
    """The documentation's table of the findings of the simulator and of compute-sanitizer would be outdated."""
    path = FOLDER.parents[3] / "docs/simulator/checks.rst"
    if not path.is_file():
        pytest.skip("the documentation is not there")
    from order import PROGRAMS

    recorded = json.loads((FOLDER / "compute_sanitizer.json").read_text())["findings"]
    files = {check: [check, *RACES] if check == "race" else [check] for check in CHECKS}
    planted = {check: {one.name for file in files[check] for one in kernels_of(file) if one.text} for check in CHECKS}
    planted["order"] = {name for name, program in PROGRAMS.items() if program.text}
    found = {
        name
        for findings in recorded.values()
        for by_name in findings.values()
        for name, kinds in by_name.items()
        if kinds and name not in NOT_FOUND
    }
    rows = re.findall(r"\* - ``(\w+)``\n     - (\d+) of (\d+)\n     - (\d+), by", path.read_text())
    assert {check: numbers for check, *numbers in rows} == {
        check: [str(len(names)), str(len(names)), str(len(names & found))] for check, names in planted.items()
    }


@pytest.mark.parametrize("check", CHECKS)
def test_nothing_is_said_without(check: str, run_python: Run, tmp_path: Path) -> None:
    """Checks that were not requested would cost time, or fail correct programs."""
    assert not any(reports_of(check, run_python, tmp_path).values())


def test_lanes_that_went_elsewhere(run_python: Run, tmp_path: Path) -> None:
    """A wrong mask would be found only if the lane that went elsewhere ends last, or a right one would be reported."""
    check_kernels("masks", reports_of("masks", run_python, tmp_path, CHECK="sync"), planted=4)


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
