/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing with other processes. Memory is mapped once, even if it is imported several times. Each import is a part of
 * the mapping, and the registry finds the mapping's box by the memory's name. It finds memory of this process in the
 * same way, if its name was sent back.
 */
#include "driver/current.h"
#include "memory/deviceptr.h"
#include "stream/stream.h"
#include "base/reclaim.h"
#include "base/registry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct mapping {
  cch_deviceptr ptr; /* the mapped memory; its backing is the pool */
  cch__name name;
} mapping;
static_assert(sizeof(cch__name) == CCH__VALUE_SIZE, "the key of memory");
static_assert(sizeof(cch_ipc_handle) == sizeof(CUmemPoolPtrExportData), "pointers are exported as handles");
static_assert(sizeof(cch_ipc_handle) == sizeof(CUipcEventHandle), "events are exported as handles");

/* ---- pools ---- */

cch_status cch_pool_export(int *out, cch_pool *pool) {
  CCH__REQUIRE_USABLE(out, pool);
  int descriptor = -1;
  int status = CCH__RELAXED(CCH__CALL(cuMemPoolExportToShareableHandle,
                                      (&descriptor, pool->raw, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)));
  if (status == 0)
    *out = descriptor;
  return status;
}

static bool is_of_device(const cch_pool *pool) { return pool->location_type == CCH_LOCATION_DEVICE; }

/* Finds whether a location has access to a pool's memory. */
static int has_access(bool *out, const cch_pool *pool, CUmemLocationType type, int id) {
  CUmemLocation location = {.type = type, .id = id};
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  if (cch__driver.cuMemPoolGetAccess == NULL)
    return cch__fail_missing("cuMemPoolGetAccess");
  int result = (int)cch__driver.cuMemPoolGetAccess(&flags, pool->raw, &location);
  if (result == CUDA_ERROR_INVALID_VALUE) /* an older driver does not support the host here, nor pools of host memory */
    result = CUDA_SUCCESS;
  *out = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return cch__checked(result, "cuMemPoolGetAccess");
}

/*
 * Checks that an imported pool can be at the location that the caller stated. The driver does not report the location.
 * But the host has access only to pools of host memory, and a device has access to its own pools. It can have access to
 * those of other devices, too, which is found when memory of the pool is mapped.
 */
static int check_location(const cch_pool *pool, const char *operation) {
  bool is_hosts = false, is_devices = false;
  int status = has_access(&is_hosts, pool, CU_MEM_LOCATION_TYPE_HOST, 0);
  if (status == 0 && is_of_device(pool) && !is_hosts)
    status = has_access(&is_devices, pool, CU_MEM_LOCATION_TYPE_DEVICE, pool->location_id);
  if (status != 0 || (is_of_device(pool) ? is_devices : is_hosts))
    return status;
  return cch__fail(CCH_EMISMATCH, operation, "the pool is not of the memory of %s %d",
                   is_of_device(pool) ? "device" : "the host, node", pool->location_id);
}

/* Checks that a pool which was imported before is at the location that the caller states now. */
static int check_known_location(const cch_pool *known, const cch_pool *pool, const char *operation) {
  if (is_of_device(known) == is_of_device(pool) && (!is_of_device(pool) || known->location_id == pool->location_id))
    return 0;
  return cch__fail(CCH_EMISMATCH, operation, "the pool is of other memory than that of %s %d",
                   is_of_device(pool) ? "device" : "the host, node", pool->location_id);
}

