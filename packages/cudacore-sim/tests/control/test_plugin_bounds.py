# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin after many reports, and with kernels that never end."""

from __future__ import annotations

import time

import pytest
from plugin_runs import project, run
from ptx import HEADER

__all__ = ["project"]
pytest_plugins = ["pytester"]

KERNELS = f"""
CODE = b'''{HEADER}
.visible .entry fail() {{ trap; }}
.visible .entry spin() {{ AGAIN: bra AGAIN; }}
'''
module = ctypes.c_void_p()
cu.cuModuleLoadData(ctypes.byref(module), CODE)
def launch(name):
    function = ctypes.c_void_p()
    cu.cuModuleGetFunction(ctypes.byref(function), module, name)
    cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    return cu.cuCtxSynchronize()
"""

MANY = """
def twice():
    made = stream()
    cu.cuStreamDestroy_v2(made), cu.cuStreamDestroy_v2(made)
@pytest.mark.cuda_misuse_ok("on purpose")
def test_many():
    for _ in range(1100): twice()
def test_one_more(): twice()
def test_kernel(): assert launch(b"fail") == 719
def test_next(): cu.cuStreamDestroy_v2(stream())
"""


def test_many_reports(project: pytest.Pytester) -> None:
    """After 1000 reports, tests that misuse the driver or let a kernel fail would pass."""
    result = run(project, KERNELS + MANY, "--cuda-driver=sim")
    result.assert_outcomes(passed=4, errors=2)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_one_more*", "*cuStreamDestroy_v2 was given a stream*"])
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_kernel*", "a kernel failed:", "  kernel 'fail'*: trap*"])


def test_texts_after_a_reset(project: pytest.Pytester) -> None:
    """A test could see old reports as new ones, or lose new ones, when the texts were cleared or dropped."""
    tests = """
import cudacore_sim as sim
def twice():
    made = stream()
    cu.cuStreamDestroy_v2(made), cu.cuStreamDestroy_v2(made)
@pytest.mark.cuda_misuse_ok("on purpose")
def test_counts():
    begun = sim.count_reports()
    twice()
    sim.reset()
    assert (sim.count_reports(), sim.reports(), sim.reports(after=begun)) == (begun + 1, [], [])
    for _ in range(1100): twice()
    assert sim.count_reports() == begun + 1101
    assert len(sim.reports()) == 1000 and len(sim.reports(after=begun + 1100)) == 1
"""
    run(project, tests, "--cuda-driver=sim").assert_outcomes(passed=1)


SPIN = """
def test_spins(): assert launch(b"spin") == 702
def test_later(): cu.cuStreamDestroy_v2(stream())
"""


@pytest.mark.parametrize("by", ["default", "file", "environment"])
def test_a_limit_of_instructions(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    """A kernel that spins would make the run hang for ever, or the limit could not be set."""
    limit = {"default": "1000000000", "file": "5000", "environment": "7000"}[by]
    if by == "environment":
        monkeypatch.setenv("CUDACORE_SIM_INSTRUCTION_LIMIT", limit)
    if by != "default":
        project.makeini("[pytest]\ncuda_instruction_limit = 5000\n")
    result = run(project, KERNELS + SPIN, "--cuda-driver=sim")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines([f"  kernel 'spin'*no progress: the limit of {limit} instructions*"])


SIGNALLED = """
import os, signal, threading, time
class TimedOut(Exception): pass
def handler(number, frame): raise TimedOut
def send_later():
    threading.Timer(0.5, os.kill, (os.getpid(), NUMBER)).start()
def test_signal():
    signal.signal(NUMBER, handler)
    send_later()
    began = time.monotonic()
    with pytest.raises(TimedOut):
        launch(b"spin")
        time.sleep(1)
    assert time.monotonic() - began < 1.5
def test_later():
    made = stream()
    assert cu.cuStreamSynchronize(made) == 0
    cu.cuStreamDestroy_v2(made)
"""
LEFT_BEHIND = """
@pytest.fixture
def waits():
    yield
    cu.cuCtxSynchronize()
def test_signal(waits):
    signal.signal(NUMBER, handler)
    function = ctypes.c_void_p()
    cu.cuModuleGetFunction(ctypes.byref(function), module, b"spin")
    cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    os.kill(os.getpid(), NUMBER)
    time.sleep(1)
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGALRM", "SIGTERM"])
@pytest.mark.parametrize("where", ["in a call", "before the fixture"])
def test_a_signal(project: pytest.Pytester, number: str, where: str) -> None:
    """Ctrl+C and the signal of pytest-timeout would have no effect while a test waits for a kernel that spins."""
    tests = SIGNALLED + (LEFT_BEHIND if where == "before the fixture" else "")
    project.makeini("[pytest]\ncuda_instruction_limit = 0\n")
    began = time.monotonic()
    result = run(project, KERNELS + f"import signal\nNUMBER = signal.{number}\n" + tests, "--cuda-driver=sim")
    if where == "in a call":
        result.assert_outcomes(passed=2, errors=1)
        result.stdout.fnmatch_lines(["  * was stopped: *signal*"])
    else:  # the exception of the handler fails the test
        result.assert_outcomes(passed=1, failed=1)
    assert time.monotonic() - began < 20
