# SPDX-License-Identifier: Apache-2.0
# The extension module, without the parts that only cudacore-graph uses: these are in _sdk/graph_native.pyi. The types
# are the module's own. Classes that derive from them repeat the signatures of which users need more.
from collections.abc import Callable
from typing import Any, TypeVar

from cudacore_handles.typing import IsStreamType, KernelArgumentType

_H = TypeVar("_H", bound=Handle)
_T = TypeVar("_T")
_C = TypeVar("_C", bound=CaptureBase)
_G = TypeVar("_G", bound=Builder)
_M = TypeVar("_M", bound=TensorMapHandle)
_V = TypeVar("_V", bound=ViewHandle)
_B = TypeVar("_B", bound=BufferHandle)
_Trackers = tuple[Handle, ...] | None
_Code = int | Callable[[Any, int], bytes | int] | tuple[tuple[str, ...], tuple[str, ...] | None, str] | object

SIGNED: int
UNSIGNED: int
FLOAT: int
COMPLEX: int
BOOL: int
POINTER: int
ARRAY: int
TENSOR_MAP: int
HAS_VALUE: int
PARAM_KINDS: tuple[tuple[str, int], ...]
TAKES_BYTES: int
IS_POINTER: int

ANY_DEVICE: int
DL_CPU: int
DL_CUDA: int
DL_CUDA_HOST: int
DL_CUDA_MANAGED: int

api: object
exchange_api: object

def open_handle_capsule(address_of_out: int, capsule: object, /) -> str:
    """Store a new reference to the box that a capsule holds in an out-parameter, and return the kind of the box."""

def hold(face_or_address: Handle | int, /) -> Any:
    """Return a pointer of cffi to a box, which owns a new reference to it.

    The box is that of a face, which must not be closed, or the one at an address.
    """

def driver_status(function: str, /, *arguments: Any, context: Handle | None = None) -> int:
    """Call a function of the driver; return its result, as the functions of the library do.

    Parameters
    ----------
    function : str
        The name of the function.
    *arguments
        Up to eight pointers, numbers, bytes, and objects such as streams, which stand for their handles. A device is
        given by its ordinal.
    context : Context, optional
        The context that is made current for the call.

    Raises
    ------
    ClosedError
        If an object is closed.
    """

def query_driver(function: str, /, *arguments: Any) -> int:
    """Call a function of the driver whose first parameter is for an int; return this number.

    The other arguments are those of :func:`driver_status`. If the call fails, its error is raised.
    """

def query_driver_size(function: str, /, *arguments: Any) -> int:
    """Call a function like :func:`query_driver`, whose number is not negative: a size or an address."""

def file_states(groups: bytes, /) -> bytes:
    """Return the states of files and directories: six signed 64-bit integers for each name.

    These are the device, the inode, the mode, the size, and the times of the last modification and of the last change
    in nanoseconds. All are 0 if there is no such file, and the mode is a negative error number if it cannot be looked
    up.

    Parameters
    ----------
    groups : bytes
        Directories, each followed by names in it. Each of them ends with a NUL, and a directory with its names does,
        too.
    """

def library_loads() -> int:
    """Return how many libraries the dynamic linker has loaded into this process so far."""

def make(cls: type[_T], /, **attributes: Any) -> _T:
    """Return a new object of a class with the given attributes, without a call of its constructor."""

class Handle:
    """The base of the classes of CUDA objects: it holds a reference to a box."""

    @classmethod
    def _adopt(cls: type[_H], address_of_out: int, /) -> _H:
        """Return a new object for the box in an out-parameter, and take the reference out of it."""
    @classmethod
    def _share(cls: type[_H], address: int, /) -> _H:
        """Return a new object with a reference of its own to the box at the address."""
    def close(self) -> None:
        """Release the object's reference to the resource. Closing it again does nothing."""
    def __cudacore_handle__(self) -> object:
        """Return a capsule for other extension modules, with its own reference and the name of its kind."""
    @property
    def is_closed(self) -> bool:
        """bool: Whether :meth:`close` was called."""
    @property
    def _raw(self) -> int:
        """int: The CUDA handle or address, even after the object was closed."""

class ContextHandle(Handle):
    """The base of Context."""

    def _own(self) -> Any:
        """Return another Context of the same context, because callers can close the one that they have."""
    @property
    def device(self) -> Any:
        """Device: The device that the context is on."""
    @property
    def is_green(self) -> bool:
        """bool: Whether this is a green context, which has a part of the device's resources."""

