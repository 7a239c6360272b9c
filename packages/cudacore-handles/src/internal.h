/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_H
#define CUDACORE_INTERNAL_H

/* What the source files share. Public contracts stand in the headers under include/; here is how they are kept. */

#include <cuda.h>
#include <cudaTypedefs.h>

#include <cudacore/cudacore.h>

#include <stdatomic.h>
#include <stdbool.h>

/* ---- driver table ------------------------------------------------------------------------------------------- */

/* Every entry point that the library uses, with the CUDA version of the ABI that it was written for. */
#define CCH__DRIVER_FUNCTIONS(X)                                                                                       \
  X(cuInit, 2000)                                                                                                      \
  X(cuGetErrorName, 6000)                                                                                              \
  X(cuGetErrorString, 6000)                                                                                            \
  X(cuDriverGetVersion, 2020)                                                                                          \
  X(cuDeviceGetCount, 2000)                                                                                            \
  X(cuDeviceGet, 2000)                                                                                                 \
  X(cuDeviceGetAttribute, 2000)                                                                                        \
  X(cuDeviceGetName, 2000)                                                                                             \
  X(cuDeviceGetUuid, 11040)                                                                                            \
  X(cuDeviceGetPCIBusId, 4010)                                                                                         \
  X(cuDeviceCanAccessPeer, 4000)                                                                                       \
  X(cuDevicePrimaryCtxRetain, 7000)                                                                                    \
  X(cuDevicePrimaryCtxRelease, 11000)                                                                                  \
  X(cuCtxGetCurrent, 4000)                                                                                             \
  X(cuCtxSetCurrent, 4000)                                                                                             \
  X(cuCtxGetDevice, 2000)                                                                                              \
  X(cuCtxGetStreamPriorityRange, 5050)                                                                                 \
  X(cuCtxSynchronize, 2000)                                                                                            \
  X(cuStreamCreateWithPriority, 5050)                                                                                  \
  X(cuStreamDestroy, 4000)                                                                                             \
  X(cuStreamGetCtx, 9020)                                                                                              \
  X(cuStreamGetFlags, 5050)                                                                                            \
  X(cuStreamGetPriority, 5050)                                                                                         \
  X(cuStreamQuery, 2000)                                                                                               \
  X(cuStreamSynchronize, 2000)                                                                                         \
  X(cuStreamWaitEvent, 3020)                                                                                           \
  X(cuEventCreate, 2000)                                                                                               \
  X(cuEventDestroy, 4000)                                                                                              \
  X(cuEventRecord, 2000)                                                                                               \
  X(cuEventQuery, 2000)                                                                                                \
  X(cuEventSynchronize, 2000)                                                                                          \
  X(cuEventElapsedTime, 12080)                                                                                         \
  X(cuMemPoolCreate, 11020)                                                                                            \
  X(cuMemPoolDestroy, 11020)                                                                                           \
  X(cuDeviceGetMemPool, 11020)                                                                                         \
  X(cuMemPoolGetAttribute, 11020)                                                                                      \
  X(cuMemPoolSetAttribute, 11020)                                                                                      \
  X(cuMemPoolGetAccess, 11020)                                                                                         \
  X(cuMemPoolSetAccess, 11020)                                                                                         \
  X(cuThreadExchangeStreamCaptureMode, 10010)                                                                          \
  X(cuMemAllocFromPoolAsync, 11020)                                                                                    \
  X(cuMemFreeAsync, 11020)                                                                                             \
  X(cuMemAlloc, 3020)                                                                                                  \
  X(cuMemFree, 3020)                                                                                                   \
  X(cuMemHostAlloc, 2020)                                                                                              \
  X(cuMemFreeHost, 2000)                                                                                               \
  X(cuMemcpyAsync, 4000)                                                                                               \
  X(cuMemsetD8Async, 3020)                                                                                             \
  X(cuMemsetD16Async, 3020)                                                                                            \
  X(cuMemsetD32Async, 3020)                                                                                            \
  X(cuPointerGetAttribute, 4000)                                                                                       \
  X(cuPointerGetAttributes, 7000)                                                                                      \
  X(cuLibraryLoadData, 12000)                                                                                          \
  X(cuLibraryUnload, 12000)                                                                                            \
  X(cuLibraryGetKernel, 12000)                                                                                         \
  X(cuKernelGetLibrary, 12050)                                                                                         \
  X(cuKernelGetParamInfo, 12040)                                                                                       \
  X(cuKernelGetAttribute, 12000)                                                                                       \
  X(cuKernelSetAttribute, 12000)                                                                                       \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050)                                                                 \
  X(cuOccupancyMaxPotentialBlockSize, 6050)                                                                            \
  X(cuOccupancyAvailableDynamicSMemPerBlock, 10020)                                                                    \
  X(cuOccupancyMaxPotentialClusterSize, 11070)                                                                         \
  X(cuOccupancyMaxActiveClusters, 11070)                                                                               \
  X(cuLaunchKernelEx, 11060)

