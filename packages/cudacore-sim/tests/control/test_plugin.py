# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin, as another project uses it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kernels import PTX
from plugin_runs import PLUGINS, STRICT, project, run
from ptx import HEADER, entry

__all__ = ["project"]
pytest_plugins = ["pytester"]


def test_a_library_that_is_hidden(project: pytest.Pytester) -> None:
    """All tests of a project would fail if it hides cudacore_handles, or replaces it by something else."""
    result = run(
        project, "import sys\nsys.modules['cudacore_handles'] = None\ndef test_clean(): pass", "--cuda-driver=sim"
    )
    result.assert_outcomes(passed=1)


LEAKING = """
def test_leak(): stream()
def test_clean(): cu.cuStreamDestroy_v2(stream())
@pytest.mark.cuda_leaks_ok("on purpose")
def test_excused(): stream()
"""
MISUSING = """
def test_twice():
    made = stream()
    cu.cuStreamDestroy_v2(made), cu.cuStreamDestroy_v2(made)
@pytest.mark.cuda_misuse_ok("on purpose")
def test_excused(): test_twice()
"""


@pytest.mark.parametrize(
    ("tests", "passed", "text"),
    [
        (LEAKING, 3, "*were not there before this test: 1 x stream*"),
        (MISUSING, 2, "*cuStreamDestroy_v2 was given a stream that was destroyed*"),
    ],
    ids=["leak", "misuse"],
)
def test_errors_of_tests(project: pytest.Pytester, tests: str, passed: int, text: str) -> None:
    """A test that leaks or misuses a stream would pass, or would fail although a marker permits this."""
    result = run(project, tests, "--cuda-driver=sim")
    result.assert_outcomes(passed=passed, errors=1)
    result.stdout.fnmatch_lines([text])


def test_no_wait_for_permitted_leaks(project: pytest.Pytester) -> None:
    """A test that may leave objects behind would wait for their destruction, for seconds."""
    never = "import cudacore_sim.pytest_plugin\ncudacore_sim.pytest_plugin._SECONDS_TO_SETTLE = 1e9\n"
    permitted = "@pytest.mark.cuda_leaks_ok('on purpose')\ndef test_excused(): stream()"
    run(project, never + permitted, "--cuda-driver=sim").assert_outcomes(passed=1)


def test_leaks_are_described(project: pytest.Pytester) -> None:
    """The error would not say what was leaked, or on which lines of the program it was created."""
    result = run(
        project,
        """
import threading
def other():
    cu.cuCtxSetCurrent(context), stream()
def test_leaks():
    for i in range(7):
        cu.cuEventCreate(ctypes.byref(ctypes.c_void_p()), 0)
    stream()
    thread = threading.Thread(target=other)
    thread.start(), thread.join()
""",
        "--cuda-driver=sim",
    )
    result.assert_outcomes(passed=1, errors=1)
    name = "test_leaks_are_described.py"
    lines = Path(str(project.path), name).read_text().splitlines()
    (line,) = (number for number, text in enumerate(lines, 1) if text == "    stream()")
    (made,) = (number for number, text in enumerate(lines, 1) if "cu.cuStreamCreate(" in text)
    event = f"  event 0x*, created at {name}:{line - 1} in test_leaks"
    result.stdout.fnmatch_lines(
        [
            "*were not there before this test: 2 x stream, 7 x event",
            f"  stream 0x*, created at {name}:{made} in stream, called at {name}:{line} in test_leaks",
            "  stream 0x????????????",  # created by another thread, whose lines are not recorded
            *[event] * 5,
            "  and 2 more",
        ],
        consecutive=True,
    )


def test_a_test_that_fails(project: pytest.Pytester) -> None:
    """A failed test would be reported to leak objects, because its traceback keeps them alive."""
    result = run(project, "def test_failing(): stream(); assert False", "--cuda-driver=sim")
    result.assert_outcomes(failed=1)


