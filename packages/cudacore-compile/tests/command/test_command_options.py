# SPDX-License-Identifier: Apache-2.0
"""The options of the command: nvcc's options, raw ones, architectures, and messages of the assembler."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compile_sources import FUNCTION_IR, Run

from cudacore_compile import (
    InMemoryProgramCache,
    NVRTCError,
    NVVMError,
    Program,
    ProgramOptions,
    UncacheableError,
    make_program_cache_key,
)
from cudacore_compile._command import architectures
from cudacore_compile._command.arguments import make_parser, parse, program_options
from cudacore_compile._command.errors import UsageError
from cudacore_compile._command.resources import parse_resources
from cudacore_compile._compilers.diagnostics import split_log
from cudacore_handles import ObjectCode

QUICK = 'extern "C" __global__ void quick(float *p) { *p += 1; }'
WARNS = 'extern "C" __global__ void warns() { int unused; }'
# A kernel whose registers spill to memory if it may use only a few.
SPILLS = (
    'extern "C" __global__ void spills(float *p) { float a[64];\n'
    + "".join(f"a[{i}] = p[{i}] * p[{i + 1}];\n" for i in range(64))
    + "__syncthreads();\n"
    + "".join(f"p[{i}] = a[{63 - i}] + a[{(i * 7) % 64}];\n" for i in range(64))
    + "}"
)


@pytest.fixture(autouse=True)
def _sources(_shared_cache: None) -> None:
    Path("quick.cu").write_text(QUICK)
    Path("warns.cu").write_text(WARNS)


def options(*words: str) -> ProgramOptions:
    return program_options(parse(make_parser(), ["quick.cu", *words]))


# -- nvcc


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["-std=c++20"], {"std": "c++20"}),
        (["-rdc=true"], {"relocatable_device_code": True}),
        (["-rdc=false"], {"relocatable_device_code": False}),
        (["-dc"], {"relocatable_device_code": True}),
        (["-lineinfo", "-G"], {"lineinfo": True, "debug": True}),
        (["-use_fast_math"], {"use_fast_math": True}),
        (["-maxrregcount=40"], {"max_register_count": 40}),
        (["-ftz=true", "-prec-div=false", "-prec-sqrt=0", "-fmad=1"],
         {"ftz": True, "prec_div": False, "prec_sqrt": False, "fma": True}),
        (["-Xptxas", "-v", "-Xptxas=-O2,-warn-spills"], {"ptxas_options": ["-v", "-O2", "-warn-spills"]}),
        (["-res-usage"], {"ptxas_options": ["-v"]}),
        (["-w", "-restrict", "-extra-device-vectorization"],
         {"disable_warnings": True, "restrict": True, "extra_device_vectorization": True}),
        (["-diag-suppress", "177,550", "-diag-error=20012"], {"diag_suppress": [177, 550], "diag_error": [20012]}),
        (["-DA=1", "-D", "B", "-UC", "-isystem", "sys", "-Iinc,sys", "-include", "first.h"],
         {"define_macro": ["A=1", "B"], "undefine_macro": ["C"], "include_path": ["inc", "sys"],
          "pre_include": ["first.h"]}),
        (["-UX", "-DX=1", "-DX=2", "-DY(a)=a", "-UY", "-UZ", "-DZ,W=f(1\\,2)"],
         {"define_macro": ["X=1", "X=2", "Z", "W=f(1,2)"], "undefine_macro": ["Y"]}),
        (["-dopt", "on", "-Ofc=min", "-split-compile", "0", "-err-no", "-brief-diag", "true"],
         {"device_code_optimize": True, "ofast_compile": "min", "split_compile": 0, "brief_diagnostics": True}),
        (["-expt-relaxed-constexpr", "-jtd", "7", "-Wno-deprecated-declarations", "-Xcudafe", "--diag_suppress=9"],
         {"device_as_default_execution_space": True, "define_macro": ["__CUDACC_RELAXED_CONSTEXPR__"],
          "raw_options": ["--jump-table-density=7"], "diag_suppress": [1215, 1444, 9]}),
        (["-X", "ftz=1", "-X", "minimal=True"], {"ftz": True, "minimal": True}),
        (["-X", "split_compile=1", "-X", "time=-"], {"split_compile": 1, "time": "-"}),
        (["--define-macro=A", "--undefine-macro", "B", "--system-include=sys", "--pre-include", "first.h"],
         {"define_macro": ["A"], "undefine_macro": ["B"], "include_path": ["sys"], "pre_include": ["first.h"]}),
        (["--raw", "--fmax-errors=3", "-Xnvrtc=--x"], {"raw_options": ["--fmax-errors=3", "--x"]}),
    ],
)  # fmt: skip
def test_spellings(words: list[str], fields: dict[str, Any]) -> None:
    """A command line for nvcc would have to be rewritten; or an option would mean something else than in the API."""
    assert options(*words) == ProgramOptions(**fields)


BY_CMAKE = """
-forward-unknown-to-host-compiler -ccbin=c++ -DNDEBUG --options-file includes.rsp -isystem=sys -O3 -g -std=c++17
"--generate-code=arch=compute_80,code=[compute_80,sm_80]" -Xcompiler=-fPIC -Xcompiler=-fvisibility=hidden -pthread -t0
--threads 0 -m64 -Wno-deprecated-gpu-targets -Xcudafe --display_error_number --source-in-ptx --split-compile=0 -lineinfo
-MD -MT k.target -MF k.d -x cu -c {} quick.cu -o {}
"""


@pytest.mark.parametrize("target", ["ptx", "cubin", "fatbin"])
@pytest.mark.usefixtures("_nvfatbin")
def test_what_cmake_writes(target: str, run: Run) -> None:
    """CMake's command lines for CUDA_PTX_COMPILATION, CUDA_CUBIN_COMPILATION and CUDA_FATBIN_COMPILATION would fail."""
    Path("sys").mkdir()
    Path("includes.rsp").write_text('-I"a b" -isystem=sys')
    assert run(*shlex.split(BY_CMAKE.format(f"-{target}", f"out/k.{target}"))) == (0, "", "")
    assert Path(f"out/k.{target}").exists()
    assert Path("k.d").read_text() == "k.target: \\\n quick.cu\n"
    assert run("quick.cu", "-M", "-x", "cu", "-MT", "k.o", "-o", "older.d") == (0, "", "")
    assert Path("older.d").read_text() == "k.o: \\\n quick.cu\n"


