# SPDX-License-Identifier: Apache-2.0
"""The inputs of the command: the contents of files, and linking."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from compile_sources import FUNCTION, FUNCTION_IR, KERNEL, WHOLE, Python, Run

from cudacore_compile import Linker, compile_many
from cudacore_compile._command import inputs, link, plan
from cudacore_compile._compilers import nvrtc
from cudacore_handles import ObjectCode


@pytest.fixture(autouse=True)
def _sources(_shared_cache: None) -> None:
    Path("kernel.cu").write_text(KERNEL)
    Path("function.cu").write_text(FUNCTION)
    Path("function.ll").write_text(FUNCTION_IR)


def kernels(file: str) -> list[str]:
    return [kernel.symbol for kernel in ObjectCode.from_cubin(file).kernels]


def test_many_comments(run: Run) -> None:
    """The time to determine the type of a source would double with each comment at its beginning."""
    comments = "/** a line of a licence **/\n" * 99
    Path("function.cu").write_text(comments + FUNCTION)
    assert run("function.cu", "-arch=sm_90", "-rdc=true", "-o", "function.cubin") == (0, "", "")
    assert inputs._kind_of(f"{comments}.version 8.0".encode()) == "ptx"


@pytest.mark.usefixtures("_nvjitlink")
@pytest.mark.parametrize("more", [[], ["-dlto"]], ids=["cubins", "lto"])
def test_translation_units(run: Run, more: list[str]) -> None:
    """A kernel could not call a function of another file."""
    assert run("kernel.cu", "function.cu", "--link", "-arch=sm_90", "-o", "all.cubin", *more) == (0, "", "")
    assert kernels("all.cubin") == ["map"]
    status, _, err = run("kernel.cu", "--link", "-arch=sm_90", "-o", "one.cubin", *more)
    assert (status, Path("one.cubin").exists()) == (1, False)
    assert "'f'" in err or "f" in err.split()


@pytest.mark.usefixtures("_nvjitlink")
def test_fast_math_when_linked(run: Run) -> None:
    """With ``-dlto -use_fast_math``, denormal numbers would not be flushed to zero, and results would differ."""
    Path("divide.cu").write_text('extern "C" __global__ void divide(float *x) { x[0] = x[1] / x[2] + x[3]; }')
    made = []
    exact = ("-ftz=true", "-prec-div=false", "-prec-sqrt=false", "-fmad=true")
    for words in (["-use_fast_math", *exact], ["-use_fast_math"], ["-use_fast_math", "-ftz=false"]):
        assert run("divide.cu", "-dlto", "-arch=sm_90", "-o", "divide.cubin", *words) == (0, "", "")
        made.append(Path("divide.cubin").read_bytes())
    assert (made[0] == made[1], made[0] == made[2]) == (True, False)


@pytest.mark.usefixtures("_nvjitlink")
def test_names_of_several_files(run: Run) -> None:
    """With several sources, an instance of a template that only one of them has could not be requested."""
    Path("kernel.cu").write_text(KERNEL + "template <class T> __global__ void scale(T *p) { *p *= 2; }")
    words = ("kernel.cu", "function.cu", "--link", "-arch=sm_90", "-o", "all.cubin", "--names", "names.json")
    assert run(*words, "-e", "scale<float>") == (0, "", "")
    names = json.loads(Path("names.json").read_text())
    assert set(kernels("all.cubin")) == {"map", names["scale<float>"]}
    status, _, err = run(*words, "-e", "missing<int>")
    assert (status, "name nothing in the program: 'missing<int>'" in err) == (1, True)


@pytest.mark.usefixtures("_nvjitlink")
def test_links_what_was_compiled(run: Run) -> None:
    """A command could not link the output of another one, because it would treat LTO-IR as C++."""
    assert run("kernel.cu", "-arch=sm_90", "-dlto")[0] == 0
    assert Path("kernel.ltoir").read_bytes()[:4] == b"\xedCN\x7f"
    assert run("function.cu", "-arch=sm_90", "-dc", "-o", "function.cubin")[0] == 0
    assert run("function.cu", "-arch=sm_90", "-rdc=true", "-ptx")[0] == 0
    for part in ("function.cubin", "function.ptx", "function.cu"):
        assert run("kernel.ltoir", part, "-arch=sm_90", "-o", "out.cubin") == (0, "", ""), part
        assert kernels("out.cubin") == ["map"]
    status, _, err = run("kernel.ltoir", "function.cu", "-arch=sm_80,sm_90", "-o", "out.cubin")
    assert (status, "write {arch} in it" in err) == (2, True)


@pytest.mark.usefixtures("_nvjitlink", "_nvfatbin")
def test_linked_fat_binary(run: Run) -> None:
    """A program of several files could not be compiled for several architectures."""
    assert run("kernel.cu", "function.cu", "--link", "--arch", "80,90", "-o", "all.fatbin") == (0, "", "")
    assert Path("all.fatbin").read_bytes()[:4] == b"\x50\xed\x55\xba"
    assert run("kernel.cu", "function.cu", "--link", "--arch", "80,90", "-o", "{name}.{arch}.cubin")[0] == 0
    assert kernels("linked.sm_80.cubin") == kernels("linked.sm_90.cubin") == ["map"]


@pytest.mark.usefixtures("_nvjitlink")
def test_ptx_is_assembled(run: Run) -> None:
    """PTX could not be compiled to a cubin."""
    Path("whole.cu").write_text(WHOLE)
    assert run("whole.cu", "-arch=sm_80", "-ptx")[0] == 0
    status, out, err = run("whole.ptx", "-arch=sm_90", "-v")
    assert (status, out, kernels("whole.cubin")) == (0, "", ["map"])
    assert err.splitlines()[1].split()[:2] == ["map", "sm_90"]
    Path("wrong.ptx").write_text(Path("whole.ptx").read_text().replace("ret;", "return;"))
    status, _, err = run("wrong.ptx", "-arch=sm_90")
    assert (status, "error: ptxas: line " in err) == (1, True), err


@pytest.mark.usefixtures("_nvvm", "_nvjitlink")
def test_nvvm_ir(run: Run) -> None:
    """NVVM IR would be treated as C++, so that it could not be compiled or linked."""
    assert run("function.ll", "-arch=sm_90", "-ptx") == (0, "", "")
    assert ".target sm_90" in Path("function.ptx").read_text()
    assert run("function.ll", "-arch=sm_90", "-o", "function.cubin", "--maxrregcount", "40") == (0, "", "")
    words = ("kernel.cu", "function.ll", "--link", "-arch=sm_90", "-I", ".", "-v", "-lineinfo")
    for more in ([], ["-dlto"]):
        status, _, err = run(*words, "-o", "out.cubin", *more)
        assert (status, kernels("out.cubin")) == (0, ["map"]), err
    status, _, err = run("function.ll", "-arch=sm_90", "-std=c++20")
    assert (status, "ProgramOptions.std is not supported for NVVM programs" in err) == (1, True)


def test_content_counts(run: Run) -> None:
    """A file with an unknown suffix would always be treated as C++, or a file with a wrong suffix be accepted."""
    assert run("kernel.cu", "-arch=sm_90", "-rdc=true", "-o", "kernel.cubin")[0] == 0
    Path("kernel.bin").write_bytes(Path("kernel.cubin").read_bytes())
    assert run("kernel.bin", "--list-kernels")[1].startswith("kernel.bin, cubin for sm_90:")
    Path("kernel.ptx").write_bytes(Path("kernel.cubin").read_bytes())
    assert run("kernel.ptx", "-x", "cubin", "--list-kernels")[0] == 0
    Path("text").write_text(FUNCTION)
    assert run("text", "-arch=sm_90", "-ptx")[0] == 0
    Path("text").write_text("// a comment\n/* and\n another */ .version 8.0\n.target sm_90\n.address_size 64\n")
    assert run("text", "--list-kernels")[1].startswith("text, ptx for sm_90:")


@pytest.mark.usefixtures("_nvjitlink")
def test_resources_of_linked_code(run: Run) -> None:
    """Messages of the assembler would not be shown when LTO-IR is linked."""
    words = ("kernel.cu", "function.cu", "--link", "-dlto", "-arch=sm_90", "-o", "out.cubin", "-v", "--format", "json")
    for _ in range(2):
        status, _, err = run(*words, "--no-cache")
        found = [item["resources"] for item in json.loads(err) if "resources" in item]
        assert (status, [(one["kernel"], one["arch"]) for one in found]) == (0, [("map", "sm_90")])


@pytest.mark.usefixtures("_nvjitlink")
def test_compilers_do_not_use_the_cache_in_the_driver(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code would be taken from the cache of the driver, which has no warnings and no reports of `-v`."""
    compiled: list[Any] = []
    linked: list[Any] = []
    monkeypatch.setattr(plan, "compile_many", lambda jobs, **_: compiled.extend(jobs) or compile_many(jobs))

    def link_with(*codes: ObjectCode, options: Any) -> Linker:
        linked.append(options)
        return Linker(*codes, options=options)

    monkeypatch.setattr(link, "Linker", link_with)
    assert run("kernel.cu", "function.cu", "--link", "-arch=sm_90", "-o", "out.cubin")[0] == 0
    assert run("kernel.cu", "-rdc=true", "-X", "no_cache=false", "-arch=sm_90", "-o", "kernel.cubin")[0] == 0
    nvrtc_has_one = nvrtc.load().version >= (12, 9)
    assert [job.options.no_cache for job in compiled] == [nvrtc_has_one or None] * 2 + [False]
    assert [options.no_cache for options in linked] == [True]