def test_fixtures_that_fail(project: pytest.Pytester) -> None:
    """A failed fixture would be reported to leak objects, because its traceback keeps them alive."""
    result = run(
        project,
        """
@pytest.fixture
def broken():
    made = stream()
    raise RuntimeError("no set-up")
def test_broken(broken): pass
""",
        "--cuda-driver=sim",
    )
    result.assert_outcomes(errors=1)
    result.stdout.no_fnmatch_line("*were not there before*")


def test_a_failure_that_is_expected(project: pytest.Pytester) -> None:
    """A leak of a test marked xfail would be a second failure if the test fails, or be ignored if the test passes."""
    result = run(
        project,
        """
@pytest.mark.xfail(strict=True)
def test_expected(): stream(); assert False
@pytest.mark.xfail
def test_better_than_expected(): stream()
""",
        "--cuda-driver=sim",
    )
    result.assert_outcomes(xfailed=2, xpassed=1)


@pytest.mark.parametrize("setting", ["SHUFFLE=x", "COMPUTE_CAPABILITY=9", "MEMORY=1.5G", "DEVICES=abc"])
def test_a_setting_of_no_use(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    """A wrong setting would be ignored, because pytest hides the message on stderr."""
    name, value = setting.split("=")
    monkeypatch.setenv(f"CUDACORE_SIM_{name}", value)
    result = run(project, "def test_nothing(): pass", "--cuda-driver=sim")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--cuda-driver=sim: CUDACORE_SIM_{setting} is ignored: * is wanted"])


def test_markers_and_fixture(project: pytest.Pytester) -> None:
    """A test that is marked for a GPU would run without a GPU, or ``cuda_sim`` would not be the control interface."""
    result = run(
        project,
        """
@pytest.mark.cuda_gpu
def test_gpu(): raise AssertionError
def test_failure(cuda_sim):
    cuda_sim.fail("cuStreamCreate", 1, 2)
    assert cu.cuStreamCreate(ctypes.byref(ctypes.c_void_p()), 0) == 2
""",
        "--cuda-driver=sim",
        "--strict-markers",
    )
    result.assert_outcomes(passed=1, skipped=1)


def test_without_the_option(project: pytest.Pytester) -> None:
    """An installed plugin would affect projects that do not use it."""
    project.makepyfile(
        """
import ctypes, os, pytest
def test_plain():
    with pytest.raises(OSError):
        ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
def test_sim(cuda_sim): pass
@pytest.mark.cuda_sim
def test_marked(): pass
@pytest.mark.cuda_gpu
def test_gpu(): pass
"""
    )
    result = project.runpytest_subprocess(*PLUGINS)
    result.assert_outcomes(passed=2, skipped=2)


def test_the_default_of_the_option(project: pytest.Pytester) -> None:
    """The configuration file would not choose the driver, or would override the command line."""
    project.makeini("[pytest]\ncuda_driver = sim")
    result = run(project, "def test_sim(cuda_sim): assert cuda_sim.is_loaded()")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["CUDA driver: simulated, *libcuda.so.1"])
    project.makeini("[pytest]\ncuda_driver = gpu")
    run(project, "def test_sim(cuda_sim): assert cuda_sim.is_loaded()", "--cuda-driver=sim").assert_outcomes(passed=1)


def test_a_default_that_is_none(project: pytest.Pytester) -> None:
    """A typo in the configuration file would make tests run without the simulator, or pytest print a traceback."""
    project.makeini("[pytest]\ncuda_driver = simulated")
    result = project.runpytest_subprocess(*PLUGINS)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cuda_driver is 'simulated'; it must be sim or gpu*"])


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="this machine has a GPU")
def test_asking_for_a_gpu_where_there_is_none(project: pytest.Pytester) -> None:
    """On a machine without a GPU, a run with ``--cuda-driver=gpu`` would pass, because all tests would be skipped."""
    result = project.runpytest_subprocess(*PLUGINS, "--cuda-driver=gpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cuda-driver=gpu: there is no CUDA driver, and --cuda-driver=sim needs none:*"])


