/* SPDX-License-Identifier: Apache-2.0 */
/* The turns of threads that work on the same graphs. */
#include "graph/graph.h"

#include <stdlib.h>

static int compare_addresses(const void *a, const void *b) {
  const uintptr_t left = (uintptr_t)*(void *const *)a, right = (uintptr_t)*(void *const *)b;
  return (left > right) - (left < right);
}

size_t cch__turn_take(cch__hierarchy **all, size_t count) {
  size_t taken = 0;
  if (count > 1) /* all threads take several locks in the same order */
    qsort(all, count, sizeof(void *), compare_addresses);
  for (size_t i = 0; i < count; i++)
    if (taken == 0 || all[i] != all[taken - 1]) {
      pthread_mutex_lock(&all[i]->turn);
      all[taken++] = all[i];
    }
  return taken;
}

void cch__turn_give(cch__hierarchy *const *all, size_t count) {
  while (count-- > 0)
    pthread_mutex_unlock(&all[count]->turn);
}

const cch_graph *cch__child_in(int type, const void *params) {
  const cch_child_node *child = params;
  if (type != CCH_NODE_GRAPH || child == NULL || child->size < offsetof(cch_child_node, graph) + sizeof child->graph)
    return NULL;
  return cch__fits(child->graph, CCH_KIND_GRAPH) ? child->graph : NULL;
}
