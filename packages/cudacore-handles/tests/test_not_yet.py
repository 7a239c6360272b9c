# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

import cudacore_handles as ch

COMING = [
    (ch.Context, "resources"),
    (ch.Stream, "resources"),
    (ch.Event, "ipc_descriptor"),
    (ch.Event, "from_ipc_descriptor"),
    (ch.Buffer, "ipc_descriptor"),
    (ch.Buffer, "from_ipc_descriptor"),
    (ch.DeviceMemoryResource, "allocation_handle"),
    (ch.DeviceMemoryResource, "from_allocation_handle"),
    (ch.DeviceMemoryResource, "from_registry"),
    (ch.DeviceMemoryResource, "register"),
    (ch.PinnedMemoryResource, "allocation_handle"),
    (ch.PinnedMemoryResource, "from_allocation_handle"),
    (ch.PinnedMemoryResource, "from_registry"),
    (ch.PinnedMemoryResource, "register"),
]


@pytest.mark.parametrize(("cls", "name"), COMING)
def test_of_the_class(cls: type, name: str) -> None:
    """What cuda.core has and we have not would be taken for misspelt, or for there."""
    assert not hasattr(cls, name)
    with pytest.raises(AttributeError, match=rf"^{cls.__name__} does not have '{name}' yet \(cuda.core 1.2 has it\)$"):
        getattr(cls, name)


def test_of_objects(device: ch.Device, stream: ch.Stream) -> None:
    """The same of objects: getattr() with a default would raise."""
    objects: list[Any] = [device.context, stream, stream.record(), device.allocate(8, stream=stream)]
    objects.append(device.memory_resource)
    for made in objects:
        for cls, name in COMING:
            if type(made) is cls:
                assert getattr(made, name, "absent") == "absent"


def test_a_pool_is_not_pickled(device: ch.Device) -> None:
    """A pool that cannot reach another process would fail with the name of a private class."""
    import copy
    import pickle

    resource = ch.DeviceMemoryResource(device)
    for make in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="a DeviceMemoryResource cannot be pickled: sharing memory between"):
            make(resource)
    with pytest.raises(TypeError, match="ptr must be an int, the memory's address, not bytes"):
        resource.deallocate(b"x", 8, stream=device.default_stream)  # type: ignore[arg-type]
