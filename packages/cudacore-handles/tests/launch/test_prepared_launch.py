# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import re
import struct
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from foreign_objects import CudaArray

import cudacore_handles as ch
from threads_at_once import in_threads

ONE_BLOCK = ch.LaunchConfig(grid=1, block=1)


class Array(CudaArray):
    """An array of another library, which keeps a buffer of bytes."""

    def __init__(self, memory: ch.Buffer) -> None:
        super().__init__(memory, "|u1")


@pytest.fixture
def out(pinned: Any) -> ch.Buffer:
    return pinned(4)


@pytest.fixture
def prepared(code: ch.ObjectCode, stream: ch.Stream, out: ch.Buffer) -> ch.PreparedLaunch:
    """Give a launch that adds 1 to `out`."""
    return code.get_kernel("add").prepare(stream, ONE_BLOCK, out, 1)


@pytest.fixture
def total(stream: ch.Stream, out: ch.Buffer) -> Iterator[Callable[[], int]]:
    """Give a function that returns how much launches have added to `out` since its last call."""
    buffer: list[ch.Buffer] = [out]

    def read() -> int:
        stream.sync()
        view = buffer[0].__buffer__()
        (amount,) = struct.unpack("=i", view)
        view[:] = bytes(4)
        return amount

    yield read
    buffer.clear()


# ---- stored and new arguments


def test_stored_and_new_values(prepared: ch.PreparedLaunch, out: ch.Buffer, total: Callable[[], int]) -> None:
    """A call without arguments would launch with other values, or a call with arguments would not store them."""
    prepared()
    assert total() == 1
    for amount in (5, np.int32(-7), 2**31 - 1):
        prepared(out, amount)
        assert total() == amount
        for _ in range(2):
            prepared()
            assert total() == amount


def test_one_new_value(prepared: ch.PreparedLaunch, out: ch.Buffer, total: Callable[[], int]) -> None:
    """Replacing one argument would change another one, or have no effect."""
    prepared[1] = 5
    prepared()
    assert total() == 5
    prepared[0] = out.handle
    prepared[1] = 6
    prepared()
    assert total() == 6
    prepared(out, 7)
    assert total() == 7
    prepared[1] = 8
    prepared()
    assert total() == 8


def test_the_block(prepared: ch.PreparedLaunch, out: ch.Buffer, total: Callable[[], int]) -> None:
    """A program could not write arguments directly into the packed block of a prepared launch."""
    assert isinstance(prepared.block, memoryview)
    assert bytes(prepared.block) == struct.pack("=Qi", out.handle, 1)
    struct.pack_into("=i", prepared.block, 8, 9)
    prepared()
    assert total() == 9
    block = prepared.block
    block[:] = struct.pack("=Qi", out.handle, 10)
    prepared()
    assert total() == 10
    prepared(out, 11)
    assert bytes(block) == struct.pack("=Qi", out.handle, 11)  # the view shows the new arguments
    with pytest.raises(ValueError, match=r"different structures|different size"):
        prepared.block[:] = b"short"


def test_no_arguments(code: ch.ObjectCode, stream: ch.Stream) -> None:
    """A kernel without parameters could not be prepared."""
    prepared = code.get_kernel("nothing").prepare(stream, ONE_BLOCK)
    prepared()
    assert len(prepared) == 0
    assert bytes(prepared.block) == b""
    with pytest.raises(TypeError, match="the kernel takes no arguments but 1 was given"):
        prepared(1)
    prepared()
    stream.sync()


def test_many_arguments(make_code: Any, stream: ch.Stream, pinned: Any) -> None:
    """A block that is larger than usual would be cut off."""
    count = 400
    parameters = ", ".join(f"long long a{i}" for i in range(count))
    terms = " + ".join(f"a{i}" for i in range(count))
    code = make_code(f'extern "C" __global__ void sum({parameters}, long long *out) {{ *out = {terms}; }}')
    out = pinned(8)
    prepared = code.get_kernel("sum").prepare(stream, ONE_BLOCK, *range(count), out)
    for values in (range(count), range(7, count + 7)):
        prepared(*values, out)
        stream.sync()
        expected = struct.pack(f"={count + 1}Q", *values, out.handle)
        assert bytes(prepared.block) == expected
        assert struct.unpack("=q", out.__buffer__()) == (sum(values),)


def test_length_and_repr(prepared: ch.PreparedLaunch) -> None:
    """The repr of a prepared launch would not describe it."""
    assert len(prepared) == 2
    shown = re.fullmatch("<PreparedLaunch of <Kernel handle=0x[0-9a-f]+ name=add> with (.*)>", repr(prepared))
    assert shown
    assert shown[1] == repr(ONE_BLOCK)


