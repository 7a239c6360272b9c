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
  return status != 0 ? status : cch_bundle_add(level->kept, bundle);
}

int cch__graph_keep(cch_graph *graph, cch_bundle *bundle, const char *operation) {
  CUuserObject object;
  CCH__RETURN_FAILURE(cch__driver_keep_shared(&object, graph, bundle, 1));
  cch__graph_lock(graph);
  int status = graph->level != NULL ? add_kept(graph->level, bundle) : cch__fail_gone(graph, operation);
  cch__graph_unlock(graph);
  if (status != 0)
    cch__driver_let_go(graph->raw, object, 1);
  return status;
}

/* Adds the bundles of a level and of its nodes. The lock is held. */
static int add_uses(cch_bundle *uses, const cch__level *level) {
  int status = level->kept != NULL ? cch_bundle_add(uses, level->kept) : 0;
  const cch_bundle *last = NULL; /* nodes that were added together share one bundle */
  for (const cch__record *record = NULL; status == 0 && (record = cch__record_next(level, record)) != NULL;) {
    if (record->bundle != NULL && record->bundle != last)
      status = cch_bundle_add(uses, record->bundle);
    last = record->bundle != NULL ? record->bundle : last;
    for (const cch__level *child = record->children; status == 0 && child != NULL; child = child->next)
      status = add_uses(uses, child);
  }
  return status;
}

/*
 * Adds the bundle of the node that contains a graph, and the bundles of the nodes that contain that node's graph. The
 * lock is held.
 */
static int add_uses_around(cch_bundle *uses, const cch_graph *graph) {
  int status = 0;
  for (; status == 0 && graph->parent != NULL; graph = graph->parent) {
    const cch__record *record = cch__record_find(graph->parent->level, graph->node);
    if (record != NULL && record->bundle != NULL)
      status = cch_bundle_add(uses, record->bundle);
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
    status = add_uses(uses, level);
  if (status == 0)
    status = add_uses_around(uses, graph);
  cch__graph_unlock(graph);
  if (status != 0 || cch_bundle_count(uses) == 0) {
    cch_bundle_unref(uses);
    uses = NULL;
  }
  if (status == 0)
    *out = uses;
  return status;
}

/* ---- clones ---- */

/*
 * Adds a record for the copy of a node. The bundle of a conditional node has the node's bodies, so the copy cannot have
 * it. The lock is held.
 */
static int add_record(cch__clone_uses *uses, const cch__record *record) {
  cch_bundle *bundle = record->bundle;
  if (bundle != NULL && bundle->is_condition)
    return cch_bundle_add(uses->kept, bundle);
  if (bundle != NULL || record->context != NULL)
    uses->records[uses->count++] =
        (cch__record){.raw = record->raw, .bundle = cch_bundle_ref(bundle), .context = record->context};
  return 0;
}

/* The lock is held. */
static int add_records(cch__clone_uses *uses, const cch__level *level) {
  int status = 0;
  /* The list itself is copied. Otherwise it would get longer with each clone of a clone. */
  for (size_t i = 0; level->kept != NULL && status == 0 && i < level->kept->count; i++)
    status = cch_bundle_add(uses->kept, level->kept->owners[i].object);
  for (const cch__record *record = NULL; status == 0 && (record = cch__record_next(level, record)) != NULL;) {
    status = add_record(uses, record);
    for (const cch__level *child = record->children; status == 0 && child != NULL; child = child->next)
      status = add_uses(uses->kept, child);
  }
  return status;
}

int cch__clone_uses_list(cch__clone_uses *out, const cch_graph *graph, const char *operation) {
  *out = (cch__clone_uses){0};
  CCH__RETURN_FAILURE(cch_bundle_create(&out->kept, 0));
  cch__graph_lock(graph);
  const cch__level *level = graph->level;
  int status = level != NULL ? 0 : cch__fail_gone(graph, operation);
  if (status == 0 && (out->records = malloc((level->records.count + 1) * sizeof *out->records)) == NULL)
    status = cch__fail_nomem(operation);
  /* Other code can have destroyed nodes of a shared graph. The driver must not be asked for the copy of such a node. */
  if (status == 0)
    status = graph->hierarchy->shared ? add_uses(out->kept, level) : add_records(out, level);
  if (status == 0)
    status = add_uses_around(out->kept, graph);
  cch__graph_unlock(graph);
  return status;
}

int cch__clone_uses_give(cch__clone_uses *uses, cch_graph *clone, const char *operation) {
  if (cch_bundle_count(uses->kept) != 0) {
    clone->level->kept = uses->kept;
    uses->kept = NULL;
  }
  if (!cch__level_reserve(clone->level, uses->count))
    return cch__fail_nomem(operation);
  for (size_t i = 0; i < uses->count; i++) {
    CUgraphNode raw;
    CCH__RETURN_FAILURE(CCH__CALL(cuGraphNodeFindInClone, (&raw, uses->records[i].raw, clone->raw)));
    cch__record *record = cch__record_begin(clone->level, raw);
    record->bundle = uses->records[i].bundle;
    record->context = uses->records[i].context;
    uses->records[i].bundle = NULL;
  }
  return 0;
}

void cch__clone_uses_drop(cch__clone_uses *uses) {
  for (size_t i = 0; i < uses->count; i++)
    cch__unref_later(uses->records[i].bundle);
  free(uses->records);
  cch__unref_later(uses->kept);
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
  CUuserObject object;
  int status = cch__graph_uses(&uses, graph, operation);
  if (status == 0 && uses != NULL)
    status = cch__driver_keep(&object, graph->raw, uses, 1);
  if (status == 0) {
    cch__graph_lock(graph);
    graph->hierarchy->shared = true;
    if (graph->level != NULL)
      graph->level->exported = true;
    cch__graph_unlock(graph);
  }
  cch__unref_later(uses);
  return status;
}

int cch_graph_share(cch_graph *graph) {
  CCH__REQUIRE_USABLE(graph);
  cch__poll();
  return CCH__IN_TURN(graph, NULL, share(graph, __func__));
}