FAULT = f"""
PTX = {PTX!r}

def kernel(name):
    library, found = ctypes.c_void_p(), ctypes.c_void_p()
    assert cu.cuLibraryLoadData(ctypes.byref(library), PTX, None, None, 0, None, None, 0) == 0
    assert cu.cuLibraryGetKernel(ctypes.byref(found), library, name) == 0
    return found

KERNELS = kernel(b"fail"), kernel(b"empty")

def launch(kernel):
    return cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)

def memory():
    made = ctypes.c_uint64()
    assert cu.cuMemAlloc_v2(ctypes.byref(made), ctypes.c_size_t(100)) == 0
    return made

@pytest.fixture
def buffer():
    made = memory()
    yield made
    assert cu.cuMemFree_v2(made) == 0

def test_good(buffer):
    assert launch(KERNELS[1]) == 0
    assert cu.cuCtxSynchronize() == 0
"""


def test_a_kernel_that_fails(project: pytest.Pytester) -> None:
    """After a failed kernel, later tests would fail, the test's objects would be leaks, or no report would be shown."""
    result = run(
        project,
        FAULT
        + """
def test_fault(buffer):
    own = memory()
    launch(KERNELS[0])
    assert cu.cuCtxSynchronize() == 719
    assert cu.cuMemFree_v2(own) == 719
def test_after(buffer): test_good(buffer)
def test_nobody_waits(): launch(KERNELS[0])
def test_at_last(buffer): test_good(buffer)
@pytest.mark.cuda_misuse_ok("on purpose")
def test_excused(buffer): test_fault(buffer)
def test_with_the_controls(buffer, cuda_sim): test_fault(buffer)
""",
        "--cuda-driver=sim",
    )
    result.assert_outcomes(passed=7, errors=3)
    for name in ("test_fault", "test_nobody_waits", "test_with_the_controls"):
        lines = [f"*ERROR at teardown of {name} *", "a kernel failed:", "  kernel 'fail'*: trap*"]
        result.stdout.fnmatch_lines(lines)
    result.stdout.no_fnmatch_line("*were not there before*")


def test_a_test_that_fails_by_its_kernel(project: pytest.Pytester) -> None:
    """The test's failure would not name the kernel, or the kernel would also make fixtures or the next test fail."""
    result = run(
        project,
        FAULT
        + """
def test_fault(buffer):
    launch(KERNELS[0])
    assert cu.cuCtxSynchronize() == 0
def test_after(buffer): test_good(buffer)
""",
        "--cuda-driver=sim",
    )
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*Captured stderr call*", "*kernel 'fail'*"])


