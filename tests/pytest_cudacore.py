# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of all packages: the ``device`` fixture, the check for leaks, skips on older drivers.

The driver is chosen by the pytest plugin of cudacore-sim: ``--cuda-driver=sim``, which pyproject.toml makes the
default, or ``--cuda-driver=gpu``. On the simulated driver, that plugin also checks that no test misuses the driver or
leaves objects behind.

A test marked ``needs_driver("12.3", "conditional nodes")`` is skipped on an older driver; the fixture ``need_driver``
does the same as a function. A test that fails because the driver is too old is also skipped if `FEATURES` contains the
function that the error names; an error for any other function is a failure.

A test that takes ``device`` gets device 0, current on its thread, and fails if there are more live handles at its end
than at its beginning; ``@pytest.mark.cuda_leaks_ok("reason")`` excuses it. Fixtures of a wider scope take
``first_device``.

With ``--parallel-threads`` of pytest-run-parallel, device 0 is current on each thread that calls such a test, and the
threads share the test's fixtures. A test that uses a name or a fixture in `OF_ONE_THREAD` runs on one thread.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import itertools
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import CodeType, TracebackType
from typing import TYPE_CHECKING

import pytest

import cudacore_sim

if TYPE_CHECKING:
    import cudacore_handles

SECONDS_TO_SETTLE = 2
CALL_FAILED = pytest.StashKey[bool]()
TOO_OLD = pytest.StashKey[bool]()
MODULE = pytest.StashKey[Path]()

# Features that older drivers of CUDA 12 and 13 lack, by the driver function that the error names.
FEATURES = {
    "cuDevSmResourceSplit": "groups of multiprocessors that differ",
    "cuDevSmResourceSplitByCount": "green contexts",
    "cuDeviceGetDevResource": "green contexts",
    "cuCtxGetDevResource": "green contexts",
    "cuGraphAddDependencies": "edges of other types",
    "cuGraphConditionalHandleCreate": "conditional nodes",
    "cuGraphNodeSetParams": "child graphs that are replaced in a node",
    "cuGreenCtxStreamCreate": "streams of green contexts",
    "cuMemAdvise": "places on NUMA nodes",
    "cuMemDiscardBatchAsync": "discarding managed memory",
    "cuMemDiscardAndPrefetchBatchAsync": "discarding managed memory",
    "cuMemGetMemPool": "default pools of hosts and managed memory",
    "cuMemPoolCreate": "pools of host memory and of managed memory",
}
# Names in tests that count objects or driver calls of the whole process, make calls fail, or capture a shared stream;
# and fixtures that one thread alone can use.
OF_ONE_THREAD = set(
    "__del__ calls cch_reclaim_pending create_graph_builder fail failing live live_counts logging reports "
    "checked cuda_sim foreign host_memory memory prepared producer_stream read_argument".split()
)
_TOO_OLD = re.compile(r"(cu\w+): CCH_ENOSYMBOL \(-4\): needs a driver for CUDA ([\d.]+) or newer")
_CHOICE = re.compile(r"cuGraphAddNode.*(?:A second body|A switch) needs a driver for CUDA 12\.8", re.DOTALL)
_PTX_TOO_NEW = re.compile(r"CUDA_ERROR_UNSUPPORTED_PTX_VERSION \(222\).*The PTX is of version ([\d.]+), which is newer")


def pytest_configure() -> None:
    """Ignore a warning in the processes that tests start; in this one, pyproject.toml ignores it.

    From Python 3.12 on, fork() in a process with threads causes it. The driver and NumPy have threads.
    """
    ignored = "ignore:This process (pid=:DeprecationWarning"
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), ignored]))


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Make device 0 current on each thread on which pytest-run-parallel calls a test."""
    if not isinstance(item, pytest.Function) or item.config.getoption("parallel_threads", "1") == "1":
        return
    test = item.obj
    if OF_ONE_THREAD & {*item.fixturenames, *names_in(inspect.unwrap(test).__code__)}:
        item.add_marker(pytest.mark.thread_unsafe(reason="uses what is of one thread or the whole process"))
    if "device" not in item.fixturenames:
        return

    @functools.wraps(test)
    def on_device(*args: object, **fixtures: object) -> None:
        import cudacore_handles

        cudacore_handles.Device(0).set_current()
        test(*args, **fixtures)

    item.obj = on_device


def names_in(code: CodeType) -> set[str]:
    """Return the names that a function uses, and its nested functions and classes use or define."""
    nested = [names_in(each) | {each.co_name} for each in code.co_consts if isinstance(each, CodeType)]
    return {*code.co_names, *itertools.chain(*nested)}


def freeze_what_is_there() -> None:
    """Collect garbage, and exclude all remaining objects from later garbage collections.

    This saves time, because most tests collect garbage several times: a collection of all objects takes a tenth of a
    second, and one of the objects of a test takes less than a millisecond.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.fixture(scope="session")
