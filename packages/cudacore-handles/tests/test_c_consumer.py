# SPDX-License-Identifier: Apache-2.0
"""C and C++ programs that use only the installed headers and the pkg-config file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import cudacore_handles as ch
import cudacore_sim

CONSUMER = Path(__file__).resolve().parent / "c" / "consumer"
STANDARDS = {".c": ("CC", "cc", "-std=c11"), ".cpp": ("CXX", "c++", "-std=c++17")}

Build = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Compile a source of the consumer folder with the flags of pkg-config, without a warning."""

    def run(source: str, *extra: str) -> Path:
        variable, default, standard = STANDARDS[Path(source).suffix]
        compiler = shutil.which(os.environ.get(variable, default))
        pkg_config = shutil.which(os.environ.get("PKG_CONFIG", "pkg-config"))
        for program, name in ((compiler, default), (pkg_config, "pkg-config")):
            if program is None:
                pytest.skip(f"needs {name}")
        path = os.pathsep.join(filter(None, (ch.get_pkgconfig_dir(), os.environ.get("PKG_CONFIG_PATH"))))
        flags = subprocess.run(
            [str(pkg_config), "--cflags", "--libs", "cudacore-handles"],
            env=os.environ | {"PKG_CONFIG_PATH": path},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        out = tmp_path / f"{source}.out"
        strict = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
        subprocess.run(
            [str(compiler), standard, *strict, *extra, str(CONSUMER / source), *flags, "-o", str(out)], check=True
        )
        return out

    return run


@pytest.fixture
def driver_env(on_sim: bool) -> dict[str, str]:
    """Give an environment in which C programs use the same driver as this process."""
    env = {name: value for name, value in os.environ.items() if name != "CUDACORE_DRIVER"}
    simulated = {"CUDACORE_DRIVER": "sim", "CUDACORE_SIM_LIBRARY": cudacore_sim.get_library()}
    return env | simulated if on_sim else env


PARAMETERS = pytest.mark.needs_driver("12.4", "parameters of kernels, which a program in C has to state before")


@pytest.mark.parametrize("source", ["consumer.c", "owners.cpp", pytest.param("graph.c", marks=PARAMETERS)])
def test_programs_run(source: str, build: Build, driver_env: dict[str, str]) -> None:
    """A program built against the installed package would not compile, not link, or not find the library."""
    result = subprocess.run([build(source)], env=driver_env, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "right\n", "")


CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(consumer C CXX)
add_compile_options(-Wall -Wextra -pedantic -Werror)
add_link_options(-Wl,--as-needed)  # as compilers of distributions do
find_package(cudacore 0.1 REQUIRED)
add_executable(by_package {folder}/owners.cpp)
target_compile_features(by_package PRIVATE cxx_std_11)
target_compile_options(by_package PRIVATE -fno-exceptions)
target_link_libraries(by_package PRIVATE cudacore::handles)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HANDLES REQUIRED IMPORTED_TARGET cudacore-handles)
add_executable(by_pkg_config {folder}/consumer.c)
target_link_libraries(by_pkg_config PRIVATE PkgConfig::HANDLES)
find_package(cudacore 1000 QUIET)
if(cudacore_FOUND)
  message(FATAL_ERROR "version 1000 is found")
endif()
"""


def test_cmake(tmp_path: Path, driver_env: dict[str, str]) -> None:
    """A project of CMake would not find the package, or not link, by its own package or by pkg-config."""
    for program in ("cmake", "pkg-config"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.replace("{folder}", CONSUMER.as_posix()))
    env = os.environ | {"PKG_CONFIG_PATH": ch.get_pkgconfig_dir()}
    configure = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build"), f"-Dcudacore_DIR={ch.get_cmake_dir()}"]
    for command in (configure, ["cmake", "--build", str(tmp_path / "build")]):
        result = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert result.returncode == 0, result.stdout
    for program in ("by_package", "by_pkg_config"):
        result = subprocess.run(
            [tmp_path / "build" / program], env=driver_env, capture_output=True, text=True, timeout=60
        )
        assert (result.returncode, result.stdout, result.stderr) == (0, "right\n", ""), program


def test_pkg_config_and_paths_agree(build: Build) -> None:
    """A program would be built against another copy of the library than the one that Python uses."""
    linked = subprocess.run(
        ["ldd", build("shared.c", "-shared", "-fPIC")], check=True, capture_output=True, text=True
    ).stdout
    line = next(line for line in linked.splitlines() if "libcudacore_handles" in line)
    assert Path(line.split("=>")[1].split()[0]).resolve() == Path(ch.get_library()).resolve()
    assert (Path(ch.get_include()) / "cudacore" / "cudacore.h").is_file()


# Python code that gives a stream to shared.c, which keeps a reference to the stream.
TAKE = """
import ctypes
import cudacore_handles as ch

shared = ctypes.CDLL({library!r})
shared.shared_take.argtypes = (ctypes.c_void_p,)
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
device = ch.Device(0)
device.set_current()
before = ch.live_counts()
stream = device.create_stream()
assert shared.shared_take(pointer(stream.__cudacore_handle__(), b"cudacore_handles.stream")) == 0
"""
SHARED = {
    "C holds it last": """
stream.close()
del stream
assert ch.live_counts()["stream"] == before["stream"] + 1
assert shared.shared_use() == 0
shared.shared_give_back()
assert ch.live_counts() == before
""",
    "Python holds it last": """
assert shared.shared_use() == 0
shared.shared_give_back()
stream.sync()
""",
}


@pytest.mark.parametrize("code", SHARED.values(), ids=SHARED)
def test_a_stream_lives_as_long_as_both_holders(build: Build, run_on_driver: Callable[..., str], code: str) -> None:
    """A stream would be destroyed while C code or Python holds it, or leak after both have released it."""
    library = build("shared.c", "-shared", "-fPIC")
    run_on_driver(TAKE.format(library=str(library)) + code)
