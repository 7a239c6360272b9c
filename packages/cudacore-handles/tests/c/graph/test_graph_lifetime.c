/* SPDX-License-Identifier: Apache-2.0 */
/* What graphs keep alive and for how long, and boxes of resources that CUDA has destroyed. */
#include "graphs.h"

#include <pthread.h>

/*
 * A box would be used after CUDA has destroyed its resource together with a node, or a new resource at the same address
 * would be mistaken for the old one.
 */
static void boxes_outlive_what_cuda_destroys(void) {
  cch_graph *g = new_graph(), *leaf = new_graph();
  cch_graph_node *inner = add_kernel(leaf, NULL, NULL);
  cch_child_node params = {.size = sizeof params, .graph = leaf};
  cch_graph_node *n = add(g, CCH_NODE_GRAPH, &params, NULL, NULL), *found;
  cch_graph *child = child_of(n, 0), *none = NULL;
  found = copy_of(inner, child);
  CUgraphNode raw = cch_graph_node_raw(found);
  OK(cch_graph_node_destroy(n));
  CHECK(!cch_is_valid(n) && !cch_is_valid(child) && !cch_is_valid(found) && cch_is_valid(g));
  CHECK(cch_graph_node_raw(found) == NULL && cch_graph_raw(child) == NULL);
  FAILS(CCH_EGONE, cch_graph_node_destroy(n));
  FAILS(CCH_EGONE, cch_graph_node_child(&none, n, 0));
  cch_node_list list;
  FAILS(CCH_EGONE, cch_graph_nodes(&list, child));
  FAILS(CCH_EGONE, cch_graph_node_set(found, &params, NULL, NULL));
  CHECK(cch_graph_node_bundle(found) == NULL);
  CHECK_EQ(cch_graph_node_type(n), CCH_NODE_GRAPH);
  cch_node_spec spec = {.size = sizeof spec, .type = CCH_NODE_EMPTY};
  FAILS(CCH_EGONE, cch_graph_add(&found, child, &spec));
  /* The driver reuses the address that was freed last. */
  cch_graph_node *next = add_empty(g, NULL), *second = add_empty(g, NULL);
  CHECK(cch_graph_node_raw(next) == raw || cch_graph_node_raw(second) == raw);
  CHECK(next != found && second != found && cch_is_valid(next));
  cch_graph_node_unref(found); /* must not remove the record of the new node */
  found = node_of(g, cch_graph_node_raw(next));
  CHECK(found == next);
  cch_graph_node_unref(found);
  cch_graph_node_unref(next);
  cch_graph_node_unref(second);
  cch_graph_unref(g);
  cch_graph_unref(child);
  cch_graph_node_unref(n);
  cch_graph_node_unref(inner);
  cch_graph_unref(leaf);
}

enum { THREADS = 4, ROUNDS = CHECK_SANITIZED ? 200 : 2000 };

static pthread_mutex_t serial = PTHREAD_MUTEX_INITIALIZER;

/* Lists the nodes under a lock. *child becomes the child graph of the first node, unless `child` is NULL. */
static cch_node_list list_nodes(cch_graph *graph, cch_graph **child) {
  cch_node_list list;
  pthread_mutex_lock(&serial);
  OK(cch_graph_nodes(&list, graph));
  if (child != NULL)
    *child = child_of(list.nodes[0], 0);
  pthread_mutex_unlock(&serial);
  return list;
}

/* Lists nodes and drops the references, while other threads do the same. */
static void list_and_drop(int index, void *argument) {
  (void)index;
  for (int i = 0; i < ROUNDS; i++) {
    cch_graph *child;
    cch_node_list list = list_nodes(argument, &child);
    CHECK(cch_is_valid(list.nodes[1]));
    cch_graph_unref(child);
    cch_node_list_free(&list);
  }
}

