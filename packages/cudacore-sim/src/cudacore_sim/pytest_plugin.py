# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: run tests of CUDA programs on the simulated driver, or on a GPU.

``--cuda-driver=sim``
    The simulator is this process's CUDA driver, even if there is a GPU. After each test, the plugin checks that no
    objects of the driver leaked, that the driver was not misused, and that no kernel failed.
    ``@pytest.mark.cuda_leaks_ok("reason")`` and ``@pytest.mark.cuda_misuse_ok("reason")`` excuse a test. The error of a
    failed kernel is cleared before the next test. Tests that are marked ``cuda_gpu`` are skipped. pytest is started
    again in the environment of ``python -m cudacore_sim``, unless the setting ``cuda_preload`` is false.
``--cuda-check=race,sync,init,order``
    With ``--cuda-driver=sim``: checks of kernels and of the order between them, as for ``CUDACORE_SIM_CHECK``. A
    finding fails the test that launched the kernel, like misuse of the driver.
``--cuda-leaks=none|mine|all``
    With ``--cuda-driver=sim``: which objects count as leaks: none; those that the project has created itself; or also
    those that libraries have created for it. Objects of the kinds in the setting ``cuda_kept_kinds`` are never leaks.
    A kernel is stopped if a thread executes more instructions than the setting ``cuda_instruction_limit`` of the
    configuration file allows. Ctrl+C, and the signal of pytest-timeout, also stop a kernel that the test waits for.
``--cuda-driver=gpu``
    The machine's own driver. The run fails at once if there is no device. Tests that are marked ``cuda_sim`` are
    skipped.

Without the option, the plugin only skips tests that are marked ``cuda_sim`` or use the ``cuda_sim`` fixture.
``cuda_driver`` in the configuration file is the default of the option.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

import cudacore_sim
from cudacore_sim._environment import simulated_environment

CHOICE = pytest.StashKey[str]()
LEVEL = pytest.StashKey[str]()
FAILED = pytest.StashKey[bool]()
KERNEL_FAILED = pytest.StashKey[bool]()
KNOWN = pytest.StashKey[int]()
MISUSE = pytest.StashKey[list[str]]()  # what was reported before the fixture `cuda_sim` forgot it
EXPLAINED = pytest.StashKey[int]()
SIGNALS = pytest.StashKey["_Signals"]()

_STARTED = "_CUDACORE_SIM_PYTEST"  # the environment variable with the number of the process that was started again
_sessions: list[str] = []  # of pytest in this process; a test can call pytest

MARKERS = (
    "cuda_gpu: needs a real GPU; skipped on the simulated driver",
    "cuda_sim: needs the simulated driver; skipped on a GPU",
    "cuda_leaks_ok(reason): may end with more live objects of the driver than it began with",
    "cuda_misuse_ok(reason): misuses the driver on purpose, lets a kernel fail, or has findings of --cuda-check",
)

LEVELS = ("none", "mine", "all")
_INSTRUCTION_LIMIT = 1_000_000_000  # of a thread: correct kernels of tests are far below
_SECONDS_TO_SETTLE = 2
_MAX_LEAKS = 5  # how many leaked objects of a kind the message of a test lists