class EventHandle(Handle):
    """The base of Event."""

    def __sub__(self, other: EventHandle, /) -> float: ...
    def sync(self) -> None:
        """Wait until the work recorded in the event is done (cuEventSynchronize).

        On the main thread, signals such as Ctrl+C are handled during the wait, and end it if their handler raises an
        exception.

        Raises
        ------
        CUDAError
            If the driver fails, for example because earlier work failed.
        """
    @property
    def is_done(self) -> bool:
        """bool: Whether the work recorded in the event is done (cuEventQuery)."""
    @property
    def is_timing_enabled(self) -> bool:
        """bool: Whether the event can measure time."""
    @property
    def is_blocking_sync(self) -> bool:
        """bool: Whether a thread that waits for the event sleeps."""
    @property
    def is_ipc_enabled(self) -> bool:
        """bool: Whether other processes can use the event."""
    @property
    def context(self) -> Any:
        """Context or None: The context of the event; None if the event is borrowed and the context was not given."""
    @property
    def device(self) -> Any:
        """Device or None: The device of the event; None if its :attr:`context` is not known."""

class StreamHandle(Handle):
    """The base of Stream."""

    def close(self) -> None:
        """Release the stream. Closing it again, or closing a default stream, does nothing.

        Queued work still runs. The stream is destroyed when nothing refers to it, such as a buffer that will be freed
        on it.
        """
    def sync(self) -> None:
        """Wait until all work of the stream is done (cuStreamSynchronize).

        On the main thread, signals such as Ctrl+C are handled during the wait, and end it if their handler raises an
        exception.

        Raises
        ------
        CUDAError
            If the driver fails, for example because earlier work failed.
        """
    def _finish(self) -> None:
        """Wait like :meth:`sync`, also after a signal: for work that uses memory which the caller frees."""
    def record(self, event: Any = None, options: Any = None) -> Any:
        """Record an event after the stream's present work (cuEventRecord).

        Parameters
        ----------
        event : Event, optional
            The event to record. Default: a new one.
        options : EventOptions or dict of its fields, optional
            Options of a new event. They cannot be combined with `event`.

        Returns
        -------
        Event
            The event.
        """
    def wait(self, event_or_stream: Any) -> None:
        """Make later work of this stream wait, without blocking the host.

        Parameters
        ----------
        event_or_stream : Event or Stream
            The event to wait for (cuStreamWaitEvent), or a stream, whose present work is completed first.
        """
    def callback(self, fn: Callable[..., Any], *, user_data: Any = None) -> None:
        """Call a host function after the stream's present work and before its later work (cuLaunchHostFunc).

        The function must not call CUDA. It is kept alive until it has been called. An exception that it raises goes to
        ``sys.unraisablehook``. If the stream is being captured, the graph keeps and calls the function, as with
        :meth:`cudacore_graph.GraphBuilder.callback`. The function is not called if work of the context has failed, or
        once the interpreter ends.

        Parameters
        ----------
        fn : callable
            A Python function without arguments, or a ctypes function that takes one pointer and returns nothing.
        user_data : int or bytes-like, optional
            The argument of a ctypes function: an address, or bytes, which are copied and kept until the call.
        """
    @property
    def is_nonblocking(self) -> bool:
        """bool: Whether the stream runs without implicit ordering with the legacy default stream (cuStreamGetFlags)."""
    @property
    def priority(self) -> int:
        """int: The priority; lower numbers run first (cuStreamGetPriority)."""
    @property
    def context(self) -> Any:
        """Context: The stream's context; for a default stream, the current one."""
    @property
    def device(self) -> Any:
        """Device: The device that runs the stream's work."""

