# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import cudacore_handles as ch


def test_properties(device: ch.Device, other_device: ch.Device) -> None:
    """A context would report another device, or be a green one."""
    assert device.context.device is device
    assert other_device.context.device is other_device
    assert device.context.is_green is False
    assert device.context != other_device.context
    assert repr(other_device.context) == f"<Context handle={int(other_device.context.handle):#x} device=1>"
    with device.context as closed:
        pass
    assert closed.handle is None
    assert device.create_stream().context == device.context


def test_create_stream(device: ch.Device, other_device: ch.Device) -> None:
    """create_stream() would create the stream in the current context instead of this one, or ignore the options."""
    stream = other_device.context.create_stream(ch.StreamOptions(nonblocking=False))
    assert stream.context == other_device.context
    assert stream.device is other_device
    assert not stream.is_nonblocking
    assert ch.Device() is device


def test_the_primary_context_lives_as_long_as_an_object_of_it(run_on_sim: Any) -> None:
    """A primary context would be released while a stream, an event or memory of it is alive, or never."""
    run_on_sim("""
        import gc
        import cudacore_handles as ch
        from cudacore_handles._driver.device import _memory_resources as memory_resources

        device = ch.Device(0)
        made = [device.create_stream(), device.create_event(), device.context]
        made.append(device.allocate(64, stream=made[0]))
        device.set_current(device.context)
        made += [device.set_current(device.context), ch.LEGACY_DEFAULT_STREAM.context]
        made.append(ch.LEGACY_DEFAULT_STREAM.record())
        made.append(device.allocate(64, stream=ch.LEGACY_DEFAULT_STREAM))
        # The device's own hold, which otherwise lasts as long as the process.
        device._primary = None
        memory_resources.clear()
        while made:
            gc.collect()
            assert sim.live()["context"] == 1, made
            made.pop()
        gc.collect()
        assert sim.live()["context"] == 0
        assert set(ch.live_counts().values()) == {0}
        # And again from the beginning.
        assert device.create_stream().device is device
    """)


def test_first_use_can_fail(run_on_sim: Any) -> None:
    """After one failure, a device could never get a context, or the context would leak."""
    run_on_sim("""
        import pytest
        import cudacore_handles as ch

        for name in ("cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"):
            sim.fail(name, 1, 2)
            with pytest.raises(ch.CUDAError, match=f"^{name}: CUDA_ERROR_OUT_OF_MEMORY"):
                ch.Device(0).set_current()
        ch.Device(0).set_current()
        ch.Device(0).create_stream().sync()
        assert ch.live_counts()["context"] == sim.live()["context"] == 1
    """)


def test_a_context_that_is_not_primary(device: ch.Device, in_new_thread: Any) -> None:
    """The device would not use another context that a thread makes current, or would use it on other threads."""
    from cuda.bindings import driver

    arguments = (None, 0, 0) if driver.CUDA_VERSION >= 13000 else (0, 0)
    status, raw = driver.cuCtxCreate(*arguments)  # makes the new context current
    assert int(status) == 0
    status, foreign = driver.cuStreamCreate(0)
    assert int(status) == 0
    context = ch.Stream.from_handle(int(foreign)).context
    assert context.device is device
    assert int(context.handle) == int(raw)
    device.set_current()
    primary = device.context

    assert device.set_current(context) == primary
    assert device.context == context
    for made in (device.create_stream(), device.create_event(), device.default_stream):
        assert made.context == context
    assert in_new_thread(lambda: device.create_stream().context) == primary
    device.set_current()
    assert device.create_stream().context == device.context == primary
    del made
    assert int(driver.cuStreamDestroy(foreign)[0]) == 0
    assert int(driver.cuCtxDestroy(raw)[0]) == 0
