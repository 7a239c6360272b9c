# SPDX-License-Identifier: Apache-2.0
"""The compiled half of this package.

This package is pure Python. The bases of its classes, and the functions that are called often, are the graph part of
the extension module of cudacore-handles: its C code is in ``src/native/graph`` there, its types in the stub beside this
file.
"""

from cudacore_handles._native import (
    Adjacency,
    Condition,
    ExecHandle,
    GraphHandle,
    NodeHandle,
    add_nodes,
    alloc_address,
    capture_add,
    change_edges,
    clone_graph,
    exec_enabled,
    graph_edges,
    graph_nodes,
    host_function_of,
    locked_call,
    neighbours,
    read_node,
    set_exec_node,
    set_kernel_node,
    set_node,
    update_exec,
)

__all__ = [
    "Adjacency",
    "Condition",
    "ExecHandle",
    "GraphHandle",
    "NodeHandle",
    "add_nodes",
    "alloc_address",
    "capture_add",
    "change_edges",
    "clone_graph",
    "exec_enabled",
    "graph_edges",
    "graph_nodes",
    "host_function_of",
    "locked_call",
    "neighbours",
    "read_node",
    "set_exec_node",
    "set_kernel_node",
    "set_node",
    "update_exec",
]