class BufferHandle(Handle):
    """The base of Buffer."""

    @classmethod
    def from_handle(
        cls: type[_B],
        ptr: int,
        size: int,
        mr: Any = None,
        owner: object | None = None,
        *,
        stream: IsStreamType | None = None,
    ) -> _B:
        """Make a buffer from existing memory.

        Parameters
        ----------
        ptr : int
            Address of the memory.
        size : int
            Size in bytes.
        mr : MemoryResource, optional
            The resource that frees it: ``mr.deallocate(ptr, size, stream=...)`` is called when the buffer is closed.
        owner : object, optional
            Instead of `mr`, an object that keeps the memory alive. It is referenced while the memory is in use. If it
            is a buffer or another CUDA object, it can be closed, because the buffer keeps its resource as well. With a
            buffer as the owner, the result is like a part of it: if it is closed on a stream, the owner's memory is
            freed after the work of that stream. An `owner` or `mr` that refers to the buffer is never garbage
            collected: close the buffer, or use a weak reference.
        stream : Stream, optional
            The stream that is passed to `mr`. Default: the stream given to :meth:`close`, or the default stream.

        Raises
        ------
        ValueError
            If both `owner` and `mr` are given.
        """
    @classmethod
    def _adopt_memory(
        cls: type[_B], address_of_out: int, memory_resource: object, owner: object, stream: object = None, /
    ) -> _B:
        """Return a new buffer for the cch_deviceptr in an out-parameter, and take the reference out of it.

        The free is ordered on the stream, if one is given.
        """
    def _set_access(self, device_id: int, by_device: bool, by_host: bool, managed: bool, /) -> None:
        """Set the properties of memory that neither its resource nor the driver can be asked about."""
    def _set_memory_resource(self, memory_resource: object, /) -> None:
        """Set the buffer's `memory_resource`. This does not change who frees the memory."""

    @property
    def handle(self) -> int:
        """int: Address of the memory; 0 if the buffer is closed."""
    @property
    def size(self) -> int:
        """int: Number of bytes; 0 if the buffer is closed."""
    @property
    def memory_resource(self) -> Any:
        """MemoryResource or None: The resource that allocated the memory, and frees it; None if closed."""
    @property
    def owner(self) -> object:
        """object: The object that keeps foreign memory alive, as given to :meth:`from_handle`; None if closed."""
    @property
    def device_id(self) -> int:
        """int: Ordinal of the memory's device; -1 for host memory."""
    @property
    def is_device_accessible(self) -> bool:
        """bool: Whether kernels can use the memory."""
    @property
    def is_host_accessible(self) -> bool:
        """bool: Whether the host can use the memory."""
    @property
    def is_managed(self) -> bool:
        """bool: Whether the memory is managed memory, which the driver moves between host and devices."""
    @property
    def is_read_only(self) -> bool:
        """bool: Whether the memory is host memory that was registered read-only; see :func:`register_host_memory`."""
    @property
    def is_mapped(self) -> bool:
        """bool: Whether the memory was imported from another process."""
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the memory as a one-dimensional DLPack tensor of bytes.

        The tensor keeps the memory alive, even if this object is closed.

        Parameters
        ----------
        stream : int, optional
            The consumer's stream. It waits for the stream that the buffer was allocated on, or the stream of
            :meth:`set_deallocation_stream`. The caller must order other work that writes to the buffer. -1: the work is
            not ordered. None means the legacy default stream for device memory. Host memory has no streams.
        max_version : tuple of int, optional
            The newest DLPack version that the consumer supports; from (1, 0) on, the tensor is versioned.
        dl_device : tuple of int, optional
            The device to export to: that of the memory, or the host, (1, 0), which needs a copy.
        copy : bool, optional
            Whether to export a copy. The host waits for a copy to the host. Default: only if `dl_device` needs one.
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device type and ordinal of the memory."""
    def close(self, stream: IsStreamType | None = None) -> None:
        """Free the memory, or release the reference to it. Closing the buffer again does nothing.

        Parameters
        ----------
        stream : Stream, optional
            The stream that the free is ordered on (cuMemFreeAsync); a default stream is that of the current context.
            Default: the stream of :meth:`set_deallocation_stream`, or else the stream of the allocation.
        """
    def record_stream(self, stream: IsStreamType, /) -> None:
        """Record that work on another stream uses the memory.

        The memory is freed after all work that the stream has when the memory is freed. The stream of the allocation
        does not wait for that work. The whole memory of a part is meant. A stream is remembered until the memory is
        freed.

        Parameters
        ----------
        stream : Stream
            The stream. A default stream is that of the current context.
        """
    def set_deallocation_stream(self, stream: IsStreamType, /) -> None:
        """Set the stream that the free is ordered on.

        The caller must order this stream after the work that uses the memory. :meth:`record_stream` adds a stream
        instead. A default stream is that of the current context.
        """

class ViewHandle:
    """The base of StridedMemoryView."""

    _itemsize: int
    @property
    def ptr(self) -> int:
        """int: Address of the element of index (0, ..., 0)."""
    @property
    def device_id(self) -> int:
        """int: Ordinal of the device that the memory is on; -1 for host memory."""
    @property
    def is_device_accessible(self) -> bool:
        """bool: Whether kernels can use the memory."""
    @property
    def readonly(self) -> bool:
        """bool: Whether the memory is read-only."""
    @property
    def exporting_obj(self) -> Any:
        """object: The array or Buffer that the view was made from."""
    @property
    def shape(self) -> tuple[int, ...]:
        """tuple of int: The extent of each axis."""
    @property
    def strides(self) -> tuple[int, ...] | None:
        """tuple of int or None: Strides in elements, not bytes. None: C order."""
    @property
    def size(self) -> int:
        """int: Number of elements."""
    @property
    def dtype(self) -> Any:
        """numpy.dtype or None: Type of the elements, from ml_dtypes if NumPy has none. None: unknown."""
    @property
    def _layout(self) -> Any:
        """_StridedLayout: Shape, strides and size of elements."""
    @property
    def _type(self) -> int: ...
    @property
    def _dtype_as_it_is(self) -> Any: ...
    @property
    def _device(self) -> tuple[int, int]: ...
    @property
    def _stream(self) -> Any: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the view as a DLPack tensor, which keeps the memory alive.

        Parameters
        ----------
        stream : int, optional
            The consumer's stream. It waits for the work on the stream of the buffer or of the exporting object. -1: the
            stream does not wait. None, for device memory: the legacy default stream.
        max_version : tuple of int, optional
            The newest DLPack version that the consumer accepts. From (1, 0) on, the tensor is versioned.
        dl_device : tuple of int, optional
            The device to export to: that of the memory, or the host, (1, 0), which needs a copy.
        copy : bool, optional
            Whether to export a copy. The host waits for a copy to the host. Default: only if `dl_device` needs one.
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device type and ordinal of the memory."""
    def _check_memory(self) -> None: ...
    def _order(self, stream: int | None, /) -> None: ...
    def record_stream(self, stream: IsStreamType, /) -> None:
        """Record that work on a stream uses the memory, which must be that of a :class:`Buffer`.

        The memory is freed after all work that the stream has when it is freed; see :meth:`Buffer.record_stream`. This
        orders the free after work that used the view when the buffer is already closed.

        Parameters
        ----------
        stream : Stream
            The stream.
        """

