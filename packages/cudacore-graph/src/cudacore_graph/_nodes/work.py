# SPDX-License-Identifier: Apache-2.0
"""Nodes that launch kernels, call host functions, record events and wait for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cudacore_graph._arguments import KernelValue, check_args, unpack_args
from cudacore_graph._errors import NODE_WAS_INSTANTIATED
from cudacore_graph._nodes.node import (
    Description,
    ExecutableGraphNode,
    GraphNode,
    SwitchableNode,
    bytes_text,
    printable,
    short,
    times,
)
from cudacore_handles import CUDAError, Event, Kernel, LaunchConfig
from cudacore_handles._sdk import ffi, lib, shorten
from cudacore_handles._sdk import graph_native as _native
from cudacore_handles._sdk.graph import check_config
from cudacore_handles.typing import KernelArgumentType

__all__: list[str] = [
    "EventRecordNode",
    "EventWaitNode",
    "ExecutableEventRecordNode",
    "ExecutableEventWaitNode",
    "ExecutableHostCallbackNode",
    "ExecutableKernelNode",
    "HostCallbackNode",
    "KernelNode",
]


class ExecutableKernelNode(SwitchableNode):
    """A node of an executable graph that launches a kernel."""

    __slots__ = ()

    def update(
        self,
        *values: KernelArgumentType,
        config: LaunchConfig | None = None,
        kernel: Kernel | None = None,
        args: Sequence[KernelArgumentType] | None = None,
    ) -> None:
        """Change the kernel, its configuration and arguments from the next launch on (cuGraphExecKernelNodeSetParams).

        Parameters
        ----------
        *values
            All arguments of the kernel, as for :func:`launch`.
        config : LaunchConfig, optional
            The launch configuration. Default: that of the node in the definition, whatever was set here before.
        kernel : Kernel, optional
            The kernel. Default: that of the node in the definition.
        args : tuple, optional
            All arguments of the kernel, instead of `values`; ``()`` for a kernel without parameters.
        """
        if values or args is None:
            args = _one_of(values, args)
            if args is None:
                raise TypeError("the kernel's arguments are missing: write update(a, b), or args=() if it has none")
        if config is None:
            config = self._node.config
        if kernel is None:
            kernel = self._node.kernel
        if type(args) is not tuple:
            args = check_args(kernel, args)
        _native.set_exec_node(self._graph, self._node, config, kernel, *args)


def _one_of(
    values: tuple[KernelArgumentType, ...], args: Sequence[KernelArgumentType] | None
) -> Sequence[KernelArgumentType] | None:
    if values and args is not None:
        raise TypeError("the kernel's arguments are given twice: write update(a, b), or update(args=(a, b))")
    return values or args


class KernelNode(GraphNode):
    """A node that launches a kernel."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_KERNEL
    _TITLE = "kernel"
    _COLOUR = "#d9ead3"
    _METHOD = "launch"
    _EXEC_HINT = f"A kernel stays on its device. {NODE_WAS_INSTANTIATED}"
    _EXECUTABLE = ExecutableKernelNode

    def update(
        self,
        *values: KernelArgumentType,
        config: LaunchConfig | None = None,
        kernel: Kernel | None = None,
        args: Sequence[KernelArgumentType] | None = None,
    ) -> None:
        """Change what is launched from the next instantiation on (cuGraphKernelNodeSetParams).

        Values that are not given do not change. Graphs that were instantiated before are not affected.

        Parameters
        ----------
        *values
            All arguments of the kernel, as for :func:`launch`.
        config : LaunchConfig, optional
            The launch configuration.
        kernel : Kernel, optional
            The kernel; needs its arguments, too.
        args : tuple, optional
            All arguments of the kernel, instead of `values`; ``()`` for a kernel without parameters.

        Raises
        ------
        ValueError
            If a kernel is given without its arguments.
        """
        if values:
            args = _one_of(values, args)
        if kernel is not None and args is None:
            raise ValueError("a new kernel needs its arguments: give args, () if it has no parameters")
        if config is None and args is None:
            return
        config = self.config if config is None else check_config(config)
        if args is None:
            try:
                _native.set_config(self, config)
            except CUDAError as error:
                if error.code == lib.CCH_EMISMATCH:
                    error.hint = "Another library added this node, so its arguments are unknown: give args, too"
                raise
            return
        kernel = self.kernel if kernel is None else kernel
        _native.set_node(self, config, kernel, *check_args(kernel, args))

    @property
    def config(self) -> LaunchConfig:
        """LaunchConfig: The complete launch configuration, including clusters."""
        return _native.read_config(self)

    @property
    def kernel(self) -> Kernel:
        """Kernel: The kernel."""
        return _native.read_kernel(self)

    @property
    def args(self) -> tuple[KernelValue, ...]:
        """tuple of int, float, bool or bytes: The kernel's arguments, by the kinds of its parameters.

        Pointers are addresses, which keep no memory alive. Structs, and parameters whose kind is unknown, are bytes.
        Only a C++ name says which integers have a sign: -1 in an ``extern "C"`` kernel is 4294967295.
        For nodes that another library added, a driver for CUDA 12.4 is needed.

        Examples
        --------
        >>> code = "__global__ void fill(float *x, int n, float value) { if (threadIdx.x < n) x[0] = value; }"
        >>> fill = core.Program(code, "c++").compile("cubin", name_expressions=["fill"]).get_kernel("fill")
        >>> buffer = device.allocate(64, stream=stream)
        >>> node = core.graph.GraphDefinition().launch(core.LaunchConfig(grid=1, block=32), fill, buffer, 16, 1.5)
        >>> node.args == (buffer.handle, 16, 1.5)
        True
        """
        params, kept = self._read_kept("kernel")
        block = bytes(ffi.buffer(params.args, params.args_size)) if params.args != ffi.NULL else b""
        del kept
        kernel = Kernel._init(ffi.addressof(params[0], "kernel"))
        return unpack_args(block, kernel.arguments_info)

    @property
    def grid(self) -> tuple[int, ...]:
        """tuple of int: Size of the grid in x, y and z: in clusters if `config` has clusters, otherwise in blocks."""
        return self.config.grid

    @property
    def block(self) -> tuple[int, ...]:
        """tuple of int: Number of threads per block in x, y and z."""
        return self.config.block

    @property
    def shmem_size(self) -> int:
        """int: Dynamic shared memory per block, in bytes."""
        return self.config.shmem_size

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        config = self.config
        details = [f"grid {times(config.grid)}", f"block {times(config.block)}"]
        if config.cluster is not None:
            details.append(f"cluster {times(config.cluster)}")
        if config.shmem_size:
            details.append(f"shared {bytes_text(config.shmem_size)}")
        if config.is_cooperative:
            details.append("cooperative")
        return Description(name_of(self.kernel), tuple(details), ())


