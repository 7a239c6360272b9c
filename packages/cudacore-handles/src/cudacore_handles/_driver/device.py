# SPDX-License-Identifier: Apache-2.0
"""Devices."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

from cudacore_handles import _native
from cudacore_handles._base.address import check_int
from cudacore_handles._base.driver_calls import call_driver, query_driver
from cudacore_handles._base.errors import check, closed, no_buffer, result_of
from cudacore_handles._base.handle import adopt, hold, out_box
from cudacore_handles._base.names import check_type
from cudacore_handles._base.siblings import upper_package
from cudacore_handles._base.suggest import options_apart
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.context import Context, current_context
from cudacore_handles._stream.event import Event
from cudacore_handles._stream.stream import IsStreamType, Stream, default_stream

if TYPE_CHECKING:
    from cudacore.system import Device as SystemDevice
    from cudacore_graph import GraphBuilder
    from cudacore_handles._driver.device_properties import DeviceProperties
    from cudacore_handles._driver.device_resources import ContextOptions, DeviceResources
    from cudacore_handles._memory.buffer import Buffer
    from cudacore_handles._memory.device_pool import DeviceMemoryResource
    from cudacore_handles._memory.resource import MemoryResource
    from cudacore_handles._option_dicts import EventOptionsDict, StreamOptionsDict
    from cudacore_handles._stream.options import EventOptions, StreamOptions
    from cudacore_handles._views.view import StridedMemoryView
    from cudacore_handles.texture import (
        MipmappedArray,
        MipmappedArrayOptions,
        OpaqueArray,
        OpaqueArrayOptions,
        ResourceDescriptor,
        SurfaceObject,
        TextureObject,
        TextureObjectOptions,
    )
    from cudacore_handles.typing import AnyArrayType

_BufferHandle, _create_event, _create_stream = _native.BufferHandle, _native.create_event, _native.create_stream
_TEXT_SIZE = 256  # longer than the name of any device


def _of_textures(name: str) -> Callable[..., Any]:
    """Return a function that imports the module of textures, and calls the function that it has connected."""

    def call(*arguments: Any) -> Any:
        importlib.import_module("cudacore_handles.texture")
        return _upper[name](*arguments)

    return call


# Functions of upper rooms, which this room does not import.
_upper: dict[str, Callable[..., Any]] = {
    name: _of_textures(name) for name in ("create_array", "create_mipmapped_array", "create_texture", "create_surface")
}


def connect(**functions: Callable[..., Any]) -> None:
    """Let the methods of devices call functions of an upper room."""
    _upper.update(functions)


class ComputeCapability(NamedTuple):
    """Version of a device's architecture."""

    major: int
    """int: The major version, such as 9 of 9.0."""
    minor: int
    """int: The minor version, such as 0 of 9.0."""


class MemoryInfo(NamedTuple):
    """Memory of a device, in bytes."""

    free: int
    """int: The memory that can be allocated, without unused memory that pools keep."""
    total: int
    """int: All of the memory."""


class _Thread(threading.local):
    """The data of one thread."""

    def __init__(self) -> None:
        # Contexts other than primary ones that this thread made current, by device.
        self.contexts: dict[int, Context] = {}


_thread = _Thread()
# By ordinals. There are no locks, because a garbage collection while a thread holds one could run code that needs the
# object, too. setdefault() returns the same object to all threads, and does not replace one that was set meanwhile.
_devices: dict[int, Device] = {}
_memory_resources: dict[int, MemoryResource] = {}


