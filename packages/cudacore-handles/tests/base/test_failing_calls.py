# SPDX-License-Identifier: Apache-2.0
"""Makes every driver call of every operation on devices, streams, events and kernels fail once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
from kernel_sources import PTX

import cudacore_handles as ch
import cudacore_handles.texture as ct
from cudacore_handles._memory.resource import _SynchronousMemoryResource
from failing_calls import ON_THE_WAY, Operation, fail_each, nothing

pytestmark = pytest.mark.cuda_sim

ONE = ch.LaunchConfig(grid=1, block=1)
TIMED = ch.EventOptions(timing_enabled=True)
LEGACY = ch.LEGACY_DEFAULT_STREAM
# Queries whose result is useful but not needed.
NOT_NEEDED = ("cuKernelGetLibrary", "cuThreadExchangeStreamCaptureMode", "cuGetErrorName", "cuGetErrorString")


class Foreign:
    """A stream that other code made."""

    def __init__(self, driver: Any) -> None:
        out = ctypes.c_void_p()
        assert driver.cuStreamCreateWithPriority(ctypes.byref(out), 1, 0) == 0
        self.raw = out.value

    def __cuda_stream__(self) -> tuple[int, int | None]:
        return (0, self.raw)


class World:
    """The objects of an operation. Each operation leaves them unchanged."""

    def __init__(self, device: ch.Device, driver: Any) -> None:
        self.device = device
        self.stream = device.create_stream()
        self.event = self.stream.record()
        self.code = ch.ObjectCode.from_ptx(PTX)
        self.foreign = Foreign(driver)
        self.a, self.b = (device.allocate(64, stream=self.stream) for _ in "ab")

    def state(self) -> tuple[object, ...]:
        """Return what an operation must leave unchanged, after the objects were used."""
        kernel = self.code.get_kernel("add")
        ch.launch(self.stream, ONE, kernel, self.a, 1)
        self.stream.record(self.event)
        self.event.sync()
        return ch.Device().device_id, self.stream.priority, self.event.is_done, kernel


OPERATIONS: dict[str, Operation] = {}


def operation(name: str, do: Callable[[World, Any], Any], begin: Callable[[World], Any] = nothing) -> None:
    OPERATIONS[name] = Operation(name, do, begin=begin, quiet=NOT_NEEDED)


operation("Device", lambda w, _: ch.Device())
operation("Device.get_all_devices", lambda w, _: ch.Device.get_all_devices())
operation("Device.set_current", lambda w, _: w.device.set_current())
operation("Device.set_current(context)", lambda w, context: w.device.set_current(context), lambda w: w.device.context)
operation("Device.compute_capability", lambda w, _: w.device.compute_capability)
operation("Device.sync", lambda w, _: w.device.sync())
operation("Device.create_stream", lambda w, _: w.device.create_stream())
operation("Device.create_stream(priority)", lambda w, _: w.device.create_stream(options=ch.StreamOptions(priority=-1)))
operation("Device.create_stream(foreign)", lambda w, _: w.device.create_stream(w.foreign))  # type: ignore[arg-type]
operation("Device.create_event", lambda w, _: w.device.create_event())
operation("Device.allocate", lambda w, _: w.device.allocate(64, stream=w.stream))
operation("Device.allocate(default stream)", lambda w, _: w.device.allocate(64, stream=LEGACY))
operation("Context.create_stream", lambda w, context: context.create_stream(), lambda w: w.device.context)
operation("Stream.from_handle", lambda w, _: ch.Stream.from_handle(w.foreign.raw))  # type: ignore[arg-type]
operation("Stream.sync", lambda w, _: w.stream.sync())
operation("Stream.record", lambda w, _: w.stream.record())
operation("Stream.record(event)", lambda w, _: w.stream.record(w.event))
operation("Stream.record(default stream)", lambda w, _: LEGACY.record())
operation("Stream.wait(event)", lambda w, _: w.stream.wait(w.event))
operation("Stream.wait(stream)", lambda w, other: w.stream.wait(other), lambda w: w.device.create_stream())
operation("Stream.wait(default stream)", lambda w, _: w.stream.wait(LEGACY))
operation("Stream.wait(foreign)", lambda w, _: w.stream.wait(w.foreign))  # type: ignore[arg-type]
operation("Stream.is_nonblocking", lambda w, _: w.stream.is_nonblocking)
operation("Stream.priority", lambda w, _: w.stream.priority)
operation("Stream.context(default stream)", lambda w, _: LEGACY.context)
operation("Event.sync", lambda w, _: w.event.sync())
operation("Event.is_done", lambda w, _: w.event.is_done)
operation("Event.__sub__", lambda w, ab: ab[1] - ab[0], lambda w: [w.stream.record(options=TIMED) for _ in "ab"])
operation("DeviceMemoryResource", lambda w, _: ch.DeviceMemoryResource(0))
operation("DeviceMemoryResource(options)", lambda w, _: ch.DeviceMemoryResource(0, ch.DeviceMemoryResourceOptions()))
operation("LegacyPinnedMemoryResource.allocate", lambda w, _: ch.LegacyPinnedMemoryResource().allocate(64))
operation(
    "LegacyPinnedMemoryResource.allocate(stream)",
    lambda w, _: ch.LegacyPinnedMemoryResource().allocate(64, stream=w.stream),
)
operation("device memory without pools", lambda w, _: _SynchronousMemoryResource(0).allocate(64))
operation("Buffer.from_handle", lambda w, _: ch.Buffer.from_handle(4096, 64))
operation("Buffer.from_handle(foreign stream)", lambda w, _: ch.Buffer.from_handle(4096, 64, stream=w.foreign))  # type: ignore[arg-type]
operation("Buffer.copy_to", lambda w, _: w.a.copy_to(w.b, stream=w.stream))
operation("Buffer.copy_to(new)", lambda w, _: w.a.copy_to(stream=w.stream))
operation("Buffer.copy_from", lambda w, _: w.a.copy_from(w.b, stream=w.stream))
for size in (1, 2, 4):
    operation(f"Buffer.fill({size} bytes)", lambda w, _, size=size: w.a.fill(b"abcd"[:size], stream=w.stream))  # type: ignore[misc]
operation("ObjectCode.get_kernel", lambda w, _: ch.ObjectCode.from_ptx(PTX).get_kernel("add"))
operation("ObjectCode.get_kernel(loaded)", lambda w, _: w.code.get_kernel("add"))
operation(
    "Kernel.from_handle", lambda w, raw: ch.Kernel.from_handle(raw), lambda w: int(w.code.get_kernel("add").handle)
)
operation("Kernel.arguments_info(current context)", lambda w, _: w.code.get_kernel("add").arguments_info)
operation("launch", lambda w, _: ch.launch(w.stream, ONE, w.code.get_kernel("add"), w.a, 1))
operation("launch(default stream)", lambda w, _: ch.launch(LEGACY, ONE, w.code.get_kernel("add"), w.a, 1))
operation("Kernel.prepare", lambda w, _: w.code.get_kernel("add").prepare(w.stream, ONE, w.a, 1))
operation(
    "PreparedLaunch",
    lambda w, prepared: prepared(w.a, 2),
    lambda w: w.code.get_kernel("add").prepare(w.stream, ONE, w.a, 1),
)


def use_green_context(w: World, _: Any) -> None:
    context = w.device.create_context({"resources": w.device.resources.sm.split({"count": 16})[0]})
    context.create_stream().record()


name = "Device.create_context"
OPERATIONS[name] = Operation(name, use_green_context, quiet=(*NOT_NEEDED, *ON_THE_WAY))


def of_interface(w: World, stream: Any, given: Any) -> Any:
    """Make a view of an array of another library, and order the streams."""
    fields = {"shape": (16,), "typestr": "<f4", "data": (w.a.handle, False), "version": 3, "stream": stream}
    array = type("Array", (), {"__cuda_array_interface__": fields})()
    return ch.StridedMemoryView.from_cuda_array_interface(array, given)


for ahead in (1, 2):
    operation(f"a view, {ahead} waits for a stream", lambda w, _, n=ahead: of_interface(w, int(w.stream.handle), n))
    operation(f"a view, a stream waits for {ahead}", lambda w, _, n=ahead: of_interface(w, n, w.stream))
operation("a view, 1 waits for 2", lambda w, _: of_interface(w, 2, 1))

ARRAY = ct.OpaqueArrayOptions((8, 4), "float32", num_channels=1, is_surface_load_store=True)
LEVELS = ct.MipmappedArrayOptions((8, 4), "float32", num_channels=1, num_levels=2)


def resource(w: World) -> ct.ResourceDescriptor:
    return ct.ResourceDescriptor.from_opaque_array(w.device.create_opaque_array(ARRAY))


operation("Device.create_opaque_array", lambda w, _: w.device.create_opaque_array(ARRAY))
operation("Device.create_mipmapped_array", lambda w, _: w.device.create_mipmapped_array(LEVELS))
operation(
    "MipmappedArray.get_level", lambda w, array: array.get_level(1), lambda w: w.device.create_mipmapped_array(LEVELS)
)
operation(
    "Device.create_texture_object",
    lambda w, r: w.device.create_texture_object(resource=r, options=ct.TextureObjectOptions()),
    resource,
)
operation("Device.create_surface_object", lambda w, r: w.device.create_surface_object(resource=r), resource)
operation("Kernel.attributes(current context)", lambda w, _: w.code.get_kernel("add").attributes.num_regs)
operation("Kernel.attributes[device]", lambda w, _: w.code.get_kernel("add").attributes[w.device].num_regs)
operation("Device.can_access_peer", lambda w, _: w.device.can_access_peer(1))
operation("Context.resources", lambda w, _: w.device.context.resources.sm)


# Every operation runs while the context of its device is current. Operations that do not depend on the current context
# also run while another device's context is current, and without a current context.
ABOUT_CURRENT = ("set_current", "current context", "default stream")
CASES = [(name, "own") for name in OPERATIONS]
CASES += [
    (name, current)
    for current in ("another device's", "none")
    for name in OPERATIONS
    if not any(phrase in name for phrase in ABOUT_CURRENT)
]


def can_be_lost(calls: list[str], place: int, *, switches: bool) -> bool:
    """Return whether a failed call may leave the operation a success: it cleans up, or restores the context."""
    name, rest = calls[place], [later for later in calls[place + 1 :] if later != "cuCtxGetId"]
    if name == "cuCtxGetCurrent":
        return set(rest) <= {"cuCtxGetCurrent"} or rest[0].startswith("cuEventDestroy")
    return switches and name == "cuCtxSetCurrent" and calls[:place].count(name) % 2 == 1


@pytest.mark.parametrize(("name", "current"), CASES)
def test_every_driver_call_can_fail(
    device: ch.Device, second_device: ch.Device, cuda_sim: Any, name: str, current: str
) -> None:
    """If a driver call fails, the failure would be ignored or misnamed, or an object would leak or become unusable."""
    driver = cuda_sim.load()
    _ = second_device.memory_resource  # made at first use, and then kept
    world = World(device, driver)

    def lost(calls: list[str], place: int) -> bool:
        # without cuCtxSynchronize, Device.sync() waits in another way
        if name == "Device.sync" and calls[place] != "cuCtxSynchronize":
            return True
        return can_be_lost(calls, place, switches=current != "own")

    here = {"own": device, "another device's": second_device, "none": None}[current]
    try:
        fail_each(OPERATIONS[name], world, cuda_sim, here, lost=lost)
    finally:
        world.stream.sync()
        assert driver.cuStreamDestroy_v2(ctypes.c_void_p(world.foreign.raw)) == 0
