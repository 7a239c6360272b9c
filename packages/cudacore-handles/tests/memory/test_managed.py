# SPDX-License-Identifier: Apache-2.0
"""Managed memory: advice about its location, moving it, and the warning about access by the host."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import cudacore_handles as ch
from cudacore_handles import Host


@pytest.fixture
def resource(device: ch.Device) -> ch.ManagedMemoryResource:
    # Not the default pool, which other tests use: on rare occasions, the driver showed stale bytes where discarded
    # memory was reused.
    return ch.ManagedMemoryResource(ch.ManagedMemoryResourceOptions())


@pytest.fixture
def buffer(resource: ch.ManagedMemoryResource, stream: ch.Stream) -> ch.ManagedBuffer:
    made = resource.allocate(1 << 16, stream=stream)
    stream.sync()
    return made


@contextmanager
def memory(kind: str, stream: ch.Stream) -> Iterator[ch.ManagedBuffer]:
    """Make memory of a kind. CUDA accepts advice only for memory that is not from a pool."""
    from bindings import call_bindings

    if kind == "foreign":
        address = int(call_bindings("cuMemAllocManaged", 1 << 16, 1))
        yield ch.ManagedBuffer.from_handle(address, 1 << 16, owner=object())
        call_bindings("cuMemFree", address)
        return
    with (ch.ManagedMemoryResource({}) if kind == "pool" else ch.LegacyManagedMemoryResource()).allocate(
        1 << 16, stream=stream
    ) as buffer:
        yield buffer


@pytest.fixture(params=["legacy", "foreign"])
def advised(request: Any, stream: ch.Stream) -> Iterator[ch.ManagedBuffer]:
    with memory(request.param, stream) as made:
        yield made


@pytest.fixture(params=["pool", "legacy", "foreign"])
def managed(request: Any, stream: ch.Stream) -> Iterator[ch.ManagedBuffer]:
    with memory(request.param, stream) as made:
        yield made


# ---- advice about the location of memory


def test_advice_of_a_pool(buffer: ch.ManagedBuffer, device: ch.Device) -> None:
    """The error for advice on a pool's memory, which CUDA does not support, would not name an alternative."""
    for advise in (
        lambda: setattr(buffer, "preferred_location", device),
        lambda: setattr(buffer, "read_mostly", True),
        lambda: buffer.accessed_by.add(device),
    ):
        with pytest.raises(ch.CUDAError, match=r"NOT_SUPPORTED.*for the memory of cuMemAllocManaged \(LegacyManaged"):
            advise()
    assert (buffer.preferred_location, buffer.read_mostly, len(buffer.accessed_by)) == (None, False, 0)


def test_preferred_location(advised: ch.ManagedBuffer, device: ch.Device) -> None:
    """Memory would get another preferred location than requested, or the reported location would be wrong."""
    assert advised.preferred_location is None
    for place in (device, Host(), Host(0), None):
        advised.preferred_location = place
        # On a machine with only one NUMA node, Host(0) is reported as Host().
        assert advised.preferred_location in ((place, Host()) if place is Host(0) else (place,))
    advised.preferred_location = Host.numa_current()
    assert isinstance(advised.preferred_location, Host | None)  # drivers for CUDA 13.0 report None
    advised.preferred_location = None


def test_read_mostly(advised: ch.ManagedBuffer) -> None:
    """The setting `read_mostly` would have no effect, or would not be reported."""
    assert advised.read_mostly is False
    for value in (True, False):
        advised.read_mostly = value
        assert advised.read_mostly is value
    with pytest.raises(TypeError, match="read_mostly must be True or False, not 'x'"):
        advised.read_mostly = "x"  # type: ignore[assignment]


