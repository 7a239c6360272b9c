# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import os
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cudacore_compile import NVRTCError, Program, ProgramOptions
from cudacore_compile._compilers.options import field_of, since
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
    """No test would fail if an option were added without a test, or were dropped from the table of flags."""
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
    """The flag would name another architecture than the option, or PTX would be assembled needlessly."""
    assert ProgramOptions(arch=arch).as_bytes("NVRTC", target)[0] == flag


def test_ptx_with_ptxas_options_keeps_arch() -> None:
    """Options of the assembler, which is not run for a virtual architecture, would be ignored silently."""
    options = ProgramOptions(arch="sm_90", ptxas_options="-v")
    assert options.as_bytes("nvrtc", "ptx")[0] == b"-arch=sm_90"


@pytest.mark.parametrize(
    "options", [{}, {"debug": True}, {"max_register_count": 32}, {"relocatable_device_code": True}]
)
def test_ptx_of_virtual_arch_is_the_same(options: dict[str, Any], build: Build) -> None:
    """PTX of the virtual architecture would differ from PTX of the requested real architecture."""
    spared = build(KERNEL, "ptx", arch="sm_90a", **options)
    assembled = build(KERNEL, "ptx", arch="sm_90a", ptxas_options="-v", **options)
    assert spared.code == assembled.code


def test_ltoir_implies_link_time_optimization() -> None:
    """The output would not be LTO-IR, or the flag would be given twice."""
    for options in (ProgramOptions(arch="sm_90"), ProgramOptions(arch="sm_90", link_time_optimization=True)):
        assert options.as_bytes("nvrtc", "ltoir").count(b"--dlink-time-opt") == 1


@pytest.mark.parametrize(("backend", "target"), [("nvrtc", "ptx"), ("nvrtc", "cubin"), ("nvvm", "ptx")])
def test_link_time_optimization_makes_ltoir_only(backend: str, target: str) -> None:
    """With link-time optimization, the compiler would return empty PTX or an empty cubin."""
    options = ProgramOptions(arch="sm_90", link_time_optimization=True)
    with pytest.raises(ValueError, match=rf"link_time_optimization makes LTO-IR, not {target}"):
        options.as_bytes(backend, target)


def test_cubin_of_virtual_arch() -> None:
    """For a virtual architecture, the compiler would return an empty cubin."""
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
# NVRTC removes white space at the end of an option. So it would search another directory than the one that a cache
# checks.
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
    """For a number with so many digits that Python refuses to print it, the error would not name the option."""
    with pytest.raises(ValueError, match=rf"^ProgramOptions\.{field} is a number of too many digits"):
        ProgramOptions(**{field: make(10**5000)})


def test_values_are_checked_when_used() -> None:
    """A value that is set after the options were created would not be checked."""
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


@pytest.mark.parametrize("field", [field for field in ProgramOptions.__dataclass_fields__ if since(field) != "12.0"])
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
    if nvrtc_version < tuple(map(int, since(field).split("."))):
        assert f"does not have ProgramOptions.{field}, which came with {since(field)}: leave it out" in hint
    else:
        assert "which came with" not in hint
