# SPDX-License-Identifier: Apache-2.0
"""Fat binaries."""

from __future__ import annotations

import functools
import pickle
import struct
from typing import Any

import pytest

from cudacore_compile import Linker, NVFatbinError, Program, compile_many, make_fatbin
from cudacore_compile._compilers.nvrtc import load
from cudacore_handles import Device, LaunchConfig, ObjectCode, UnsupportedCodeError, launch

pytestmark = pytest.mark.usefixtures("_nvfatbin")

SOURCE = """
template <class T> __global__ void set(T *out, T value) { *out = value; }
"""
NAMES = ["set<float>", "set<int>"]
MAGIC = b"\x50\xed\x55\xba"


@functools.cache
def build(arch: str, target: str = "cubin", source: str = SOURCE) -> ObjectCode:
    return Program(source, "c++", {"arch": arch, "name": "set.cu"}).compile(target, NAMES)


def test_what_it_has() -> None:
    """Names, kinds of parameters, or the code of an architecture would be lost."""
    parts = [build("sm_80"), build("sm_90a"), build("sm_90", "ptx")]
    fatbin = make_fatbin(parts)
    assert isinstance(fatbin.code, bytes)
    assert (fatbin.code_type, fatbin.name, fatbin.code[:4]) == ("fatbin", "set.cu", MAGIC)
    assert fatbin.symbol_mapping == parts[0].symbol_mapping
    assert fatbin._signatures == {**parts[0]._signatures, **parts[2]._signatures}  # type: ignore[dict-item]
    plain = make_fatbin(parts, name="another", compress=False)
    assert plain.name == "another"
    assert len(plain.code) > len(fatbin.code)
    for part in parts[:2]:
        assert part.code in plain.code  # type: ignore[operator]
    assert b".entry _Z3setIfEvPT_S0_(" in plain.code  # PTX is stored without its comments
    assert pickle.loads(pickle.dumps(fatbin)).code == fatbin.code


def labels(fatbin: ObjectCode) -> list[tuple[int, str]]:
    """Return the kind (1 PTX, 2 cubin, 8 LTO-IR) and the architecture of each entry, as cuobjdump shows them."""
    code, at, found = bytes(fatbin.code), 16, []  # type: ignore[arg-type]
    while at < len(code):
        kind, _, header, size, _, _, _, _, arch, _, _, flags = struct.unpack_from("<HHIQIIHHIIIQ", code, at)
        letter = "a" if flags & 0x100000 else "f" if flags & 0x200000 else ""
        found.append((kind, f"{arch}{letter}"))
        at += header + size
    return found


@pytest.mark.parametrize("compress", [False, True])
def test_code_for_one_architecture_alone(compress: bool) -> None:
    """sm_90a and sm_90 would be confused, or code for one device would be labelled as code for a generation."""
    arches = ["sm_90", "sm_90a"]
    arches += [arch for arch in ("sm_100", "sm_100a", "sm_120a") if int(arch[3:].rstrip("a")) in load().architectures()]
    fatbin = make_fatbin(
        [build(arch, kind) for kind in ("cubin", "ptx", "ltoir") for arch in arches], compress=compress
    )
    numbers = [arch[3:] for arch in arches]
    assert labels(fatbin) == [(kind, number) for kind in (2, 1, 8) for number in numbers]
    for arch in arches:
        assert build(arch)._contents().arch == arch
        with pytest.raises(ValueError, match=f"two of the type 'cubin' for the architecture {arch[3:]}$"):
            make_fatbin([build(arch), build(arch)])


def test_code_for_a_family() -> None:
    """A cubin for a family would get another label than the compiler gives it."""
    if 100 not in load().architectures():
        pytest.skip("needs an NVRTC that compiles for sm_100")
    parts = [build("sm_100f"), build("sm_100f", "ptx"), build("sm_100f", "ltoir")]
    assert labels(make_fatbin(parts)) == [(2, "100"), (1, "100f"), (8, "100")]


