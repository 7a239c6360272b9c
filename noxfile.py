# SPDX-License-Identifier: Apache-2.0
"""All tasks of this repository: ``nox -l`` lists them, and ``nox -s NAME`` runs one.

Needs Python 3.10 or later, gcc and g++, and PyPI. All sessions test the wheels that ``build`` makes. A package is only
built again if its sources have changed. Arguments after ``--`` are passed to the program that a session runs.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "types", "c", "tests"]

ROOT = Path(__file__).parent
BUILD = ROOT / "build"
WHEELS = BUILD / "wheels"
DIST = BUILD / "dist"
MACHINE = platform.machine()
# The packages, in the order of their dependencies.
PACKAGES = ("cudacore-handles", "cudacore-compile", "cudacore-graph", "cudacore-sim", "cudacore")
HANDLES = ROOT / "packages" / "cudacore-handles"
COMPILE = ROOT / "packages" / "cudacore-compile"
GRAPH = ROOT / "packages" / "cudacore-graph"
SIM = ROOT / "packages" / "cudacore-sim"
# The build folder of the simulator's wheel: see ci/build_wheels.py.
SIM_BUILD = BUILD / "sim"
ENGINE = SIM_BUILD / "tests" / "engine" / "libengine.so"

PYPROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
PYTHONS = nox.project.python_versions(nox.project.load_toml(ROOT / "packages" / "cudacore" / "pyproject.toml"))

# CPython without a GIL: cudacore-handles has a wheel for each of them.
FREE_THREADED = ["3.14t", "3.15t"]
# Tests that stress_ft calls on several threads at once.
ON_THREADS = [f"packages/cudacore-handles/tests/{room}" for room in ("launch", "views")]

# nox also finds interpreters of pyenv that are not activated.
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], *map(str, sorted(PYENV.glob("versions/*/bin")))])
# Tests start many processes, which must not compile the same modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# CUDA versions to test with, newest first: the versions of cuda-bindings and of cuda-toolkit to install. cuda-toolkit
# pins the versions of everything that the extras install.
CUDA = {"13.x": "13.*", "13.0": "13.0.*", "12.9": "12.9.*"}
# The versions that ``tests`` uses: the newest and the oldest.
TESTED = ["13.x", "12.9"]
# What ``tests`` runs with the oldest: tests of what uses compilers and cuda-bindings, without programs of the guides,
# and without tests of processes, files and build systems around compilers. All others run the same code on the same
# driver with every version of CUDA; tests_all runs them with each, too.
WITH_OLDEST_CUDA = [
    "packages/cudacore-compile",
    *(f"--ignore=packages/cudacore-compile/tests/command/test_command_{name}.py" for name in ("depfile", "nvcc")),
    *(f"--ignore=packages/cudacore-compile/tests/cache/test_{name}.py" for name in ("cache_stress", "docs_cache")),
    "--ignore=packages/cudacore-compile/tests/test_batch.py",
    "packages/cudacore",
    *(
        f"--ignore=packages/cudacore/tests/test_{name}.py"
        for name in ("as_cuda_core", "examples", "guides", "simulator_guides", "trace_guide")
    ),
    *(f"packages/cudacore-handles/tests/{room}" for room in ("code", "compiler", "driver", "launch", "views")),
    *(f"packages/cudacore-graph/tests/test_{name}.py" for name in ("builder", "definition", "graph")),
    *(f"packages/cudacore-sim/tests/{room}" for room in ("checks", "corpus", "driver/code", "engine", "nvml")),
    "packages/cudacore-sim/tests/control/test_cuda_core.py",
]
# Slow tests of what rarely breaks: an example that makes an environment of its own, and a cluster. tests leaves them
# out, tests_all runs them.
RARE = (
    "--ignore=packages/cudacore-sim/tests/control/test_example.py",
    "--deselect=packages/cudacore-compile/tests/cache/test_docs_cache.py::test_guide_to_clusters",
)
# What tests_all installs with a Python instead of the newest versions. With the oldest Python, it also installs the
# oldest versions that the packages accept. NumPy 2.1.0 crashes where other versions raise an exception.
PINS = {"3.10": ["numpy==1.26.*"], "3.11": ["numpy==2.0.*"], "3.12": ["numpy==2.1.0"]}
# Drivers to simulate, each with the compilers of its major version: their cubins run on every driver of that major
# version, but their PTX runs only on a driver of the same version or a newer one.
DRIVERS = {"12.0": "12.9", "12.2": "12.9", "12.4": "12.9", "12.6": "12.9", "12.9": "12.9", "13.0": "13.0"}
# Packages of other projects, with the programs that use them on the simulator.
CLIENT_PROGRAMS = SIM / "tests" / "clients"
CLIENTS = nox.project.load_toml(CLIENT_PROGRAMS / "clients.toml")
# The packages that use cuda.core. The session runs each with cuda.core, and again with cudacore in its place.
ON_CUDACORE = ("cuda-core", "numba-cuda", "numba-cuda-mlir", "cuda-compute", "nvmath")
ASAN = ("-Db_lundef=false", "-Db_sanitize=address,undefined")
TSAN = ("-Db_lundef=false", "-Db_sanitize=thread")
# Options of the sanitizers. Leaks are not reported, because Python itself leaks. Segmentation faults are not reported,
# because a test causes one on purpose.
UNDER_ASAN = {"ASAN_OPTIONS": "detect_leaks=0:handle_segv=0", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
# Under a sanitizer, tests in C also ask for more memory than there can be: like malloc(), it must not end the process.
IN_C = {f"{name}_OPTIONS": "halt_on_error=1:abort_on_error=1:allocator_may_return_null=1" for name in ("ASAN", "TSAN")}
UNDER_TSAN = {"TSAN_OPTIONS": f"halt_on_error=1:suppressions={HANDLES / 'tests' / 'tsan.supp'}"}
# The oldest glibc with which releases run.
GLIBC = re.findall(r'^GLIBC = "(.*)"', (ROOT / "ci" / "build_dist.py").read_text(encoding="utf-8"), re.MULTILINE)[0]
# The extras that install all compilers of a CUDA version, and the headers that the tests' kernels include.
EXTRAS = {"12": "cu12,link,nvvm-cu12,headers", "13": "cu13,link,nvvm,headers"}


def file_name(package: str) -> str:
    """Return the prefix that the file names of a package's wheels and source distribution have in common."""
    settings = nox.project.load_toml(ROOT / "packages" / package / "pyproject.toml")
    return f"{settings['project']['name'].replace('-', '_')}-"


