# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cudacore_compile import NVRTCError, Program, ProgramOptions, cuda_include_path
from cudacore_compile._compilers.options import _SINCE, field_of
from cudacore_compile.typing import CompilerBackendType

Build = Callable[..., Any]
Run = Callable[..., subprocess.CompletedProcess[str]]

KERNEL = 'extern "C" __global__ void k(float *p) { *p = sqrtf(*p) / 3.0f; }'
UNUSED_VARIABLE = 'extern "C" __global__ void k() { int unused; }'  # warning 177

# Every option with its expected flags, except arch, name and options whose flags depend on more than their value.
FLAGS: list[tuple[str, Any, list[bytes]]] = [
    ("relocatable_device_code", True, [b"--relocatable-device-code=true"]),
    ("relocatable_device_code", False, [b"--relocatable-device-code=false"]),
    ("extensible_whole_program", True, [b"--extensible-whole-program"]),
    ("extensible_whole_program", False, []),
    ("debug", True, [b"--device-debug"]),
    ("debug", 1, [b"--device-debug"]),
    ("debug", np.False_, []),
    ("lineinfo", True, [b"--generate-line-info"]),
    ("device_code_optimize", True, [b"--dopt=on"]),
    ("device_code_optimize", False, []),
    ("ptxas_options", "-v", [b"--ptxas-options=-v"]),
    ("ptxas_options", ["-v", "-O1"], [b"--ptxas-options=-v", b"--ptxas-options=-O1"]),
    ("max_register_count", 32, [b"--maxrregcount=32"]),
    ("ftz", True, [b"--ftz=true"]),
    ("prec_sqrt", False, [b"--prec-sqrt=false"]),
    ("prec_div", False, [b"--prec-div=false"]),
    ("fma", False, [b"--fmad=false"]),
    ("use_fast_math", True, [b"--use_fast_math"]),
    ("extra_device_vectorization", True, [b"--extra-device-vectorization"]),
    ("link_time_optimization", True, [b"--dlink-time-opt"]),
    ("gen_opt_lto", True, [b"--gen-opt-lto"]),
    ("define_macro", "A", [b"--define-macro=A"]),
    ("define_macro", ("A", "1 + 2"), [b"--define-macro=A=1 + 2"]),
    ("define_macro", ("A", ""), [b"--define-macro=A="]),
    ("define_macro", ["A", ("B", "2")], [b"--define-macro=A", b"--define-macro=B=2"]),
    ("define_macro", (("A", "1"), "B", "C=3"), [b"--define-macro=A=1", b"--define-macro=B", b"--define-macro=C=3"]),
    ("define_macro", ("A", 1), [b"--define-macro=A=1"]),
    (
        "define_macro",
        [("A", 1.5), ("B", True), ("C", None)],
        [f"--define-macro={m}".encode() for m in ("A=1.5", "B=1", "C")],
    ),
    ("define_macro", {"A": 1, "B": "x", "C": None}, [f"--define-macro={m}".encode() for m in ("A=1", "B=x", "C")]),
    ("undefine_macro", ("A", "B"), [b"--undefine-macro=A", b"--undefine-macro=B"]),
    ("include_path", "/inc", [b"--include-path=/inc"]),
    ("include_path", [Path("/a b"), "/c"], [b"--include-path=/a b", b"--include-path=/c"]),
    ("include_path", os.fsdecode(b"/\xff"), [b"--include-path=/\xff"]),
    ("pre_include", Path("/a.h"), [b"--pre-include=/a.h"]),
    ("no_source_include", True, [b"--no-source-include"]),
    ("std", "c++20", [b"--std=c++20"]),
    ("builtin_move_forward", False, [b"--builtin-move-forward=false"]),
    ("builtin_initializer_list", False, [b"--builtin-initializer-list=false"]),
    ("disable_warnings", True, [b"--disable-warnings"]),
    ("restrict", True, [b"--restrict"]),
    ("device_as_default_execution_space", True, [b"--device-as-default-execution-space"]),
    ("device_int128", True, [b"--device-int128"]),
    ("optimization_info", "inline", [b"--optimization-info=inline"]),
    ("no_display_error_number", True, [b"--no-display-error-number"]),
    ("diag_error", 177, [b"--diag-error=177"]),
    ("diag_suppress", [177, 550], [b"--diag-suppress=177", b"--diag-suppress=550"]),
    ("diag_warn", (177,), [b"--diag-warn=177"]),
    ("brief_diagnostics", True, [b"--brief-diagnostics=true"]),
    ("time", "-", [b"--time=-"]),
    ("time", True, [b"--time=-"]),
    ("time", False, []),
    ("split_compile", 2, [b"--split-compile=2"]),
    ("split_compile", np.int64(2), [b"--split-compile=2"]),
    ("split_compile", True, [b"--split-compile=0"]),
    ("split_compile", False, []),
    ("fdevice_syntax_only", True, [b"--fdevice-syntax-only"]),
    ("minimal", True, [b"--minimal"]),
    ("no_cache", True, [b"--no-cache"]),
    ("fdevice_time_trace", "trace", [b"--fdevice-time-trace=trace"]),
    ("fdevice_time_trace", Path("trace.json"), [b"--fdevice-time-trace=trace"]),
    ("device_float128", True, [b"--device-float128"]),
    ("frandom_seed", "seed", [b"--frandom-seed=seed"]),
    ("frandom_seed", 7, [b"--frandom-seed=7"]),
    ("ofast_compile", "max", [b"--Ofast-compile=max"]),
    ("pch", True, [b"--pch"]),
    ("create_pch", "a.pch", [b"--create-pch=a.pch"]),
    ("use_pch", "a.pch", [b"--use-pch=a.pch"]),
    ("pch_dir", Path("/pch"), [b"--pch-dir=/pch"]),
    ("pch_verbose", False, [b"--pch-verbose=false"]),
    ("pch_messages", False, [b"--pch-messages=false"]),
    ("instantiate_templates_in_pch", False, [b"--instantiate-templates-in-pch=false"]),
    ("numba_debug", True, [b"--numba-debug"]),
]
ELSEWHERE = {"name", "arch", "use_bundled_headers", "extra_sources", "use_libdevice", "raw_options"}


