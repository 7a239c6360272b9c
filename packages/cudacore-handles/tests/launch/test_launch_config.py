# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import gc
import inspect
import pickle
import re
import struct
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudacore_handles as ch
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
    """An int, a short tuple or a NumPy integer would be misinterpreted."""
    config = LaunchConfig(**{"grid": 1, "block": 1, name: given})
    assert getattr(config, name) == meant
    assert all(type(n) is int for n in getattr(config, name))


SMALL: dict[str, Any] = {"grid": 1, "block": 1}


@pytest.mark.parametrize(
    "limits",
    [
        {"grid": (2**31 - 1, 65535, 65535)},
        {"block": (1024, 1, 1)},
        {"block": (1, 1024, 1)},
        {"block": (4, 4, 64)},
        {"shmem_size": 0},
        {"shmem_size": 2**31 - 1},
        {"grid": (2**31 - 1) // 8, "cluster": 8},
        {"priority": -(2**31)},
        {"priority": 2**31 - 1},
    ],
)
def test_limits_are_allowed(limits: dict[str, Any]) -> None:
    """A configuration at the limit of what devices support would be refused."""
    config = LaunchConfig(**SMALL | limits)
    assert config.grid[0] >= 1
    assert all(getattr(config, name) in (value, (value, 1, 1)) for name, value in limits.items())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"grid": None, "block": None}, TypeError, "grid must be an int, or a tuple with up to 3 ints, and is missing"),
        ({"block": None}, TypeError, "LaunchConfig.block must be .* is missing"),
        ({"block": None, "cluster": 32}, TypeError, "block is missing: 32 became cluster.* LaunchConfig.grid=1, bl"),
        ({"grid": None}, TypeError, "LaunchConfig.grid must be an int, or a tuple with up to 3 ints, and is missing"),
        ({"grid": 0}, ValueError, "LaunchConfig.grid value must be >= 1 and <= 2147483647 in x .got 0"),
        ({"grid": -1}, ValueError, "in x .got -1"),
        ({"grid": 2**31}, ValueError, "in x .got 2147483648"),
        ({"grid": (1, 65536)}, ValueError, ">= 1 and <= 65535 in y"),
        ({"grid": (1, 1, 65536)}, ValueError, ">= 1 and <= 65535 in z"),
        ({"grid": (1, 1, 1, 1)}, ValueError, "grid must be an int, or a .* .got 4 dimensions"),
        ({"grid": ()}, ValueError, "got 0 dimensions"),
        ({"grid": 1.0}, TypeError, "^LaunchConfig.grid must be an int, .* .its x is 1.0, a float"),
        ({"grid": "1"}, TypeError, "grid must be an int, .* a str"),
        ({"grid": True}, TypeError, "grid must be an int, .* a bool"),
        ({"grid": (1, None)}, TypeError, "its y is None"),
        ({"grid": np.array([1, 2])}, TypeError, "its x is array.*, a ndarray"),
        ({"block": 0}, ValueError, "LaunchConfig.block value must be >= 1 and <= 2147483647 in x .got 0"),
        ({"block": 2**31}, ValueError, "block value must be .* .got 2147483648"),
        ({"cluster": 0}, ValueError, "LaunchConfig.cluster value must be >= 1"),
        ({"cluster": "2"}, TypeError, "cluster must be an int"),
        ({"grid": 2**30, "cluster": 4}, ValueError, "grid is 1073741824 clusters of 4 blocks"),
        ({"grid": (1, 65535), "cluster": (1, 2)}, ValueError, "clusters of"),
        ({"shmem_size": -1}, ValueError, "shmem_size is -1; it must be from 0"),
        ({"shmem_size": 2**31}, ValueError, "shmem_size is 2147483648"),
        ({"shmem_size": 1.5}, TypeError, "shmem_size must be an int, a number of bytes, not float"),
        ({"shmem_size": True}, TypeError, "shmem_size must be an int"),
        ({"priority": "high"}, TypeError, r"LaunchConfig\.priority must be an int, not str"),
        ({"priority": 2**32}, ValueError, r"LaunchConfig\.priority is 4294967296"),
        ({"priority": 2**64}, ValueError, r"LaunchConfig\.priority is 18446744073709551616"),
        ({"blocks": 1}, TypeError, "'blocks'; did you mean 'block'"),
        ({"x": 1}, TypeError, "'x'; it has grid, cluster, block, shmem_size, is_cooperative, program.*, priority$"),
    ],
)
def test_bad_geometry(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """An impossible geometry would reach the driver, whose error only reports an invalid value."""
    with pytest.raises(error, match=message):
        LaunchConfig(**SMALL | arguments)


@pytest.mark.parametrize("name", ["grid", "".join(["gr", "id"])], ids=["interned", "computed"])
@pytest.mark.parametrize("value", [3, (3, 1), [3], np.int32(3)], ids=repr)
def test_names_and_values_of_all_kinds(name: str, value: Any) -> None:
    """A name that the program has computed, or a value of NumPy, would be refused or misinterpreted."""
    config = LaunchConfig(**{"priority": np.int8(-1), name: value, "block": np.uint16(8), "shmem_size": None})
    assert config == LaunchConfig(3, None, 8, 0, False, False, -1)


def test_arguments_that_are_given_twice() -> None:
    """A program would launch one of two geometries that it gives."""
    with pytest.raises(TypeError, match=r"__init__\(\) got multiple values for argument 'grid'"):
        LaunchConfig(1, grid=2, block=1)  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"__init__\(\) takes from 1 to 8 positional arguments but 9 were given"):
        LaunchConfig(1, None, 1, 0, False, False, -1, 0)  # type: ignore[call-overload]