# ---- invalid arguments


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda p: p(1), TypeError, "takes 2 arguments .* but 1 was given"),
        (lambda p: p(1, 2, 3), TypeError, "takes 2 arguments .* but 3 were given"),
        (lambda p: p(1, 2**32), OverflowError, "argument 1"),
        (lambda p: p("x", 5), TypeError, "argument 0: cannot pass a 'str'"),
        (lambda p: p(0, None), TypeError, "argument 1: None is a null pointer"),
        (lambda p: p(0, np.int64(2**40)), (TypeError, OverflowError), "argument 1: "),
        (lambda p: p(amount=1), TypeError, "keyword"),
        (lambda p: p.__setitem__(2, 1), IndexError, "argument 2 is out of range: the kernel takes 2 arguments"),
        (lambda p: p.__setitem__(-1, 1), IndexError, "argument -1 is out of range"),
        (lambda p: p.__setitem__(2**70, 1), IndexError, "cannot fit"),
        (lambda p: p.__setitem__("1", 1), TypeError, "str"),
        (lambda p: p.__setitem__(1, 2**32), OverflowError, "argument 1"),
        (lambda p: p.__setitem__(0, "x"), TypeError, "argument 0: cannot pass a 'str'"),
        (lambda p: p.__delitem__(0), TypeError, "doesn't support item deletion|replaced, but not deleted"),
    ],
)
def test_an_error_leaves_the_old_values(
    prepared: ch.PreparedLaunch, total: Callable[[], int], use: Any, error: Any, message: str
) -> None:
    """Arguments that do not fit would be ignored, stored in part, or written beyond the block."""
    before = bytes(prepared.block)
    with pytest.raises(error, match=message):
        use(prepared)
    assert bytes(prepared.block) == before
    prepared()
    assert total() == 1


def test_weak_references(prepared: ch.PreparedLaunch, code: ch.ObjectCode, stream: ch.Stream) -> None:
    """A cache could not hold weak references to prepared launches, as it can to buffers and kernels."""
    other = code.get_kernel("nothing").prepare(stream, ch.LaunchConfig(grid=1, block=1))
    ended: list[str] = []
    reference, watched = weakref.ref(other, lambda _: ended.append("it")), weakref.ref(prepared)
    assert (reference(), watched()) == (other, prepared)
    del other
    gc.collect()
    assert (reference(), watched(), ended) == (None, prepared, ["it"])


def test_bad_launches_cannot_be_prepared(code: ch.ObjectCode, stream: ch.Stream) -> None:
    """An invalid launch could be prepared, and would fail only when it is called."""
    kernel = code.get_kernel("nothing")
    closed = ch.Device().create_stream()
    closed.close()
    with pytest.raises(ValueError, match="Stream has been closed"):
        kernel.prepare(closed, ONE_BLOCK)
    with pytest.raises(TypeError, match="a Stream is needed"):
        kernel.prepare(None, ONE_BLOCK)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="config must be a LaunchConfig, not dict"):
        kernel.prepare(stream, {"grid": 1})  # type: ignore[arg-type]
    kernel.prepare(stream, ONE_BLOCK)()
    stream.sync()


# ---- the objects that a prepared launch keeps alive


def test_it_keeps_its_stream_and_kernel(device: ch.Device, make_code: Any, out: ch.Buffer) -> None:
    """A prepared launch would use a destroyed stream or kernel."""
    stream, code = device.create_stream(), make_code('extern "C" __global__ void set(int *out) { *out = 3; }')
    prepared = code.get_kernel("set").prepare(stream, ONE_BLOCK, out)
    stream.close()
    del stream, code
    gc.collect()
    prepared()
    device.sync()
    assert struct.unpack("=i", out.__buffer__()) == (3,)


@pytest.mark.parametrize("given_to", ["prepare", "call", "item"])
@pytest.mark.parametrize("replaced_by", ["call", "item"])
def test_it_keeps_its_arguments(
    code: ch.ObjectCode, stream: ch.Stream, out: ch.Buffer, pinned: Any, given_to: str, replaced_by: str
) -> None:
    """A prepared launch would write to freed memory, or keep objects that it no longer uses."""
    before = ch.live_counts()["deviceptr"]
    kernel, array = code.get_kernel("add"), Array(pinned(4))
    gone = weakref.ref(array)
    prepared = kernel.prepare(stream, ONE_BLOCK, array if given_to == "prepare" else out, 1)
    if given_to == "call":
        prepared(array, 1)
    elif given_to == "item":
        prepared[0] = array
    del array
    gc.collect()
    assert gone() is not None
    assert ch.live_counts()["deviceptr"] == before + 1
    prepared()
    stream.sync()
    if replaced_by == "call":
        prepared(out, 1)
    else:
        prepared[0] = out
    gc.collect()
    assert gone() is None
    assert ch.live_counts()["deviceptr"] == before
    stream.sync()