def test_ltoir_is_linked() -> None:
    """A linker would not use the LTO-IR of a fat binary, or would use LTO-IR for another architecture."""
    function = 'extern "C" __device__ int f(int x) { return x + __CUDA_ARCH__; }'
    kernel = 'extern "C" __device__ int f(int x); extern "C" __global__ void k(int *p) { *p = f(*p); }'
    fatbin = make_fatbin(compile_many([(function, {"arch": arch}, "ltoir") for arch in ("sm_80", "sm_90")]))
    for number in (80, 90):
        part = Program(kernel, "c++", {"arch": f"sm_{number}"}).compile("ltoir")
        ptx = Linker(fatbin, part, options={"arch": f"sm_{number}"}).link("ptx").code
        assert f"{number}0;".encode() in ptx  # type: ignore[operator]


@pytest.mark.parametrize("code", [b"nothing", b"\xedCN\x7f" + bytes(60), b"\xedCN\x7f" + b"\xff" * 60])
def test_ltoir_of_no_architecture(code: bytes) -> None:
    """LTO-IR whose format is unknown would get an arbitrary architecture in the fat binary."""
    with pytest.raises(ValueError, match="the architecture of the LTO-IR cannot be read"):
        make_fatbin([ObjectCode.from_ltoir(code)])


def test_what_cannot_be_combined() -> None:
    """Parts that contradict each other would be accepted, and an arbitrary one of them would be loaded."""
    with pytest.raises(ValueError, match="codes is empty"):
        make_fatbin([])
    with pytest.raises(ValueError, match="two of the type 'cubin' for the architecture 90"):
        make_fatbin([build("sm_90"), build("sm_80"), build("sm_90", source=SOURCE + " ")])
    with pytest.raises(UnsupportedCodeError, match='"fatbin": fat binaries are made of cubins, PTX and LTO-IR'):
        make_fatbin([ObjectCode.from_fatbin(b"")])
    with pytest.raises(TypeError, match="codes must be of ObjectCode, not bytes"):
        make_fatbin([b"code"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"no \.target"):
        make_fatbin([ObjectCode.from_ptx(b"nothing")])
    with pytest.raises(ValueError, match="'f' stands for a in one and for b in another"):
        make_fatbin(
            [
                ObjectCode.from_ptx(b".version 8.0\n.target sm_80\n", symbol_mapping={"f": "a"}),
                ObjectCode.from_ptx(b".version 8.0\n.target sm_90\n", symbol_mapping={"f": "b"}),
            ]
        )


def test_damaged_code() -> None:
    """An error of the library would only have a number, or a fat binary would be returned nevertheless."""
    with pytest.raises(NVFatbinError, match=r"nvFatbinAddPTX: NVFATBIN_ERROR_\w+ \(\d+\)") as caught:
        make_fatbin([ObjectCode.from_ptx(b".target sm_90\nnonsense")])
    assert caught.value.code > 0


@pytest.mark.cuda_gpu
def test_loads_what_the_device_runs(device: Device) -> None:
    """A fat binary would not load, or its kernels would not be found by their names."""
    stream = device.create_stream()
    arches = dict.fromkeys(["sm_80", "sm_90", f"sm_{device.arch}", "sm_120"])
    code = make_fatbin(compile_many([(SOURCE, {"arch": arch}, "cubin", NAMES) for arch in arches]))
    buffer = device.allocate(4, stream=stream)
    kernel = code.get_kernel("set<float>")
    assert [p.kind.value for p in kernel.arguments_info] == ["pointer", "float"]
    launch(stream, LaunchConfig(grid=1, block=1), kernel, buffer, 1.5)
    out: Any = memoryview(bytearray(4))
    buffer.copy_to(out, stream=stream)
    assert out.cast("f")[0] == 1.5
    only_ptx = make_fatbin([build("compute_80", "ptx")])
    assert only_ptx.get_kernel("set<int>")