def version_of(session: nox.Session) -> str:
    """Return the version of a session's Python, such as "3.14" or "3.14t"."""
    running = f"{sys.version_info[0]}.{sys.version_info[1]}{'t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''}"
    return str(session.python or running)


def wheels_of(folder: Path, python: str) -> list[str]:
    """Return what to install of all packages, in the order of their dependencies, on this machine and a Python.

    These are wheels in a folder. If it has none of cudacore-handles for a Python without a GIL, it is the source.
    """
    found = [[*folder.glob(f"{file_name(name)}*{what}.whl")] for name in PACKAGES for what in ("any", MACHINE)]
    wheels = [wheel for each in found for wheel in each if not re.search(r"-cp\d+t-|-abi3-", wheel.name)]
    abi = f"-cp{python.replace('.', '')}-" if python.endswith("t") else "-abi3-"
    handles = [wheel for each in found for wheel in each if abi in wheel.name]
    return [str(each) for each in [*(handles or [HANDLES]), *wheels]]


def oldest_versions() -> list[str]:
    """Return pins to the oldest versions of what the packages depend on, apart from CUDA's and NumPy's."""
    projects = [nox.project.load_toml(ROOT / "packages" / name / "pyproject.toml")["project"] for name in PACKAGES]
    wanted = [each for project in projects for each in project.get("dependencies", ())]
    pairs = [re.fullmatch(r"([\w-]+)>=([\d.]+)", each) for each in wanted]
    return sorted({f"{pair[1]}=={pair[2]}" for pair in pairs if pair is not None})