@pytest.mark.parametrize(("field", "value", "flags"), FLAGS)
def test_flags(field: str, value: Any, flags: list[bytes]) -> None:
    """An option would reach the compiler in another form than NVRTC understands, or not at all."""
    options = ProgramOptions(arch="sm_90", **{field: value})
    assert options.as_bytes("nvrtc") == [b"-arch=sm_90", *flags]
    assert all(field_of(os.fsdecode(flag)) == field for flag in flags)


def test_every_option_is_tested() -> None:
    """An option could be added, or be dropped from the table of flags, without anything noticing."""
    assert {field for field, _, _ in FLAGS} | ELSEWHERE == {field.name for field in dataclasses.fields(ProgramOptions)}


def test_defaults_give_no_flags() -> None:
    """The compiler's own defaults would be overridden without a request."""
    assert ProgramOptions(arch="sm_90").as_bytes(CompilerBackendType.NVRTC) == [b"-arch=sm_90"]


@pytest.mark.parametrize(
    ("arch", "target", "flag"),
    [
        ("sm_90", None, b"-arch=sm_90"),
        ("compute_90", None, b"-arch=compute_90"),
        ("90", None, b"-arch=sm_90"),
        (90, None, b"-arch=sm_90"),
        ("90a", "cubin", b"-arch=sm_90a"),
        ("sm_100f", "cubin", b"-arch=sm_100f"),
        ("sm_90", "ltoir", b"-arch=sm_90"),
        ("sm_90", "ptx", b"-arch=compute_90"),
        ("sm_90a", "ptx", b"-arch=compute_90a"),
        ("compute_75", "ptx", b"-arch=compute_75"),
    ],
)
def test_arch_flag(arch: str | int, target: str | None, flag: bytes) -> None:
    """An architecture would be changed, or PTX would be assembled needlessly."""
    assert ProgramOptions(arch=arch).as_bytes("NVRTC", target)[0] == flag


def test_ptx_with_ptxas_options_keeps_arch() -> None:
    """Options of the assembler, which is not run for a virtual architecture, would be ignored silently."""
    options = ProgramOptions(arch="sm_90", ptxas_options="-v")
    assert options.as_bytes("nvrtc", "ptx")[0] == b"-arch=sm_90"


@pytest.mark.parametrize(
    "options", [{}, {"debug": True}, {"max_register_count": 32}, {"relocatable_device_code": True}]
)
def test_ptx_of_virtual_arch_is_the_same(options: dict[str, Any], build: Build) -> None:
    """PTX of the virtual architecture would differ from that of the requested real one."""
    spared = build(KERNEL, "ptx", arch="sm_90a", **options)
    assembled = build(KERNEL, "ptx", arch="sm_90a", ptxas_options="-v", **options)
    assert spared.code == assembled.code


def test_ltoir_implies_link_time_optimization() -> None:
    """The output would not be LTO-IR, or the flag would be given twice."""
    for options in (ProgramOptions(arch="sm_90"), ProgramOptions(arch="sm_90", link_time_optimization=True)):
        assert options.as_bytes("nvrtc", "ltoir").count(b"--dlink-time-opt") == 1


@pytest.mark.parametrize("target", ["ptx", "cubin"])
def test_link_time_optimization_makes_ltoir_only(target: str) -> None:
    """The compiler would return empty PTX or an empty cubin."""
    options = ProgramOptions(arch="sm_90", link_time_optimization=True)
    with pytest.raises(ValueError, match=rf"link_time_optimization makes LTO-IR, not {target}"):
        options.as_bytes("nvrtc", target)


def test_cubin_of_virtual_arch() -> None:
    """The compiler would return an empty cubin."""
    with pytest.raises(ValueError, match=r"arch='compute_90a' is a virtual architecture.*set arch=\"sm_90a\""):
        ProgramOptions(arch="compute_90a").as_bytes("nvrtc", "cubin")


