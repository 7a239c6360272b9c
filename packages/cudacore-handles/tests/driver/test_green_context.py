# SPDX-License-Identifier: Apache-2.0
"""Green contexts: work on a part of a device, with memory and code in common with the primary context."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

import cudacore_handles as ch
from cudacore_handles import ContextOptions, SMResourceOptions
from threads_at_once import in_threads

WHERE = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry where(.param .u64 out)
{
    .reg .u64 %p, %i;
    .reg .u32 %x, %n;
    ld.param.u64 %p, [out];
    mov.u32 %x, %ctaid.x;
    mov.u32 %n, %smid;
    mul.wide.u32 %i, %x, 4;
    add.u64 %p, %p, %i;
    st.global.u32 [%p], %n;
    ret;
}
"""


def make_green(device: ch.Device, count: int = 16) -> ch.Context:
    (group,), _ = device.resources.sm.split(SMResourceOptions(count=count))
    return device.create_context(ContextOptions([group]))


@pytest.fixture
def green(device: ch.Device) -> ch.Context:
    return make_green(device)


def test_what_it_is(device: ch.Device, green: ch.Context) -> None:
    """A green context would be mistaken for the primary one, or have all multiprocessors of the device."""
    assert green.is_green
    assert not device.context.is_green
    assert green != device.context
    assert green.device is device
    assert green.resources.sm.sm_count == 16
    assert device.resources.sm.sm_count > 16


def test_it_is_not_made_current(device: ch.Device) -> None:
    """Creating a green context would change the current context of the thread."""
    before = device.context
    make_green(device)
    assert device.context == before
    assert ch.LEGACY_DEFAULT_STREAM.context == before


def test_several_resources(device: ch.Device) -> None:
    """A context that is created with several resources would get only the first one."""
    groups, rest = device.resources.sm.split(SMResourceOptions(count=[16, 16, 16]))
    assert device.create_context(ContextOptions(groups)).resources.sm.sm_count == 48
    assert device.create_context({"resources": tuple(groups[1:])}).resources.sm.sm_count == 32
    assert device.create_context(ContextOptions([rest])).resources.sm.sm_count == rest.sm_count
    everything = device.resources.sm
    assert device.create_context(ContextOptions([everything])).resources.sm.sm_count == everything.sm_count


def test_streams_and_events(device: ch.Device, green: ch.Context) -> None:
    """A stream or an event would be in another context than the one that created it, or not report its context."""
    stream = green.create_stream()
    assert stream.context == green
    assert stream.context.is_green
    assert stream.device is device
    assert stream.is_nonblocking
    assert stream.resources.sm.sm_count == 16
    assert green.create_stream(ch.StreamOptions(priority=-1)).priority == -1
    assert green.create_stream({"nonblocking": True}).context == green  # type: ignore[arg-type]
    for event in (stream.record(), green.create_event(ch.EventOptions(timing_enabled=True))):
        assert event.context == green
        assert event.device is device
    assert ch.Stream.from_handle(int(stream.handle)).context == green
    with pytest.raises(ValueError, match=r"StreamOptions.nonblocking must not be False: streams of green contexts"):
        green.create_stream(ch.StreamOptions(nonblocking=False))
    with pytest.raises(ValueError, match="priority=-100 is out of range"):
        green.create_stream(ch.StreamOptions(priority=-100))


def test_order_between_contexts(device: ch.Device, green: ch.Context, pinned: Callable[[int], ch.Buffer]) -> None:
    """Streams of green contexts and of primary contexts could not wait for each other."""
    mine, theirs, ordinary = green.create_stream(), make_green(device).create_stream(), device.create_stream()
    buffer = pinned(4)
    for stream in (mine, theirs, ordinary, mine):
        buffer.fill(stream.priority & 1, stream=stream)
        stream.sync()
    for first, second in itertools.permutations((mine, theirs, ordinary), 2):
        second.wait(first)
        second.wait(first.record())
        event = second.context.create_event()
        assert first.record(event) is event  # contexts of a device share events
        second.wait(event)
    options = ch.EventOptions(timing_enabled=True)
    start, end = ordinary.record(options=options), device.create_event(options)
    mine.wait(start)
    mine.record(end)
    end.sync()
    assert end - start >= 0
    for stream in (mine, theirs, ordinary):
        stream.sync()


