# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import array
import ctypes
import struct
from collections.abc import Callable
from typing import Any

import kernel_sources
import numpy as np
import pytest

import cudacore_handles as ch

ONE_BLOCK = ch.LaunchConfig(grid=1, block=1)
Read = Callable[..., bytes]


class Record(ctypes.Structure):
    """The kernels' struct record."""

    _fields_ = (("id", ctypes.c_int), ("weight", ctypes.c_double), ("tag", ctypes.c_char * 3))


RECORD = Record(7, 2.5, b"ab")
RECORD_DTYPE = np.dtype([("id", "i4"), ("weight", "f8"), ("tag", "S3")], align=True)

# Type of the kernel's parameter, value, format of what must arrive. Every value is one that other sizes would spoil.
SCALARS: list[tuple[str, Any, str]] = [
    ("int8", -128, "b"),
    ("int8", 255, "B"),
    ("uint8", 200, "B"),
    ("int16", -30000, "h"),
    ("uint16", 60000, "H"),
    ("int32", -2_000_000_000, "i"),
    ("uint32", 4_000_000_000, "I"),
    ("int64", -(2**62), "q"),
    ("uint64", 2**63 + 1, "Q"),
    ("float16", 1.5, "e"),
    ("float16", 65504.0, "e"),
    ("float32", 1.1, "f"),
    ("float32", float("-inf"), "f"),
    ("float64", 1.1, "d"),
    ("bool", True, "?"),
    ("bool", False, "?"),
    ("int32", True, "i"),
    ("complex64", 1.5 - 2.5j, "2f"),
    ("complex128", 0.1 - 0.2j, "2d"),
    ("int8", np.int8(-5), "b"),
    ("uint8", np.uint8(250), "B"),
    ("int16", np.int16(-300), "h"),
    ("uint16", np.uint16(65535), "H"),
    ("int32", np.int32(-70000), "i"),
    ("uint32", np.uint32(2**32 - 1), "I"),
    ("int64", np.int64(-(2**63)), "q"),
    ("uint64", np.uint64(2**64 - 1), "Q"),
    ("float16", np.float16(0.1), "e"),
    ("float32", np.float32(0.1), "f"),
    ("float64", np.float64(0.1), "d"),
    ("bool", np.bool_(True), "?"),
    ("complex64", np.complex64(1 - 2j), "2f"),
    ("complex128", np.complex128(1 - 2j), "2d"),
    ("int8", ctypes.c_int8(-5), "b"),
    ("uint16", ctypes.c_uint16(65535), "H"),
    ("int32", ctypes.c_int32(-70000), "i"),
    ("uint64", ctypes.c_uint64(2**64 - 1), "Q"),
    ("float32", ctypes.c_float(0.1), "f"),
    ("float64", ctypes.c_double(0.1), "d"),
    ("bool", ctypes.c_bool(True), "?"),
    ("pointer", ctypes.c_void_p(0x7F0000001000), "Q"),
]

BY_VALUE: list[Any] = [
    bytes(RECORD),
    bytearray(RECORD),
    memoryview(bytes(RECORD)),
    RECORD,
    np.array((7, 2.5, b"ab"), RECORD_DTYPE)[()],
    np.frombuffer(bytes(RECORD), np.uint8),
]


def numbers(value: Any) -> tuple[Any, ...]:
    value = getattr(value, "value", value)
    if isinstance(value, (complex, np.complexfloating)):
        return (float(value.real), float(value.imag))
    return (value.item() if isinstance(value, np.generic) else value,)


# ---- every kind of argument arrives


@pytest.mark.parametrize(
    ("kind", "value", "form"), SCALARS, ids=lambda v: type(v).__name__ if not isinstance(v, str) else v
)
def test_scalars(read_argument: Read, kind: str, value: Any, form: str) -> None:
    """A number would arrive in the kernel as another one (trap 24)."""
    assert read_argument(f"echo_{kind}", value, struct.calcsize(form)) == struct.pack("=" + form, *numbers(value))


@pytest.mark.parametrize("value", BY_VALUE, ids=lambda v: type(v).__name__)
def test_structs_by_value(read_argument: Read, value: Any) -> None:
    """A struct would arrive with other bytes than it has."""
    arrived = read_argument("echo_record", value, ctypes.sizeof(Record))
    there = Record.from_buffer_copy(arrived)
    assert (there.id, there.weight, there.tag) == (7, 2.5, b"ab")


