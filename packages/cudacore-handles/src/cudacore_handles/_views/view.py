# SPDX-License-Identifier: Apache-2.0
"""Views of buffers and of any library's arrays: shape, strides and type, without a copy."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from cudacore_handles import _native
from cudacore_handles._base.address import as_integer
from cudacore_handles._base.host_array import as_requested, host_array
from cudacore_handles._base.made import not_pickled
from cudacore_handles._driver.device import Device, connect
from cudacore_handles._memory.arguments import check_dlpack_arguments
from cudacore_handles._memory.arrays import check_values, has_protocol
from cudacore_handles._memory.buffer import Buffer
from cudacore_handles._stream.order import stream_for_interface, stream_of_exporter
from cudacore_handles._stream.stream import LEGACY, IsStreamType, Stream, default_stream
from cudacore_handles._views.dtypes import (
    ELEMENT_TYPES,
    ElementType,
    dlpack_type_of,
    dtype_of,
    dtype_text,
    field_of,
    raw_type,
    type_given,
    type_of_interface,
    typestr_of,
)
from cudacore_handles._views.interfaces import no_protocol, read_interface
from cudacore_handles._views.layout import _StridedLayout
from cudacore_handles._views.layout_arguments import check_itemsize
from cudacore_handles._views.tensor_map import CHOICES, TensorMapDescriptor, check_choice, make_tiled, make_with_options
from cudacore_handles.typing import (
    AnyArrayType,
    TensorMapInterleave,
    TensorMapL2Promotion,
    TensorMapOOBFill,
    TensorMapSwizzle,
)

if TYPE_CHECKING:
    from cudacore_handles._views.tensor_map_options import TensorMapDescriptorOptions


# DLPack's types of devices whose memory the host can read and write.
ON_HOST = (_native.DL_CPU, _native.DL_CUDA_HOST, _native.DL_CUDA_MANAGED)


class StridedMemoryView(_native.ViewHandle):
    """A view of the memory of an array: its address, shape, strides, type and device.

    Views are made by the methods that begin with ``from_``, by :meth:`Buffer.view`, and in functions with
    :func:`args_viewable_as_strided_memory`. Nothing is copied. The view keeps the memory of a buffer alive, even if the
    buffer is closed. Memory exported by DLPack lives until the view releases the tensor. Other objects are kept alive
    themselves.

    A view can be given to kernels and, by DLPack, its C exchange API or ``__cuda_array_interface__``, to other
    libraries.

    Examples
    --------
    >>> buffer = device.allocate(64, stream=stream)
    >>> view = buffer.view("float32", (4, 4))
    >>> view.shape, view.dtype
    ((4, 4), dtype('float32'))
    >>> array = np.arange(16, dtype=np.float32).reshape(4, 4)
    >>> view.copy_from(array, stream=stream)
    """

    __slots__ = ("__weakref__",)

    __dlpack_c_exchange_api__: object = _native.exchange_api

    if TYPE_CHECKING:  # at run time, these are C functions, which determine `cls` themselves

        @classmethod
        def from_dlpack(cls, obj: object, stream_ptr: Any = None) -> StridedMemoryView: ...
        @classmethod
        def from_any_interface(cls, obj: object, stream_ptr: Any = None) -> StridedMemoryView: ...
        @classmethod
        def from_cuda_array_interface(cls, obj: object, stream_ptr: Any = None) -> StridedMemoryView: ...
        @classmethod
        def from_array_interface(cls, obj: object) -> StridedMemoryView: ...
        @classmethod
        def from_buffer(
            cls,
            buffer: Buffer,
            shape: Sequence[int] | int,
            strides: Sequence[int] | None = None,
            *,
            itemsize: int | None = None,
            dtype: Any = None,
            is_readonly: bool = False,
        ) -> StridedMemoryView: ...
    else:
        from_dlpack = classmethod(_native.from_dlpack)
        from_any_interface = classmethod(_native.from_any_interface)
        from_cuda_array_interface = classmethod(_native.from_cuda_array_interface)
        from_array_interface = classmethod(_native.from_array_interface)
        from_buffer = classmethod(_native.from_buffer)

    def __new__(cls, obj: object = None, stream_ptr: Any = None) -> StridedMemoryView:
        """Make a view of `obj`. Deprecated: use :meth:`from_any_interface`."""
        if obj is None:
            raise ValueError("obj is missing: give an array, or use a method such as StridedMemoryView.from_buffer()")
        warnings.warn(
            "Constructing a StridedMemoryView directly is deprecated; use StridedMemoryView.from_any_interface(), "
            "from_dlpack() or from_cuda_array_interface() instead",
            DeprecationWarning,
            stacklevel=2,
        )
        return cls.from_any_interface(obj, stream_ptr)

    def __repr__(self) -> str:
        return (
            f"StridedMemoryView(ptr={self.ptr:#x}, shape={self.shape}, strides={self.strides}, "
            f"itemsize={self._itemsize}, dtype={dtype_text(self, '?')}, device_id={self.device_id}, "
            f"is_device_accessible={self.is_device_accessible}, readonly={self.readonly}, "
            f"exporting_obj={type(self.exporting_obj).__name__})"
        )

    def __reduce__(self) -> NoReturn:
        not_pickled(self, "copy what it views to the host, and pickle that")

    def __getitem__(self, key: Any) -> StridedMemoryView:
        """Return a view of a part: integers, slices or the name of a field, as for an array of NumPy."""
        return self.field(key) if isinstance(key, str) else self.view(self._layout[key])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return a NumPy array of the same memory, which the host must be able to access.

        The array keeps the memory alive. It does not wait for work on any stream.

        Parameters
        ----------
        dtype : numpy.dtype, optional
            The type of the array. A type other than the view's needs a copy.
        copy : bool, optional
            Whether to copy the elements. If False, a ValueError is raised if a copy would be needed. Default: copy only
            if needed.
        """
        if self._device[0] not in ON_HOST:
            raise TypeError(
                "a view of device memory is not a NumPy array: "
                "view.copy_to(array, stream=stream) copies its elements to one"
            )
        return as_requested(host_elements(self, self.dtype), dtype, copy)

    def _copied(self, device: tuple[int, int]) -> StridedMemoryView:
        """Return a copy of the elements in new memory of a DLPack device."""
        memory = _allocate_tensor(*device, self.size * self.dtype.itemsize)
        made = StridedMemoryView.from_buffer(memory, self.shape, dtype=self.dtype)
        stream = default_stream()
        self._order(stream._raw or LEGACY)
        made.copy_from(self, stream)
        return made

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """dict: The CUDA Array Interface, version 3. Raises AttributeError if no kernel can use the memory."""
        if not self.is_device_accessible:
            raise AttributeError(
                "a view of host memory has no __cuda_array_interface__", name="__cuda_array_interface__"
            )
        self._check_memory()
        strides = self.strides
        exporter = self.exporting_obj
        if exporter is None or isinstance(exporter, Buffer) or self._device[0] != _native.DL_CUDA:
            stream = stream_for_interface(self._stream)
        else:
            stream = stream_of_exporter(exporter, self._device, self._order)
        packed = self._type
        return {
            "shape": self.shape,
            "strides": None if strides is None else tuple(step * self._itemsize for step in strides),
            "typestr": typestr_of(packed, self._itemsize, self.dtype if packed & 0xFF == 255 else ...),
            "data": (self.ptr if self.size else 0, self.readonly),
            "version": 3,
            "stream": stream,
        }

    def view(self, layout: _StridedLayout | None = None, dtype: Any = None) -> StridedMemoryView:
        """Make a view of the same memory, with another layout or type.

        Parameters
        ----------
        layout : _StridedLayout, optional
            The layout, relative to this view's address, such as ``view._layout[1:]``. Default: this view's.
        dtype : numpy.dtype, optional
            The type, of the layout's itemsize; see :meth:`from_buffer`. Default: this view's.

        Raises
        ------
        ValueError
            If the type's size is not that of the layout, or the layout goes beyond the memory.
        """
        if layout is None and dtype is None:
            return self
        if layout is None:
            layout = self._layout
        elif not isinstance(layout, _StridedLayout):
            raise TypeError(f"layout must be a _StridedLayout, such as view._layout, not {type(layout).__name__}")
        kind = ElementType(self._type, self._itemsize, self._dtype_as_it_is) if dtype is None else type_given(dtype)
        if kind.itemsize != layout.itemsize:
            raise ValueError(
                f"The dtype's itemsize ({kind.itemsize}) does not match the layout's itemsize ({layout.itemsize}). "
                "Give both: layout=view._layout.repacked(itemsize), and the dtype"
            )
        _check_within(layout, self._layout, self.exporting_obj, self.ptr)
        address = self.ptr + layout.slice_offset_in_bytes
        return _make(
            type(self), address, layout, kind, self._device, self.readonly, self.exporting_obj, self, aligned=True
        )

    def field(self, name: str) -> StridedMemoryView:
        """Return a view of one field of a structured type, like ``array[name]`` of NumPy.

        The address and the strides must be multiples of the field's size; ``numpy.dtype(..., align=True)`` makes such
        types.

        Parameters
        ----------
        name : str
            The name of the field. If it is an array, the view has its dimensions, too.

        Raises
        ------
        ValueError
            If there is no such field, or its elements are not aligned.
        """
        kind, offset = field_of(self.dtype, name)
        base, inner = kind.subdtype or (kind, ())
        steps = [step * self._itemsize for step in self._layout._steps()]
        steps += [step * base.itemsize for step in _StridedLayout.dense(inner, base.itemsize)._steps()]
        layout = _StridedLayout((*self.shape, *inner), steps, base.itemsize, divide_strides=True)
        return _make(
            type(self), self.ptr + offset, layout, type_given(base), self._device, self.readonly, self.exporting_obj,
            self, aligned=True,
        )  # fmt: skip

    def copy_from(
        self,
        other: AnyArrayType,
        stream: Stream | IsStreamType,
        allocator: object = None,
        blocking: bool | None = None,
    ) -> None:
        """Copy the elements of another view, or of an array, into this view, whatever their layouts.

        The copy is ordered on the stream and takes a few calls of the driver. The driver copies dense layouts and long
        rows in one copy; a kernel copies all others. If the layout of ordinary host memory has gaps, its elements are
        copied through device memory, or rearranged by the host.

        Parameters
        ----------
        other : StridedMemoryView or array
            The source, which must have the same shape and type: a view, or an array of NumPy or another library.
        stream : Stream
            The stream that the copy is ordered on.
        allocator : MemoryResource, optional
            Allocates the device memory through which elements of ordinary host memory are copied. Default: the device's
            memory resource.
        blocking : bool, optional
            Whether to wait until the copy is done. Copies from or to ordinary host memory always wait. Default: False.
        """
        from cudacore_handles._views.view_copy import copy_view

        copy_view(self, other, stream, allocator, blocking)

    def copy_to(
        self,
        other: AnyArrayType,
        stream: Stream | IsStreamType | None = None,
        allocator: object = None,
        blocking: bool | None = None,
    ) -> None:
        """Copy the elements of this view into another one, or into an array; see :meth:`copy_from`."""
        from cudacore_handles._views.view_copy import copy_view

        copy_view(other, self, stream, allocator, blocking)

    def as_tensor_map(
        self,
        box_dim: tuple[int, ...] | None = None,
        *,
        options: TensorMapDescriptorOptions | Mapping[str, Any] | None = None,
        element_strides: tuple[int, ...] | None = None,
        data_type: Any = None,
        interleave: TensorMapInterleave | None = None,
        swizzle: TensorMapSwizzle | None = None,
        l2_promotion: TensorMapL2Promotion | None = None,
        oob_fill: TensorMapOOBFill | None = None,
    ) -> TensorMapDescriptor:
        """Make a tensor map of the view, with which kernels copy boxes of it (TMA; ``cuTensorMapEncodeTiled``).

        The view must be of memory that a device of compute capability 9.0 or later can access. The elements of the last
        axis must be adjacent, and the other strides multiples of 16 bytes. The tensor map keeps the memory alive.

        Parameters
        ----------
        box_dim : tuple of int
            The extents of the box that a copy moves, in elements, in the order of the view's shape.
        options : TensorMapDescriptorOptions or mapping, optional
            An object or mapping with all of the arguments, which must not be given separately then.
        element_strides, data_type, interleave, swizzle, l2_promotion, oob_fill
            See :class:`TensorMapDescriptorOptions`. The enumerations are in ``typing``.

        Returns
        -------
        TensorMapDescriptor

        Raises
        ------
        ValueError
            If the driver would refuse the map; the message names the argument, its value and the rule.
        """
        if options is not None:
            given = (box_dim, element_strides, data_type, interleave, swizzle, l2_promotion, oob_fill)
            return make_with_options(self, options, given)
        if box_dim is None:
            raise TypeError("box_dim is missing: give the extents of the box that a copy moves, one for each axis")
        return make_tiled(self, box_dim, element_strides, data_type, interleave, swizzle, l2_promotion, oob_fill)


