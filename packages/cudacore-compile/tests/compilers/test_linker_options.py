# SPDX-License-Identifier: Apache-2.0
"""Options of the linker: their flags, their checks and their defaults."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from cudacore_compile import Linker, LinkerOptions
from cudacore_handles import Device, ObjectCode

SM_90 = LinkerOptions(arch="sm_90")

FLAGS: list[tuple[str, Any, list[bytes]]] = [
    ("max_register_count", 32, [b"-maxrregcount=32"]),
    ("time", True, [b"-time"]),
    ("time", False, []),
    ("verbose", True, [b"-verbose"]),
    ("link_time_optimization", True, [b"-lto"]),
    ("ptx", True, [b"-ptx"]),
    ("optimization_level", 0, [b"-O0"]),
    ("optimization_level", 3, [b"-O3"]),
    ("debug", True, [b"-g"]),
    ("lineinfo", True, [b"-lineinfo"]),
    ("ftz", True, [b"-ftz=1"]),
    ("prec_div", False, [b"-prec-div=0"]),
    ("prec_sqrt", False, [b"-prec-sqrt=0"]),
    ("fma", False, [b"-fma=0"]),
    ("kernels_used", "a", [b"-kernels-used=a"]),
    ("kernels_used", ["a", "b"], [b"-kernels-used=a", b"-kernels-used=b"]),
    ("variables_used", ("a", "b"), [b"-variables-used=a", b"-variables-used=b"]),
    ("optimize_unused_variables", True, [b"-optimize-unused-variables"]),
    ("ptxas_options", ["-v", "-O1"], [b"-Xptxas=-v", b"-Xptxas=-O1"]),
    ("split_compile", 2, [b"-split-compile=2"]),
    ("split_compile", True, [b"-split-compile=0"]),
    ("split_compile_extended", 0, [b"-split-compile-extended=0"]),
    ("no_cache", 1, [b"-no-cache"]),
]


@pytest.mark.parametrize(("field", "value", "flags"), FLAGS)
def test_flags(field: str, value: Any, flags: list[bytes], ltoir: tuple[ObjectCode, ObjectCode]) -> None:
    """An option would reach nvJitLink in another form than it understands, or not at all."""
    options = LinkerOptions(arch="sm_90", **{field: value})
    assert options.as_bytes() == [b"-arch=sm_90", *flags]
    assert Linker(*ltoir, options=options).link("ptx" if field == "ptx" else "cubin").code


def test_every_option_is_tested() -> None:
    """No test would fail if an option were added without a test, or were dropped from the table of flags."""
    fields = {field.name for field in dataclasses.fields(LinkerOptions)}
    assert {field for field, _, _ in FLAGS} | {"name", "arch", "numba_debug"} == fields


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"arch": "hopper"}, ValueError, r"LinkerOptions\.arch='hopper' is not an architecture"),
        ({"name": ""}, ValueError, r"LinkerOptions\.name must not be empty"),
        (
            {"optimization_level": 2},
            ValueError,
            r"LinkerOptions\.optimization_level=2: nvJitLink has the levels 0 and 3",
        ),
        ({"optimization_level": 4}, ValueError, "out of range: from 0 to 3"),
        ({"max_register_count": "32"}, TypeError, r"LinkerOptions\.max_register_count must be an int, not str"),
        ({"time": "x"}, TypeError, r"LinkerOptions\.time must be a bool, not str"),
        ({"kernels_used": [1]}, TypeError, r"LinkerOptions\.kernels_used must be a str, not int"),
        ({"kernels_used": {"a"}}, TypeError, r"LinkerOptions\.kernels_used must be a str, not set"),
        ({"split_compile": -1}, ValueError, "out of range: from 0 to 1024"),
        ({"ptxas_options": "a\0b"}, ValueError, "has a NUL character"),
        ({"fast": True}, TypeError, "unexpected keyword argument 'fast'"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], match: str, ptx: tuple[ObjectCode, ...]) -> None:
    """A value that the option cannot have would fail without naming the option."""
    with pytest.raises(error, match=match):
        Linker(*ptx, options=options)


def test_defaults() -> None:
    """The name or the architecture would not be the documented one, or the options would be in another order."""
    assert LinkerOptions(name=None).name == "<default linker>"
    assert LinkerOptions(arch=90).as_bytes() == [b"-arch=sm_90"]
    assert (
        repr(LinkerOptions(arch="sm_90", time=True))
        == "LinkerOptions(name='<default linker>', arch='sm_90', time=True)"
    )
    with pytest.raises(ValueError, match="only nvJitLink has flags to be returned as bytes, not 'driver'"):
        SM_90.as_bytes("driver")
    with pytest.raises(TypeError, match="backend must be a str"):
        SM_90.as_bytes(None)  # type: ignore[arg-type]


@dataclasses.dataclass(repr=False)
class MoreOptions(LinkerOptions):
    """A program's own options."""

    more: int = 0


class SameOptions(LinkerOptions):
    """A class that inherits the constructor."""


POSITIONAL = [field.default for field in dataclasses.fields(LinkerOptions)][:-1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinkerOptions(numba_debug=True),
        lambda: LinkerOptions(*POSITIONAL, True),
        lambda: SameOptions(numba_debug=True),
        lambda: MoreOptions(numba_debug=True),
        lambda: Linker(ObjectCode.from_ltoir(b"code"), options={"numba_debug": True}),
    ],
    ids=["named", "positional", "inherited constructor", "derived dataclass", "mapping"],
)
def test_warnings_name_the_line_that_makes_options(make: Any) -> None:
    """The program would not see the warning, because Python hides a DeprecationWarning of other code."""
    with pytest.warns(DeprecationWarning, match=r"LinkerOptions\.numba_debug is without effect") as told:
        make()
    assert [(one.filename, one.lineno) for one in told] == [(__file__, make.__code__.co_firstlineno)]


def test_arch_of_the_current_device(device: Device, ptx: tuple[ObjectCode, ObjectCode]) -> None:
    """The architecture would have to be given although there is a device."""
    assert LinkerOptions().as_bytes() == [f"-arch=sm_{device.arch}".encode()]


def test_options_that_contradict(ltoir: tuple[ObjectCode, ObjectCode], ptx: tuple[ObjectCode, ObjectCode]) -> None:
    """If options contradict the code, the linker would fail without a reason, or ignore an option silently."""
    for codes, options, target, match in (
        (ptx, {}, "ptx", "only LTO-IR links to ptx, and this is ptx: compile the programs to LTO-IR"),
        (ltoir, {"ptx": True}, "cubin", r'LinkerOptions\.ptx links to PTX, not cubin: call link\("ptx"\)'),
        (ltoir, {"link_time_optimization": False}, "cubin", "is False, and LTO-IR cannot be linked without it"),
        (ltoir, {"arch": "compute_90"}, "cubin", r"a virtual architecture.*set arch=\"sm_90\""),
    ):
        linker = Linker(*codes, options={"arch": "sm_90"} | options)
        with pytest.raises(ValueError, match=match):
            linker.link(target)
    with pytest.warns(RuntimeWarning, match=r"LinkerOptions\.ftz, LinkerOptions\.fma: without effect") as told:
        Linker(*ptx, options=LinkerOptions(arch="sm_90", ftz=True, fma=False)).link("cubin")
    assert told[0].filename == __file__