class Device:
    """A GPU.

    ``Device()`` is the calling thread's current device, or device 0 if there is none; ``Device(1)`` is the second
    device. There is one object for each device. Its methods work in the primary context of the device (or the context
    given to :meth:`set_current`), even if another context is current. They do not change the current context.

    Parameters
    ----------
    device_id : int or Device, optional
        Ordinal of the device.

    Raises
    ------
    CUDAError
        If there is no driver or no device.
    ValueError
        If there is no device with that ordinal.

    Examples
    --------
    >>> device = core.Device(0)
    >>> device.set_current()
    >>> device == core.Device()
    True
    >>> device.properties.warp_size
    32
    """

    __slots__ = ("__weakref__", "_capability", "_id", "_primary", "_properties", "_resources", "_uuid")
    _id: int
    _primary: Context | None  # retained at first use
    # Made at first use.
    _properties: DeviceProperties | None
    _resources: DeviceResources | None
    _capability: ComputeCapability | None
    _uuid: str | None

    def __new__(cls, device_id: Device | int | None = None) -> Device:
        if device_id is None:
            device_id = _native.current_device()
            if device_id < 0:  # there is no current device
                device_id = 0
        elif type(device_id) is not int:
            return _find(device_id)
        try:
            return _devices[device_id]
        except KeyError:
            return _find(device_id)

    def __int__(self) -> int:
        return self._id

    def __repr__(self) -> str:
        return f"<Device {self._id} ({self.name})>"

    def __hash__(self) -> int:
        return hash((Device, self._id))

    def __eq__(self, other: object) -> bool:
        return self._id == other._id if isinstance(other, Device) else NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self._id,)

    @classmethod
    def get_all_devices(cls) -> tuple[Device, ...]:
        """Return all devices, by ordinal (cuDeviceGetCount)."""
        return tuple(Device(i) for i in range(result_of(lib.cch_device_count)))

    def set_current(self, ctx: Context | None = None) -> Context | None:
        """Make this device's context current on the calling thread (cuCtxSetCurrent).

        If another library has reset the primary context, it is retained again. Streams, events, graphs and pinned
        memory that were made in it before are lost: using them raises an error.

        Parameters
        ----------
        ctx : Context, optional
            A context of this device, such as a green one. It is kept until another one is set, even if it is closed
            before. Default: the primary context.

        Returns
        -------
        Context or None
            If `ctx` is given, the context that was current before, or None if there was none. Otherwise None.
        """
        if ctx is not None:
            return self._set_context(ctx)
        if self._primary is None or not _native.set_current(self._primary):  # another library has reset the context
            _native.set_current(self._retain())
        if _thread_contexts_used:
            _thread.contexts.pop(self._id, None)  # last, because this can destroy the old context
        return None

    def create_context(self, options: ContextOptions | Mapping[str, Any] | None = None) -> Context:
        """Create a green context, whose work runs on a part of the device (cuGreenCtxCreate). Needs CUDA 12.4.

        The green context shares memory, code and events with the primary context, but not streams. The current context
        does not change.

        Parameters
        ----------
        options : ContextOptions or mapping
            The resources of the context, which must be of this device.

        Raises
        ------
        ValueError
            If there are no resources, or a resource belongs to another device, is given twice, or comes from a dry
            run.
        CUDAError
            If the driver does not support green contexts, or this combination of resources.
        """
        return Context._create(self._id, options)

    @options_apart("StreamOptions")
    def create_stream(
        self, obj: IsStreamType | None = None, options: StreamOptions | StreamOptionsDict | None = None
    ) -> Stream:
        """Create a stream, or borrow one (cuStreamCreateWithPriority).

        Parameters
        ----------
        obj : object with ``__cuda_stream__``, optional
            A stream to borrow; the object is kept alive as long as its stream is in use.
        options : StreamOptions or dict of its fields, optional
            Options of a new stream; an error together with `obj`.

        Raises
        ------
        ValueError
            If both `obj` and `options` are given, or `obj` is a stream of another device.
        """
        if obj is None:
            return _create_stream(self._target(), options)
        if options is not None:
            raise ValueError("obj and options cannot be both specified: options are for a new stream")
        if not hasattr(obj, "__cuda_stream__"):
            from cudacore_handles._stream.options import StreamOptions

            hint = f"; write options={type(obj).__name__}(...)" if isinstance(obj, (StreamOptions, Mapping)) else ""
            raise TypeError(f"obj must have __cuda_stream__; {type(obj).__name__} has none{hint}")
        stream = Stream._from_protocol(obj)
        box = hold(stream)
        context = lib.cch_stream_context(box)
        if context and lib.cch_context_device(context) != self._id:
            raise ValueError(f"obj is a stream of device {lib.cch_context_device(context)}, not of device {self._id}")
        return stream

    def create_event(self, options: EventOptions | EventOptionsDict | None = None) -> Event:
        """Create an event (cuEventCreate).

        Parameters
        ----------
        options : EventOptions or dict of its fields, optional
            Options of the event. Default: no timing, no blocking.
        """
        return _create_event(self._target(), options)

    def allocate(self, size: SupportsIndex, *, stream: Stream | IsStreamType) -> Buffer:
        """Allocate memory from the device's :attr:`memory_resource`.

        Parameters
        ----------
        size : int
            Size in bytes; a buffer of 0 bytes has no memory.
        stream : Stream
            The stream on which the allocation, and later the free, is ordered.

        Raises
        ------
        OutOfMemoryError
            If there is not enough memory.
        """
        try:
            resource = _memory_resources[self._id]
        except KeyError:
            resource = self.memory_resource
        buffer = resource.allocate(size, stream=stream)  # type: ignore[arg-type]  # resources of programs declare an int
        if not isinstance(buffer, _BufferHandle):
            raise no_buffer(resource, buffer)
        return buffer

    def to_device(self, array: AnyArrayType, *, stream: Stream | IsStreamType) -> StridedMemoryView:
        """Copy an array into new memory of the device, with its shape and type, in C order.

        Parameters
        ----------
        array : array
            An array of NumPy or another library, or a view. The host waits for the copy of ordinary host memory.
        stream : Stream
            The stream on which the allocation, the copy, and later the free, are ordered.
        """
        copy: StridedMemoryView = _upper["copy_array"](self, array, stream)
        return copy

    def create_opaque_array(self, options: OpaqueArrayOptions) -> OpaqueArray:
        """Create a CUDA array, for textures and surfaces (cuArray3DCreate).

        Parameters
        ----------
        options : OpaqueArrayOptions
            Extents, format and channels of the texels.
        """
        made: OpaqueArray = _upper["create_array"](self, options)
        return made

    def create_mipmapped_array(self, options: MipmappedArrayOptions) -> MipmappedArray:
        """Create a mipmapped array, for textures (cuMipmappedArrayCreate).

        Parameters
        ----------
        options : MipmappedArrayOptions
            Extents, format and channels of the texels, and the number of levels.
        """
        made: MipmappedArray = _upper["create_mipmapped_array"](self, options)
        return made

    def create_texture_object(
        self, *, resource: ResourceDescriptor, options: TextureObjectOptions | None = None
    ) -> TextureObject:
        """Create a texture, through which kernels sample an array or memory (cuTexObjectCreate).

        Parameters
        ----------
        resource : ResourceDescriptor
            The resource that the texture reads. The texture keeps it alive.
        options : TextureObjectOptions, optional
            How the texture is sampled. Default: the nearest texel, by coordinates in texels.
        """
        made: TextureObject = _upper["create_texture"](self, resource, options)
        return made

    def create_surface_object(self, *, resource: ResourceDescriptor) -> SurfaceObject:
        """Create a surface, through which kernels load and store the texels of an array (cuSurfObjectCreate).

        Parameters
        ----------
        resource : ResourceDescriptor
            An array that was created with ``is_surface_load_store=True``.
        """
        made: SurfaceObject = _upper["create_surface"](self, resource)
        return made

    def sync(self) -> None:
        """Wait until all work on the device's context is done (cuCtxSynchronize).

        On the main thread, signals such as Ctrl+C are handled during the wait, and end it if their handler raises an
        exception. This needs a driver for CUDA 12.5 or later, which has cuCtxRecordEvent.
        """
        _native.sync_context(self._target())

    def can_access_peer(self, peer: Device | int) -> bool:
        """Return whether kernels of this device can access memory of another one (cuDeviceCanAccessPeer).

        For the device itself, the result is True.
        """
        other = Device(peer)._id
        return bool(query_driver("cuDeviceCanAccessPeer", self._id, other)) or other == self._id

    def create_graph_builder(self) -> GraphBuilder:
        """Create a graph builder that captures its own stream. Needs the package ``cudacore-graph``."""
        return _native.make_builder(self.create_stream())

    def _retain(self) -> Context:
        out = out_box("cch_context")
        check(lib.cch_context_primary(out, self._id))
        self._primary = context = adopt(Context, out)
        return context

    def _target(self) -> Context:
        """Return the context in which the device's methods work. Callers must not close it."""
        if _thread_contexts_used:
            context = _thread.contexts.get(self._id)
            if context is not None and not context.is_closed:
                return context
        return self._primary or self._retain()

    def _set_context(self, ctx: Context) -> Context | None:
        global _thread_contexts_used
        check_type("ctx", ctx, Context)
        own = ctx._own()  # a separate object, because the caller can close `ctx`
        box = hold(own)
        if lib.cch_context_device(box) != self._id:
            raise ValueError(f"ctx is a context of device {lib.cch_context_device(box)}, not of device {self._id}")
        previous = current_context()
        if not _native.set_current(own):
            raise closed(ctx)
        _thread.contexts.pop(self._id, None)
        if not lib.cch_context_is_primary(box):
            _thread_contexts_used = True
            _thread.contexts[self._id] = own
        return previous

    def _text(self, function: str) -> str:
        """Return the text that a function of the driver writes. Some functions end a long one without a NUL."""
        out = ffi.new("char[]", _TEXT_SIZE)
        call_driver(function, out, _TEXT_SIZE - 1, self._id)
        return str(ffi.string(out).decode())

    @property
    def device_id(self) -> int:
        """int: Ordinal."""
        return self._id

    @property
    def resources(self) -> DeviceResources:
        """DeviceResources: The resources of the device; :meth:`create_context` uses a part of them."""
        if self._resources is None:
            from cudacore_handles._driver.device_resources import DeviceResources

            self._resources = DeviceResources._with(_device_id=self._id, _context=None)
        return self._resources

    @property
    def name(self) -> str:
        """str: The device's name, such as ``"NVIDIA H200"`` (cuDeviceGetName)."""
        return self._text("cuDeviceGetName")

    @property
    def uuid(self) -> str:
        """str: The device's UUID, in the form 8-4-4-4-12 (cuDeviceGetUuid)."""
        if self._uuid is None:
            out = ffi.new("unsigned char[16]")
            call_driver("cuDeviceGetUuid", out, self._id)
            digits = bytes(out).hex()
            self._uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        return self._uuid

    @property
    def pci_bus_id(self) -> str:
        """str: PCI address, ``domain:bus:device.function`` (cuDeviceGetPCIBusId)."""
        return self._text("cuDeviceGetPCIBusId")

    def to_system_device(self) -> SystemDevice:
        """Return the device of NVML with the same UUID, a :class:`cudacore.system.Device`.

        Raises
        ------
        ImportError
            If the package cudacore or ``cuda.bindings.nvml`` is not installed.
        CUDAError
            If there is no NVML, or it does not have the device.
        """
        advice = "cudacore.system is in the package cudacore: pip install 'cudacore[system]'"
        system = upper_package("cudacore.system", advice)
        found: SystemDevice = system.Device._of_cuda_uuid(self.uuid)
        return found

    @property
    def properties(self) -> DeviceProperties:
        """DeviceProperties: The device's attributes."""
        if self._properties is None:
            from cudacore_handles._driver.device_properties import DeviceProperties

            self._properties = DeviceProperties._with(_device_id=self._id)
        return self._properties

    @property
    def compute_capability(self) -> ComputeCapability:
        """ComputeCapability: The version of the device's architecture, such as ``(9, 0)``."""
        if self._capability is None:
            found = self.properties
            self._capability = ComputeCapability(found.compute_capability_major, found.compute_capability_minor)
        return self._capability

    @property
    def arch(self) -> str:
        """str: The number of the device's architecture, such as ``"90"``: compile for ``f"sm_{device.arch}"``."""
        major, minor = self.compute_capability
        return f"{major}{minor}"

    @property
    def context(self) -> Context:
        """Context: The context of the device's methods: the primary one, unless another one was set."""
        return self._target()._own()  # each caller gets a separate object, which it may close

    @property
    def memory_resource(self) -> DeviceMemoryResource | Any:  # type checkers assume a DeviceMemoryResource
        """MemoryResource: The memory resource of :meth:`allocate`; can be set.

        The initial one is the device's own pool, a :class:`DeviceMemoryResource`. Setting a resource for memory of
        another device is a ValueError.
        """
        known = _memory_resources.get(self._id)
        return _memory_resources.setdefault(self._id, _upper["make_memory_resource"](self)) if known is None else known

    @memory_resource.setter
    def memory_resource(self, mr: MemoryResource) -> None:
        _upper["check_memory_resource"](self, mr)
        _memory_resources[self._id] = mr

    @property
    def memory_info(self) -> MemoryInfo:
        """MemoryInfo: Free and total memory of the device, in bytes (cuMemGetInfo)."""
        free, total = ffi.new("size_t *"), ffi.new("size_t *")
        check(lib.cch_context_memory_info(free, total, hold(self._target())))
        return MemoryInfo(int(free[0]), int(total[0]))

    @property
    def default_stream(self) -> Stream:
        """Stream: The default stream; see :func:`default_stream`."""
        return default_stream()


