# SPDX-License-Identifier: Apache-2.0
"""Each kernel of the corpus gives the recorded results of a GPU: on the simulated driver, and on a GPU."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from corpus.catalogue import Kernel, Theme, themes
from corpus.comparison import compare
from corpus.kernel_tests import check_reports, check_results, parameters_of, recording_of
from corpus.machine import Program

FILES = [theme for theme in themes() if theme.folder != "libraries"]


@pytest.mark.parametrize(("program", "kernel"), parameters_of(FILES), indirect=["program"])
def test_kernel(program: Program, kernel: Kernel) -> None:
    """A kernel's results would differ from those of the GPU by more than its documented errors allow."""
    check_results(program, kernel)


@pytest.mark.parametrize("theme", themes(), ids=lambda theme: theme.name)
def test_recording_has_no_other_kernels(theme: Theme) -> None:
    """A recording would contain results of removed kernels, or results that are not from a GPU."""
    recording = recording_of(theme)
    assert set(recording.inputs) == {kernel.name for kernel in theme.kernels}
    assert recording.machine["device"] == "NVIDIA H200"


@pytest.mark.cuda_sim
def test_checks_find_nothing(tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The simulator's checks would report a kernel that is correct."""
    check_reports(FILES, tmp_path, run_python)


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
