# SPDX-License-Identifier: Apache-2.0
"""Buffers and images of OpenGL."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from cudacore_handles import _native
from cudacore_handles._base import results
from cudacore_handles._base.address import check_int
from cudacore_handles._base.errors import check, check_open
from cudacore_handles._base.handle import address, adopt, hold, out_box
from cudacore_handles._base.made import Made, not_pickled
from cudacore_handles._base.module_attributes import public
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._memory.resource import current_or_own_context
from cudacore_handles._stream.stream import IsStreamType, Stream, Stream_accept, accept_if_given
from cudacore_handles.typing import GraphicsFlagName

_FLAGS = {
    "none": 0,
    "read_only": lib.CCH_GRAPHICS_READ_ONLY,
    "write_discard": lib.CCH_GRAPHICS_WRITE_DISCARD,
    "surface_load_store": lib.CCH_GRAPHICS_SURFACE_LOAD_STORE,
    "texture_gather": lib.CCH_GRAPHICS_TEXTURE_GATHER,
}
_HINTS = {
    results.INVALID_GRAPHICS_CONTEXT: (
        "OpenGL must have a context current on this thread, of a device that CUDA has, too: make the window's context, "
        "or one of EGL, current first"
    ),
    results.INVALID_HANDLE: "OpenGL has no such object in its current context",
    results.INVALID_VALUE: (
        "CUDA does not take objects of this kind, or not with these flags: buffers take read_only or write_discard"
    ),
    results.NOT_MAPPED_AS_POINTER: (
        "An image has no address: only resources of from_gl_buffer() are mapped to a Buffer"
    ),
}
_REGISTER_HINTS = _HINTS | {
    results.OPERATING_SYSTEM: "Perhaps the driver cannot load OpenGL: it needs the library libGL.so.1",
}


class MappedBuffer(Buffer):
    """The memory of a graphics resource that is mapped. Closing this buffer unmaps the resource."""

    __slots__ = ("_resource",)
    _resource: GraphicsResource

    def close(self, stream: Stream | IsStreamType | None = None) -> None:
        """Unmap the resource, in the order of a stream.

        Parameters
        ----------
        stream : Stream, optional
            The stream. Default: the stream of :meth:`set_deallocation_stream`, or else the stream on which the resource
            was mapped.
        """
        resource = getattr(self, "_resource", None)
        if resource is not None and resource._mapped() is self:
            resource.unmap(stream=stream)
        else:  # this buffer is a part of the memory, or the resource was unmapped before
            super().close(stream)


@public
class GraphicsResource(_native.Handle, Made):
    """A buffer or an image of OpenGL that CUDA can use.

    The resource is registered by :meth:`from_gl_buffer` or :meth:`from_gl_image`, and unregistered when it is closed or
    no longer referenced. While it is mapped, kernels can use its memory, and OpenGL must not use it::

        resource = GraphicsResource.from_gl_buffer(vertices)
        with resource.map(stream=stream) as buffer:
            launch(stream, config, kernel, buffer)
        # here OpenGL can draw the vertices

    The OpenGL context must be current on the calling thread. Close the resource before that context is destroyed.
    """

    __slots__ = ("__weakref__", "_mapped", "_stream")
    _made_by = "GraphicsResource.from_gl_buffer() or GraphicsResource.from_gl_image()"
    _mapped: Callable[[], MappedBuffer | None]  # a weak reference: releasing the buffer unmaps the resource
    _stream: Stream | None  # the argument `stream` of from_gl_buffer()

    def __enter__(self) -> Any:
        """Return the resource. If it was made with a stream, map it and return the buffer."""
        return self if self._stream is None else self.map(stream=self._stream)

    def __exit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "OpenGL's objects are those of one process")

    def __repr__(self) -> str:
        if self.is_closed:
            return "<GraphicsResource closed>"
        return f"<GraphicsResource handle={self._raw:#x}{' mapped' if self.is_mapped else ''}>"

    @classmethod
    def from_gl_buffer(
        cls,
        gl_buffer: int,
        *,
        flags: GraphicsFlagName | Sequence[GraphicsFlagName] | None = None,
        stream: Stream | IsStreamType | None = None,
    ) -> GraphicsResource:
        """Register a buffer of OpenGL (cuGraphicsGLRegisterBuffer).

        Parameters
        ----------
        gl_buffer : int
            The name (``GLuint``) of the buffer, in the OpenGL context that is current on this thread.
        flags : str or sequence of str, optional
            How CUDA uses it: ``"read_only"``, or ``"write_discard"`` if all of it is overwritten. ``"none"``, the
            default, means that it is read and written.
        stream : Stream, optional
            The stream on which a ``with`` statement maps the resource; the statement then returns the buffer. Default:
            it returns the resource.

        Raises
        ------
        CUDAError
            If no OpenGL context is current, or the context has no such buffer.
        """
        name, bits = _name(gl_buffer, "gl_buffer"), _bits(flags)
        accepted = accept_if_given(stream)
        context = (accepted.context if accepted is not None else None) or current_or_own_context()
        out = out_box("cch_graphics")
        check(lib.cch_graphics_register(out, hold(context), name, 0, bits), hints=_REGISTER_HINTS)
        return cls._made(out, accepted)

    @classmethod
    def from_gl_image(
        cls, image: int, target: int, *, flags: GraphicsFlagName | Sequence[GraphicsFlagName] | None = None
    ) -> GraphicsResource:
        """Register a texture or a renderbuffer of OpenGL (cuGraphicsGLRegisterImage).

        Parameters
        ----------
        image : int
            The name (``GLuint``) of the image, in the OpenGL context that is current on this thread.
        target : int
            The target of OpenGL, such as ``GL_TEXTURE_2D`` (0x0DE1).
        flags : str or sequence of str, optional
            As for :meth:`from_gl_buffer`; also ``"surface_load_store"`` and ``"texture_gather"``. The driver accepts
            one flag.

        Raises
        ------
        CUDAError
            If no OpenGL context is current, the context has no such image, or CUDA does not support images of this
            format.
        ValueError
            If `target` is 0.
        """
        name, where, bits = _name(image, "image"), _name(target, "target"), _bits(flags)
        if where == 0:
            raise ValueError("target must be what OpenGL calls the image's target, such as GL_TEXTURE_2D, not 0")
        out = out_box("cch_graphics")
        check(lib.cch_graphics_register(out, hold(current_or_own_context()), name, where, bits), hints=_REGISTER_HINTS)
        return cls._made(out, None)

    @classmethod
    def _made(cls, out: Any, stream: Stream | None) -> GraphicsResource:
        resource = adopt(cls, out)
        resource._mapped, resource._stream = _nothing, stream
        return resource

    def map(self, *, stream: Stream | IsStreamType) -> Buffer:
        """Map the resource, which must be a buffer of OpenGL (cuGraphicsMapResources).

        Earlier work of OpenGL is completed before later work of the stream begins. Until the resource is unmapped,
        OpenGL must not use it.

        Parameters
        ----------
        stream : Stream
            The stream that the mapping is ordered on.

        Returns
        -------
        Buffer
            The memory. Closing it, or leaving its ``with`` block, unmaps the resource on the same stream. A buffer that
            is no longer referenced is closed.

        Raises
        ------
        RuntimeError
            If the resource is mapped already, or closed.
        CUDAError
            If the driver refuses, for example because the resource is an image, which has no address.
        """
        check_open(self)
        if self.is_mapped:
            raise RuntimeError("the GraphicsResource is already mapped: unmap() it, or close the Buffer, first")
        accepted = Stream_accept(stream, allow_stream_protocol=True)
        out = out_box("cch_deviceptr")
        check(lib.cch_graphics_map(out, hold(self), hold(accepted)), hints=_HINTS)
        buffer = MappedBuffer._adopt_memory(address(out), None, None)
        buffer._resource = self
        self._mapped = weakref.ref(buffer)
        return buffer

    def unmap(self, *, stream: Stream | IsStreamType | None = None) -> None:
        """Unmap the resource, so that OpenGL can use it (cuGraphicsUnmapResources).

        The buffer of :meth:`map` is closed. Using a part of it raises a :class:`GoneError`.

        Parameters
        ----------
        stream : Stream, optional
            The stream whose work is completed before OpenGL uses the resource. Default: the one on which it was mapped.

        Raises
        ------
        RuntimeError
            If the resource is not mapped, or closed.
        """
        check_open(self)
        if not self.is_mapped:
            raise RuntimeError("the GraphicsResource is not mapped: map() it first")
        check(lib.cch_graphics_unmap(hold(self), _box_of(stream)))
        self._forget()

    def close(self, stream: Stream | IsStreamType | None = None) -> None:
        """Unregister the resource, after unmapping it if necessary (cuGraphicsUnregisterResource).

        Parameters
        ----------
        stream : Stream, optional
            The stream on which the resource is unmapped. Default: the one on which it was mapped.
        """
        if self.is_closed:
            return
        box = hold(self)
        if lib.cch_is_valid(box):
            check(lib.cch_graphics_unregister(box, _box_of(stream)))
        self._forget()
        super().close()

    def _forget(self) -> None:
        """Close the buffer of a resource that is no longer mapped."""
        buffer, self._mapped = self._mapped(), _nothing
        if buffer is not None:
            Buffer.close(buffer)

    @property
    def is_mapped(self) -> bool:
        """bool: Whether the resource is mapped."""
        return not self.is_closed and bool(lib.cch_graphics_is_mapped(hold(self)))

    @property
    def handle(self) -> int:
        """int: The ``CUgraphicsResource``; 0 when closed."""
        return 0 if self.is_closed else self._raw

    @property
    def resource_handle(self) -> int:
        """int: The same as :attr:`handle`."""
        return self.handle


def _box_of(stream: Stream | IsStreamType | None) -> Any:
    accepted = accept_if_given(stream)
    return ffi.NULL if accepted is None else hold(accepted)


def _name(value: Any, what: str) -> int:
    """Check a name or a target of OpenGL, and return it as an int."""
    number = check_int(what, value, "an int, as OpenGL gives it (GLuint)")
    if not 0 <= number < 2**32:
        raise ValueError(f"{what} must be an int of 32 bits, as OpenGL gives it, not {number}")
    return number


def _bits(flags: Any) -> int:
    """Return the bits of the named flags."""
    names = () if flags is None else (flags,) if isinstance(flags, str) else flags
    if not isinstance(names, (tuple, list)):
        raise TypeError(f"flags must be a str, or a list or tuple of str, not {type(flags).__name__}")
    bits = 0
    for name in names:
        if name not in _FLAGS:
            raise ValueError(f"Unknown register flag {name!r}; flags are {', '.join(map(repr, _FLAGS))}")
        bits |= _FLAGS[name]
    return bits


def _nothing() -> None:
    """Return None, like a weak reference to a buffer that no longer exists."""
