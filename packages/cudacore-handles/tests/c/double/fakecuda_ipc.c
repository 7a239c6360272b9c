/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes share, with one process in both parts: it imports what it exports, as another would. An import is
 * memory of its own, with the bytes that the exporter's has at the time.
 */
#include "double/fakecuda_internal.h"

#include <sys/mman.h>
#include <unistd.h>

/* What a descriptor's file and a handle hold. */
typedef struct name {
  char magic[8];
  object *object;
  CUdeviceptr base;
  size_t count; /* the driver can name memory otherwise each time */
} name;
_Static_assert(sizeof(name) <= sizeof(CUmemPoolPtrExportData), "a handle has room for a name");

static const char magic[8] = "fakeipc";

static name name_of(object *o) {
  name result = {.object = o, .base = o->kind == FAKE_MEMORY ? o->u.memory.base : 0};
  memcpy(result.magic, magic, sizeof magic);
  return result;
}

/* The object of a kind that a name is of; NULL where it is none, or is gone. */
static object *named(const name *n, fake_kind kind) {
  if (memcmp(n->magic, magic, sizeof magic) != 0)
    return NULL;
  object *o = n->object;
  bool is_it = o->live && o->kind == kind && (kind != FAKE_MEMORY || o->u.memory.base == n->base);
  return is_it ? o : NULL;
}

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *out, CUmemoryPool handle, CUmemAllocationHandleType type,
                                                  unsigned long long flags) {
  ENTER(cuMemPoolExportToShareableHandle);
  object *pool;
  TRY(find_object(&pool, FAKE_POOL, handle));
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags || pool->u.pool.source ||
      pool->u.pool.props.handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return leave(CUDA_ERROR_INVALID_VALUE);
  int descriptor = memfd_create("fakecuda", 0);
  name n = name_of(pool);
  if (descriptor < 0 || write(descriptor, &n, sizeof n) != sizeof n)
    return leave(CUDA_ERROR_OPERATING_SYSTEM);
  *(int *)out = descriptor;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *handle, CUmemAllocationHandleType type,
                                                    unsigned long long flags) {
  ENTER(cuMemPoolImportFromShareableHandle);
  name n;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags ||
      pread((int)(intptr_t)handle, &n, sizeof n, 0) != sizeof n)
    return leave(CUDA_ERROR_INVALID_VALUE);
  object *source = named(&n, FAKE_POOL);
  if (!source)
    return leave(CUDA_ERROR_INVALID_VALUE);
  object *pool = source->u.pool.import;
  if (!pool) {
    pool = new_object(FAKE_POOL);
    if (!pool)
      return leave(CUDA_ERROR_OUT_OF_MEMORY);
    pool->u.pool.device = source->u.pool.device;
    pool->u.pool.props = source->u.pool.props;
    pool->u.pool.source = source;
    source->u.pool.import = pool;
  }
  pool->u.pool.imports++;
  *out = (CUmemoryPool)pool;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr ptr) {
  ENTER(cuMemPoolExportPointer);
  object *memory = allocation_of(ptr), *pool = memory ? memory->u.memory.pool : NULL;
  if (!pool || memory->u.memory.base != ptr || pool->u.pool.source ||
      pool->u.pool.props.handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return leave(CUDA_ERROR_INVALID_VALUE);
  static size_t exports;
  name n = name_of(memory);
  n.count = exports++;
  memset(out, 0, sizeof *out);
  memcpy(out, &n, sizeof n);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool handle, CUmemPoolPtrExportData *data) {
  ENTER(cuMemPoolImportPointer);
  object *pool, *memory;
  name n;
  TRY(find_object(&pool, FAKE_POOL, handle));
  memcpy(&n, data, sizeof n);
  object *source = named(&n, FAKE_MEMORY);
  if (!source || !pool->u.pool.source || source->u.memory.pool != pool->u.pool.source)
    return leave(CUDA_ERROR_INVALID_VALUE);
  if (source->u.memory.import) { /* the driver gives the same address, and the first free ends it for both */
    violate("0x%llx is mapped twice", source->u.memory.base);
    return leave(CUDA_ERROR_ALREADY_MAPPED);
  }
  TRY(allocate(&memory, source->u.memory.size));
  memcpy((void *)(uintptr_t)memory->u.memory.base, (void *)(uintptr_t)source->u.memory.base, source->u.memory.size);
  memory->u.memory.origin = POOL_MEMORY;
  memory->u.memory.pool = pool;
  memory->u.memory.source = source;
  source->u.memory.import = memory;
  pool->u.pool.allocations++;
  pool->u.pool.used += source->u.memory.size;
  *out = memory->u.memory.base;
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *out, CUevent handle) {
  ENTER(cuIpcGetEventHandle);
  object *event;
  TRY(find_object(&event, FAKE_EVENT, handle));
  if (!(event->u.event.flags & CU_EVENT_INTERPROCESS) || event->u.event.imported)
    return leave(CUDA_ERROR_INVALID_HANDLE);
  name n = name_of(event);
  memset(out, 0, sizeof *out);
  memcpy(out, &n, sizeof n);
  return leave(CUDA_SUCCESS);
}

CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle) {
  ENTER(cuIpcOpenEventHandle);
  object *context;
  TRY(current_context(&context));
  name n;
  memcpy(&n, &handle, sizeof n);
  if (!named(&n, FAKE_EVENT))
    return leave(CUDA_ERROR_MAP_FAILED);
  object *event = new_object(FAKE_EVENT);
  if (!event)
    return leave(CUDA_ERROR_OUT_OF_MEMORY);
  bind_to_context(event, context);
  event->u.event.flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
  event->u.event.imported = true;
  *out = (CUevent)event;
  return leave(CUDA_SUCCESS);
}