def install(
    session: nox.Session, *groups: str, cuda: str = "13.x", folder: Path = WHEELS, more: Sequence[str] = ()
) -> None:
    """Install the wheels in a folder with the compilers and headers of a CUDA version, and dependency groups."""
    # Some kernels of the simulator's tests include cuRAND's headers, and need CUDA 13.
    toolkit = "cuda-toolkit[curand]" if "test" in groups and cuda.startswith("13") else "cuda-toolkit"
    # The toolkit 13.0 accepts any nvJitLink of CUDA 13. But no driver for 13.0 compiles PTX that a newer nvJitLink has
    # linked.
    linker = ("nvidia-nvjitlink",) if cuda == "13.0" else ()
    pins = [f"{name}=={CUDA[cuda]}" for name in ("cuda-bindings", toolkit, *linker)]
    wheels = wheels_of(folder, version_of(session))
    umbrella = f"{wheels[-1]}[{EXTRAS[cuda.partition('.')[0]]}]"
    session.install(*wheels, umbrella, *pins, *more, *nox.project.dependency_groups(PYPROJECT, *groups))
    # pip does not install a wheel if its version is installed already, even if the contents differ.
    session.install("--no-deps", "--force-reinstall", *wheels)


# In CI, up to three failed tests are repeated once, and their failures are shown: tests with threads and time limits
# can fail on a busy machine. A test that ends its process is not repeated.
RERUNS = ("--reruns", "1", "--max-suite-reruns", "3", "--rerun-show-tracebacks") if "CI" in os.environ else ()
# One process per core and one more, because some tests wait. Tests of one file run in the same process, so that their
# fixtures are made once.
WORKERS = ("-n", str((os.cpu_count() or 1) + 1), "--dist", "loadfile")
PYTEST = ("python", "-m", "pytest", *WORKERS, *RERUNS, "-p", "no:cacheprovider")


def copy_tests(away: str, root: Path = ROOT) -> None:
    """Copy the tests of the packages in a folder, and what they need, to a folder without the packages' sources."""
    for folder, patterns in (
        (root, ("packages/*/tests", "packages/*/README.md")),
        (ROOT, ("ci", "docs", "examples", "tests", "README.md", "conftest.py", "pyproject.toml")),
    ):
        names = [str(path.relative_to(folder)) for pattern in patterns for path in folder.glob(pattern)]
        subprocess.run(["cp", "-rp", "--parents", "--target-directory", away, *names], cwd=folder, check=True)


def run_tests(
    session: nox.Session,
    cuda: str,
    driver: str | None = None,
    folder: Path = WHEELS,
    more: Sequence[str] = (),
    paths: Sequence[str] = (f"packages/{SIM.name}",),
) -> None:
    """Run the tests on the simulated driver, or on another one: ``-- --cuda-driver=gpu`` uses the machine's driver.

    If `driver` is a version of CUDA, the simulated driver has that version. `more` is installed, too. `paths` are the
    arguments of pytest; without paths, all tests of the other packages run.
    """
    install(session, "test", cuda=cuda, folder=folder, more=more)
    settings = {"CUDACORE_SIM_DRIVER_VERSION": driver} if driver is not None else {}
    if session.posargs:
        session.run("python", "-m", "pytest", *session.posargs, env=settings)
        return
    # In a folder without the sources, because the tests must run on the contents of the wheels. The bytecode in it is
    # kept: each worker would take 6 seconds to compile all tests.
    away = BUILD / f"away-{session.name.partition('(')[0]}"
    away.mkdir(parents=True, exist_ok=True)
    subprocess.run(["find", away, "-type", "f", "-not", "-path", "*/__pycache__/*", "-delete"], check=True)
    copy_tests(str(away))
    with session.chdir(away):
        # Tests that need two devices are skipped if there is only one device.
        others = (path for path in paths if SIM.name not in path)
        session.run(*PYTEST, *others, env={"CUDACORE_SIM_DEVICES": "2"} | settings)
    if driver is not None or folder != WHEELS:
        return
    # The simulator's own tests need its sources and its build folder. They choose the versions to simulate themselves,
    # and destroy all objects of their process, so they run in separate processes.
    of_simulator = (path for path in paths if SIM.name in path)
    session.run(*PYTEST, *of_simulator, env={"CUDACORE_SIM_ENGINE": str(ENGINE)})


