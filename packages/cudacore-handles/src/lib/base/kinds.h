/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_KINDS_H
#define CUDACORE_KINDS_H

/* The boxes of each kind. */

#include "base/arguments.h"

#include <cuda.h>

#include <cudacore/cudacore.h>

#include <stdatomic.h>

struct cch_context {
  cch__box box;
  CUcontext raw;
  int device;
  CUgreenCtx green; /* that this library made; NULL for any other context */
  uint64_t id;      /* of a primary context: after a reset the same handle has another one; 0: not known */
};

/* Whether a context was reset; false in a function that CUDA calls, where the driver must not be asked. */
bool cch__context_is_lost(const cch_context *context);

/*
 * Whether the driver takes calls on this thread now, which CUDA forbids in the functions that it calls. The question
 * that is asked also tells whether a context, unless it is NULL or cannot be reset, is still there.
 */
bool cch__driver_permits_calls(const cch_context *context, bool *is_there);

/* The context that a resource is lost with; NULL: none. */
static inline const cch_context *cch__lost_with(const cch__box *box) {
  return box->context != NULL && box->context->kind == CCH_KIND_CONTEXT ? (const cch_context *)box->context : NULL;
}

struct cch_stream {
  cch__box box;
  CUstream raw;
  cch_context *context;
  _Atomic(cch_graph *) capture; /* weak: into which the stream is captured; changed under a lock of capture.c */
  _Atomic(uint64_t) capture_id; /* of that capture */
};

struct cch_event {
  cch__box box;
  CUevent raw;
  cch_context *context;
  cch_ipc_handle *imported_by; /* of another process's: what names it there */
  unsigned flags;
};

struct cch_pool {
  cch__box box;
  CUmemoryPool raw;
  int location_type, location_id; /* type 0 where it is not known */
  int alloc_type;                 /* likewise */
  bool imported;                  /* another process's */
  atomic_uint more_imports;       /* of the same pool: the driver counts them, and wants each destroyed */
};

typedef enum cch__origin {
  CCH__FROM_POOL,
  CCH__FROM_DEVICE,
  CCH__FROM_HOST,
  CCH__FROM_RANGES,
  CCH__FROM_GRAPHICS, /* what a graphics resource is mapped as */
  CCH__FOREIGN,
  CCH__MAPPED, /* another process's: ipc.c */
  CCH__PART    /* of another allocation, or an import, which is one of a mapping: part.c */
} cch__origin;

/* What is left of a part that ended on a stream: part.c. */
typedef struct cch__use cch__use;

/*
 * A range of reserved addresses with physical memory, each part made at once: what is mapped needs no other handle. The
 * allocations that have it count.
 */
typedef struct cch__range {
  atomic_size_t references;
  CUdeviceptr address;
  size_t size;
  size_t count;
  size_t parts[]; /* their sizes */
} cch__range;

struct cch_deviceptr {
  cch__box box;
  CUdeviceptr ptr;
  size_t size;
  cch_context *context;
  cch__box *backing; /* what the memory is a part of: a pool, a graphics resource, or another allocation */
  cch__use *uses;    /* where parts of it ended; guarded by a lock of part.c */
  size_t use_count;
  _Atomic(cch_ipc_handle *) exported; /* what names it in other processes, once it was asked for */
  _Atomic(cch_stream *) stream;
  uint64_t thread;  /* whose the per-thread default stream is that the free is ordered on */
  uint64_t capture; /* the capture that it was allocated in, 0 for none */
  cch_graph *graph; /* of that capture, if it has a box: as long as it exists, the address is nobody else's */
  cch__origin origin;
  cch_free_fn free;
  cch__range **ranges; /* one behind the other; those behind `range_count` have been given up */
  size_t range_count;
};

/* What cch_deviceptr_whole() gives. */
static inline const cch_deviceptr *cch__whole(const cch_deviceptr *ptr) {
  return ptr->origin == CCH__PART ? (const cch_deviceptr *)ptr->backing : ptr;
}

struct cch_graphics {
  cch__box box;
  CUgraphicsResource raw;
  cch_context *context;
  cch_deviceptr *mapped; /* weak: what it is mapped as, NULL for nothing; guarded by a lock of graphics.c */
  bool busy;             /* it is being mapped or unmapped; likewise */
};

struct cch_library {
  cch__box box;
  CUlibrary raw;
};

typedef struct cch__params {
  size_t count;
  size_t block_size;
  bool stated; /* by cch_kernel_set_params(), not by the driver */
  cch_param param[];
} cch__params;

struct cch_kernel {
  cch__box box;
  CUkernel raw;
  cch_library *library;
  _Atomic(cch__params *) params;
};

/* A compiler's program, or linker: compiler.h. */
typedef struct cch__program {
  cch__box box;
  void *raw;
  const void *compiler;      /* the table of its library, which is never freed */
  int (*destroy)(void *raw); /* takes the handle's address, as all compilers' functions do */
  const char *destroyer;
  atomic_bool cancelled; /* only NVRTC can end a compilation */
} cch__program;

