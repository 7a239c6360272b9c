# SPDX-License-Identifier: Apache-2.0
"""What the objects of all resources have in common: identity, handles for others, and closing."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from closing import check_closing
from cuda.bindings import driver
from kernel_sources import PTX

import cudacore_handles as ch


class Face(NamedTuple):
    """A class of objects: how to make one, another object for its resource, and uses that fail when it is closed."""

    make: Callable[[ch.Device], Any]
    again: Callable[[Any], Any]
    handle: type
    shown: str  # the repr
    uses: dict[str, Callable[[Any, Any], object]]  # with an open object of the same class


def green(device: ch.Device) -> ch.Context:
    (group,), _ = device.resources.sm.split({"count": 16})
    return device.create_context({"resources": [group]})


OF_CONTEXTS: dict[str, Callable[[Any, Any], object]] = {
    "create_stream": lambda face, other: face.create_stream(),
    "create_event": lambda face, other: face.create_event(),
    "resources": lambda face, other: face.resources,
    "device": lambda face, other: face.device,
    "set_current": lambda face, other: ch.Device(0).set_current(face),
}
FACES = {
    "primary context": Face(
        lambda device: device.context,
        lambda face: face.device.context,
        driver.CUcontext,
        "<Context handle={handle:#x} device=0>",
        OF_CONTEXTS,
    ),
    "green context": Face(
        green,
        lambda face: face.create_stream().context,
        driver.CUcontext,
        "<Context handle={handle:#x} device=0>",
        OF_CONTEXTS,
    ),
    "stream": Face(
        lambda device: device.create_stream(),
        lambda face: ch.Stream.from_handle(int(face.handle)),
        driver.CUstream,
        "<Stream handle={handle:#x} context={face.context._raw:#x}>",
        {
            "sync": lambda face, other: face.sync(),
            "record": lambda face, other: face.record(),
            "record an event": lambda face, other: face.record(other.record()),
            "protocol": lambda face, other: face.__cuda_stream__(),
            "wait for an event": lambda face, other: face.wait(other.record()),
            "wait": lambda face, other: face.wait(other),
            "be waited for": lambda face, other: other.wait(face),
            "handle": lambda face, other: face.handle,
            "priority": lambda face, other: face.priority,
            "is_nonblocking": lambda face, other: face.is_nonblocking,
            "context": lambda face, other: face.context,
            "device": lambda face, other: face.device,
            "create_stream": lambda face, other: ch.Device(0).create_stream(face),
            "create_graph_builder": lambda face, other: face.create_graph_builder(),
        },
    ),
    "event": Face(
        lambda device: device.create_stream().record(options={"timing_enabled": True}),
        lambda face: ch.from_capsule(face.__cudacore_handle__()),
        driver.CUevent,
        "<Event handle={handle:#x}>",
        {
            "sync": lambda face, other: face.sync(),
            "is_done": lambda face, other: face.is_done,
            "is_timing_enabled": lambda face, other: face.is_timing_enabled,
            "is_blocking_sync": lambda face, other: face.is_blocking_sync,
            "is_ipc_enabled": lambda face, other: face.is_ipc_enabled,
            "context": lambda face, other: face.context,
            "device": lambda face, other: face.device,
            "handle": lambda face, other: face.handle,
            "end": lambda face, other: face - other,
            "start": lambda face, other: other - face,
            "record": lambda face, other: ch.LEGACY_DEFAULT_STREAM.record(face),
            "wait": lambda face, other: ch.LEGACY_DEFAULT_STREAM.wait(face),
        },
    ),
    "kernel": Face(
        lambda device: ch.ObjectCode.from_ptx(PTX).get_kernel("add"),
        lambda face: ch.Kernel.from_handle(int(face.handle)),
        driver.CUkernel,
        "<Kernel handle={handle:#x} name=add>",
        {"handle": lambda face, other: face.handle, "arguments": lambda face, other: face.attributes.num_regs},
    ),
}
each_face = pytest.mark.parametrize("kind", FACES.values(), ids=FACES)


@each_face
def test_identity(device: ch.Device, kind: Face) -> None:
    """Objects of one resource would be unequal, those of different resources equal, or a number equal to an object."""
    face, other = kind.make(device), green(device) if kind.make(device) == device.context else kind.make(device)
    again = kind.again(face)
    assert face == face == again  # noqa: PLR0124
    assert hash(face) == hash(again)
    assert face not in (other, int(face.handle))
    assert len({face, again, other}) == 2


@each_face
def test_handle_and_repr(device: ch.Device, kind: Face) -> None:
    """cuda.bindings would not accept the handle, or the repr would not show it."""
    face = kind.make(device)
    assert type(face.handle) is kind.handle
    assert repr(face) == kind.shown.format(handle=int(face.handle), face=face)


@each_face
def test_closed(device: ch.Device, kind: Face) -> None:
    """A closed object would be used, closing it would close another object of its resource, or it would be kept."""
    face, other = kind.make(device), kind.make(device)
    again, reference = kind.again(face), weakref.ref(face)
    shown = f"<{type(face).__name__} closed>" if kind.handle is not driver.CUkernel else repr(face)
    check_closing(face, [lambda use=use: use(face, other) for use in kind.uses.values()], shown)  # type: ignore[misc]
    assert face not in (again, other)
    assert not again.is_closed
    assert again.handle == kind.handle(face._raw)
    assert reference() is face
