# SPDX-License-Identifier: Apache-2.0
"""Dependency files, for Make and Ninja, and the examples of projects for CMake and Meson."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from compile_sources import Run

from cudacore_compile import Program, UncacheableError
from cudacore_compile._command import files, plan
from cudacore_compile._command.depfile import make_rule, quote
from cudacore_handles._sdk.compile import entries

EXAMPLES = Path(__file__).resolve().parents[4] / "docs" / "examples"
SOURCE = """#include "h.h"
#ifdef NEVER
#include <other.h>
#endif
extern "C" __global__ void f(int *p) { *p = VALUE; }
"""


@pytest.fixture(autouse=True)
def _sources(_own_folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # The installed command, and Ninja, are in the folder of the Python executable.
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    Path("k.cu").write_text(SOURCE)
    Path("h.h").write_text('#include "deep.h"\n')
    Path("deep.h").write_text("#define VALUE 4711\n")


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_code_is_written_last(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """If the command is killed between writing two files, new code could remain forever without its dependency file."""
    written = []
    write = files.write

    def note(file: str, content: bytes) -> None:
        written.append(file)
        write(file, content)

    monkeypatch.setattr(plan, "write", note)
    assert run("k.cu", "--arch", "sm_90", "-MD", "--names", "n.json", "-o", "k.ptx")[0] == 0
    assert written == ["k.d", "n.json", "k.ptx"]


# -- the API


def test_dependencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build system written in Python could not get the files that a program includes."""
    Path("inc").mkdir()
    Path("inc/other.h").write_text("")
    options = {"arch": "sm_90", "include_path": "inc"}
    assert Program(SOURCE, "c++", options).dependencies() == ["deep.h", "h.h", "inc/other.h"]
    timed = SOURCE + "\n__device__ const char *now = __TIME__;"  # it is not cached, but its files are known
    assert Program(timed, "c++", options).dependencies() == ["deep.h", "h.h", "inc/other.h"]
    assert Program("", "c++", options).dependencies() == []
    assert Program(".version 8.0", "ptx").dependencies() == []
    monkeypatch.setenv("CUDACORE_DRIVER", "/nonexistent/libcuda.so")
    assert Program(SOURCE, "c++").dependencies() == ["deep.h", "h.h"]


def test_dependencies_that_are_not_known() -> None:
    """A list of included files would be treated as complete although it is not."""
    hidden = "#define NAME(x) <x##.h>\n#include NAME(h)\n"
    with pytest.raises(UncacheableError):
        Program(hidden, "c++", {"arch": "sm_90"}).dependencies()
    with pytest.raises(UncacheableError, match="raw_options") as caught:
        Program(SOURCE, "c++", {"arch": "sm_90", "raw_options": "--x"}).dependencies()
    assert caught.value.files == ("deep.h", "h.h")


# -- the rules in dependency files


def test_rule(run: Run) -> None:
    """The rule for a build system would lack a header."""
    assert run("k.cu", "-arch=sm_90", "-MD", "-o", "out/k.ptx") == (0, "", "")
    assert Path("out/k.d").read_text() == "out/k.ptx: \\\n k.cu \\\n deep.h \\\n h.h\n"
    assert run("k.cu", "-arch=sm_90", "-MD", "-MF", "rule", "-MT", "all $(X)", "-MQ", "a$b", "-MP", "-ptx")[0] == 0
    assert Path("rule").read_text() == (
        "all $(X) a$$b: \\\n k.cu \\\n deep.h \\\n h.h\n\ndeep.h:\n\nh.h:\n"
    )  # fmt: skip
    assert run("k.cu", "-arch=80,90", "-MD", "-ptx")[0] == 0
    assert Path("k.sm_80.d").read_text().startswith("k.sm_80.ptx: \\\n k.cu")
    assert Path("k.sm_90.d").exists()
    assert run("k.cu", "-M", "-ptx", "-MF", "-", "-o", "a.ptx") == (0, "a.ptx: \\\n k.cu \\\n deep.h \\\n h.h\n", "")
    assert run("k.cu", "-M", "-ptx", "-o", "k.rule") == (0, "", "")  # as with nvcc
    assert Path("k.rule").read_text() == "k.ptx: \\\n k.cu \\\n deep.h \\\n h.h\n"
    assert not Path("a.ptx").exists()
    assert run("k.cu", "-arch=sm_90", "-ptx", "-D", "f=1", "-MD", "-MF", "failed.d")[0] == 1
    assert not Path("failed.d").exists()


def test_rule_where_files_are_not_known(run: Run) -> None:
    """If the included files cannot be determined, old code would be considered up to date."""
    plain = '#include "h.h"\n__global__ void f() {}\n'
    for source, words in (
        (f"#define NAME(x) <x##.h>\n#if 0\n#include NAME(h)\n#endif\n{plain}", []),
        (plain, ["--raw", "--jump-table-density=50"]),
    ):
        Path("k.cu").write_text(source)
        status, _, err = run("k.cu", "-arch=sm_90", "-MD", "-ptx", "-Werror", *words)
        assert (status, "warning: k.cu: " in err, "built each time" in err) == (0, True, True)
        rule = Path("k.d").read_text()
        known = "k.cu \\\n deep.h \\\n h.h"
        assert rule == f"k.ptx: \\\n {known} \\\n cudacore-compile-always\n\ncudacore-compile-always:\n"
    Path("k.cu").write_text(f"{plain}// __TIME__\n__device__ const char *at = __TIME__;")
    assert run("k.cu", "-arch=sm_90", "-MD", "-ptx") == (0, "", "")
    assert Path("k.d").read_text() == f"k.ptx: \\\n {known}\n"


