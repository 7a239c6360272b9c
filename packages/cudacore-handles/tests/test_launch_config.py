# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from cudacore_handles import LaunchConfig


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (1, (1, 1, 1)),
        ((2,), (2, 1, 1)),
        ((2, 3), (2, 3, 1)),
        ((2, 3, 4), (2, 3, 4)),
        ([2, 3], (2, 3, 1)),
        (np.int64(7), (7, 1, 1)),
        ((np.uint8(2), 3), (2, 3, 1)),
    ],
)
@pytest.mark.parametrize("name", ["grid", "block", "cluster"])
def test_dimensions(name: str, given: Any, meant: tuple[int, int, int]) -> None:
    """An int, a short tuple or a NumPy integer would not mean what it says."""
    config = LaunchConfig(**{"grid": 1, "block": 1, name: given})
    assert getattr(config, name) == meant
    assert all(type(n) is int for n in getattr(config, name))


@pytest.mark.parametrize(
    "limits",
    [
        {"grid": (2**31 - 1, 65535, 65535), "block": 1},
        {"grid": 1, "block": (1024, 1, 1)},
        {"grid": 1, "block": (1, 1024, 1)},
        {"grid": 1, "block": (4, 4, 64)},
        {"grid": 1, "block": 1, "shmem_size": 0},
        {"grid": 1, "block": 1, "shmem_size": 2**31 - 1},
        {"grid": (2**31 - 1) // 8, "cluster": 8, "block": 1},
    ],
)
def test_limits_are_allowed(limits: dict[str, Any]) -> None:
    """A launch that a device can do would be refused."""
    config = LaunchConfig(**limits)
    assert config.grid[0] >= 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, TypeError, "grid is missing"),
        ({"grid": 1}, TypeError, "block is missing"),
        ({"block": 1}, TypeError, "grid is missing"),
        ({"grid": 0, "block": 1}, ValueError, "grid is 0; its x must be from 1 to 2147483647"),
        ({"grid": -1, "block": 1}, ValueError, "grid is -1; its x"),
        ({"grid": 2**31, "block": 1}, ValueError, "grid is 2147483648; its x"),
        ({"grid": (1, 65536), "block": 1}, ValueError, "its y must be from 1 to 65535"),
        ({"grid": (1, 1, 65536), "block": 1}, ValueError, "its z must be from 1 to 65535"),
        ({"grid": (1, 1, 1, 1), "block": 1}, ValueError, "grid has 4 dimensions; give one to three"),
        ({"grid": (), "block": 1}, ValueError, "grid has 0 dimensions"),
        ({"grid": 1.0, "block": 1}, TypeError, "grid must be an int or a tuple of ints; its x is 1.0, a float"),
        ({"grid": "1", "block": 1}, TypeError, "grid must be an int .* a str"),
        ({"grid": True, "block": 1}, TypeError, "grid must be an int .* a bool"),
        ({"grid": (1, None), "block": 1}, TypeError, "its y is None"),
        ({"grid": 1, "block": 0}, ValueError, "block is 0; its x must be from 1 to 1024"),
        ({"grid": 1, "block": 1025}, ValueError, "block is 1025; its x"),
        ({"grid": 1, "block": (1, 1, 65)}, ValueError, "its z must be from 1 to 64"),
        ({"grid": 1, "block": (32, 33)}, ValueError, r"block is \(32, 33\): 1056 threads; a block has at most 1024"),
        ({"grid": 1, "block": 1, "cluster": 0}, ValueError, "cluster is 0"),
        ({"grid": 1, "block": 1, "cluster": "2"}, TypeError, "cluster must be an int"),
        ({"grid": 2**30, "block": 1, "cluster": 4}, ValueError, "grid is 1073741824 clusters of 4 blocks"),
        ({"grid": (1, 65535), "block": 1, "cluster": (1, 2)}, ValueError, "clusters of"),
        ({"grid": 1, "block": 1, "shmem_size": -1}, ValueError, "shmem_size is -1; it must be from 0"),
        ({"grid": 1, "block": 1, "shmem_size": 2**31}, ValueError, "shmem_size is 2147483648"),
        (
            {"grid": 1, "block": 1, "shmem_size": 1.5},
            TypeError,
            "shmem_size must be an int, a number of bytes, not flo",
        ),
        ({"grid": 1, "block": 1, "shmem_size": True}, TypeError, "shmem_size must be an int"),
    ],
)
def test_bad_geometry(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """A geometry that no device has would reach the driver, which only says that a value is invalid."""
    with pytest.raises(error, match=message):
        LaunchConfig(**arguments)


def test_default_options() -> None:
    """A launch would ask for clusters, shared memory or residence that nobody asked for."""
    config = LaunchConfig(grid=1, block=1)
    assert config.cluster is None
    assert config.shmem_size == 0
    assert config.is_cooperative is False
    assert config.programmatic_stream_serialization is False


def test_arguments_come_in_the_order_of_cuda_core() -> None:
    """A program that passes them by position would launch another geometry."""
    config = LaunchConfig((8, 2), (2, 1), (4, 4), 64, True, True)
    assert (config.grid, config.cluster, config.block) == ((8, 2, 1), (2, 1, 1), (4, 4, 1))
    assert (config.shmem_size, config.is_cooperative, config.programmatic_stream_serialization) == (64, True, True)


VARIANTS = [
    LaunchConfig(grid=2, block=3),
    LaunchConfig(grid=3, block=3),
    LaunchConfig(grid=2, block=4),
    LaunchConfig(grid=2, block=3, cluster=1),
    LaunchConfig(grid=2, block=3, shmem_size=8),
    LaunchConfig(grid=2, block=3, is_cooperative=True),
    LaunchConfig(grid=2, block=3, programmatic_stream_serialization=True),
]


@pytest.mark.parametrize("config", VARIANTS, ids=repr)
def test_equality_hash_repr_pickle(config: LaunchConfig) -> None:
    """A config would get lost as a dictionary's key, or change on its way to another process."""
    same = eval(repr(config), {"LaunchConfig": LaunchConfig})
    for twin in (same, pickle.loads(pickle.dumps(config)), copy.deepcopy(config)):
        assert twin == config
        assert hash(twin) == hash(config)
    assert [other for other in VARIANTS if other == config] == [config]
    assert config != "LaunchConfig"


@pytest.mark.parametrize(
    "name", ["grid", "block", "cluster", "shmem_size", "is_cooperative", "programmatic_stream_serialization"]
)
def test_a_config_cannot_be_changed(name: str) -> None:
    """A config that is a dictionary's key, or checked already, would become another one."""
    config = LaunchConfig(grid=1, block=1)
    with pytest.raises(AttributeError):
        setattr(config, name, 2)
    assert config == LaunchConfig(grid=1, block=1)


def test_every_option_reaches_the_driver(run_on_fake: Any) -> None:
    """Cluster dimensions, the cooperative flag or another attribute of a launch would be lost on the way (trap 15)."""
    run_on_fake("""
        from cudacore_handles import Device, LaunchConfig, ObjectCode, launch
        from kernel_sources import PTX

        device = Device(0)
        device.set_current()
        stream = device.create_stream()
        kernel = ObjectCode.from_ptx(PTX).get_kernel("nothing")

        def launched(**options):
            launch(stream, LaunchConfig(**options), kernel)
            prepared = kernel.prepare(stream, LaunchConfig(**options))
            seen = fakecuda.last_launch()
            prepared()
            assert fakecuda.last_launch() == seen
            return seen

        seen = launched(grid=(2, 3, 4), block=(5, 6, 7), shmem_size=48 * 1024)
        assert seen.stream == stream.__cuda_stream__()[1]
        assert (seen.grid, seen.block, seen.shared_bytes) == ((2, 3, 4), (5, 6, 7), 48 * 1024)
        assert (seen.cluster, seen.cooperative, seen.programmatic) == ((0, 0, 0), False, False)

        # The driver counts blocks where a config with clusters counts clusters.
        seen = launched(grid=(2, 3), cluster=(4, 1, 2), block=8)
        assert (seen.grid, seen.cluster, seen.block) == ((8, 3, 2), (4, 1, 2), (8, 1, 1))
        seen = launched(grid=2, block=1, is_cooperative=True)
        assert (seen.cooperative, seen.programmatic, seen.cluster) == (True, False, (0, 0, 0))
        seen = launched(grid=2, block=1, programmatic_stream_serialization=True)
        assert (seen.cooperative, seen.programmatic, seen.cluster) == (False, True, (0, 0, 0))
        seen = launched(grid=1, cluster=2, block=1, is_cooperative=True, programmatic_stream_serialization=True)
        assert (seen.cooperative, seen.programmatic, seen.cluster) == (True, True, (2, 1, 1))
    """)
