# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any

import ipc_children as children
import pytest

import cudacore_handles as ch


@pytest.fixture
def buffer(device: ch.Device, stream: ch.Stream) -> ch.Buffer:
    """Give 64 bytes of device memory, with the values 0 to 63."""
    made = device.allocate(64, stream=stream)
    source = ch.LegacyPinnedMemoryResource().allocate(64)
    source.__buffer__()[:] = bytes(range(64))
    made.copy_from(source, stream=stream)
    stream.sync()
    return made


@pytest.fixture
def resource(device: ch.Device) -> Iterator[ch.DeviceMemoryResource]:
    """Give a new pool of the device. Tests of other memory resources override this fixture."""
    mr = ch.DeviceMemoryResource(device, ch.DeviceMemoryResourceOptions())
    yield mr
    mr.close()


@pytest.fixture
def pool(device: ch.Device) -> Iterator[ch.DeviceMemoryResource]:
    """Give a pool of 64 MiB."""
    mr = ch.DeviceMemoryResource(device, {"max_size": 64 << 20})
    yield mr
    mr.close()


@pytest.fixture
def content(stream: ch.Stream) -> Callable[[ch.Buffer], bytes]:
    """Give a function that reads the bytes of a buffer."""

    def read(buffer: ch.Buffer) -> bytes:
        copy = ch.LegacyPinnedMemoryResource().allocate(buffer.size)
        buffer.copy_to(copy, stream=stream)
        stream.sync()
        return bytes(copy.__buffer__())

    return read


@pytest.fixture(params=["spawn", "forkserver"])
def context(request: pytest.FixtureRequest, in_children: None) -> Any:
    return multiprocessing.get_context(request.param)


@pytest.fixture
def in_children(on_sim: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make child processes use the same driver as this process."""
    if on_sim:
        monkeypatch.setenv("CUDACORE_DRIVER", "sim")


@pytest.fixture
def start(in_children: None) -> Iterator[Callable[..., Any]]:
    """Give a function that starts a function of ipc_children in another process."""
    started: list[Any] = []

    def start(function: Callable[..., object], *args: Any, context: Any = None) -> Any:
        maker = context or multiprocessing.get_context("forkserver")
        process = maker.Process(target=children.run, args=(function, list(args)))
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.join(children.TIMEOUT)
        if process.exitcode is None:
            process.kill()


@pytest.fixture
def exporter(start: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Give a function that returns memory and an event of another process, which runs until the end of the test."""
    channels: list[Any] = []

    def receive(count: int = 1) -> tuple[ch.DeviceMemoryResource, list[ch.Buffer], ch.Event, Any]:
        ours, theirs = multiprocessing.Pipe()
        process = start(children.export, theirs, count)
        theirs.close()
        channels.append(ours)
        assert ours.poll(children.TIMEOUT)
        return (*ours.recv(), process)

    yield receive
    for channel in channels:
        channel.close()