class _Hooks:
    """Hooks that a project can implement in its conftest.py."""

    @pytest.hookspec
    def pytest_cuda_settle(self) -> None:
        """Destroy objects whose destruction was deferred, before the plugin counts live objects."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the hooks."""
    pluginmanager.add_hookspecs(_Hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--cuda-driver`` and its default."""
    group = parser.getgroup("cudacore-sim", "CUDA driver")
    group.addoption(
        "--cuda-driver", choices=("sim", "gpu"), default=None, help="the CUDA driver to test on: simulated, or a GPU's"
    )
    group.addoption(
        "--cuda-check",
        default=None,
        metavar="RACE,SYNC,INIT,ORDER",
        help="with --cuda-driver=sim: what to look for in work, several with commas between them",
    )
    group.addoption(
        "--cuda-leaks",
        choices=LEVELS,
        default=None,
        help="with --cuda-driver=sim: what counts as leaks: none, the project's own, or those of libraries, too",
    )
    parser.addini("cuda_driver", "default of --cuda-driver: sim or gpu", default="")
    parser.addini("cuda_leaks", "default of --cuda-leaks: none, mine or all", default="all")
    parser.addini(
        "cuda_kept_kinds", "with --cuda-driver=sim: kinds of objects that tests may keep, such as library", type="args"
    )
    parser.addini(
        "cuda_preload",
        "with --cuda-driver=sim: start pytest again so that cubins of NVRTC, nvJitLink and ptxas run",
        type="bool",
        default=True,
    )
    parser.addini(
        "cuda_instruction_limit",
        "with --cuda-driver=sim: stop a kernel if a thread executes more instructions; 0 is no limit",
        default=str(_INSTRUCTION_LIMIT),
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Start pytest again with the simulator's environment, before its output is captured and anything is imported.

    The simulator can run cubins only if its preloaded library has put their PTX into them. A library can only be
    preloaded when a process starts. Only the command pytest is started again, not a program that calls pytest.
    """
    given, process = early_config.invocation_params.args, str(os.getpid())
    is_first = not _sessions and os.environ.get(_STARTED) != process
    _sessions.append(process)
    is_command = Path(sys.argv[0]).name in {"pytest", "py.test"} or sys.argv[0].endswith("/pytest/__main__.py")
    chosen = early_config.known_args_namespace.cuda_driver or early_config.getini("cuda_driver")
    is_command = is_command and is_first and list(given) == sys.argv[1:]
    if chosen == "sim" and is_command and early_config.getini("cuda_preload"):
        with contextlib.suppress(cudacore_sim.SimulatorError):  # pytest_configure raises it
            changed = simulated_environment()
            if not changed.items() <= os.environ.items():
                environment = os.environ | changed | {_STARTED: process}
                os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and load the driver that was chosen."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    choice = config.stash[CHOICE] = _choice(config)
    config.stash[LEVEL] = _level(config)
    _set_checks(config)
    if choice == "sim":
        os.environ.setdefault("CUDACORE_SIM_INSTRUCTION_LIMIT", str(config.getini("cuda_instruction_limit")))
        try:
            cudacore_sim.load()
        except cudacore_sim.SimulatorError as error:
            raise pytest.UsageError(f"--cuda-driver=sim: {error}") from error
        cudacore_sim.remember_origins()
        # pytest hides the simulator's warnings on stderr, so tests would pass without a setting that is misspelt.
        if ignored := cudacore_sim.ignored_settings():
            raise pytest.UsageError("--cuda-driver=sim: " + "; ".join(ignored))
        if unknown := set(config.getini("cuda_kept_kinds")) - cudacore_sim.live().keys():
            kinds = ", ".join(cudacore_sim.live())
            raise pytest.UsageError(f"cuda_kept_kinds has {', '.join(sorted(unknown))}; the kinds are {kinds}")
        config.stash[SIGNALS] = _Signals()
    elif choice == "gpu":
        reason = _why_no_gpu()
        if reason:
            raise pytest.UsageError(f"--cuda-driver=gpu: {reason}")


class _Signals:
    """Signals end the kernels that a test waits for: no handler of Python runs during a call of the driver."""

    _END = frozenset({signal.SIGINT, signal.SIGALRM, signal.SIGTERM})

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        os.register_at_fork(after_in_child=self._forked)
        cudacore_sim.watch_signals(self._reader.fileno())

    def test_begins(self) -> None:
        """Have the signals from now on, and forget earlier ones. Other libraries, such as asyncio, replace the file."""
        if threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._read()

    def test_ends(self) -> None:
        """End kernels that a test has left behind because of a signal, for fixtures that wait for them at their end."""
        if self._END & self._read():
            cudacore_sim.stop_kernels("a signal ended the test")

    def _read(self) -> set[int]:
        try:
            return set(self._reader.recv(4096))
        except BlockingIOError:
            return set()

    def _forked(self) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(-1)


def _set_checks(config: pytest.Config) -> None:
    """Set the checks that the command line selects, before the driver is loaded."""
    checks = config.getoption("cuda_check")
    if checks is None:
        return
    if config.stash[CHOICE] != "sim":
        raise pytest.UsageError("--cuda-check needs the simulated driver: --cuda-driver=sim")
    if cudacore_sim.is_loaded():
        raise pytest.UsageError("--cuda-check comes too late: the driver is loaded; set CUDACORE_SIM_CHECK instead")
    os.environ["CUDACORE_SIM_CHECK"] = checks


def _choice(config: pytest.Config) -> str:
    """Return the value of ``--cuda-driver`` or, if it is not given, of ``cuda_driver`` in the configuration file."""
    choice = str(config.getoption("cuda_driver") or config.getini("cuda_driver"))
    if choice not in {"", "sim", "gpu"}:
        raise pytest.UsageError(f"cuda_driver is {choice!r}; it must be sim or gpu")
    return choice


def _level(config: pytest.Config) -> str:
    """Return the value of ``--cuda-leaks`` or, if it is not given, of ``cuda_leaks`` in the configuration file."""
    level = str(config.getoption("cuda_leaks") or config.getini("cuda_leaks"))
    if level not in LEVELS:
        raise pytest.UsageError(f"cuda_leaks is {level!r}; it must be one of {', '.join(LEVELS)}")
    return level


def _why_no_gpu() -> str:
    """Return the reason why there is no device to run tests on; empty if there is a device."""
    if cudacore_sim.is_loaded():
        return "the simulated driver is loaded"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"there is no CUDA driver, and --cuda-driver=sim needs none: {error}"
    if hasattr(driver, "cudasim_version"):
        return "libcuda.so.1 is the simulated driver"
    count = ctypes.c_int()
    for name, arguments in (("cuInit", (0,)), ("cuDeviceGetCount", (ctypes.byref(count),))):
        status = getattr(driver, name)(*arguments)
        if status:
            return f"{name} fails with CUresult {status}"
    return "" if count.value else "the driver sees no device"


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return the line of pytest's header that names the driver."""
    choice = config.stash[CHOICE]
    if choice == "sim":
        return f"CUDA driver: simulated, {cudacore_sim.get_library()}"
    return "CUDA driver: the machine's own" if choice else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that need a driver other than the chosen one."""
    choice = config.stash[CHOICE]
    for item in items:
        if choice == "sim" and item.get_closest_marker("cuda_gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a real GPU: this is the simulated driver"))
        if choice != "sim" and (item.get_closest_marker("cuda_sim") or "cuda_sim" in getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.skip(reason="needs the simulated driver: run with --cuda-driver=sim"))


@pytest.fixture
def cuda_sim(request: pytest.FixtureRequest) -> Iterator[types.ModuleType]:
    """Give the module `cudacore_sim`, the controls of the simulated driver; `reset` it before and after the test."""
    cudacore_sim.reset()
    yield cudacore_sim
    node = request.node
    node.stash[MISUSE] = cudacore_sim.reports(after=node.stash[KNOWN])  # `reset` forgets them
    cudacore_sim.reset()


@pytest.fixture(autouse=True)
def _cuda_objects(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves objects of the driver behind, or that misuses the driver."""
    if request.config.stash[CHOICE] != "sim":
        yield
        return
    node = request.node
    before = _live(request.config)
    newest = cudacore_sim.newest()
    request.config.stash[SIGNALS].test_begins()
    known = node.stash[KNOWN] = cudacore_sim.count_reports()
    node.stash[EXPLAINED] = cudacore_sim.count_explanations()
    yield
    failed = cudacore_sim.clear_errors() > 0 or node.stash.get(KERNEL_FAILED, False)
    if node.stash.get(FAILED, False):
        return  # the traceback of the failed test keeps the test's objects alive
    node.funcargs.clear()  # the fixtures are torn down, but pytest still refers to their values
    problems = []
    # After a kernel has failed, objects that the test releases cannot be freed, so they do not count as leaks.
    may_leak = failed or node.get_closest_marker("cuda_leaks_ok") is not None
    leaked = {} if may_leak else _leaked(request.config, before, newest)
    # Garbage can keep objects. It is collected only here, because that takes longer than most tests. Then wait until
    # the driver's own thread has destroyed the user objects of graphs, and the objects that they keep.
    end = time.monotonic() + _SECONDS_TO_SETTLE
    while leaked and time.monotonic() < end:
        if gc.collect() == 0:
            time.sleep(0.01)
        leaked = _leaked(request.config, before, newest)
    if leaked:
        counts = ", ".join(f"{count} x {kind}" for kind, count in leaked.items())
        lines = [f"objects of the driver that were not there before this test: {counts}"]
        for kind in leaked:
            found = _new(request.config, kind, newest)
            lines += found[:_MAX_LEAKS]
            lines += [f"and {len(found) - _MAX_LEAKS} more"] if len(found) > _MAX_LEAKS else []
        lines.append(_advice(request.config, leaked))
        problems.append("\n  ".join(lines))
    misuse = node.stash.get(MISUSE, []) + cudacore_sim.reports(after=known)
    if misuse and not node.get_closest_marker("cuda_misuse_ok"):
        problems.append(f"{'a kernel failed' if failed else 'the simulated driver reports'}:\n  " + "\n  ".join(misuse))
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Clear the error of a kernel before fixtures are torn down, because otherwise they could not free anything."""
    # Clearing errors waits for work. Without new reports, do not wait: a fixture may have to end the work.
    if KNOWN not in item.stash:
        return
    if item.stash.get(FAILED, False):  # otherwise, the test has handled its signals itself
        item.config.stash[SIGNALS].test_ends()
    if cudacore_sim.count_reports() != item.stash[KNOWN]:
        item.stash[KERNEL_FAILED] = cudacore_sim.clear_errors() > 0


def _advice(config: pytest.Config, leaked: dict[str, int]) -> str:
    """Return what to do about objects that a program keeps on purpose, such as compiled kernels in a cache."""
    ways = ["make them before the first test", f"write cuda_kept_kinds = {' '.join(leaked)} in the configuration file"]
    if config.stash[LEVEL] == "all":
        ways.append("use --cuda-leaks=mine if another library keeps them")
    return f"If they are kept on purpose: {', '.join(ways[:-1])} or {ways[-1]}"


def _new(config: pytest.Config, kind: str, newest: int) -> list[str]:
    """Describe the objects of a kind that a test has created and that count as leaks."""
    return cudacore_sim.describe_live(kind, after=newest, mine=config.stash[LEVEL] == "mine")


def _leaked(config: pytest.Config, before: dict[str, int], newest: int) -> dict[str, int]:
    """Return how many more objects of each kind there are than before."""
    more = {kind: count - before[kind] for kind, count in _live(config).items() if count > before[kind]}
    if config.stash[LEVEL] == "mine":
        more = {kind: min(count, len(_new(config, kind, newest))) for kind, count in more.items()}
    return {kind: count for kind, count in more.items() if count}


def _live(config: pytest.Config) -> dict[str, int]:
    """Count the objects of the driver of the kinds that can leak."""
    if config.stash[LEVEL] == "none":
        return {}
    config.hook.pytest_cuda_settle()
    counts = cudacore_sim.live()
    del counts["context"]  # primary contexts, and the objects that they need, remain after their first use
    if "cudacore_handles._cffi" in sys.modules:
        from cudacore_handles._sdk.testing import count_copy_kernels, count_helper_streams

        counts["library"] -= count_copy_kernels()  # the libraries of copy kernels remain, too
        counts["stream"] -= count_helper_streams()
    kept = config.getini("cuda_kept_kinds")
    return {kind: count for kind, count in counts.items() if kind not in kept}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record whether the test failed, in its fixtures or in its call, even if that was expected."""
    report = yield
    if report.when in {"setup", "call"}:
        item.stash[FAILED] = report.failed or (report.skipped and hasattr(report, "wasxfail"))
        if report.failed and KNOWN in item.stash:
            shown = report.longreprtext  # errors of cudacore contain what the driver reported
            found = [line for line in _reported_since(item.stash[KNOWN], item.stash[EXPLAINED]) if line not in shown]
            if found:
                report.sections.append(("What the simulated driver reported", "\n".join(found)))
    return report


def _reported_since(reported: int, explained: int) -> list[str]:
    """Return the reports since a test began, and the reason of the last failed call, without repetitions."""
    found = [
        *cudacore_sim.reports(after=reported),
        *cudacore_sim.explanations(after=explained),
        *cudacore_sim.why().splitlines(),
    ]
    return list(dict.fromkeys(found))
