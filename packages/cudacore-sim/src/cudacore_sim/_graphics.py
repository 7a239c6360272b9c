# SPDX-License-Identifier: Apache-2.0
"""Buffers that take the place of OpenGL's buffers in tests."""

from __future__ import annotations

import ctypes

from cudacore_sim._control import _controls


class GLBuffer:
    """A substitute for a buffer of OpenGL.

    ``cuGraphicsGLRegisterBuffer`` accepts the name of this buffer. So does ``cuGraphicsGLRegisterImage``, as if the
    buffer were an image.

    The simulator acts as if an OpenGL context existed while there is at least one `GLBuffer`.

    Parameters
    ----------
    size : int
        Size of the buffer in bytes. The contents are initially zero.

    Attributes
    ----------
    name : int
        The name of the buffer in OpenGL (``GLuint``).
    data : memoryview
        The contents that OpenGL would use while the buffer is not mapped. Do not use this view after `delete`.
    """

    def __init__(self, size: int) -> None:
        data = ctypes.c_void_p()
        self.name: int = _controls().cudasim_gl_buffer(size, ctypes.byref(data))
        self.data: memoryview = memoryview((ctypes.c_ubyte * size).from_address(data.value or 0)).cast("B")

    def delete(self) -> None:
        """Delete the buffer; a resource that was registered for it keeps the contents."""
        _controls().cudasim_gl_delete(self.name)
