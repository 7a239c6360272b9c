# SPDX-License-Identifier: Apache-2.0
"""The functions and classes that the extension module uses."""

from __future__ import annotations

from cudacore_graph._adjacency import AdjacencySetProxy
from cudacore_graph._arguments import alloc_place, check_node_kernel, fill_value, node_memory
from cudacore_graph._builder import GraphBuilder
from cudacore_graph._capture import Capture
from cudacore_graph._condition import GraphCondition
from cudacore_graph._definition import GraphDefinition
from cudacore_graph._errors import check_begun, gone, node_failed
from cudacore_graph._nodes import CLASSES
from cudacore_handles._sdk.graph import connect

connect(
    "graph",
    adjacency=AdjacencySetProxy,
    alloc_place=alloc_place,
    builder=GraphBuilder,
    capture=Capture,
    condition=GraphCondition,
    check_node_kernel=check_node_kernel,
    fill_value=fill_value,
    gone=gone,
    graph=GraphDefinition,
    node_classes=CLASSES,
    node_failed=node_failed,
    node_memory=node_memory,
    not_begun=check_begun,
)