def test_a_float_arrives_as_a_float(read_argument: Read) -> None:
    """A Python float would arrive in a float parameter as the lower half of a double, which is often 0.0."""
    for value in (1.0, -2.5, 0.1):
        assert read_argument("half_to_float", value, 4) == np.float32(np.float16(value)).tobytes()
        assert read_argument("echo_float32", value, 4) == np.float32(value).tobytes()


def test_mixed_sizes(code: ch.ObjectCode, stream: ch.Stream, pinned: Any) -> None:
    """Arguments of several sizes would be packed at wrong offsets."""
    out = pinned(4)
    ch.launch(stream, ONE_BLOCK, code.get_kernel("mixed"), 1, 2.5, 3, out, 4)
    stream.sync()
    assert struct.unpack("=f", out.__buffer__()) == (1 + 25 + 300 + 4000,)


class CudaArray:
    """An array of a library that speaks the CUDA array interface."""

    def __init__(self, buffer: ch.Buffer) -> None:
        self.buffer = buffer

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (4,), "typestr": "<i4", "data": (self.buffer.handle, False), "version": 3}


class DLPackArray:
    """An array of a library that speaks DLPack, and had it before version 1.0."""

    def __init__(self, buffer: ch.Buffer) -> None:
        self.buffer = buffer

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.buffer.__dlpack_device__()

    def __dlpack__(self, stream: int | None = None) -> object:
        return self.buffer.__dlpack__(stream=stream)


@pytest.mark.parametrize("memory", ["device", "pinned"])
@pytest.mark.parametrize(
    "wrap", [lambda b: b, lambda b: b.handle, CudaArray, DLPackArray], ids=["Buffer", "int", "CAI", "DLPack"]
)
def test_pointers(
    read_argument: Read,
    device: ch.Device,
    stream: ch.Stream,
    pinned: Any,
    wrap: Callable[[ch.Buffer], Any],
    memory: str,
) -> None:
    """The address of an array would not arrive."""
    buffer = ch.Device().allocate(64, stream=stream) if memory == "device" else pinned(64)
    assert read_argument("echo_pointer", wrap(buffer), 8) == struct.pack("=Q", buffer.handle)


def test_null_and_handles_of_cuda_bindings(read_argument: Read) -> None:
    """None would not be a null pointer, or a CUdeviceptr not an address."""
    from cuda.bindings import driver

    assert read_argument("echo_pointer", None, 8) == bytes(8)
    assert read_argument("echo_pointer", driver.CUdeviceptr(4096), 8) == struct.pack("=Q", 4096)


def test_a_foreign_buffer(read_argument: Read, pinned: Any) -> None:
    """A borrowed buffer could not be an argument."""
    memory = pinned(64)
    view = ch.Buffer.from_handle(memory.handle + 16, 16, owner=memory)
    assert read_argument("echo_pointer", view, 8) == struct.pack("=Q", memory.handle + 16)


# ---- arguments that do not fit

BAD_ARGUMENTS: list[tuple[str, tuple[Any, ...], type[Exception], str]] = [
    ("add", (), TypeError, r"takes 2 arguments \(parameter sizes: 8, 4 bytes\) but 0 were given"),
    ("add", (0,), TypeError, "takes 2 arguments .* but 1 was given"),
    ("add", (0, 1, 2), TypeError, "takes 2 arguments .* but 3 were given"),
    ("nothing", (0,), TypeError, "takes no arguments but 1 was given"),
    ("echo_int8", (256, 0), OverflowError, "argument 0.*256"),
    ("echo_int32", (2**32, 0), OverflowError, "argument 0.*4294967296"),
    ("echo_int64", (2**64, 0), OverflowError, "argument 0"),
    ("echo_float32", (1e39, 0), OverflowError, "argument 0"),
    ("echo_float16", (1e6, 0), OverflowError, "argument 0"),
    ("echo_int32", (1.5j, 0), TypeError, "argument 0"),
    (
        "echo_int32",
        (np.zeros(1, "i4,i4")[0], 0),
        TypeError,
        "argument 0: numpy.void (has 8 bytes|is a struct)",
    ),
    ("echo_record", (b"12345", 0), TypeError, "argument 0.*5 bytes.*24"),
    ("echo_record", (7, 0), TypeError, "argument 0.*24 bytes"),
    ("echo_int32", (None, 0), TypeError, "argument 0"),
    ("echo_int32", ([1], 0), TypeError, "argument 0: cannot pass a 'list' to a kernel"),
    ("echo_int32", ("1", 0), TypeError, "argument 0: cannot pass a 'str' to a kernel"),
    ("echo_pointer", (np.zeros(100), 0), TypeError, "argument 0.*host memory.*copy it to the device"),
    ("mixed", (1, 1.0, 1, 0, object()), TypeError, "argument 4: cannot pass a 'object' to a kernel"),
]