def test_work_runs_on_its_part(device: ch.Device, green: ch.Context, pinned: Callable[[int], ch.Buffer]) -> None:
    """A kernel would run on multiprocessors outside of its context."""
    blocks = 500
    kernel = ch.ObjectCode.from_ptx(WHERE).get_kernel("where")  # one kernel for both contexts
    buffer = pinned(4 * blocks)
    used = {}
    for context in (green, device.context):
        stream = context.create_stream()
        ch.launch(stream, ch.LaunchConfig(grid=blocks, block=256), kernel, buffer)
        stream.sync()
        used[context.is_green] = set(memoryview(buffer.__buffer__()).cast("B").cast("I"))
    assert 0 < len(used[True]) <= 16
    assert len(used[True]) < len(used[False])


@pytest.mark.parametrize("pooled", [True, False])
def test_memory(device: ch.Device, green: ch.Context, pinned: Callable[[int], ch.Buffer], pooled: bool) -> None:
    """Memory of one context could not be used in the other, or would be freed with the context."""
    stream, ordinary = green.create_stream(), device.create_stream()
    buffer = device.allocate(64, stream=stream) if pooled else pinned(64)
    buffer.fill(7, stream=stream)
    ordinary.wait(stream)
    stream.close()
    green.close()
    out = pinned(64)
    out.copy_from(buffer, stream=ordinary)
    ordinary.sync()
    assert bytes(out.__buffer__()) == bytes([7]) * 64
    buffer.close()


ORDERS = list(itertools.permutations(["context", "stream", "event", "buffer", "resources"]))


def check_use(name: str, thing: Any) -> None:
    """Use a context, stream, event or resource after all other objects of its green context were closed."""
    if name == "context":
        assert thing.create_stream().context == thing
    elif name == "stream":
        thing.sync()
        assert thing.context.is_green
    elif name == "event":
        thing.sync()
    elif name == "resources":
        assert thing.sm.sm_count == 16


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_closed_in_any_order(device: ch.Device, order: tuple[str, ...]) -> None:
    """A green context would be destroyed while objects in it exist, or remain after the last one is closed."""
    import cudacore_sim

    context = make_green(device)
    stream = context.create_stream()
    made: dict[str, Any] = {
        "context": context,
        "stream": stream,
        "event": stream.record(),
        "buffer": device.allocate(16, stream=stream),
        "resources": stream.resources,
    }
    del context, stream
    for i, name in enumerate(order):
        gone = made.pop(name)
        if name != "resources":
            gone.close()
        del gone
        for other in made:
            check_use(other, made[other])
        if cudacore_sim.is_loaded():
            assert any("green" in line for line in cudacore_sim.describe_live()) == (i < 4)


def test_closed(device: ch.Device, green: ch.Context) -> None:
    """A closed green context could be used, or closing it would make its resources unusable."""
    resources = green.resources
    sm = resources.sm
    green.close()
    assert not green.is_green
    assert green.handle is None
    assert sm.sm_count == resources.sm.sm_count == 16  # the resources remain valid
    assert device.create_context(ContextOptions([device.resources.sm])).is_green


def test_in_a_garbage_collection(device: ch.Device) -> None:
    """A green context in a reference cycle would never be destroyed, or be destroyed before its streams."""
    for _ in range(20):
        context = make_green(device)
        cycle: list[Any] = [context, context.create_stream(), context.create_event(), context.resources]
        cycle.append(cycle)
        del context, cycle
    gc.collect()
    assert ch.live_counts()["context"] <= 2


def test_threads(device: ch.Device) -> None:
    """Threads that create, share and drop green contexts would destroy a context twice, or leak a context."""
    shared = make_green(device)

    def work(_: int) -> None:
        for _ in range(10):
            own = make_green(device, 8)
            first, second = own.create_stream(), shared.create_stream()
            own.close()
            first.wait(second)
            second.record().sync()
            buffer = device.allocate(64, stream=first)
            first.close()
            buffer.close()

    in_threads(work, range(8))
    shared.close()


# ---- a green context as the current context


def test_current(device: ch.Device, green: ch.Context, in_new_thread: Any) -> None:
    """A green context that a thread makes current would not be used, or would be used by other threads, or leak."""
    primary = device.context
    try:
        assert device.set_current(green) == primary
        assert device.context == green
        for made in (device.create_stream(), device.create_event(), device.default_stream):
            assert made.context == green
        assert ch.LEGACY_DEFAULT_STREAM.resources.sm.sm_count == 16
        assert device.resources.sm.sm_count > 16
        buffer = device.allocate(16, stream=device.default_stream)
        buffer.fill(1, stream=device.default_stream)
        device.sync()
        buffer.close()
        assert in_new_thread(lambda: device.create_stream().context) == primary
        with pytest.raises(ValueError, match="nonblocking must not be False"):
            device.create_stream(options=ch.StreamOptions(nonblocking=False))
        assert device.set_current(primary) == green
        assert device.create_stream().context == primary
    finally:
        device.set_current()