def test_accessed_by(advised: ch.ManagedBuffer, device: ch.Device) -> None:
    """`accessed_by` would differ from the driver's set of locations, or would not behave like a set."""
    places = advised.accessed_by
    assert not places
    assert repr(places) == "AccessedBySetProxy({})"
    places.add(device)
    assert set(advised.accessed_by) == {device}
    places.add(Host())
    assert (set(places), len(places)) == ({device, Host()}, 2)
    assert device in places
    assert 0 not in places
    assert "x" not in places
    places.discard(device)
    places.discard(device)
    places.discard(0)  # type: ignore[arg-type]
    places.discard(Host(0))
    assert list(places) == [Host()]
    advised.accessed_by = [device]
    assert list(places) == [device]
    advised.accessed_by |= {Host()}
    assert places == {device, Host()}
    assert places & {device} == {device}
    advised.accessed_by = set()
    assert not places
    with pytest.raises(KeyError):
        places.remove(device)


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (0, TypeError, "must be a Device or a Host, got int: 0"),
        ("host", TypeError, "got str"),
        (Host(4095), ValueError, "is on NUMA node 4095; this machine has nodes"),
    ],
)
def test_bad_places(
    buffer: ch.ManagedBuffer, stream: ch.Stream, bad: Any, error: type[Exception], message: str
) -> None:
    """An invalid location would reach the driver."""

    def prefer() -> None:
        buffer.preferred_location = bad

    def assign() -> None:
        buffer.accessed_by = [Host(), bad]

    for use in (
        prefer,
        assign,
        lambda: buffer.accessed_by.add(bad),
        lambda: buffer.prefetch(bad, stream=stream),
        lambda: buffer.discard_prefetch(bad, stream=stream),
        lambda: ch.prefetch_batch(stream, [buffer], [bad]),
        lambda: ch.discard_prefetch_batch(stream, [buffer], [bad]),
    ):
        with pytest.raises(error, match=message):
            use()
    assert buffer.preferred_location is None
    assert not buffer.accessed_by  # no element of an invalid set was added


# ---- moving memory


def test_prefetch(managed: ch.ManagedBuffer, device: ch.Device, stream: ch.Stream) -> None:
    """Memory would be moved to a wrong location, lose its contents, or not count as managed memory."""
    assert type(managed) is type(managed[4:]) is ch.ManagedBuffer
    assert (managed.is_managed, managed.is_host_accessible, managed.is_device_accessible) == (True, True, True)
    assert managed.__dlpack_device__() == (13, 0)
    managed.fill(7, stream=stream)
    for place in (Host(), device):
        managed.prefetch(place, stream=stream)
        stream.sync()
        assert managed.last_prefetch_location is place
    ch.prefetch_batch(stream, [ch.Buffer.from_handle(managed.handle, managed.size)], Host())
    stream.sync()
    assert managed.last_prefetch_location is Host()
    view = managed.__buffer__()
    assert (view[0], view[-1]) == (7, 7)
    view.release()


def test_discard(buffer: ch.ManagedBuffer, device: ch.Device, stream: ch.Stream) -> None:
    """Memory that was discarded could not be used again."""
    buffer.fill(1, stream=stream)
    buffer.discard(stream=stream)
    buffer.fill(2, stream=stream)
    buffer.discard_prefetch(device, stream=stream)
    buffer.fill(3, stream=stream)
    stream.sync()
    assert buffer.last_prefetch_location is device
    view = buffer.__buffer__()
    assert view[0] == 3
    view.release()


def test_batches(resource: ch.ManagedMemoryResource, device: ch.Device, stream: ch.Stream) -> None:
    """A buffer in a batch would be moved to a wrong location, or not at all."""
    buffers = [resource.allocate(1 << 16, stream=stream) for _ in range(3)]
    ch.prefetch_batch(stream, buffers, device)
    stream.sync()
    assert [b.last_prefetch_location for b in buffers] == [device] * 3
    ch.prefetch_batch(stream, tuple(buffers), [Host(), device, Host()])
    stream.sync()
    assert [b.last_prefetch_location for b in buffers] == [Host(), device, Host()]
    ch.discard_batch(stream, buffers)
    ch.discard_prefetch_batch(stream, buffers, [device, Host(), device])
    stream.sync()
    assert [b.last_prefetch_location for b in buffers] == [device, Host(), device]


def test_default_streams(resource: ch.ManagedMemoryResource, device: ch.Device, stream: ch.Stream) -> None:
    """For calls that the driver refuses on the legacy default stream, the error would not give the reason."""
    buffers = [resource.allocate(1 << 16, stream=stream) for _ in range(2)]
    stream.sync()
    for on in (ch.LEGACY_DEFAULT_STREAM, ch.PER_THREAD_DEFAULT_STREAM):
        ch.prefetch_batch(on, buffers, [device, Host()])
        on.sync()
        assert [b.last_prefetch_location for b in buffers] == [device, Host()]
    ch.discard_prefetch_batch(ch.PER_THREAD_DEFAULT_STREAM, buffers, device)
    for use in (
        lambda: buffers[0].discard(stream=ch.LEGACY_DEFAULT_STREAM),
        lambda: ch.discard_batch(ch.LEGACY_DEFAULT_STREAM, buffers),
        lambda: ch.discard_prefetch_batch(ch.LEGACY_DEFAULT_STREAM, buffers, device),
    ):
        with pytest.raises(ValueError, match="stream is the legacy default stream, for which CUDA does not do this"):
            use()
    ch.PER_THREAD_DEFAULT_STREAM.sync()