# ---- bad values

BOOLS = [field.name for field in dataclasses.fields(ProgramOptions) if str(field.type).replace(" ", "") == "bool|None"]
WRONG_TYPES = [
    *((field, value) for field in BOOLS for value in (2, "true")),
    ("name", 1),
    ("name", b"x"),
    ("arch", 9.0),
    ("arch", True),
    ("ptxas_options", [1]),
    ("ptxas_options", {"-v"}),
    ("max_register_count", "32"),
    ("max_register_count", True),
    ("max_register_count", 32.0),
    ("define_macro", 1),
    ("define_macro", [("A", b"1")]),
    ("define_macro", {1: 2}),
    ("define_macro", [("A", "1", "2")]),
    ("undefine_macro", [b"A"]),
    ("include_path", [None]),
    ("include_path", Ellipsis),
    ("std", 17),
    ("diag_error", "177"),
    ("diag_suppress", [177.0]),
    ("time", 1),
    ("split_compile", 1.0),
    ("frandom_seed", 1.5),
    ("frandom_seed", True),
    ("extra_sources", "source"),
    ("extra_sources", [("name", 1)]),
    ("extra_sources", ["ab"]),
]
WRONG_VALUES = [
    ("name", ""),
    ("arch", ""),
    ("arch", "hopper"),
    ("arch", "sm_9"),
    ("arch", "sm90"),
    ("arch", "sm_90x"),
    ("arch", "sm_90,sm_80"),
    ("arch", "sm_٩٠"),
    ("max_register_count", 0),
    ("max_register_count", -1),
    ("max_register_count", 2**31),
    ("define_macro", ""),
    ("define_macro", ("", "1")),
    ("define_macro", "A=1\n2"),
    ("include_path", ""),
    ("include_path", ["/a", ""]),
    ("std", ""),
    ("diag_error", 0),
    ("diag_warn", [177, -1]),
    ("split_compile", -1),
    ("split_compile", 100_000),
    ("time", ""),
    ("std", "c++\ud800"),
    ("create_pch", ""),
    ("extra_sources", [("a\0b", "; a module")]),
    ("extra_sources", [("a", b"")]),
]
# NVRTC removes white space at the end of an option. It would search another directory than the one that a cache checks.
ENDS = [
    ("include_path", ["/a", "/b "]),
    ("pre_include", "a.h\t"),
    ("use_pch", "p\n"),
    ("time", "t\f"),
    ("pch_dir", "d\r"),
]
TEXTS = ["name", "ptxas_options", "define_macro", "undefine_macro", "include_path", "pre_include", "std", "time"]


@pytest.mark.parametrize(("field", "value"), WRONG_TYPES)
def test_wrong_type(field: str, value: Any) -> None:
    """A value of a wrong type would reach the compiler as some text, or fail without naming the option."""
    with pytest.raises(TypeError, match=rf"^ProgramOptions\.{field} must be an? .*, not \w+$"):
        ProgramOptions(**{field: value})


@pytest.mark.parametrize(("field", "value"), [*WRONG_VALUES, *ENDS, *((field, "a\0b") for field in TEXTS)])
def test_wrong_value(field: str, value: Any) -> None:
    """A value that the option cannot have would be cut off, hang the compiler, or fail without naming the option."""
    with pytest.raises(ValueError, match=rf"^ProgramOptions\.{field}"):
        ProgramOptions(**{field: value})


@pytest.mark.parametrize(
    ("field", "make"),
    [("arch", int), ("max_register_count", int), ("diag_warn", lambda n: [n]), ("frandom_seed", int),
     ("define_macro", lambda n: {"A": n})],
)  # fmt: skip
def test_numbers_that_python_does_not_write(field: str, make: Callable[[int], Any]) -> None:
    """A number of thousands of digits would be an error that does not name the option."""
    with pytest.raises(ValueError, match=rf"^ProgramOptions\.{field} is a number of too many digits"):
        ProgramOptions(**{field: make(10**5000)})


def test_values_are_checked_when_used() -> None:
    """A value that was set later would escape the checks."""
    for field, value in (("max_register_count", -1), ("name", "a\0b"), ("arch", "hopper")):
        options = ProgramOptions(arch="sm_90")
        setattr(options, field, value)
        with pytest.raises(ValueError, match=rf"^ProgramOptions\.{field}"):
            options.as_bytes("nvrtc")


def test_unknown_option() -> None:
    """A misspelt option would be ignored."""
    with pytest.raises(TypeError, match="fast_math"):
        ProgramOptions(fast_math=True)  # type: ignore[call-arg]


def test_options_of_other_compilers() -> None:
    """An option that NVRTC does not support would be ignored silently."""
    with pytest.raises(ValueError, match=r"ProgramOptions\.extra_sources is for NVVM"):
        ProgramOptions(arch="sm_90", extra_sources=[("a", b"source")]).as_bytes("nvrtc")
    with pytest.warns(RuntimeWarning, match=r"ProgramOptions\.use_libdevice: without effect on C\+\+ programs"):
        assert ProgramOptions(arch="sm_90", use_libdevice=True).as_bytes("nvrtc") == [b"-arch=sm_90"]


