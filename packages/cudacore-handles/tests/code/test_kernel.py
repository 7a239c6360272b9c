# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import pickle
import struct
from typing import Any

import pytest
from kernel_sources import PTX

import cudacore_handles as ch

ONE_BLOCK = ch.LaunchConfig(grid=1, block=1)
ASKED_FOR_ITS_CODE = pytest.mark.needs_driver("12.5", "kernels that say which code they are of")

# Name of a kernel, and (offset, size) of each of its parameters.
SIGNATURES = [
    ("nothing", []),
    ("add", [(0, 8), (8, 4)]),
    ("echo_int8", [(0, 1), (8, 8)]),
    ("echo_float16", [(0, 2), (8, 8)]),
    ("echo_complex128", [(0, 16), (16, 8)]),
    ("echo_record", [(0, 24), (24, 8)]),
    ("mixed", [(0, 1), (8, 8), (16, 2), (24, 8), (32, 4)]),
]


@pytest.fixture
def kernel(device: ch.Device) -> ch.Kernel:
    return ch.ObjectCode.from_ptx(PTX).get_kernel("add")


@pytest.mark.parametrize(("name", "parameters"), SIGNATURES)
def test_signature(code: ch.ObjectCode, name: str, parameters: list[tuple[int, int]]) -> None:
    """Arguments would be packed at other offsets than those from which the kernel reads them."""
    kernel = code.get_kernel(name)
    assert kernel.num_arguments == len(parameters)
    assert kernel.arguments_info == parameters
    assert kernel.arguments_info == [ch.ParamInfo(offset=o, size=s) for o, s in parameters]
    assert isinstance(kernel.arguments_info, list)


# Name of a kernel, the kinds of its parameters if the code is PTX, and the kinds for a cubin without PTX.
KINDS = [
    ("nothing", "", ""),
    ("add", "address bits", "unknown unknown"),
    ("echo_float32", "float address", "unknown unknown"),
    ("echo_record", "bytes address", "unknown unknown"),
    ("_Z9templatedIfEvPT_S0_", "pointer float", "pointer float"),
]


@pytest.mark.parametrize(("name", "in_ptx", "in_cubin"), KINDS)
def test_kinds(code: ch.ObjectCode, name: str, in_ptx: str, in_cubin: str) -> None:
    """Numbers would be packed as another type than that of the kernel's parameter."""
    info = code.get_kernel(name).arguments_info
    kinds = " ".join(p.kind for p in info).replace("pointer", "address" if "pointer" not in in_cubin else "pointer")
    assert kinds == (in_ptx if code.code_type == "ptx" else in_cubin)
    for offset, size in info:
        assert (offset, size) >= (0, 1)
    again = pickle.loads(pickle.dumps(info))
    assert again == info
    assert [p.kind for p in again] == [p.kind for p in info]


def test_param_info() -> None:
    """A ParamInfo, which also has a kind, would not unpack or compare like (offset, size), or not show the kind."""
    info = ch.ParamInfo(8, 4, ch.ParamKind.FLOAT)
    assert info == (8, 4) == ch.ParamInfo(8, 4)
    assert repr(info) == "ParamInfo(offset=8, size=4, kind='float')"
    assert ch.ParamInfo(8, 4).kind is ch.ParamKind.UNKNOWN
    assert (info.offset, info.size, info.kind) == (8, 4, "float")
    assert f"{info.kind}" == "float"


def test_signature_needs_a_context(kernel: ch.Kernel, in_new_thread: Any) -> None:
    """On a thread without a context, the query would crash, or the error would not name the cause."""

    def ask() -> None:
        try:
            answer = kernel.num_arguments
        except ch.CUDAError as error:
            answer = error.hint
        assert answer in (2, "No context is current on this thread: call Device().set_current() first")

    in_new_thread(ask)
    assert kernel.num_arguments == 2


def test_identity(device: ch.Device) -> None:
    """Objects of the same kernel would be unequal, or objects of different kernels would be equal."""
    code = ch.ObjectCode.from_ptx(PTX)
    kernel, same, other = code.get_kernel("add"), code.get_kernel(b"add"), code.get_kernel("nothing")
    assert kernel == same
    assert kernel != other


# ---- objects that keep code loaded


def test_a_kernel_keeps_its_code(device: ch.Device, stream: ch.Stream) -> None:
    """A kernel would be launched whose code was unloaded."""
    before = ch.live_counts()
    code = ch.ObjectCode.from_ptx(PTX)
    kernel = code.get_kernel("nothing")
    del code
    gc.collect()
    ch.launch(stream, ONE_BLOCK, kernel)
    stream.sync()
    assert ch.live_counts()["library"] == before["library"] + 1
    del kernel
    gc.collect()
    assert ch.live_counts() == before


