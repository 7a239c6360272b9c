/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_BOX_H
#define CUDACORE_BOX_H

/* What every box begins with, its references and its validity. */

#include "base/errors.h"
#include "base/process.h"

#include <cudacore/base.h>

typedef struct cch__box {
  atomic_size_t references;
  uint8_t kind;
  bool owned;       /* the resource is destroyed with the box */
  bool waited;      /* it was queued: its thread's */
  atomic_bool gone; /* a tombstone: the resource was destroyed by its owner */

  /* What the registry keeps: changed under its lock. */
  atomic_bool registered;
  bool claimed;          /* its resource is still being made */
  atomic_bool queued;    /* it is dead, and waits for a safe point */
  uint8_t value_size;    /* bytes of a key that is a value, 0 of one that is a handle */
  uintptr_t key;         /* the handle, or the value's hash */
  const void *value;     /* the value, in the box's own memory */
  uint64_t refused_by;   /* the last thread that could not destroy it */
  struct cch__box *link; /* next in the registry's chain */

  struct cch__box *next; /* next in the reclaim queue, or of those that die now */
  void *owner;
  cch_release_fn release;

  /* What the resource is lost with, which its own box keeps: the box of a context, or, of a part of memory that is
   * mapped for graphics, that memory. NULL: nothing. */
  struct cch__box *context;
} cch__box;

/* A zeroed box of a kind with one reference, counted as live; NULL when memory ran out (recorded). */
void *cch__box_new(cch_kind kind, size_t size, const char *operation);
/* Undo cch__box_new for a box whose resource was never made; its owner stays the caller's. */
void cch__box_discard(void *box);
void *cch__box_ref(void *box);
void cch__box_unref(void *box);
/* Gives a reference back unless it is the last one. */
bool cch__box_unref_unless_last(cch__box *box);
/* Whether the caller's reference is the only one. */
bool cch__box_is_last(const cch__box *box);
/* Whether there is a reference to it still. */
static inline bool cch__box_is_alive(const cch__box *box) {
  return atomic_load_explicit(&box->references, memory_order_relaxed) != 0;
}
/* Takes a reference unless the count is zero. */
bool cch__box_try_ref(cch__box *box);

/*
 * Destroys the resource and frees the box, whose count is zero. False where the driver refuses it here and now: the
 * box is as it was. `is_there` says that its context was just seen not to be lost.
 */
bool cch__box_destroy(cch__box *box, bool is_there);
/* Whether its destruction enters the driver, or foreign code that may. */
bool cch__box_needs_driver(const cch__box *box);

/* The resource was destroyed by its owner: the box lives on as a tombstone. */
void cch__invalidate(void *box);

/* Whether the resource was destroyed by its owner, or was seen to be lost with its context. */
static inline bool cch__is_gone(const void *opaque) {
  const cch__box *box = opaque;
  return atomic_load_explicit(&box->gone, memory_order_acquire) ||
         (box->context != NULL && atomic_load_explicit(&box->context->gone, memory_order_acquire));
}

CCH__COLD int cch__fail_gone(const void *box, const char *operation);

/* Whether the calling thread is in a function that CUDA calls. */
bool cch__in_callback(void);

/* Graphs are refused there: the driver may hold what is waited for until the function returns. */
CCH__COLD int cch__fail_forbidden(const char *operation);

void cch__release_owner(void *owner, cch_release_fn release);
/* The runtime behind foreign owners has gone or is going: they are leaked. */
bool cch__exiting(void);

#endif