class KernelHandle(Handle):
    """The base of Kernel."""

    _name: str | None
    def _set_shared_allowed(self, nbytes: int, device_id: int, /) -> None:
        """Store that launches on a device may use this amount of dynamic shared memory."""
    @property
    def _layout(self) -> bytes | None:
        """bytes or None: The layout of the argument block, which the first launch reads from the driver."""
    @_layout.setter
    def _layout(self, layout: bytes) -> None: ...
    @property
    def _constants(self) -> dict[tuple[int, int], int]:
        """dict: Attributes that never change, by device and number. The kernel must be open."""
    @property
    def attributes(self) -> Any:
        """KernelAttributes: The attributes on the current device; ``attributes[device]`` for another one."""
    @property
    def occupancy(self) -> Any:
        """KernelOccupancy: How many blocks of the kernel fit on the current device."""

class KernelPart:
    """The base of KernelAttributes and KernelOccupancy."""

    _kernel: Any
    _device: int | None

def make_kernel(library: Handle | None, kernel: str | int, /) -> Any:
    """Return the kernel with a lowered name, or the one at an address, or the status of the call that failed."""

def occupancy_clusters(kernel: KernelHandle, config: Config, stream: StreamHandle, largest: bool, /) -> int:
    """Return the result of cch_occupancy_clusters."""

class Config:
    """The base of LaunchConfig."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    @property
    def grid(self) -> tuple[int, ...]:
        """tuple of int: Blocks, or clusters, in x, y and z."""
    @property
    def cluster(self) -> tuple[int, ...] | None:
        """tuple of int or None: Blocks per cluster in x, y and z."""
    @property
    def block(self) -> tuple[int, ...]:
        """tuple of int: Threads per block in x, y and z."""
    @property
    def shmem_size(self) -> int:
        """int: Dynamic shared memory per block, in bytes."""
    @property
    def is_cooperative(self) -> bool:
        """bool: Whether all blocks are resident at once."""
    @property
    def programmatic_stream_serialization(self) -> bool:
        """bool: Whether the kernel may begin before the previous one has ended."""
    @property
    def priority(self) -> int | None:
        """int or None: The priority; None: the stream's."""
    @property
    def _address(self) -> int:
        """The address of the cch_launch_config."""

class PreparedLaunch:
    """A launch of one kernel with packed arguments, for hot loops. :meth:`Kernel.prepare` makes it.

    ``prepared(*kernel_args)`` launches with new values, and ``prepared()`` with the current ones. ``prepared[i] =
    value`` replaces one argument. :attr:`block` is the packed argument block itself, for writing many values at once.
    ``len(prepared)`` is the number of arguments. Objects whose memory the values point into are kept alive until the
    values are replaced. If one of these objects was closed, a launch raises :class:`ClosedError`.
    """

    def __new__(
        cls,
        stream: StreamHandle,
        config: Config,
        kernel: KernelHandle,
        kernel_args: tuple[Any, ...],
        is_builder: bool = False,
    ) -> PreparedLaunch: ...
    def __call__(self, *kernel_args: KernelArgumentType) -> None: ...
    def __setitem__(self, index: int, value: KernelArgumentType) -> None: ...
    def __len__(self) -> int: ...
    @property
    def block(self) -> memoryview:
        """memoryview: The packed arguments, writable. :attr:`Kernel.arguments_info` has their offsets.

        The caller must keep alive the objects whose addresses are written here.
        """