def test_values_without_a_space() -> None:
    """Options that are joined with their values, as nvcc accepts them, would be refused or misread."""
    found = parse(make_parser(), ["k.cu", "-Iinc", "-DA=1", "-UB", "-O3", "-m64", "-lm", "-Llib", "-t0", "-o", "k.ptx"])
    assert (found.include_path, found.macros, found.output, found.jobs) == (["inc"], ["-DA=1", "-UB"], "k.ptx", 0)
    found = parse(make_parser(), ["k.cu", "--output-file=k.ptx", "--ptx", "-x", "cuda", "-o", "-", "-j4"])
    assert (found.language, found.to, found.output, found.jobs) == ("c++", "ptx", "-", 4)


def test_formats_as_nvcc_says_them(run: Run) -> None:
    """nvcc's options for the output format, and for architectures, would be unknown."""
    assert run("quick.cu", "-gencode", "arch=compute_90,code=[sm_90]", "-ptx")[0] == 0
    assert run("quick.cu", "--gpu-architecture=sm_80", "-cubin", "-odir=out")[0] == 0
    assert run("quick.cu", "-arch", "sm_90", "-gencode=arch=compute_80,code=sm_80", "-o", "{arch}.ptx")[0] == 0
    assert {str(path) for path in Path().rglob("*.*[nx]")} == {
        "quick.ptx", "out/quick.cubin", "sm_90.ptx", "sm_80.ptx",
    }  # fmt: skip


ARCH = 'extern "C" __global__ void quick(int *p) { *p = __CUDA_ARCH__; }'


def arches(*words: str, target: str = "fatbin") -> dict[str | None, str | None]:
    arguments = parse(make_parser(), ["k.cu", *words])
    return architectures.resolve(arguments, target, combines=target == "fatbin", needed=True)