def test_options_of_other_compilers_unused() -> None:
    """Disabling an option with False would be an error."""
    options = ProgramOptions(arch="sm_90", extra_sources=[], use_libdevice=False, use_bundled_headers=False)
    assert options.as_bytes("nvrtc") == [b"-arch=sm_90"]


def test_backends() -> None:
    """An unknown backend, or one without flags, would be treated as NVRTC."""
    options = ProgramOptions(arch="sm_90")
    with pytest.raises(ValueError, match="the driver's linker takes numbers"):
        options.as_bytes("driver")
    with pytest.raises(ValueError, match="unknown backend 'clang': there are NVRTC, NVVM, nvJitLink, driver"):
        options.as_bytes("clang")
    with pytest.raises(TypeError, match="backend must be a str"):
        options.as_bytes(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='Unsupported target_type="fatbin"'):
        options.as_bytes("nvrtc", "fatbin")


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, []),
        ({"arch": "compute_90a"}, []),
        ({"debug": True, "name": "x", "no_cache": True, "std": None, "include_path": []}, ["-g"]),
        ({"device_code_optimize": True}, ["-opt=3"]),
        ({"device_code_optimize": False}, ["-opt=0"]),
        ({"ftz": True, "prec_sqrt": False, "prec_div": True}, ["-ftz=1", "-prec-sqrt=0", "-prec-div=1"]),
        ({"fma": False, "use_libdevice": True, "extra_sources": [("a", "b")]}, ["-fma=0"]),
        ({"raw_options": ["-x"]}, ["-x"]),
        ({"numba_debug": True, "debug": 1, "relocatable_device_code": False}, ["-g", "-numba-debug"]),
        ({"link_time_optimization": True}, ["-gen-lto"]),
    ],
)
def test_nvvm_flags(options: dict[str, Any], flags: list[str]) -> None:
    """An option would reach NVVM in another form than it understands, or not at all."""
    arch = "-arch=compute_90a" if "arch" in options else "-arch=compute_90"
    given = ProgramOptions(**{"arch": "sm_90", **options})
    assert given.as_bytes("nvvm") == [flag.encode() for flag in (arch, *flags)]


def test_nvvm_targets() -> None:
    """NVVM would not generate LTO-IR, or would generate it without a request."""
    options = ProgramOptions(arch="sm_90")
    assert options.as_bytes("NVVM", "ltoir") == [b"-arch=compute_90", b"-gen-lto"]
    assert options.as_bytes("NVVM", "ptx") == [b"-arch=compute_90"]
    with pytest.raises(ValueError, match="link_time_optimization makes LTO-IR, not ptx"):
        ProgramOptions(arch="sm_90", link_time_optimization=True).as_bytes("nvvm", "ptx")
    with pytest.raises(ValueError, match="Unsupported target_type=\"cubin\" for code_type='nvvm'"):
        options.as_bytes("nvvm", "cubin")


def test_flags_of_ptx_programs() -> None:
    """An option would not reach the linker that assembles PTX."""
    options = ProgramOptions(
        arch=90,
        max_register_count=32,
        debug=True,
        lineinfo=True,
        device_code_optimize=True,
        ptxas_options=["-v"],
        split_compile=True,
        time="-",
        no_cache=True,
    )
    flags = "-arch=sm_90 -maxrregcount=32 -time -O3 -g -lineinfo -Xptxas=-v -split-compile=0 -no-cache"
    assert options.as_bytes("nvJitLink", "cubin") == flags.encode().split()
    with pytest.raises(ValueError, match="times of PTX programs go to the log only"):
        ProgramOptions(arch="sm_90", time="times.csv").as_bytes("nvjitlink")
    with pytest.warns(RuntimeWarning, match=r"ProgramOptions\.ftz, ProgramOptions\.fma: without effect on PTX") as told:
        ProgramOptions(arch="sm_90", ftz=True, fma=False).as_bytes("nvjitlink")
    assert told[0].filename == __file__


FOR_NVVM = {
    "name", "arch", "debug", "device_code_optimize", "ftz", "prec_sqrt", "prec_div", "fma", "numba_debug",
    "link_time_optimization", "extra_sources", "use_libdevice", "no_cache", "raw_options",
}  # fmt: skip
FOR_PTX = {
    "name", "arch", "max_register_count", "debug", "lineinfo", "ptxas_options", "split_compile", "no_cache", "time",
    "device_code_optimize", "ftz", "prec_sqrt", "prec_div", "fma",
}  # fmt: skip
IGNORED_BY_NVVM = {
    "fdevice_time_trace", "frandom_seed", "ofast_compile", "device_float128", "pch", "create_pch", "use_pch", "pch_dir",
    "pch_verbose", "pch_messages", "instantiate_templates_in_pch",
}  # fmt: skip
SET = {field: True if value is False else value for field, value, flags in FLAGS if flags} | {
    "use_bundled_headers": True,
    "extra_sources": [("a", "b")],
    "use_libdevice": True,
    "raw_options": ["-x"],
}