class Taken:
    """Streams that are closed for everyone else until the end of a ``with`` block."""

    def __enter__(self) -> None: ...
    def __exit__(self, *exception: object) -> None: ...

def gather_capture(stream: StreamHandle, /) -> None:
    """Prepare a fork of a captured stream: if it waits for many nodes, add an empty node that waits for them."""

def join_capture(graph: Handle, stream: StreamHandle, into: StreamHandle, /) -> int:
    """Join a stream into another one, in the capture of a graph. Return the status of the library."""

def take(builders: tuple[Builder, ...], /) -> Taken | None:
    """Take the streams of builders, or return None if one of them is missing, closed or in use."""

class CaptureBase:
    """The base of Capture."""

    def __new__(cls: type[_C], graph: Handle, outer: CaptureBase = ...) -> _C: ...
    graph: Any
    mode: Any
    thread: int | None  # the thread that must end the capture; None if any thread can
    unjoined: Any
    failures: Any
    waiting: Any
    is_body: bool

class Builder:
    """The base of GraphBuilder: an object that is accepted wherever a stream is."""

    @property
    def _stream(self) -> Any: ...
    @property
    def _own(self) -> Any: ...
    @property
    def _work(self) -> Any: ...
    @property
    def _capture(self) -> Any: ...
    @property
    def _kind(self) -> int: ...
    @property
    def _state(self) -> int:
        """int: The state; GraphBuilder has the enumeration."""
    @property
    def _is_lost(self) -> bool:
        """bool: Whether the graph was lost because the capture of another builder of this graph failed."""
    def begin_building(self: _G, mode: Any = "relaxed") -> _G:
        """Begin to capture (cuStreamBeginCapture).

        Parameters
        ----------
        mode : str, optional
            Which unsafe calls the driver refuses during the capture: none (``"relaxed"``), those of this thread
            (``"thread_local"``), or those of all threads (``"global"``). Default ``"relaxed"``, in which any thread can
            end the capture. In the other modes, only the thread that began the capture can end it.

        Returns
        -------
        GraphBuilder
            This builder.

        Raises
        ------
        ValueError
            If `mode` is unknown.
        RuntimeError
            If building has begun already.
        """
    def end_building(self: _G) -> _G:
        """End the capture (cuStreamEndCapture): the graph is complete.

        Returns
        -------
        GraphBuilder
            This builder.

        Raises
        ------
        RuntimeError
            If builders that were split from this one are not joined, or if the mode binds the capture to another
            thread. The builder continues to build.
        CUDAError
            If the capture was invalidated by an operation that is not allowed in it. The builder is then closed.
        """
    def close(self) -> None:
        """Release the stream, and the graph if it is incomplete. Closing a builder twice does nothing.

        A capture in progress ends, and its graph is discarded. Builders that were split from this one are joined and
        closed. Work that was captured into a conditional body remains in the body. Views of the graph, and graphs that
        were made from it, remain valid. An exception in a ``with`` block closes the builder, too.
        """
    def _close(self) -> None:
        """Close the builder, which another thread cannot use."""
    def _ended(self) -> None:
        """Take no more work, because building has ended."""
    @property
    def stream(self) -> Any:
        """Stream: The stream that is captured. Closing this object does not affect the builder."""
    @property
    def is_closed(self) -> bool:
        """bool: Whether the builder was closed or joined."""
    @property
    def is_building(self) -> bool:
        """bool: Whether the builder is capturing. False if another capture into the graph has failed."""
    @property
    def is_join_required(self) -> bool:
        """bool: Whether the builder was split from another one, and must be joined before the other ends building."""
    @property
    def graph_definition(self) -> Any:
        """GraphDefinition: A view of the graph, with which nodes can be added. It outlives the builder.

        A primary builder has it after :meth:`end_building`. The builder of a conditional body also has it before
        :meth:`begin_building`, so that the body can be built with the view alone. A forked builder never has it.
        """
    def _accept_work(self) -> Any: ...  # only GraphBuilder has it