def test_architectures_of_sources_and_of_code(run: Run) -> None:
    """``arch=compute_80,code=sm_90`` would compile the branches for sm_90, and the numbers would differ from nvcc's."""
    Path("quick.cu").write_text(ARCH)
    gencode = "-gencode=arch=compute_80,code=[sm_90,compute_80]"
    assert run("quick.cu", gencode, "-ptx")[0] == 0
    ptx = Path("quick.ptx").read_text()
    assert (".target sm_80" in ptx, " 800;" in ptx) == (True, True)
    assert run("quick.cu", gencode, "-cubin", "-lineinfo", "-fmad=false")[0] == 0
    made = ObjectCode.from_cubin("quick.cubin")
    assert (made._contents().arch, [kernel.symbol for kernel in made.kernels]) == ("sm_90", ["quick"])
    assert (800).to_bytes(4, "little") in Path("quick.cubin").read_bytes()
    status, out, _ = run("quick.cu", gencode, "-cubin", "--list-kernels", "-e", "quick", "--format", "json")
    assert (status, json.loads(out)[0]["name_expression"]) == (0, "quick")


@pytest.mark.usefixtures("_nvfatbin")
def test_ptx_in_fat_binaries(run: Run) -> None:
    """A fat binary for ``-arch=sm_90`` would lack the PTX that nvcc adds for later devices."""
    assert run("quick.cu", "-arch=sm_90", "-fatbin")[0] == 0
    status, out, _ = run("quick.fatbin", "--list-kernels")
    assert (status, [line for line in out.splitlines() if line[:1] != " "]) == (
        0, ["quick.fatbin, cubin for sm_90:", "quick.fatbin, ptx for sm_90:"],
    )  # fmt: skip
    assert arches("--arch", "sm_90") == {"sm_90": "90"}
    assert arches("-arch=sm_90a") == {"sm_90a": "90a", "compute_90a": "90a", "compute_90": "90"}
    assert arches("-arch=compute_80", "-code=sm_86,lto_80") == {"sm_86": "80", "lto_80": "80"}
    assert arches("-arch=sm_90", "-gencode=arch=compute_90,code=sm_90", target="ptx") == {"sm_90": "90"}
    assert arches("-gencode=arch=compute_80,code=[compute_80,sm_80]", target="cubin") == {"sm_80": "80"}
    with pytest.raises(UsageError, match="code=sm_90 for two architectures"):
        arches("-gencode=arch=compute_80,code=sm_90", "-gencode=arch=compute_90,code=sm_90")


