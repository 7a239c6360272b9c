/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes share. Memory is mapped once, whatever number of imports there are of it: an import is a box of its
 * own, with a reference to the box of the mapping, which the registry finds by the exporter's handle. When an import
 * ends it leaves behind on which stream; the end of the mapping comes after the work of all of them.
 */
#include "current.h"
#include "reclaim.h"
#include "registry.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The stream that an import ended on. */
typedef struct use {
  struct use *next;
  cch_stream *stream;
  uint64_t thread; /* whose the per-thread default stream is */
} use;

typedef struct import {
  cch_deviceptr ptr; /* its backing is the mapping */
  use *use;          /* made beforehand: an end cannot fail */
} import;

typedef struct mapping {
  cch_deviceptr ptr; /* its backing is the pool */
  use *uses;         /* never empty at its end; guarded by uses_lock */
  size_t use_count;
  char value[CCH__VALUE_SIZE]; /* the pool and the exporter's handle */
} mapping;
static_assert(sizeof(CUmemoryPool) + sizeof(cch_ipc_handle) == CCH__VALUE_SIZE, "a mapping's key");
static_assert(sizeof(cch_ipc_handle) == sizeof(CUmemPoolPtrExportData), "pointers are exported as handles");
static_assert(sizeof(cch_ipc_handle) == sizeof(CUipcEventHandle), "events are exported as handles");

enum { MANY_USES = 16 };

static pthread_mutex_t uses_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- pools ---- */

