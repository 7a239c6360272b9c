# SPDX-License-Identifier: Apache-2.0
"""Imitations of objects that programs and other libraries pass to this package."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import cudacore_handles as ch


class HostMemory(ch.MemoryResource):
    """An allocator in Python, for ordinary host memory."""

    is_device_accessible = False
    is_host_accessible = True
    device_id = -1

    def __init__(self) -> None:
        self.blocks: dict[int, Any] = {}

    def allocate(self, size: int, *, stream: Any = None) -> ch.Buffer:
        block = ctypes.create_string_buffer(size)
        self.blocks[ctypes.addressof(block)] = block
        return ch.Buffer.from_handle(ctypes.addressof(block), size, mr=self, stream=stream)

    def deallocate(self, ptr: int, size: int, *, stream: Any) -> None:
        del self.blocks[ptr]


class RecordingHostMemory(HostMemory):
    """An allocator of host memory that records each free, and can then raise an error."""

    def __init__(self) -> None:
        super().__init__()
        self.freed: list[tuple[int, int, ch.Stream]] = []
        self.error: Exception | None = None

    def deallocate(self, ptr: int, size: int, *, stream: Any) -> None:
        super().deallocate(ptr, size, stream=stream)
        self.freed.append((ptr, size, stream))
        if self.error:
            raise self.error


class CudaArray:
    """An array of four elements with the CUDA array interface. It uses and keeps the memory of a buffer."""

    def __init__(self, buffer: ch.Buffer, typestr: str = "<i4") -> None:
        self.buffer = buffer
        self.typestr = typestr

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (4,), "typestr": self.typestr, "data": (self.buffer.handle, False), "version": 3}


class Gate:
    """A host function on a stream, which blocks the stream until the gate is opened."""

    def __init__(self, stream: ch.Stream) -> None:
        self._event = threading.Event()
        self.is_passed = False
        stream.callback(self._wait)

    def _wait(self) -> None:
        self._event.wait(30)
        self.is_passed = True

    def open(self) -> None:
        self._event.set()
