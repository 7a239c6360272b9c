/* SPDX-License-Identifier: Apache-2.0 */
/* How a box of each kind ends, and what becomes of its owner. */
#include "base/kinds.h"
#include "base/registry.h"

static atomic_bool exiting;

void cch_process_exiting(void) { atomic_store(&exiting, true); }

bool cch__exiting(void) { return atomic_load(&exiting); }

void cch__release_owner(void *owner, cch_release_fn release) {
  if (release == NULL || cch__exiting())
    return;
  cch__errors saved;
  cch__owner_enter(&saved);
  release(owner);
  cch__owner_leave(&saved);
}

bool cch__box_needs_driver(const cch__box *box) {
  switch ((cch_kind)box->kind) {
  case CCH_KIND_NVRTC_PROGRAM:
  case CCH_KIND_NVVM_PROGRAM:
  case CCH_KIND_NVJITLINK_LINKER:
    return false;
  case CCH_KIND_BUNDLE:
    return ((const cch_bundle *)box)->foreign;
  case CCH_KIND_DEVICEPTR:
    return true;
  case CCH_KIND_GRAPH:
    return box->owned || cch__graph_is_captured((const cch_graph *)box);
  default:
    return box->owned || box->release != NULL;
  }
}

static bool end(cch__box *box) {
  switch ((cch_kind)box->kind) {
  case CCH_KIND_CONTEXT:
    return cch__context_end((cch_context *)box);
  case CCH_KIND_STREAM:
    return cch__stream_end((cch_stream *)box);
  case CCH_KIND_EVENT:
    return cch__event_end((cch_event *)box);
  case CCH_KIND_POOL:
    return cch__pool_end((cch_pool *)box);
  case CCH_KIND_DEVICEPTR:
    /* A foreign allocation frees through its owner, in here: it needs the stream. */
    return cch__deviceptr_end((cch_deviceptr *)box);
  case CCH_KIND_LIBRARY:
    return cch__library_end((cch_library *)box);
  case CCH_KIND_NVRTC_PROGRAM:
  case CCH_KIND_NVVM_PROGRAM:
  case CCH_KIND_NVJITLINK_LINKER:
    return cch__program_end((cch__program *)box);
  case CCH_KIND_GRAPH:
    return cch__graph_end((cch_graph *)box);
  case CCH_KIND_GRAPH_EXEC:
    return cch__graph_exec_end((cch_graph_exec *)box);
  case CCH_KIND_KERNEL: /* goes with its library */
  case CCH_KIND_BUNDLE:
  case CCH_KIND_GRAPH_NODE: /* goes with its graph */
  case CCH_KIND_COUNT:
    break;
  }
  return true;
}

static void drop(cch__box *box) {
  switch ((cch_kind)box->kind) {
  case CCH_KIND_STREAM:
    cch__stream_drop((cch_stream *)box);
    break;
  case CCH_KIND_EVENT:
    cch__event_drop((cch_event *)box);
    break;
  case CCH_KIND_DEVICEPTR:
    cch__deviceptr_drop((cch_deviceptr *)box);
    break;
  case CCH_KIND_KERNEL:
    cch__kernel_drop((cch_kernel *)box);
    break;
  case CCH_KIND_BUNDLE:
    cch__bundle_drop((cch_bundle *)box);
    break;
  case CCH_KIND_GRAPH:
    cch__graph_drop((cch_graph *)box);
    break;
  case CCH_KIND_GRAPH_NODE:
    cch__graph_node_drop((cch_graph_node *)box);
    break;
  case CCH_KIND_GRAPH_EXEC:
    cch__graph_exec_drop((cch_graph_exec *)box);
    break;
  default:
    break;
  }
}

/*
 * Whether the driver must not be given the resource any more: it went with a context that was reset. A graph outlives
 * that, and the driver destroys it; of an executable graph there is more to end. A part of an allocation leaves its
 * stream to the whole, and the driver is not called.
 */
static bool is_lost(const cch__box *box) {
  if (box->context == NULL || !(box->owned || box->kind == CCH_KIND_DEVICEPTR) || box->kind == CCH_KIND_GRAPH ||
      box->kind == CCH_KIND_GRAPH_EXEC ||
      (box->kind == CCH_KIND_DEVICEPTR && ((const cch_deviceptr *)box)->origin == CCH__PART))
    return false;
  return cch__context_is_lost((const cch_context *)box->context);
}

bool cch__box_destroy(cch__box *box, bool is_there) {
  /* A handle must not be found when the driver has it again; a value not be made again before it has ended. */
  bool by_value = box->value_size > 0;
  if (!by_value)
    cch__registry_remove(box);
  if (!atomic_load_explicit(&box->gone, memory_order_acquire) && (is_there || !is_lost(box)) && !end(box))
    return false;
  if (by_value)
    cch__registry_remove(box);
  drop(box);
  void *owner = box->owner;
  cch_release_fn release = box->release;
  cch__box_discard(box);
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
