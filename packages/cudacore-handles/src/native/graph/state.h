/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_GRAPH_STATE_H
#define CUDACORE_NATIVE_GRAPH_STATE_H

/* The part of the module's state that belongs to the room `graph`. */

#include "base/shared.h"

#define GRAPH_FACES(X)                                                                                                 \
  X(graph, graph)             /* the class GraphDefinition */                                                          \
  X(graph, builder)           /* the class GraphBuilder */                                                             \
  X(graph, capture)           /* the class Capture */                                                                  \
  X(graph, not_begun)         /* (status): raises for a capture that could not begin */                                \
  X(graph, adjacency)         /* the class AdjacencySetProxy */                                                        \
  X(graph, condition)         /* the class GraphCondition */                                                           \
  X(graph, node_classes)      /* a tuple of the subclasses of GraphNode, by node_params.class */                       \
  X(graph, gone)              /* (face) -> the exception for the use of a destroyed node */                            \
  X(graph, node_failed)       /* (status, method, place): raises for a node that could not be added or updated */      \
  X(graph, check_node_kernel) /* (config, kernel, args) -> the kernel, with its layout; or raises */                   \
  X(graph, node_memory)       /* (value, name) -> the address of a value that is not an int, such as an array */       \
  X(graph, fill_value)        /* (value) -> (pattern, bytes), for a value that is not an int */                        \
  X(graph, alloc_place)       /* (device, memory type, peers) -> the tuple that read_place() reads */

#define GRAPH_TYPES(X) X(graph) X(node) X(adjacency) X(exec) X(executable_node) X(condition)

typedef struct graph_state {
  uint64_t serial; /* a number that the module has in no other interpreter */
  table_lock lock; /* of the pointers from boxes of nodes to their faces */
} graph_state;

#endif
