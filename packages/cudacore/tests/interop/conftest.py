# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of memory resources for other libraries."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cudacore as core
import cudacore_handles as ch

# The module stand_ins is in the folder of these tests.
sys.path.append(str(Path(__file__).resolve().parent))

from stand_ins import (
    CallbackMemoryResource,
    CudaAsyncViewMemoryResource,
    CUDAPluggableAllocator,
    FakeCuPy,
    HostOnlyCUDAMemoryManager,
    MemoryInfo,
    MemPool,
    NumbaPointer,
    RMMResource,
    RMMStream,
    install,
)


@pytest.fixture
def statistics(device: core.Device) -> Iterator[core.StatisticsResourceAdaptor]:
    """Give a resource that counts allocations. All allocations must be freed at the end of the test."""
    statistics = core.StatisticsResourceAdaptor(device.memory_resource)
    yield statistics
    gc.collect()
    assert statistics.allocation_counts.current_count == 0


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> FakeCuPy:
    """Install a stand-in for CuPy."""
    fake = FakeCuPy()
    install(monkeypatch, **fake.modules)
    return fake


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a stand-in for PyTorch."""
    memory, pool = {"CUDAPluggableAllocator": CUDAPluggableAllocator}, {"MemPool": MemPool}
    install(monkeypatch, torch={}, torch__cuda=pool, torch__cuda__memory=memory)
    yield
    ctypes.CDLL(ch.get_library()).cch_torch_set_allocator(0, None)


@pytest.fixture
def numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a stand-in for Numba."""
    names = {
        "HostOnlyCUDAMemoryManager": HostOnlyCUDAMemoryManager,
        "MemoryInfo": MemoryInfo,
        "MemoryPointer": NumbaPointer,
    }
    install(monkeypatch, numba={}, numba__cuda=names)


@pytest.fixture
def rmm(monkeypatch: pytest.MonkeyPatch) -> RMMResource:
    """Install a stand-in for RMM."""
    current = RMMResource()
    names = {
        "CallbackMemoryResource": CallbackMemoryResource,
        "CudaAsyncViewMemoryResource": CudaAsyncViewMemoryResource,
        "DeviceMemoryResource": RMMResource,
        "get_current_device_resource": lambda: current,
    }
    install(monkeypatch, rmm={}, rmm__mr=names, rmm__pylibrmm={}, rmm__pylibrmm__stream={"Stream": RMMStream})
    return current