def test_closed_while_current(device: ch.Device) -> None:
    """A green context would be destroyed while it is current, and every call of the thread would fail."""
    green = make_green(device)
    handle = green.handle
    try:
        device.set_current(green)
        green.close()
        del green
        gc.collect()
        assert device.context.handle == handle
        stream = device.create_stream()
        assert stream.context.is_green
        stream.sync()
        ch.LEGACY_DEFAULT_STREAM.sync()
    finally:
        device.set_current()
    assert not device.create_stream().context.is_green


def test_a_thread_that_ends_with_it_current(device: ch.Device, in_new_thread: Any) -> None:
    """A context that a thread made current would be kept after the thread has ended."""
    before = ch.live_counts()["context"]
    in_new_thread(lambda: device.set_current(make_green(device)))
    gc.collect()
    assert ch.live_counts()["context"] == before


def test_default_streams(device: ch.Device, green: ch.Context) -> None:
    """In a green context, where CUDA has no per-thread default stream, another stream would be used in its place."""
    opened = threading.Event()
    event = device.create_event()  # an event of the primary context
    try:
        device.set_current(green)
        ch.LEGACY_DEFAULT_STREAM.callback(lambda: opened.wait(20) and None)
        ch.LEGACY_DEFAULT_STREAM.record(event)
        assert not event.is_done  # the event waits for the legacy stream of the green context
        opened.set()
        event.sync()
        ch.LEGACY_DEFAULT_STREAM.sync()
        with pytest.raises(ch.CUDAError, match="CUDA_ERROR_INVALID_HANDLE"):
            ch.PER_THREAD_DEFAULT_STREAM.sync()
    finally:
        opened.set()
        device.set_current()


def test_memory_on_the_per_thread_default_stream(device: ch.Device, green: ch.Context) -> None:
    """Memory that is to be freed on a stream which a green context does not have would be leaked."""
    per_thread = ch.PER_THREAD_DEFAULT_STREAM
    pool = ch.DeviceMemoryResource(device, {})
    stream = device.create_stream()
    buffer = pool.allocate(4096, stream=stream)
    uses: list[Callable[[], object]] = [
        lambda: buffer.close(per_thread),
        lambda: buffer.set_deallocation_stream(per_thread),
        lambda: buffer.record_stream(per_thread),
        lambda: pool.allocate(4096, stream=per_thread),
    ]
    device.set_current(green)
    try:
        for use in uses:
            with pytest.raises(ch.CUDAError, match="a green context has no per-thread default stream"):
                use()
    finally:
        device.set_current()
    buffer.close()
    stream.sync()
    assert pool.attributes.used_mem_current == 0


# ---- invalid arguments


def test_bad_resources(device: ch.Device, other_device: ch.Device) -> None:
    """A context would be created with invalid resources, or the error would give no reason."""
    sm = device.resources.sm
    (group,), rest = sm.split(SMResourceOptions(count=16))
    there = other_device.resources.sm.split(SMResourceOptions(count=16))[0][0]
    cases: list[tuple[Any, type[Exception], str]] = [
        (None, TypeError, "ContextOptions.resources must be a sequence of SMResource and WorkqueueResource, not NoneT"),
        (group, TypeError, "ContextOptions.resources must be a sequence of SMResource and WorkqueueResource, not SMRe"),
        ("sm", TypeError, "must be a sequence of SMResource and WorkqueueResource, not str"),
        ([], ValueError, "ContextOptions.resources must not be empty"),
        ([group, 3], TypeError, r"ContextOptions.resources\[1\] must be an SMResource or a WorkqueueResource, not int"),
        ([device.resources], TypeError, r"resources\[0\] must be an SMResource .*, not DeviceResources"),
        ([group, there], ValueError, r"ContextOptions.resources\[1\] is of device 1, not of device 0"),
        ([group, group], ValueError, r"ContextOptions.resources\[1\] is given twice"),
    ]
    for resources, error, message in cases:
        with pytest.raises(error, match=message):
            device.create_context(ContextOptions(resources))
    for empty in (None, 3):
        with pytest.raises((TypeError, ValueError), match=r"options with device resources|ContextOptions"):
            device.create_context(empty)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'resource'"):
        device.create_context({"resource": [group]})
    assert rest.sm_count == sm.sm_count - 16


def test_of_two_splits(run_on_sim: Callable[..., str]) -> None:
    """The error would not say which resources can be combined."""
    run_on_sim(
        r"""
        import pytest
        import cudacore_handles as ch

        device = ch.Device(0)
        device.set_current()
        sm = device.resources.sm
        first, second = (sm.split(ch.SMResourceOptions(count=16))[0][0] for _ in range(2))
        for resources in ([first, second], [first, sm]):
            with pytest.raises(ch.CUDAError, match=r"must be different groups, or the rest, of one call of split\(\)"):
                device.create_context(ch.ContextOptions(resources))
        """,
        CUDACORE_SIM_DRIVER_VERSION="13.1",  # a driver for CUDA 13.0 combines any resources
    )


