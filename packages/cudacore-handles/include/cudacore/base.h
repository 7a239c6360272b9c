/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_BASE_H
#define CUDACORE_BASE_H

/**
 * @file base.h
 * Shared by all headers: version, visibility, the names of CUDA's handle types, the kinds of boxes.
 *
 * A *box* is one heap object for one CUDA resource. It counts its references atomically, and holds strong references to
 * the boxes that its resource needs: a stream's box to its context, a kernel's box to its library. When the last
 * reference to a box is dropped, it destroys the resource. If you hold a reference, the resource is valid.
 *
 * Verbs mean the same for every kind:
 *
 * - `_create`: makes a resource and owns it.
 * - `_wrap`: borrows a resource that other code owns. If this library created the resource, its existing box is
 *   returned. Otherwise, each call makes a new box.
 * - `_ref`: cch_ref() with the type of the kind.
 * - `_unref`: cch_unref() with the type of the kind.
 * - `_raw`: the CUDA handle, valid while a reference is held. NULL gives the zero handle.
 *
 * Every function checks its pointers before it does anything else. A pointer must not be NULL, unless its parameter is
 * marked CCH_NULLABLE or is an array whose count is 0. A box must be of the kind that the parameter's type names. If an
 * argument is wrong:
 *
 * - A function that returns a cch_status or an `int` returns CCH_EINVAL, and the message names the argument.
 * - A predicate (`bool`) returns false, and a function of another type returns 0 or NULL. Both record the same failure.
 * - A `void` function does nothing.
 *
 * The boxes in arrays and structures are checked in the same way. A box that was freed, or memory that is not a box,
 * cannot be recognised.
 *
 * Functions that can fail return a cch_status. On failure, out-parameters are unchanged. Other functions cannot fail.
 *
 * Unless a comment states otherwise, a function can be called from any thread, and no lock of this library is held
 * while the driver or a callback runs. Comments have these tags:
 *
 * - *any thread*
 * - *caller serialises*: calls on the same box must not overlap.
 * - *destructor-safe*: the function may also be called where CUDA calls are forbidden, such as in the destructor of a
 *   CUDA user object.
 *
 * The headers need no CUDA toolkit: they name CUDA's handle types exactly as cuda.h does, and can be included
 * before or after it, or without it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define CCH_BEGIN_DECLS extern "C" {
#define CCH_END_DECLS }
#else
#define CCH_BEGIN_DECLS
#define CCH_END_DECLS
#endif

#if defined(__GNUC__)
#define CCH_EXPORT __attribute__((visibility("default")))
#else
#define CCH_EXPORT
#endif

/** Marks a parameter that may be NULL. Other pointers must not be NULL. */
#define CCH_NULLABLE

/** Binary interface version: the number in the library's soname. */
#define CCH_ABI_VERSION 1
#define CCH_VERSION_MAJOR 0
#define CCH_VERSION_MINOR 1
#define CCH_VERSION_PATCH 0
/** Version as one number, for comparisons: 0x00MMmmpp. */
#define CCH_VERSION ((CCH_VERSION_MAJOR << 16) | (CCH_VERSION_MINOR << 8) | CCH_VERSION_PATCH)

CCH_BEGIN_DECLS

/**
 * The result of a function that can fail: 0 for success, a positive CUresult exactly as the driver returned it, or a
 * negative CCH_E* code. cch_error_last() has the details of a failure. Counts, handles and truth values are never of
 * this type: generators of bindings rely on that.
 */
typedef int cch_status;

typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphicsResource_st *CUgraphicsResource;
typedef unsigned long long CUdeviceptr_v2;
typedef CUdeviceptr_v2 CUdeviceptr;
typedef uint64_t CUgraphConditionalHandle;
typedef unsigned long long CUtexObject_v1;
typedef CUtexObject_v1 CUtexObject;
typedef unsigned long long CUsurfObject_v1;
typedef CUsurfObject_v1 CUsurfObject;
typedef struct _nvrtcProgram *nvrtcProgram;
typedef struct _nvvmProgram *nvvmProgram;
typedef struct nvJitLink *nvJitLinkHandle;

typedef struct cch_context cch_context;
typedef struct cch_stream cch_stream;
typedef struct cch_event cch_event;
typedef struct cch_pool cch_pool;
typedef struct cch_deviceptr cch_deviceptr;
typedef struct cch_library cch_library;
typedef struct cch_kernel cch_kernel;
typedef struct cch_nvrtc_program cch_nvrtc_program;
typedef struct cch_nvvm_program cch_nvvm_program;
typedef struct cch_nvjitlink_linker cch_nvjitlink_linker;
typedef struct cch_bundle cch_bundle;
typedef struct cch_graph cch_graph;
typedef struct cch_graph_node cch_graph_node;
typedef struct cch_graph_exec cch_graph_exec;
typedef struct cch_graphics cch_graphics;
typedef struct cch_array cch_array;
typedef struct cch_mipmapped_array cch_mipmapped_array;
typedef struct cch_texture cch_texture;
typedef struct cch_surface cch_surface;
typedef struct cch_tracker cch_tracker;
typedef struct cch_allocator cch_allocator;

