# SPDX-License-Identifier: Apache-2.0
"""Options for included files, and the headers of CUDA."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cudacore_compile import NVRTCError, cuda_include_path

Build = Callable[..., Any]


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
        unpacked = tmp_path / "cudacore" / "nvrtc-headers" / version
        assert (unpacked / "cuda_fp16.h").is_file()
        named = f"If the headers in {re.escape(str(unpacked))} are damaged, remove this directory"
        for damage in (lambda: (unpacked / "cuda_fp16.h").write_text("__half x;"), (unpacked / "cuda_fp16.h").unlink):
            damage()  # NVRTC does not notice this
            with pytest.raises(NVRTCError, match=named):
                build(source, use_bundled_headers=True)
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        with pytest.raises(NVRTCError, match="failed to create directory"):
            build(source, use_bundled_headers=True)
    else:
        with pytest.raises(NVRTCError, match=r"ProgramOptions\.use_bundled_headers, which came with 13\.3: leave it"):
            build(source, use_bundled_headers=True)


def test_cuda_include_path(build: Build) -> None:
    """CUDA's own headers, or some of the headers that they include, would not be found."""
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
    """For headers of another CUDA version, the error would only name a line that NVRTC cannot compile."""
    import cuda.pathfinder

    (tmp_path / "cuda_runtime_api.h").write_text("// CUDA\n#define CUDART_VERSION  11080\n")
    place = cuda.pathfinder.LocatedHeaderDir(str(tmp_path), "site-packages")
    monkeypatch.setattr(cuda.pathfinder, "locate_nvidia_header_directory", lambda name: place)
    with pytest.raises(FileNotFoundError, match=r"are those of CUDA 11\.8, and NVRTC is 1\d\.\d: .*,headers\]"):
        cuda_include_path()


def test_pre_include(build: Build, tmp_path: Path) -> None:
    """Files would not be included before the program."""
    (tmp_path / "first.h").write_text("#define FIRST 4242")
    source = 'extern "C" __global__ void k(int *p) { *p = FIRST; }'
    assert "4242" in build(source, pre_include=[tmp_path / "first.h"]).text


def test_no_source_include(build: Build, tmp_path: Path) -> None:
    """Files beside the program would not be found, or would be found with `no_source_include`."""
    (tmp_path / "beside.h").write_text("#define BESIDE 1")
    name = str(tmp_path / "program.cu")
    assert build('#include "beside.h"', name=name).code
    with pytest.raises(NVRTCError, match=r"beside\.h"):
        build('#include "beside.h"', name=name, no_source_include=True)