def on_sim() -> bool:
    """Return whether this process runs on the simulated driver."""
    return cudacore_sim.is_loaded()


@pytest.fixture(scope="session")
def target(on_sim: bool) -> str:
    """Give the code type for kernels: cubin; on the simulated driver PTX, because its reports contain lines of PTX.

    On a GPU, PTX may be too new for the driver, because the compilers can be newer.
    """
    from cuda.bindings import nvrtc

    return "ptx" if on_sim and driver_version() >= nvrtc.nvrtcVersion()[1:] else "cubin"


def driver_version() -> tuple[int, int]:
    """Return the CUDA version that the driver supports."""
    from cudacore_handles._base.driver_calls import driver_version

    version = driver_version()
    return version // 1000, version % 1000 // 10


def skip_older_driver(version: str, feature: str) -> None:
    if driver_version() < tuple(map(int, version.split("."))):
        pytest.skip(f"needs a driver for CUDA {version}: {feature}")


@pytest.fixture(scope="session")
def need_driver() -> Callable[[str, str], None]:
    """Give a function that skips the test if the driver is older than the version that a feature needs ("12.3")."""
    return skip_older_driver


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.config.stash.get(MODULE, None) != item.path:
        item.config.stash[MODULE] = item.path
        gc.unfreeze()  # the garbage that the fixtures of the previous module have become
    freeze_what_is_there()
    for marker in item.iter_markers("needs_driver"):
        skip_older_driver(*marker.args)


def _why_too_old(error: BaseException) -> str | None:
    """Return why to skip a test whose error, or its child process's error, shows that the driver is too old."""
    text = str(error)
    missing = _TOO_OLD.search(text)
    if missing is not None and missing[1] in FEATURES:
        return f"needs a driver for CUDA {missing[2]}: {FEATURES[missing[1]]}"
    if _CHOICE.search(text) and driver_version() < (12, 8):
        return "needs a driver for CUDA 12.8: conditional nodes with a choice of bodies"
    newer = _PTX_TOO_NEW.search(text)
    return f"needs a driver that compiles PTX {newer[1]}" if newer is not None else None


@pytest.fixture(scope="session")
def first_device() -> cudacore_handles.Device:
    """Give device 0, for fixtures of a wider scope than a test; tests take ``device``."""
    import cudacore_handles

    device = cudacore_handles.Device(0)
    device.set_current()
    # Make the objects that are made at first use and then kept, so that they do not look like leaks of the first test.
    _ = device.memory_resource, device.default_stream, device.context
    load_copy_kernels()
    return device


def load_copy_kernels() -> None:
    """Load the kernels for copies between views. They are loaded once, and kept."""
    from cudacore_handles._views import copy_kernel

    for unit in (1, 2, 4, 8, 16):
        copy_kernel._kernel(unit, False, 4)


@pytest.fixture
def device(first_device: cudacore_handles.Device) -> Iterator[cudacore_handles.Device]:
    """Give device 0, current on this thread; it is made current again for each test."""
    first_device.set_current()
    yield first_device
    first_device.sync()


@pytest.fixture
def stream(device: cudacore_handles.Device) -> cudacore_handles.Stream:
    """Give a new stream of the device."""
    return device.create_stream()


@pytest.fixture(scope="session")
def second_device(first_device: cudacore_handles.Device) -> cudacore_handles.Device:
    """Give device 1, for fixtures of a wider scope than a test; tests take ``other_device``."""
    import cudacore_handles

    devices = cudacore_handles.Device.get_all_devices()
    if len(devices) < 2:
        pytest.skip("needs two devices")
    _ = devices[1].memory_resource, devices[1].context  # these are made at first use, and then kept
    return devices[1]


