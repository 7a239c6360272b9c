/* SPDX-License-Identifier: Apache-2.0 */
/* The destruction of boxes, by the functions in the rows of CCH__KINDS, and the release of owners. */
#include "base/kinds.h"
#include "base/registry.h"

#include "driver/current.h"
#include "graph/graph.h"

void cch__release_owner(void *owner, cch_release_fn release) {
  if (release == NULL || cch__exiting())
    return;
  cch__errors saved;
  cch__owner_enter(&saved);
  release(owner);
  cch__owner_leave(&saved);
}

/* ---- the functions in the rows of CCH__KINDS ---- */

static inline bool needs_never(const cch__box *box) {
  (void)box;
  return false;
}

static inline bool needs_if_owned(const cch__box *box) { return box->owned || box->release != NULL; }

static inline bool needs_of_bundle(const cch__box *box) { return ((const cch_bundle *)box)->foreign; }

/* Memory that other code owns, and that no function frees, is only forgotten. */
static inline bool needs_of_memory(const cch__box *box) {
  const cch_deviceptr *ptr = (const cch_deviceptr *)box;
  return ptr->origin != CCH__FOREIGN || ptr->free != NULL;
}

/*
 * Returns whether destroying the box of a graph calls the driver: to destroy a graph that the library owns, or to end a
 * capture into any graph.
 */
static inline bool needs_of_graph(const cch__box *box) {
  return box->owned || ((const cch_graph *)box)->capture != NULL;
}

static inline bool nothing_to_destroy(void *box) {
  (void)box;
  return true;
}

static inline void nothing_to_unref(void *box) { (void)box; }

bool cch__box_needs_driver(const cch__box *box) {
  switch ((cch_kind)box->kind) {
#define NEEDS(KIND, type, name, text, needs, ...)                                                                      \
  case CCH_KIND_##KIND:                                                                                                \
    return needs(box);
    CCH__KINDS(NEEDS)
#undef NEEDS
  case CCH_KIND_COUNT:
    break;
  }
  return false;
}

static bool destroy_resource(cch__box *box) {
  switch ((cch_kind)box->kind) {
#define DESTROY(KIND, type, name, text, needs, destroy, unref_held)                                                    \
  case CCH_KIND_##KIND:                                                                                                \
    return destroy((void *)box);
    CCH__KINDS(DESTROY)
#undef DESTROY
  case CCH_KIND_COUNT:
    break;
  }
  return true;
}

static void unref_held_by(cch__box *box) {
  switch ((cch_kind)box->kind) {
#define UNREF_HELD(KIND, type, name, text, needs, destroy, unref_held)                                                 \
  case CCH_KIND_##KIND:                                                                                                \
    unref_held((void *)box);                                                                                           \
    break;
    CCH__KINDS(UNREF_HELD)
#undef UNREF_HELD
  case CCH_KIND_COUNT:
    break;
  }
}

/*
 * Returns whether the resource was lost with a context that was reset, so that the driver must not be given its handle.
 * Three kinds never count as lost. A graph outlives the context, so the driver destroys it. An executable graph also
 * owns objects other than the driver's. A part of an allocation returns its stream to the whole allocation without
 * calling the driver.
 */
static bool is_lost(const cch__box *box) {
  if (box->context == NULL || !(box->owned || box->kind == CCH_KIND_DEVICEPTR) || box->kind == CCH_KIND_GRAPH ||
      box->kind == CCH_KIND_GRAPH_EXEC ||
      (box->kind == CCH_KIND_DEVICEPTR && ((const cch_deviceptr *)box)->origin == CCH__PART))
    return false;
  return cch__context_is_lost((const cch_context *)box->context);
}

bool cch__box_destroy(cch__box *box, bool is_there) {
  /*
   * A handle is removed from the registry before the driver can reuse it. A value is removed only after its resource
   * was destroyed, so that no thread creates it again too early.
   */
  bool by_value = box->value_size > 0;
  if (!by_value)
    cch__registry_remove(box);
  if (!atomic_load_explicit(&box->gone, memory_order_acquire) && (is_there || !is_lost(box)) && !destroy_resource(box))
    return false;
  if (by_value)
    cch__registry_remove(box);
  unref_held_by(box);
  void *owner = box->owner;
  cch_release_fn release = box->release;
  cch__box_free(box);
  cch__release_owner(owner, release);
  return true;
}

void *cch_unref_lightly(void *opaque) {
  cch__box *box = opaque;
  if (box == NULL || cch__box_unref_unless_last(box))
    return NULL;
  if (box->kind != CCH_KIND_GRAPH_NODE || cch__forked())
    return box;
  return cch__graph_node_unref_lightly(opaque);
}
