# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compile_sources import Build

from cudacore_compile import NVRTCError, Program, ProgramOptions
from cudacore_compile._compilers.options import field_of, since
from cudacore_compile.typing import CompilerBackendType

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


@dataclasses.dataclass(slots=True)
class OptionsWithSlots(ProgramOptions):
    """A program's own options, whose values are not in a ``__dict__``."""

    more: int = 0


def test_options_that_are_not_in_a_dict() -> None:
    """The options of a subclass with slots, and those beside a deleted one, would be ignored."""
    assert OptionsWithSlots(arch="sm_90", ftz=True).as_bytes("nvrtc") == [b"-arch=sm_90", b"--ftz=true"]
    options = ProgramOptions(arch="sm_90", ftz=True, debug=True)
    del options.debug
    assert options.as_bytes("nvrtc") == [b"-arch=sm_90", b"--ftz=true"]


def test_the_order_of_options_does_not_matter() -> None:
    """Equal compilations would have different keys in a program cache."""
    expected = [b"-arch=sm_90", b"--device-debug", b"--ftz=true", b"--std=c++17"]
    assert ProgramOptions(std="c++17", ftz=True, debug=True, arch="sm_90").as_bytes("nvrtc") == expected
    options = ProgramOptions(ftz=True)
    options.debug, options.std, options.arch = True, "c++17", "sm_90"
    assert options.as_bytes("nvrtc") == expected


@pytest.mark.parametrize(("field", "value", "flags"), FLAGS)
def test_flags(field: str, value: Any, flags: list[bytes]) -> None:
    """An option would reach the compiler in another form than NVRTC understands, or not at all."""
    options = ProgramOptions(arch="sm_90", **{field: value})
    assert options.as_bytes("nvrtc") == [b"-arch=sm_90", *flags]
    assert all(field_of(os.fsdecode(flag)) == field for flag in flags)


def test_every_option_is_tested() -> None:
    """No test would fail if an option were added without a test, or were dropped from the table of flags."""
    assert {field for field, _, _ in FLAGS} | ELSEWHERE == {field.name for field in dataclasses.fields(ProgramOptions)}


@pytest.mark.parametrize(
    ("backend", "target", "options", "flags"),
    [
        ("nvrtc", None, {}, "-arch=sm_90"),
        (CompilerBackendType.NVRTC, None, {"arch": "compute_90"}, "-arch=compute_90"),
        ("NVRTC", None, {"arch": "90"}, "-arch=sm_90"),
        ("NVRTC", None, {"arch": 90}, "-arch=sm_90"),
        ("NVRTC", "cubin", {"arch": "90a"}, "-arch=sm_90a"),
        ("NVRTC", "cubin", {"arch": "sm_100f"}, "-arch=sm_100f"),
        ("NVRTC", "ltoir", {}, "-arch=sm_90 --dlink-time-opt"),
        ("NVRTC", "ltoir", {"link_time_optimization": True}, "-arch=sm_90 --dlink-time-opt"),
        ("NVRTC", "optixir", {}, "-arch=sm_90 --optix-ir"),
        # without options for the assembler, it is not run
        ("NVRTC", "ptx", {}, "-arch=compute_90"),
        ("NVRTC", "ptx", {"arch": "sm_90a"}, "-arch=compute_90a"),
        ("NVRTC", "ptx", {"arch": "compute_75"}, "-arch=compute_75"),
        ("NVRTC", "ptx", {"ptxas_options": "-v"}, "-arch=sm_90 --ptxas-options=-v"),
        # disabling an option that the compiler does not have is no error
        ("nvrtc", None, {"extra_sources": [], "use_libdevice": False, "use_bundled_headers": False}, "-arch=sm_90"),
        ("NVVM", "ltoir", {}, "-arch=compute_90 -gen-lto"),
        ("NVVM", "ptx", {}, "-arch=compute_90"),
        ("nvvm", None, {"arch": "compute_90a"}, "-arch=compute_90a"),
        ("nvvm", None, {"debug": True, "name": "x", "no_cache": True, "include_path": []}, "-arch=compute_90 -g"),
        ("nvvm", None, {"device_code_optimize": True}, "-arch=compute_90 -opt=3"),
        ("nvvm", None, {"device_code_optimize": False}, "-arch=compute_90 -opt=0"),
        ("nvvm", None, {"ftz": True, "prec_sqrt": False}, "-arch=compute_90 -ftz=1 -prec-sqrt=0"),
        ("nvvm", None, {"prec_div": True, "link_time_optimization": True}, "-arch=compute_90 -prec-div=1 -gen-lto"),
        ("nvvm", None, {"fma": False, "use_libdevice": True, "extra_sources": [("a", "b")]}, "-arch=compute_90 -fma=0"),
        ("nvvm", None, {"raw_options": ["-x"]}, "-arch=compute_90 -x"),
        ("nvvm", None, {"numba_debug": True, "debug": 1, "relocatable_device_code": False},
         "-arch=compute_90 -g -numba-debug"),
        ("nvJitLink", "cubin",
         {"arch": 90, "max_register_count": 32, "debug": True, "lineinfo": True, "device_code_optimize": True,
          "ptxas_options": ["-v"], "split_compile": True, "time": "-", "no_cache": True},
         "-arch=sm_90 -maxrregcount=32 -time -O3 -g -lineinfo -Xptxas=-v -split-compile=0 -no-cache"),
    ],
)  # fmt: skip
def test_flags_of_targets(backend: Any, target: Any, options: dict[str, Any], flags: str) -> None:
    """A compiler would get flags for another architecture or target, flags twice, or flags that nobody asked for."""
    assert ProgramOptions(**{"arch": "sm_90"} | options).as_bytes(backend, target) == flags.encode().split()