def make_builder(stream: StreamHandle, kind: int = 0, capture: CaptureBase | None = None, /) -> Any:
    """Make a GraphBuilder of a stream. A fork gets the capture that it belongs to; a body gets a new capture."""

def adopt_node(address_of_out: int, /) -> Any:
    """Return the node for the box in an out-parameter, and take the reference out of it."""

def end_callbacks() -> None:
    """Wait for running calls of Python functions, because the interpreter is about to end."""

def connect(room: str, /, **faces: object) -> None:
    """Set the Python classes and functions that a room of the module uses.

    The first call sets all of them. Later calls replace some of them.
    """

def call_owning(owner: object, function: Callable[..., int], /, *arguments: Any) -> int:
    """Call a function of the library that makes a box, and whose last two parameters are an owner and its release.

    The box keeps `owner` alive. If `owner` is None, the box has no owner. Return the function's status.
    """

def call_on_thread(function: Callable[[], _T], /) -> _T:
    """Call a function on a new thread, whose stack has at least 8 MiB, and return its result or raise its exception.

    If no thread can be started, the function is called on this thread. On the main thread, signals are handled during
    the wait. If a signal handler raises an exception, this function raises it, and the call goes on; its result is
    dropped.
    """

def call_interruptibly(function: Callable[[], _T], /) -> _T:
    """Call a function, like :func:`call_on_thread` on the main thread and on threads with small stacks.

    Other threads, which handle no signals and have the stack, call it themselves.
    """

def join_threads() -> None:
    """Wait until all calls that :func:`call_on_thread` began in this interpreter have ended."""

def create_event(context: Handle, options: Any, /) -> Any:
    """Return a new event in a context (cuEventCreate)."""

def sync_context(context: Handle, /) -> None:
    """Wait until all work of a context is done (cuCtxRecordEvent, cuCtxSynchronize).

    On the main thread, signals are handled during the wait, and end it if their handler raises an exception.
    """

def create_stream(context: Handle, options: Any, /) -> Any:
    """Return a new stream in a context (cuStreamCreateWithPriority)."""

def selects_per_thread() -> bool:
    """Return whether the environment selects the per-thread default stream."""

def deallocation_stream(memory: int, /) -> Any:
    """Return the stream that the memory of a cch_deviceptr is freed on, as a new object; None if there is none."""

def set_current(context: Handle, /) -> bool:
    """Make a context current (cuCtxSetCurrent). Return False if the context was lost in a reset."""

def pool_attribute(pool: Handle, number: int, /) -> int:
    """Return an attribute of a pool (cuMemPoolGetAttribute)."""

def memory_device(address: int, /) -> tuple[int, int]:
    """Return the DLPack device type and ordinal of memory, as the driver reports it."""

def work_stream(obj: object, device_type: int, device_id: int, /) -> int | None:
    """Return the current stream of an array's library, by DLPack's C exchange API; None if there is none."""

def order_streams(consumer: int, producer: int | StreamHandle, device: int, /) -> None:
    """Make a stream wait for the present work of another stream, by an event.

    If only one of the two streams is being captured, nothing is done: captured work does not run yet, so there is
    nothing to wait for, and the wait would make the other stream join the capture.

    Parameters
    ----------
    consumer : int
        Address of the stream that waits. A default stream means the default stream of `device`.
    producer : int or Stream
        The other stream, or its address. The address of a default stream means the default stream of `device`.
    device : int
        Ordinal of the device that the memory is on; -1 for host memory.
    """

def current_device() -> int:
    """Return the ordinal of the current device (cuCtxGetDevice), -1 if there is none."""

def allocate(
    cls: type[_B], pool: Handle, size: int, stream: IsStreamType | None, mr: object, trackers: _Trackers = None, /
) -> _B:
    """Return a new buffer of a class, allocated from a pool (cuMemAllocFromPoolAsync) and counted by `trackers`."""

def import_memory(
    cls: type[_B],
    pool: Handle | None,
    offset: int,
    size: int,
    stream: IsStreamType | None,
    mr: object,
    handle: bytes,
    /,
) -> _B:
    """Return a new buffer of a class, imported from another process (cuMemPoolImportPointer).

    `handle` is the bytes of the handle that the other process exported. If `pool` is None, this process exported it.
    """

def copy(dst: BufferHandle, src: BufferHandle, stream: IsStreamType, /) -> None:
    """Copy between buffers of the same size (cuMemcpyAsync)."""