cch_status cch_pool_import(cch_pool **out, int descriptor, int location_type, int location_id) {
  CCH__REQUIRE_USABLE(out);
  cch__poll();
  cch_pool *pool = cch__box_new(CCH_KIND_POOL, sizeof *pool, __func__);
  if (pool == NULL)
    return CCH_ENOMEM;
  int status =
      CCH__RELAXED(CCH__CALL(cuMemPoolImportFromShareableHandle,
                             (&pool->raw, (void *)(intptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)));
  CCH__RETURN_FAILURE(cch__box_created(pool, status));
  pool->imported = true;
  pool->location_type = location_type;
  pool->location_id = location_id;
  pool->alloc_type = CU_MEM_ALLOCATION_TYPE_PINNED;
  status = check_location(pool, __func__);
  cch_pool *known =
      status == 0 ? cch__registry_insert_unless_known(pool, pool->raw) : cch__registry_find(CCH_KIND_POOL, pool->raw);
  if (known != NULL) {
    if (status == 0)
      status = check_known_location(known, pool, __func__);
    /*
     * The driver counts imports. It cannot end an import while memory of the pool is mapped, so the pool's box keeps
     * this import until the box is destroyed.
     */
    if (known->imported)
      atomic_fetch_add_explicit(&known->more_imports, 1, memory_order_relaxed);
    pool->box.owned = false;
    cch_pool_unref(pool);
    pool = known;
  }
  if (status != 0) {
    cch_pool_unref(pool);
    return status;
  }
  *out = pool;
  return 0;
}

/* ---- memory ---- */

/*
 * Gets a handle with which other processes refer to an allocation. The driver returns a new handle each time. If memory
 * is imported by two handles, it is mapped twice, and ending one import ends the other. So the first handle is kept.
 */
static int name_memory(cch_deviceptr *whole, const char *operation) {
  cch__name *made = calloc(1, sizeof *made), *known = NULL;
  if (made == NULL)
    return cch__fail_nomem(operation);
  CUmemPoolPtrExportData data;
  int status = CCH__RELAXED(CCH__CALL(cuMemPoolExportPointer, (&data, whole->ptr)));
  if (status == 0) {
    memcpy(&made->handle, &data, sizeof made->handle);
  }
  if (status != 0 || !atomic_compare_exchange_strong(&whole->exported, &known, made))
    free(made);
  else
    cch__registry_insert_value(whole, made, sizeof *made);
  return status;
}

cch_status cch_deviceptr_export(cch_ipc_handle *out, cch_deviceptr *ptr) {
  CCH__REQUIRE_USABLE(out, ptr);
  cch_deviceptr *whole = cch_deviceptr_whole(ptr);
  if (whole->origin == CCH__MAPPED) { /* the driver cannot export imported memory; the exporter's handle is used */
    *out = ((const mapping *)whole)->name.handle;
    return 0;
  }
  if (atomic_load(&whole->exported) == NULL) {
    CCH__RETURN_FAILURE(name_memory(whole, __func__));
  }
  *out = atomic_load(&whole->exported)->handle;
  return 0;
}

/* Resolves the stream of an import. If no context is current, a default stream is that of the pool's device. */
static int resolve(cch_stream **out, const cch_pool *pool, cch_stream *stream) {
  int status = cch__stream_resolve(out, stream, NULL);
  if (status != 0 || (*out)->context != NULL)
    return status;
  cch_stream_unref(*out);
  *out = NULL; /* the caller drops it after a failure, too */
  cch_context *primary;
  CCH__RETURN_FAILURE(
      cch_context_primary(&primary, pool->location_type == CCH_LOCATION_DEVICE ? pool->location_id : 0));
  status = cch__stream_resolve(out, stream, primary);
  cch_context_unref(primary);
  return status;
}

/*
 * Queries the real size of mapped memory, because the other process may have sent a wrong one, and checks that it is at
 * the location that was stated for its pool. cuMemGetAddressRange does not support host memory that no device has
 * access to.
 */
static int query_mapped(size_t *size, const cch_pool *pool, CUdeviceptr address, const char *operation) {
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  int device = pool->location_id;
  void *values[] = {size, &device};
  int status = CCH__CALL(cuPointerGetAttributes, (is_of_device(pool) ? 2 : 1, wanted, values, address));
  if (status != 0 || device == pool->location_id)
    return status;
  return cch__fail(CCH_EINVAL, operation, "the memory is of device %d, and its pool was imported as one of device %d",
                   device, pool->location_id);
}

/* Maps the memory that a handle names. The context of the mapping must be current. */
static int map(mapping *m, cch_pool *pool, const cch_ipc_handle *handle, const cch_stream *stream,
               const char *operation) {
  CUmemPoolPtrExportData data;
  memcpy(&data, handle, sizeof data);
  CUstreamCaptureMode mode = cch__relaxed_enter();
  int status = CCH__CALL(cuMemPoolImportPointer, (&m->ptr.ptr, pool->raw, &data));
  if (status == 0) {
    status = query_mapped(&m->ptr.size, pool, m->ptr.ptr, operation);
    if (status != 0) {
      CCH__ASIDE(cch__report(CCH__CALL(cuMemFreeAsync, (m->ptr.ptr, cch__stream_here(stream)))));
    }
  }
  cch__relaxed_leave(mode);
  return status;
}

/* Makes a mapping whose memory is not mapped yet. */
static mapping *new_mapping(cch_context *context, const char *operation) {
  mapping *m = cch__box_new(CCH_KIND_DEVICEPTR, sizeof *m, operation);
  if (m != NULL) {
    m->ptr.origin = CCH__MAPPED;
    m->ptr.context = cch_context_ref(context);
    m->ptr.box.context = context->box.context;
  }
  return m;
}

/* Gets the mapping of a handle, as a new reference: an existing one, or a new one. */
static int mapping_of(cch_deviceptr **out, cch_pool *pool, const cch_ipc_handle *handle, const cch_stream *stream,
                      const char *operation) {
  mapping *made = new_mapping(stream->context, operation);
  if (made == NULL)
    return CCH_ENOMEM;
  made->name = (cch__name){pool->raw, *handle};
  void *known = NULL;
  int status = cch__registry_claim(&known, made, &made->name, sizeof made->name, operation);
  if (status == 0 && known == NULL) {
    status = CCH__IN_CONTEXT(made->ptr.context, map(made, pool, handle, stream, operation));
    if (status == 0) {
      made->ptr.backing = cch__box_ref(pool);
      cch__registry_made(made);
      *out = &made->ptr;
      return 0;
    }
    cch__registry_remove(made);
  }
  cch_context_unref(made->ptr.context);
  cch__box_free(made);
  *out = known;
  return status;
}

/* Gets memory of this process whose name was sent back, as a new reference. */
static int own_memory_of(cch_deviceptr **out, const cch_ipc_handle *handle, const char *operation) {
  const cch__name name = {NULL, *handle};
  *out = cch__registry_find_value(CCH_KIND_DEVICEPTR, &name, sizeof name);
  return *out != NULL ? 0 : cch__fail(CCH_EGONE, operation, "the memory is of this process, which has freed it");
}

/* Makes an import, which is a part of a mapping, or of memory of this process. */
static int import_from(cch_deviceptr **out, cch_deviceptr *whole, size_t offset, size_t size, cch_stream *stream,
                       const char *operation) {
  if (offset > whole->size || size > whole->size - offset)
    return cch__fail(CCH_EMISMATCH, operation, "%zu bytes from byte %zu on are not within the %zu bytes of the memory",
                     size, offset, whole->size);
  cch_stream *resolved;
  CCH__RETURN_FAILURE(cch__stream_resolve(&resolved, stream, whole->context));
  int status = cch_deviceptr_borrow(out, whole->ptr + offset, size, whole);
  if (status == 0)
    atomic_init(&(*out)->stream, resolved);
  else
    cch_stream_unref(resolved);
  return status;
}

cch_status cch_deviceptr_import_part(cch_deviceptr **out, cch_pool *pool, const cch_ipc_handle *handle, size_t offset,
                                     size_t size, cch_stream *stream) {
  CCH__REQUIRE_USABLE(out, handle, stream);
  CCH__REQUIRE_USABLE_OR_NULL(pool);
  if (pool != NULL && !pool->imported)
    return cch__fail(CCH_EINVAL, __func__, "the pool is this process's own; memory is imported into a pool that was");
  if (size == 0)
    return cch__fail(CCH_EINVAL, __func__, "the size is 0");
  cch__poll();
  cch_deviceptr *whole = NULL;
  cch_stream *resolved = NULL;
  int status = pool == NULL ? own_memory_of(&whole, handle, __func__) : resolve(&resolved, pool, stream);
  if (status == 0 && pool != NULL)
    status = cch__pool_keep_context(pool);
  if (status == 0 && pool != NULL)
    status = mapping_of(&whole, pool, handle, resolved, __func__);
  if (status == 0) {
    status = import_from(out, whole, offset, size, resolved != NULL ? resolved : stream, __func__);
    cch_deviceptr_unref(whole); /* the import keeps it */
  }
  cch_stream_unref(resolved);
  return status;
}

bool cch_deviceptr_is_imported(const cch_deviceptr *ptr) {
  CCH__REQUIRE_ELSE(false, ptr);
  const cch_deviceptr *whole = cch_deviceptr_whole(ptr);
  return whole->origin == CCH__MAPPED || whole->imported;
}

/* ---- events ---- */

/* Keeps the name of an event, unless it has one. */
static int name_event(cch_event *event, const cch_ipc_handle *handle, const char *operation) {
  cch_ipc_handle *made = malloc(sizeof *made), *known = NULL;
  if (made == NULL)
    return cch__fail_nomem(operation);
  *made = *handle;
  if (!atomic_compare_exchange_strong(&event->name, &known, made))
    free(made);
  return 0;
}

cch_status cch_event_export(cch_ipc_handle *out, cch_event *event) {
  CCH__REQUIRE_USABLE(out, event);
  if (atomic_load(&event->name) == NULL) { /* the driver cannot export an imported event, which has a name */
    CUipcEventHandle handle;
    cch_ipc_handle name;
    /* Any context would do, but one must be current. A thread that only sends handles may have none. */
    CCH__RETURN_FAILURE(CCH__IN_CONTEXT(event->context, CCH__CALL(cuIpcGetEventHandle, (&handle, event->raw))));
    memcpy(&name, &handle, sizeof name);
    CCH__RETURN_FAILURE(name_event(event, &name, __func__));
  }
  *out = *atomic_load(&event->name);
  return 0;
}

static bool has_name(const void *box, const void *handle) {
  const cch_ipc_handle *name = atomic_load(&((const cch_event *)box)->name);
  return name != NULL && !cch__is_gone((const cch_event *)box) && memcmp(name, handle, sizeof *name) == 0;
}

cch_status cch_event_import(cch_event **out, cch_context *context, const cch_ipc_handle *handle, unsigned flags) {
  CCH__REQUIRE_USABLE(out, context, handle);
  cch__poll();
  cch_event *event = cch__registry_search(CCH_KIND_EVENT, has_name, handle);
  if (event != NULL) {
    *out = event;
    return 0;
  }
  event = cch__box_new(CCH_KIND_EVENT, sizeof *event, __func__);
  if (event == NULL)
    return CCH_ENOMEM;
  int status = name_event(event, handle, __func__);
  if (status == 0) {
    CUipcEventHandle raw_handle;
    memcpy(&raw_handle, handle, sizeof raw_handle);
    status = CCH__IN_CONTEXT(context, CCH__CALL(cuIpcOpenEventHandle, (&event->raw, raw_handle)));
  }
  if (status != 0)
    free(atomic_load(&event->name));
  CCH__RETURN_FAILURE(cch__box_created(event, status));
  event->flags = CCH_EVENT_INTERPROCESS | CCH_EVENT_DISABLE_TIMING | (flags & CCH_EVENT_BLOCKING_SYNC);
  cch__box_in(&event->box, &event->context, context);
  cch__registry_insert(event, event->raw);
  *out = event;
  return 0;
}
