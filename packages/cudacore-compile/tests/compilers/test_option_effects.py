# SPDX-License-Identifier: Apache-2.0
"""The effects of options on the code and the log of NVRTC."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from compile_sources import Build, Python

from cudacore_compile import NVRTCError, ProgramOptions

KERNEL = 'extern "C" __global__ void k(float *p) { *p = sqrtf(*p) / 3.0f; }'
UNUSED_VARIABLE = 'extern "C" __global__ void k() { int unused; }'  # warning 177
FUNCTION = 'extern "C" __device__ int f(int x) { return 3 * x; }'
MULTIPLY_ADD = 'extern "C" __global__ void k(float *p) { *p = p[1] * p[2] + p[3]; }'
UNANNOTATED = 'int f(int x) { return x; }\nextern "C" __global__ void k(int *p) { *p = f(1); }'


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"arch": "sm_75"}, ".target sm_75\n"),
        ({"arch": "compute_80"}, ".target sm_80\n"),
        ({"arch": "sm_90a"}, ".target sm_90a\n"),
        ({}, "sqrt.rn.f32"),
        ({"ftz": True}, "sqrt.rn.ftz.f32"),
        ({"prec_sqrt": False}, "sqrt.approx.f32"),
        ({"prec_div": False}, "div.full.f32"),
        ({"use_fast_math": True}, "sqrt.approx.ftz.f32"),
        ({"extensible_whole_program": True}, ".entry k"),
        ({"extra_device_vectorization": True}, ".entry k"),
        ({"split_compile": 0}, ".entry k"),
        ({"split_compile": 1}, ".entry k"),
        ({"split_compile": 2}, ".entry k"),
        ({"no_cache": True}, ".entry k"),
        ({"arch": "sm_100", "device_float128": True}, ".entry k"),
    ],
    ids=str,
)
def test_code(options: dict[str, Any], text: str, build: Build) -> None:
    """An option would be refused, or would not have its effect on the generated code."""
    assert text in build(KERNEL, **options).text


@pytest.mark.parametrize(
    ("source", "options", "without", "text"),
    [
        (UNUSED_VARIABLE, {}, {"disable_warnings": True}, "unused"),
        (UNUSED_VARIABLE, {}, {"no_display_error_number": True}, "#177"),
        (UNUSED_VARIABLE, {"brief_diagnostics": False}, {"brief_diagnostics": True}, "int unused;"),
        (UNUSED_VARIABLE, {"diag_error": 177, "diag_warn": 177}, {"diag_suppress": 177}, "warning #177-D"),
        (FUNCTION, {"relocatable_device_code": True}, {"relocatable_device_code": False}, "func"),
        (MULTIPLY_ADD, {"fma": True}, {"fma": False}, "fma.rn.f32"),
        (KERNEL, {"lineinfo": True}, {}, ".loc"),
        (KERNEL, {"debug": True}, {"debug": True, "device_code_optimize": True}, ".target sm_90, debug"),
        (KERNEL, {}, {"fdevice_syntax_only": True}, ".entry"),
    ],
)
def test_code_with_and_without(
    source: str, options: dict[str, Any], without: dict[str, Any], text: str, build: Build
) -> None:
    """The effect of an option on the code or the log would be missing, or would also occur without the option."""
    made, other = build(source, **options), build(source, **without)
    assert text in made.text + made.log
    assert text not in other.text + other.log


@pytest.mark.parametrize(
    ("source", "options", "refusing"),
    [
        ("__device__ int f(int x) { return std::move(x); }", {"builtin_move_forward": True},
         {"builtin_move_forward": False}),
        ("__device__ int f(std::initializer_list<int> x) { return x.size(); }", {"builtin_initializer_list": True},
         {"builtin_initializer_list": False}),
        (UNANNOTATED, {"device_as_default_execution_space": True}, {}),
        ("__device__ __int128 x;", {"device_int128": True}, {}),
        ("__device__ cudaTextureObject_t x;", {}, {"minimal": True}),
        ('static_assert(__cplusplus == 201402, "");', {"std": "c++14"}, {}),
        ('static_assert(__cplusplus == 201703, "");', {"std": "c++17"}, {"std": "c++14"}),
        ('static_assert(__cplusplus == 202002, "");', {"std": "c++20"}, {"std": "c++14"}),
    ],
)  # fmt: skip
def test_language(source: str, options: dict[str, Any], refusing: dict[str, Any], build: Build) -> None:
    """A part of the language would be missing although an option enables it, or exist although it is disabled."""
    assert build(source, **options).code
    with pytest.raises(NVRTCError):
        build(source, **refusing)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("__device__ __float128 x;", {"device_float128": True}, r"See ProgramOptions\.device_float128"),
        (UNUSED_VARIABLE, {"diag_error": [177, 550]}, r"error.*: variable \"unused\""),
        ("syntax error", {"fdevice_syntax_only": True}, "NVRTC_ERROR_COMPILATION"),
        (KERNEL, {"time": "none/times.csv"}, "NVRTC_ERROR_TIME_FILE_WRITE_FAILED"),
        (KERNEL, {"ofast_compile": "warp"}, r"See ProgramOptions\.ofast_compile"),
        ("static_assert(B);", {"define_macro": ["A", "B"], "undefine_macro": "B"}, 'identifier "B" is undefined'),
        (KERNEL, {"numba_debug": True}, r"ProgramOptions\.numba_debug"),
    ],
)
def test_refused(source: str, options: dict[str, Any], message: str, build: Build) -> None:
    """The option would not reach the compiler, or the error would not have the name that the user knows."""
    with pytest.raises(NVRTCError, match=message):
        build(source, **options)


def test_name(build: Build) -> None:
    """Diagnostics would not name the program."""
    assert build(UNUSED_VARIABLE, name="dir/my program.cu").log.startswith("dir/my program.cu(1): warning #177-D")
    assert build(UNUSED_VARIABLE, name="gr\xfc\xdfe \udcff.cu").log.startswith("gr\xfc\xdfe \ufffd.cu(1): warning")
    assert build(UNUSED_VARIABLE, name=None).log.startswith("default_program(1): warning")
    with pytest.raises(ValueError, match=r'name=\'-DA=1\' is an option to NVRTC: write "./-DA=1"'):
        build(UNUSED_VARIABLE, name="-DA=1")
    assert ProgramOptions(name=None).name == "default_program"


def test_max_register_count(build: Build) -> None:
    """Kernels would use more registers than allowed."""
    source = (
        'extern "C" __global__ void k(double *p) { for (int i = 0; i < 9; ++i) p[i] = sin(p[i]) * pow(p[i], 3.1); }'
    )
    log = build(source, "cubin", ptxas_options="-v", max_register_count=24, no_cache=True).log
    assert max(map(int, re.findall(r"Used (\d+) registers", log))) <= 24
    log = build(source, "cubin", ptxas_options="-v", no_cache=True).log
    assert max(map(int, re.findall(r"Used (\d+) registers", log))) > 24


def test_restrict(python: Python) -> None:
    """Pointers would not become restrict pointers, or no warning would say that NVRTC applies this to later
    programs, too."""
    result = python(
        """
        import warnings
        from cudacore_compile import InMemoryProgramCache, Program, ProgramOptions

        source = 'extern "C" __global__ void k(float *a, const float *b) { a[0] = 1; a[1] = b[0]; }'
        plain = Program(source, "c++", ProgramOptions(arch="sm_90"))
        restrict = Program(source, "c++", ProgramOptions(arch="sm_90", restrict=True))
        warnings.simplefilter("error")
        assert b".nc." not in plain.compile("ptx").code
        assert b".nc." in restrict.compile("ptx").code
        assert b".nc." in restrict.compile("ptx").code
        try:
            plain.compile("ptx")
        except RuntimeWarning as warning:
            print(warning)
        warnings.simplefilter("default")
        plain.compile("ptx")  # the line that the warning names
        plain.compile("ptx", cache=InMemoryProgramCache())
        """
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("a program was compiled with ProgramOptions(restrict=True) in this process")
    for line in (17, 18):
        assert f"<string>:{line}: RuntimeWarning: a program was compiled with" in result.stderr


def test_optimization_info(python: Python) -> None:
    """Optimizations would not be reported."""
    # In a separate process, because NVRTC then reports the optimizations of all later programs.
    result = python(
        """
        import sys
        from cudacore_compile import Program, ProgramOptions

        source = '__device__ int f(int x) { return 3 * x; } extern "C" __global__ void k(int *p) { *p = f(*p); }'
        options = ProgramOptions(arch="sm_90", optimization_info="inline", no_cache=True)
        Program(source, "c++", options).compile("ptx", logs=sys.stdout)
        """
    )
    assert "inline" in result.stdout


@pytest.mark.parametrize(
    ("source", "target", "options", "others"),
    [
        (KERNEL, "ltoir", {}, {"gen_opt_lto": True}),
        ("namespace { __device__ int hidden; __global__ void k(int **p) { *p = &hidden; } }", "ptx",
         {"frandom_seed": "a"}, {"frandom_seed": "b"}),
        ('extern "C" __global__ void k(double *p) { *p = sin(*p) * pow(*p, 3.1); }', "ptx", {"ofast_compile": "max"},
         {"ofast_compile": "0"}),
    ],
)  # fmt: skip
def test_other_code(source: str, target: str, options: dict[str, Any], others: dict[str, Any], build: Build) -> None:
    """An option would have no effect on the code, or the code would not be reproducible."""
    assert build(source, target, **options).code == build(source, target, **options).code
    assert build(source, target, **options).code != build(source, target, **others).code


def test_time(build: Build, tmp_path: Path) -> None:
    """Times would not be recorded."""
    build(KERNEL, time=tmp_path / "times.csv")
    assert "phase name" in (tmp_path / "times.csv").read_text()
    assert "phase name" in build(KERNEL, time="-").log


@pytest.mark.parametrize("target", ["ptx", "cubin", "ltoir"])
@pytest.mark.parametrize("name", ["trace.json", "trace"])
def test_fdevice_time_trace(target: str, name: str, build: Build, tmp_path: Path) -> None:
    """The profile would be written to another file than the given one, or the compilation would fail."""
    build(KERNEL, target, fdevice_time_trace=tmp_path / name)
    assert os.listdir(tmp_path) == ["trace.json"]
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_fdevice_time_trace_that_cannot_be_written(build: Build, tmp_path: Path) -> None:
    """If the profile cannot be written, NVRTC would abort the process."""
    with pytest.raises(FileNotFoundError, match=r"ProgramOptions\.fdevice_time_trace: .*none/trace\.json"):
        build(KERNEL, fdevice_time_trace=tmp_path / "none" / "trace.json")
    (tmp_path / "trace.json").mkdir()
    with pytest.raises(IsADirectoryError):
        build(KERNEL, fdevice_time_trace=tmp_path / "trace")


def test_fdevice_time_trace_with_other_contents(build: Build, tmp_path: Path) -> None:
    """An error caused by the contents of an existing file would have no explanation."""
    (tmp_path / "trace.json").write_text("{}")
    with pytest.raises(NVRTCError, match=r"cannot add to the file that ProgramOptions\.fdevice_time_trace names"):
        build(KERNEL, "cubin", fdevice_time_trace=tmp_path / "trace.json")


def test_explicit_pch(build: Build, tmp_path: Path) -> None:
    """Precompiled headers would not be created when requested, or not be used."""
    (tmp_path / "big.h").write_text("#define FROM_HEADER 777\n")
    source = '#include "big.h"\n#pragma nv_hdrstop\nextern "C" __global__ void k(int *p) { *p = FROM_HEADER; }'
    options = {"include_path": tmp_path, "pch_dir": tmp_path, "instantiate_templates_in_pch": True}
    made = build(source, create_pch="big.pch", **options)
    assert "creating precompiled header" in made.log
    assert (tmp_path / "big.pch").stat().st_size > 0
    used = build(source, use_pch=Path("big.pch"), **options)
    assert "using precompiled header" in used.log
    assert used.code == made.code
    assert build(source, use_pch="big.pch", pch_messages=False, **options).log == ""
    with pytest.raises(NVRTCError, match="cannot open precompiled header file"):
        build(source, use_pch="none.pch", **options)


def test_automatic_pch_verbosity(build: Build, tmp_path: Path) -> None:
    """The log would not say why a precompiled header is not used, or would say so without `pch_verbose`."""
    options = {"pch": True, "pch_dir": tmp_path, "pch_messages": False}
    build(KERNEL, **options)
    told = build(KERNEL, pch_verbose=True, define_macro="OTHER", **options)
    silent = build(KERNEL, pch_verbose=False, define_macro="ANOTHER", **options)
    assert "OTHER" in told.log or "not match" in told.log
    assert silent.log == ""
