/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_KINDS_H
#define CUDACORE_KINDS_H

/*
 * The structures of the boxes, and the functions that destroy them. If only one file uses the structure of a kind, that
 * file defines it.
 */

#include "base/arguments.h"

#include <cuda.h>

#include <cudacore_internal/all.h>

#include <pthread.h>
#include <stdatomic.h>

struct cch_context {
  cch__box box;
  CUcontext raw;
  int device;
  CUgreenCtx green;         /* the green context, if this library made it; NULL for any other context */
  _Atomic(CUstream) helper; /* on which frees wait for several streams; NULL until it is needed */
  uint64_t id; /* distinguishes the primary contexts that have the same handle before and after a reset; 0: unknown */
};

/* Returns the context with which the resource of a box is lost; NULL if the resource is not lost with any context. */
static inline const cch_context *cch__lost_with(const cch__box *box) {
  return box->context != NULL && box->context->kind == CCH_KIND_CONTEXT ? (const cch_context *)box->context : NULL;
}

struct cch_stream {
  cch__box box;
  CUstream raw;
  cch_context *context;         /* NULL for a default stream that is not resolved (resolve.c) */
  uint64_t thread;              /* of a resolved per-thread default stream; 0 for any other stream */
  size_t uses;                  /* how many of the references are uses of memory; guarded by a lock of uses.c */
  _Atomic(cch_graph *) capture; /* weak: the graph that the stream is captured into; changed under cch__captures_lock */
  _Atomic(uint64_t) capture_id; /* the number of the capture that the stream is in */
  cch_stream *into;    /* the stream that it was joined into last; guarded by cch__captures_lock, as the next field */
  uint64_t joined_in;  /* the number of the capture of that join */
  atomic_size_t frees; /* cch__frees at the last wait for the stream */
  uint64_t number;     /* no two streams that the library creates have the same one; 0 for streams of other code */
};

struct cch_event {
  cch__box box;
  CUevent raw;
  cch_context *context;
  _Atomic(cch_ipc_handle *) name; /* with which it was exported or imported; NULL if neither */
  unsigned flags;
  /*
   * Whether the event was last recorded in a capture; or, if that was not asked yet, the stream of the record: its
   * handle and number. Otherwise, `recorded_on` is NULL.
   */
  atomic_bool captured;
  _Atomic(CUstream) recorded_on;
  _Atomic(uint64_t) stream_number;
  atomic_size_t frees; /* cch__frees at the last wait for the event */
};

/*
 * How often memory of pools was freed. Only a wait of the driver lets pools return memory to the system, a query does
 * not (13.0, H200). So where a query has said that the work is done, the driver's wait is called only if memory was
 * freed since the last one.
 */
extern atomic_size_t cch__frees;

/*
 * How many libraries and kernels of other code exist that may print. Only a wait of the driver writes what kernels have
 * printed, a query does not. So as long as there are any, each wait ends with one of the driver's.
 */
extern atomic_size_t cch__printing;

/*
 * Returns whether a wait for a stream or an event needs the driver's wait after a query: because memory was freed since
 * the last one, or kernels print. Notes that there is a wait now.
 */
static inline bool cch__needs_wait(atomic_size_t *last) {
  size_t frees = atomic_load_explicit(&cch__frees, memory_order_relaxed);
  return atomic_exchange_explicit(last, frees, memory_order_relaxed) != frees ||
         atomic_load_explicit(&cch__printing, memory_order_relaxed) != 0;
}

struct cch_pool {
  cch__box box;
  CUmemoryPool raw;
  int location_type, location_id; /* the type is 0 if the location is unknown */
  int alloc_type;                 /* 0 if the type is unknown */
  bool imported;                  /* the pool belongs to another process */
  _Atomic(cch_context *) context; /* the primary context of the device, from the first allocation on; else NULL */
  atomic_uint more_imports; /* number of further imports of the pool: the driver counts them, and each must be ended */
};

typedef enum cch__origin {
  CCH__FROM_POOL,
  CCH__FROM_DEVICE,
  CCH__FROM_HOST,
  CCH__REGISTERED, /* host memory of the caller, which the library page-locks */
  CCH__FROM_MANAGED,
  CCH__FROM_RANGES,
  CCH__FROM_GRAPHICS, /* the memory that a graphics resource is mapped to */
  CCH__FOREIGN,
  CCH__MAPPED, /* memory of another process, mapped into this one: ipc.c */
  CCH__PART    /* a part of another allocation, or an import of a mapping: part.c */
} cch__origin;

/* An allocation in a tracker, and a tracker's log: tracker.c. */
typedef struct cch__track cch__track;
typedef struct cch__tracker_log cch__tracker_log;