@pytest.mark.parametrize("field", sorted(SET))
@pytest.mark.parametrize(("backend", "known"), [("NVVM", FOR_NVVM), ("nvJitLink", FOR_PTX)])
def test_options_that_a_backend_cannot_honour(field: str, backend: str, known: set[str]) -> None:
    """A compiler would ignore an option that it lacks, or an option that cuda.core accepts would be refused."""
    options = ProgramOptions(arch="sm_90", **{field: SET[field]})
    ignored = IGNORED_BY_NVVM if backend == "NVVM" else SET.keys() - FOR_PTX - {"extra_sources", "raw_options"}
    if field in known:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options.as_bytes(backend)
        return
    programs = {"NVVM": "NVVM", "nvJitLink": "PTX"}[backend]
    if field in ignored:
        with pytest.warns(
            RuntimeWarning, match=rf"^ProgramOptions\.{field}: without effect on {programs} programs"
        ) as told:
            assert options.as_bytes(backend) == ProgramOptions(arch="sm_90").as_bytes(backend)
        assert told[0].filename == __file__
    else:
        with pytest.raises(ValueError, match=rf"ProgramOptions\.{field} is not supported for {programs} programs"):
            options.as_bytes(backend)


def test_repr() -> None:
    """The repr would show all options, not only those that were set."""
    options = ProgramOptions(arch="sm_90", std="c++17", debug=False)
    assert repr(options) == "ProgramOptions(name='default_program', arch='sm_90', debug=False, std='c++17')"


# ---- effects of the options


def test_name(build: Build) -> None:
    """Diagnostics would not name the program."""
    assert build(UNUSED_VARIABLE, name="dir/my program.cu").log.startswith("dir/my program.cu(1): warning #177-D")
    assert build(UNUSED_VARIABLE, name="gr\xfc\xdfe \udcff.cu").log.startswith("gr\xfc\xdfe \ufffd.cu(1): warning")
    assert build(UNUSED_VARIABLE, name=None).log.startswith("default_program(1): warning")
    with pytest.raises(ValueError, match=r'name=\'-DA=1\' is an option to NVRTC: write "./-DA=1"'):
        build(UNUSED_VARIABLE, name="-DA=1")
    assert ProgramOptions(name=None).name == "default_program"


@pytest.mark.parametrize("arch", ["sm_75", "compute_80", "sm_90a"])
def test_arch(arch: str, build: Build) -> None:
    """Code would be generated for another architecture."""
    assert f".target sm_{arch.partition('_')[2]}\n" in build(KERNEL, arch=arch).text


def test_relocatable_device_code(build: Build) -> None:
    """Functions that other programs link with would be missing."""
    source = 'extern "C" __device__ int f(int x) { return 3 * x; }'
    assert "func" in build(source, relocatable_device_code=True).text
    assert "func" not in build(source, relocatable_device_code=False).text


def test_extensible_whole_program(build: Build) -> None:
    """The flag would be refused."""
    assert ".entry k" in build(KERNEL, extensible_whole_program=True).text


def test_debug(build: Build) -> None:
    """There would be no debug information, or the code would not be optimized although requested."""
    assert re.search(r"\.target sm_90, debug", build(KERNEL, debug=True).text)
    assert ", debug" not in build(KERNEL, debug=True, device_code_optimize=True).text


def test_lineinfo(build: Build) -> None:
    """There would be no line numbers."""
    assert ".loc" in build(KERNEL, lineinfo=True).text
    assert ".loc" not in build(KERNEL).text


@pytest.mark.parametrize("target", ["ptx", "cubin"])
def test_ptxas_options(target: str, build: Build) -> None:
    """The assembler would not get its options."""
    assert "info    :" in build(KERNEL, target, ptxas_options=["-v", "-O1"], no_cache=True).log


def test_max_register_count(build: Build) -> None:
    """Kernels would use more registers than allowed."""
    source = (
        'extern "C" __global__ void k(double *p) { for (int i = 0; i < 9; ++i) p[i] = sin(p[i]) * pow(p[i], 3.1); }'
    )
    log = build(source, "cubin", ptxas_options="-v", max_register_count=24, no_cache=True).log
    assert max(map(int, re.findall(r"Used (\d+) registers", log))) <= 24
    log = build(source, "cubin", ptxas_options="-v", no_cache=True).log
    assert max(map(int, re.findall(r"Used (\d+) registers", log))) > 24


@pytest.mark.parametrize(
    ("options", "instruction"),
    [
        ({}, "sqrt.rn.f32"),
        ({"ftz": True}, "sqrt.rn.ftz.f32"),
        ({"prec_sqrt": False}, "sqrt.approx.f32"),
        ({"prec_div": False}, "div.full.f32"),
        ({"use_fast_math": True}, "sqrt.approx.ftz.f32"),
    ],
)
def test_arithmetic(options: dict[str, bool], instruction: str, build: Build) -> None:
    """Results would be more or less exact than requested."""
    assert instruction in build(KERNEL, **options).text