/* A box where `release` is NULL, a foreign object where it is not. */
typedef struct cch__owner {
  void *object;
  cch_release_fn release;
} cch__owner;

struct cch_bundle {
  cch__box box;
  bool foreign;      /* one of them is a foreign object */
  bool wraps;        /* the library's own, around one that a caller gave */
  bool is_condition; /* the payload is a cch__condition */
  cch_bundle *given; /* that one; among the owners, NULL for none */
  void *payload;     /* bytes of the library's behind the owners */
  size_t payload_size;
  size_t count, capacity;
  cch__owner *owners; /* `first`, until more are added than there was room for */
  cch__owner first[];
};

struct cch_array {
  cch__box box;
  CUarray raw;
  cch_context *context;
  cch_mipmapped_array *whole; /* of which it is a level; NULL for none */
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
  void *resource; /* the box that it reads: an array, a mipmapped array, or memory */
};

struct cch_surface {
  cch__box box;
  CUsurfObject raw;
  cch_context *context;
  cch_array *array;
};

/* The bytes of a texel; 0 for a format that this library does not have. */
size_t cch__texel_size(const cch_array_desc *desc);

/* The parameters of a kernel: the driver is asked at the first call, when the right context is current. */
int cch__kernel_params(const cch__params **out, cch_kernel *kernel);

/* Whether the parameters were stated, or the driver can be asked for them. */
bool cch__kernel_has_params(cch_kernel *kernel);

/*
 * A bundle of the library's own around what a caller gave: a box and a bundle, of which it takes references, and which
 * may be NULL, and zeroed bytes.
 */
int cch__bundle_wrap(cch_bundle **out, void *box, cch_bundle *bundle, size_t payload_size, const char *operation);
/* What a caller gave, borrowed; NULL for nothing. */
cch_bundle *cch__bundle_given(cch_bundle *bundle);

/* The halves of a destruction: see kind_list.h. */
bool cch__context_end(cch_context *context);
bool cch__stream_end(cch_stream *stream);
bool cch__event_end(cch_event *event);
bool cch__pool_end(cch_pool *pool);
bool cch__deviceptr_end(cch_deviceptr *ptr);
bool cch__graphics_end(cch_graphics *resource);
bool cch__library_end(cch_library *library);
bool cch__program_end(cch__program *program);
bool cch__array_end(cch_array *array);
bool cch__mipmapped_array_end(cch_mipmapped_array *array);
bool cch__texture_end(cch_texture *texture);
bool cch__surface_end(cch_surface *surface);
bool cch__graph_end(cch_graph *graph);
bool cch__graph_exec_end(cch_graph_exec *exec);

/* Gives up the ranges of an allocation, from the last: the driver's answer. Those that it refused for now are kept. */
int cch__ranges_end(cch_deviceptr *ptr);

void cch__stream_drop(cch_stream *stream);
void cch__event_drop(cch_event *event);
void cch__deviceptr_drop(cch_deviceptr *ptr);
void cch__graphics_drop(cch_graphics *resource);
void cch__kernel_drop(cch_kernel *kernel);
void cch__bundle_drop(cch_bundle *bundle);
void cch__array_drop(cch_array *array);
void cch__mipmapped_array_drop(cch_mipmapped_array *array);
void cch__texture_drop(cch_texture *texture);
void cch__surface_drop(cch_surface *surface);
void cch__graph_drop(cch_graph *graph);
void cch__graph_node_drop(cch_graph_node *node);
/* Gives a reference back without the driver: NULL, or the node's graph with a reference that is left to give back. */
cch_graph *cch__graph_node_unref_lightly(cch_graph_node *node);
void cch__graph_exec_drop(cch_graph_exec *exec);

/* Checks the memory of a copy, or of a fill, whose `src` is NULL; in a capture the graph keeps it. The right context is
 * current. */
int cch__memory_keep(cch_deviceptr *dst, cch_deviceptr *src, cch_stream *stream, const char *operation);

/* Ends memory on a stream, or behind it; false where the driver refuses that now. */
bool cch__deviceptr_end_on(cch_deviceptr *ptr, cch_stream *stream);

/* Whether work on a stream would go into a capture, or break one. The right context is current. */
bool cch__is_capturing(CUstream stream);

/*
 * Whether work that is given to a stream becomes a part of a graph, whoever began the capture; and has the graph keep
 * the boxes that the work uses. The right context is current.
 */
int cch__capture_ask(bool *captured, cch_stream *stream);
int cch__capture_keep(bool *captured, cch_stream *stream, void *const *boxes, size_t count);

/* The stream that is meant by one of another thread: its per-thread default stream is not this one's. */
cch_stream *cch__stream_for_thread(cch_stream *stream, uint64_t thread);

/* The stream behind whose work that of a stream of a capture into the graph is, a new reference: the one that it was
 * joined into, as long as the capture goes on and afterwards. Otherwise the stream itself. */
cch_stream *cch__capture_stream(cch_graph *graph, cch_stream *stream, uint64_t capture);

/* Whether the end of a graph that is not owned enters the driver: it ends a capture. */
bool cch__graph_is_captured(const cch_graph *graph);

#endif