def test_a_kernel_that_fails_in_cudacore(project: pytest.Pytester) -> None:
    """Objects that cudacore keeps, such as its primary context and memory pools, would be unusable after a fault."""
    pytest.importorskip("cudacore_handles")
    result = run(
        project,
        f"""
import cudacore_handles as ch

device = ch.Device(0)
device.set_current()
KEPT = device.memory_resource, device.default_stream
CODE = ch.ObjectCode.from_ptx({PTX!r})

def use(name):
    stream = device.create_stream()
    buffer = device.allocate(100, stream=stream)
    ch.launch(stream, ch.LaunchConfig(grid=1, block=1), CODE.get_kernel(name))
    stream.sync()

KEPT += (use("empty"),)  # the code is loaded

def test_fault():
    with pytest.raises(ch.CUDAError):
        use("fail")
def test_after(): use("empty")
""",
        "--cuda-driver=sim",
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.no_fnmatch_line("*were not there before*")


def test_a_kernel_that_fails_in_cuda_bindings(project: pytest.Pytester) -> None:
    """A test of a program that uses cuda.bindings would make later tests fail."""
    pytest.importorskip("cuda.bindings.driver")
    result = run(
        project,
        f"""
from cuda.bindings import driver

_, library = driver.cuLibraryLoadData({PTX!r}, [], [], 0, [], [], 0)

def use(name):
    _, kernel = driver.cuLibraryGetKernel(library, name)
    _, memory = driver.cuMemAlloc(100)
    driver.cuLaunchKernel(driver.CUfunction(int(kernel)), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    return driver.cuCtxSynchronize()[0], driver.cuMemFree(memory)[0]

def test_fault(): assert use(b"fail") == (719, 719)
def test_after(): assert use(b"empty") == (0, 0)
""",
        "--cuda-driver=sim",
    )
    result.assert_outcomes(passed=2, errors=1)


def test_pytest_shows_it(project: pytest.Pytester) -> None:
    """A failed test would not show why one of its calls was refused."""
    project.makepyfile(
        """
        from ctypes import byref, c_void_p
        import cudacore_sim

        def test_load():
            cu, context, module = cudacore_sim.load(), c_void_p(), c_void_p()
            cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(byref(context), 0), cu.cuCtxSetCurrent(context)
            assert cu.cuModuleLoadData(byref(module), b"rubbish") == 0

        def test_on_purpose():
            assert cudacore_sim.load().cuModuleLoadData(byref(c_void_p()), b"rubbish") != 0
        """
    )
    result = project.runpytest_subprocess(*PLUGINS, "--cuda-driver=sim")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*What the simulated driver reported*", "*neither PTX nor a cubin*"])


def test_what_an_earlier_test_did(project: pytest.Pytester) -> None:
    """A failed test would show the refused call, or the kernel's fault, of the previous test."""
    result = run(
        project,
        FAULT
        + """
def test_refused(): assert cu.cuModuleLoadData(ctypes.byref(ctypes.c_void_p()), b"rubbish") != 0
def test_fails(): assert False
@pytest.mark.cuda_misuse_ok("on purpose")
def test_fault(buffer):
    launch(KERNELS[0])
    assert cu.cuCtxSynchronize() == 719
def test_fails_like_it(cuda_sim):
    cuda_sim.fail("cuStreamCreate", 1, 719)
    assert cu.cuStreamCreate(ctypes.byref(ctypes.c_void_p()), 0) == 0
""",
        "--cuda-driver=sim",
    )
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.no_fnmatch_line("*What the simulated driver reported*")


# A plugin that defines the option ``--driver``, as pytest-selenium does.
ANOTHER_PLUGIN = """
def pytest_addoption(parser):
    parser.addoption("--driver", choices=("firefox", "chrome"))

def pytest_configure(config):
    config.addinivalue_line("markers", "sim: of another plugin")
"""


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
def test_another_plugin_with_shorter_names(project: pytest.Pytester, first: bool) -> None:
    """Any run with pytest-selenium installed would fail, or the other plugin's tests would be skipped."""
    project.makepyfile(another=ANOTHER_PLUGIN)
    names = ["cudacore_sim", "another"] if first else ["another", "cudacore_sim"]
    tests = """
import pytest

@pytest.mark.sim
def test_marker(request): assert request.config.getoption("driver") == "firefox"
@pytest.fixture
def sim(): return "the project's"
def test_fixture(sim): assert sim == "the project's"
def test_ours(cuda_sim): assert cuda_sim.is_loaded()
"""
    project.makepyfile(tests)
    plugins = [option for name in names for option in ("-p", name)]
    options = ["-o", "cuda_preload=false", *plugins, "--driver=firefox", *STRICT]
    project.runpytest_subprocess(*options).assert_outcomes(passed=2, skipped=1)
    project.runpytest_subprocess(*options, "--cuda-driver=sim").assert_outcomes(passed=3)


SEVERAL = (
    FAULT
    + """
def test_fault(buffer):
    launch(KERNELS[0])
    assert cu.cuCtxSynchronize() == 0
def test_silent(): launch(KERNELS[0])
def test_leak(): stream()
def test_clean(): assert cu.cuStreamDestroy_v2(stream()) == 0
def test_controls(cuda_sim):
    cuda_sim.fail("cuStreamCreate", 1, 2)
    assert cu.cuStreamCreate(ctypes.byref(ctypes.c_void_p()), 0) == 2
@pytest.mark.parametrize("_", range(4))
def test_more(buffer, _): test_good(buffer)
"""
)


def check_several(result: pytest.RunResult) -> None:
    result.assert_outcomes(passed=9, failed=1, errors=2)
    result.stdout.fnmatch_lines(["*_ test_fault _*", "*What the simulated driver reported*", "kernel 'fail'*: trap*"])
    for lines in (
        ["*ERROR at teardown of test_silent*", "a kernel failed:", "  kernel 'fail'*: trap*"],
        ["*ERROR at teardown of test_leak*", "*were not there before this test: 1 x stream", "  stream *in test_leak"],
    ):
        result.stdout.fnmatch_lines(lines)


def test_xdist(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers would test without the simulator, or their reports of faults would be lost when they end."""
    pytest.importorskip("xdist", reason="needs pytest-xdist")
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    check_several(run(project, SEVERAL, "--cuda-driver=sim", "-n", "2"))


@pytest.mark.parametrize("seed", [1, 2])
def test_random_order(project: pytest.Pytester, seed: int) -> None:
    """The outcome of a test would depend on the test before it."""
    pytest.importorskip("pytest_randomly", reason="needs pytest-randomly")
    result = run(project, SEVERAL, "--cuda-driver=sim", "-p", "randomly", f"--randomly-seed={seed}")
    check_several(result)
    result.stdout.fnmatch_lines([f"Using --randomly-seed={seed}"])


def test_the_report_of_a_fault(project: pytest.Pytester) -> None:
    """The report of a failed kernel would be missing if pytest runs with ``-s`` and short tracebacks."""
    result = run(project, SEVERAL, "--cuda-driver=sim", "-s", "-k", "test_fault or test_silent", "--tb=short")
    result.assert_outcomes(failed=1, passed=1, errors=1, deselected=8)
    result.stdout.fnmatch_lines(["*What the simulated driver reported*", "kernel 'fail'*: trap*"])


RACING = (HEADER + entry("write", "u64 where", "mov.u32 %r1, %tid.x; st.global.u32 [%rd1], %r1;")).encode()
RACE = f"""
def launch():
    module, function, out = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    assert cu.cuModuleLoadData(ctypes.byref(module), {RACING!r}) == 0
    assert cu.cuModuleGetFunction(ctypes.byref(function), module, b"write") == 0
    assert cu.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t(4)) == 0
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(out))
    assert cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, arguments, None) == 0
    assert cu.cuCtxSynchronize() == 0
    assert cu.cuMemFree_v2(out) == 0
    assert cu.cuModuleUnload(module) == 0

def test_race(): launch()
@pytest.mark.cuda_misuse_ok("on purpose")
def test_excused(): launch()
"""


def test_checks(project: pytest.Pytester) -> None:
    """A test that launches a kernel with a race would pass, or a test without the check would fail."""
    result = run(project, RACE, "--cuda-driver=sim", "--cuda-check=race,init")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        ["*kernel 'write'*race: write of 4 bytes*which thread (0,0,0) of the same warp wrote at*"]
    )
    run(project, RACE, "--cuda-driver=sim").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--cuda-check=race"], "*--cuda-check needs the simulated driver: --cuda-driver=sim*"),
        (["--cuda-driver=sim", "--cuda-check=races"], "*CUDACORE_SIM_CHECK=races is ignored*"),
    ],
)
def test_checks_that_cannot_be(project: pytest.Pytester, options: list[str], text: str) -> None:
    """A run would pass without the requested checks."""
    result = run(project, "def test_nothing(): pass", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([text])