def host_elements(view: StridedMemoryView, dtype: Any = None) -> Any:
    """Return the elements of a view as a NumPy array, by default of raw bytes. The array keeps the view alive."""
    view._check_memory()
    strides = [step * view._itemsize for step in view._layout._steps()]
    raw = f"V{view._itemsize}"
    return host_array(view.ptr, view.shape, strides, raw if dtype is None else dtype, view, readonly=view.readonly)


def _make(
    cls: type[StridedMemoryView],
    address: int,
    layout: _StridedLayout,
    kind: ElementType,
    device: tuple[int, int],
    readonly: bool,
    exporting: object,
    keeper: object,
    *,
    aligned: bool = False,
) -> StridedMemoryView:
    return _native.view_make(
        cls, address, layout.shape, layout.strides, layout.itemsize, kind.packed, kind.dtype, *device, readonly,
        exporting, keeper, aligned,
    )  # fmt: skip


def _check_export(
    exported: Buffer | StridedMemoryView, stream: Any, max_version: Any, dl_device: Any, copy: Any
) -> tuple[object, int | None, bool]:
    """Check the arguments of ``__dlpack__``. Return what to export, the stream, and whether its tensor is versioned."""
    device = exported.__dlpack_device__()
    versioned, target = check_dlpack_arguments(device, stream, max_version, dl_device, copy)
    if target is not None:
        exported = (exported.view("int8") if isinstance(exported, Buffer) else exported)._copied(target)
        stream = stream if target == device else None
    return exported, None if stream is None else int(stream), versioned


