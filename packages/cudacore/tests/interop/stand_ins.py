# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for CuPy, PyTorch, Numba and RMM, with a log reader and a memory resource that their tests share."""

from __future__ import annotations

import abc
import collections
import csv
import ctypes
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import cudacore as core

ADDRESS = ctypes.c_void_p
OUT_OF_MEMORY = 2


def install(monkeypatch: pytest.MonkeyPatch, **modules: Any) -> None:
    """Install stand-ins as modules; the argument "a__b" is the module a.b."""
    for name, value in modules.items():
        module = ModuleType(name.replace("__", "."))
        vars(module).update(value)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        parent, _, child = module.__name__.rpartition(".")
        if parent:
            monkeypatch.setattr(sys.modules[parent], child, module, raising=False)


# ---- CuPy


class UnownedMemory:
    """A stand-in for CuPy's class of this name."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    """A stand-in for CuPy's class of this name."""

    def __init__(self, mem: UnownedMemory, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset


class CUDARuntimeError(RuntimeError):
    """A stand-in for CuPy's class of this name."""

    def __init__(self, status: int) -> None:
        self.status = status


class MemoryPool:
    """A stand-in for CuPy's class of this name. When memory runs out, it frees unused blocks and tries again."""

    def __init__(self, allocator: Callable[[int], MemoryPointer]) -> None:
        self._allocator = allocator

    def malloc(self, size: int) -> MemoryPointer:
        try:
            return self._allocator(512)
        except CUDARuntimeError as error:
            if error.status != OUT_OF_MEMORY:
                raise
            return self._allocator(512)


class FakeCuPy:
    """The attributes of CuPy that its allocators use."""

    def __init__(self) -> None:
        self.stream: Any = core.LEGACY_DEFAULT_STREAM
        self.device_id = 0
        runtime = SimpleNamespace(getDevice=lambda: self.device_id, CUDARuntimeError=CUDARuntimeError)
        classes = {"MemoryPointer": MemoryPointer, "UnownedMemory": UnownedMemory, "MemoryPool": MemoryPool}
        cuda = {"runtime": runtime} | classes
        self.modules = {"cupy": {}, "cupy__cuda": cuda | {"get_current_stream": lambda: self.stream}}


def lines_of(log: Path) -> list[tuple[str, str]]:
    """Return the action and the stream of each line in a log of allocations."""
    with log.open(encoding="utf-8") as file:
        return [(line["Action"], line["Stream"]) for line in csv.DictReader(file)]


# ---- PyTorch


class CUDAPluggableAllocator:
    """A stand-in for PyTorch's class of this name, which loads functions by their names."""

    def __init__(self, path: str, alloc: str, free: str) -> None:
        library = ctypes.CDLL(path)
        self.alloc: Any = ctypes.CFUNCTYPE(ADDRESS, ctypes.c_ssize_t, ctypes.c_int, ADDRESS)((alloc, library))
        self.free: Any = ctypes.CFUNCTYPE(None, ADDRESS, ctypes.c_ssize_t, ctypes.c_int, ADDRESS)((free, library))
        self._allocator = self

    def allocator(self) -> CUDAPluggableAllocator:
        return self

    def set_record_stream_fn(self, address: int) -> None:
        self.record: Any = ctypes.CFUNCTYPE(None, ADDRESS, ADDRESS)(address)


class MemPool:
    """A stand-in for PyTorch's class of this name. Like that class, it holds no reference to its allocator."""

    def __init__(self, allocator: CUDAPluggableAllocator) -> None:
        self._allocator = weakref.ref(allocator)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._allocator(), name)


# ---- Numba


class HostOnlyCUDAMemoryManager(abc.ABC):
    """A stand-in for Numba's class of this name."""

    def __init__(self, context: Any) -> None:
        self.context = context

    @abc.abstractmethod
    def initialize(self) -> None:
        self.is_initialized = True

    @abc.abstractmethod
    def memalloc(self, size: int) -> Any: ...

    @abc.abstractmethod
    def get_memory_info(self) -> Any: ...

    @abc.abstractmethod
    def get_ipc_handle(self, memory: Any) -> Any: ...

    @property
    @abc.abstractmethod
    def interface_version(self) -> int: ...


class NumbaPointer:
    """A stand-in for Numba's class MemoryPointer."""

    def __init__(self, context: Any, pointer: Any, size: int, owner: Any = None, finalizer: Any = None) -> None:
        self.device_pointer, self.size = pointer, size
        self._finalizer = weakref.finalize(self, finalizer)


MemoryInfo = collections.namedtuple("MemoryInfo", ["free", "total"])


# ---- RMM


class RMMStream:
    """A stand-in for RMM's class rmm.pylibrmm.stream.Stream."""

    def __init__(self, obj: Any = None) -> None:
        self._handle: tuple[int, int] = obj.__cuda_stream__()

    def __cuda_stream__(self) -> tuple[int, int]:
        return self._handle


class RMMResource:
    """A stand-in for RMM's class rmm.mr.DeviceMemoryResource. It allocates from a pool."""

    def __init__(self) -> None:
        self.buffers: dict[int, core.Buffer] = {}
        self.freed_on: list[int] = []

    def allocate(self, nbytes: int, stream: RMMStream) -> int:
        assert isinstance(stream, RMMStream)
        buffer = core.Device().allocate(nbytes, stream=stream)
        self.buffers[buffer.handle] = buffer
        return buffer.handle

    def deallocate(self, ptr: int, nbytes: int, stream: RMMStream) -> None:
        assert isinstance(stream, RMMStream)
        self.freed_on.append(stream.__cuda_stream__()[1])
        self.buffers.pop(ptr).close(stream)


class CallbackMemoryResource(RMMResource):
    """A stand-in for RMM's class of this name."""

    def __init__(self, allocate_func: Callable[..., int], deallocate_func: Callable[..., None]) -> None:
        self._allocate, self._deallocate = allocate_func, deallocate_func

    def allocate(self, nbytes: int, stream: RMMStream) -> int:
        return self._allocate(nbytes, stream)

    def deallocate(self, ptr: int, nbytes: int, stream: RMMStream) -> None:
        try:
            self._deallocate(ptr, nbytes, stream)
        except BaseException as error:
            raise SystemError("returned a result with an exception set") from error


class CudaAsyncViewMemoryResource(RMMResource):
    """A stand-in for RMM's class of this name."""

    def __init__(self, pool_handle: Any) -> None:
        super().__init__()
        self.pool_handle = pool_handle


# ---- for all libraries


class PythonResource(core.MemoryResource):
    """A memory resource in Python. It allocates from a pool, and a test can make it fail."""

    is_device_accessible, is_host_accessible, device_id = True, False, 0

    def __init__(self) -> None:
        self.result: Any = None

    def allocate(self, size: int, *, stream: Any) -> core.Buffer:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result or core.Device().memory_resource.allocate(size, stream=stream)