/* cuda.h renames some functions to versioned ones by macros; the table is keyed by the plain names. */
#undef cuDeviceGetUuid
#undef cuDevicePrimaryCtxRelease
#undef cuStreamDestroy
#undef cuEventDestroy
#undef cuEventElapsedTime
#undef cuMemAlloc
#undef cuMemFree
#undef cuStreamGetCtx
#undef cuCtxSynchronize
#undef cuCtxGetDevice

typedef struct cch__driver_table {
#define CCH__FIELD(name, version) PFN_##name##_v##version name;
  CCH__DRIVER_FUNCTIONS(CCH__FIELD)
#undef CCH__FIELD
} cch__driver_table;

extern cch__driver_table cch__driver;

/* Whether the table is filled: for those who may look before, or without, cch_driver_init(). */
bool cch__driver_loaded(void);

/* Where the process stands with CUDA. Everything that may enter the driver asks cch__ready() first. */
enum { CCH__UNINITIALISED = 0, CCH__READY = 1, CCH__FORKED = 2 };
extern atomic_int cch__state;

static inline int cch__ready(void) {
  return atomic_load_explicit(&cch__state, memory_order_acquire) == CCH__READY ? 0 : cch_driver_init();
}

static inline bool cch__forked(void) { return atomic_load_explicit(&cch__state, memory_order_relaxed) == CCH__FORKED; }

/* ---- errors ------------------------------------------------------------------------------------------------- */

/* Record a failure of ours for the calling thread and return its code. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
int cch__fail(int code, const char *operation, const char *format, ...);
int cch__fail_nomem(const char *operation);

/* Record a CUresult and return it. CUDA_ERROR_NOT_READY is an answer: it is returned and not recorded. */
int cch__fail_driver(int result, const char *operation);
int cch__fail_missing(const char *operation);

/* Between these, on one thread, failures are recorded apart from those of the caller's own calls. */
void cch__destructor_enter(void);
void cch__destructor_leave(void);

/* Around a foreign owner's callback, which is ordinary code again: what fails in it, it can ask for itself. */
typedef struct cch__errors {
  cch_error last;
  unsigned destructors;
} cch__errors;

void cch__owner_enter(cch__errors *saved);
void cch__owner_leave(const cch__errors *saved);

/* Report a failure that has nobody to return to. */
void cch__report(int status);

static inline int cch__checked(int result, const char *operation) {
  return result == 0 ? 0 : cch__fail_driver(result, operation);
}

