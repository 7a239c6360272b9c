# SPDX-License-Identifier: Apache-2.0
"""Options of instantiation, and of the driver's own description of a graph."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cudacore_handles import IsStreamType, Stream
from cudacore_handles._sdk import Options, as_flag

# CUDA_GRAPH_INSTANTIATE_FLAG_*
_AUTO_FREE_ON_LAUNCH = 1
_UPLOAD = 2
_DEVICE_LAUNCH = 4
_USE_NODE_PRIORITY = 8


@dataclass
class GraphCompleteOptions(Options):
    """Options of instantiation.

    Attributes
    ----------
    auto_free_on_launch : bool, optional
        Whether a launch frees memory that the previous launch allocated and did not free. Default False.
    upload_stream : Stream, optional
        A stream on which the graph is uploaded to the device at once. Default None.
    device_launch : bool, optional
        Whether kernels can launch the graph. Cannot be combined with `auto_free_on_launch`. Default False.
    use_node_priority : bool, optional
        Whether kernels run with the priorities of their nodes instead of the stream's. Default False.
    """

    auto_free_on_launch: bool = False
    upload_stream: Stream | IsStreamType | None = None
    device_launch: bool = False
    use_node_priority: bool = False

    def _flags(self) -> int:
        """Return the driver's flags; raise an error for options that cannot be combined."""
        if self.auto_free_on_launch and self.device_launch:
            raise ValueError(
                "GraphCompleteOptions: auto_free_on_launch and device_launch cannot be both set: a graph that kernels "
                "launch frees its own memory"
            )
        return (
            (_AUTO_FREE_ON_LAUNCH if self.auto_free_on_launch else 0)
            | (_UPLOAD if self.upload_stream is not None else 0)
            | (_DEVICE_LAUNCH if self.device_launch else 0)
            | (_USE_NODE_PRIORITY if self.use_node_priority else 0)
        )


@dataclass
class GraphDebugPrintOptions(Options):
    """The contents of the driver's description of a graph, besides nodes and edges (CUgraphDebugDot_flags).

    Attributes
    ----------
    verbose : bool
        Everything. The default of all options is False.
    runtime_types : bool
        Structures of the CUDA runtime instead of the driver's.
    kernel_node_params, memcpy_node_params, memset_node_params, host_node_params, event_node_params : bool
        Parameters of nodes of these types.
    ext_semas_signal_node_params, ext_semas_wait_node_params, mem_alloc_node_params, mem_free_node_params : bool
        Parameters of nodes of these types.
    batch_mem_op_node_params, conditional_node_params : bool
        Parameters of nodes of these types.
    kernel_node_attributes : bool
        Attributes of kernel nodes.
    handles : bool
        Handles of nodes and kernels.
    extra_topo_info : bool
        Numbers of edges.
    """

    # The fields are in the order of the driver's flags.
    verbose: bool = False
    runtime_types: bool = False
    kernel_node_params: bool = False
    memcpy_node_params: bool = False
    memset_node_params: bool = False
    host_node_params: bool = False
    event_node_params: bool = False
    ext_semas_signal_node_params: bool = False
    ext_semas_wait_node_params: bool = False
    kernel_node_attributes: bool = False
    handles: bool = False
    mem_alloc_node_params: bool = False
    mem_free_node_params: bool = False
    batch_mem_op_node_params: bool = False
    extra_topo_info: bool = False
    conditional_node_params: bool = False

    def _flags(self) -> int:
        """Return the driver's flags."""
        return sum(
            1 << bit
            for bit, field in enumerate(fields(self))
            if as_flag(f"GraphDebugPrintOptions.{field.name}", getattr(self, field.name))
        )