def test_fma(build: Build) -> None:
    """Multiplications and additions would be contracted although that is disabled."""
    source = 'extern "C" __global__ void k(float *p) { *p = p[1] * p[2] + p[3]; }'
    assert "fma.rn.f32" in build(source, fma=True).text
    assert "fma.rn.f32" not in build(source, fma=False).text


def test_extra_device_vectorization(build: Build) -> None:
    """The flag would be refused."""
    assert ".entry k" in build(KERNEL, extra_device_vectorization=True).text


def test_link_time_optimization(build: Build) -> None:
    """LTO-IR would not be made, or the optimizer's passes before it not be run."""
    plain = build(KERNEL, "ltoir").code
    assert plain == build(KERNEL, "ltoir", link_time_optimization=True).code
    assert plain != build(KERNEL, "ltoir", gen_opt_lto=True).code


def test_macros(build: Build) -> None:
    """Macros would not be defined, or not be undefined."""
    source = 'extern "C" __global__ void k(int *p) { p[0] = A; p[1] = B; }'
    text = build(source, define_macro=["A=1000 + 1", ("B", "2000 + 2")]).text
    assert "1001" in text
    assert "2002" in text
    with pytest.raises(NVRTCError, match='identifier "B" is undefined'):
        build(source, define_macro=["A", "B"], undefine_macro="B")


def test_include_path(build: Build, tmp_path: Path) -> None:
    """Included files would not be found, or their directories would be searched in another order."""
    for number, folder in enumerate(("a b", "ü")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "both.h").write_text(f"#define BOTH 100{number}")
    (tmp_path / "ü" / "one.h").write_text("#define ONE 1")
    source = '#include "both.h"\n#include <one.h>\nextern "C" __global__ void k(int *p) { *p = BOTH; }'
    assert "1000" in build(source, include_path=[tmp_path / "a b", str(tmp_path / "ü")]).text
    with pytest.raises(NVRTCError, match=r'To find "one\.h", set ProgramOptions\.include_path'):
        build(source, include_path=tmp_path / "a b")