def test_groups_of_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of architectures would have to be kept in each project."""

    class Compiler:
        def architectures(self) -> list[int]:
            return [75, 80, 86, 90, 100, 103]

    monkeypatch.setattr(architectures.nvrtc, "load", Compiler)
    assert [*arches("--arch", "all", target="cubin")] == ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_103"]
    assert [*arches("-arch=all-major")] == ["sm_75", "sm_80", "sm_90", "sm_100", "compute_100"]


def test_native(run: Run, device: Any) -> None:
    """To compile for the devices of this machine, one would have to name their architectures."""
    assert run("quick.cu", "--arch", "native", "-ptx") == (0, "", "")
    assert f".target sm_{device.arch}" in Path("quick.ptx").read_text()


def test_usage_errors_in_json(run: Run) -> None:
    """If the arguments are wrong, an editor would get text instead of JSON."""
    for words in (["--nonsense"], ["-o", "k.exe"], ["-X", "nonsense=1"], ["--arch", ""]):
        status, out, err = run("quick.cu", "--format", "json", *words)
        (message,) = json.loads(err)
        assert (status, out, message["severity"]) == (2, "", "error")
    status, _, err = run("cache", "nonsense", "--format=json")
    assert (status, json.loads(err)[0]["severity"]) == (2, "error")


# -- warnings


def test_warnings_as_errors(run: Run) -> None:
    """A build could not treat warnings as errors, or could do so only for code that is not in the cache."""
    for words in (["-Werror"], ["-Werror", "all-warnings"], ["--warning-as-error=all-warnings"]):
        status, _, err = run("warns.cu", "-arch=sm_90", *words)
        assert (status, list(Path().glob("*.cubin"))) == (1, [])
        assert 'warns.cu:1:42: error: variable "unused" was declared' in err
    assert run("quick.cu", "-arch=sm_90", "-Werror") == (0, "", "")
    assert run("warns.cu", "-arch=sm_90")[0] == 0


def test_headers_of_the_system(run: Run) -> None:
    """Warnings about headers of others would hide one's own, and ``-Werror`` would fail for them."""
    Path("sys").mkdir()
    Path("sys/theirs.h").write_text("__device__ inline void theirs() { int unused; }\n#define VALUE 1\n")
    Path("inc").mkdir()
    Path("inc/theirs.h").write_text("#define VALUE 2\n")
    Path("warns.cu").write_text('#include <theirs.h>\nextern "C" __global__ void f(int *p) { *p = 4710 + VALUE; }')
    words = ("warns.cu", "-arch=sm_90", "-ptx", "-isystem", "sys", "-Werror", "all-warnings")
    for more in ([], ["-Isys"]):  # -isystem wins if both name a directory, as in gcc
        assert run(*words, *more) == (0, "", "")
        assert "4711" in Path("warns.ptx").read_text()
    assert run(*words, "-Iinc") == (0, "", "")
    assert "4712" in Path("warns.ptx").read_text()
    assert "unused" in run("warns.cu", "-arch=sm_90", "-ptx", "-Isys")[2]


# -- files of options


def test_files_of_options(run: Run) -> None:
    """Build systems that write long command lines to files, as CMake does, could not call the command."""
    Path("deeper.txt").write_text('-DA="1 + 2" -DB=\\"x\\"')
    Path("words.txt").write_text("-ptx\n-arch=sm_90\n--options-file deeper.txt\n")
    found = parse(make_parser(), ["k.cu", "@words.txt", "@not-there"])
    assert (found.files, found.to, found.macros) == (["k.cu", "@not-there"], "ptx", ["-DA=1 + 2", '-DB="x"'])
    Path("deeper.txt").write_text("@words.txt")
    for words, message in (("@words.txt", "nested too deeply"), ("-optf=none", "No such file"), ("-optf", "a value")):
        status, _, err = run("quick.cu", words)
        assert (status, message in err) == (2, True), err


# -- messages of the assembler


def test_resources(run: Run) -> None:
    """Registers and spills, the main use of the assembler's output, would not be shown."""
    Path("spills.cu").write_text(SPILLS + QUICK)
    words = ("spills.cu", "-arch=sm_90", "-maxrregcount=32")
    status, out, err = run(*words, "-v")
    lines = err.splitlines()
    assert (status, out) == (0, "")
    assert lines[0].split() == [
        "kernel", "arch", "registers", "stack", "spill", "stores", "spill", "loads", "shared", "constant",
    ]  # fmt: skip
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:] if line[:5] != "ptxas"}
    assert set(rows) == {"spills", "quick"}
    assert rows["spills"][0] == "sm_90"
    assert all(int(number) > 0 for number in rows["spills"][1:5])
    assert rows["quick"][2:5] == ["0", "0", "0"]
    items = json.loads(run(*words, "-v", "--format", "json")[2])
    found = [item["resources"] for item in items if "resources" in item]
    spilled = next(one for one in found if one["symbol"] == "spills")
    assert [str(spilled[f"spill_{what}_bytes"]) for what in ("store", "load")] == rows["spills"][3:5]
    status, _, err = run(*words, "-Xptxas", "-warn-spills")
    assert (status, "warning: ptxas: " in err, "spill" in err) == (0, True, True), err


def test_other_output_is_shown(run: Run) -> None:
    """The compilation times that `--time` requests would not be shown."""
    status, _, err = run("quick.cu", "-arch=sm_90", "-X", "time=-")
    assert (status, "quick.cu, CUDA C++ Frontend" in err) == (0, True)