/* A box that another thread is destroying would be returned, or would remove the record that a new box uses. */
static void boxes_die_on_other_threads(void) {
  cch_graph *g = new_graph(), *leaf = new_graph();
  cch_child_node params = {.size = sizeof params, .graph = leaf};
  cch_graph_node_unref(add(g, CCH_NODE_GRAPH, &params, NULL, NULL));
  for (int i = 0; i < 8; i++)
    cch_graph_node_unref(add_empty(g, NULL));
  check_threads(THREADS, list_and_drop, g);
  CHECK_EQ(cch_live_count(CCH_KIND_GRAPH_NODE), 0);
  cch_graph_unref(leaf);
  cch_graph_unref(g);
}

/* Drops a reference in one of the possible ways. */
static void drop_somehow(int way, void *box) {
  switch (way % 3) {
  case 0:
    cch_unref(cch_unref_lightly(box)); /* the node can hold the last reference to the graph */
    break;
  case 1:
    cch_unref(box);
    break;
  default:
    cch_unref_deferred(box);
  }
}

/* Adds nodes under a lock, so that the table of records grows, and drops the references in all possible ways. */
static void add_and_drop(int index, void *argument) {
  cch_graph *g = argument;
  cch_graph_node *last = NULL;
  for (int i = 0; i < ROUNDS; i++) {
    pthread_mutex_lock(&serial);
    cch_graph_node *node = i % 2 ? add_kernel(g, last, NULL) : add_empty(g, last), *again = cch_graph_node_ref(node);
    cch_node_list after = {0};
    if (last != NULL)
      OK(cch_graph_node_neighbours(&after, last, true));
    pthread_mutex_unlock(&serial);
    CHECK(last == NULL || (after.count == 1 && after.nodes[0] == node));
    cch_node_list_free(&after);
    if (last != NULL)
      drop_somehow(i + index, last);
    drop_somehow(index, again);
    last = node;
  }
  CHECK(cch_unref_lightly(last) == NULL);
}

/*
 * If threads create and release boxes of nodes at the same time, a box would be lost or destroyed twice, or the record
 * of a node would be removed too early.
 */
static void nodes_go_in_all_ways(void) {
  cch_graph *g = new_graph();
  check_threads(THREADS, add_and_drop, g);
  cch_reclaim_drain();
  CHECK_EQ(cch_live_count(CCH_KIND_GRAPH_NODE), 0);
  cch_node_list list;
  OK(cch_graph_nodes(&list, g));
  CHECK_EQ(list.count, THREADS * ROUNDS);
  cch_node_list_free(&list);
  cch_graph_unref(g);
}

/* Releases all nodes of a graph, as all other threads do. Nothing else has references to the graph. */
static void drop_all(int index, void *argument) {
  cch_graph_node **nodes = argument;
  for (int i = 0; i < 8; i++)
    drop_somehow(index + i, nodes[(i + index) % 8]);
}

/* If threads release the last nodes of a graph simultaneously, the graph would be destroyed several times or never. */
static void last_nodes_end_the_graph_once(void) {
  for (int round = 0; round < ROUNDS / 8; round++) {
    cch_graph *g = new_graph();
    cch_graph_node *nodes[8];
    for (int i = 0; i < 8; i++) {
      nodes[i] = add_empty(g, NULL);
      for (int more = 1; more < THREADS; more++)
        cch_ref(nodes[i]);
    }
    cch_graph_unref(g);
    check_threads(THREADS, drop_all, nodes);
    cch_reclaim_drain();
    CHECK_EQ(cch_live_count(CCH_KIND_GRAPH_NODE), 0);
    CHECK_EQ(cch_live_count(CCH_KIND_GRAPH), 0);
    CHECK_EQ(sim.live(CUDASIM_GRAPH), 0);
  }
}

int main(void) {
  check_open();
  check_around(graphs_open, graphs_close);
  RUN(nodes_go_in_all_ways);
  RUN(last_nodes_end_the_graph_once);
  RUN(boxes_outlive_what_cuda_destroys);
  RUN(boxes_die_on_other_threads);
  return 0;
}