@pytest.mark.parametrize(
    ("backend", "target", "options", "error", "message"),
    [
        ("nvrtc", "ptx", {"link_time_optimization": True}, ValueError, "link_time_optimization makes LTO-IR, not ptx"),
        ("nvrtc", "cubin", {"link_time_optimization": True}, ValueError, "makes LTO-IR, not cubin"),
        ("nvvm", "ptx", {"link_time_optimization": True}, ValueError, "makes LTO-IR, not ptx"),
        ("nvrtc", "cubin", {"arch": "compute_90a"}, ValueError, "arch='compute_90a' is a virtual architecture"),
        ("nvrtc", "fatbin", {}, ValueError, 'Unsupported target_type="fatbin"'),
        ("nvvm", "cubin", {}, ValueError, "Unsupported target_type=\"cubin\" for code_type='nvvm'"),
        ("nvrtc", None, {"extra_sources": [("a", b"source")]}, ValueError, "ProgramOptions.extra_sources is for NVVM"),
        ("nvjitlink", None, {"time": "times.csv"}, ValueError, "times of PTX programs go to the log only"),
        ("driver", None, {}, ValueError, "the driver's linker takes numbers"),
        ("clang", None, {}, ValueError, "unknown backend 'clang': there are NVRTC, NVVM, nvJitLink, driver"),
        (None, None, {}, TypeError, "backend must be a str"),
    ],
)
def test_what_has_no_flags(
    backend: Any, target: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """The compiler would return empty code, another target's, or what it cannot compile."""
    with pytest.raises(error, match=re.escape(message)):
        ProgramOptions(**{"arch": "sm_90"} | options).as_bytes(backend, target)


@pytest.mark.parametrize(
    ("backend", "options", "fields", "programs"),
    [
        ("nvrtc", {"use_libdevice": True}, "ProgramOptions.use_libdevice", "C++"),
        ("nvjitlink", {"ftz": True, "fma": False}, "ProgramOptions.ftz, ProgramOptions.fma", "PTX"),
    ],
)
def test_warnings(backend: Any, options: dict[str, Any], fields: str, programs: str) -> None:
    """An option without effect would be ignored silently, or the warning would name another line."""
    with pytest.warns(RuntimeWarning, match=re.escape(f"{fields}: without effect on {programs}")) as told:
        assert ProgramOptions(arch="sm_90", **options).as_bytes(backend) == [b"-arch=sm_90"]
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    "options", [{}, {"debug": True}, {"max_register_count": 32}, {"relocatable_device_code": True}]
)
def test_ptx_of_virtual_arch_is_the_same(options: dict[str, Any], build: Build) -> None:
    """PTX of the virtual architecture would differ from PTX of the requested real architecture."""
    spared = build(KERNEL, "ptx", arch="sm_90a", **options)
    assembled = build(KERNEL, "ptx", arch="sm_90a", ptxas_options="-v", **options)
    assert spared.code == assembled.code


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


@pytest.mark.parametrize("backend", ["nvrtc", "nvvm", "nvjitlink"])
def test_fields_of_a_subclass(backend: Any) -> None:
    """A program could not add a field of its own to the options: the error would name another option."""

    @dataclasses.dataclass
    class Own(ProgramOptions):
        owner: str | None = None

    assert Own(arch="sm_90", owner="me").as_bytes(backend) == ProgramOptions(arch="sm_90").as_bytes(backend)


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