def _element_type(dtype: Any, itemsize: int | None) -> ElementType:
    if dtype is None and itemsize is None:
        raise ValueError("Either itemsize or dtype must be specified")
    if dtype is None:
        return raw_type(check_itemsize("itemsize", itemsize))
    kind = type_given(dtype)
    if itemsize is not None and operator.index(itemsize) != kind.itemsize:
        raise ValueError(f"itemsize ({itemsize}) does not match dtype.itemsize ({kind.itemsize})")
    return kind


def _check_within(layout: _StridedLayout, old: _StridedLayout, exporting: object, address: int) -> None:
    """Raise an error if a layout exceeds the memory of the buffer, or the bytes that the old layout spans."""
    low, high = layout.offset_bounds
    if low > high:
        return
    first, last = low * layout.itemsize, (high + 1) * layout.itemsize
    if isinstance(exporting, Buffer) and not exporting.is_closed:
        start, end = exporting.handle - address, exporting.handle + exporting.size - address
    else:
        start, end = old.min_offset * old.itemsize, (old.max_offset + 1) * old.itemsize
        start, end = (start, end) if old.volume else (0, 0)
    if first < start or last > end:
        raise ValueError(
            f"Buffer size is too small for the layout. Expected at least {last - min(first, 0)} bytes, got "
            f"{max(end, 0)} bytes: the layout reaches from byte {first} to {last}, and the memory from {start} to {end}"
        )


