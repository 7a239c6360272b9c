/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPERATIONS_H
#define OPERATIONS_H

/*
 * Operations: every public call that calls the driver or allocates memory, in a form that can be repeated. The tests
 * test_current, test_fail, test_oom, test_fork and others run all operations.
 */

#include "check.h"

/*
 * The objects that operations use. They are on device 0, except for the captured stream: a context with a captured
 * stream cannot be synchronized. The primary context of device 1 belongs to other code.
 */
typedef struct world {
  cch_context *context, *green, *elsewhere; /* `elsewhere` is a green context of device 1 */
  cch_resource multiprocessors;
  cch_stream *stream, *second_stream;
  cch_event *start, *end;
  cch_pool *pool;
  cch_deviceptr *ptr, *pinned, *managed, *grows, *moves;
  int descriptor;        /* the file descriptor of the pool */
  int memory_descriptor; /* the file descriptor of virtual memory */
  size_t memory_size;
  cch_pool *imported_pool;
  cch_deviceptr *shared, *import;
  cch_ipc_handle handle, event_handle; /* handles of the pool's memory, and of another process's event */
  cch_event *shared_event;
  cch_library *library;
  cch_kernel *kernel;
  unsigned gl_buffer; /* a buffer of the simulated driver, which replaces an OpenGL buffer */
  cch_graphics *graphics;
  CUcontext foreign_context;
  CUstream foreign_stream;
  CUevent foreign_event;
  CUmemoryPool foreign_pool;
  CUlibrary foreign_library;
  CUkernel foreign_kernel;
  cch_graph *graph, *leaf, *branching; /* `leaf` is also a child of `graph`; `branching` cannot be cloned */
  cch_graph_node *node, *copy, *fill, *host, *child, *record, *wait, *branch, *leaf_node;
  CUgraphConditionalHandle condition; /* a condition of `branching` that no node uses yet */
  cch_graph_exec *exec;
  cch_bundle *bundle;
  cch_stream *captured;
  cch_graph *capture;
} world;

/* An array of one dimension, and one of two dimensions with three levels. Surfaces can be made of both. */
extern const cch_array_desc world_line, world_plane;

/* Creates the objects. No context may be current before the call, and none is current after it. */
void world_open(world *w);
void world_close(world *w);
/* The same, while the foreign context is current until the close. Nothing may be alive afterwards. */
void world_open_away(world *w);
void world_close_away(world *w);

/* The numbers of boxes and of the driver's objects that are alive. */
typedef struct live {
  size_t boxes, objects;
} live;
live count_live(void);
/* Fails if other numbers are alive than before a call that failed, or another context is current than the foreign one.
 */
void check_unchanged(const world *w, live before, const char *name, const char *failure);

typedef struct operation {
  const char *name;
  /* Makes the call and returns its status. *made is the object that the call created, or NULL. */
  int (*call)(world *w, void **made);
  /* Releases the object that the call created. */
  void (*undo)(void *made);
  unsigned flags;
  struct operation *next;
} operation;

/* Releases what an operation made, if it succeeded. */
static inline void undo(const operation *operation, int status, void *made) {
  if (status == 0 && operation->undo)
    operation->undo(made);
}

#define OPERATION_NEEDS_CURRENT 1u /* uses or queries the current context */
#define OPERATION_SETS_CURRENT 2u  /* changes the current context, which is its purpose */
#define OPERATION_ONCE 4u          /* makes other driver calls when it is repeated with the same objects */

/* All operations, in a list. */
extern const operation *first_operation;

#define FOR_EACH_OPERATION(name_) for (const operation *name_ = first_operation; name_ != NULL; name_ = name_->next)

#endif
