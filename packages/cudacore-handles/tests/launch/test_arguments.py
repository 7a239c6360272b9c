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

Read = Callable[..., bytes]


class Record(ctypes.Structure):
    """`struct record` of the kernels in kernel_sources.py."""

    _fields_ = (("id", ctypes.c_int), ("weight", ctypes.c_double), ("tag", ctypes.c_char * 3))


RECORD = Record(7, 2.5, b"ab")
RECORD_DTYPE = np.dtype([("id", "i4"), ("weight", "f8"), ("tag", "S3")], align=True)

# Type of the kernel's parameter, value, format of the expected bytes. If a value were packed in another size, it would
# arrive as another value.
SCALARS: list[tuple[str, Any, str]] = [
    ("int8", -128, "b"),
    ("int16", -30000, "h"),
    ("uint16", 60000, "H"),
    ("uint32", 4_000_000_000, "I"),
    ("uint64", 2**63 + 1, "Q"),
    ("float32", 1.1, "f"),
    ("float64", 1.1, "d"),
    ("bool", True, "?"),
    ("complex64", 1.5 - 2.5j, "2f"),
    ("complex128", 0.1 - 0.2j, "2d"),
    ("int64", np.int64(-(2**63)), "q"),
    ("float16", np.float16(0.1), "e"),
    ("bool", np.bool_(True), "?"),
    ("int32", ctypes.c_int32(-70000), "i"),
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


# ---- every kind of argument


@pytest.mark.parametrize(
    ("kind", "value", "form"), SCALARS, ids=lambda v: type(v).__name__ if not isinstance(v, str) else v
)
def test_scalars(read_argument: Read, kind: str, value: Any, form: str) -> None:
    """A kernel would get a wrong number."""
    assert read_argument(f"echo_{kind}", value, struct.calcsize(form)) == struct.pack("=" + form, *numbers(value))


@pytest.mark.parametrize("value", BY_VALUE, ids=lambda v: type(v).__name__)
def test_structs_by_value(read_argument: Read, value: Any) -> None:
    """A kernel would get other bytes than those of the struct."""
    arrived = read_argument("echo_record", value, ctypes.sizeof(Record))
    there = Record.from_buffer_copy(arrived)
    assert (there.id, there.weight, there.tag) == (7, 2.5, b"ab")


def test_subclass_of_a_buffer(read_argument: Read, pinned: Callable[[int], ch.Buffer]) -> None:
    """A buffer of a program's own class would be read as an array, or be refused."""

    class Special(ch.Buffer):
        def __dlpack__(self, **options: Any) -> Any:
            raise AssertionError

    memory = pinned(8)
    special = Special.from_handle(memory.handle, 8, owner=memory)
    assert read_argument("echo_pointer", special, 8) == struct.pack("=Q", memory.handle)


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
        for kernel in ("echo_int64", "echo_pointer"):  # in PTX, both parameters have the same type
            with pytest.raises(TypeError, match="argument 0: "):
                arrives(kernel, wrong)
    with pytest.raises(TypeError, match="argument 0: a float cannot fill a parameter of 8 bytes that is a pointer"):
        ch.launch(stream, config, code.get_kernel("add"), 2.0, 1)