def build_with_meson(session: nox.Session, name: str, package: Path, *options: str) -> Path:
    """Build a package's library and its tests in a separate folder, which is kept, and return the folder."""
    folder = BUILD / name
    if not (folder / "build.ninja").exists():
        common = ("-Dtests=true", "-Dpython=false", "--buildtype=debugoptimized", "--werror")
        session.run("meson", "setup", str(folder), str(package), *common, *options)
    else:  # the existing folder may have been configured with other options
        session.run("meson", "configure", str(folder), *options)
    session.run("meson", "compile", "-C", str(folder), log=False)
    return folder


def compilers_of(session: nox.Session) -> dict[str, str]:
    """Return a variable with NVRTC's folder, which glibc's dlopen searches, but not the dlopen of sanitizers."""
    found = Path(session.virtualenv.location).glob("lib/python*/site-packages/nvidia/*/lib")
    return {"LD_LIBRARY_PATH": os.pathsep.join(map(str, found))}


def install_handles(session: nox.Session, name: str, *options: str) -> str:
    """Build cudacore-handles without its tests, and install it into a folder of its own. Return the folder."""
    site = BUILD / name / "site"
    where = ("-Dtests=false", "-Dpython=true", f"-Dpython.platlibdir={site}", f"-Dpython.purelibdir={site}")
    folder = build_with_meson(session, name, HANDLES, *options, *where)
    session.run("meson", "install", "-C", str(folder), "--quiet", log=False)
    return str(site)


def run_stress(session: nox.Session, *python: str, **settings: str) -> None:
    """Run the stress test, on a simulated driver that reuses addresses immediately, and on one that does not."""
    arguments = (str(HANDLES / "tests" / "stress.py"), *(session.posargs or ("--seconds", "30")))
    for reuse in ("0", "1"):
        env = {"CUDACORE_DRIVER": "sim", "CUDACORE_SIM_REUSE": reuse, **settings}
        session.run(*python, *arguments, env=env, external=True)


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Build the wheels of all packages into build/wheels, and the simulator, with its tests in C++, in build/sim."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "editable"))
    session.run("python", "ci/build_wheels.py", str(WHEELS), *PACKAGES)