int cch_pool_export(int *out, cch_pool *pool) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if (pool == NULL)
    return cch__fail(CCH_EINVAL, __func__, "the pool is NULL");
  status = cch__usable(pool, __func__);
  if (status != 0)
    return status;
  int descriptor = -1;
  CUstreamCaptureMode mode = cch__relaxed_enter();
  status = CCH__CALL(cuMemPoolExportToShareableHandle,
                     (&descriptor, pool->raw, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  cch__relaxed_leave(mode);
  if (status == 0)
    *out = descriptor;
  return status;
}

int cch_pool_import(cch_pool **out, int descriptor, int location_type, int location_id) {
  int status = cch__ready();
  if (status != 0)
    return status;
  cch__poll();
  cch_pool *pool = cch__box_new(CCH_KIND_POOL, sizeof *pool, __func__);
  if (pool == NULL)
    return CCH_ENOMEM;
  CUstreamCaptureMode mode = cch__relaxed_enter();
  status = CCH__CALL(cuMemPoolImportFromShareableHandle,
                     (&pool->raw, (void *)(intptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  cch__relaxed_leave(mode);
  if (status != 0) {
    cch__box_discard(pool);
    return status;
  }
  pool->box.owned = true;
  pool->imported = true;
  pool->location_type = location_type;
  pool->location_id = location_id;
  pool->alloc_type = CU_MEM_ALLOCATION_TYPE_PINNED;
  cch_pool *known = cch__registry_insert_unless_known(pool, pool->raw);
  if (known != NULL) {
    /* The driver counts imports, and each box has one. What it was made from itself would not be counted. */
    pool->box.owned = known->imported;
    cch_pool_unref(pool);
    pool = known;
  }
  *out = pool;
  return 0;
}

int cch_pool_is_imported(const cch_pool *pool) { return pool->imported; }

/* ---- memory ---- */

int cch_deviceptr_export(cch_ipc_handle *out, cch_deviceptr *ptr) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if (ptr == NULL)
    return cch__fail(CCH_EINVAL, __func__, "the allocation is NULL");
  status = cch__usable(ptr, __func__);
  if (status != 0)
    return status;
  CUmemPoolPtrExportData data;
  CUstreamCaptureMode mode = cch__relaxed_enter();
  status = CCH__CALL(cuMemPoolExportPointer, (&data, ptr->ptr));
  cch__relaxed_leave(mode);
  if (status == 0)
    memcpy(out, &data, sizeof *out);
  return status;
}

/* The context that an import is freed in: of its stream, the current one, or else the primary one of its device. */
static int context_of(cch_context **out, const cch_pool *pool, const cch_stream *stream) {
  if (stream->context != NULL) {
    *out = cch_context_ref(stream->context);
    return 0;
  }
  int status = cch_context_current(out);
  if (status == 0 && *out == NULL)
    status = cch_context_primary(out, pool->location_type == CCH_LOCATION_DEVICE ? pool->location_id : 0);
  return status;
}

/* Maps what a mapping's value names. */
static int map(mapping *m, cch_pool *pool, const cch_ipc_handle *handle) {
  CUmemPoolPtrExportData data;
  memcpy(&data, handle, sizeof data);
  cch__current current;
  int status = cch__current_enter(&current, m->ptr.context);
  if (status == 0) {
    CUstreamCaptureMode mode = cch__relaxed_enter();
    status = CCH__CALL(cuMemPoolImportPointer, (&m->ptr.ptr, pool->raw, &data));
    cch__relaxed_leave(mode);
    cch__current_leave(&current);
  }
  return status;
}

/* The mapping of a handle, a new reference: the one that there is, or `made`, which is given up otherwise. */
static int mapping_of(mapping **out, mapping *made, cch_pool *pool, const cch_ipc_handle *handle,
                      const char *operation) {
  memcpy(made->value, &pool->raw, sizeof pool->raw);
  memcpy(made->value + sizeof pool->raw, handle, sizeof *handle);
  void *known = NULL;
  int status = cch__registry_claim(&known, made, made->value, sizeof made->value, operation);
  if (status == 0 && known == NULL) {
    status = map(made, pool, handle);
    if (status == 0) {
      made->ptr.backing = cch__box_ref(pool);
      cch__registry_made(made);
      *out = made;
      return 0;
    }
    cch__registry_remove(made);
  }
  cch_context_unref(made->ptr.context);
  cch__box_discard(made);
  *out = known;
  return status;
}

static void *new_box(cch__origin origin, size_t box_size, size_t size, const char *operation) {
  cch_deviceptr *ptr = cch__box_new(CCH_KIND_DEVICEPTR, box_size, operation);
  if (ptr != NULL) {
    ptr->origin = origin;
    ptr->size = size;
  }
  return ptr;
}

int cch_deviceptr_import(cch_deviceptr **out, cch_pool *pool, const cch_ipc_handle *handle, size_t size,
                         cch_stream *stream) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if (pool == NULL || handle == NULL || stream == NULL)
    return cch__fail(CCH_EINVAL, __func__, "the %s is NULL",
                     pool == NULL     ? "pool"
                     : handle == NULL ? "handle"
                                      : "stream");
  if (!pool->imported)
    return cch__fail(CCH_EINVAL, __func__, "the pool is this process's own; memory is imported into a pool that was");
  if (size == 0)
    return cch__fail(CCH_EINVAL, __func__, "the size is 0");
  status = cch__usable(pool, __func__);
  if (status == 0)
    status = cch__usable(stream, __func__);
  if (status != 0)
    return status;
  cch__poll();
  cch_context *context = NULL;
  status = context_of(&context, pool, stream);
  if (status != 0)
    return status;
  import *made = new_box(CCH__IMPORTED, sizeof *made, size, __func__);
  mapping *m = made != NULL ? new_box(CCH__MAPPED, sizeof *m, size, __func__) : NULL;
  use *ended = m != NULL ? calloc(1, sizeof *ended) : NULL;
  if (ended == NULL) {
    if (m != NULL) {
      cch__box_discard(m);
      cch__fail_nomem(__func__);
    }
    if (made != NULL)
      cch__box_discard(made);
    cch_context_unref(context);
    return CCH_ENOMEM;
  }
  m->ptr.context = cch_context_ref(context);
  status = mapping_of(&m, m, pool, handle, __func__);
  if (status == 0 && m->ptr.size != size) {
    status = cch__fail(CCH_EMISMATCH, __func__, "the size is %zu bytes, and the memory was imported with %zu bytes",
                       size, m->ptr.size);
    cch_unref(m); /* another import ends it, or has given it up meanwhile */
  }
  if (status != 0) {
    free(ended);
    cch__box_discard(made);
    cch_context_unref(context);
    return status;
  }
  made->use = ended;
  made->ptr.ptr = m->ptr.ptr;
  made->ptr.context = context;
  made->ptr.backing = &m->ptr.box;
  atomic_init(&made->ptr.stream, cch_stream_ref(stream));
  made->ptr.thread = cch__thread();
  *out = &made->ptr;
  return 0;
}

int cch_deviceptr_is_imported(const cch_deviceptr *ptr) { return ptr->origin == CCH__IMPORTED; }

/* ---- the end of imports ---- */

static cch_stream *stream_of(const use *u) { return cch__stream_for_thread(u->stream, u->thread); }

static void forget(use *u) {
  cch_stream_unref(u->stream);
  free(u);
}

/* Leaves a use behind, unless its stream is there already; how many there are. */
static size_t add_use(mapping *m, use *added) {
  pthread_mutex_lock(&uses_lock);
  use *known = m->uses;
  while (known != NULL && (known->stream != added->stream || known->thread != added->thread))
    known = known->next;
  if (known == NULL) {
    added->next = m->uses;
    m->uses = added;
    m->use_count++;
    added = NULL;
  }
  size_t count = m->use_count;
  pthread_mutex_unlock(&uses_lock);
  if (added != NULL)
    forget(added);
  return count;
}

/* Whether a stream has done all that it was given. */
static bool is_done(const use *u) {
  const cch_stream *stream = stream_of(u);
  return !cch__is_capturing(stream->raw) && cch__driver.cuStreamQuery != NULL &&
         cch__driver.cuStreamQuery(stream->raw) == CUDA_SUCCESS;
}

/* A mapping that lives long does not keep all the streams that it was ever used on. */
static void prune(mapping *m) {
  pthread_mutex_lock(&uses_lock);
  use *uses = m->uses, *next;
  m->uses = NULL;
  m->use_count = 0;
  pthread_mutex_unlock(&uses_lock);
  cch__current current;
  if (cch__current_enter(&current, m->ptr.context) != 0)
    current.switched = false;
  CUstreamCaptureMode mode = cch__relaxed_enter();
  for (use *u = uses; u != NULL; u = next) {
    next = u->next;
    if (next != NULL && is_done(u)) /* one stays: an end needs a stream */
      forget(u);
    else
      add_use(m, u);
  }
  cch__relaxed_leave(mode);
  cch__current_leave(&current);
}

/* Has `join` wait for the work of a stream; false where that cannot be now. */
static bool join_use(cch_stream *join, const use *u) {
  cch_stream *stream = stream_of(u);
  int status = cch_stream_wait_stream(join, stream);
  if (cch__not_now(status))
    return false;
  if (status != 0) { /* then the host waits */
    cch__report(status);
    cch__report(CCH__CALL(cuStreamSynchronize, (stream->raw)));
  }
  return true;
}

/* Unmaps behind the work of several streams, on one of its own, so that none of them waits for another. */
static bool end_behind_all(mapping *m) {
  for (const use *u = m->uses; u != NULL; u = u->next)
    if (cch__is_capturing(stream_of(u)->raw))
      return false;
  cch_stream *join = NULL;
  int status = cch_stream_create(&join, m->ptr.context, CU_STREAM_NON_BLOCKING, 0);
  if (cch__not_now(status))
    return false;
  if (status != 0) {
    cch__report(status);
    join = cch_stream_ref(stream_of(m->uses));
  }
  bool ended = true;
  for (const use *u = m->uses; u != NULL && ended; u = u->next)
    ended = join_use(join, u);
  ended = ended && cch__deviceptr_end_on(&m->ptr, join);
  cch_stream_unref(join);
  return ended;
}

static bool mapping_end(mapping *m) {
  if (m->uses->next == NULL)
    return cch__deviceptr_end_on(&m->ptr, stream_of(m->uses));
  cch__current current;
  int status = cch__current_enter(&current, m->ptr.context);
  if (cch__not_now(status))
    return false;
  CUstreamCaptureMode mode = cch__relaxed_enter();
  bool ended = end_behind_all(m);
  cch__relaxed_leave(mode);
  if (status == 0)
    cch__current_leave(&current);
  else
    cch__report(status);
  return ended;
}

bool cch__import_end(cch_deviceptr *ptr) {
  if (ptr->origin == CCH__MAPPED)
    return mapping_end((mapping *)ptr);
  import *ended = (import *)ptr;
  mapping *m = (mapping *)ptr->backing;
  use *left = ended->use;
  left->stream = cch_stream_ref(cch_deviceptr_stream(ptr));
  left->thread = ptr->thread;
  ended->use = NULL;
  if (add_use(m, left) >= MANY_USES)
    prune(m);
  return true;
}

void cch__import_drop(cch_deviceptr *ptr) {
  if (ptr->origin == CCH__IMPORTED) {
    free(((import *)ptr)->use);
    return;
  }
  for (use *u = ((mapping *)ptr)->uses, *next; u != NULL; u = next) {
    next = u->next;
    forget(u);
  }
}

/* ---- events ---- */

int cch_event_export(cch_ipc_handle *out, cch_event *event) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if (event == NULL)
    return cch__fail(CCH_EINVAL, __func__, "the event is NULL");
  status = cch__usable(event, __func__);
  if (status != 0)
    return status;
  cch__current current; /* any would do; a thread that sends what others make may have none */
  status = cch__current_enter(&current, event->context);
  if (status != 0)
    return status;
  CUipcEventHandle handle;
  status = CCH__CALL(cuIpcGetEventHandle, (&handle, event->raw));
  cch__current_leave(&current);
  if (status == 0)
    memcpy(out, &handle, sizeof *out);
  return status;
}

int cch_event_import(cch_event **out, cch_context *context, const cch_ipc_handle *handle, unsigned flags) {
  int status = cch__ready();
  if (status != 0)
    return status;
  if (context == NULL || handle == NULL)
    return cch__fail(CCH_EINVAL, __func__, "the %s is NULL", context == NULL ? "context" : "handle");
  status = cch__usable(context, __func__);
  if (status != 0)
    return status;
  cch__poll();
  cch_event *event = cch__box_new(CCH_KIND_EVENT, sizeof *event, __func__);
  if (event == NULL)
    return CCH_ENOMEM;
  CUipcEventHandle raw_handle;
  memcpy(&raw_handle, handle, sizeof raw_handle);
  cch__current current;
  status = cch__current_enter(&current, context);
  if (status == 0) {
    status = CCH__CALL(cuIpcOpenEventHandle, (&event->raw, raw_handle));
    cch__current_leave(&current);
  }
  if (status != 0) {
    cch__box_discard(event);
    return status;
  }
  event->box.owned = true;
  event->flags = CCH_EVENT_INTERPROCESS | CCH_EVENT_DISABLE_TIMING | (flags & CCH_EVENT_BLOCKING_SYNC);
  event->context = cch_context_ref(context);
  cch__registry_insert(event, event->raw);
  *out = event;
  return 0;
}
