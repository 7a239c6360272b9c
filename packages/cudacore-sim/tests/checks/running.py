# SPDX-License-Identifier: Apache-2.0
"""Runs the kernels of ``planted.py`` in a process with checks, and compares the reports with the expected ones."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corpus.machine import include_folders
from planted import FOLDER, Kernel

RUN = f"""
import json, sys
sys.path.append({str(FOLDER)!r})
from planted import Cuda, kernels_of, run
cuda = Cuda(cu)
"""

LAUNCH_ALL = """
file, ptx = json.load(open(PATH))
module = cuda.out("cuModuleLoadData", ptx.encode())
said = {}
for kernel in kernels_of(file):
    before = cudacore_sim.count_reports()
    run(cuda, module, kernel)
    said[kernel.name] = cudacore_sim.reports(after=before)
print(json.dumps(said))
"""

_known: dict[tuple[object, ...], dict[str, list[str]]] = {}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@functools.cache
def compile_to_ptx(source: str, name: str, architecture: str = "compute_90a") -> str:
    from cuda.bindings import nvrtc

    def call(function: str, *arguments: Any) -> Any:
        status, *values = getattr(nvrtc, f"nvrtc{function}")(*arguments)
        assert int(status) == 0, f"nvrtc{function}: {status}"
        return values[0] if values else None

    program = call("CreateProgram", source.encode(), name.encode(), 0, [], [])
    options = [f"-arch={architecture}", "-lineinfo", "-w", *(f"-I{folder}" for folder in include_folders())]
    call("CompileProgram", program, len(options), [option.encode() for option in options])
    text = b" " * call("GetPTXSize", program)
    call("GetPTX", program, text)
    return text.rstrip(b"\0").decode()


def reports_of(file: str, run_python: Run, tmp_path: Path, **settings: str) -> dict[str, list[str]]:
    """Return what is reported about each kernel in a file. Tests that need the same reports share a run."""
    if (reports := _known.get((file, *settings.items()))) is not None:
        return reports
    path = tmp_path / "kernels.json"
    path.write_text(json.dumps([file, compile_to_ptx((FOLDER / f"{file}.cu").read_text(), f"{file}.cu")]))
    result = run_python(RUN + LAUNCH_ALL.replace("PATH", repr(str(path))), **settings)
    assert result.returncode == 0, result.stdout + result.stderr
    return _known.setdefault((file, *settings.items()), json.loads(result.stdout))


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
