/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPHS_H
#define GRAPHS_H

/* Shared by the test programs about graphs: functions that build graphs, and bundles that report their destruction. */

#include "check.h"

typedef struct graphs {
  cch_context *context;
  cch_stream *stream;
  cch_library *library;
  cch_kernel *kernel; /* the kernel "mixed" of check_ptx */
  cch_event *event;
  cch_deviceptr *pinned; /* memory for copies; `from` and `to` point into it */
  unsigned char *to, *from;
} graphs;
extern graphs world;

void graphs_open(void);
void graphs_close(void);

extern const cch_launch_config graphs_config;
extern const check_mixed graphs_arguments;

cch_graph *new_graph(void);
/* Adds a node that depends on `before`, which may be NULL. */
cch_graph_node *add(cch_graph *graph, int type, const void *params, cch_graph_node *before, cch_bundle *bundle);
cch_kernel_node kernel_params(void);
cch_graph_node *add_kernel(cch_graph *graph, cch_graph_node *before, cch_bundle *bundle);
cch_graph_node *add_empty(cch_graph *graph, cch_graph_node *before);
cch_graph *child_of(cch_graph_node *node, unsigned index);
/* Returns the box of a node of the graph, and of the copy of a node in a clone, as new references. */
cch_graph_node *node_of(cch_graph *graph, CUgraphNode raw);
cch_graph_node *copy_of(cch_graph_node *node, cch_graph *clone);
cch_graph_exec *instantiate(cch_graph *graph);

/* new_bundle() makes a bundle that counts its destruction. ends() returns how many of these bundles were destroyed. */
cch_bundle *new_bundle(void);
int ends(void);

#endif
