/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKECUDA_GRAPH_H
#define FAKECUDA_GRAPH_H

/* Graphs of the double: what fakecuda_graph.c and fakecuda_exec.c share. */

#include "double/fakecuda_internal.h"

#pragma GCC visibility push(hidden)

/* A graph keeps so many references to a user object. */
struct kept {
  object *user;
  size_t count;
};

struct fake_graph {
  object *node; /* that it is in */
  object **nodes;
  size_t count, room;
  struct kept *kept;
  size_t kept_count, kept_room;
  bool has_memory; /* nodes that allocate or free: nothing can be taken out of it */
};

struct fake_node {
  object *graph;
  object *original; /* in the graph that this one's was copied from */
  CUgraphNodeParams params;
  unsigned char *args; /* a kernel's, to which its pointers go */
  void **pointers;
  CUgraph *children; /* of a child graph node or a conditional one */
  size_t child_count;
  object **before;
  CUgraphEdgeData *edges; /* likewise */
  size_t before_count;
  CUlaunchAttributeValue attributes[16];
  bool disabled;
};

object *copy_graph(object *graph);
void copy_params(struct fake_node *node, const CUgraphNodeParams *params);
void release_user(object *user, size_t count);
/* The nodes of a graph, each behind those that it waits for; NULL where there is a cycle. */
object **in_order(object *graph);
CUresult check_params(const CUgraphNodeParams *params);

#pragma GCC visibility pop

#endif
