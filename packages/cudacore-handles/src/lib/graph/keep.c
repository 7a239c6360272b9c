/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the objects that graphs use. The record of each node has a reference to the bundle of these objects, and
 * everything that this library makes from the graph takes references to all bundles. CUDA's user objects would also
 * cover graphs that other code makes from the graph. But they are slow: they cost one or two calls for each node, and
 * each launch takes twice as long. So a graph has user objects only once its handle is shared.
 */
#include "graph/graph.h"
#include "base/reclaim.h"

#include <stdlib.h>

/* ---- objects that the library keeps for a graph ---- */

/* Adds a bundle to that of a level. The lock is held. */
static int add_kept(cch__level *level, cch_bundle *bundle) {
  int status = level->kept != NULL ? 0 : cch_bundle_create(&level->kept, 1);
  return status != 0 ? status : cch__bundle_add(level->kept, bundle, __func__);
}

int cch__graph_keep(cch_graph *graph, cch_bundle *bundle, const char *operation) {
  CUuserObject object;
  CCH__RETURN_FAILURE(cch__driver_keep_shared(&object, graph, bundle, 1));
  cch__graph_lock(graph);
  int status = graph->level != NULL ? add_kept(graph->level, bundle) : cch__fail_gone(graph, operation);
  cch__graph_unlock(graph);
  if (status != 0)
    cch__driver_unref(graph->raw, object, 1);
  return status;
}

/* Adds the bundles of a level and of its nodes. The lock is held. */
static int add_uses(cch_bundle *uses, const cch__level *level, const char *operation) {
  int status = level->kept != NULL ? cch__bundle_add(uses, level->kept, operation) : 0;
  const cch_bundle *last = NULL; /* nodes that were added together share one bundle */
  for (const cch__record *record = NULL; status == 0 && (record = cch__record_next(level, record)) != NULL;) {
    if (record->bundle != NULL && record->bundle != last)
      status = cch__bundle_add(uses, record->bundle, operation);
    last = record->bundle != NULL ? record->bundle : last;
    for (const cch__level *child = record->children; status == 0 && child != NULL; child = child->next)
      status = add_uses(uses, child, operation);
  }
  return status;
}

/*
 * Adds the bundle of the node that contains a graph, and the bundles of the nodes that contain that node's graph. The
 * lock is held.
 */
static int add_uses_around(cch_bundle *uses, const cch_graph *graph, const char *operation) {
  int status = 0;
  for (; status == 0 && graph->parent != NULL; graph = graph->parent) {
    const cch__record *record = cch__record_find(graph->parent->level, graph->node);
    if (record != NULL && record->bundle != NULL)
      status = cch__bundle_add(uses, record->bundle, operation);
  }
  return status;
}

int cch__graph_uses(cch_bundle **out, const cch_graph *graph, const char *operation) {
  cch_bundle *uses = NULL;
  int status = 0;
  cch__graph_lock(graph);
  const cch__level *level = graph->level;
  if (level == NULL)
    status = cch__fail_gone(graph, operation);
  else
    status = cch_bundle_create(&uses, level->records.count + 1);
  if (status == 0)
    status = add_uses(uses, level, operation);
  if (status == 0)
    status = add_uses_around(uses, graph, operation);
  cch__graph_unlock(graph);
  if (status != 0 || uses->count == 0) {
    cch_bundle_unref(uses);
    uses = NULL;
  }
  if (status == 0)
    *out = uses;
  return status;
}

/* ---- clones ---- */

/* Copies the records of a level, without boxes, and those of the child graphs in it. The lock is held. */
static int copy_level(cch__level *out, const cch__level *level, const char *operation) {
  out->object = level->object;
  /* The list itself is copied. Otherwise it would get longer with each clone of a clone. */
  for (size_t i = 0; level->kept != NULL && i < level->kept->count; i++)
    CCH__RETURN_FAILURE(add_kept(out, level->kept->owners[i].object));
  if (!cch__level_reserve(out, level->records.count))
    return cch__fail_nomem(operation);
  for (const cch__record *one = NULL; (one = cch__record_next(level, one)) != NULL;) {
    cch__record *copy = cch__record_enter(out, one->raw);
    copy->bundle = cch_bundle_ref(one->bundle);
    copy->object = one->object;
    copy->context = one->context;
    if (one->children == NULL)
      continue;
    copy->children = calloc(1, sizeof *copy->children); /* of a child node: the driver clones no conditional nodes */
    if (copy->children == NULL)
      return cch__fail_nomem(operation);
    CCH__RETURN_FAILURE(copy_level(copy->children, one->children, operation));
  }
  return 0;
}

