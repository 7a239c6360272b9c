/* SPDX-License-Identifier: Apache-2.0 */
/* Reference counts and validity of boxes. */
#include "base/arguments.h"
#include "base/kinds.h"

#include "base/reclaim.h"
#include "base/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONE(...) +1
_Static_assert(CCH__KINDS(ONE) == CCH_KIND_COUNT, "each kind of cch_kind has a row in kind_list.h");

static atomic_size_t live[CCH_KIND_COUNT];

size_t cch_live_count(int kind) {
  return kind >= 0 && kind < CCH_KIND_COUNT ? atomic_load_explicit(&live[kind], memory_order_relaxed) : 0;
}

void *cch__box_new(cch_kind kind, size_t size, const char *operation) {
  cch__box *box = malloc(size);
  if (box == NULL) {
    cch__fail_nomem(operation);
    return NULL;
  }
  /* glibc's calloc() takes up to four times as long, because it does not reuse what the thread has just freed. */
  __asm__("" : "+r"(box)); /* otherwise the compiler makes these calls into calloc() */
  memset(box, 0, size);
  atomic_init(&box->references, 1);
  box->kind = (uint8_t)kind;
  atomic_fetch_add_explicit(&live[kind], 1, memory_order_relaxed);
  return box;
}

void cch__box_free(void *opaque) {
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

void cch__box_ref_many(void *opaque, size_t count) {
  cch__box *box = opaque;
  atomic_fetch_add_explicit(&box->references, count, memory_order_relaxed);
}

bool cch__box_try_ref(cch__box *box) {
  size_t count = atomic_load_explicit(&box->references, memory_order_relaxed);
  while (count != 0)
    if (atomic_compare_exchange_weak_explicit(&box->references, &count, count + 1, memory_order_relaxed,
                                              memory_order_relaxed))
      return true;
  return false;
}

bool cch__box_unref_unless_last(cch__box *box) {
  size_t count = atomic_load_explicit(&box->references, memory_order_acquire);
  while (count > 1)
    if (atomic_compare_exchange_weak_explicit(&box->references, &count, count - 1, memory_order_acq_rel,
                                              memory_order_acquire))
      return true;
  return false;
}

void cch__box_unref(void *opaque) {
  cch__box *box = opaque;
  if (box != NULL && atomic_fetch_sub_explicit(&box->references, 1, memory_order_acq_rel) == 1)
    cch__reclaim(box);
}

void cch__invalidate(void *box) {
  atomic_store_explicit(&((cch__box *)box)->gone, true, memory_order_release);
  cch__registry_remove(box); /* the handle of the box may belong to another resource now */
}

static const char *name_of_kind(unsigned kind) {
#define TEXT(KIND, type, name, text, ...) [CCH_KIND_##KIND] = text,
  static const char *const names[CCH_KIND_COUNT] = {CCH__KINDS(TEXT)};
  return kind < CCH_KIND_COUNT ? names[kind] : "freed or unknown object";
}

int cch__fail_gone(const void *opaque, const char *operation) {
  const cch__box *box = opaque;
  if (box->kind == CCH_KIND_DEVICEPTR && cch__whole((const cch_deviceptr *)box)->origin == CCH__FROM_GRAPHICS &&
      !(box->context != NULL && box->context->kind == CCH_KIND_CONTEXT && cch__is_gone(box->context)))
    return cch__fail(CCH_EGONE, operation,
                     "the memory is not mapped any more: its graphics resource was unmapped. Map it again");
  if (box->context != NULL && atomic_load_explicit(&box->context->gone, memory_order_acquire))
    return cch__fail(CCH_EGONE, operation,
                     "the %s is lost: another library reset the primary context of device %d (cudaDeviceReset, "
                     "cuDevicePrimaryCtxReset). Retain the context again, by Device.set_current() or "
                     "cch_context_primary(), and make a new one",
                     name_of_kind(box->kind), ((const cch_context *)box->context)->device);
  if (box->kind == CCH_KIND_STREAM)
    return cch__fail(CCH_EGONE, operation,
                     "the stream is in a capture that cannot be ended, because another capture into the same graph has "
                     "failed. Create another stream");
  return cch__fail(CCH_EGONE, operation, "the %s was destroyed by its owner", name_of_kind(box->kind));
}

int cch__fail_argument(const void *argument, int kind, const char *what, const char *operation) {
  if (argument == NULL)
    return cch__fail(CCH_EINVAL, operation, "%s is NULL", what);
  return cch__fail(CCH_EINVAL, operation, "%s is a box of kind \"%s\", not of kind \"%s\"", what,
                   name_of_kind(((const cch__box *)argument)->kind), name_of_kind((unsigned)kind));
}

int cch__explain_place(int status, size_t place) {
  char where[40];
  snprintf(where, sizeof where, "i is %zu", place);
  cch__fail_explain(where);
  return status;
}

void *cch_ref(void *box) { return cch__box_ref(box); }

void cch_unref(void *box) { cch__box_unref(box); }

int cch_kind_of(const void *box) { return box != NULL ? ((const cch__box *)box)->kind : -1; }

bool cch_is_valid(const void *box) { return box != NULL && !cch__is_gone(box); }
