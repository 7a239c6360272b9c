# SPDX-License-Identifier: Apache-2.0
"""For cudacore-graph: arguments of nodes, memory, and streams. The compiled part is in ``graph_native``."""

from cudacore_handles._base.attribute import Attribute, MemoryAttributes, Setting
from cudacore_handles._base.live_set import LiveSet
from cudacore_handles._code.param_kinds import ParamKind, pack_layout
from cudacore_handles._driver.context import current_context
from cudacore_handles._launch.launch import check_kernel
from cudacore_handles._launch.launch_config import check_config
from cudacore_handles._memory.arguments import check_size
from cudacore_handles._memory.arrays import check_values, has_protocol, why_no_array
from cudacore_handles._memory.fill import fill_pattern
from cudacore_handles._memory.out_of_memory import explained
from cudacore_handles._memory.pool import Pool
from cudacore_handles._memory.resource import AccessibleMemoryResource
from cudacore_handles._native import (
    HAS_VALUE,
    UNSIGNED,
    Builder,
    CaptureBase,
    Taken,
    allocate,
    connect,
    gather_capture,
    join_capture,
    make_builder,
    pack,
    register,
    take,
)
from cudacore_handles._stream.stream import Stream_accept, is_capturing

# The functions of the library that only cudacore-graph calls; tools/generate_cffi.py binds what is named here:
# cch_array_wrap, cch_capture_end, cch_graph_clone, cch_graph_debug_dot_print, cch_graph_node_context,
# cch_graph_node_read