@pytest.mark.parametrize("given_to", ["prepare", "call", "item"])
def test_a_closed_argument_is_refused(
    code: ch.ObjectCode, stream: ch.Stream, out: ch.Buffer, pinned: Any, given_to: str
) -> None:
    """A launch with a closed buffer would write to freed memory, or the closed buffer could not be replaced."""
    kernel, closed = code.get_kernel("add"), pinned(4)
    prepared = kernel.prepare(stream, ONE_BLOCK, closed if given_to == "prepare" else out, 1)
    if given_to == "call":
        prepared(closed, 1)
    elif given_to == "item":
        prepared[0] = closed
    closed.close()
    for _ in range(2):
        with pytest.raises(ch.ClosedError, match="argument 0: Buffer has been closed"):
            prepared()
    with pytest.raises(ch.ClosedError, match="argument 0: Buffer has been closed"):
        prepared(closed, 1)
    prepared[0] = out
    prepared()
    stream.sync()


class Looks(Array):
    """An array whose finalizer reads the block of a prepared launch."""

    prepared: list[ch.PreparedLaunch]
    seen: list[bytes]

    def __del__(self) -> None:
        self.seen.append(bytes(self.prepared[0].block[:8]))


@pytest.mark.parametrize("replaced_by", ["array", "address", "None"])
def test_an_argument_goes_after_the_block_has_another(
    code: ch.ObjectCode, stream: ch.Stream, out: ch.Buffer, pinned: Any, replaced_by: str
) -> None:
    """While an argument is replaced, a launch by another thread would use memory that was just freed."""
    array, seen, launches = Looks(pinned(4)), [], []
    address = array.buffer.handle
    array.seen, array.prepared = seen, launches
    launches.append(code.get_kernel("add").prepare(stream, ONE_BLOCK, array, 1))
    del array
    launches[0][0] = {"array": Array(out), "address": int(out.handle), "None": None}[replaced_by]
    assert len(seen) == 1
    assert seen != [struct.pack("=Q", address)]


class Tensor:
    """An array with DLPack only. A launch must keep two objects: the array and its capsule."""

    def __init__(self, memory: ch.Buffer) -> None:
        self.memory = memory

    def __dlpack__(self, **how: Any) -> Any:
        return self.memory.__dlpack__(**(how | {"stream": None}))

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.memory.__dlpack_device__()


def test_all_that_an_argument_needed_goes(prepared: ch.PreparedLaunch, out: ch.Buffer, pinned: Any) -> None:
    """The memory of a tensor that was replaced by another argument would be kept as long as the launch."""
    before = ch.live_counts()["deviceptr"]
    for _ in range(3):
        prepared[0] = Tensor(pinned(4))
        assert ch.live_counts()["deviceptr"] == before + 1
    prepared[0] = out
    assert ch.live_counts()["deviceptr"] == before


def test_an_error_does_not_change_what_it_keeps(prepared: ch.PreparedLaunch, pinned: Any, stream: ch.Stream) -> None:
    """If new arguments are refused, memory of the old arguments, which the block still points to, would be freed."""
    before = ch.live_counts()["deviceptr"]
    prepared[0] = Array(pinned(4))
    with pytest.raises(OverflowError):
        prepared(None, 2**32)
    with pytest.raises(TypeError):
        prepared[0] = "x"
    gc.collect()
    assert ch.live_counts()["deviceptr"] == before + 1
    prepared()
    stream.sync()


def test_a_cycle_is_collected(code: ch.ObjectCode, stream: ch.Stream, out: ch.Buffer) -> None:
    """If an argument refers to the prepared launch, the launch, its stream and its code would never be freed."""
    before = ch.live_counts()
    kernel, array = code.get_kernel("add"), Array(out)
    gone = weakref.ref(array)
    array.prepared = kernel.prepare(stream, ONE_BLOCK, array, 1)  # type: ignore[attr-defined]
    array.prepared()  # type: ignore[attr-defined]
    stream.sync()
    del array, kernel
    gc.collect()
    assert gone() is None
    assert ch.live_counts()["kernel"] == before["kernel"]


def test_a_view_of_the_block_outlives_it(prepared: ch.PreparedLaunch) -> None:
    """Writing to the block of a destroyed prepared launch would crash."""
    block = prepared.block
    del prepared
    gc.collect()
    block[:] = bytes(len(block))


def test_from_many_threads(prepared: ch.PreparedLaunch, out: ch.Buffer, stream: ch.Stream) -> None:
    """Using a prepared launch on several threads at once, which is not allowed, would crash the process."""

    def launch(_: int) -> None:
        for i in range(200):
            prepared(out, i)
            prepared[1] = i
            prepared()

    in_threads(launch, range(4))
    stream.sync()
