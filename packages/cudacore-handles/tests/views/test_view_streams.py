# SPDX-License-Identifier: Apache-2.0
"""Views: the order of streams, and our own exchange API."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import dlpack_producers
import numpy as np
import pytest
from dlpack_producers import CUDA, CUDA_HOST, READ_ONLY, Array, ExchangedArray, Interface, OldArray, collect

import cudacore_handles as ch
from cudacore_handles import Buffer, Device, Stream, StridedMemoryView, _native, live_counts

View = StridedMemoryView

# ---- the order of streams


def test_stream_is_needed_for_device_memory(buffer: Buffer, stream: Stream) -> None:
    """A view of device memory could be made without a stream, and work on it would not wait for the producer."""
    arrays: list[Any] = [
        buffer, buffer.view("float32"), Array(buffer.handle, (4,), device=(CUDA, 0)),
        ExchangedArray(buffer.handle, (4,), device=(CUDA, 0)), Interface(shape=(4,), data=(buffer.handle, False)),
    ]  # fmt: skip
    for array in arrays:
        with pytest.raises(BufferError, match="stream=None is ambiguous"):
            View.from_any_interface(array)
        for given in (-1, stream, int(stream.handle)):
            assert View.from_any_interface(array, given).ptr == buffer.handle


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (-2, ValueError, "stream_ptr is -2"),
        (2**64, ValueError, "stream_ptr is 18446744073709551616"),
        ("x", TypeError, "stream_ptr must be an int|Stream or GraphBuilder expected"),
        (True, TypeError, "stream_ptr must be an int|Stream or GraphBuilder expected"),
    ],
)
def test_bad_streams(given: Any, error: type[Exception], message: str, buffer: Buffer) -> None:
    """An invalid value would be used as the address of a stream."""
    array = Interface(shape=(4,), data=(buffer.handle, False))
    for function, source in ((View.from_dlpack, buffer), (View.from_cuda_array_interface, array)):
        with pytest.raises(error, match=message):
            function(source, given)


def test_a_closed_stream(buffer: Buffer, device: Device) -> None:
    """The address of a destroyed stream would be passed to the producer."""
    stream = device.create_stream()
    stream.close()
    with pytest.raises(ch.ClosedError, match="Stream has been closed"):
        View.from_dlpack(buffer, stream)


def test_producer_is_told_the_stream(buffer: Buffer, stream: Stream) -> None:
    """A producer would not get the consumer's stream, or would get a stream for host memory."""
    for array, given, told in (
        (Array(buffer.handle, (4,), device=(CUDA, 0)), stream, int(stream.handle)),
        (OldArray(buffer.handle, (4,), device=(CUDA, 0)), int(stream.handle), int(stream.handle)),
        (Array(buffer.handle, (4,), device=(CUDA, 0)), -1, -1),
        (Array(buffer.handle, (4,), device=(CUDA, 0)), 0, 1),
        (Array(4096, (4,)), stream, None),
    ):
        View.from_dlpack(array, given)
        assert array.streams == [told]


