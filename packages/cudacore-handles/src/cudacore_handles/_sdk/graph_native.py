# SPDX-License-Identifier: Apache-2.0
"""The graph part of the extension module, which cudacore-graph uses: bases of its classes, and frequent calls.

The C code is in ``src/native/graph``. The stub beside this file has the types and the docstrings.
"""

from cudacore_handles._native import (
    PLACE_IN_EXEC,
    Adjacency,
    AllocHandle,
    Condition,
    ConditionalHandle,
    EventNodeHandle,
    ExecHandle,
    ExecutableNode,
    FreeHandle,
    GraphHandle,
    Handle,
    MemcpyHandle,
    MemsetHandle,
    NodeHandle,
    add_kernels,
    add_nodes,
    capture_add,
    change_edges,
    clone_graph,
    create_condition,
    create_graph,
    destroy_nodes,
    graph_edges,
    graph_nodes,
    instantiate,
    numbered_node,
    read_config,
    read_kernel,
    read_node,
    set_config,
    set_exec_node,
    set_kernels,
    set_node,
    share_graph,
    update_exec,
)