class Square(LaunchConfig):
    """A configuration with a constructor of its own."""

    def __init__(self, edge: int) -> None:
        super().__init__((edge, edge), block=(16, 16))


class Clustered(LaunchConfig):
    """A configuration that can be called, and that must have clusters."""

    def __new__(cls, grid: int, cluster: int, block: int) -> Any:
        return super().__new__(cls)

    def __call__(self, data: object) -> object:
        return data


class Same(LaunchConfig):
    """A configuration with attributes of its own."""

    note = ""


def test_subclasses() -> None:
    """A class that a program derives could not be constructed, or would have other properties."""
    config = Same((3, 3), block=(16, 16))
    config.note = "mine"
    assert Square(3) == config == LaunchConfig((3, 3), block=(16, 16))
    assert (Square(3).grid, Same.for_elements(5).block, config.note) == ((3, 3, 1), (256, 1, 1), "mine")
    with pytest.raises(ValueError, match=r"in y .got 0"):
        Same((1, 0), block=1)


def test_signatures() -> None:
    """Editors and the documentation would show arguments that do not exist."""
    names = [
        "grid", "cluster", "block", "shmem_size", "is_cooperative", "programmatic_stream_serialization", "priority",
    ]  # fmt: skip
    parameters = inspect.signature(LaunchConfig).parameters
    assert list(parameters) == list(inspect.signature(Same).parameters) == names
    assert str(parameters["block"]) == "block: 'ExtentsType | None' = None"
    assert list(inspect.signature(Square).parameters) == ["edge"]
    assert list(inspect.signature(Clustered).parameters) == ["grid", "cluster", "block"]
    assert list(inspect.signature(Clustered(3, 2, 16)).parameters) == ["data"]


def test_default_options() -> None:
    """A launch would have clusters or shared memory, or be cooperative, without a request."""
    config = LaunchConfig(grid=1, block=1)
    assert config.cluster is None
    assert config.shmem_size == 0
    assert config.is_cooperative is False
    assert config.programmatic_stream_serialization is False
    assert config.priority is None
    assert "priority" not in repr(config)


def test_arguments_come_in_the_order_of_cuda_core() -> None:
    """A program that passes the arguments of LaunchConfig by position would launch another geometry."""
    config = LaunchConfig((8, 2), (2, 1), (4, 4), 64, True, True, -2)
    assert (config.grid, config.cluster, config.block) == ((8, 2, 1), (2, 1, 1), (4, 4, 1))
    assert (config.shmem_size, config.is_cooperative, config.programmatic_stream_serialization) == (64, True, True)
    assert config.priority == -2
    assert LaunchConfig((2, 3, 4), (5, 6, 7), 1).grid == (2, 3, 4)


