/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORLD_H
#define WORLD_H

/* Shared by the files of this folder: arguments of calls, and the list of operations. */

#include "operations.h"

extern char launch_arguments[28];
void do_nothing(void *data);
extern const cch_virtual_config virtual_config;
int tensor_map_of(cch_tensor_map *out, const world *w, int kind);

/* Parameters of nodes. The addresses in them point into the pinned memory of the world that was opened last. */
cch_kernel_node node_of_kernel(const world *w);
extern cch_memcpy_node copy_params;
extern cch_memset_node fill_params;
extern const cch_host_node host_params;
int try_add(cch_graph_node **out, world *w, int type, const void *params);

void operation_add(operation *added);

#endif
