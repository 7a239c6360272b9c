# SPDX-License-Identifier: Apache-2.0
"""CUDACORE_SIM_CHECK: what a GPU leaves undefined is found where it is, and nothing else is.

A kernel of ``checks/*.cu`` has a line above it that says how it is launched and, after a colon, what its report says;
``~`` stands for any text. Without a colon there is to be none. ``FOUND`` marks the line that is reported, ``OTHER``
that of what it does not agree with, which a report has to name, too; of two accesses that race, either can be found.
All kernels take memory that is full of zeros, and memory that nobody has written.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "checks"
CHECKS = ("race", "sync", "init")

RUN = """
import json, sys

def check(code):
    assert code == 0, code

class Cuda:
    def __getattr__(self, name):
        return lambda *arguments: check(getattr(cu, name)(*arguments))

    def out(self, name, *arguments, kind=c_void_p):
        value = kind()
        getattr(self, name)(byref(value), *arguments)
        return value

cuda = Cuda()
cuda.cuInit(0)
context = cuda.out("cuDevicePrimaryCtxRetain", 0)
cuda.cuCtxSetCurrent(context)

def launch(module, name, grid, block, shared, *arguments):
    function = cuda.out("cuModuleGetFunction", module, name.encode())
    pointers = (c_void_p * len(arguments))(*(addressof(argument) for argument in arguments))
    cuda.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, None, pointers, None)
"""

LAUNCH_ALL = """
kernels, ptx = json.load(open(PATH))
module = cuda.out("cuModuleLoadData", ptx.encode())
said = {}
for name, grid, block, shared in kernels:
    before = len(cudacore_sim.reports())
    out, raw = (cuda.out("cuMemAlloc_v2", c_size_t(4096), kind=c_uint64) for _ in range(2))
    cuda.cuMemsetD32_v2(out, 0, c_size_t(1024))
    launch(module, name, grid, block, shared, out, raw)
    cuda.cuCtxSynchronize()
    cuda.cuMemFree_v2(out), cuda.cuMemFree_v2(raw)
    said[name] = cudacore_sim.reports()[before:]
print(json.dumps(said))
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Kernel:
    """A kernel, and what is said of it."""

    name: str
    grid: int
    block: int
    shared: int
    text: str | None
    """That its report has, as a regular expression; None: there is none."""
    found: set[int]
    other: set[int]


def kernels_of(check: str) -> list[Kernel]:
    lines = (FOLDER / f"{check}.cu").read_text().splitlines()
    kernels = []
    for number, line in enumerate(lines):
        if not line.startswith("//! "):
            continue
        settings, colon, text = line[4:].partition(": ")
        size = {key: int(value) for key, value in (word.split("=") for word in settings.split())}
        name = re.search(r"void (\w+)\(", lines[number + 1])
        assert name, lines[number + 1]
        end = lines.index("}", number)
        marked: dict[str, set[int]] = {"FOUND": set(), "OTHER": set()}
        for at, one in enumerate(lines, 1):
            for mark, places in marked.items():
                if mark in one and (number < at <= end or f"in {name[1]} " in one):
                    places.add(at)
        pattern = ".*".join(re.escape(part.strip()) for part in text.split("~")) if colon else None
        kernels.append(
            Kernel(
                name[1],
                size.get("grid", 1),
                size["block"],
                size.get("shared", 0),
                pattern,
                marked["FOUND"],
                marked["OTHER"],
            )
        )
    return kernels


def compile_to_ptx(source: str, name: str) -> str:
    from cuda.bindings import nvrtc

    def call(function: str, *arguments: Any) -> Any:
        status, *values = getattr(nvrtc, f"nvrtc{function}")(*arguments)
        assert int(status) == 0, f"nvrtc{function}: {status}"
        return values[0] if values else None

    program = call("CreateProgram", source.encode(), name.encode(), 0, [], [])
    call("CompileProgram", program, 3, [b"-arch=compute_90", b"-lineinfo", b"-w"])
    text = b" " * call("GetPTXSize", program)
    call("GetPTX", program, text)
    return text.rstrip(b"\0").decode()


def reports_of(check: str, run_python: Run, tmp_path: Path, **settings: str) -> dict[str, list[str]]:
    path = tmp_path / "kernels.json"
    ptx = compile_to_ptx((FOLDER / f"{check}.cu").read_text(), f"{check}.cu")
    path.write_text(json.dumps([[[one.name, one.grid, one.block, one.shared] for one in kernels_of(check)], ptx]))
    result = run_python(RUN + LAUNCH_ALL.replace("PATH", repr(str(path))), **settings)
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(result.stdout)


def problem_with(kernel: Kernel, reports: list[str], file: str) -> str:
    if kernel.text is None:
        return "; ".join(reports)
    if not any(re.search(kernel.text, report) for report in reports):
        return f"no report has {kernel.text!r}: {reports}"
    for report in reports:
        lines = [int(number) for number in re.findall(rf"/{file}:(\d+)\]", report)]
        expected = kernel.found | kernel.other
        if set(lines) != expected and (kernel.other or not set(lines) & kernel.found):
            return f"{report}: that is not at {expected}"
    return ""


@pytest.mark.parametrize("check", CHECKS)
def test_kernels(check: str, run_python: Run, tmp_path: Path) -> None:
    """A defect would not be found, be told to be elsewhere, or a kernel be blamed that has none."""
    reports = reports_of(check, run_python, tmp_path, CHECK=check)
    problems = {one.name: problem_with(one, reports[one.name], f"{check}.cu") for one in kernels_of(check)}
    assert not "\n".join(f"{name}: {problem}" for name, problem in problems.items() if problem)
    assert sum(bool(one.text) for one in kernels_of(check)) >= 12


@pytest.mark.parametrize("check", CHECKS)
def test_nothing_is_said_without(check: str, run_python: Run, tmp_path: Path) -> None:
    """Checks that nobody asked for would cost time, or fail programs that work."""
    assert not any(reports_of(check, run_python, tmp_path).values())


def test_a_list_that_is_not_one(run_python: Run) -> None:
    """A run that was to look for races would pass without having looked."""
    result = run_python("print(cudacore_sim.ignored_settings())", CHECK="races")
    assert "CUDACORE_SIM_CHECK=races is ignored: a list of race, sync and init" in result.stdout


# What the driver's own work writes, and what it only copies.
COPIES = """
module = cuda.out("cuModuleLoadData", PTX)
raw, copy, filled = (cuda.out("cuMemAlloc_v2", c_size_t(64), kind=c_uint64) for _ in range(3))
result = cuda.out("cuMemAlloc_v2", c_size_t(64), kind=c_uint64)
def said(what):
    before = len(cudacore_sim.reports())
    launch(module, "copy", 1, 1, 0, what, result)
    cuda.cuCtxSynchronize()
    return ["uninitialized read" in one for one in cudacore_sim.reports()[before:]]
back = (c_char * 64)()
def said_of_a_copy(what, size=64):
    before = len(cudacore_sim.reports())
    cuda.cuMemcpyDtoH_v2(back, what, c_size_t(size))
    return ["nothing to read: nobody wrote the 64 bytes" in one for one in cudacore_sim.reports()[before:]]
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
    """A kernel would be blamed for reading what a copy or a fill wrote, or not for what was copied from nothing."""
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