@pytest.mark.parametrize(("name", "arguments", "error", "message"), BAD_ARGUMENTS)
def test_bad_arguments(
    code: ch.ObjectCode, stream: ch.Stream, name: str, arguments: Any, error: type[Exception], message: str
) -> None:
    """Arguments that do not fit would reach the kernel as garbage, or be a bare INVALID_VALUE of the driver."""
    kernel = code.get_kernel(name)
    for _ in "ab":  # the first launch of a kernel takes another way than later ones
        with pytest.raises(error, match=message):
            ch.launch(stream, ONE_BLOCK, kernel, *arguments)
        with pytest.raises(error, match=message):
            kernel.prepare(stream, ONE_BLOCK, *arguments)
    ch.launch(stream, ONE_BLOCK, code.get_kernel("nothing"))
    stream.sync()


def test_errors_are_not_chained_to_inner_ones(code: ch.ObjectCode, stream: ch.Stream) -> None:
    """The traceback of a bad launch would begin with a TypeError from the inside, which is none of the user's."""
    kernel = code.get_kernel("add")
    for arguments in ((), (0, "1"), (0, 2**32)):
        for _ in "ab":
            with pytest.raises((TypeError, OverflowError)) as caught:
                ch.launch(stream, ONE_BLOCK, kernel, *arguments)
            assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_closed_objects(device: ch.Device, code: ch.ObjectCode, stream: ch.Stream, pinned: Any) -> None:
    """A kernel would be given memory that was freed, or be launched on a stream that is gone."""
    kernel, buffer = code.get_kernel("add"), pinned(4)
    buffer.close()
    with pytest.raises(ValueError, match=r"argument 0: .*Buffer has been closed"):
        ch.launch(stream, ONE_BLOCK, kernel, buffer, 1)
    closed = device.create_stream()
    closed.close()
    with pytest.raises(ValueError, match="Stream has been closed"):
        ch.launch(closed, ONE_BLOCK, kernel, pinned(4), 1)
    ch.launch(stream, ONE_BLOCK, kernel, pinned(4), 1)
    stream.sync()


def test_an_error_of_an_argument_is_not_hidden(code: ch.ObjectCode, stream: ch.Stream) -> None:
    """An error in somebody's array would be replaced by ours."""

    class Failing:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise LookupError("not now")

    with pytest.raises(LookupError, match="not now"):
        ch.launch(stream, ONE_BLOCK, code.get_kernel("add"), Failing(), 1)


class Closes:
    """A number that closes a buffer when it is read."""

    def __init__(self, buffer: ch.Buffer) -> None:
        self.buffer = buffer

    def __index__(self) -> int:
        self.buffer.close()
        return 1


def test_argument_that_a_later_one_closes(code: ch.ObjectCode, device: ch.Device, stream: ch.Stream) -> None:
    """The kernel would write to memory that was freed while its arguments were packed (trap 28)."""
    out = device.allocate(4, stream=stream)
    out.fill(0, stream=stream)
    ch.launch(stream, ONE_BLOCK, code.get_kernel("add"), out, Closes(out))
    assert out.is_closed
    stream.sync()
    with pytest.raises(ch.ClosedError, match="argument 0: "):
        ch.launch(stream, ONE_BLOCK, code.get_kernel("add"), out, 1)


@pytest.mark.parametrize("wrapped", [False, True], ids=["Buffer", "array"])
@pytest.mark.parametrize("current", [0, 1])
def test_memory_of_another_device(
    device: ch.Device, other_device: ch.Device, code: ch.ObjectCode, stream: ch.Stream, wrapped: bool, current: int
) -> None:
    """A kernel would be given memory that it cannot reach, or refused what it can, by what is current (trap 29)."""
    mine, theirs = (d.allocate(64, stream=d.create_stream()) for d in (device, other_device))
    kernel, make = code.get_kernel("add"), CudaArray if wrapped else lambda buffer: buffer
    device.sync()
    (device, other_device)[current].set_current()
    for launch in (ch.launch, lambda stream, config, kernel, *args: kernel.prepare(stream, config, *args)()):
        with pytest.raises(ch.CUDAError, match=r"CCH_EMISMATCH .* is memory of device 1") as caught:
            launch(stream, ONE_BLOCK, kernel, make(theirs), 1)
        assert "is given to a launch on device 0: copy it there" in caught.value.hint
        launch(stream, ONE_BLOCK, kernel, make(mine), 1)
    assert ch.Device().device_id == current
    stream.sync()
    device.set_current()


