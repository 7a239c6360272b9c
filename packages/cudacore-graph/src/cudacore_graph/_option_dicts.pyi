# SPDX-License-Identifier: Apache-2.0
"""The types of options that are given as dicts, for type checkers. A test compares them with the dataclasses."""

from typing import TypedDict

from cudacore_handles import IsStreamType, Stream

class GraphCompleteOptionsDict(TypedDict, total=False):
    """The fields of :class:`GraphCompleteOptions`."""

    auto_free_on_launch: bool
    upload_stream: Stream | IsStreamType | None
    device_launch: bool
    use_node_priority: bool

class GraphDebugPrintOptionsDict(TypedDict, total=False):
    """The fields of :class:`GraphDebugPrintOptions`."""

    verbose: bool
    runtime_types: bool
    kernel_node_params: bool
    memcpy_node_params: bool
    memset_node_params: bool
    host_node_params: bool
    event_node_params: bool
    ext_semas_signal_node_params: bool
    ext_semas_wait_node_params: bool
    kernel_node_attributes: bool
    handles: bool
    mem_alloc_node_params: bool
    mem_free_node_params: bool
    batch_mem_op_node_params: bool
    extra_topo_info: bool
    conditional_node_params: bool