# Whether any thread has made a context other than a primary one current. Until then, contexts are not looked up.
_thread_contexts_used = False


def _find(device_id: object) -> Device:
    """Check an ordinal, and return the only Device object for it."""
    if isinstance(device_id, Device):
        return device_id
    ordinal = check_int("device_id", device_id, "an int or a Device")
    count = result_of(lib.cch_device_count)
    if not 0 <= ordinal < count:
        bounds = ">= 0" if ordinal < 0 else f"within [0, {count})"
        devices = f"{count} device" + "s" * (count != 1)
        raise ValueError(f"device_id must be {bounds}, got {ordinal}: this machine has {devices}")
    device = object.__new__(Device)
    device._id = ordinal
    device._primary = device._properties = device._resources = device._capability = device._uuid = None
    return _devices.setdefault(ordinal, device)


def find_device(uuid: str | None) -> Device:
    """Find a device by its UUID, because each process has its own ordinals."""
    if uuid is None:
        return Device()
    for device in Device.get_all_devices():
        if device.uuid == uuid:
            return device
    raise RuntimeError(
        f"device {uuid} was not found: processes can share resources only on one machine, and only of devices that "
        "CUDA_VISIBLE_DEVICES does not hide from this process"
    )


_native.connect("driver", context=Context, device=Device)