@pytest.mark.parametrize("wrapped", [False, True], ids=["Buffer", "array"])
def test_memory_of_another_device_on_a_default_stream(
    device: ch.Device, other_device: ch.Device, code: ch.ObjectCode, wrapped: bool
) -> None:
    """A launch on a default stream, which is the current device's, would be given memory that it cannot reach."""
    mine, theirs = (d.allocate(64, stream=d.create_stream()) for d in (device, other_device))
    kernel, make = code.get_kernel("add"), CudaArray if wrapped else lambda buffer: buffer
    device.sync()
    for stream in (ch.LEGACY_DEFAULT_STREAM, ch.PER_THREAD_DEFAULT_STREAM):
        for launch in (ch.launch, lambda stream, config, kernel, *args: kernel.prepare(stream, config, *args)()):
            with pytest.raises(ch.CUDAError, match=r"CCH_EMISMATCH .* is memory of device 1"):
                launch(stream, ONE_BLOCK, kernel, make(theirs), 1)
            launch(stream, ONE_BLOCK, kernel, make(mine), 1)
        stream.sync()


@pytest.mark.parametrize("wrapped", [False, True], ids=["Buffer", "array"])
def test_memory_that_a_device_was_given_access_to(
    device: ch.Device, other_device: ch.Device, code: ch.ObjectCode, stream: ch.Stream, wrapped: bool
) -> None:
    """Memory of another device would be refused although the kernel can reach it."""
    if not device.can_access_peer(other_device):
        pytest.skip("needs two devices that can reach each other's memory")
    resource = ch.DeviceMemoryResource(other_device, ch.DeviceMemoryResourceOptions())
    there = other_device.create_stream()
    buffer = resource.allocate(64, stream=there)
    kernel = code.get_kernel("add")
    argument = CudaArray(buffer) if wrapped else buffer
    with pytest.raises(ch.CUDAError, match="CCH_EMISMATCH"):
        ch.launch(stream, ONE_BLOCK, kernel, argument, 1)
    resource.peer_accessible_by = [device]
    there.sync()
    ch.launch(stream, ONE_BLOCK, kernel, argument, 1)
    stream.sync()
    resource.peer_accessible_by = []
    with pytest.raises(ch.CUDAError, match="CCH_EMISMATCH"):
        ch.launch(stream, ONE_BLOCK, kernel, argument, 1)
    buffer.close()
    resource.close()


def test_pinned_memory_on_any_device(
    other_device: ch.Device, device: ch.Device, make_code: Any, pinned: Any, code: ch.ObjectCode
) -> None:
    """Host memory that was allocated for one device would be refused on another."""
    if other_device.arch != device.arch:
        pytest.skip("needs two devices of one architecture")
    out, there = pinned(4), other_device.create_stream()
    for argument in (out, CudaArray(out)):
        ch.launch(there, ONE_BLOCK, code.get_kernel("add"), argument, 2)
    there.sync()
    assert bytes(out.__buffer__()) == struct.pack("=i", 4)


@pytest.mark.parametrize(
    ("stream", "config", "kernel", "message"),
    [
        (None, ONE_BLOCK, "kernel", "stream is required and must not be None: a Stream is needed, or an object"),
        (0, ONE_BLOCK, "kernel", "Stream or GraphBuilder expected, got int: a Stream is needed"),
        ("stream", None, "kernel", "config must be a LaunchConfig, not NoneType"),
        ("stream", {"grid": 1, "block": 1}, "kernel", "config must be a LaunchConfig, not dict"),
        ("stream", ONE_BLOCK, "code", r"kernel must be a Kernel, not ObjectCode; ObjectCode\.get_kernel\(\) gives one"),
        ("stream", ONE_BLOCK, None, "kernel must be a Kernel, not NoneType"),
        ("kernel", ONE_BLOCK, "stream", "a Stream is needed"),
    ],
)
def test_wrong_types(
    code: ch.ObjectCode, device: ch.Device, stream: Any, config: Any, kernel: Any, message: str
) -> None:
    """A launch with arguments in another order would crash or say nothing that helps."""
    good = {"kernel": code.get_kernel("nothing"), "code": code, "stream": device.create_stream()}
    stream, kernel = (good.get(name, name) if isinstance(name, str) else name for name in (stream, kernel))
    with pytest.raises(TypeError, match=message):
        ch.launch(stream, config, kernel)
    ch.launch(good["stream"], ONE_BLOCK, good["kernel"])
    good["stream"].sync()