def test_names_are_quoted() -> None:
    """Make would read a file's name as something else."""
    assert quote("a b#c$d.h") == "a\\ b\\#c$$d.h"
    assert quote("back\\slash\\ .h") == "back\\slash\\\\\\ .h"
    assert make_rule(["t"], ["a", "a"], phony=True, is_complete=True) == "t: \\\n a\n"


@pytest.mark.parametrize("tool", ["make", "ninja"])
def test_rebuilds(tool: str) -> None:
    """A build would keep old code when a header changes, or compile each time."""
    tool_path = program(tool)
    # Ninja does not understand all quotes that gcc writes.
    header = "with space, # and $.h" if tool == "make" else "plain.h"
    Path("k.cu").write_text(f'#include "{header}"\n__global__ void f() {{}}')
    Path(header).write_text("")
    command = f"{sys.executable} -m cudacore_compile k.cu -arch=sm_90 -MD -o k.ptx"
    Path("Makefile").write_text(f"k.ptx: k.cu\n\t{command}\n-include k.d\n")
    Path("build.ninja").write_text(
        f"rule compile\n  command = {command}\n  depfile = k.d\n  deps = gcc\nbuild k.ptx: compile k.cu\n"
    )

    def builds() -> bool:
        result = subprocess.run([tool_path], capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        return "up to date" not in result.stdout and "no work to do" not in result.stdout

    assert (builds(), builds()) == (True, False)
    time.sleep(0.02)
    os.utime(header)
    assert (builds(), builds()) == (True, False)


# -- projects


@pytest.fixture
def _projects(_nvfatbin: None) -> None:
    if not EXAMPLES.is_dir():
        pytest.skip("needs the repository's docs folder")
    program("ninja")
    program("cudacore-compile")


def check_project(*setup: str) -> None:
    """Build a project, change its header, build again."""
    subprocess.run(setup, check=True, capture_output=True, timeout=120)
    ninja = ["ninja", "-C", "build"]
    subprocess.run(ninja, check=True, capture_output=True, timeout=120)
    output = Path("build/saxpy.fatbin")
    first = output.read_bytes()
    assert first[:4] == b"\x50\xed\x55\xba"
    again = subprocess.run(ninja, check=True, capture_output=True, text=True, timeout=120)
    assert "no work to do" in again.stdout
    time.sleep(0.02)
    Path("saxpy.h").write_text("#define BLOCK 128\n")
    subprocess.run(ninja, check=True, capture_output=True, timeout=120)
    assert output.read_bytes() != first


@pytest.mark.usefixtures("_projects")
def test_cmake_project() -> None:
    """The example for CMake would not build, or not build again when a header changes."""
    shutil.copytree(EXAMPLES / "cmake", "project")
    os.chdir("project")
    check_project(program("cmake"), "-G", "Ninja", "-S", ".", "-B", "build", "-DGPU_ARCHITECTURES=sm_80,sm_90")


@pytest.mark.usefixtures("_projects")
@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_cmake_language(generator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project with CMake's CUDA language would not build device code where no nvcc is installed, or build it anew."""
    cmake = program("cmake")
    version = subprocess.run([cmake, "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    if tuple(map(int, version.split(".")[:2])) < (3, 27):
        pytest.skip(f"CMake {version} has no CUDA_CUBIN_COMPILATION")
    if generator != "Ninja":
        program("make")
    shutil.copytree(EXAMPLES / "cmake-cuda", "project")
    os.chdir("project")
    Path("nvcc").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", os.pathsep.join([os.getcwd(), os.environ["PATH"]]))
    toolchain = "-DCMAKE_TOOLCHAIN_FILE=cudacore-toolchain.cmake"
    setup = ["-G", generator, "-S", ".", "-B", "build", toolchain, "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run([cmake, *setup, "-DCMAKE_CUDA_ARCHITECTURES=80;90"], check=True, capture_output=True, timeout=120)

    def build() -> dict[str, bytes]:
        subprocess.run([cmake, "--build", "build"], check=True, capture_output=True, timeout=120)
        return {path.suffix: path.read_bytes() for path in Path("build").rglob("saxpy.*") if path.suffix != ".d"}

    first = build()
    assert b".target sm_80" in first[".ptx"]
    assert {(one.code_type, one.arch) for one in entries(first[".fatbin"])} == {
        ("ptx", 80), ("cubin", 80), ("ptx", 90), ("cubin", 90),
    }  # fmt: skip
    assert build() == first
    time.sleep(1.1)  # Make compares whole seconds on some systems
    header = Path("include/saxpy.h")
    header.write_text(header.read_text().replace("* BLOCK", "* BLOCK * 3"))
    assert {suffix for suffix, code in build().items() if code != first[suffix]} == {".ptx", ".cubin", ".fatbin"}


@pytest.mark.usefixtures("_projects")
def test_meson_project() -> None:
    """The example for Meson would not build, or not build again when a header changes."""
    shutil.copytree(EXAMPLES / "meson", "project")
    os.chdir("project")
    check_project(program("meson"), "setup", "build", "-Darchitectures=sm_80,sm_90")
