/* SPDX-License-Identifier: Apache-2.0 */
/* The turns of threads that work on the same graphs, and the order in which locks of several graphs are taken. */
#include "graph/graph.h"

#include <stdlib.h>

static int compare_pointers(const void *a, const void *b) {
  const uintptr_t left = (uintptr_t)*(void *const *)a, right = (uintptr_t)*(void *const *)b;
  return (left > right) - (left < right);
}

size_t cch__sort_unique(void *pointers, size_t count) {
  void **items = pointers;
  size_t left = 1; /* objects created one after another often have ascending addresses */
  while (left < count && (uintptr_t)items[left - 1] < (uintptr_t)items[left])
    left++;
  if (left >= count)
    return count;
  qsort(items, count, sizeof *items, compare_pointers);
  left = 1;
  for (size_t i = 1; i < count; i++)
    if (items[i] != items[left - 1])
      items[left++] = items[i];
  return left;
}

size_t cch__turn_take(cch__hierarchy **all, size_t count) {
  if (count > 1) /* all threads take several locks in the same order */
    count = cch__sort_unique(all, count);
  for (size_t i = 0; i < count; i++)
    pthread_mutex_lock(&all[i]->turn);
  return count;
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
