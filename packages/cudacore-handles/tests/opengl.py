# SPDX-License-Identifier: Apache-2.0
"""Buffers of OpenGL: imitations on the simulated driver, and those of EGL on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

SIZE = 4096


class OpenGL:
    """OpenGL on this thread, or an imitation of it."""

    def __init__(self, on_sim: bool) -> None:
        self.made: list[Any] = []
        self.on_sim = on_sim
        if not on_sim:
            moderngl = pytest.importorskip("moderngl", reason="there is no OpenGL")
            self.context = moderngl.create_standalone_context(backend="egl")

    def buffer(self, data: bytes = bytes(SIZE)) -> Any:
        """Return a buffer of OpenGL, with ``name``, ``read()`` and ``write()``."""
        self.made.append(SimulatedBuffer(data) if self.on_sim else RealBuffer(self.context, data))
        return self.made[-1]

    def close(self) -> None:
        for buffer in self.made:
            buffer.delete()
        if not self.on_sim:
            self.context.release()


class SimulatedBuffer:
    def __init__(self, data: bytes) -> None:
        import cudacore_sim

        self.buffer = cudacore_sim.GLBuffer(len(data))
        self.name = self.buffer.name
        self.write(data)

    def read(self) -> bytes:
        return bytes(self.buffer.data)

    def write(self, data: bytes) -> None:
        self.buffer.data[:] = data

    def delete(self) -> None:
        self.buffer.delete()


class RealBuffer:
    def __init__(self, context: Any, data: bytes) -> None:
        self.buffer = context.buffer(data)
        self.name = self.buffer.glo
        self.read: Callable[[], bytes] = self.buffer.read
        self.write: Callable[[bytes], None] = self.buffer.write

    def delete(self) -> None:
        self.buffer.release()