int cch__level_copy(cch__level *out, const cch_graph *graph, const char *operation) {
  *out = (cch__level){0};
  cch__graph_lock(graph);
  const cch__level *level = graph->level;
  int status = level != NULL ? copy_level(out, level, operation) : cch__fail_gone(graph, operation);
  if (status == 0 && graph->parent != NULL && out->kept == NULL)
    status = cch_bundle_create(&out->kept, 1);
  if (status == 0)
    status = add_uses_around(out->kept, graph, operation);
  cch__graph_unlock(graph);
  return status;
}

/* Gives a record to the copy of its node. */
static int give_record(cch__record *from, cch__level *clone, const char *operation) {
  if (from->bundle == NULL && from->context == NULL && from->children == NULL)
    return 0;
  CUgraphNode raw;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUgraph source;
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphNodeFindInClone, (&raw, from->raw, clone->raw)));
  cch__record *record = cch__record_begin(clone, raw);
  *record = (cch__record){.raw = raw, .bundle = from->bundle, .object = from->object, .context = from->context};
  from->bundle = NULL;
  if (from->children != NULL)
    CCH__RETURN_FAILURE(CCH__CALL(cuGraphNodeGetType, (raw, &type)));
  if (type != CU_GRAPH_NODE_TYPE_GRAPH)
    return 0;
  record->children = calloc(1, sizeof *record->children);
  if (record->children == NULL)
    return cch__fail_nomem(operation);
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphChildGraphNodeGetGraph, (from->raw, &source)));
  CCH__RETURN_FAILURE(CCH__CALL(cuGraphChildGraphNodeGetGraph, (raw, &record->children->raw)));
  return cch__level_give(from->children, source, record->children, operation);
}

int cch__level_give(cch__level *from, CUgraph source, cch__level *clone, const char *operation) {
  clone->kept = from->kept;
  from->kept = NULL;
  cch__driver_unref(clone->raw, from->object, 1);
  if (!cch__level_reserve(clone, from->records.count))
    return cch__fail_nomem(operation);
  CUgraphNode *nodes;
  size_t count;
  CCH__RETURN_FAILURE(cch__driver_nodes(&nodes, &count, source, operation));
  int status = 0;
  for (size_t i = 0; i < count && status == 0; i++) {
    cch__record *record = cch__record_find(from, nodes[i]);
    status = record != NULL ? give_record(record, clone, operation) : 0;
  }
  free(nodes);
  return status;
}

/* ---- by the driver ---- */

int cch__driver_keep_shared(CUuserObject *out, const cch_graph *graph, cch_bundle *bundle, size_t count) {
  *out = NULL;
  return graph->hierarchy->shared && bundle != NULL ? cch__driver_keep(out, graph->raw, bundle, count) : 0;
}

static int share(cch_graph *graph, const char *operation) {
  cch__graph_lock(graph);
  bool exported = graph->level != NULL && graph->level->exported;
  cch__graph_unlock(graph);
  if (exported)
    return 0;
  cch_bundle *uses = NULL;
  CUuserObject object = NULL;
  int status = cch__graph_uses(&uses, graph, operation);
  if (status == 0 && uses != NULL)
    status = cch__driver_keep(&object, graph->raw, uses, 1);
  if (status == 0) {
    cch__graph_lock(graph);
    graph->hierarchy->shared = true;
    if (graph->level != NULL) {
      graph->level->exported = true;
      graph->level->object = object;
    }
    cch__graph_unlock(graph);
  }
  cch__unref_later(uses);
  return status;
}

cch_status cch_graph_share(cch_graph *graph) {
  CCH__REQUIRE_USABLE(graph);
  cch__poll();
  return CCH__IN_TURN(graph, NULL, share(graph, __func__));
}