/* The name of memory of a pool for other processes: ipc.c. */
typedef struct cch__name {
  CUmemoryPool pool;
  cch_ipc_handle handle;
} cch__name;

/* A stream on which memory was used: uses.c. */
typedef struct cch__use cch__use;

/*
 * A range of reserved addresses with physical memory. Each part of it is one piece of physical memory. The driver
 * releases the memory when it is unmapped, so no other handle is kept. `references` counts the allocations that use the
 * range.
 */
typedef struct cch__range {
  atomic_size_t references;
  CUdeviceptr address;
  size_t size;
  size_t count;
  size_t parts[]; /* the sizes of the parts */
} cch__range;

struct cch_deviceptr {
  cch__box box;
  CUdeviceptr ptr;
  size_t size;
  cch_context *context;
  cch__box *backing;             /* what the memory belongs to: a pool, a graphics resource, or another allocation */
  cch__track *tracks;            /* the list of tracks, one for each tracker of the allocation: tracker.c */
  cch__use *uses;                /* a set of streams that the free waits for, too; guarded by a lock of uses.c */
  size_t use_count, many_uses;   /* from `many_uses` on, the set is pruned */
  _Atomic(cch__name *) exported; /* the name for other processes; NULL until it was exported */
  _Atomic(cch_stream *) stream;  /* the resolved stream that orders the free */
  uint64_t capture;              /* the number of the capture that allocated the memory; 0 if no capture did */
  cch_graph *graph; /* that capture's graph, if it has a box; while the graph exists, its addresses are not reused */
  bool dropped;     /* dropped after that capture: launches of the graph free the memory */
  cch__origin origin;
  bool read_only; /* registered host memory that devices must not write */
  bool imported;  /* virtual memory whose physical memory another process made */
  bool on_host;   /* virtual memory that is in memory of the host */
  cch_free_fn free;
  cch__range **ranges; /* consecutive ranges; those from `range_count` on were released */
  size_t range_count;
};

/* Returns the same as cch_deviceptr_whole(). */
static inline const cch_deviceptr *cch__whole(const cch_deviceptr *ptr) {
  return ptr->origin == CCH__PART ? (const cch_deviceptr *)ptr->backing : ptr;
}

struct cch_tracker {
  cch__box box;
  cch_tracker *measured; /* in a measurement, the tracker whose allocations it counts; NULL in other trackers */
  uint64_t limit;        /* 0: none */
  bool lists;            /* the tracker keeps a list of its live allocations */
  cch__tracker_log *log; /* NULL: none */
  pthread_mutex_t lock;  /* guards the following fields; a measurement uses the lock of the tracker that it measures */
  cch_tracker *measurements; /* weak: the measurements that have not ended */
  cch_tracker *next;         /* the next measurement of the same tracker */
  cch_tracker_counts counts;
  uint64_t announced; /* the number of bytes of allocations that are being made */
  uint64_t last_id;
  cch__track *newest;
};

struct cch_graphics {
  cch__box box;
  CUgraphicsResource raw;
  cch_context *context;
  cch_deviceptr *mapped; /* weak: the memory that the resource is mapped to, or NULL; guarded by a lock of graphics.c */
  bool busy;             /* a thread is mapping or unmapping the resource; guarded by a lock of graphics.c */
};

struct cch_library {
  cch__box box;
  CUlibrary raw;
  bool prints; /* whether its kernels may print; counted in cch__printing */
};

typedef struct cch__params {
  size_t count;
  size_t block_size;
  bool stated; /* the parameters were set by cch_kernel_set_params(), and not read from the driver */
  cch_param param[];
} cch__params;

typedef struct cch__layout {
  size_t size;
  unsigned char bytes[];
} cch__layout;

struct cch_kernel {
  cch__box box;
  CUkernel raw;
  cch_library *library;
  _Atomic(cch__params *) params;
  _Atomic(cch__layout *) layout; /* bytes of the binding; NULL if there are none */
};

/* A program of a compiler, or a linker (see compiler.c). */
typedef struct cch__program {
  cch__box box;
  void *raw; /* NULL until the compiler has created the program */
  int (*destroy)(void **raw);
  atomic_bool cancelled; /* the compilation was cancelled; only NVRTC supports this */
} cch__program;

/* An owner in a bundle: a box if `release` is NULL, otherwise a foreign object. */
typedef struct cch__owner {
  void *object;
  cch_release_fn release;
} cch__owner;