@pytest.mark.cuda_sim
def test_batches_are_one_call(resource: ch.ManagedMemoryResource, device: ch.Device, stream: ch.Stream) -> None:
    """A batch would make one driver call for each buffer, or would fail on a driver without batches."""
    import cudacore_sim as sim

    buffers = [resource.allocate(1 << 16, stream=stream) for _ in range(3)]
    with sim.logging() as made:
        ch.prefetch_batch(stream, buffers, device)
        ch.discard_batch(stream, buffers)
        ch.discard_prefetch_batch(stream, buffers, device)
    assert [call.name for call in made if call.name.startswith("cuMem")] == [
        "cuMemPrefetchBatchAsync",
        "cuMemDiscardBatchAsync",
        "cuMemDiscardAndPrefetchBatchAsync",
    ]


BATCHES: dict[str, Callable[..., None]] = {
    "prefetch_batch": lambda stream, buffers: ch.prefetch_batch(stream, buffers, Host()),
    "discard_batch": ch.discard_batch,
    "discard_prefetch_batch": lambda stream, buffers: ch.discard_prefetch_batch(stream, buffers, Host()),
}


@pytest.mark.parametrize("name", list(BATCHES))
def test_bad_batches(buffer: ch.ManagedBuffer, device: ch.Device, stream: ch.Stream, name: str) -> None:
    """An object that is not a buffer of managed memory would reach the driver, or a part of a batch would be done."""
    batch = BATCHES[name]
    for bad, error, message in (
        ([], ValueError, "empty buffers sequence"),
        (None, TypeError, "buffers must be a sequence of Buffer, got NoneType"),
        (buffer, TypeError, "pass a sequence of Buffers; for a single buffer use the ManagedBuffer instance method"),
        ([buffer, 3], TypeError, "expected Buffer, got int"),
        ([device.allocate(64, stream=stream)], ValueError, "requires a managed-memory allocation"),
    ):
        with pytest.raises(error, match=f"^{name}:? ?{message}"):
            batch(stream, bad)
    if name != "discard_batch":
        call = getattr(ch, name)
        with pytest.raises(ValueError, match=f"{name}: location length 2 does not match targets length 1"):
            call(stream, [buffer], [device, device])
        for bad in ("x", 3, None):
            with pytest.raises(TypeError, match=f"{name}: locations must be"):
                call(stream, [buffer], bad)


def test_empty_buffers(buffer: ch.ManagedBuffer, device: ch.Device, stream: ch.Stream) -> None:
    """A buffer of no bytes would make a batch fail, although copies ignore such a buffer."""
    mr = buffer.memory_resource
    assert mr is not None
    empty = mr.allocate(0, stream=stream)
    assert isinstance(empty, ch.ManagedBuffer)
    ch.prefetch_batch(stream, [empty, buffer, buffer[5:5]], device)
    for batch in BATCHES.values():
        batch(stream, [empty, buffer[5:5]])
        with pytest.raises(ValueError, match="requires a managed-memory allocation"):
            batch(stream, [ch.LegacyPinnedMemoryResource().allocate(0)])
    empty.prefetch(device, stream=stream)
    empty.discard(stream=stream)
    with pytest.raises(ValueError, match="the buffer has 0 bytes; there is no memory to advise"):
        empty.preferred_location = device
    stream.sync()


# ---- the warning about access by the host


def test_subclass() -> None:
    """Buffers of a subclass whose ``__init__`` does not call the base's would have no ``prefetch``."""

    class Named(ch.LegacyManagedMemoryResource):
        def __init__(self, name: str) -> None:
            self.name = name

    with Named("mine").allocate(16) as buffer:
        assert isinstance(buffer, ch.ManagedBuffer)


def test_the_host_must_keep_away(monkeypatch: pytest.MonkeyPatch, device: ch.Device) -> None:
    """No warning would appear before a host access causes a segmentation fault, or a correct program would get one."""
    ch.reset_concurrent_access_warning()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ch.ManagedMemoryResource()

    monkeypatch.setitem(vars(device.properties), "concurrent_managed_access", False)
    with pytest.warns(UserWarning, match="cannot use managed memory at the same time as the host") as seen:
        ch.ManagedMemoryResource()
    assert seen[0].filename == __file__
    with warnings.catch_warnings():  # the warning is shown only once
        warnings.simplefilter("error")
        ch.ManagedMemoryResource()
    ch.reset_concurrent_access_warning()
    with pytest.warns(UserWarning, match="cannot use managed memory"):
        ch.ManagedMemoryResource({})
    ch.reset_concurrent_access_warning()
