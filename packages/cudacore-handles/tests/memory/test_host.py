# SPDX-License-Identifier: Apache-2.0
"""Host: the locations of memory on the host."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from cudacore_handles import Host
from cudacore_handles._memory.host import location_of, place_of

ALL = [Host(), Host(0), Host(3), Host.numa_current()]


def test_one_object_a_place() -> None:
    """Two objects for one location would exist, and a set could contain both."""
    assert Host() is Host()
    assert Host(3) is Host(numa_id=3)
    assert Host.numa_current() is Host(is_numa_current=True)
    assert len(set(ALL)) == len({hash(host) for host in ALL}) == len(ALL)
    assert [repr(host) for host in ALL] == ["Host()", "Host(numa_id=0)", "Host(numa_id=3)", "Host.numa_current()"]
    assert [(host.numa_id, host.is_numa_current) for host in ALL] == [
        (None, False),
        (0, False),
        (3, False),
        (None, True),
    ]
    assert Host() != 0


@pytest.mark.parametrize("host", ALL, ids=repr)
def test_pickle(host: Host) -> None:
    """A location would become another object when it is pickled or copied."""
    assert pickle.loads(pickle.dumps(host)) is host
    assert copy.deepcopy(host) is host


def test_places(device: Any) -> None:
    """A Device or Host would be converted to the wrong CUmemLocation, or a CUmemLocation to the wrong object."""
    for place in (device, Host(), Host(0), Host.numa_current()):
        assert location_of(*place_of(place, "location")) is place
    assert location_of(0, 0) is None