/** The kinds of box. Numbers are stable; new kinds are appended. */
typedef enum cch_kind {
  CCH_KIND_CONTEXT = 0,
  CCH_KIND_STREAM = 1,
  CCH_KIND_EVENT = 2,
  CCH_KIND_POOL = 3,
  CCH_KIND_DEVICEPTR = 4,
  CCH_KIND_LIBRARY = 5,
  CCH_KIND_KERNEL = 6,
  CCH_KIND_NVRTC_PROGRAM = 7,
  CCH_KIND_NVVM_PROGRAM = 8,
  CCH_KIND_BUNDLE = 9,
  CCH_KIND_GRAPH = 10,
  CCH_KIND_GRAPH_NODE = 11,
  CCH_KIND_GRAPH_EXEC = 12,
  CCH_KIND_NVJITLINK_LINKER = 13,
  CCH_KIND_GRAPHICS = 14,
  CCH_KIND_ARRAY = 15,
  CCH_KIND_MIPMAPPED_ARRAY = 16,
  CCH_KIND_TEXTURE = 17,
  CCH_KIND_SURFACE = 18,
  CCH_KIND_TRACKER = 19,
  CCH_KIND_ALLOCATOR = 20,
  CCH_KIND_COUNT = 21
} cch_kind;

/**
 * Releases a foreign object that was kept alive for a box (its owner). The function is called once, when the box is
 * destroyed. At that point, CUDA calls are allowed and no lock of this library is held. It is never called after
 * cch_process_exiting(). A box whose last reference the function drops is destroyed soon after the function returns.
 * The function must return: it must not call longjmp(), throw an exception or end the thread, because the destruction
 * of other boxes waits for it.
 */
typedef void (*cch_release_fn)(void *owner);

/**
 * A function that CUDA calls on the host. No CUDA call is allowed in it. A box whose last reference the function drops
 * is destroyed later.
 */
typedef void (*cch_host_fn)(void *data);

/**
 * Makes a graph keep the objects that captured work uses. Returns 0 or a failure. After a failure, the work is not
 * submitted.
 */
typedef cch_status (*cch_keep_fn)(void *data);

/**
 * Version of the loaded library, in the form of CCH_VERSION. It can differ from the version of the header.
 * Destructor-safe. @since 0.1
 */
CCH_EXPORT uint32_t cch_version(void);

/**
 * The number of boxes of a kind in this process that were created or wrapped and are not freed yet. The static boxes of
 * the default streams do not count. 0 for an unknown kind. Destructor-safe. @since 0.1
 */
CCH_EXPORT size_t cch_live_count(int kind);

/** Takes one more reference to a box of any kind, and returns its argument. NULL gives NULL. Destructor-safe. @since
 * 0.1 */
CCH_EXPORT void *cch_ref(void *CCH_NULLABLE box);

/** Drops a reference to a box of any kind. It cannot fail. NULL does nothing. Destructor-safe. @since 0.1 */
CCH_EXPORT void cch_unref(void *CCH_NULLABLE box);

/** Defines `_ref` and `_unref` of a kind, which are not exported. */
#define CCH_REFERENCES(type)                                                                                           \
  static inline type *type##_ref(type *box) { return (type *)cch_ref(box); }                                           \
  static inline void type##_unref(type *box) { cch_unref(box); }

CCH_REFERENCES(cch_context)
CCH_REFERENCES(cch_stream)
CCH_REFERENCES(cch_event)
CCH_REFERENCES(cch_pool)
CCH_REFERENCES(cch_deviceptr)
CCH_REFERENCES(cch_library)
CCH_REFERENCES(cch_kernel)
CCH_REFERENCES(cch_nvrtc_program)
CCH_REFERENCES(cch_nvvm_program)
CCH_REFERENCES(cch_nvjitlink_linker)
CCH_REFERENCES(cch_bundle)
CCH_REFERENCES(cch_graph)
CCH_REFERENCES(cch_graph_node)
CCH_REFERENCES(cch_graph_exec)
CCH_REFERENCES(cch_graphics)
CCH_REFERENCES(cch_array)
CCH_REFERENCES(cch_mipmapped_array)
CCH_REFERENCES(cch_texture)
CCH_REFERENCES(cch_surface)
CCH_REFERENCES(cch_tracker)
CCH_REFERENCES(cch_allocator)

/** The cch_kind of a box; -1 for NULL. Destructor-safe. @since 0.1 */
CCH_EXPORT int cch_kind_of(const void *CCH_NULLABLE box);

/**
 * 1 while the resource behind a box exists. A resource that this library destroys exists as long as there is a
 * reference to its box. But CUDA destroys some resources together with their owner (a child graph with its parent).
 * Then the box is no longer valid: `_raw` is the zero handle, and other functions fail with CCH_EGONE. 0 for NULL.
 * Destructor-safe. @since 0.1
 */
CCH_EXPORT bool cch_is_valid(const void *CCH_NULLABLE box);

CCH_END_DECLS

#endif
