/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPHS_H
#define GRAPHS_H

/* What the programs about graphs share: something to build them of, and bundles that say when they end. */

#include "check.h"

typedef struct graphs {
  cch_context *context;
  cch_stream *stream;
  cch_library *library;
  cch_kernel *kernel; /* "mixed" */
  cch_event *event;
  cch_deviceptr *pinned; /* where memory is copied to and from: */
  unsigned char *to, *from;
} graphs;
extern graphs world;

void graphs_open(void);
void graphs_close(void);

extern const cch_launch_config graphs_config;
extern const check_mixed graphs_arguments;

cch_graph *new_graph(void);
/* Adds a node behind another, which may be NULL. */
cch_graph_node *add(cch_graph *graph, int type, const void *params, cch_graph_node *before, cch_bundle *bundle);
cch_kernel_node kernel_params(void);
cch_graph_node *add_kernel(cch_graph *graph, cch_graph_node *before, cch_bundle *bundle);
cch_graph_node *add_empty(cch_graph *graph, cch_graph_node *before);
cch_graph *child_of(cch_graph_node *node, unsigned index);
cch_graph_exec *instantiate(cch_graph *graph);

/* Whether the driver has switches, and an if with a second body. */
bool has_switches(void);

/* A bundle that counts its end, and the ends that CUDA has told of so far. */
cch_bundle *new_bundle(void);
int ends(void);

#endif