def name_of(kernel: Kernel) -> str:
    """Return the kernel's name, or its handle if the driver has no name for it."""
    name = kernel._symbol()
    return f"kernel {short(kernel._raw)}" if name is None else shorten(printable(name))


class ExecutableHostCallbackNode(ExecutableGraphNode):
    """A node of an executable graph that calls a host function."""

    __slots__ = ()

    def update(self, fn: Callable[..., Any], *, user_data: Any = None) -> None:
        """Call another function from the next launch on (cuGraphExecHostNodeSetParams).

        See :meth:`GraphDefinition.callback`.
        """
        _native.set_exec_node(self._graph, self._node, fn, user_data)


class HostCallbackNode(GraphNode):
    """A node that calls a host function."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_HOST
    _TITLE = "callback"
    _COLOUR = "#f4cccc"
    _METHOD = "callback"
    _EXEC_HINT = NODE_WAS_INSTANTIATED
    _EXECUTABLE = ExecutableHostCallbackNode

    def update(self, fn: Callable[..., Any], *, user_data: Any = None) -> None:
        """Call another function from the next instantiation on (cuGraphHostNodeSetParams).

        See :meth:`GraphDefinition.callback`.
        """
        _native.set_node(self, fn, user_data)

    @property
    def function(self) -> Callable[[], Any] | None:
        """callable or None: The Python function; None for a ctypes function.

        ``cuda.core`` calls this attribute `callback`. Here, `callback` is the method of nodes that adds such a node.
        """
        _, (function, _) = self._read_owned("host")
        return function

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        function = self.function
        return Description(self._TITLE, (_function_name(function) if function is not None else "a C function",), ())


def _function_name(function: object) -> str:
    """Return the name of a callable. The callable may generate its attributes dynamically."""
    try:
        name = getattr(function, "__qualname__", None)
    except Exception:
        name = None
    return shorten(printable(name if isinstance(name, str) and name else type(function).__name__))


class ExecutableEventNode(ExecutableGraphNode):
    """A node of an executable graph that records an event or waits for one."""

    __slots__ = ()

    def update(self, event: Event) -> None:
        """Use another event from the next launch on.

        This is cuGraphExecEventRecordNodeSetEvent or cuGraphExecEventWaitNodeSetEvent.
        """
        _native.set_exec_node(self._graph, self._node, event)


class ExecutableEventRecordNode(ExecutableEventNode):
    """A node of an executable graph that records an event."""

    __slots__ = ()


class ExecutableEventWaitNode(ExecutableEventNode):
    """A node of an executable graph that waits for an event."""

    __slots__ = ()


class EventNode(_native.EventNodeHandle, GraphNode):
    """A node that records an event or waits for one."""

    __slots__ = ()
    _COLOUR = "#ead1dc"
    _EXEC_HINT = NODE_WAS_INSTANTIATED

    def update(self, event: Event) -> None:
        """Use another event from the next instantiation on.

        This is cuGraphEventRecordNodeSetEvent or cuGraphEventWaitNodeSetEvent.
        """
        _native.set_node(self, event)

    def _describe(self) -> Description:
        """Return the description of the node for pictures."""
        return Description(self._TITLE, (f"event {short(self.event._raw)}",), ())


class EventRecordNode(EventNode):
    """A node that records an event."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_EVENT_RECORD
    _TITLE = "record"
    _METHOD = "record"
    _EXECUTABLE = ExecutableEventRecordNode


class EventWaitNode(EventNode):
    """A node that waits for an event."""

    __slots__ = ()
    _TYPE = lib.CCH_NODE_EVENT_WAIT
    _TITLE = "wait"
    _METHOD = "wait"
    _EXECUTABLE = ExecutableEventWaitNode
