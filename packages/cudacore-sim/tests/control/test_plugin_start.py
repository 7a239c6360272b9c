# SPDX-License-Identifier: Apache-2.0
"""How the pytest plugin starts the simulator, and which objects it counts as leaks."""

from __future__ import annotations

import sys

import pytest
from plugin_runs import PLUGINS, PRELUDE, project, run

__all__ = ["project"]
pytest_plugins = ["pytester"]

START = ["-o", "cuda_preload=true"]

STARTED = """
import os
def test_started(): assert "libcudacore_sim_preload.so" in os.environ.get("LD_PRELOAD", "")
"""


def test_pytest_is_started_again(project: pytest.Pytester) -> None:
    """Kernels of other libraries' cubins would not run, because nothing puts the PTX into them."""
    result = run(project, STARTED, *START, "--cuda-driver=sim")
    result.assert_outcomes(passed=1)
    assert str(result.stdout).count("test session starts") == 1


@pytest.mark.parametrize(
    "options", [["--cuda-driver=sim", "-o", "cuda_preload=false"], []], ids=["turned off", "without the simulator"]
)
def test_pytest_is_not_started_again(project: pytest.Pytester, options: list[str]) -> None:
    """The setting would have no effect, or pytest would be started again although it does not use the simulator."""
    project.makepyfile(STARTED)
    result = project.runpytest_subprocess(*PLUGINS, *START, *options)
    result.assert_outcomes(failed=1)


def test_the_setting_in_a_file(project: pytest.Pytester) -> None:
    """A driver that the configuration file selects would be used without the preloaded library."""
    project.makeini("[pytest]\ncuda_driver = sim\n")
    run(project, STARTED, *START).assert_outcomes(passed=1)


def test_a_program_that_calls_pytest(project: pytest.Pytester) -> None:
    """A program that calls pytest, such as an editor, would be replaced by another process and lose its state."""
    project.makepyfile(PRELUDE + "def test_nothing(): pass")
    program = project.makepyfile(
        program=f"""
import os, sys, pytest
print("once")
status = pytest.main([*{PLUGINS + START!r}, "--cuda-driver=sim", "-q"])
print("status", int(status))
"""
    )
    result = project.run(sys.executable, program)
    result.stdout.fnmatch_lines(["once", "*1 passed*", "status 0"])
    assert str(result.stdout).count("once") == 1


def test_pytest_is_started_again_once(project: pytest.Pytester) -> None:
    """If a plugin sets the environment back, pytest would be started again and again."""
    project.makepyfile(setting_back="import os\nos.environ.pop('LD_PRELOAD', None)\nprint('one more')\n")
    result = run(project, "def test_nothing(): pass", *START, "--cuda-driver=sim", "-p", "setting_back")
    result.assert_outcomes(passed=1)
    assert str(result.stdout).count("one more") == 2


def test_a_test_that_calls_pytest(project: pytest.Pytester) -> None:
    """The outer pytest would be replaced by the inner one, and end without a result."""
    project.makepyfile(
        f"""
        import pytest
        def test_outer(tmp_path, monkeypatch):
            (tmp_path / "test_inner.py").write_text("def test_inner(): pass")
            (tmp_path / "pytest.ini").write_text("[pytest]\\ncuda_driver = sim")
            monkeypatch.chdir(tmp_path)
            assert pytest.main({PLUGINS + START}) == 0
        """
    )
    result = project.run(sys.executable, "-m", "pytest", *PLUGINS)
    result.assert_outcomes(passed=1)


# A library that keeps a stream for the program, and a program that creates one itself.
KEEPING = """
import library
def test_of_library(): library.keep(cu)
def test_of_project(): stream()
"""
LIBRARY = """
import ctypes
def keep(cu): assert cu.cuStreamCreate(ctypes.byref(ctypes.c_void_p()), 0) == 0
"""


@pytest.mark.parametrize(
    ("options", "failing", "advice"),
    [
        ([], ["test_of_library", "test_of_project"], "*kept on purpose: *cuda_kept_kinds = stream*--cuda-leaks=mine*"),
        (["--cuda-leaks=mine"], ["test_of_project"], "*kept on purpose: *cuda_kept_kinds = stream in the *"),
        (["--cuda-leaks=none"], [], None),
        (["-o", "cuda_leaks=none"], [], None),
        (["-o", "cuda_kept_kinds=stream"], [], None),
        (["-o", "cuda_kept_kinds=event"], ["test_of_library", "test_of_project"], None),
    ],
)
def test_which_objects_leak(
    project: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    failing: list[str],
    advice: str | None,
) -> None:
    """What another library keeps would always be an error, or what the project itself leaks would be none."""
    site = project.mkdir("site-packages")
    (site / "library.py").write_text(LIBRARY)
    # A folder is one of libraries if the interpreter says so.
    project.makeconftest(
        f"""
import sys
from cudacore_sim import _origins
_origins._LIBRARIES = (*_origins._LIBRARIES, {str(site)!r})
sys.path.append({str(site)!r})
"""
    )
    result = run(project, KEEPING, "--cuda-driver=sim", *options)
    result.assert_outcomes(passed=2, errors=len(failing))
    result.stdout.fnmatch_lines([f"*ERROR at teardown of {name} *" for name in failing])
    if advice:
        result.stdout.fnmatch_lines([advice])


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("cuda_leaks=some", "*cuda_leaks is 'some'; it must be one of none, mine, all*"),
        ("cuda_kept_kinds=streams", "*cuda_kept_kinds has streams; the kinds are context, stream, *"),
    ],
)
def test_settings_that_cannot_be(project: pytest.Pytester, option: str, text: str) -> None:
    """A run would pass without the setting, because its value is misspelt."""
    result = run(project, "def test_nothing(): pass", "--cuda-driver=sim", "-o", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([text])
