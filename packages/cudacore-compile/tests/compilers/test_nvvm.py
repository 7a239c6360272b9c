# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import io
from pathlib import Path
from typing import Any

import pytest
from compile_sources import FUNCTION_IR, HEAD, KERNEL_IR, LAYOUT, SINE_IR, VERSION

from cudacore_compile import CompilerError, NVVMError, Program, ProgramOptions
from cudacore_compile._compilers import nvvm as _nvvm

SM_90 = ProgramOptions(arch="sm_90")


def ptx(source: Any, **options: Any) -> str:
    code = Program(source, "nvvm", ProgramOptions(arch="sm_90", **options)).compile("ptx").code
    assert isinstance(code, bytes)
    return code.decode()


def test_bitcode() -> None:
    """Bitcode, which has NULs, would be cut off or refused."""
    libdevice = _nvvm._libdevice(_nvvm.load().path)
    assert b"\0" in libdevice
    try:
        text = ptx(libdevice, extra_sources=[("sine", SINE_IR)])
    except NVVMError as error:  # before CUDA 13 not all of libdevice passes NVVM's check
        if "Unsupported intrinsic: llvm.copysign" not in error.log:
            raise
    else:
        assert "extern .func" not in text
        assert "f(" in text


def test_extra_sources() -> None:
    """Additional modules would not be linked, or not be named in messages."""
    text = ptx(KERNEL_IR, extra_sources=[("function", FUNCTION_IR), ("other", SINE_IR.replace("@f", "@g").encode())])
    assert ".entry map" in text
    assert "fma.rn.f32" in text or "add.f32" in text or "add.rn.f32" in text
    with pytest.raises(NVVMError, match=r"^nvvm\w+: NVVM_ERROR.*\n(.*\n)*.*wrong one"):
        ptx(KERNEL_IR, extra_sources=[("wrong one", "nonsense")])


def test_libdevice() -> None:
    """Mathematical functions would be missing, or the whole of libdevice be compiled."""
    assert "extern .func" in ptx(SINE_IR)
    text = ptx(SINE_IR, use_libdevice=True)
    assert "extern .func" not in text
    assert "__nv_cosf" not in text


def test_libdevice_is_that_of_nvvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The libdevice of another CUDA would be used although libNVVM has its own, or its absence not be reported."""
    import cuda.pathfinder

    def fail(name: str) -> None:
        raise RuntimeError(f"no {name}")

    monkeypatch.setattr(cuda.pathfinder, "find_bitcode_lib", fail)
    for folders in (("lib", "nvvm"), ("nvvm/lib64", "nvvm")):
        root = tmp_path / folders[0].replace("/", "-")
        (root / folders[0]).mkdir(parents=True)
        (root / "nvvm" / "libdevice").mkdir(parents=True)
        (root / "nvvm" / "libdevice" / "libdevice.10.bc").write_bytes(b"mine")
        assert _nvvm._libdevice(str(root / folders[0] / "libnvvm.so")) == b"mine"
    with pytest.raises(NVVMError, match=r"LIBDEVICE_NOT_FOUND.*It comes with libNVVM: python -m pip install \"cuda"):
        _nvvm._libdevice(str(tmp_path / "libnvvm.so"))


def test_options() -> None:
    """Options would not reach NVVM."""
    division = FUNCTION_IR.replace("fmul", "fdiv")
    assert "div.rn.f32" in ptx(division.replace("2.0", "%x"))
    assert "div.full.f32" in ptx(division.replace("2.0", "%x"), prec_div=False)
    assert "ftz" in ptx(FUNCTION_IR, ftz=True)
    assert "fma.rn" in ptx(FUNCTION_IR)
    assert "fma.rn" not in ptx(FUNCTION_IR, fma=False)
    assert ".target sm_80" in Program(FUNCTION_IR, "nvvm", ProgramOptions(arch=80)).compile("ptx").code.decode()


def test_option_newer_than_the_compiler() -> None:
    """If a libNVVM is too old for an option, the error would not state the required version."""
    # this function was added in the same version as the option
    if not hasattr(ctypes.CDLL(_nvvm.load().path), "nvvmLLVMVersion"):
        with pytest.raises(
            NVVMError, match=r"does not have ProgramOptions\.numba_debug, which came with that of CUDA 13\.1"
        ):
            ptx(FUNCTION_IR, numba_debug=True, debug=True)
    else:
        assert ".func" in ptx(FUNCTION_IR, numba_debug=True, debug=True)


@pytest.mark.parametrize(
    ("source", "code_name", "hint"),
    [
        ("nonsense", "NVVM_ERROR_INVALID_IR", ""),
        (b"\xff\xfe\x00garbage", "NVVM_ERROR_INVALID_IR", ""),
        (b"BC\xc0\xde\0\0garbage", "NVVM_ERROR_INVALID_IR", ""),
        (HEAD + "define void @f() { ret i32 1 }" + VERSION, "NVVM_ERROR_INVALID_IR", ""),
        (FUNCTION_IR.replace(LAYOUT, ""), "NVVM_ERROR_INVALID_IR", 'Modules need: target datalayout = "e-p:64'),
        (FUNCTION_IR.replace("i32 2, i32 0", "i32 1, i32 0"), "NVVM_ERROR_IR_VERSION_MISMATCH", "takes NVVM IR 2."),
    ],
)
def test_bad_source(source: Any, code_name: str, hint: str) -> None:
    """Bad IR would compile to something, or fail without the log."""
    logs = io.StringIO()
    with pytest.raises(NVVMError) as caught:
        Program(source, "nvvm", SM_90).compile("ptx", logs=logs)
    assert isinstance(caught.value, CompilerError)
    assert caught.value.code_name == code_name
    assert caught.value.log == logs.getvalue() != ""
    assert hint in caught.value.hint
    assert caught.value.command == "nvvm -arch=compute_90 default_program"


def test_unknown_architecture() -> None:
    """An architecture that this libNVVM does not support would be refused without a list of the supported ones."""
    with pytest.raises(NVVMError, match=r"what this libNVVM compiles for: .*\b90\b.*\b100\b"):
        Program(FUNCTION_IR, "nvvm", ProgramOptions(arch="sm_99")).compile("ptx")


def test_name_expressions() -> None:
    """Names of templates, which only C++ has, would be ignored silently."""
    with pytest.warns(RuntimeWarning, match="name_expressions: without effect on programs in nvvm"):
        Program(FUNCTION_IR, "nvvm", SM_90).compile("ptx", ["f"])