/* Call the driver: CCH__CALL(cuEventCreate, (&raw, flags)) is 0 or a recorded failure. */
#define CCH__CALL(name, arguments)                                                                                     \
  (cch__driver.name ? cch__checked((int)cch__driver.name arguments, #name) : cch__fail_missing(#name))

/* ---- boxes -------------------------------------------------------------------------------------------------- */

typedef struct cch__box {
  atomic_size_t references;
  uint8_t kind;
  atomic_bool gone;        /* the resource was destroyed by its owner */
  bool owned;              /* the resource is destroyed with the box */
  bool registered;         /* guarded by the registry's lock */
  const void *key;         /* raw handle under which it is registered */
  struct cch__box *link;   /* next in the registry's chain */
  struct cch__box *queued; /* next in the reclaim queue */
  void *owner;
  cch_release_fn release;
} cch__box;

struct cch_context {
  cch__box box;
  CUcontext raw;
  int device;
};

struct cch_stream {
  cch__box box;
  CUstream raw;
  cch_context *context;
};

struct cch_event {
  cch__box box;
  CUevent raw;
  cch_context *context;
  unsigned flags;
};

struct cch_pool {
  cch__box box;
  CUmemoryPool raw;
  int device;
};

typedef enum cch__origin { CCH__FROM_POOL, CCH__FROM_DEVICE, CCH__FROM_HOST, CCH__FOREIGN } cch__origin;

struct cch_deviceptr {
  cch__box box;
  CUdeviceptr ptr;
  size_t size;
  cch_context *context;
  cch_pool *pool;
  cch_stream *stream;
  cch__origin origin;
  cch_free_fn free;
};

struct cch_library {
  cch__box box;
  CUlibrary raw;
};

typedef struct cch__params {
  size_t count;
  size_t block_size;
  cch_param param[];
} cch__params;

struct cch_kernel {
  cch__box box;
  CUkernel raw;
  cch_library *library;
  _Atomic(cch__params *) params;
};

struct cch_nvrtc_program {
  cch__box box;
  nvrtcProgram raw;
  int (*destroy)(nvrtcProgram *);
};

struct cch_nvvm_program {
  cch__box box;
  nvvmProgram raw;
  int (*destroy)(nvvmProgram *);
};

/* A box where `release` is NULL, a foreign object where it is not. */
typedef struct cch__owner {
  void *object;
  cch_release_fn release;
} cch__owner;

struct cch_bundle {
  cch__box box;
  size_t count, capacity;
  cch__owner *owners; /* `first`, until more are added than there was room for */
  cch__owner first[];
};

/* A zeroed box of a kind with one reference, counted as live; NULL when memory ran out (recorded). */
void *cch__box_new(cch_kind kind, size_t size, const char *operation);
/* Undo cch__box_new for a box whose resource was never made; its owner stays the caller's. */
void cch__box_discard(void *box);
void *cch__box_ref(void *box);
void cch__box_unref(void *box);
/* Takes a reference unless the count is zero. */
bool cch__box_try_ref(cch__box *box);
/* Destroys the resource and frees the box; the count is zero and CUDA calls are allowed. */
void cch__box_destroy(cch__box *box);
void cch__release_owner(void *owner, cch_release_fn release);
/* The runtime behind foreign owners has gone or is going: they are leaked. */
bool cch__exiting(void);

/* The three verbs that every kind has. */
#define CCH__DEFINE_VERBS(type, Raw)                                                                                   \
  type *type##_ref(type *box) { return cch__box_ref(box); }                                                            \
  void type##_unref(type *box) { cch__box_unref(box); }                                                                \
  Raw type##_raw(const type *box) { return box ? box->raw : (Raw)0; }

void cch__context_destroy(cch_context *context);
void cch__stream_destroy(cch_stream *stream);
void cch__event_destroy(cch_event *event);
void cch__pool_destroy(cch_pool *pool);
void cch__deviceptr_destroy(cch_deviceptr *ptr);
void cch__library_destroy(cch_library *library);
void cch__kernel_destroy(cch_kernel *kernel);
void cch__nvrtc_program_destroy(cch_nvrtc_program *program);
void cch__nvvm_program_destroy(cch_nvvm_program *program);
void cch__bundle_destroy(cch_bundle *bundle);

/* ---- registries --------------------------------------------------------------------------------------------- */

/* The live box of a raw handle with a new reference, or NULL. */
void *cch__registry_find(cch_kind kind, const void *key);
/* Enters a box under its handle. Another box there is forgotten: the handle is known to be the new one's. */
void cch__registry_insert(void *box, const void *key);
/* Enters a box unless an owned live one is there already; that one is returned with a new reference. */
void *cch__registry_insert_unless_owned(void *box, const void *key);
/* Must come before the driver destroys the handle, because the driver reuses addresses. */
void cch__registry_remove(void *box);

/*
 * What every _wrap does first: the box of a handle that should come back instead of a new one, or NULL.
 * A box that owns its resource needs no foreign owner, which is released; a borrowed one is shared only by those
 * who state no owner, so that each stated owner lives exactly as long as the box made for it.
 */
void *cch__wrap_known(cch_kind kind, const void *key, void *owner, cch_release_fn release);

/* ---- module images ------------------------------------------------------------------------------------------ */

typedef enum cch__format { CCH__CUBIN, CCH__FATBIN, CCH__PTX } cch__format;

/* Tells what an image is, having checked that no header in it points beyond its end; CCH_EIMAGE otherwise. */
int cch__image_check(cch__format *out, const void *image, size_t size);

/* ---- current context ---------------------------------------------------------------------------------------- */

/* Makes a box's context current for a few calls; NULL means whatever is current. */
typedef struct cch__current {
  CUcontext saved;
  bool switched;
} cch__current;

int cch__current_enter(cch__current *current, const cch_context *context);
void cch__current_leave(const cch__current *current);

/* ---- reclaim queue ------------------------------------------------------------------------------------------ */

bool cch__in_callback(void);
void cch__reclaim_push(cch__box *box);
/* Called by what creates or waits: destroys what was queued, if anything. */
void cch__reclaim_poll(void);

#endif