@nox.session(default=False)
def dev(session: nox.Session) -> None:
    """Make an environment to develop in, .nox/dev: editable installs, C code is rebuilt at import, all tools."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "editable", "test", "lint", "types", "docs", "demo"))
    for compiled in (HANDLES, SIM):
        session.install("--no-build-isolation", "--editable", str(compiled))
    umbrella = f"{ROOT / 'packages' / 'cudacore'}[{EXTRAS['13']}]"
    pure = [option for path in (COMPILE, GRAPH, umbrella) for option in ("--editable", str(path))]
    session.install(*pure, f"cuda-toolkit[curand]=={CUDA['13.x']}")


@nox.session(requires=["build"])
def demo(session: nox.Session) -> None:
    """Compile a template, and a kernel for several architectures, and launch them: on a GPU, or on the simulator."""
    install(session, "demo")
    count = "import cudacore; print(len(cudacore.Device.get_all_devices()))"
    found = str(session.run("python", "-c", count, silent=True, success_codes=[0, 1])).strip()
    env = {} if found.isdigit() and found != "0" else {"CUDACORE_DRIVER": "sim"}
    with session.chdir(session.create_tmp()):  # ahead_of_time.py writes a file
        for name in ("templates", "ahead_of_time"):
            session.run("python", str(ROOT / "examples" / f"{name}.py"), env=env)


@nox.session(requires=["build"])
@nox.parametrize("cuda", TESTED)
def tests(session: nox.Session, cuda: str) -> None:
    """Run most tests with the newest CUDA, and those that use compilers with the oldest; tests_all runs all of them."""
    rooms = [f"packages/{SIM.name}"] if cuda == TESTED[0] else WITH_OLDEST_CUDA
    run_tests(session, cuda, paths=[*RARE, *rooms])


@nox.session(requires=["build"], python=FREE_THREADED, default=False)
def stress_ft(session: nox.Session) -> None:
    """Use, close and drop shared objects on many threads, without a GIL; and the tests of races, twenty times.

    Tests of launches and views are also called on four threads at once, by pytest-run-parallel.

    ``-- --seconds 600 --seed 7`` runs longer, with other random choices. $CUDACORE_TSAN_PYTHON can be a CPython of the
    same version that was configured with ``--disable-gil --with-thread-sanitizer``. Both then also run there, with the
    extension module and the library built with ThreadSanitizer, which cannot see the locks of any other CPython.
    """
    install(session, "test", "editable", "threads")
    session.run("python", "-c", "import sys, cudacore; assert not sys._is_gil_enabled()")
    run_stress(session, "python")
    races = [str(HANDLES / "tests" / "base" / "test_races.py"), str(GRAPH / "tests" / "test_races.py")]
    pytest = ("-m", "pytest", "-p", "no:cacheprovider")
    session.run("python", *pytest, "--keep-duplicates", *races * 20)
    session.run("python", *pytest, "-p", "no:randomly", "--parallel-threads", "4", *ON_THREADS)
    python = os.environ.get("CUDACORE_TSAN_PYTHON")
    if python is None:
        return
    # CPython 3.14t has no limited API. Under ThreadSanitizer, gcc warns of variables that are initialised.
    site = install_handles(session, "stress-ft", *TSAN, "-Dpython.allow_limited_api=false", "-Dwerror=false")
    packages = session.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", silent=True)
    env = {**compilers_of(session), **UNDER_TSAN, "PYTHONPATH": os.pathsep.join([site, str(packages).strip()])}
    command = (*fixed_addresses().split(), python)
    run_stress(session, *command, **env)
    tests = ("--capture=no", "-k", "not gil and not subinterpreters", *races)
    session.run(*command, *pytest, *tests, env=env | {"CUDACORE_DRIVER": "sim"}, external=True)


@nox.session(requires=["build"], python=[*PYTHONS, *FREE_THREADED], default=False)
@nox.parametrize("cuda", list(CUDA))
def tests_all(session: nox.Session, cuda: str) -> None:
    """Run the tests on every Python that is found, with every CUDA; with old Pythons, also old NumPys: see PINS."""
    python = str(session.python)
    run_tests(session, cuda, more=[*PINS.get(python, ()), *(oldest_versions() if python == PYTHONS[0] else ())])


@nox.session(requires=["build"], default=False)
@nox.parametrize("driver", list(DRIVERS))
def tests_drivers(session: nox.Session, driver: str) -> None:
    """Run the tests on simulated drivers of several versions, with compilers of the same or a newer version."""
    run_tests(session, DRIVERS[driver], driver)


@nox.session(default=False)
@nox.parametrize("cuda", list(CUDA))
def tests_dist(session: nox.Session, cuda: str) -> None:
    """Run the tests on the wheels of the release in build/dist that are for this machine."""
    run_tests(session, cuda, folder=DIST)


def meson_test(session: nox.Session, name: str, package: Path, *options: str, wrapper: str = "") -> None:
    """Run a package's tests in C and C++."""
    folder = build_with_meson(session, name, package, *options)
    wrap = ["--wrapper", wrapper] if wrapper else []
    session.run("meson", "test", "-C", str(folder), "--print-errorlogs", *wrap, *session.posargs, env=IN_C)