@pytest.mark.parametrize("keep", ["face", pytest.param("code", marks=ASKED_FOR_ITS_CODE), "mod"])
def test_from_handle(device: ch.Device, stream: ch.Stream, keep: str) -> None:
    """A kernel that is made from a handle, which another library passed back, would not keep the code loaded."""
    before = ch.live_counts()
    code = ch.ObjectCode.from_ptx(PTX)
    face = code.get_kernel("nothing")
    handle = int(face.handle)
    if keep == "code":
        del face  # the kernel's library is then found through the driver
    kernel = ch.Kernel.from_handle(handle, code if keep == "mod" else None)
    assert int(kernel.handle) == handle
    code = face = None  # type: ignore[assignment]
    gc.collect()
    ch.launch(stream, ONE_BLOCK, kernel)
    stream.sync()
    assert kernel.num_arguments == 0
    assert ch.live_counts()["library"] == before["library"] + 1
    del kernel
    gc.collect()
    assert ch.live_counts() == before


@ASKED_FOR_ITS_CODE
def test_from_handle_with_other_code(device: ch.Device) -> None:
    """A kernel would keep other code than its own loaded, or become invalid when its own code is unloaded."""
    code, other = ch.ObjectCode.from_ptx(PTX), ch.ObjectCode.from_ptx(PTX, name="other")
    handle = int(code.get_kernel("nothing").handle)
    theirs, ours = code._raw(), other._raw()
    before = ch.live_counts()
    message = (
        f"handle is {handle:#x}, and mod is .*'other'.*: the kernel is of the library {theirs:#x}, not of {ours:#x}"
    )
    with pytest.raises(ValueError, match=message):
        ch.Kernel.from_handle(handle, other)
    assert ch.live_counts() == before


@ASKED_FOR_ITS_CODE
@pytest.mark.cuda_sim  # on a GPU, the driver's behaviour with such a handle is undefined
def test_from_handle_of_nothing(device: ch.Device) -> None:
    """A handle that is not a kernel's would become a Kernel that keeps code loaded and can be launched."""
    code = ch.ObjectCode.from_ptx(PTX)
    code.get_kernel("nothing")
    before = ch.live_counts()
    with pytest.raises(ch.CUDAError, match="cuKernelGetLibrary: CUDA_ERROR_INVALID_HANDLE"):
        ch.Kernel.from_handle(0x1230, code)
    assert ch.live_counts() == before


@pytest.mark.needs_driver("12.4", "parameters of kernels of others")  # test_older_driver.py tests older drivers
def test_a_foreign_kernel(device: ch.Device, stream: ch.Stream) -> None:
    """A kernel that cuda.bindings loaded could not be launched, or would be unloaded by us."""
    from cuda.bindings import driver

    status, library = driver.cuLibraryLoadData(PTX + b"\0", [], [], 0, [], [], 0)
    assert int(status) == 0
    status, raw = driver.cuLibraryGetKernel(library, b"add")
    assert int(status) == 0
    for handle in (raw, int(raw)):
        kernel = ch.Kernel.from_handle(handle)
        assert kernel.num_arguments == 2
        assert repr(kernel) == f"<Kernel handle={int(raw):#x}>"
        out = device.allocate(4, stream=stream)
        out.fill(0, stream=stream)
        ch.launch(stream, ONE_BLOCK, kernel, out, 1)
        stream.sync()
        del kernel
    (status,) = driver.cuLibraryUnload(library)
    assert int(status) == 0


@pytest.mark.parametrize(
    ("handle", "mod", "error", "message"),
    [
        *(
            (wrong, None, TypeError, "handle must be an int, the kernel's address, not")
            for wrong in ("1", b"1", 1.0, None, object())
        ),
        (0, None, ValueError, "handle must be an int, the kernel's address; 0 is not an address"),
        (..., "mod", TypeError, "mod must be an ObjectCode, not str"),
        (..., ch.ObjectCode.from_ltoir(b"code"), ValueError, 'Unsupported code type "ltoir": it cannot be loaded'),
    ],
)
def test_bad_handle(kernel: ch.Kernel, handle: Any, mod: Any, error: type[Exception], message: str) -> None:
    """A value that is not an address would be accepted as that of a kernel, or anything as the kernel's code."""
    with pytest.raises(error, match=message):
        ch.Kernel.from_handle(int(kernel.handle) if handle is ... else handle, mod)


# ---- attributes and occupancy (more tests are in test_kernel_attributes)


def test_an_address_that_is_used_again(device: ch.Device, stream: ch.Stream) -> None:
    """A kernel at the address of an old one would be launched with the signature of the old one."""
    other = PTX.replace(b".param .u32 amount", b".param .u64 amount, .param .u16 more").replace(
        b"ld.param.u32 %n, [amount];", b"mov.u32 %n, 1;"
    )
    for source, sizes in [(PTX, [8, 4]), (other, [8, 8, 2])] * 10:
        kernel = ch.ObjectCode.from_ptx(source).get_kernel("add")
        assert [p.size for p in kernel.arguments_info] == sizes
        out = ch.LegacyPinnedMemoryResource().allocate(4)
        out.__buffer__()[:] = struct.pack("=I", 5)
        ch.launch(stream, ONE_BLOCK, kernel, out, *[1 for _ in sizes[1:]])
        stream.sync()