# ---- array interfaces


def _interface_of(cls: type[StridedMemoryView], obj: object, stream: int, function: str) -> StridedMemoryView:
    """Make a view of an object by an array interface. `stream` is -2 if it was not given."""
    cuda, host = "__cuda_array_interface__", "__array_interface__"
    any_one = function == "from_any_interface"
    if function == "from_cuda_array_interface" or (any_one and has_protocol(obj, cuda)):
        return _view_of_cuda_interface(cls, obj, stream)
    if function == "from_array_interface" or (any_one and has_protocol(obj, host)):
        interface, address = read_interface(obj, host)
        return _view_of_interface(cls, obj, interface, address, (_native.DL_CPU, 0))
    if any_one:
        raise no_protocol(obj)
    raise AttributeError(f"obj is of type {type(obj).__name__}, which has no __dlpack__", name="__dlpack__", obj=obj)


def _view_of_cuda_interface(cls: type[StridedMemoryView], obj: object, consumer: int) -> StridedMemoryView:
    interface, address = read_interface(obj, "__cuda_array_interface__")
    if consumer == -2:
        raise BufferError(
            "stream=None is ambiguous with view(): give stream_ptr, the stream that will use the array, so that "
            "it waits for the producer's; or -1 for no order"
        )
    version = as_integer(interface.get("version", 0))
    if version is None or version < 2:
        raise BufferError(
            "only versions 2 and 3 of the CUDA Array Interface are supported, and the array's is "
            f"{interface.get('version', 0)!r}"
        )
    device = _native.memory_device(address) if address else (_native.DL_CUDA, max(_native.current_device(), 0))
    if device[0] == _native.DL_CPU:
        raise BufferError(
            f"the __cuda_array_interface__ has the address {address:#x}, which is not memory of CUDA: it was freed, "
            "or is ordinary host memory"
        )
    view = _view_of_interface(cls, obj, interface, address, device)
    if version == 2:  # version 2 names no stream
        producer = _native.work_stream(obj, *device) if consumer != -1 else None
        producer = LEGACY if producer == 0 else producer
    else:
        producer = None if interface.get("stream") is None else as_integer(interface["stream"]) or -1
    if producer is not None:
        if not 0 < producer < 2**64:
            raise BufferError(
                f"the stream of the __cuda_array_interface__ is {interface.get('stream')!r}; it must be an address"
            )
        if consumer not in (-1, producer):
            _native.order_streams(consumer, producer, device[1] if device[0] == _native.DL_CUDA else -1)
    return view