def test_logs_of_the_assembler() -> None:
    """Reports of older and newer assemblers would be read only in part."""
    diagnostics, lines = split_log(
        "ptxas info    : 0 bytes gmem, 8 bytes cmem[3]\n"
        "ptxas info    : Compiling entry function '_Z1kPf' for 'sm_80'\n"
        "ptxas info    : Function properties for _Z1kPf\n"
        "    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
        "ptxas info    : Used 10 registers, 384 bytes smem, 360 bytes cmem[0], 8 bytes cmem[2]\n"
        "ptxas application ptx input, line 7; error   : Unknown symbol 'x'\n"
        "ptxas fatal   : Ptx assembly aborted due to errors\n"
        "something else\n"
    )
    assert [(one.severity, one.message) for one in diagnostics] == [
        ("error", "ptxas: line 7 of the PTX: Unknown symbol 'x'"),
        ("error", "ptxas: Ptx assembly aborted due to errors"),
    ]
    resources, others = parse_resources(lines)
    assert [tuple(vars(one).values()) for one in resources] == [
        ("k(float*)", "_Z1kPf", "sm_80", 10, 16, 8, 4, 384, 368),
    ]
    assert others == ["something else"]


# -- raw options


def test_raw_options(build: Callable[..., Any]) -> None:
    """Compiler options without a name in this package could not be used."""
    assert ProgramOptions(arch=90, raw_options=["-x", "--y=1"]).as_bytes("nvrtc") == [b"-arch=sm_90", b"-x", b"--y=1"]
    with pytest.raises(NVRTCError, match="unrecognized option --nonsense"):
        build(QUICK, raw_options=["--nonsense"])
    with pytest.raises(NVVMError, match="nonsense"):
        Program(FUNCTION_IR, "nvvm", {"arch": "sm_90", "raw_options": "-nonsense"}).compile("ptx")
    for wrong, message in (
        ("-I/usr/include", "has a field of its own, ProgramOptions.include_path"),
        (["-arch=sm_90"], "ProgramOptions.arch"),
        (["--ftz=true"], "ProgramOptions.ftz"),
        ("fmax-errors", "options begin with a minus sign"),
    ):
        with pytest.raises(ValueError, match=message):
            ProgramOptions(raw_options=wrong)


def test_raw_options_are_not_cached(build: Callable[..., Any]) -> None:
    """A raw option could make the compiler read files that are not in the key."""
    cache = InMemoryProgramCache()
    raw = ProgramOptions(arch="sm_90", raw_options="--nonsense")
    with pytest.raises(UncacheableError, match="raw_options"):
        make_program_cache_key(code=QUICK, code_type="c++", options=raw, target_type="ptx")
    with pytest.raises(NVRTCError, match="unrecognized"):
        Program(QUICK, "c++", raw).compile("ptx", cache=cache)
    assert (len(cache), cache.statistics.uncacheable) == (0, 1)
    Program(QUICK, "c++", {"arch": "sm_90"}).compile("ptx", cache=cache)
    assert len(cache) == 0  # the compilation may have changed the state of NVRTC


# -- the available compilers, and completion


def test_compilers(run: Run) -> None:
    """A user could not see which compilers are found, and where."""
    status, out, _ = run("compilers")
    assert (status, out.splitlines()[0].split()[0]) == (0, "NVRTC")
    found = json.loads(run("compilers", "--format", "json")[1])
    assert set(found) == {"NVRTC", "NVVM", "nvJitLink", "driver"}
    assert 90 in found["NVRTC"]["architectures"]


def test_completion(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell could not complete the command's options, or the error would not name the missing package."""
    monkeypatch.setitem(sys.modules, "shtab", None)
    status, _, err = run("--print-completion", "bash")
    assert (status, 'pip install "cudacore-compile[completion]"' in err) == (2, True)
    monkeypatch.undo()
    pytest.importorskip("shtab", reason="shtab is not installed")
    status, out, _ = run("--print-completion", "bash")
    assert (status, "--list-kernels" in out) == (0, True)
    checked = subprocess.run(["bash", "-n"], input=out, text=True, capture_output=True, check=False)
    assert checked.stderr == ""
