# SPDX-License-Identifier: Apache-2.0
"""What the tests of all packages share: the driver to run on, the ``device`` fixture, the check for leaks.

A test that takes ``device`` gets device 0, current on its thread, and fails when it ends with more live CUDA objects
than it began with; ``@pytest.mark.leaks_ok("reason")`` excuses it. Fixtures of a wider scope take ``first_device``.

``--driver=auto`` (default)
    Use the CUDA driver and its device 0 where there is one, else the test double, as with ``fake``; where that cannot
    be built, tests that need a device are skipped.
``--driver=gpu``
    Fail at once where there is no usable device.
``--driver=fake``
    Run on the test double in packages/cudacore-handles/tests/c, or on the library that $CUDACORE_DRIVER names. It keeps
    books and copies memory but runs no kernel, so tests that are marked ``gpu`` are skipped.

Every run ends with a list of what was skipped and why.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

import build_fake_driver

if TYPE_CHECKING:
    import cudacore_handles

CALL_FAILED = pytest.StashKey[bool]()


@dataclasses.dataclass
class Driver:
    """What the tests run on."""

    kind: str  # "gpu", "fake" or "none"
    summary: str  # for the header
    reason: str = ""  # why there is no device


DRIVER = pytest.StashKey[Driver]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--driver",
        choices=("auto", "gpu", "fake"),
        default="auto",
        help="auto: a GPU where there is one, else fake; gpu: fail without one; fake: the test double of the driver",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a real GPU; skipped where there is none")
    config.addinivalue_line("markers", "leaks_ok(reason): may end with more live CUDA objects than it began with")
    choice = config.getoption("driver")
    driver = Driver("none", "")
    if choice == "gpu" or (choice == "auto" and "CUDACORE_DRIVER" not in os.environ):
        driver = find_driver("gpu")
    if choice == "fake" or (choice == "auto" and driver.kind == "none"):
        driver = find_fake_driver(choice, without=driver.reason)
    if driver.kind == "none" and choice != "auto":
        raise pytest.UsageError(f"--driver={choice}: {driver.reason}")
    config.stash[DRIVER] = driver


def find_fake_driver(choice: str, without: str) -> Driver:
    """Have this process, cuda-bindings included, load the test double in place of the driver that it is without."""
    if "CUDACORE_DRIVER" not in os.environ:
        try:
            library = build_fake_driver.build()
        except RuntimeError as error:
            reason = "; ".join(filter(None, (without, str(error))))
            return Driver("none", reason, reason)
        os.environ["CUDACORE_DRIVER"] = str(library)
    # It has the driver's soname: once loaded, it is what everybody else's dlopen("libcuda.so.1") finds.
    ctypes.CDLL(os.environ["CUDACORE_DRIVER"], mode=ctypes.RTLD_GLOBAL)
    return find_driver("fake")


def find_driver(kind: str) -> Driver:
    """Initialise the driver and describe its device 0, or say why that cannot be done."""
    try:
        import cudacore_handles
    except ImportError as error:
        reason = f"cudacore_handles cannot be imported: {error}"
        return Driver("none", reason, reason)
    try:
        devices = cudacore_handles.Device.get_all_devices()
    except cudacore_handles.CUDAError as error:
        reason = f"{error.operation}: {error.meaning}"
        return Driver("none", reason, reason)
    if not devices:
        return Driver("none", "no device", "the CUDA driver sees no device")
    name = "the test double" if kind == "fake" else devices[0].name
    return Driver(kind, f"{name}, sm_{devices[0].arch}, {len(devices)} device{'s'[: len(devices) > 1]}")


def pytest_report_header(config: pytest.Config) -> str:
    return f"driver: {config.stash[DRIVER].summary}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    driver = config.stash[DRIVER]
    if driver.kind == "gpu":
        return
    reason = "needs a real GPU: " + (driver.reason or "this is the test double")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    # What is there before the first test need not be looked through twice a test for garbage.
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.fixture(scope="session")
def first_device(pytestconfig: pytest.Config) -> cudacore_handles.Device:
    """Give device 0, for fixtures of a wider scope than a test; tests take ``device``."""
    driver = pytestconfig.stash[DRIVER]
    if driver.kind == "none":
        pytest.skip(f"needs a device: {driver.reason}")
    import cudacore_handles

    device = cudacore_handles.Device(0)
    device.set_current()
    # Made at first use and kept for good: have them now, lest they look like leaks of the first test that needs them.
    _ = device.memory_resource, device.default_stream, device.context
    return device


@pytest.fixture
def device(first_device: cudacore_handles.Device) -> Iterator[cudacore_handles.Device]:
    """Give device 0, current on this thread; it is made current again for each test."""
    first_device.set_current()
    yield first_device
    first_device.sync()


@pytest.fixture(autouse=True)
def _live_objects(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that ends with more live CUDA objects than it began with."""
    node = request.node
    if "device" not in node.fixturenames or node.get_closest_marker("leaks_ok"):
        yield
        return
    request.getfixturevalue("first_device")
    before = live_objects()
    yield
    if node.stash.get(CALL_FAILED, False):
        return  # the traceback keeps the test's objects
    node.funcargs.clear()  # all other fixtures of this test are torn down by now, but their values live on here
    leaked = {kind: count - before[kind] for kind, count in live_objects().items() if count > before[kind]}
    if leaked:
        what = ", ".join(f"{count} x {kind}" for kind, count in sorted(leaked.items()))
        pytest.fail(f"live CUDA objects that were not there before this test: {what}", pytrace=False)


def live_objects() -> dict[str, int]:
    """Count the boxes of each kind that are alive when garbage and the reclaim queue are cleared away."""
    import cudacore_handles

    gc.collect()
    return defaultdict(int, cudacore_handles.live_counts())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[CALL_FAILED] = report.failed
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        skipped[reason.removeprefix("Skipped: ")].append(report.nodeid.partition("::")[0])
    if not skipped:
        return
    terminalreporter.section("skipped, and why")
    for reason, files in sorted(skipped.items(), key=lambda entry: -len(entry[1])):
        terminalreporter.write_line(f"{len(files):5}  {reason}")
        for file in sorted(set(files)):
            terminalreporter.write_line(f"         {files.count(file):3}  {file}")
