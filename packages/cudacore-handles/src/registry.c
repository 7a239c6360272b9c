/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw handle -> live box, weak, one registry and one lock a kind.
 *
 * Chains run through the boxes themselves, so entering a box cannot fail; only the bucket array grows, and when it
 * cannot the chains get longer.
 */
#include "internal.h"

#include <pthread.h>
#include <stdlib.h>

enum { FIRST_BUCKETS = 64 };

typedef struct registry {
  bool used; /* constant: not every kind has a registry */
  pthread_mutex_t lock;
  cch__box **buckets;
  size_t mask; /* number of buckets - 1, a power of two - 1 */
  size_t count;
  cch__box *first[FIRST_BUCKETS];
} registry;

static registry registries[CCH_KIND_COUNT] = {
#define CCH__REGISTRY(kind)                                                                                            \
  [kind] = {                                                                                                           \
      .used = true, .lock = PTHREAD_MUTEX_INITIALIZER, .buckets = registries[kind].first, .mask = FIRST_BUCKETS - 1}
    CCH__REGISTRY(CCH_KIND_CONTEXT), CCH__REGISTRY(CCH_KIND_STREAM),  CCH__REGISTRY(CCH_KIND_EVENT),
    CCH__REGISTRY(CCH_KIND_POOL),    CCH__REGISTRY(CCH_KIND_LIBRARY), CCH__REGISTRY(CCH_KIND_KERNEL),
#undef CCH__REGISTRY
};

static cch__box **bucket(const registry *r, const void *key) {
  /* Handles are aligned addresses: mix the middle bits into the low ones. */
  uintptr_t h = (uintptr_t)key;
  h ^= h >> 17;
  h *= (uintptr_t)0x9E3779B97F4A7C15u;
  return &r->buckets[(h >> 32) & r->mask];
}

static void grow(registry *r) {
  size_t n = (r->mask + 1) * 2;
  cch__box **buckets = calloc(n, sizeof *buckets);
  if (buckets == NULL)
    return;
  cch__box **old = r->buckets;
  size_t old_n = r->mask + 1;
  r->buckets = buckets;
  r->mask = n - 1;
  for (size_t i = 0; i < old_n; i++)
    for (cch__box *box = old[i], *next; box != NULL; box = next) {
      next = box->link;
      cch__box **head = bucket(r, box->key);
      box->link = *head;
      *head = box;
    }
  if (old != r->first)
    free(old);
}

static void unlink_at(registry *r, cch__box **at) {
  cch__box *box = *at;
  *at = box->link;
  box->link = NULL;
  box->registered = false;
  r->count--;
}

/* The entry of a key, or the NULL at its chain's end. At most one box a key is ever registered. */
static cch__box **entry_of(registry *r, const void *key) {
  cch__box **at = bucket(r, key);
  while (*at != NULL && (*at)->key != key)
    at = &(*at)->link;
  return at;
}

static void insert_locked(registry *r, cch__box *box, const void *key) {
  cch__box **at = entry_of(r, key);
  if (*at != NULL)
    unlink_at(r, at);
  if (r->count > r->mask)
    grow(r);
  cch__box **head = bucket(r, key);
  box->key = key;
  box->link = *head;
  box->registered = true;
  *head = box;
  r->count++;
}

void *cch__registry_find(cch_kind kind, const void *key) {
  registry *r = &registries[kind];
  pthread_mutex_lock(&r->lock);
  cch__box *box = *entry_of(r, key);
  if (box != NULL && !cch__box_try_ref(box))
    box = NULL;
  pthread_mutex_unlock(&r->lock);
  return box;
}

void cch__registry_insert(void *opaque, const void *key) {
  cch__box *box = opaque;
  registry *r = &registries[box->kind];
  pthread_mutex_lock(&r->lock);
  insert_locked(r, box, key);
  pthread_mutex_unlock(&r->lock);
}

void *cch__registry_insert_unless_owned(void *opaque, const void *key) {
  cch__box *box = opaque;
  registry *r = &registries[box->kind];
  pthread_mutex_lock(&r->lock);
  cch__box *found = *entry_of(r, key);
  if (found == NULL || !found->owned || !cch__box_try_ref(found)) {
    insert_locked(r, box, key);
    found = NULL;
  }
  pthread_mutex_unlock(&r->lock);
  return found;
}

void cch__registry_remove(void *opaque) {
  cch__box *box = opaque;
  registry *r = &registries[box->kind];
  if (!r->used)
    return;
  pthread_mutex_lock(&r->lock);
  if (box->registered) {
    cch__box **at = bucket(r, box->key);
    while (*at != box)
      at = &(*at)->link;
    unlink_at(r, at);
  }
  pthread_mutex_unlock(&r->lock);
}

void *cch__wrap_known(cch_kind kind, const void *key, void *owner, cch_release_fn release) {
  cch__box *box = cch__registry_find(kind, key);
  if (box == NULL)
    return NULL;
  if (box->owned) {
    cch__release_owner(owner, release);
    return box;
  }
  if (owner == NULL)
    return box;
  cch__box_unref(box);
  return NULL;
}
