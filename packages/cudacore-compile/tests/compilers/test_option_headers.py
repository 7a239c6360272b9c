# SPDX-License-Identifier: Apache-2.0
"""Options for included files, and the headers of CUDA."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from compile_sources import Build

from cudacore_compile import NVRTCError, Program, ProgramOptions, cuda_include_path
from cudacore_compile._compilers.wheel_headers import wheel_headers


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


EVERY_KIND = """
#include <cuda_fp16.h>
#include <cooperative_groups.h>
#include <cuda/std/span>
#include <cub/block/block_reduce.cuh>
#if __has_include(<curand_kernel.h>)
#include <curand_kernel.h>
#endif
extern "C" __global__ void k(__half *p) { cuda::std::span<__half> s{p, 2}; s[0] = s[1] * s[1]; }
"""


def wheels(major: int) -> list[str]:
    found = wheel_headers(b"#include", [], (), major)
    if not found:
        pytest.skip("needs the wheels of CUDA's headers")
    return found


def test_headers_without_include_path(build: Build, nvrtc_version: tuple[int, ...], tmp_path: Path) -> None:
    """CUDA's headers would not be found by a program, a header in memory or a file, although they are installed."""
    if not any((Path(place) / "nv" / "target").is_file() for place in wheels(nvrtc_version[0])):
        pytest.skip("needs the wheel of CCCL")
    assert ".entry k" in build(EVERY_KIND).text
    one = '#include <cuda/std/cstddef>\nextern "C" __global__ void k(cuda::std::size_t *p) { *p = 1; }'
    options = ProgramOptions(arch="sm_90")
    in_memory = Program('#include "one.h"', "c++", options, headers={"one.h": one})
    assert b".entry k" in in_memory.compile("ptx").code
    (tmp_path / "one.h").write_text(one)
    assert ".entry k" in build('#include "one.h"', include_path=tmp_path).text
    assert ".entry k" in build("", pre_include=tmp_path / "one.h").text


def test_own_headers_come_first(build: Build, nvrtc_version: tuple[int, ...], tmp_path: Path) -> None:
    """A program's own header would be hidden by CUDA's, or the headers of two CUDA versions would be mixed."""
    wheels(nvrtc_version[0])
    (tmp_path / "cuda_fp16.h").write_text("#define OWN 4242")
    source = '#include <cuda_fp16.h>\nextern "C" __global__ void k(int *p) { *p = OWN; }'
    assert "4242" in build(source, include_path=tmp_path).text
    (tmp_path / "cuda_runtime_api.h").touch()
    with pytest.raises(NVRTCError, match=r"cuda_bf16\.h"):
        build("#include <cuda_bf16.h>", include_path=tmp_path)


def test_headers_of_wheels_in_keys(nvrtc_version: tuple[int, ...]) -> None:
    """Code in a cache would be used after the headers that it was compiled with have changed."""
    folder = wheels(nvrtc_version[0])[0]
    program = Program("#include <cuda_fp16.h>", "c++", ProgramOptions(arch="sm_90"))
    assert f"{folder}/cuda_fp16.h" in program.dependencies()


def test_flags_without_headers() -> None:
    """A program that includes nothing would have other options than it was given."""
    assert wheel_headers(b'extern "C" __global__ void k() {}', [b"-I"], ()) == []
    assert wheel_headers(b"#include <cuda_fp16.h>", [b"--use-bundled-headers=/x"], ()) == []
    assert wheel_headers(b"#include <cuda_fp16.h>", [], (), 11) == []


@pytest.mark.parametrize(
    ("major", "names"),
    [
        (12, ["cuda_runtime/include", "cuda_cccl/include", "curand/include"]),
        (13, ["cu13/include", "cu13/include/cccl"]),
    ],
)
def test_places_in_wheels(major: int, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheels of a CUDA version would not be found, or those of another version or a second installation, too."""
    for top in ("first", "second"):
        for name in (*names, "cu14/include", "cublas/include"):
            (tmp_path / top / "nvidia" / name).mkdir(parents=True)
        (tmp_path / top / "nvidia" / names[0] / "cuda_runtime_api.h").touch()
    monkeypatch.setattr("sys.path", [str(tmp_path / "empty"), str(tmp_path / "first"), str(tmp_path / "second")])
    expected = [str(tmp_path / "first" / "nvidia" / name) for name in names]
    assert wheel_headers(b"#include", [], (), major) == expected
    assert wheel_headers(b"#include", [], ()) == expected


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


def test_no_source_include(build: Build, tmp_path: Path) -> None:
    """Files beside the program would not be found, or would be found with `no_source_include`."""
    (tmp_path / "beside.h").write_text("#define BESIDE 1")
    name = str(tmp_path / "program.cu")
    assert build('#include "beside.h"', name=name).code
    with pytest.raises(NVRTCError, match=r"beside\.h"):
        build('#include "beside.h"', name=name, no_source_include=True)