def _view_of_interface(
    cls: type[StridedMemoryView], obj: object, interface: dict[str, Any], address: int, device: tuple[int, int]
) -> StridedMemoryView:
    try:
        shape, kind = interface["shape"], type_of_interface(interface, obj)
    except KeyError as error:
        raise BufferError(f"the array interface of {type(obj).__name__} has no {error}") from None
    layout = _StridedLayout(shape, interface.get("strides"), kind.itemsize, divide_strides=True)
    if not address and layout.volume:
        raise BufferError(f"the array interface of {type(obj).__name__} has no address, but {layout.volume} elements")
    return _make(cls, address, layout, kind, device, bool(interface["data"][1]), obj, obj)


def _copy_array(device: Device, array: AnyArrayType, stream: Stream | IsStreamType) -> StridedMemoryView:
    """Copy an array to a device: :meth:`Device.to_device`."""
    source = array if isinstance(array, StridedMemoryView) else StridedMemoryView.from_any_interface(array, stream)
    kind = ElementType(source._type, source._itemsize, source._dtype_as_it_is)
    copy = device.allocate(source.size * source._itemsize, stream=stream).view(kind, source.shape)
    copy.copy_from(source, stream)
    return copy


connect(copy_array=_copy_array)


def _allocate_tensor(device_type: int, ordinal: int, nbytes: int) -> Buffer:
    """Return memory of a DLPack device."""
    from cudacore_handles._memory.resource import LegacyPinnedMemoryResource

    if device_type == _native.DL_CUDA:
        return Device(ordinal).allocate(nbytes, stream=default_stream())
    if device_type == _native.DL_CUDA_HOST:
        return LegacyPinnedMemoryResource().allocate(nbytes)
    if device_type == _native.DL_CPU:
        from cudacore_handles._cffi import ffi

        memory = ffi.new("char[]", nbytes + 256)
        address = int(ffi.cast("uintptr_t", memory))
        return Buffer.from_handle(address + -address % 256, nbytes, owner=memory)
    raise BufferError(f"no memory can be allocated for DLPack's device type {device_type}")


_native.connect(
    "views",
    view=StridedMemoryView,
    layout_of=_StridedLayout,
    element_types=ELEMENT_TYPES,
    element_type=_element_type,
    dtype_of=dtype_of,
    dlpack_type_of=dlpack_type_of,
    interface_of=_interface_of,
    check_values=check_values,
    map_choices=tuple(CHOICES.items()),
    check_choice=check_choice,
    check_export=_check_export,
    default_stream=lambda: default_stream()._raw,
)