# ---- where it runs


@pytest.mark.parametrize("asked", ["never", "here"])
def test_from_a_thread_without_a_context(
    code: ch.ObjectCode, stream: ch.Stream, pinned: Any, in_new_thread: Any, asked: str
) -> None:
    """A launch on a thread that has no current context would fail, or leave one current."""
    out, kernel = pinned(4), code.get_kernel("add")
    if asked == "here":
        _ = kernel.num_arguments

    def launch() -> None:
        ch.launch(stream, ONE_BLOCK, kernel, out, 3)
        kernel.prepare(stream, ONE_BLOCK, out, 4)()
        with pytest.raises(ch.CUDAError, match="CUDA_ERROR_INVALID_CONTEXT"):
            _ = ch.LEGACY_DEFAULT_STREAM.context

    in_new_thread(launch)
    stream.sync()
    assert struct.unpack("=i", out.__buffer__()) == (7,)


def test_on_the_streams_device(
    device: ch.Device, other_device: ch.Device, code: ch.ObjectCode, stream: ch.Stream, pinned: Any
) -> None:
    """A launch would run on the device that is current, or leave the stream's current (trap 26)."""
    out = pinned(4)
    other_device.set_current()
    ch.launch(stream, ONE_BLOCK, code.get_kernel("add"), out, 3)
    stream.sync()
    assert ch.Device() is other_device
    device.set_current()
    there = other_device.create_stream()
    if other_device.arch == device.arch:
        ch.launch(there, ONE_BLOCK, code.get_kernel("add"), out, 3)
        there.sync()
    assert ch.Device() is device


def test_on_any_stream(code: ch.ObjectCode, stream: ch.Stream, pinned: Any) -> None:
    """A kernel could not be launched on a foreign or a default stream."""

    class Offer:
        def __cuda_stream__(self) -> tuple[int, int]:
            return stream.__cuda_stream__()

    out, kernel = pinned(4), code.get_kernel("add")
    for other in (Offer(), ch.LEGACY_DEFAULT_STREAM, ch.PER_THREAD_DEFAULT_STREAM):
        ch.launch(other, ONE_BLOCK, kernel, out, 1)
        kernel.prepare(other, ONE_BLOCK, out, 1)()
        ch.Device().sync()
    assert struct.unpack("=i", out.__buffer__()) == (6,)


def test_values_of_host_memory_by_kind(
    first_device: ch.Device,
    stream: ch.Stream,
    pinned: Callable[[int], ch.Buffer],
    compile_cuda: Callable[[str, str, str], bytes],
) -> None:
    """np.asarray(3) given to a `double` would arrive as 1.5e-323; 2.0 given to a pointer would be the address 0x2."""
    ptx = compile_cuda(kernel_sources.CUDA, f"sm_{first_device.arch}", "ptx")
    code, out, config = ch.ObjectCode.from_ptx(ptx), pinned(8), ch.LaunchConfig(grid=1, block=1)

    def arrives(kernel: str, value: object) -> bytes:
        ch.launch(stream, config, code.get_kernel(kernel), value, out)
        stream.sync()
        return bytes(out.__buffer__())

    assert arrives("echo_float64", np.asarray(3)) == struct.pack("=d", 3)
    assert arrives("echo_int64", np.int32(-3)) == struct.pack("=q", -3)
    assert arrives("echo_float32", np.float64(0.1))[:4] == struct.pack("=f", 0.1)
    assert arrives("echo_int32", np.array(7))[:4] == struct.pack("=i", 7)
    for wrong in (np.array(5.0), np.array(5), 2.0, True, np.float64(2), np.bool_(True), array.array("d", [1.0])):
        for kernel in ("echo_int64", "echo_pointer"):  # PTX does not say which of them takes a pointer
            with pytest.raises(TypeError, match="argument 0: "):
                arrives(kernel, wrong)
    with pytest.raises(TypeError, match="argument 0: a float cannot fill a parameter of 8 bytes that is a pointer"):
        ch.launch(stream, config, code.get_kernel("add"), 2.0, 1)
