# SPDX-License-Identifier: Apache-2.0
"""Each kernel of the corpus gives the recorded results of a GPU: on the simulated driver, and on a GPU."""

from __future__ import annotations

import ctypes
import functools
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudacore_sim
from corpus.catalogue import FOLDER, Kernel, Theme, themes
from corpus.comparison import compare
from corpus.machine import Machine, Program, compile_theme, missing_headers
from corpus.record import Recording


def parameters_of(theme: Theme, kernel: Kernel) -> Any:
    missing = missing_headers(theme)
    reason = f"needs {', '.join(missing)}: of the wheels nvidia-{{cuda-runtime,cuda-cccl,curand}}, or in $CUDA_HOME"
    return pytest.param(theme, kernel, id=kernel.name, marks=pytest.mark.skipif(bool(missing), reason=reason))


KERNELS = [parameters_of(theme, kernel) for theme in themes() for kernel in theme.kernels]


@functools.cache
def recording_of(theme: Theme) -> Recording:
    return Recording(theme.recording)


@pytest.fixture(scope="module")
def machine(on_gpu: bool) -> Iterator[Machine]:
    """Yield a device of the driver that --cuda-driver selects; by default, of the simulated driver."""
    with Machine(ctypes.CDLL("libcuda.so.1") if on_gpu else cudacore_sim.load()) as machine:
        yield machine


@pytest.fixture(scope="module")
def program(machine: Machine, request: pytest.FixtureRequest) -> Iterator[Program]:
    """Yield a loaded file of kernels. Each file is loaded only once, because pytest groups its tests by file."""
    with machine.load(request.param) as program:
        yield program


@pytest.mark.parametrize(("program", "kernel"), KERNELS, indirect=["program"])
def test_kernel(program: Program, kernel: Kernel) -> None:
    """A kernel's results would differ from those of the GPU by more than its documented errors allow."""
    recording = recording_of(next(theme for theme in themes() if theme.name == kernel.theme))
    assert recording.inputs.get(kernel.name) == kernel.fingerprint(), "record it again: its inputs have changed"
    message = compare(kernel, program.run(kernel), recording.outputs(kernel.name))
    assert not message, f"{message}\n(recorded with {recording.machine})"


@pytest.mark.parametrize("theme", themes(), ids=lambda theme: theme.name)
def test_recording_has_no_other_kernels(theme: Theme) -> None:
    """A recording would contain results of removed kernels, or results that are not from a GPU."""
    recording = recording_of(theme)
    assert set(recording.inputs) == {kernel.name for kernel in theme.kernels}
    assert recording.machine["device"] == "NVIDIA H200"


LAUNCH_ALL = """
import json, sys
sys.path.append(FOLDER)
from pathlib import Path
from corpus.catalogue import themes
from corpus.machine import Machine

said = {}
with Machine(cudacore_sim.load()) as machine:
    for theme in themes():
        if not (path := Path(PTX, theme.name)).exists():
            continue
        with machine.load(theme, path.read_bytes()) as program:
            for kernel in theme.kernels:
                before = cudacore_sim.count_reports()
                program.run(kernel)
                said[kernel.name] = cudacore_sim.reports(after=before)
print(json.dumps(said))
"""


@pytest.mark.cuda_sim
def test_checks_find_nothing(tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The simulator's checks would report a kernel that is correct."""
    compiled = [theme for theme in themes() if not missing_headers(theme)]
    for theme in compiled:
        (tmp_path / theme.name).write_bytes(compile_theme(theme))
    code = LAUNCH_ALL.replace("FOLDER", repr(str(FOLDER.parent))).replace("PTX", repr(str(tmp_path)))
    result = run_python(code, CHECK="race,sync,init,order")
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout.splitlines()[-1])
    assert len(said) == sum(len(theme.kernels) for theme in compiled) > 100
    assert not {name: reports for name, reports in said.items() if reports}


def _kernel(name: str) -> Kernel:
    return next(kernel for theme in themes() for kernel in theme.kernels if kernel.name == name)


def test_one_bit_is_a_difference() -> None:
    """The tests of the corpus would pass whatever the kernels return."""
    kernel = _kernel("f32_arithmetic")
    expected = recording_of(next(theme for theme in themes() if kernel in theme.kernels)).outputs(kernel.name)
    got = [array.copy() for array in expected]
    assert compare(kernel, got, expected) == ""
    got[0][3, 100] ^= 1
    message = compare(kernel, got, expected)
    assert kernel.outputs[0].rows[3].text in message
    assert f"[100] got 0x{got[0][3, 100]:08x}" in message


@pytest.mark.parametrize(("steps", "accepted"), [(1, True), (-1, True), (40, False), (-40, False)])
def test_bounds_bound(steps: int, accepted: bool) -> None:
    """Approximations with too large errors would be accepted, or only exact results would be accepted."""
    kernel = _kernel("f32_trigonometry")
    expected = recording_of(next(theme for theme in themes() if kernel in theme.kernels)).outputs(kernel.name)
    got = [array.copy() for array in expected]
    values = expected[0][0].view(np.float32)
    column = int(np.flatnonzero(np.isfinite(values) & (np.abs(values) > 0.25))[0])
    got[0][0, column : column + 1] += np.uint32(steps % 2**32)
    assert (compare(kernel, got, expected) == "") is accepted
