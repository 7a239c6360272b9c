# SPDX-License-Identifier: Apache-2.0
"""A stand-in for OpenGL."""

from __future__ import annotations

import ctypes

from cudacore_sim._control import _controls


class GLBuffer:
    """A stand-in for a buffer of OpenGL.

    ``cuGraphicsGLRegisterBuffer`` accepts its name, and so does ``cuGraphicsGLRegisterImage``, as if it were an image.

    While no stand-in exists, there is no OpenGL context.

    Parameters
    ----------
    size : int
        Bytes, which are zero.

    Attributes
    ----------
    name : int
        Its name (``GLuint``).
    data : memoryview
        Its contents, as OpenGL sees them while the buffer is not mapped. It must not be used after `delete`.
    """

    def __init__(self, size: int) -> None:
        data = ctypes.c_void_p()
        self.name: int = _controls().cudasim_gl_buffer(size, ctypes.byref(data))
        self.data: memoryview = memoryview((ctypes.c_ubyte * size).from_address(data.value or 0)).cast("B")

    def delete(self) -> None:
        """Delete the buffer; a resource that was registered for it keeps the contents."""
        _controls().cudasim_gl_delete(self.name)