def waits(function: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Count how often streams wait for other streams during a call."""
    sim = pytest.importorskip("cudacore_sim", reason="needs cudacore-sim")
    before = sim.calls("cuStreamWaitEvent")
    function(*args, **kwargs)
    return int(sim.calls("cuStreamWaitEvent") - before)


@pytest.mark.cuda_sim
def test_consumer_waits(buffer: Buffer, stream: Stream, device: Device, producer_stream: Stream) -> None:
    """Work on an array would begin before the producer's work is done, or would wait needlessly."""
    other = device.create_stream()
    exchanged = ExchangedArray(buffer.handle, (4,), device=(CUDA, 0))
    assert waits(View.from_dlpack, exchanged, other) == 1
    assert waits(View.from_dlpack, exchanged, producer_stream) == 0
    assert waits(View.from_dlpack, exchanged, -1) == 0
    assert waits(View.from_dlpack, ExchangedArray(4096, (4,)), other) == 0

    told = Interface(shape=(4,), data=(buffer.handle, False), stream=int(stream.handle))
    assert waits(View.from_any_interface, told, other) == 1
    assert waits(View.from_any_interface, told, stream) == 0
    assert waits(View.from_any_interface, told, -1) == 0
    assert waits(buffer[:16].copy_from, told, stream=other) == 1
    assert waits(View.from_any_interface, Interface(shape=(4,), data=(buffer.handle, False)), other) == 0

    for ours in (buffer, buffer.view("float32")):
        assert waits(ours.__dlpack__, stream=int(other.handle)) == 1
        assert waits(ours.__dlpack__, stream=int(stream.handle)) == 0
        assert waits(ours.__dlpack__, stream=-1) == 0
        assert waits(ours.__dlpack__) == 1  # the legacy default stream waits
        assert waits(View.from_any_interface, ours, other) == 1

    # for a view of another library's array, the array's producer makes the next consumer wait
    borrowed = View.from_dlpack(exchanged, producer_stream)
    assert waits(borrowed.__dlpack__, stream=int(other.handle)) == 1
    assert waits(borrowed.__dlpack__) == 1  # the legacy default stream waits
    assert waits(borrowed.__dlpack__, stream=-1) == 0
    collect()
    assert exchanged.lent == exchanged.deleted + 1

    # version 2 of the interface names no stream
    exchanged.__cuda_array_interface__ = {**told.__cuda_array_interface__, "version": 2}  # type: ignore[attr-defined]
    assert waits(View.from_cuda_array_interface, exchanged, other) == 1
    assert waits(View.from_cuda_array_interface, exchanged, producer_stream) == 0
    assert waits(View.from_cuda_array_interface, exchanged, -1) == 0
    other.sync()  # the copy, before the buffer is freed


def test_the_stream_of_a_borrowed_array(buffer: Buffer, stream: Stream, producer_stream: Stream) -> None:
    """A consumer would use the array before its producer, which supports only DLPack, has written it."""
    place: Any = {"shape": (4,), "device": (CUDA, 0)}
    array, old = Array(buffer.handle, **place), OldArray(buffer.handle, **place)
    for producer in (array, old):
        view = View.from_dlpack(producer, stream)
        view.__dlpack__()
        assert producer.streams == [int(stream.handle), 1]
        assert view.__cuda_array_interface__["stream"] == 1
        assert producer.streams == [int(stream.handle), 1, 1]
    exchanged = View.from_dlpack(ExchangedArray(buffer.handle, **place), stream)
    assert exchanged.__cuda_array_interface__["stream"] == int(producer_stream.handle)
    assert exchanged.view(exchanged._layout[1:]).__cuda_array_interface__["stream"] == int(producer_stream.handle)
    told = Interface(shape=(4,), data=(buffer.handle, False), stream=int(stream.handle))
    assert View.from_any_interface(told, -1).__cuda_array_interface__["stream"] == int(stream.handle)
    told = Interface(shape=(4,), data=(buffer.handle, False))  # without a stream, there is nothing to wait for
    assert View.from_any_interface(told, -1).__cuda_array_interface__["stream"] is None
    pinned = View.from_dlpack(Array(4096, (4,), device=(CUDA_HOST, 0)), -1)
    pinned.__dlpack__()
    assert pinned.exporting_obj.streams == [None]  # type: ignore[attr-defined]


def test_the_stream_of_a_borrowed_array_in_a_capture(
    buffer: Buffer, stream: Stream, producer_stream: Stream, device: Device
) -> None:
    """A captured stream would be exported, although consumers cannot wait for it."""
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    view = View.from_dlpack(ExchangedArray(buffer.handle, (4,), device=(CUDA, 0)), stream)
    with producer_stream.create_graph_builder():
        assert view.__cuda_array_interface__["stream"] is None


def test_default_streams_are_those_of_the_memorys_device(
    buffer: Buffer, in_new_thread: Callable[[Callable[[], Any]], Any]
) -> None:
    """On a thread without a current context, or with another device's, our memory could not be exported."""

    def take() -> list[Any]:
        taken = [buffer.__dlpack__(), *(buffer.view("int8").__dlpack__(stream=stream) for stream in (1, 2))]
        exchanged = ExchangedArray(buffer.handle, (4,), device=(CUDA, 0))
        told = Interface(shape=(4,), data=(buffer.handle, False), stream=1)
        return [*taken, *(View.from_any_interface(array, 2) for array in (exchanged, told, buffer))]

    assert len(in_new_thread(take)) == 6
    assert len(take()) == 6


def test_streams_of_another_device(buffer: Buffer, device: Device, other_device: Device) -> None:
    """Memory of one device could not be used on a stream of another device, or the current context would change."""
    other_device.set_current()
    stream = other_device.create_stream()
    assert View.from_dlpack(buffer, stream).device_id == 0
    buffer.__dlpack__()
    assert _native.current_device() == 1
    device.set_current()


def test_no_order_with_a_capture(buffer: Buffer, stream: Stream, device: Device) -> None:
    """A consumer's stream would become part of a capture, or the capture would be invalidated."""
    pytest.importorskip("cudacore_graph", reason="needs cudacore-graph")
    other = device.create_stream()
    with stream.create_graph_builder() as builder:
        buffer.fill(0, stream=builder)
        View.from_dlpack(buffer, other)
        assert buffer.__cuda_array_interface__["stream"] is None
    builder.complete().launch(other)
    other.sync()


# ---- our own exchange API


def lend(api: Any, obj: object) -> Any:
    out = ctypes.c_void_p()
    assert dlpack_producers.FROM_OBJECT(api.from_object)(obj, ctypes.byref(out)) == 0
    return dlpack_producers.Versioned.from_address(out.value)


def test_exchange_api(api: Any, buffer: Buffer) -> None:
    """Another library's C code would get wrong addresses, shapes or types for our arrays."""
    assert (api.major, api.minor) == (1, 3)
    view = View.from_buffer(buffer, (2, 3), (6, 2), dtype="int32")
    for obj, shape, strides, dtype, flags in (
        (view, [2, 3], [6, 2], (0, 32, 1), 0),
        (buffer, [64], [1], (0, 8, 1), 0),
    ):
        managed = lend(api, obj)
        for tensor in (managed.tensor, dlpack_producers.Tensor()):
            if not tensor.data:
                read = dlpack_producers.TENSOR_FROM_OBJECT(api.tensor_from_object)
                assert read(obj, ctypes.byref(tensor)) == 0
            assert (tensor.data, tensor.device_type, tensor.device_id) == (buffer.handle, CUDA, 0)
            assert tensor.shape[: tensor.ndim] == shape
            assert tensor.strides[: tensor.ndim] == strides
            assert (tensor.code, tensor.bits, tensor.lanes) == dtype
        assert managed.flags == flags
        dlpack_producers.DELETER(managed.deleter)(ctypes.addressof(managed))
    with pytest.raises(TypeError, match="int is neither a Buffer nor"):
        dlpack_producers.FROM_OBJECT(api.from_object)(3, ctypes.byref(ctypes.c_void_p()))
    with pytest.raises(BufferError, match="no dtype"):
        dlpack_producers.FROM_OBJECT(api.from_object)(
            View.from_buffer(buffer, 4, itemsize=4), ctypes.byref(ctypes.c_void_p())
        )


def test_exchange_api_of_read_only_views(api: Any, buffer: Buffer) -> None:
    """Another library's C code would write to read-only memory, because a DLTensor cannot mark it."""
    view = View.from_buffer(buffer, (2, 3), (6, 2), dtype="int32", is_readonly=True)
    managed = lend(api, view)
    assert managed.flags == READ_ONLY
    dlpack_producers.DELETER(managed.deleter)(ctypes.addressof(managed))
    with pytest.raises(BufferError, match="read-only, which a DLTensor cannot say"):
        dlpack_producers.TENSOR_FROM_OBJECT(api.tensor_from_object)(view, ctypes.byref(dlpack_producers.Tensor()))


def test_exchange_api_keeps_and_gives_back(api: Any, device: Device, stream: Stream) -> None:
    """Memory would be freed while another library's tensor uses it, or leak."""
    live = live_counts()["deviceptr"]
    buffer = device.allocate(64, stream=stream)
    tensors = [lend(api, buffer), lend(api, buffer.view("float32"))]
    buffer.close()
    assert live_counts()["deviceptr"] == live + 1
    to_object = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))(api.to_object)
    views = []
    for tensor in tensors:
        out = ctypes.py_object()
        assert to_object(ctypes.addressof(tensor), ctypes.byref(out)) == 0
        views.append(out.value)
        ctypes.pythonapi.Py_DecRef(out)  # drops the returned reference; `out` has another one
    assert [view.dtype for view in views] == [np.int8, np.float32]
    assert live_counts()["deviceptr"] == live + 1
    views.clear()
    del out
    assert live_counts()["deviceptr"] == live


def test_exchange_api_does_not_allocate(api: Any) -> None:
    """Another library's C code would use memory that was never allocated, or would not know why there is none."""
    set_error = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    kinds = []
    callback = set_error(lambda _, kind, message: kinds.append(kind))
    allocate = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, set_error
    )(api.allocator)
    out = ctypes.c_void_p(1)
    assert allocate(ctypes.addressof(dlpack_producers.Tensor()), ctypes.byref(out), None, callback) == -1
    assert (out.value, kinds) == (None, [b"NotImplementedError"])