@nox.session(requires=["build"])
def c(session: nox.Session) -> None:
    """Run the tests in C and C++."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "meson"))
    meson_test(session, "c", HANDLES, f"-Dsimulator={SIM_BUILD / 'libcuda.so.1'}")
    session.run("meson", "test", "-C", str(SIM_BUILD), "--no-rebuild", "--print-errorlogs", *session.posargs)


@nox.session
def clang(session: nox.Session) -> None:
    """Compile and link all C and C++ as it is released, with Zig's clang for the oldest glibc.

    ``-- PACKAGE...`` compiles only these packages. The simulator takes minutes.
    """
    session.install(*nox.project.dependency_groups(PYPROJECT, "meson", "clang"), "cffi>=2")
    zig, target = f"{session.virtualenv.location}/bin/python -m ziglang", f"{MACHINE}-linux-gnu.{GLIBC}"
    env = {"CC": f"{zig} cc -target {target}", "CXX": f"{zig} c++ -target {target}"}
    for package in (ROOT / "packages" / name for name in session.posargs or (HANDLES.name, SIM.name)):
        folder = BUILD / f"clang-{GLIBC}-{package.name}"
        if not (folder / "build.ninja").exists():
            session.run("meson", "setup", str(folder), str(package), "--buildtype=plain", "--werror", env=env)
        session.run("meson", "compile", "-C", str(folder), env=env, log=False)


def fixed_addresses() -> str:
    """Return the prefix of a command that runs under ThreadSanitizer.

    gcc before 14 cannot place ThreadSanitizer's memory where the kernel randomizes addresses by more than 28 bits.
    """
    fixed = "setarch --addr-no-randomize"
    return fixed if subprocess.run([*fixed.split(), "true"], capture_output=True, check=False).returncode == 0 else ""


def preload(*names: str) -> str:
    """Return the value of LD_PRELOAD that loads the sanitizers' libraries into an ordinary Python.

    They must be loaded first, together with the C++ library, whose exceptions they intercept.
    """
    compiler = os.environ.get("CXX", "g++").split()
    libraries = [[*compiler, f"-print-file-name={name}"] for name in (*names, "libstdc++.so.6")]
    return " ".join(subprocess.check_output(command, text=True).strip() for command in libraries)


@nox.session
def c_san(session: nox.Session) -> None:
    """Run the tests in C and C++ under AddressSanitizer and UndefinedBehaviorSanitizer, then under ThreadSanitizer."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "meson"))
    for name, options, wrapper in (("asan", ASAN, ""), ("tsan", TSAN, fixed_addresses())):
        meson_test(session, f"sim-{name}", SIM, *options, wrapper=wrapper)
        simulator = f"-Dsimulator={BUILD / f'sim-{name}' / 'libcuda.so.1'}"
        meson_test(session, f"c-{name}", HANDLES, *options, simulator, wrapper=wrapper)


@nox.session(requires=["build"])
def tests_san(session: nox.Session) -> None:
    """Run the tests on a simulated driver that is built with AddressSanitizer and UndefinedBehaviorSanitizer."""
    install(session, "test", "meson")
    folder = build_with_meson(session, "sim-asan", SIM, *ASAN)
    env = {
        **compilers_of(session),
        **UNDER_ASAN,
        "LD_PRELOAD": preload("libasan.so", "libubsan.so"),
        "CUDACORE_SIM_LIBRARY": str(folder / "libcuda.so.1"),
        "CUDACORE_SIM_ENGINE": str(folder / "tests" / "engine" / "libengine.so"),
    }
    if session.posargs:
        session.run("python", "-m", "pytest", *session.posargs, env=env)
        return
    # With too few arguments, cuda.core's launch reads beyond the memory of the arguments. AddressSanitizer would end
    # the process that runs cuda.core for the comparison.
    ours = f"--ignore={ROOT / 'packages' / 'cudacore' / 'tests' / 'test_like_cuda_core.py'}"
    # nvJitLink reads beyond damaged code; with AddressSanitizer, the bytes there differ each time.
    nvjitlink = "--deselect=packages/cudacore-compile/tests/test_bad_code.py::test_mutated_code"
    session.run("python", "-m", "pytest", ours, nvjitlink, env=env | {"CUDACORE_SIM_DEVICES": "2"})
    session.run("python", "-m", "pytest", "packages/cudacore-sim", env=env)


@nox.session(requires=["build"])
def stress(session: nox.Session) -> None:
    """Use, close and drop shared objects on many threads, with all C and C++ under ASan and UBSan, then under TSan.

    ``-- --seconds 600 --seed 7`` runs longer, with other random choices.
    """
    install(session, "editable")
    for name, options, libraries, env, wrapper in (
        ("asan", ASAN, ("libasan.so", "libubsan.so"), UNDER_ASAN, ""),
        ("tsan", TSAN, ("libtsan.so",), UNDER_TSAN, fixed_addresses()),
    ):
        site = install_handles(session, f"stress-{name}", *options)
        driver = build_with_meson(session, f"sim-{name}", SIM, *options) / "libcuda.so.1"
        # The library is preloaded only into Python. It would fail in setarch, whose own addresses are still
        # randomized.
        python = (*wrapper.split(), "env", f"LD_PRELOAD={preload(*libraries)}", "python")
        run_stress(session, *python, **env, CUDACORE_SIM_LIBRARY=str(driver), PYTHONPATH=site)


