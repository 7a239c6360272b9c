# SPDX-License-Identifier: Apache-2.0
"""Linking with nvJitLink, or with the driver if nvJitLink is missing."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from compile_sources import FUNCTION, FUNCTION_IR, KERNEL, KERNEL_IR, SINE_IR, run_map
from compile_sources import build_part as build

from cudacore_compile import Linker, LinkerOptions, NVJitLinkError, Program, ProgramOptions, _linker
from cudacore_compile._compilers import nvjitlink as _nvjitlink
from cudacore_compile._compilers.linker_options import newer_fields
from cudacore_compile.typing import CompilerBackendType
from cudacore_handles import CUDAError, Device, ObjectCode, UnsupportedCodeError

INFO = "(ptxas )?info +:"  # the assembler does not always print its name before a message


SM_90 = LinkerOptions(arch="sm_90")


# ---- linking


@pytest.mark.parametrize("first", ["ptx", "cubin", "ltoir"])
@pytest.mark.parametrize("second", ["ptx", "cubin", "ltoir"])
def test_inputs(first: str, second: str) -> None:
    """Code of one type would not link with code of another."""
    linked = Linker(build(KERNEL, first), build(FUNCTION, second), options=SM_90).link("cubin")
    assert (linked.code_type, linked.code[:4]) == ("cubin", b"\x7fELF")
    assert b"map" in linked.code
    assert linked.name == "<default linker>"


@pytest.mark.parametrize(("target", "start"), [("cubin", b"\x7fELF"), ("ptx", b"//\n"), ("ltoir", b"\xedCN\x7f")])
def test_targets(ltoir: tuple[ObjectCode, ObjectCode], target: str, start: bytes) -> None:
    """LTO-IR would not link to one of the formats, or PTX would have a NUL at its end."""
    if target == "ltoir" and _nvjitlink.load().version < (13, 2):
        with pytest.raises(NVJitLinkError, match=r"NVJITLINK_TOO_OLD.*does not link to LTO-IR, as 13\.2 and later do"):
            Linker(*ltoir, options=SM_90).link(target)
        return
    linked = Linker(*ltoir, options={"arch": "sm_90", "name": "all"}).link(target)
    assert (linked.code_type, linked.name) == (target, "all")
    assert linked.code[: len(start)] == start
    assert not linked.code.endswith(b"\0") or target != "ptx"


def test_ltoir_of_two_languages(ltoir: tuple[ObjectCode, ObjectCode]) -> None:
    """LTO-IR of C++ would not link with LTO-IR of NVVM IR, or calls between the two would not be inlined."""
    other = build(FUNCTION_IR, "ltoir", "nvvm")
    code = Linker(ltoir[0], other, options=SM_90).link("ptx").code
    assert b"call" not in code
    sine = build(SINE_IR, "ltoir", "nvvm", use_libdevice=True)
    assert b"call" not in Linker(ltoir[0], sine, options=SM_90).link("ptx").code
    linked = Linker(build(KERNEL_IR, "ltoir", "nvvm"), ltoir[1], options=SM_90).link("ptx")
    assert b".entry map" in linked.code


def test_fatbin_object_and_library(tmp_path: Path, ptx: tuple[ObjectCode, ObjectCode]) -> None:
    """Fat binaries, objects, libraries and cubins would be linked as another type of code."""
    for make, kind in (
        (ObjectCode.from_fatbin, "FATBIN"),
        (ObjectCode.from_object, "OBJECT"),
        (ObjectCode.from_library, "LIBRARY"),
        (ObjectCode.from_cubin, "CUBIN"),
    ):
        with pytest.raises(NVJitLinkError, match=f"does not match type NVJITLINK_INPUT_{kind}"):
            Linker(make(b"garbage" * 100), *ptx, options=SM_90).link("cubin")


def test_signatures_of_ptx(ptx: tuple[ObjectCode, ObjectCode]) -> None:
    """The kinds of parameters that PTX has would be missing in the cubin that is linked from it."""
    signatures = Linker(*ptx, options=SM_90).link("cubin")._signatures
    assert signatures in ({"map": "p8*float32 n4"}, {"map": "a8*float32 n4"})


# ---- PTX programs


def test_ptx_program(ptx: tuple[ObjectCode, ObjectCode]) -> None:
    """PTX would not compile to a cubin, or the result would have no information about its kernels."""
    text = Program('extern "C" __global__ void k(float *p, float x) { *p = x; }', "c++", {"arch": "sm_90"}).compile(
        "ptx"
    )
    program = Program(text.code, "ptx", ProgramOptions(arch="sm_90", name="mine"))
    code = program.compile("cubin")
    assert (code.code_type, code.name, code.code[:4]) == ("cubin", "mine", b"\x7fELF")
    assert code._signature("k") in ("p8 f4", "a8 f4")
    assert program.backend is Linker.which_backend() is CompilerBackendType.NVJITLINK
    assert program.compile("cubin").code == code.code


def test_log_of_ptx_program() -> None:
    """Messages of the assembler would be lost."""
    import io

    logs = io.StringIO()
    source = bytes(build(FUNCTION, "ptx").code)
    Program(source, "ptx", ProgramOptions(arch="sm_90", ptxas_options="-v", time=True)).compile("cubin", logs=logs)
    assert re.search(INFO, logs.getvalue())
    logs = io.StringIO()
    with pytest.raises(NVJitLinkError) as caught:
        Program(source.replace(b"fma", b"fmb"), "ptx", ProgramOptions(arch="sm_90")).compile("cubin", logs=logs)
    assert caught.value.code_name == "NVJITLINK_ERROR_PTX_COMPILE"
    assert logs.getvalue() == caught.value.log != ""
    assert "fmb" in caught.value.log


def test_options_without_effect_on_ptx() -> None:
    """Options of C++ programs, which have no effect on PTX, would be ignored without a warning."""
    options = ProgramOptions(arch="sm_90", ftz=True, pch=True)
    with pytest.warns(RuntimeWarning, match=r"ProgramOptions\.pch, ProgramOptions\.ftz: without effect on PTX") as told:
        program = Program(bytes(build(FUNCTION, "ptx").code), "ptx", options)
    assert [warning.filename for warning in told] == [__file__]
    with pytest.warns(RuntimeWarning, match="name_expressions: without effect on programs in ptx") as told:
        program.compile("cubin", ["f<int>"])
    assert [warning.filename for warning in told] == [__file__]


def test_logs(ptx: tuple[ObjectCode, ObjectCode]) -> None:
    """Messages of the linker would be lost."""
    linker = Linker(*ptx, options=LinkerOptions(arch="sm_90", verbose=True, time=True))
    assert (linker.get_error_log(), linker.get_info_log()) == ("", "")
    linker.link("cubin")
    assert re.search(INFO, linker.get_info_log())
    assert linker.get_error_log() == ""
    assert "\0" not in linker.get_info_log()


# ---- failures


@pytest.mark.parametrize(
    ("codes", "error", "match"),
    [
        ((), ValueError, "At least one ObjectCode object must be provided"),
        ((b"ptx",), TypeError, "Expected objects of type ObjectCode to link, not bytes"),
        ((ObjectCode._init(b"x", "optixir"),), UnsupportedCodeError, 'Unsupported code type "optixir" for a Linker'),
    ],
)
def test_bad_codes(codes: Any, error: type[Exception], match: str) -> None:
    """An object that cannot be linked would reach the linker."""
    with pytest.raises(error, match=match):
        Linker(*codes, options=SM_90)


@pytest.mark.parametrize("target", ["fatbin", "optixir", "nonsense"])
def test_bad_target(target: str, ptx: tuple[ObjectCode, ObjectCode]) -> None:
    """An unsupported target would be accepted."""
    with pytest.raises(UnsupportedCodeError, match=rf'Unsupported target_type="{target}" for a Linker: this release'):
        Linker(*ptx, options=SM_90).link(target)


def test_undefined(ptx: tuple[ObjectCode, ObjectCode], ltoir: tuple[ObjectCode, ObjectCode]) -> None:
    """The error for an undefined function would not name the function, or not say what to do."""
    for code in (ptx[0], ltoir[0]):
        linker = Linker(code, options=SM_90)
        with pytest.raises(NVJitLinkError, match=r"Nothing that is linked defines 'f': link what does") as caught:
            linker.link("cubin")
        assert linker.get_error_log() == caught.value.log
    assert caught.value.command.startswith("nvJitLink -arch=sm_90 -lto ")


@pytest.mark.parametrize(
    ("code", "log", "hint"),
    [
        ("UNRECOGNIZED_OPTION", "", "nvJitLink 12.9 does not support one of these options"),
        ("UNRECOGNIZED_ARCH", "", "nvJitLink 12.9 does not link for this architecture"),
        ("UNSUPPORTED_ARCH", "", "nvJitLink 12.9 does not link for this architecture"),
        ("PTX_COMPILE", "fatal   : Unsupported .version 9.5;", "made by a newer compiler than nvJitLink 12.9"),
        ("INTERNAL", "ERROR 4 in nvvmAddNVVMContainerToProgram, may need newer version of nvJitLink library",
         "The LTO-IR was made by a newer compiler than nvJitLink 12.9"),
        ("INTERNAL", "error : Undefined reference to 'a' in 'x'\nUndefined reference to 'b'", "'a', 'b'"),
        ("INTERNAL", "something", ""),
    ],
)  # fmt: skip
def test_hints(code: str, log: str, hint: str) -> None:
    """A failure would have a wrong explanation, or none."""
    text = _nvjitlink.explain(f"NVJITLINK_ERROR_{code}", log, "12.9", [b"-arch=sm_90", b"-no-cache"])
    assert hint in text
    assert bool(hint) == bool(text)


def test_options_newer_than_the_linker() -> None:
    """If an nvJitLink is too old for an option, the error would not state the required version."""
    flags = LinkerOptions(arch="sm_90", time=True, split_compile=2, no_cache=True).as_bytes()
    assert newer_fields(flags, (12, 2)) == {"split_compile": "12.3", "no_cache": "12.5"}
    assert newer_fields(flags, (12, 4)) == {"no_cache": "12.5"}
    assert newer_fields(flags, (13, 0)) == newer_fields([b"-arch=sm_90", b"-time"], (12, 0)) == {}
    hint = _nvjitlink.explain("NVJITLINK_ERROR_UNRECOGNIZED_OPTION", "", "12.4", flags)
    assert hint.startswith("nvJitLink 12.4 does not have LinkerOptions.no_cache, which came with 12.5: leave it out")


def test_unknown_architecture(ltoir: tuple[ObjectCode, ObjectCode]) -> None:
    """An architecture that this nvJitLink does not have would end the process, or be refused without an explanation."""
    Linker(*ltoir, options=SM_90).link("cubin")
    with pytest.raises(NVJitLinkError, match=r"nvJitLink \d+\.\d+ does not link for this architecture: set LinkerOpt"):
        Linker(build(KERNEL, "ptx"), options={"arch": "sm_999"}).link("cubin")


def test_newer_ptx(ptx: tuple[ObjectCode, ObjectCode]) -> None:
    """PTX that is newer than nvJitLink would be refused without both versions."""
    newer = ObjectCode.from_ptx(bytes(ptx[1].code).replace(b".version ", b".version 9", 1))
    with pytest.raises(
        NVJitLinkError,
        match=r"NVJITLINK_TOO_OLD.*nvJitLink \d+\.\d+ takes PTX up to \d\.\d, and this is.* pip install --upgrade",
    ):
        Linker(ptx[0], newer, options=SM_90).link("cubin")


# ---- lifetime


def test_threads(ltoir: tuple[ObjectCode, ObjectCode]) -> None:
    """Threads that link with one linker would get each other's code, or one would close it during another's link."""
    linker = Linker(*ltoir, options=SM_90)
    expected = {target: linker.link(target).code for target in ("cubin", "ptx")}
    wrong: list[object] = []

    def work(target: str) -> None:
        for _ in range(5):
            try:
                if linker.link(target).code != expected[target]:
                    wrong.append(target)
                linker.handle  # noqa: B018
            except ValueError as error:  # another thread has closed the linker
                if "closed" not in str(error):
                    wrong.append(error)

    threads = [threading.Thread(target=work, args=(target,)) for target in ("cubin", "ptx", "cubin", "ptx")]
    for thread in threads:
        thread.start()
    linker.close()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- without nvJitLink


def test_missing_nvjitlink(
    no_libraries: None, ltoir: tuple[ObjectCode, ObjectCode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error for a missing nvJitLink would not name the package, or not say why the driver was not used."""
    with pytest.raises(
        NVJitLinkError,
        match=r"NVJITLINK_NOT_FOUND \(-1\).*the driver's linker takes no LTO-IR.*pip install .*compile\[cu\d\d,link\]",
    ):
        Linker(*ltoir, options=SM_90).link("cubin")
    assert Linker.which_backend() is CompilerBackendType.DRIVER