def copy_batch(
    dsts: tuple[BufferHandle, ...],
    srcs: tuple[BufferHandle, ...],
    attributes: tuple[bytes | None, ...] | None,
    stream: IsStreamType,
    /,
) -> None:
    """Copy between the buffers of two tuples (cuMemcpyBatchAsync).

    `attributes` is None or a tuple of cch_copy_attributes as bytes.
    """

def copy_part(dst: BufferHandle, src: BufferHandle, shape: bytes, stream: IsStreamType, /) -> None:
    """Copy a part of a buffer, described by a cch_copy_shape (cuMemcpy3DAsync)."""

def fill(buffer: BufferHandle, value: int, width: int, stream: IsStreamType, /) -> None:
    """Fill a buffer with a value of 1, 2, 4 or 8 bytes (cuMemsetD8Async and similar functions)."""

def launch(stream: IsStreamType, config: Any, kernel: Any, /, *kernel_args: KernelArgumentType) -> None:
    """Launch a kernel (cuLaunchKernelEx).

    Arguments are packed by the kernel's signature, see :ref:`kernel-arguments`. A Python ``int``, ``float``, ``bool``
    or ``complex`` is converted to the size of its parameter; NumPy and ctypes scalars must have that size. A
    :class:`Buffer`, or another library's array on the stream's device, is passed as its address, None as a null
    pointer, and a bytes-like object as a struct by value. Memory that the arguments point into is kept alive until the
    driver has the work, even if another thread closes it meanwhile. The caller must order earlier work on arrays
    before the launch.

    Parameters
    ----------
    stream : Stream
        The stream of the launch, or an object with ``__cuda_stream__``.
    config : LaunchConfig
        The grid, the blocks and other properties of the launch.
    kernel : Kernel
        The kernel to launch.
    *kernel_args
        The kernel's arguments.

    Raises
    ------
    TypeError
        If there are too many or too few arguments, if their types or sizes do not fit the parameters, or if a number
        cannot be converted exactly.
    OverflowError
        If a number does not fit its parameter.
    ClosedError
        If an object is closed.
    CUDAError
        If the driver refuses the launch, if earlier work failed, or if an argument's memory is on a device that the
        stream's device cannot access.

    Examples
    --------
    >>> code = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'
    >>> twice = core.Program(code, "c++").compile("cubin").get_kernel("twice")
    >>> buffer = device.allocate(128, stream=stream)
    >>> core.launch(stream, core.LaunchConfig(grid=1, block=32), twice, buffer)
    """

def pack(layout: bytes, args: tuple[Any, ...], device: int | None = None, /) -> bytes:
    """Return the argument block of a launch: each value at its parameter's offset, with zeros as padding.

    Raise an error if `device` cannot access the memory of an argument. If `device` is None, this is not checked.
    """

def set_array_type_checks(enabled: bool, /) -> bool:
    """Set whether launches refuse arrays whose type differs from that of the kernel's pointer.

    A kernel with a parameter ``float *`` refuses an array of float64. The types are known for kernels with C++ names,
    and for ``extern "C"`` kernels from :meth:`Program.compile <cudacore_compile.Program.compile>`;
    :attr:`ParamInfo.pointee` shows them. The sign of integers is ignored, and complex numbers are two real ones.
    Pointers to ``void``, ``char``, ``unsigned char``, ``std::byte`` and structures take any array. Buffers have no
    type.

    A check takes about 1 ns for views and for arrays with DLPack's exchange API, whose type is beside the address, and
    3 ns for arrays of CuPy. For arrays with ``__cuda_array_interface__`` it takes 12 ns, a fraction of what the
    interface itself takes. The type is read each time, because arrays of one class have different types, and the type
    of an array can be set.

    Parameters
    ----------
    enabled : bool
        Whether to check the types, which is the default. The setting is for the whole interpreter.

    Returns
    -------
    bool
        Whether types were checked before.

    Examples
    --------
    >>> core.set_array_type_checks(False)
    True
    >>> core.set_array_type_checks(True)
    False
    """

def register(cls: type, code: _Code, /) -> None:
    """Register how values of exactly this type are packed.

    `code` is a number, a converter(value, size, kind), a capsule with DLPack's exchange API, or the names of the
    attributes that lead to the address and to the device (None: not known), and of the one with the dtype.
    """

def is_exchange_api(capsule: object, /) -> bool:
    """Return whether an object is a capsule with a DLPack exchange API that can be used."""

def from_dlpack(cls: type[_V], obj: object, stream_ptr: Any = None) -> _V:
    """Make a view of an array by DLPack: by its C exchange API if the type has one, and otherwise by ``__dlpack__``.

    Parameters
    ----------
    obj : object
        The array.
    stream_ptr : int or Stream, optional
        The stream that will use the array. It waits for the producer's work on the array's stream, unless the argument
        is -1. Required if a device can access the memory.

    Raises
    ------
    BufferError
        If the producer refuses to export the array, or `stream_ptr` is missing.
    AttributeError
        If the array has no ``__dlpack__``.
    """