@nox.session(requires=["build"], default=False)
@nox.parametrize("cuda", list(CUDA))
def fuzz_cache(session: nox.Session, cuda: str) -> None:
    """Compile random programs with a cache while their headers change, for 60 s or as given by ``-- SECONDS SEED``.

    Then check, for as long, that each path that NVRTC opens for headers of CUDA is in the key.
    """
    install(session, "test", cuda=cuda)
    for env in ({}, {"INCLUDE_PATH": "cuda"}):
        session.run("python", COMPILE / "tests" / "cache" / "fuzz_cache.py", *(session.posargs or ("60",)), env=env)


@nox.session(requires=["build"], default=False)
def fuzz_memory(session: nox.Session) -> None:
    """Run random programs of memory, streams and captures for 60 s, or as given by ``-- --seconds 600 --seed 7``."""
    install(session, "test")
    env = {"CUDACORE_DRIVER": "sim", "CUDACORE_SIM_DEVICES": "2", "CUDACORE_SIM_CHECK": "order"}
    session.run("python", str(GRAPH / "tests" / "fuzz_memory.py"), *(session.posargs or ("--seconds", "60")), env=env)


@nox.session(requires=["build"], default=False)
@nox.parametrize("client", list(CLIENTS))
def clients(session: nox.Session, client: str) -> None:
    """Run packages of other projects on the simulated driver; for numba-cuda and PyCUDA, their own tests.

    ``-- MODULE`` runs one module of numba-cuda's tests.

    Packages that use cuda.core run with it, and again with cudacore in its place. The second run may fail only in the
    cases that fail in the first; the programs list known failures with the reason. This downloads packages that no
    other session needs.
    """
    packages, programs = CLIENTS[client]["packages"], CLIENTS[client]["programs"]
    session.install(str(next(WHEELS.glob("cudacore_sim-*.whl"))), *packages)
    if client in ON_CUDACORE:
        session.install(*(str(wheel) for wheel in WHEELS.glob("*.whl")))
    for way in [[], ["-m", "cudacore.as_cuda_core", "python"]][: 1 + (client in ON_CUDACORE)]:
        for program in programs:
            name, *arguments = program.split()
            command = ["python", *way, str(CLIENT_PROGRAMS / name), *arguments, *session.posargs]
            session.run("python", "-m", "cudacore_sim", *command)