VARIANTS = [
    LaunchConfig(grid=2, block=3),
    LaunchConfig(grid=3, block=3),
    LaunchConfig(grid=2, block=4),
    LaunchConfig(grid=2, block=3, cluster=1),
    LaunchConfig(grid=2, block=3, shmem_size=8),
    LaunchConfig(grid=2, block=3, is_cooperative=True),
    LaunchConfig(grid=2, block=3, programmatic_stream_serialization=True),
    LaunchConfig(grid=2, block=3, priority=-2),
]


@pytest.mark.parametrize("config", VARIANTS, ids=repr)
def test_equality_hash_repr_pickle(config: LaunchConfig) -> None:
    """A config would not be found again as a dictionary's key, or would differ after it is sent to another process."""
    same = eval(repr(config), {"LaunchConfig": LaunchConfig})
    for twin in (same, pickle.loads(pickle.dumps(config)), copy.deepcopy(config)):
        assert twin == config
        assert not twin != config  # noqa: SIM202  the operator is tested
        assert hash(twin) == hash(config)
    assert [other for other in VARIANTS if other == config] == [config]
    assert config != "LaunchConfig"


def test_weak_references() -> None:
    """A cache with configs as keys could not drop the entry of a config that no longer exists."""
    config = LaunchConfig(grid=1, block=1)
    made = weakref.WeakKeyDictionary({config: "made"})
    assert made[LaunchConfig(grid=1, block=1)] == "made"
    del config
    gc.collect()
    assert not made


@pytest.mark.parametrize(
    "name", ["grid", "block", "cluster", "shmem_size", "is_cooperative", "programmatic_stream_serialization"]
)
def test_a_config_cannot_be_changed(name: str) -> None:
    """A config that is a dictionary's key, or was already checked, would change."""
    config = LaunchConfig(grid=1, block=1)
    with pytest.raises(AttributeError):
        setattr(config, name, 2)
    assert config == LaunchConfig(grid=1, block=1)


