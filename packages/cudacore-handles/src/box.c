/* SPDX-License-Identifier: Apache-2.0 */
/* Reference counts: the one rule about what is alive. */
#define _GNU_SOURCE
#include "internal.h"

#include <dlfcn.h>
#include <stdlib.h>

static atomic_size_t live[CCH_KIND_COUNT];
static atomic_bool exiting;

uint32_t cch_version(void) { return CCH_VERSION; }

const char *cch_library_path(void) {
  Dl_info info;
  return dladdr((void *)&live, &info) != 0 && info.dli_fname ? info.dli_fname : "";
}

size_t cch_live_count(int kind) {
  return kind >= 0 && kind < CCH_KIND_COUNT ? atomic_load_explicit(&live[kind], memory_order_relaxed) : 0;
}

void cch_process_exiting(void) { atomic_store(&exiting, true); }

bool cch__exiting(void) { return atomic_load(&exiting); }

void *cch__box_new(cch_kind kind, size_t size, const char *operation) {
  cch__box *box = calloc(1, size);
  if (box == NULL) {
    cch__fail_nomem(operation);
    return NULL;
  }
  atomic_init(&box->references, 1);
  box->kind = (uint8_t)kind;
  atomic_fetch_add_explicit(&live[kind], 1, memory_order_relaxed);
  return box;
}

void cch__box_discard(void *opaque) {
  cch__box *box = opaque;
  atomic_fetch_sub_explicit(&live[box->kind], 1, memory_order_relaxed);
  free(box);
}

void *cch__box_ref(void *opaque) {
  cch__box *box = opaque;
  if (box != NULL)
    atomic_fetch_add_explicit(&box->references, 1, memory_order_relaxed);
  return opaque;
}

bool cch__box_try_ref(cch__box *box) {
  size_t count = atomic_load_explicit(&box->references, memory_order_relaxed);
  while (count != 0)
    if (atomic_compare_exchange_weak_explicit(&box->references, &count, count + 1, memory_order_relaxed,
                                              memory_order_relaxed))
      return true;
  return false;
}

static bool drop(cch__box *box) {
  return box != NULL && atomic_fetch_sub_explicit(&box->references, 1, memory_order_acq_rel) == 1;
}

void cch__box_unref(void *opaque) {
  cch__box *box = opaque;
  if (!drop(box))
    return;
  if (cch__in_callback())
    cch__reclaim_push(box);
  else
    cch__box_destroy(box);
}

void cch_unref_deferred(void *opaque) {
  cch__box *box = opaque;
  if (drop(box))
    cch__reclaim_push(box);
}

void *cch_ref(void *box) { return cch__box_ref(box); }

void cch_unref(void *box) { cch__box_unref(box); }

int cch_kind_of(const void *box) { return box != NULL ? ((const cch__box *)box)->kind : -1; }

int cch_is_valid(const void *box) {
  return box != NULL && !atomic_load_explicit(&((const cch__box *)box)->gone, memory_order_acquire);
}

void cch__release_owner(void *owner, cch_release_fn release) {
  if (release == NULL || cch__exiting())
    return;
  cch__errors saved;
  cch__owner_enter(&saved);
  release(owner);
  cch__owner_leave(&saved);
}

void cch__box_destroy(cch__box *box) {
  /* In a forked child the handles are the parent's, and a lock may be held by a thread that does not exist here. */
  if (cch__forked())
    return;
  cch__destructor_enter();
  cch__registry_remove(box);
  switch ((cch_kind)box->kind) {
  case CCH_KIND_CONTEXT:
    cch__context_destroy((cch_context *)box);
    break;
  case CCH_KIND_STREAM:
    cch__stream_destroy((cch_stream *)box);
    break;
  case CCH_KIND_EVENT:
    cch__event_destroy((cch_event *)box);
    break;
  case CCH_KIND_POOL:
    cch__pool_destroy((cch_pool *)box);
    break;
  case CCH_KIND_DEVICEPTR:
    /* A foreign allocation frees through its owner, in here: it needs the stream. */
    cch__deviceptr_destroy((cch_deviceptr *)box);
    break;
  case CCH_KIND_LIBRARY:
    cch__library_destroy((cch_library *)box);
    break;
  case CCH_KIND_KERNEL:
    cch__kernel_destroy((cch_kernel *)box);
    break;
  case CCH_KIND_NVRTC_PROGRAM:
    cch__nvrtc_program_destroy((cch_nvrtc_program *)box);
    break;
  case CCH_KIND_NVVM_PROGRAM:
    cch__nvvm_program_destroy((cch_nvvm_program *)box);
    break;
  case CCH_KIND_BUNDLE:
    cch__bundle_destroy((cch_bundle *)box);
    break;
  case CCH_KIND_COUNT:
    break;
  }
  void *owner = box->owner;
  cch_release_fn release = box->release;
  cch__box_discard(box);
  cch__release_owner(owner, release);
  cch__destructor_leave();
}
