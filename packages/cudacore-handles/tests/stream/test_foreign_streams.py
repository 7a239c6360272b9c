# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import cudacore_handles as ch


class Foreign:
    """Another library's stream, made by cuda.bindings."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        status, self.stream = driver.cuStreamCreateWithPriority(0, 0)
        assert int(status) == 0

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, int(self.stream))

    def destroy(self) -> None:
        from cuda.bindings import driver

        assert [int(status) for status in driver.cuStreamDestroy(self.stream)] == [0]


class Offer:
    """An object whose __cuda_stream__ returns a value."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __cuda_stream__(self) -> Any:
        return self.answer


@pytest.fixture
def foreign(device: ch.Device) -> Any:
    made = Foreign()
    raw = made.stream
    yield made
    del made
    gc.collect()
    from cuda.bindings import driver

    driver.cuStreamDestroy(raw)


def test_its_own_handle_comes_back_as_the_stream_itself(device: ch.Device) -> None:
    """A handle that another library passes back would not keep the stream alive, or lose its properties."""
    stream = device.create_stream(options=ch.StreamOptions(nonblocking=False, priority=-1))
    for twin in (ch.Stream.from_handle(int(stream.handle)), device.create_stream(stream)):
        raw = int(stream.handle)
        stream.close()
        twin.sync()
        assert (int(twin.handle), twin.priority, twin.is_nonblocking) == (raw, -1, False)
        assert twin.context == device.context
        stream = twin


def test_a_foreign_handle_is_borrowed(device: ch.Device, foreign: Foreign) -> None:
    """A foreign stream would be destroyed by us, or not be usable."""
    raw = int(foreign.stream)
    for handle in (raw, foreign.stream):
        stream = ch.Stream.from_handle(handle)
        assert stream.__cuda_stream__() == (0, raw)
        assert stream.device is device
        assert stream.is_nonblocking is False
        stream.close()
    ch.Stream.from_handle(raw).sync()  # the foreign stream still exists


def test_a_foreign_stream_is_kept_exactly_as_long_as_it_is_used(device: ch.Device) -> None:
    """A foreign stream would be destroyed while we use it, or never."""
    owner = Foreign()
    raw, gone = owner.stream, weakref.ref(owner)
    stream = device.create_stream(owner)
    del owner
    gc.collect()
    assert gone() is not None
    buffer = device.allocate(64, stream=stream)  # the free of the buffer is ordered on the foreign stream
    stream.close()
    gc.collect()
    assert gone() is not None
    buffer.close()
    gc.collect()
    assert gone() is None

    from cuda.bindings import driver

    assert [int(status) for status in driver.cuStreamDestroy(raw)] == [0]


def test_who_offers_our_own_stream_is_not_kept(device: ch.Device, stream: ch.Stream) -> None:
    """An object whose __cuda_stream__ returns a stream of this library would be kept as long as the stream."""
    offer = Offer(stream.__cuda_stream__())
    gone = weakref.ref(offer)
    twin = device.create_stream(offer)
    assert twin == stream
    del offer
    assert gone() is None


def test_owners_of_one_foreign_stream_are_kept_each(device: ch.Device, foreign: Foreign) -> None:
    """If two objects return the same foreign stream, only one of them would be kept alive."""
    offers = [Offer(foreign.__cuda_stream__()) for _ in range(2)]
    gone = [weakref.ref(offer) for offer in offers]
    streams = [device.create_stream(offer) for offer in offers]
    assert streams[0] == streams[1]
    del offers
    streams.pop(0)
    assert [reference() is None for reference in gone] == [True, False]
    streams.pop(0)
    assert [reference() is None for reference in gone] == [True, True]


@pytest.mark.parametrize(
    ("handle", "stream"),
    [(0, ch.LEGACY_DEFAULT_STREAM), (1, ch.LEGACY_DEFAULT_STREAM), (2, ch.PER_THREAD_DEFAULT_STREAM)],
)
def test_default_streams_by_handle(device: ch.Device, handle: int, stream: ch.Stream) -> None:
    """Another library's default stream would get a fixed context, or keep its owner forever."""
    offer = Offer((0, handle))
    gone = weakref.ref(offer)
    borrowed = device.create_stream(offer)
    assert borrowed == ch.Stream.from_handle(handle) == stream
    del offer
    assert gone() is None


@pytest.mark.parametrize("handle", ["1", b"1", 1.0, None, object()])
def test_bad_handle(device: ch.Device, handle: Any) -> None:
    """A value that is not an address would be accepted as the handle of a stream."""
    with pytest.raises(TypeError, match="handle must be an int, the stream's address"):
        ch.Stream.from_handle(handle)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((1, 0), "returned version 1; only version 0 is supported"),
        (0, r"must return two ints, \(version, address\), not 0"),
        ((0,), r"must return two ints, .* not \(0,\)"),
        ((0, 1, 2), r"must return two ints, .* not \(0, 1, 2\)"),
        ((0, "x"), "must give an int, the stream's address, not str"),
        ((0, None), "must give an int, the stream's address, not NoneType"),
        (None, "must return two ints, .* not None"),
    ],
)
def test_bad_protocol(device: ch.Device, stream: ch.Stream, answer: Any, message: str) -> None:
    """An object whose __cuda_stream__ is broken would be mistaken for a stream, or not be named in the error."""
    for use in (device.create_stream, stream.wait):
        with pytest.raises(TypeError, match=rf"Offer\.__cuda_stream__\(\) {message}"):
            use(Offer(answer))
    stream.sync()


def test_protocol_as_an_attribute(device: ch.Device, stream: ch.Stream) -> None:
    """An object whose __cuda_stream__ is an attribute, as in early versions, would fail, or would cause no warning."""

    class Old:
        __cuda_stream__ = (0, stream.__cuda_stream__()[1])

    with pytest.warns(DeprecationWarning, match=r"Old\.__cuda_stream__ is an attribute"):
        assert device.create_stream(Old()) == stream  # type: ignore[arg-type]


def test_an_error_of_the_protocol_is_not_hidden(device: ch.Device) -> None:
    """An error in a user's __cuda_stream__ would be replaced by another one."""

    class Failing:
        def __cuda_stream__(self) -> tuple[int, int]:
            raise LookupError("not now")

    with pytest.raises(LookupError, match="not now"):
        device.create_stream(Failing())


def test_waiting_for_a_foreign_stream(device: ch.Device, stream: ch.Stream, foreign: Foreign) -> None:
    """Our work could not be ordered after another library's work, or before it."""
    stream.wait(foreign)
    device.create_stream(foreign).wait(stream)
    stream.sync()


def test_a_foreign_stream_that_cannot_be_had(run_on_sim: Any) -> None:
    """An object whose stream was refused would be kept forever."""
    run_on_sim("""
        import gc, weakref
        import cudacore_handles as ch

        class Offer:
            def __cuda_stream__(self):
                return (0, 4096)

        device = ch.Device(0)
        offer = Offer()
        gone = weakref.ref(offer)
        sim.fail("cuStreamGetCtx", 1, 400)
        try:
            device.create_stream(offer)
        except ch.CUDAError as error:
            assert error.code_name == "CUDA_ERROR_INVALID_HANDLE", error
        del offer
        gc.collect()
        assert gone() is None
    """)
