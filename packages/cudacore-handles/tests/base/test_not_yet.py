# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

import cudacore_handles as ch

COMING = [
    (ch.Device, "create_opaque_array"),
    (ch.Device, "create_texture_object"),
]


@pytest.mark.parametrize(("cls", "name"), COMING)
def test_of_the_class(cls: type, name: str) -> None:
    """What cuda.core has and we have not would be taken for misspelt, or for there."""
    assert not hasattr(cls, name)
    with pytest.raises(AttributeError, match=rf"^{cls.__name__} does not have '{name}' yet \(cuda.core 1.2 has it\)$"):
        getattr(cls, name)


def test_of_objects(device: ch.Device) -> None:
    """The same of objects: getattr() with a default would raise."""
    for _, name in COMING:
        assert getattr(device, name, "absent") == "absent"


def test_completion(device: ch.Device) -> None:
    """A prompt would offer what cannot be had, or no longer offer what can."""
    view = ch.StridedMemoryView.from_any_interface(np.zeros(2), stream_ptr=-1)
    assert "allocate" in dir(device)
    assert "create_opaque_array" not in dir(device)
    assert "create_opaque_array" in object.__dir__(device)
    assert "as_tensor_map" in dir(view)


def test_a_pool_is_not_pickled(device: ch.Device) -> None:
    """A pool that cannot reach another process would fail with the name of a private class."""
    import copy
    import pickle

    resource = ch.DeviceMemoryResource(device)
    for make in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="Memory resource is not IPC-enabled: it cannot be pickled; make it with"):
            make(resource)
    with pytest.raises(TypeError, match="ptr must be an int, the memory's address, not bytes"):
        resource.deallocate(b"x", 8, stream=device.default_stream)  # type: ignore[arg-type]
