# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import pickle
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch
from cudacore_handles._driver import device as device_module

# ---- selecting a device


def test_one_object_a_device(device: ch.Device) -> None:
    """One device would have two objects, which could have different memory resources."""
    assert ch.Device(0) is device
    assert ch.Device(np.int64(0)) is device
    assert ch.Device(device) is device
    assert ch.Device(device_id=0) is device


def test_default_is_the_current_device(device: ch.Device, other_device: ch.Device) -> None:
    """Device() would not be the device that is current."""
    assert ch.Device() is device
    other_device.set_current()
    assert ch.Device() is other_device


def test_default_without_a_current_device(device: ch.Device, in_new_thread: Any) -> None:
    """Device() would fail on a thread that has no current context yet."""
    assert in_new_thread(ch.Device) is device


def test_all_devices(device: ch.Device) -> None:
    """The list of all devices would be incomplete, or in the wrong order."""
    devices = ch.Device.get_all_devices()
    assert isinstance(devices, tuple)
    assert [d.device_id for d in devices] == list(range(len(devices)))
    assert devices[0] is device


@pytest.mark.parametrize(
    ("ordinal", "error", "message"),
    [
        (-1, ValueError, "device_id must be >= 0, got -1: this machine has [0-9]+ device"),
        (1000, ValueError, r"device_id must be within \[0, [0-9]+\), got 1000: this machine has [0-9]+ device"),
        (2**40, ValueError, "got 1099511627776: this"),
        ("0", TypeError, "device_id must be an int or a Device, not str"),
        (0.0, TypeError, "device_id must be an int or a Device, not float"),
        (False, TypeError, "device_id must be an int or a Device, not bool"),
        ([0], TypeError, "device_id must be an int or a Device, not list"),
    ],
)
def test_bad_ordinal(device: ch.Device, ordinal: Any, error: type[Exception], message: str) -> None:
    """A wrong device would be used, or the error would only report an invalid device."""
    with pytest.raises(error, match=message):
        ch.Device(ordinal)
    assert ch.Device() is device


# ---- identity


def test_equality_hash_int(device: ch.Device, other_device: ch.Device) -> None:
    """Devices could not be found as keys of a dictionary, or different devices would be equal."""
    assert device == ch.Device(0)
    assert device != other_device
    assert device != 0
    assert len({device, ch.Device(0), other_device}) == 2
    assert (int(device), int(other_device)) == (0, 1)
    assert device.device_id == 0


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
def test_pickle_and_copy(device: ch.Device, other_device: ch.Device, duplicate: Callable[[Any], Any]) -> None:
    """A device could not be sent to a worker process, or would arrive as another device."""
    assert duplicate(device) is device
    assert duplicate(other_device) is other_device