NO_HOME = """
import os, pwd, sys

os.environ.pop("HOME", None), os.environ.pop("XDG_CACHE_HOME", None)


def missing(uid):
    raise KeyError(uid)


pwd.getpwuid = missing
from cudacore_compile._command import main

sys.exit(main(sys.argv[1:]))
"""


def test_without_a_home_directory(process: Python) -> None:
    """In a container without an entry for its user, the command would end with a traceback."""
    result = process("kernel.cu", "-arch=sm_90", "-rdc=true", code=NO_HOME)
    assert (result.returncode, result.stderr) == (0, "")
    result = process("cache", "show", code=NO_HOME)
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert "error: the user has no home directory: set HOME or XDG_CACHE_HOME" in result.stderr
    assert not list(Path().glob("~*"))


def test_umlauts_in_an_ascii_locale(process: Python) -> None:
    """In the C locale, an error in a file whose name or text is not ASCII would be a traceback."""
    Path("fehlerü.cu").write_text("__global__ void f(int *p) {\n  *p = nope; // Größe\n}\n", encoding="utf-8")
    result = process(
        "fehlerü.cu", "-arch=sm_90", LC_ALL="POSIX", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0", PYTHONIOENCODING=""
    )
    assert (result.returncode, "Traceback" in result.stderr) == (1, False)
    assert ':2:8: error: identifier "nope" is undefined\n' in result.stderr
    assert "*p = nope; // Gr\\xf6\\xdfe" in result.stderr


@pytest.mark.skipif(
    find_spec("_cuda_bindings_redirector") is not None,
    reason="cuda-bindings 12.9 imports the package cuda before the working directory is looked at",
)
def test_a_module_that_hides_the_bindings(process: Python) -> None:
    """With a file cuda.py beside the program, the error would not name the file."""
    Path("cuda.py").write_text("")
    result = process("kernel.cu", "-arch=sm_90")
    assert (result.returncode, "Traceback" in result.stderr) == (1, False)
    assert f"NVRTC_NOT_FOUND (-1): {Path('cuda.py').resolve()} hides the package cuda" in result.stderr