@pytest.fixture
def other_device(device: cudacore_handles.Device, second_device: cudacore_handles.Device) -> cudacore_handles.Device:
    """Give a second device; the first one is current."""
    return second_device


@pytest.fixture(autouse=True)
def _live_objects(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that ends with more live CUDA objects than it began with."""
    node = request.node
    # Without the second fixture, `device` is a parameter of the test. Tests of the driver alone destroy all objects.
    if not {"device", "first_device"}.issubset(node.fixturenames) or node.get_closest_marker("cuda_leaks_ok"):
        yield
        return
    request.getfixturevalue("first_device")
    import cudacore_handles

    before = cudacore_handles.live_counts()
    yield
    if node.stash.get(CALL_FAILED, False):
        return  # the traceback of the failure keeps the test's objects alive
    node.funcargs.clear()  # all other fixtures are torn down, but this dict still keeps their values alive
    if cudacore_handles.live_counts() == before:
        return  # without a garbage collection, which takes longer than most tests
    leaked = leaked_since(before)
    if leaked:
        what = ", ".join(f"{count} x {kind}" for kind, count in sorted(leaked.items()))
        pytest.fail(f"live CUDA objects that were not there before this test: {what}", pytrace=False)


@pytest.hookimpl(optionalhook=True)  # the plugin of cudacore-sim may not be installed
def pytest_cuda_settle() -> None:
    """Destroy the boxes in the reclaim queue (a hook of the plugin of cudacore-sim)."""
    if "cudacore_handles" in sys.modules:
        from cudacore_handles._cffi import lib

        lib.cch_reclaim_drain()


def make_captures_global() -> str:
    """Set the capture mode of the thread to the default of new threads; return the name of the previous mode."""
    from cuda.bindings import driver

    mode = driver.CUstreamCaptureMode
    error, had = driver.cuThreadExchangeStreamCaptureMode(mode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    assert not error, error
    return mode(had).name.removeprefix("CU_STREAM_CAPTURE_MODE_")


def live_objects() -> dict[str, int]:
    """Count the boxes of each kind that are alive after garbage was collected and the reclaim queue was emptied."""
    import cudacore_handles

    gc.collect()
    pytest_cuda_settle()
    return cudacore_handles.live_counts()


def leaked_since(before: dict[str, int], count: Callable[[], dict[str, int]] = live_objects) -> dict[str, int]:
    """Return how many objects of each kind have been added to the counts.

    Wait for a while until there are none, because a thread of the driver releases what graphs kept alive.
    """
    end = time.monotonic() + SECONDS_TO_SETTLE
    while True:
        leaked = {kind: now - before.get(kind, 0) for kind, now in count().items() if now > before.get(kind, 0)}
        if not leaked or time.monotonic() > end:
            return leaked
        time.sleep(0.01)


def _forget_locals(tb: TracebackType) -> None:
    """Release the objects of a test that ended in an error, such as a builder that is in a capture."""
    for frame, _ in traceback.walk_tb(tb):
        with contextlib.suppress(RuntimeError):  # the frame is still executing
            frame.clear()
            _ = frame.f_locals  # before Python 3.13, this updates the copy of the variables that the frame keeps
    gc.collect()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # the outermost wrapper, so that cudacore-sim's plugin gets the failure
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when in {"setup", "call"}:  # the traceback of an expected failure also keeps the test's objects
        item.stash[CALL_FAILED] = report.failed or (report.skipped and hasattr(report, "wasxfail"))
    reason = _why_too_old(call.excinfo.value) if report.failed and call.excinfo is not None else None
    if reason is not None and call.excinfo is not None:
        item.stash[TOO_OLD] = True
        _forget_locals(call.excinfo.tb)
        path, line, _ = item.location
        report.outcome = "skipped"
        report.longrepr = path, line or 0, f"Skipped: {reason}"
    elif report.failed and item.stash.get(TOO_OLD, False):  # the test stopped in the middle, perhaps in a capture
        report.outcome = "passed"
    return report