def test_driver_links_instead(
    no_libraries: None, ptx: tuple[ObjectCode, ObjectCode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's linker would not be used, or be used with other options than the given ones."""
    asked: list[Any] = []

    def link(*arguments: Any, **options: Any) -> tuple[bytes, bytes, bytes]:
        asked.append((arguments, options))
        return b"\x7fELF", b"a warning", b"told"

    monkeypatch.setattr(_linker, "link_with_driver", link)
    monkeypatch.setattr(_linker, "driver_cuda_version", lambda: (99, 0))
    options = LinkerOptions(arch="sm_90a", max_register_count=32, debug=True, no_cache=True, time=True, lineinfo=False)
    linker = Linker(*ptx, options=options)
    assert linker.link("cubin").code == b"\x7fELF"
    ((inputs, values), keywords), *_ = asked
    assert [(kind, name) for kind, _, name in inputs] == [("ptx", b"kernel"), ("ptx", b"function")]
    assert all(code.endswith(b"}\n\n\0") for _, code, _ in inputs)
    assert values == {"target": 0x10000 + 90, "max_register_count": 32, "debug": 1, "cache_mode": 0}
    assert keywords == {"time": True}
    assert (linker.get_error_log(), linker.get_info_log()) == ("a warning", "told")
    with pytest.raises(NVJitLinkError, match=r"does not have LinkerOptions\.ptxas_options"):
        Linker(*ptx, options=LinkerOptions(arch="sm_90", ptxas_options="-v")).link("cubin")


@pytest.mark.parametrize("make", [ObjectCode.from_ptx, ObjectCode.from_cubin, ObjectCode.from_ltoir])
def test_no_code_at_all(make: Callable[[bytes], ObjectCode]) -> None:
    """The error for empty code would not name the argument."""
    with pytest.raises(ValueError, match=r"' is empty: there is no code to link"):
        Linker(make(b""), options=SM_90).link("cubin")


def test_handle_in_threads(monkeypatch: pytest.MonkeyPatch, ltoir: tuple[ObjectCode, ObjectCode]) -> None:
    """Each thread would make a linker. Destroying surplus linkers while other threads add code ends the process."""
    create = _nvjitlink.NVJitLink.create
    made = []

    def slow(*arguments: Any) -> Any:
        time.sleep(0.05)
        made.append(None)
        return create(*arguments)

    monkeypatch.setattr(_nvjitlink.NVJitLink, "create", slow)
    linker = Linker(*ltoir, options=SM_90)
    with ThreadPoolExecutor(4) as pool:
        handles = set(pool.map(lambda _: linker.handle, range(4)))
    assert (len(handles), len(made)) == (1, 1)


def as_older(ptx: ObjectCode) -> ObjectCode:
    """Return PTX with its version replaced by one that every driver accepts."""
    return ObjectCode.from_ptx(re.sub(rb"\.version .*", b".version 8.0", bytes(ptx.code)))


def test_driver_that_cannot_link(device: Device, no_libraries: None, ptx: tuple[ObjectCode, ObjectCode]) -> None:
    """A failure of the driver's linker would not state why that linker was used."""
    older = as_older(ptx[0])
    with pytest.raises(CUDAError, match=r"The driver had to link, because there is no nvJitLink"):
        Linker(older, options=SM_90).link("cubin")


# The simulator's driver links to a cubin that carries PTX. Such a cubin has no records of parameters, which drivers
# before CUDA 12.4 need.
@pytest.mark.filterwarnings("ignore:the parameters of .* are unknown:RuntimeWarning")
def test_driver_links(device: Device, no_libraries: None) -> None:
    """The driver's linker would not link, or its error would not give a reason."""
    arch = f"sm_{device.arch}"
    kernel, function = (as_older(build(source, "ptx", arch=arch)) for source in (KERNEL, FUNCTION))
    linker = Linker(kernel, function, options=LinkerOptions(arch=arch, time=True))
    assert run_map(device, linker.link("cubin"), range(100)).tolist() == [2 * i + 1 for i in range(100)]
    assert "linking took" in linker.get_info_log()
    with pytest.raises(CUDAError) as caught:
        Linker(kernel, options=LinkerOptions(arch=arch)).link("cubin")
    assert "'f'" in caught.value.log