def test_every_option_reaches_the_driver(run_on_sim: Any) -> None:
    """Cluster dimensions, the cooperative flag or another attribute of a launch would not reach the driver."""
    run_on_sim("""
        from cudacore_handles import Device, LaunchConfig, ObjectCode, launch
        from kernel_sources import PTX

        device = Device(0)
        device.set_current()
        stream = device.create_stream()
        kernel = ObjectCode.from_ptx(PTX).get_kernel("nothing")

        def launched(**options):
            launch(stream, LaunchConfig(**options), kernel)
            prepared = kernel.prepare(stream, LaunchConfig(**options))
            seen = sim.last_launch()
            prepared()
            assert sim.last_launch() == seen._replace(number=seen.number + 1)
            return seen

        seen = launched(grid=(2, 3, 4), block=(5, 6, 7))
        assert seen.stream == stream.__cuda_stream__()[1]
        assert (seen.grid, seen.block, seen.shared_bytes) == ((2, 3, 4), (5, 6, 7), 0)
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


def test_queries_of_the_limit_of_shared_memory(run_on_sim: Any) -> None:
    """A program whose launches need more memory each time, or alternate between devices, would query it each time."""
    run_on_sim(
        """
        from cudacore_handles import Device, LaunchConfig, ObjectCode, launch
        from kernel_sources import PTX

        kernel = ObjectCode.from_ptx(PTX).get_kernel("nothing")
        streams = [Device(number).context.create_stream() for number in (0, 1, 8)]

        def queries(streams, *sizes):
            before = sim.calls("cuKernelGetAttribute")
            for size in sizes:
                for stream in streams:
                    launch(stream, LaunchConfig(grid=1, block=1, shmem_size=size), kernel)
            return sim.calls("cuKernelGetAttribute") - before

        assert queries(streams[:2], 1) > 0
        assert queries(streams[:2], 2, 1024, 48 * 1024, 1) == 0
        assert queries(streams[:2], 64 * 1024) > 0
        assert queries(streams[:2], 60 * 1024, 64 * 1024) == 0
        # What is known about one device is not used for another one.
        assert queries(streams[2:], 64 * 1024) > 0
        assert queries(streams[:1], 64 * 1024) > 0
        """,
        CUDACORE_SIM_DEVICES="9",
    )


# ---- launches with a configuration


@pytest.fixture
def launch_and_read(code: ch.ObjectCode, stream: ch.Stream, pinned: Any) -> Callable[..., tuple[int, ...]]:
    """Give a function that launches a kernel which writes unsigned numbers, and returns the numbers."""

    def launch(config: LaunchConfig, name: str, count: int, *arguments: object) -> tuple[int, ...]:
        out = pinned(4 * count)
        ch.launch(stream, config, code.get_kernel(name), *arguments, out)
        stream.sync()
        return struct.unpack(f"={count}I", out.__buffer__())

    return launch


def test_geometry(device: ch.Device, launch_and_read: Callable[..., tuple[int, ...]]) -> None:
    """A kernel would run with another geometry than requested."""
    seen = launch_and_read(LaunchConfig(grid=(2, 3, 4), block=(5, 6, 7)), "geometry", 7)
    assert seen[:6] == (2, 3, 4, 5, 6, 7)


def test_clusters(device: ch.Device, launch_and_read: Callable[..., tuple[int, ...]]) -> None:
    """A kernel would run without clusters, or with another number of them."""
    if device.compute_capability < (9, 0):
        pytest.skip(f"sm_{device.arch} has no clusters")
    seen = launch_and_read(LaunchConfig(grid=(3, 2), cluster=(2, 2), block=32), "geometry", 7)
    assert seen == (6, 4, 1, 32, 1, 1, 4)
    seen = launch_and_read(LaunchConfig(grid=3, block=32), "geometry", 7)
    assert seen == (3, 1, 1, 32, 1, 1, 1)


def test_cooperative(device: ch.Device, launch_and_read: Callable[..., tuple[int, ...]], stream: ch.Stream) -> None:
    """The blocks of a cooperative launch would not all be resident, so that they wait for each other forever."""
    blocks = device.properties.multiprocessor_count
    config = LaunchConfig(grid=blocks, block=1, is_cooperative=True)
    arrived = device.allocate(4, stream=stream)
    arrived.fill(0, stream=stream)
    assert launch_and_read(config, "grid_sync", 1, arrived) == (blocks,)


@pytest.mark.parametrize("size", [1, 48 * 1024, 48 * 1024 + 1, 96 * 1024, "most"])
def test_shared_memory(device: ch.Device, code: ch.ObjectCode, stream: ch.Stream, pinned: Any, size: Any) -> None:
    """For more than 48 KiB of shared memory, a program would have to make an extra call."""
    most = device.properties.max_shared_memory_per_block_optin
    size = most if size == "most" else size
    if size > most:
        pytest.skip(f"this device has {most} bytes")
    kernel, out = code.get_kernel("dynamic_shared"), pinned(4)
    config = LaunchConfig(grid=1, block=128, shmem_size=size)
    for launch in (ch.launch, lambda s, c, k, *arguments: k.prepare(s, c, *arguments)()):
        out.__buffer__()[:] = bytes(4)
        launch(stream, config, kernel, out, size)
        stream.sync()
        assert struct.unpack("=I", out.__buffer__()) == (sum(i % 251 for i in range(size)),)


def test_too_much_shared_memory(device: ch.Device, code: ch.ObjectCode, stream: ch.Stream, pinned: Any) -> None:
    """The error would not say how much shared memory a kernel can have."""
    most = device.properties.max_shared_memory_per_block_optin
    kernel, out = code.get_kernel("dynamic_shared"), pinned(4)
    for launch in (ch.launch, lambda s, c, k, *arguments: k.prepare(s, c, *arguments)()):
        with pytest.raises(ValueError, match=f"shmem_size is {most + 1}; .* can have at most {most} bytes"):
            launch(stream, LaunchConfig(grid=1, block=32, shmem_size=most + 1), kernel, out, 1)
        launch(stream, LaunchConfig(grid=1, block=32, shmem_size=1024), kernel, out, 1024)
    stream.sync()


@pytest.mark.parametrize("block", [1025, (1, 1, 65), (32, 33), (2**31 - 1,) * 3])
def test_more_threads_than_any_device_takes(code: ch.ObjectCode, stream: ch.Stream, pinned: Any, block: Any) -> None:
    """For a block that is too large, the error would not be the driver's, or would not name the limit."""
    kernel, out = code.get_kernel("dynamic_shared"), pinned(4)
    config = LaunchConfig(grid=1, block=block)
    message = f"CUDA_ERROR_INVALID_VALUE .*{re.escape(str(config.block))} threads: a block has at most 1024.* 64 in z"
    for launch in (ch.launch, lambda s, c, k, *arguments: k.prepare(s, c, *arguments)()):
        with pytest.raises(ch.CUDAError, match=message):
            launch(stream, config, kernel, out, 1)
    stream.sync()


def test_large_shared_memory_on_two_devices(
    device: ch.Device, other_device: ch.Device, code: ch.ObjectCode, pinned: Any
) -> None:
    """The limit of shared memory would be raised on the first device only, or on the current device only."""
    kernel, size = code.get_kernel("dynamic_shared"), 64 * 1024
    if other_device.arch != device.arch:
        pytest.skip("the devices have different architectures")
    for target in (device, other_device):
        out, stream = pinned(4), target.create_stream()
        ch.launch(stream, LaunchConfig(grid=1, block=128, shmem_size=size), kernel, out, size)
        stream.sync()
        assert struct.unpack("=I", out.__buffer__()) == (sum(i % 251 for i in range(size)),)


@pytest.mark.parametrize("context", ["current", "none"])
def test_too_many_threads(
    device: ch.Device, code: ch.ObjectCode, stream: ch.Stream, pinned: Any, in_new_thread: Any, context: str
) -> None:
    """For a block that is too large for the kernel, the error would only be CUDA_ERROR_INVALID_VALUE."""
    kernel, out = code.get_kernel("small_blocks"), pinned(4)

    def launch() -> None:
        for refused in (
            lambda: ch.launch(stream, LaunchConfig(grid=1, block=(65, 1)), kernel, out),
            kernel.prepare(stream, LaunchConfig(grid=1, block=(65, 1)), out),
        ):
            with pytest.raises(ch.CUDAError, match=r"The block has 65 threads, and .* at most 64 on this device"):
                refused()
        ch.launch(stream, LaunchConfig(grid=1, block=64), kernel, out)

    launch() if context == "current" else in_new_thread(launch)
    stream.sync()
    assert struct.unpack("=I", out.__buffer__()) == (64,)


def test_launch_with_a_priority(code: ch.ObjectCode, stream: ch.Stream) -> None:
    """A launch with a priority would be refused."""
    ch.launch(stream, ch.LaunchConfig(grid=1, block=1, priority=-1), code.get_kernel("nothing"))
    stream.sync()


@pytest.mark.parametrize(("n", "grid"), [(1, 1), (256, 1), (257, 2), (np.int64(1000), 4)])
def test_for_elements(n: Any, grid: int) -> None:
    """The last elements would have no thread, or a block would have no element."""
    assert LaunchConfig.for_elements(n, shmem_size=16) == LaunchConfig(grid=grid, block=256, shmem_size=16)
    assert LaunchConfig.for_elements(n, block=int(n)).grid == (1, 1, 1)


@pytest.mark.parametrize(("arguments", "error"), [((0,), ValueError), ((8, 0), ValueError), ((1.5,), TypeError)])
def test_for_no_elements(arguments: Any, error: type[Exception]) -> None:
    """A grid without blocks would reach the driver, or a number of elements be rounded."""
    with pytest.raises(error, match=r"^n "):
        LaunchConfig.for_elements(*arguments)


@pytest.mark.parametrize(
    ("module", "name", "text"),
    [
        ("cuda.core._launch_config", "LaunchConfig", "cuda.core._launch_config.LaunchConfig: objects of cuda.core and"),
        ("cuda.core", "Device", "cuda.core.Device: objects of cuda.core and cudacore cannot be mixed; import cudacore"),
        ("mine", "LaunchConfig", "mine.LaunchConfig; write"),
        ("mine", "Settings", "Settings; write"),
    ],
)
def test_classes_of_the_same_name(stream: ch.Stream, module: str, name: str, text: str) -> None:
    """The error would be "config must be a LaunchConfig, not LaunchConfig"."""
    config = type(name, (), {"__module__": module})()
    with pytest.raises(TypeError, match=f"config must be a LaunchConfig, not {re.escape(text)}"):
        ch.launch(stream, config, None)


def test_options_of_the_same_name(device: ch.Device) -> None:
    """The error of options would not say that they are of another package."""
    options = type("StreamOptions", (), {"__module__": "cuda.core._stream"})()
    with pytest.raises(TypeError, match=r"not as a cuda\.core\._stream\.StreamOptions: objects of cuda\.core and"):
        device.create_stream(options=options)