def from_any_interface(cls: type[_V], obj: object, stream_ptr: Any = None) -> _V:
    """Make a view of an array by the first of its interfaces that accepts it.

    The interfaces are DLPack, ``__cuda_array_interface__`` and ``__array_interface__``, in this order.

    Parameters
    ----------
    obj : object
        The array.
    stream_ptr : int or Stream, optional
        See :meth:`from_dlpack`.

    Raises
    ------
    BufferError
        If no interface accepts the array; the message has the reasons.
    """

def from_cuda_array_interface(cls: type[_V], obj: object, stream_ptr: Any = None) -> _V:
    """Make a view of an array by ``__cuda_array_interface__``.

    Parameters
    ----------
    obj : object
        The array, whose interface is of version 2 or 3.
    stream_ptr : int or Stream, optional
        The stream that will use the array. It waits for the stream that the interface names. Version 2 of the
        interface names none. The stream then waits for the array library's current stream if the library has
        DLPack's C exchange API, as PyTorch does. -1: the stream does not wait.

    Raises
    ------
    BufferError
        If the interface is invalid, has a mask, or is of an unknown version; or if `stream_ptr` is None.
    """

def from_array_interface(cls: type[_V], obj: object) -> _V:
    """Make a view of an array in host memory by ``__array_interface__``.

    Raises
    ------
    BufferError
        If the interface is invalid, or has a mask.
    """

def from_buffer(
    cls: type[_V],
    buffer: BufferHandle,
    shape: Any,
    strides: Any = None,
    *,
    itemsize: int | None = None,
    dtype: Any = None,
    is_readonly: bool = False,
) -> _V:
    """Make a view of a buffer's memory.

    The view keeps the memory alive, even if the buffer is closed. No stream waits for another.

    Parameters
    ----------
    buffer : Buffer
        The memory; the view starts at its beginning.
    shape : tuple of int
        The extent of each axis; an int for one axis.
    strides : tuple of int, optional
        Strides in elements, not bytes. Default: C order.
    itemsize : int, optional
        Bytes per element. Default: the size of `dtype`.
    dtype : numpy.dtype, optional
        Type of the elements: a dtype, an argument of ``np.dtype()``, or a name such as "float32" or "bfloat16", which
        needs no other library. Default: unknown.
    is_readonly : bool, optional
        Whether the memory is read-only. Default False.

    Raises
    ------
    ValueError
        If the elements do not all lie within the buffer, or are not aligned.
    """

class TensorMapHandle:
    """The base of tensor maps: the 128 bytes that kernels are given, and the view whose memory they describe."""

    def __bytes__(self) -> bytes:
        """Return the 128 bytes of the ``CUtensorMap``. They do not keep the tensor's memory alive."""
    def _replace(self, tensor: ViewHandle, /) -> None: ...
    @property
    def _kind(self) -> int: ...
    @property
    def _device(self) -> int: ...
    @property
    def _data_type(self) -> int: ...
    @property
    def _rank(self) -> int: ...
    @property
    def _swizzle(self) -> int: ...
    @property
    def _tensor(self) -> Any: ...

def tensor_map_make(cls: type[_M], view: ViewHandle, kind: int, data_type: int, /, *arguments: Any) -> _M:
    """Return a tensor map of a view.

    The further arguments are the numbers of interleave, swizzle, L2 promotion and fill; the element strides or None;
    the box of a tiled map, or None. An im2col map has five more arguments: two corners, channels, pixels, and the mode.
    """

def create_array(cls: type[_H], context: Handle, desc: bytes, /) -> _H:
    """Return a new array or, if the description has levels, a new mipmapped array (cuArray3DCreate)."""

def create_texture(cls: type[_H], context: Handle, source: Handle, resource: bytes | None, desc: bytes | None, /) -> _H:
    """Return a new texture of an array or memory or, if `desc` is None, a surface of an array (cuTexObjectCreate)."""

def view_make(
    cls: type[_V],
    ptr: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    itemsize: int,
    packed: int,
    dtype: Any,
    device_type: int,
    device_id: int,
    readonly: bool,
    exporting: object,
    keeper: object,
    aligned: bool,
    /,
) -> _V:
    """Return a view of memory that `keeper` keeps alive: a Buffer, another view, or None.

    If `aligned` is true, memory that is not aligned for kernels is refused.
    """
