/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_BOX_H
#define CUDACORE_BOX_H

/* The structure that every box begins with, and functions for its references and its validity. */

#include "base/errors.h"
#include "base/process.h"

#include <cudacore_internal/base.h>

typedef struct cch__box {
  atomic_size_t references;
  uint8_t kind;
  bool owned;       /* destroying the box destroys the resource */
  bool waited;      /* the box was once queued for destruction; only the destroying thread reads this */
  atomic_bool gone; /* the box is a tombstone: the owner of the resource has destroyed the resource */

  /* The registry's fields, which are changed under its lock. */
  atomic_bool registered;
  bool claimed;          /* a thread is creating the resource of the box */
  atomic_bool queued;    /* the box has no references, and waits in the reclaim queue */
  uint8_t value_size;    /* size of the value, if the key is a value; 0 if the key is a handle */
  uintptr_t key;         /* the handle, or the hash of the value */
  const void *value;     /* the value, in the memory of the box */
  uint64_t refused_by;   /* the last thread that tried to destroy the box and could not */
  struct cch__box *link; /* the next box in a chain of the registry */

  struct cch__box *next; /* the next box in the reclaim queue, or in the list of boxes that are being destroyed */
  void *owner;
  cch_release_fn release;

  /*
   * The box that this box depends on: if the other box's resource is lost, so is the resource of this box. The other
   * box is that of a context or, for a part of memory that is mapped for graphics, the box of the whole memory. This
   * box holds a reference. NULL if there is no such box.
   */
  struct cch__box *context;
} cch__box;

/*
 * Makes a zeroed box of a kind, with one reference. It is counted as live. NULL if memory ran out; the failure is
 * recorded.
 */
void *cch__box_new(cch_kind kind, size_t size, const char *operation);
/* Undoes cch__box_new for a box whose resource was never created. The caller keeps the owner. */
void cch__box_free(void *box);
/*
 * Completes a new box: `status` is the driver's status for creating the resource. After a failure, the box is
 * discarded; otherwise it owns the resource.
 */
static inline int cch__box_created(void *box, int status) {
  if (status == 0)
    ((cch__box *)box)->owned = true;
  else
    cch__box_free(box);
  return status;
}
void *cch__box_ref(void *box);
void cch__box_ref_many(void *box, size_t count);
void cch__box_unref(void *box);
/* Drops a reference unless it is the last one. */
bool cch__box_unref_unless_last(cch__box *box);
static inline size_t cch__box_references(const cch__box *box) {
  return atomic_load_explicit(&box->references, memory_order_acquire);
}
/* Returns whether the box still has a reference. */
static inline bool cch__box_is_alive(const cch__box *box) {
  return atomic_load_explicit(&box->references, memory_order_relaxed) != 0;
}
/* Takes a reference unless the count is zero. */
bool cch__box_try_ref(cch__box *box);

/*
 * Destroys the resource and frees the box, whose reference count is zero. False if the driver refuses to destroy the
 * resource now; the box is then unchanged. `is_there`: whether the caller has just checked that the box's context is
 * not lost.
 */
bool cch__box_destroy(cch__box *box, bool is_there);
/* Returns whether destroying the box calls the driver, or foreign code that may call it. */
bool cch__box_needs_driver(const cch__box *box);

/* Makes the box a tombstone, because the owner of the resource has destroyed it. */
void cch__invalidate(void *box);

/* Returns whether the resource of a box was destroyed by its owner, or is known to be lost with its context. */
static inline bool cch__is_gone(const void *opaque) {
  const cch__box *box = opaque;
  return atomic_load_explicit(&box->gone, memory_order_acquire) ||
         (box->context != NULL && atomic_load_explicit(&box->context->gone, memory_order_acquire));
}

CCH__COLD int cch__fail_gone(const void *box, const char *operation);

/* Returns whether the calling thread is in a function that CUDA calls. */
bool cch__in_callback(void);

/*
 * Fails a graph operation that is called in a function that CUDA calls: the driver may hold its locks until that
 * function returns.
 */
CCH__COLD int cch__fail_forbidden(const char *operation);

void cch__release_owner(void *owner, cch_release_fn release);

#endif