@nox.session
def lint(session: nox.Session) -> None:
    """Check layout, style, spelling, workflows and versions; ``-- --fix`` fixes some problems."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint"))
    fix = "--fix" in session.posargs
    session.run("python", "ci/check_rooms.py")
    session.run("ruff", "check", *(["--fix"] if fix else []), ".")
    session.run("ruff", "format", *([] if fix else ["--check"]), ".")
    session.run("codespell")
    files = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.c", "*.h", "*.cpp", "*.hpp"]
    c_files = sorted(set(subprocess.check_output(files, text=True).split()))
    session.run("clang-format", *(["-i"] if fix else ["--dry-run", "-Werror"]), *c_files, log=False)
    workflows = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(".github/workflows/*.yml"))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)
    session.run("check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml")
    session.run("zizmor", "--offline", "--quiet", ".github")
    # This fails if the version in a file differs from the version in pyproject.toml.
    session.run("bump-my-version", "bump", "patch", "--dry-run", log=False)


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy. Then check with pyright that all public names have types."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "types"))
    modules = [name.replace("-", "_") for name in PACKAGES]
    session.run("mypy", *(option for module in modules for option in ("-p", module)))
    programs = ("noxfile.py", "ci", "tests", str(CLIENT_PROGRAMS), "packages/cudacore/tests/types_of_programs.py")
    session.run("mypy", *programs)
    session.run("python", "ci/check_programs.py")
    # Each package is checked separately. Types of other projects' packages are ignored, because cuda.bindings has none.
    sources = os.pathsep.join(str(ROOT / "packages" / name / "src") for name in PACKAGES)
    for module in modules:
        session.run("pyright", "--ignoreexternal", "--verifytypes", module, env={"PYTHONPATH": sources})


@nox.session(requires=["build"])
def wheels(session: nox.Session) -> None:
    """Check the contents and the sizes of the wheels."""
    session.run("python", "ci/check_wheels.py", str(WHEELS), *PACKAGES)


@nox.session(default=False)
def dist(session: nox.Session) -> None:
    """Build the releases into build/dist, source distributions and wheels for two architectures, and check them.

    cudacore-handles also has wheels for each CPython without a GIL that is found: 3.14t and 3.15t.
    ``-- PACKAGE...`` builds only these packages, ``-- --architecture aarch64`` only wheels for this architecture.
    """
    session.install(*nox.project.dependency_groups(PYPROJECT, "dist"))
    found = [path for path in (shutil.which(f"python{version}") for version in FREE_THREADED) if path is not None]
    without_gil = [f"--free-threaded={path}" for path in found]
    session.run("python", "ci/build_dist.py", str(DIST), *without_gil, *session.posargs)
    files = sorted(map(str, DIST.iterdir()))
    wheels = [name for name in files if name.endswith(".whl")]
    session.run("twine", "check", "--strict", *files)
    session.run("check-wheel-contents", *wheels)
    if not session.posargs:
        session.run("python", "ci/check_wheels.py", str(DIST), *PACKAGES)
    extensions = [name for name in wheels if "-abi3-" in name]
    if extensions:
        session.run("abi3audit", "--strict", *extensions)


@nox.session(default=False)
def sdists(session: nox.Session) -> None:
    """Build source distributions, and wheels from them; run the tests that they contain, or those of ``-- PACKAGE``."""
    session.install("build>=1.2", *nox.project.dependency_groups(PYPROJECT, "test"))
    shutil.rmtree(BUILD / "sdists", ignore_errors=True)
    folder = BUILD / "sdists" / "packages"
    for name in PACKAGES:
        session.run("python", "-m", "build", "--sdist", "--outdir", str(folder), f"packages/{name}", log=False)
        (archive,) = folder.glob(f"{file_name(name)}*.tar.gz")
        shutil.unpack_archive(archive, folder)
        archive.with_name(archive.name.removesuffix(".tar.gz")).rename(folder / name)
    extras = f"{folder / PACKAGES[-1]}[{EXTRAS['13']}]"
    session.install("--force-reinstall", *(str(folder / name) for name in PACKAGES[:-1]), extras)
    tested = session.posargs or PACKAGES
    with tempfile.TemporaryDirectory() as away, session.chdir(away):
        copy_tests(away, folder.parent)
        shutil.copytree(folder / SIM.name, Path("packages", SIM.name), dirs_exist_ok=True)  # its tests need its sources
        for group in ([name for name in tested if name != SIM.name], [name for name in tested if name == SIM.name]):
            if group:
                env = {} if SIM.name in group else {"CUDACORE_SIM_DEVICES": "2"}
                session.run(*PYTEST, *(f"packages/{name}" for name in group), env=env)


@nox.session(requires=["build"])
def docs(session: nox.Session) -> None:
    """Build the documentation into build/docs; a warning is an error. Check its search, if there is a node."""
    install(session, "docs")
    command = ("sphinx-build", "-W", "--keep-going", "--jobs=auto", "-b", "html", "docs", str(BUILD / "docs"))
    session.run(*command, *session.posargs)
    if shutil.which("node"):
        session.run("node", "ci/check_search.js", str(BUILD / "docs"), external=True)


@nox.session(requires=["build"], default=False)
def bench(session: nox.Session) -> None:
    """Compare the speed with cuda.core and plain C. Without a GPU, only rows that need no GPU are measured."""
    install(session, "bench")
    session.run("python", "ci/benchmarks/run.py", "--wheels", str(WHEELS), *session.posargs)


@nox.session(requires=["build"], default=False)
def survey(session: nox.Session) -> None:
    """Compare the times of all properties and of many other calls with those of cuda.core, on the simulated driver."""
    install(session, "bench")
    session.run("python", "-m", "cudacore_sim", "python", "ci/benchmarks/survey.py", *session.posargs)


@nox.session(requires=["build"], default=False)
def instructions(session: nox.Session) -> None:
    """Count the instructions of each row, with valgrind, and compare with the record; ``-- --record`` replaces it."""
    install(session, "bench")
    session.run("python", "ci/benchmarks/instructions.py", *session.posargs, env={"CUDACORE_DRIVER": "sim"})
