# SPDX-License-Identifier: Apache-2.0
"""Tests of the kernels in some files of the corpus: for ``test_corpus.py`` and ``test_libraries.py``.

There are two, because pytest-xdist runs the tests of a file in one process, and to compile all kernels takes a minute.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from corpus.catalogue import FOLDER, Kernel, Theme, themes
from corpus.comparison import compare
from corpus.machine import Program, compile_theme, missing_headers
from corpus.record import Recording


def parameters_of(files: Iterable[Theme]) -> list[Any]:
    """Return the parameters ``program`` and ``kernel`` for the kernels in files."""
    parameters = []
    for theme in files:
        missing = missing_headers(theme)
        reason = f"needs {', '.join(missing)}: of the wheels nvidia-{{cuda-runtime,cuda-cccl,curand}}, or in $CUDA_HOME"
        marks = pytest.mark.skipif(bool(missing), reason=reason)
        parameters += [pytest.param(theme, kernel, id=kernel.name, marks=marks) for kernel in theme.kernels]
    return parameters


@functools.cache
def recording_of(theme: Theme) -> Recording:
    return Recording(theme.recording)


def check_results(program: Program, kernel: Kernel) -> None:
    """Compare the results of a kernel with those of a GPU."""
    recording = recording_of(next(theme for theme in themes() if theme.name == kernel.theme))
    assert recording.inputs.get(kernel.name) == kernel.fingerprint(), "record it again: its inputs have changed"
    message = compare(kernel, program.run(kernel), recording.outputs(kernel.name))
    assert not message, f"{message}\n(recorded with {recording.machine})"


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


def check_reports(
    files: Iterable[Theme], folder: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Run the kernels in files with the simulator's checks, which must report nothing."""
    compiled = [theme for theme in files if not missing_headers(theme)]
    if not compiled:
        pytest.skip("needs headers that are not installed")
    for theme in compiled:
        (folder / theme.name).write_bytes(compile_theme(theme))
    code = LAUNCH_ALL.replace("FOLDER", repr(str(FOLDER.parent))).replace("PTX", repr(str(folder)))
    result = run_python(code, CHECK="race,sync,init,order")
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout.splitlines()[-1])
    assert len(said) == sum(len(theme.kernels) for theme in compiled)
    assert not {name: reports for name, reports in said.items() if reports}