def test_two_devices(device: ch.Device, other_device: ch.Device) -> None:
    """A green context of one device would be made or used on another device."""
    here, there = make_green(device), make_green(other_device, 8)
    assert (here.device, there.device) == (device, other_device)
    assert device.context == here.device.context
    streams = [here.create_stream(), there.create_stream()]
    streams[0].wait(streams[1])
    streams[1].wait(streams[0].record())
    with pytest.raises(ch.CUDAError, match="the event is of device 0 and the stream of device 1"):
        streams[1].record(here.create_event())
    with pytest.raises(ValueError, match="ctx is a context of device 1, not of device 0"):
        device.set_current(there)
    for stream in streams:
        stream.sync()


# ---- green contexts of other libraries


@pytest.mark.needs_driver("12.5", "streams of green contexts")
def test_a_foreign_one(device: ch.Device) -> None:
    """A green context that another library has made would be mistaken for an ordinary one, or be destroyed by us."""
    from cuda.bindings import driver

    (group,), _ = device.resources.sm.split(SMResourceOptions(count=16))
    ours = device.create_context(ContextOptions([group]))  # another context with the same multiprocessors
    resource = driver.CUdevResource(_ptr=group.handle)
    status, description = driver.cuDevResourceGenerateDesc([resource], 1)
    assert int(status) == 0
    status, raw = driver.cuGreenCtxCreate(description, 0, 1)
    assert int(status) == 0
    status, raw_stream = driver.cuGreenCtxStreamCreate(raw, 1, 0)
    assert int(status) == 0
    stream = ch.Stream.from_handle(int(raw_stream))
    context = stream.context
    assert context.is_green
    assert context != ours
    assert context.resources.sm.sm_count == 16
    ours.create_stream().wait(stream)
    own = context.create_stream()
    assert own.context == context
    with pytest.raises(ValueError, match="nonblocking must not be False"):
        context.create_stream(ch.StreamOptions(nonblocking=False))
    own.record(device.create_event())
    own.close()
    stream.close()
    context.close()
    assert int(driver.cuStreamDestroy(raw_stream)[0]) == 0
    assert int(driver.cuGreenCtxDestroy(raw)[0]) == 0  # succeeds, because our library has not destroyed it


# ---- failures


def test_a_context_that_cannot_be_destroyed(run_python: Any) -> None:
    """The failure of a destructor would be raised by another call, or affect later destructors."""
    result = run_python(
        """
        import cudacore_sim as sim

        sim.load()
        import cudacore_handles as ch

        device = ch.Device(0)
        (group,), _ = device.resources.sm.split({"count": 16})
        context = device.create_context({"resources": [group]})
        stream = context.create_stream()
        with sim.failing("cuGreenCtxDestroy"):
            context.close()
            stream.close()
            assert sim.calls("cuGreenCtxDestroy") == 1
        again = device.create_context({"resources": [group]})
        again.create_stream().sync()
        """,
        CUDACORE_DRIVER="sim",
    )
    assert result.returncode == 0, result.stderr
    assert "cuGreenCtxDestroy failed while an object was being destroyed" in result.stderr


def test_a_driver_without_them(run_on_sim: Any) -> None:
    """On a driver that cannot create streams in green contexts, the error would not name the required version."""
    run_on_sim(
        """
        import pytest
        import cudacore_handles as ch

        device = ch.Device(0)
        (group,), _ = device.resources.sm.split({"count": 16})
        context = device.create_context({"resources": [group]})
        needed = "needs a driver for CUDA 12.5 or newer; the loaded driver is for CUDA 12.4"
        with pytest.raises(ch.CUDAError, match=f"cuGreenCtxStreamCreate.*{needed}"):
            context.create_stream()
        assert not device.context.is_green
        """,
        CUDACORE_SIM_DRIVER_VERSION="12.4",
    )


def test_alive_when_the_process_ends(run_on_sim: Any) -> None:
    """A process that ends with green contexts, one of them current, would crash, hang or print an error."""
    run_on_sim("""
        import cudacore_handles as ch

        device = ch.Device(0)
        (group,), _ = device.resources.sm.split({"count": 16})
        context = device.create_context({"resources": [group]})
        stream = context.create_stream()
        buffer = device.allocate(64, stream=stream)
        device.set_current(context)
        made = device.create_stream(), device.create_event()
    """)
