/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPHS_H
#define GRAPHS_H

/* Shared by the programs about graphs: parts for building them, and bundles that report when they are destroyed. */

#include "check.h"

typedef struct graphs {
  cch_context *context;
  cch_stream *stream;
  cch_library *library;
  cch_kernel *kernel; /* "mixed" */
  cch_event *event;
  cch_deviceptr *pinned; /* memory for copies, which go to `to`, from `from` */
  unsigned char *to, *from;
} graphs;
extern graphs world;

void graphs_open(void);
void graphs_close(void);

extern const cch_launch_config graphs_config;
extern const check_mixed graphs_arguments;

cch_graph *new_graph(void);
/* Adds a node that depends on another one, which may be NULL. */
cch_graph_node *add(cch_graph *graph, int type, const void *params, cch_graph_node *before, cch_bundle *bundle);
cch_kernel_node kernel_params(void);
cch_graph_node *add_kernel(cch_graph *graph, cch_graph_node *before, cch_bundle *bundle);
cch_graph_node *add_empty(cch_graph *graph, cch_graph_node *before);
cch_graph *child_of(cch_graph_node *node, unsigned index);
cch_graph_exec *instantiate(cch_graph *graph);

/* From here on, events never report that work is done, until sim.reset(). */
void nothing_is_done(void);

/* Whether the driver has switches, and an if with a second body. */
bool has_switches(void);

/* A bundle that counts its destruction, and the destructions that CUDA has reported so far. */
cch_bundle *new_bundle(void);
int ends(void);

#endif
