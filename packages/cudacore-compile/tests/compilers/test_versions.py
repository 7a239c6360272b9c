# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from compile_sources import FUNCTION_IR

import cudacore_compile
from cudacore_compile import Program, ProgramOptions, versions
from cudacore_compile._compilers import nvjitlink as _nvjitlink
from cudacore_compile._compilers import nvrtc as _nvrtc
from cudacore_compile._compilers import nvvm as _nvvm
from cudacore_compile._compilers import versions as _versions
from cudacore_handles import CUDAError


def test_what_is_there() -> None:
    """The list of compilers would lack one, or name another version or file than the compiler in use."""
    found = versions()
    assert list(found) == ["NVRTC", "NVVM", "nvJitLink", "driver"]
    assert found["NVRTC"].version == _nvrtc.load().version_text
    assert found["nvJitLink"].architectures is found["driver"].architectures is None
    assert found["driver"].path == ""
    for name in ("NVRTC", "NVVM", "nvJitLink"):
        path = found[name].path  # type: ignore[index]
        assert Path(path).is_file()
        assert (
            path in Path("/proc/self/maps").read_text()
            or Path(path).resolve().name in Path("/proc/self/maps").read_text()
        )


def test_architectures() -> None:
    """An architecture would be listed that the compiler does not support, or a supported one would be missing."""
    found = versions()
    assert {75, 90, 100, 120} <= set(found["NVVM"].architectures or ())
    assert {75, 90, 100, 120} <= set(found["NVRTC"].architectures or ())
    for number in found["NVVM"].architectures or ():
        assert Program(FUNCTION_IR, "nvvm", ProgramOptions(arch=number)).compile("ptx").code


def test_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing compiler would raise an error, or be listed."""
    import cuda.pathfinder

    def no_library(name: str) -> None:
        raise RuntimeError(f"no {name}")

    def no_driver() -> None:
        raise CUDAError("dlopen", -3, "CCH_ENODRIVER", "no driver")

    monkeypatch.setattr(cuda.pathfinder, "load_nvidia_dynamic_lib", no_library)
    monkeypatch.setattr(_versions, "driver_cuda_version", no_driver)
    for module in (_nvrtc, _nvvm, _nvjitlink):
        monkeypatch.setattr(module.load, "_loaded", None)
    assert cudacore_compile.versions() == {}