struct cch_bundle {
  cch__box box;
  bool foreign;      /* at least one owner is a foreign object */
  bool wraps;        /* made by cch__bundle_wrap(), around a bundle of the caller */
  bool is_condition; /* the payload is a cch__condition */
  bool of_many;      /* shared by several kernel nodes, so the payload does not have their arguments */
  cch_bundle *given; /* the bundle of the caller, which is one of the owners; NULL if there is none */
  void *payload;     /* bytes that the library stores after the owners */
  size_t payload_size;
  size_t count, capacity;
  cch__owner *owners; /* points to `first` until there are more owners than `first` can hold */
  cch__owner first[];
};

struct cch_array {
  cch__box box;
  CUarray raw;
  cch_context *context;
  cch_mipmapped_array *whole; /* the mipmapped array of which this array is a level; NULL if there is none */
  cch_array_desc desc;
};

struct cch_mipmapped_array {
  cch__box box;
  CUmipmappedArray raw;
  cch_context *context;
  cch_array_desc desc;
};

struct cch_texture {
  cch__box box;
  CUtexObject raw;
  cch_context *context;
  void *resource; /* the box that the texture reads from: an array, a mipmapped array, or memory */
};

struct cch_surface {
  cch__box box;
  CUsurfObject raw;
  cch_context *context;
  cch_array *array;
};

/* Defined in graph/graph.h and stream/capture_memory.c. */
typedef struct cch__hierarchy cch__hierarchy;
typedef struct cch__level cch__level;
typedef struct cch__runs cch__runs;

/* A capture into a graph. It ends when the graph's box is destroyed, or earlier. */
typedef struct cch__capture {
  cch_stream *stream;
  cch_context *context; /* the stream's context; for a default stream, the current one when the capture began */
  cch_bundle *kept;     /* the owners of captured work, which the graph keeps; guarded by cch__captures_lock */
  uint64_t id;
  uint64_t thread;  /* the thread that began the capture */
  bool bound;       /* the driver ends the capture only on that thread: its mode is not relaxed */
  bool makes_graph; /* the capture creates the graph; if the capture fails, there is no graph */
} cch__capture;

struct cch_graph {
  cch__box box;
  CUgraph raw;
  cch_graph *parent; /* the graph that contains this one; NULL for a root, which owns `hierarchy` */
  cch__hierarchy *hierarchy;
  cch__level *level;     /* NULL once the graph was destroyed; guarded by the hierarchy's lock */
  CUgraphNode node;      /* the node that contains the graph */
  atomic_bool has_room;  /* true only if the level has room for one more record */
  atomic_bool destroyed; /* a capture into the graph failed, and the driver has destroyed the graph */
  cch__capture *capture; /* guarded by cch__captures_lock */
  cch__runs *runs;       /* of a root with memory that captures allocated; guarded by cch__captures_lock */
};

/*
 * The two halves of destruction, which kind_list.h describes: the functions `destroy`, and below them the functions
 * `unref_held`.
 */
bool cch__context_destroy(cch_context *context);
bool cch__stream_destroy(cch_stream *stream);
bool cch__event_destroy(cch_event *event);
bool cch__pool_destroy(cch_pool *pool);
bool cch__deviceptr_destroy(cch_deviceptr *ptr);
bool cch__graphics_destroy(cch_graphics *resource);
bool cch__library_destroy(cch_library *library);
bool cch__program_destroy(cch__program *program);
bool cch__array_destroy(cch_array *array);
bool cch__mipmapped_array_destroy(cch_mipmapped_array *array);
bool cch__texture_destroy(cch_texture *texture);
bool cch__surface_destroy(cch_surface *surface);
bool cch__graph_destroy(cch_graph *graph);
bool cch__graph_exec_destroy(cch_graph_exec *exec);

void cch__stream_unref_held(cch_stream *stream);
void cch__event_unref_held(cch_event *event);
void cch__pool_unref_held(cch_pool *pool);
void cch__deviceptr_unref_held(cch_deviceptr *ptr);
void cch__graphics_unref_held(cch_graphics *resource);
void cch__kernel_unref_held(cch_kernel *kernel);
void cch__bundle_unref_held(cch_bundle *bundle);
void cch__array_unref_held(cch_array *array);
void cch__mipmapped_array_unref_held(cch_mipmapped_array *array);
void cch__texture_unref_held(cch_texture *texture);
void cch__surface_unref_held(cch_surface *surface);
void cch__tracker_unref_held(cch_tracker *tracker);
void cch__allocator_unref_held(cch_allocator *allocator);
void cch__graph_unref_held(cch_graph *graph);
void cch__graph_node_unref_held(cch_graph_node *node);
void cch__graph_exec_unref_held(cch_graph_exec *exec);

#endif
