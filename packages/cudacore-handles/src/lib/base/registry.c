/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each kind has one registry and one lock.
 *
 * The boxes are themselves the links of the chains, so inserting a box cannot fail. Only the array of buckets grows; if
 * memory for that is lacking, the chains get longer. A registered box is never freed, so its fields can be read under
 * the lock.
 */
#include "base/registry.h"

#include "base/kinds.h"
#include "base/reclaim.h"

#include "driver/current.h"

#include <cudacore_shared/table.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BUCKETS = 64 };

typedef struct registry {
  pthread_mutex_t lock;
  pthread_cond_t changed; /* signals that a value was made or abandoned, or its box was freed or queued */
  cch__box **buckets;
  size_t mask; /* the number of buckets, a power of two, minus 1 */
  size_t count;
  cch__box *first[FIRST_BUCKETS];
} registry;

static registry registries[CCH_KIND_COUNT] = {
#define REGISTRY(KIND, ...)                                                                                            \
  [CCH_KIND_##KIND] = {.lock = PTHREAD_MUTEX_INITIALIZER,                                                              \
                       .changed = PTHREAD_COND_INITIALIZER,                                                            \
                       .buckets = registries[CCH_KIND_##KIND].first,                                                   \
                       .mask = FIRST_BUCKETS - 1},
    CCH__KINDS(REGISTRY)
#undef REGISTRY
};

/* A key: a handle, or a value with its hash. */
typedef struct key {
  uintptr_t number;
  const void *value;
  size_t size;
} key;

static key handle_key(const void *handle) { return (key){.number = (uintptr_t)handle}; }

static key value_key(const void *value, size_t size) {
  const char *bytes = value;
  uint64_t hash = 0, word;
  for (size_t i = 0; i + sizeof word <= size; i += sizeof word) { /* FNV-1a, but of words */
    memcpy(&word, bytes + i, sizeof word);
    hash = (hash ^ word) * 0x100000001b3u;
    hash ^= hash >> 32;
  }
  return (key){(uintptr_t)hash, value, size};
}

static bool has_key(const cch__box *box, key k) {
  return box->key == k.number && box->value_size == k.size && (k.size == 0 || memcmp(box->value, k.value, k.size) == 0);
}

static cch__box **bucket(const registry *r, uintptr_t number) {
  return &r->buckets[cch__hash((const void *)number) & r->mask];
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
  r->count--;
  atomic_store_explicit(&box->registered, false, memory_order_release); /* from now on, the box may be freed */
}

/*
 * Returns the place of a key's box in its chain, or the NULL at the end of the chain. At most one box is registered for
 * a key.
 */
static cch__box **entry_of(registry *r, key k) {
  cch__box **at = bucket(r, k.number);
  while (*at != NULL && !has_key(*at, k))
    at = &(*at)->link;
  return at;
}

static void insert_locked(registry *r, cch__box *box, key k) {
  cch__box **at = entry_of(r, k);
  if (*at != NULL)
    unlink_at(r, at);
  if (r->count > r->mask)
    grow(r);
  cch__box **head = bucket(r, k.number);
  box->key = k.number;
  box->value = k.value;
  box->value_size = (uint8_t)k.size;
  box->link = *head;
  atomic_store_explicit(&box->registered, true, memory_order_relaxed);
  *head = box;
  r->count++;
}

static void *find(cch_kind kind, key k) {
  registry *r = &registries[kind];
  pthread_mutex_lock(&r->lock);
  cch__box *box = *entry_of(r, k);
  if (box != NULL && (box->claimed || !cch__box_try_ref(box)))
    box = NULL;
  pthread_mutex_unlock(&r->lock);
  return box;
}

void *cch__registry_find(cch_kind kind, const void *handle) { return find(kind, handle_key(handle)); }

void *cch__registry_find_value(cch_kind kind, const void *value, size_t size) {
  return find(kind, value_key(value, size));
}

void cch__registry_insert_value(void *opaque, const void *value, size_t size) {
  cch__box *box = opaque;
  registry *r = &registries[box->kind];
  pthread_mutex_lock(&r->lock);
  if (!atomic_load_explicit(&box->registered, memory_order_relaxed))
    insert_locked(r, box, value_key(value, size));
  pthread_mutex_unlock(&r->lock);
}

void *cch__registry_search(cch_kind kind, bool (*matches)(const void *box, const void *what), const void *what) {
  registry *r = &registries[kind];
  cch__box *found = NULL;
  pthread_mutex_lock(&r->lock);
  for (size_t i = 0; i <= r->mask && found == NULL; i++)
    for (cch__box *box = r->buckets[i]; box != NULL && found == NULL; box = box->link)
      if (matches(box, what) && cch__box_try_ref(box))
        found = box;
  pthread_mutex_unlock(&r->lock);
  return found;
}

void *cch__registry_take(cch_kind kind, const void *handle) {
  registry *r = &registries[kind];
  pthread_mutex_lock(&r->lock);
  cch__box **at = entry_of(r, handle_key(handle)), *box = *at;
  if (box != NULL)
    unlink_at(r, at);
  pthread_mutex_unlock(&r->lock);
  return box;
}

void cch__registry_insert(void *opaque, const void *handle) {
  cch__box *box = opaque;
  registry *r = &registries[box->kind];
  pthread_mutex_lock(&r->lock);
  insert_locked(r, box, handle_key(handle));
  pthread_mutex_unlock(&r->lock);
}

void *cch__registry_insert_unless_known(void *opaque, const void *handle) {
  cch__box *box = opaque;
  registry *r = &registries[box->kind];
  pthread_mutex_lock(&r->lock);
  cch__box *found = *entry_of(r, handle_key(handle));
  if (found == NULL || !cch__box_try_ref(found)) {
    insert_locked(r, box, handle_key(handle));
    found = NULL;
  }
  pthread_mutex_unlock(&r->lock);
  return found;
}

void cch__registry_remove(void *opaque) {
  cch__box *box = opaque;
  registry *r = &registries[box->kind];
  if (!atomic_load_explicit(&box->registered, memory_order_acquire))
    return; /* most boxes without their own handle, and all boxes without references, are not registered
             */
  pthread_mutex_lock(&r->lock);
  if (atomic_load_explicit(&box->registered, memory_order_relaxed)) {
    cch__box **at = bucket(r, box->key);
    while (*at != box)
      at = &(*at)->link;
    box->claimed = false;
    bool is_value = box->value_size > 0;
    unlink_at(r, at);
    if (is_value)
      pthread_cond_broadcast(&r->changed);
  }
  pthread_mutex_unlock(&r->lock);
}

int cch__registry_claim(void **out, void *opaque, const void *value, size_t size, const char *operation) {
  cch__box *box = opaque, *found;
  registry *r = &registries[box->kind];
  key k = value_key(value, size);
  int status = 0;
  bool settled = false;
  pthread_mutex_lock(&r->lock);
  while ((found = *entry_of(r, k)) != NULL && (found->claimed || !cch__box_try_ref(found))) {
    bool queued = atomic_load_explicit(&found->queued, memory_order_relaxed);
    if (found->claimed || (settled && !queued)) {
      pthread_cond_wait(&r->changed, &r->lock); /* another thread makes or destroys the resource */
      continue;
    }
    /*
     * The box has no references, and perhaps only this thread can destroy it: it is queued, or this thread was about to
     * destroy it.
     */
    found->refused_by = 0;
    pthread_mutex_unlock(&r->lock);
    bool can = cch__reclaim_settle();
    settled = true;
    pthread_mutex_lock(&r->lock);
    found = *entry_of(r, k);
    if (found != NULL && atomic_load_explicit(&found->queued, memory_order_relaxed) &&
        (!can || found->refused_by == cch__thread())) {
      status = cch__fail_driver(CUDA_ERROR_NOT_PERMITTED, operation);
      cch__fail_explain("it was given up before, and that ends only when a capture, or the host function that this is "
                        "called in, has ended");
      break;
    }
  }
  if (status == 0 && found == NULL) {
    insert_locked(r, box, k);
    box->claimed = true;
  }
  pthread_mutex_unlock(&r->lock);
  if (status == 0)
    *out = found;
  return status;
}

void cch__registry_made(void *opaque) {
  cch__box *box = opaque;
  registry *r = &registries[box->kind];
  pthread_mutex_lock(&r->lock);
  box->claimed = false;
  pthread_cond_broadcast(&r->changed);
  pthread_mutex_unlock(&r->lock);
}

void cch__registry_lock(cch_kind kind) { pthread_mutex_lock(&registries[kind].lock); }

void cch__registry_unlock(cch_kind kind) {
  pthread_cond_broadcast(&registries[kind].changed);
  pthread_mutex_unlock(&registries[kind].lock);
}

int cch__box_of_handle(void *out, bool *is_new, cch_kind kind, size_t size, const void *handle, void *owner,
                       cch_release_fn release, const char *operation) {
  cch__box *box = cch__registry_find(kind, handle);
  if (box != NULL && cch__context_is_lost((const cch_context *)box->context)) {
    cch__invalidate(box); /* the handle now belongs to another object */
    cch__box_unref(box);
    box = NULL;
  }
  *is_new = box == NULL;
  if (box != NULL) {
    cch__release_owner(owner, release);
  } else {
    box = cch__box_new(kind, size, operation);
    if (box == NULL)
      return CCH_ENOMEM;
    box->owner = owner;
    box->release = release;
  }
  memcpy(out, &box, sizeof box);
  return 0;
}