def test_use_bundled_headers(
    build: Build, nvrtc_version: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA's headers would not be found, or an NVRTC without them would not be detected."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = '#include <cuda_fp16.h>\n#include <cuda/std/array>\nextern "C" __global__ void k(__half *p) { *p += *p; }'
    if nvrtc_version >= (13, 3):
        assert ".entry k" in build(source, use_bundled_headers=True).text
        version = ".".join(map(str, nvrtc_version))
        assert (tmp_path / "cudacore" / "nvrtc-headers" / version / "cuda_fp16.h").is_file()
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        with pytest.raises(NVRTCError, match="failed to create directory"):
            build(source, use_bundled_headers=True)
    else:
        with pytest.raises(NVRTCError, match=r"ProgramOptions\.use_bundled_headers, which came with 13\.3: leave it"):
            build(source, use_bundled_headers=True)


def test_cuda_include_path(build: Build) -> None:
    """CUDA's own headers would not be found, or some headers that they include would not."""
    try:
        folders = cuda_include_path()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert len(set(folders)) == len(folders)
    source = """
    #include <cuda_fp16.h>
    #include <cooperative_groups.h>
    #include <cuda/std/array>
    extern "C" __global__ void k(__half *p) { cuda::std::array<__half, 2> a{p[0], p[1]}; p[0] = a[0] * a[1]; }
    """
    assert ".entry k" in build(source, include_path=folders).text


def test_no_cuda_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing headers would be ignored, or the error would not name the package."""
    import cuda.pathfinder

    places = {"cudart": cuda.pathfinder.LocatedHeaderDir("/there", "site-packages")}
    monkeypatch.setattr(cuda.pathfinder, "locate_nvidia_header_directory", places.get)
    with pytest.raises(FileNotFoundError, match=r"headers \(cccl\) were found neither.*compile\[cu1\d,headers\]\""):
        cuda_include_path()


def test_headers_of_wheels_without_those_of_a_toolkit(
    nvrtc_version: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Headers of two versions of CUDA would be mixed."""
    import cuda.pathfinder

    (tmp_path / "cuda_runtime_api.h").write_text(f"#define CUDART_VERSION {nvrtc_version[0]}000\n")
    of_wheels, of_toolkit = (cuda.pathfinder.LocatedHeaderDir(str(tmp_path), via) for via in ("site-packages", "root"))
    places = {"cudart": of_wheels, "cccl": of_wheels, "nvcc": dataclasses.replace(of_toolkit, abs_path="/toolkit")}
    monkeypatch.setattr(cuda.pathfinder, "locate_nvidia_header_directory", places.get)
    assert cuda_include_path() == [str(tmp_path)]
    places["nvcc"] = dataclasses.replace(of_wheels, abs_path="/beside")
    assert cuda_include_path() == [str(tmp_path), "/beside"]


def test_cuda_headers_of_another_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For headers that NVRTC cannot compile, the error would only have a line in the headers."""
    import cuda.pathfinder

    (tmp_path / "cuda_runtime_api.h").write_text("// CUDA\n#define CUDART_VERSION  11080\n")
    place = cuda.pathfinder.LocatedHeaderDir(str(tmp_path), "site-packages")
    monkeypatch.setattr(cuda.pathfinder, "locate_nvidia_header_directory", lambda name: place)
    with pytest.raises(FileNotFoundError, match=r"are those of CUDA 11\.8, and NVRTC is 1\d\.\d: .*,headers\]"):
        cuda_include_path()


@pytest.mark.parametrize("field", _SINCE)
def test_options_newer_than_the_compiler(
    field: str, nvrtc_version: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version that an error requires for an option would be wrong."""
    monkeypatch.chdir(tmp_path)
    value = next((value for name, value, flags in FLAGS if name == field and flags), True)
    options = ProgramOptions(arch="sm_100", debug=field == "numba_debug", **{field: value})
    hint = ""
    try:
        Program(KERNEL, "c++", options).compile("ptx")
    except NVRTCError as error:
        hint = error.hint
    if nvrtc_version < tuple(map(int, _SINCE[field].split("."))):
        assert f"does not know ProgramOptions.{field}, which came with {_SINCE[field]}: leave it out" in hint
    else:
        assert "which came with" not in hint


def test_pre_include(build: Build, tmp_path: Path) -> None:
    """Files would not be included before the program."""
    (tmp_path / "first.h").write_text("#define FIRST 4242")
    source = 'extern "C" __global__ void k(int *p) { *p = FIRST; }'
    assert "4242" in build(source, pre_include=[tmp_path / "first.h"]).text


def test_no_source_include(build: Build, tmp_path: Path) -> None:
    """Files in the directory of the program's name would be found although they must not, or the reverse."""
    (tmp_path / "beside.h").write_text("#define BESIDE 1")
    name = str(tmp_path / "program.cu")
    assert build('#include "beside.h"', name=name).code
    with pytest.raises(NVRTCError, match=r"beside\.h"):
        build('#include "beside.h"', name=name, no_source_include=True)


@pytest.mark.parametrize(("std", "value"), [("c++14", 201402), ("c++17", 201703), ("c++20", 202002)])
def test_std(std: str, value: int, build: Build) -> None:
    """The program would be compiled as another language."""
    assert build(f'static_assert(__cplusplus == {value}, "");', std=std).code


def test_unknown_std(build: Build) -> None:
    """An error about an option would not name the option."""
    with pytest.raises(NVRTCError, match=r"NVRTC_ERROR_INVALID_OPTION.*Set ProgramOptions\.std"):
        build(KERNEL, std="c++99")


def test_builtin_move_forward(build: Build) -> None:
    """std::move would exist although it must not, or the reverse."""
    source = "__device__ int f(int x) { return std::move(x); }"
    assert build(source, builtin_move_forward=True).code
    with pytest.raises(NVRTCError):
        build(source, builtin_move_forward=False)


def test_builtin_initializer_list(build: Build) -> None:
    """std::initializer_list would exist although it must not, or the reverse."""
    source = "__device__ int f(std::initializer_list<int> x) { return x.size(); }"
    assert build(source, builtin_initializer_list=True).code
    with pytest.raises(NVRTCError):
        build(source, builtin_initializer_list=False)


def test_disable_warnings(build: Build) -> None:
    """Warnings would fill the log although they are disabled."""
    assert "unused" in build(UNUSED_VARIABLE).log
    assert build(UNUSED_VARIABLE, disable_warnings=True).log == ""


def test_restrict(python: Run) -> None:
    """Pointers would not become restrict pointers, or no warning would say that NVRTC applies this to later
    programs, too."""
    result = python(
        """
        import warnings
        from cudacore_compile import Program, ProgramOptions

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
        """
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("a program was compiled with ProgramOptions(restrict=True) in this process")
    assert "<string>:17: RuntimeWarning: a program was compiled with" in result.stderr


def test_device_as_default_execution_space(build: Build) -> None:
    """Functions without annotation would be host functions, which NVRTC refuses."""
    source = 'int f(int x) { return x; }\nextern "C" __global__ void k(int *p) { *p = f(1); }'
    assert build(source, device_as_default_execution_space=True).code
    with pytest.raises(NVRTCError):
        build(source)


def test_device_int128(build: Build) -> None:
    """128-bit integers would not be allowed."""
    source = "__device__ __int128 x;"
    assert build(source, device_int128=True).code
    with pytest.raises(NVRTCError):
        build(source)


def test_device_float128(build: Build) -> None:
    """128-bit floating point would not be allowed, or its limit to some architectures not be explained."""
    source = "__device__ __float128 x;"
    assert build(source, arch="sm_100", device_float128=True).code
    with pytest.raises(NVRTCError, match=r"See ProgramOptions\.device_float128"):
        build(source, device_float128=True)


def test_optimization_info(python: Run) -> None:
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


def test_no_display_error_number(build: Build) -> None:
    """Warnings would have numbers although they must not."""
    assert "#177" not in build(UNUSED_VARIABLE, no_display_error_number=True).log


def test_diagnostics(build: Build) -> None:
    """Diagnostics would have another severity than requested."""
    with pytest.raises(NVRTCError, match=r"error.*: variable \"unused\""):
        build(UNUSED_VARIABLE, diag_error=[177, 550])
    assert build(UNUSED_VARIABLE, diag_suppress=177).log == ""
    assert "warning #177-D" in build(UNUSED_VARIABLE, diag_error=177, diag_warn=177).log


def test_brief_diagnostics(build: Build) -> None:
    """Source lines would be in the log although they must not."""
    assert "int unused;" not in build(UNUSED_VARIABLE, brief_diagnostics=True).log
    assert "int unused;" in build(UNUSED_VARIABLE, brief_diagnostics=False).log


def test_time(build: Build, tmp_path: Path) -> None:
    """Times would not be recorded, or a file that cannot be written be overlooked."""
    build(KERNEL, time=tmp_path / "times.csv")
    assert "phase name" in (tmp_path / "times.csv").read_text()
    assert "phase name" in build(KERNEL, time="-").log
    with pytest.raises(NVRTCError, match="NVRTC_ERROR_TIME_FILE_WRITE_FAILED"):
        build(KERNEL, time=tmp_path / "none" / "times.csv")


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_split_compile(threads: int, build: Build) -> None:
    """The flag would be refused."""
    assert ".entry k" in build(KERNEL, split_compile=threads).text


def test_fdevice_syntax_only(build: Build) -> None:
    """Code would be generated although only the syntax was to be checked."""
    assert ".entry" not in build(KERNEL, fdevice_syntax_only=True).text
    with pytest.raises(NVRTCError):
        build("syntax error", fdevice_syntax_only=True)


def test_minimal(build: Build) -> None:
    """The parts of the language that take time would exist although they were disabled."""
    source = "__device__ cudaTextureObject_t x;"
    assert build(source).code
    with pytest.raises(NVRTCError):
        build(source, minimal=True)


def test_no_cache(build: Build) -> None:
    """The flag would be refused."""
    assert ".entry k" in build(KERNEL, no_cache=True).text


@pytest.mark.parametrize("target", ["ptx", "cubin", "ltoir"])
@pytest.mark.parametrize("name", ["trace.json", "trace"])
def test_fdevice_time_trace(target: str, name: str, build: Build, tmp_path: Path) -> None:
    """The profile would go to another file than the one that was named, or the compilation fail."""
    build(KERNEL, target, fdevice_time_trace=tmp_path / name)
    assert os.listdir(tmp_path) == ["trace.json"]
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_fdevice_time_trace_that_cannot_be_written(build: Build, tmp_path: Path) -> None:
    """NVRTC would abort the process."""
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


def test_frandom_seed(build: Build) -> None:
    """Generated names would not depend on the seed alone."""
    source = "namespace { __device__ int hidden; __global__ void k(int **p) { *p = &hidden; } }"
    one, same, other = (build(source, frandom_seed=seed).code for seed in "aab")
    assert one == same
    assert one != other


def test_ofast_compile(build: Build) -> None:
    """The level would not reach the compiler, or an unknown level would be accepted."""
    source = 'extern "C" __global__ void k(double *p) { *p = sin(*p) * pow(*p, 3.1); }'
    assert build(source, ofast_compile="max").code != build(source, ofast_compile="0").code
    with pytest.raises(NVRTCError, match=r"See ProgramOptions\.ofast_compile"):
        build(KERNEL, ofast_compile="warp")


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
    """The reasons why a precompiled header is not used would be given although they must not, or the reverse."""
    options = {"pch": True, "pch_dir": tmp_path, "pch_messages": False}
    build(KERNEL, **options)
    told = build(KERNEL, pch_verbose=True, define_macro="OTHER", **options)
    silent = build(KERNEL, pch_verbose=False, define_macro="ANOTHER", **options)
    assert "OTHER" in told.log or "not match" in told.log
    assert silent.log == ""


def test_numba_debug(build: Build, nvrtc_version: tuple[int, ...]) -> None:
    """The flag would be refused for an NVRTC that supports it, or the error of an older NVRTC would have no
    explanation."""
    with pytest.raises(NVRTCError, match=r"ProgramOptions\.numba_debug"):
        build(KERNEL, numba_debug=True)
    if nvrtc_version >= (13, 2):
        assert ".entry k" in build(KERNEL, numba_debug=True, debug=True).text


def test_program_keeps_its_options() -> None:
    """Changing the options, or a list in them, would change programs that were made before."""
    macros: list[str | tuple[str, str]] = ["A=1"]
    options = ProgramOptions(arch="sm_90", define_macro=macros)
    program = Program("static_assert(A == 1);", "c++", options)
    macros[0] = "A=2"
    options.arch = "hopper"
    assert program.compile("ptx").code
