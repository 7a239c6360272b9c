# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compile_sources import FUNCTION_IR

from cudacore_compile import (
    NVFatbinError,
    NVVMError,
    Program,
    ProgramOptions,
    make_fatbin,
    versions,
)
from cudacore_compile._compilers import nvrtc as _nvrtc
from cudacore_compile._compilers import versions as _versions
from cudacore_handles import CUDAError, ObjectCode

SM_90 = ProgramOptions(arch="sm_90")
PTX = ObjectCode.from_ptx(b".version 8.0\n.target sm_80\n")


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


def test_what_is_not_there(no_libraries: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing compiler would raise an error, or be listed."""

    def no_driver() -> None:
        raise CUDAError("dlopen", -3, "CCH_ENODRIVER", "no driver")

    monkeypatch.setattr(_versions, "driver_cuda_version", no_driver)
    _nvrtc.load.cache_clear()
    assert versions() == {}


@pytest.mark.parametrize(
    ("use", "error", "match"),
    [
        (lambda: Program(FUNCTION_IR, "nvvm", SM_90).compile("ptx"), NVVMError, "libNVVM: NVVM_NOT_FOUND.*,nvvm"),
        (lambda: make_fatbin([PTX]), NVFatbinError, "nvFatbin: NVFATBIN_NOT_FOUND.*,link"),
    ],
)
def test_missing_library(use: Callable[[], Any], error: type[CUDAError], match: str, no_libraries: None) -> None:
    """The error for a missing library would not name the library, or the package to install."""
    with pytest.raises(error) as caught:
        use()
    assert re.search(rf"^load {match}.*\]", str(caught.value).replace("\n", " ")), caught.value
    assert caught.value.code == -1