def test_names(device: ch.Device) -> None:
    """Names, UUIDs or PCI addresses of devices would be wrong, or have another format than CUDA's."""
    from cuda.bindings import driver

    status, name = driver.cuDeviceGetName(256, 0)
    assert int(status) == 0
    assert device.name == name.split(b"\0")[0].decode()
    assert repr(device) == f"<Device 0 ({device.name})>"
    assert re.fullmatch(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", device.uuid)
    assert re.fullmatch(r"[0-9A-Fa-f]{4,}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]", device.pci_bus_id)
    assert len({d.uuid for d in ch.Device.get_all_devices()}) == len(ch.Device.get_all_devices())


def test_architecture(device: ch.Device) -> None:
    """Code would be compiled for another architecture than the device has."""
    capability = device.compute_capability
    assert capability == (capability.major, capability.minor)
    assert capability.major >= 5
    assert device.arch == f"{capability.major}{capability.minor}"
    assert device.properties.compute_capability_major == capability.major


def test_properties(device: ch.Device) -> None:
    """The limits of a device would be missing, or be queried again for each new object."""
    assert device.properties is device.properties
    assert isinstance(device.properties, ch.DeviceProperties)
    assert device.properties.max_threads_per_block == 1024
    assert device.properties.warp_size == 32


def test_a_device_reaches_itself(device: ch.Device) -> None:
    """can_access_peer() would return False for a device and itself."""
    assert device.can_access_peer(device) is True
    assert device.can_access_peer(device.device_id) is True


def test_peer_access(device: ch.Device, other_device: ch.Device) -> None:
    """can_access_peer() would return different results for a Device and for its ordinal."""
    assert device.can_access_peer(1) is device.can_access_peer(other_device)


# ---- the current context


def test_current_is_a_threads_own(device: ch.Device, other_device: ch.Device, in_new_thread: Any) -> None:
    """A thread that makes a device current would change the current device of other threads."""
    in_new_thread(other_device.set_current)
    assert ch.Device() is device


def test_set_current(device: ch.Device, other_device: ch.Device, in_new_thread: Any) -> None:
    """A device would not become current, or set_current() would return something else than the previous context."""
    before = device.context
    for context, previous in ((None, None), (before, other_device.context)):
        assert other_device.set_current(other_device.context) == before
        assert ch.Device() is other_device
        assert device.set_current(context) == previous
        assert ch.Device() is device
    assert other_device.set_current() is None
    assert ch.Device() is other_device
    assert in_new_thread(lambda: device.set_current(device.context)) is None  # the thread had none


def test_set_current_with_a_wrong_context(device: ch.Device, other_device: ch.Device) -> None:
    """A context of another device, a closed context, or an object that is not a context would become current."""
    with pytest.raises(ValueError, match="ctx is a context of device 1, not of device 0"):
        device.set_current(other_device.context)
    with pytest.raises(TypeError, match="ctx must be a Context, not int"):
        device.set_current(1)  # type: ignore[arg-type]
    context = device.context
    context.close()
    with pytest.raises(ValueError, match="Context has been closed"):
        device.set_current(context)
    assert ch.Device() is device


@pytest.mark.parametrize("current", ["other device", "none"])
@pytest.mark.parametrize(
    "act",
    [
        lambda d: d.create_stream(),
        lambda d: d.create_stream(options=ch.StreamOptions(priority=0)),
        lambda d: d.create_event(),
        lambda d: d.context,
        lambda d: d.context.create_stream(),
        lambda d: d.allocate(256, stream=d.create_stream()),
        lambda d: d.sync(),
        lambda d: d.memory_resource,
        lambda d: d.arch,
        lambda d: ch.DeviceMemoryResource(d),
    ],
)
def test_acts_on_its_own_device(
    request: pytest.FixtureRequest, device: ch.Device, in_new_thread: Any, act: Callable[[ch.Device], Any], current: str
) -> None:
    """A method would act on the current device instead of its own, or would change the current device."""

    other_device = request.getfixturevalue("other_device") if current == "other device" else None

    def check() -> None:
        if other_device:
            other_device.set_current()
        before = ch.Device()
        made = act(device)
        if hasattr(made, "device"):
            assert made.device is device
        elif hasattr(made, "device_id"):
            assert made.device_id == 0
        assert ch.Device() is before
        if current == "none":  # the thread still has no current context, so a default stream fails
            with pytest.raises(ch.CUDAError, match="CUDA_ERROR_INVALID_CONTEXT"):
                _ = ch.LEGACY_DEFAULT_STREAM.context

    in_new_thread(check)


# ---- objects that a device creates


def test_the_memory_resource_is_the_devices_own_pool(device: ch.Device) -> None:
    """Memory would be from another device, or from a new pool each time."""
    resource = device.memory_resource
    assert device.memory_resource is resource
    assert isinstance(resource, ch.DeviceMemoryResource)
    assert resource.device_id == 0
    assert not resource.is_handle_owned


@pytest.fixture
def memory_resource(device: ch.Device) -> Iterator[ch.MemoryResource]:
    before = device.memory_resource
    yield before
    device.memory_resource = before


def test_the_memory_resource_can_be_set(
    device: ch.Device, stream: ch.Stream, memory_resource: ch.MemoryResource
) -> None:
    """A program could not set its own allocator, or could set an invalid one."""
    pinned = ch.LegacyPinnedMemoryResource()
    device.memory_resource = pinned
    assert device.memory_resource is pinned
    assert device.allocate(16, stream=stream).memory_resource is pinned
    with pytest.raises(TypeError, match="memory_resource must be a MemoryResource, not dict"):
        device.memory_resource = {}  # type: ignore[assignment]
    assert device.memory_resource is pinned


def test_the_memory_resource_is_set_while_the_default_is_made(
    device: ch.Device, memory_resource: ch.MemoryResource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default would replace the resource that another thread has set meanwhile."""
    pinned, make = ch.LegacyPinnedMemoryResource(), device_module._upper["make_memory_resource"]

    def make_late(device: ch.Device) -> ch.MemoryResource:
        device.memory_resource = pinned
        return make(device)  # type: ignore[no-any-return]

    monkeypatch.setitem(device_module._upper, "make_memory_resource", make_late)
    monkeypatch.delitem(device_module._memory_resources, device.device_id)
    assert device.memory_resource is pinned
    assert device.memory_resource is pinned


def test_the_memory_resource_is_not_of_another_device(
    device: ch.Device, other_device: ch.Device, memory_resource: ch.MemoryResource
) -> None:
    """A device would allocate memory that its kernels cannot access."""
    with pytest.raises(ValueError, match=f"whose memory is of device {other_device.device_id}, not of "):
        device.memory_resource = other_device.memory_resource
    assert device.memory_resource is memory_resource


@pytest.mark.parametrize("name", ["compute_capability", "properties", "resources", "uuid"])
def test_constants_are_made_once(device: ch.Device, name: str) -> None:
    """A program that reads a constant of a device in a loop would call the driver each time."""
    assert getattr(device, name) is getattr(device, name)


def test_default_stream(device: ch.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default stream would not be the one that the environment selects."""
    name = "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM"
    for value, stream in [
        (None, ch.LEGACY_DEFAULT_STREAM),
        ("", ch.LEGACY_DEFAULT_STREAM),
        ("0", ch.LEGACY_DEFAULT_STREAM),
        ("1", ch.PER_THREAD_DEFAULT_STREAM),
    ]:
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
        assert device.default_stream is stream
        assert ch.default_stream() is stream


def test_create_stream_with_a_foreign_stream(device: ch.Device, other_device: ch.Device) -> None:
    """A stream of another device would be accepted, or options would be ignored."""
    theirs = other_device.create_stream()
    assert other_device.create_stream(theirs) == theirs
    with pytest.raises(ValueError, match="obj is a stream of device 1, not of device 0"):
        device.create_stream(theirs)
    with pytest.raises(ValueError, match="obj and options cannot be both specified"):
        other_device.create_stream(theirs, ch.StreamOptions())
    with pytest.raises(TypeError, match=r"obj must have __cuda_stream__; int has none$"):
        device.create_stream(1)  # type: ignore[arg-type]
    for options in (ch.StreamOptions(), {"priority": 0}):
        name = type(options).__name__
        with pytest.raises(TypeError, match=rf"obj must .*; {name} has none; write options={name}\(\.\.\.\)"):
            device.create_stream(options)  # type: ignore[arg-type]


def test_work_is_waited_for(device: ch.Device, stream: ch.Stream) -> None:
    """sync() would return while work is in progress."""
    buffer = device.allocate(1 << 20, stream=stream)
    buffer.fill(1, stream=stream)
    event = stream.record()
    device.sync()
    assert event.is_done


def test_graph_builders_are_in_another_package(run_on_driver: Callable[..., str]) -> None:
    """The error for a graph builder would not name the package that is missing."""
    code = """
        import sys
        sys.modules["cudacore_graph"] = None  # as if cudacore-graph were not installed
        import cudacore_handles as ch
        device = ch.Device()
        device.set_current()
        for owner in (device, device.create_stream()):
            try:
                owner.create_graph_builder()
            except ImportError as error:
                print("pip install cudacore-graph" in str(error))
    """
    assert run_on_driver(code).split() == ["True", "True"]


def test_devices_live_on(device: ch.Device) -> None:
    """When a program drops its last reference to a Device, the object and its memory resource would be destroyed."""
    resource = weakref.ref(ch.Device(0).memory_resource)
    del device
    assert resource() is ch.Device(0).memory_resource
