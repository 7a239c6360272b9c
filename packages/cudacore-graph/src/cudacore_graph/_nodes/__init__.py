# SPDX-License-Identifier: Apache-2.0
"""Nodes of graphs: their classes, executable views, pictures and hints."""

from __future__ import annotations

from cudacore_graph._errors import EXEC_HINTS, HINTS
from cudacore_graph._nodes import graphs, memory, node, work
from cudacore_handles._sdk import lib

__all__: list[str] = []
__all__ += graphs.__all__
__all__ += memory.__all__
__all__ += node.__all__
__all__ += work.__all__

_every = [getattr(module, name) for module in (graphs, memory, node, work) for name in module.__all__]
_known: dict[int, type[node.GraphNode]] = {cls._TYPE: cls for cls in _every if "_TYPE" in vars(cls)}
# Indexed by the numbers of CUDA's node types, and after these by CLASS_* of src/native/graph/graph.h. Nodes of types
# that have no class of their own, such as nodes of external semaphores, are of the class GraphNode.
CLASSES: tuple[type[node.GraphNode], ...] = (
    *(_known.get(number, node.GraphNode) for number in range(lib.CCH_NODE_CONDITIONAL + 1)),
    *graphs.ConditionalNode.__subclasses__(),
    node.GraphNode,
)
HINTS.update({cls._METHOD: cls._HINT for cls in CLASSES if cls._HINT})
EXEC_HINTS.update({cls._METHOD: cls._EXEC_HINT for cls in CLASSES if cls._EXEC_HINT})
HINTS["update_many"] = EXEC_HINTS["launch"]
