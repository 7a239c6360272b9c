/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_GRAPHICS_H
#define CUDACORE_INTERNAL_GRAPHICS_H

/**
 * @file graphics.h
 * Buffers and images of OpenGL, which CUDA can use while they are mapped.
 *
 * Calls need the OpenGL context of the resource, which must be current on the calling thread. If the last reference is
 * dropped on another thread, the resource is unmapped and unregistered later, as process.h describes. OpenGL must not
 * use a resource while it is mapped. A box keeps its context. The memory that a resource is mapped to keeps the box of
 * the resource.
 */

#include <cudacore/cudacore.h>

/** How CUDA uses a resource (CU_GRAPHICS_REGISTER_FLAGS_*). */
typedef enum cch_graphics_flags {
  CCH_GRAPHICS_READ_ONLY = 1,          /**< CUDA only reads the resource */
  CCH_GRAPHICS_WRITE_DISCARD = 2,      /**< CUDA overwrites the whole resource and does not read it */
  CCH_GRAPHICS_SURFACE_LOAD_STORE = 4, /**< CUDA uses the resource as a surface */
  CCH_GRAPHICS_TEXTURE_GATHER = 8      /**< CUDA gathers texels of the resource */
} cch_graphics_flags;

/**
 * Registers an object of OpenGL in a context: a buffer if `target` is 0 (cuGraphicsGLRegisterBuffer), or else a texture
 * or renderbuffer of that target, such as GL_TEXTURE_2D (cuGraphicsGLRegisterImage).
 */
CCH_EXPORT cch_status cch_graphics_register(cch_graphics **out, cch_context *context, unsigned name, unsigned target,
                                            unsigned flags);

/**
 * Maps a registered buffer, ordered on a stream: work that is submitted to the stream from now on can use the memory
 * (cuGraphicsMapResources). The buffer is unmapped, in the order of the stream, by cch_graphics_unmap() or with the
 * last reference to the memory. CCH_EINVAL if it is mapped already.
 */
CCH_EXPORT cch_status cch_graphics_map(cch_deviceptr **out, cch_graphics *resource, cch_stream *stream);

/**
 * Unmaps a resource, even if there are references to the memory (cuGraphicsUnmapResources). The box of the memory, and
 * the boxes of its parts, are no longer valid. Ordered on a stream; NULL means the stream that orders the free of the
 * memory. CCH_EINVAL if the resource is not mapped.
 */
CCH_EXPORT cch_status cch_graphics_unmap(cch_graphics *resource, cch_stream *CCH_NULLABLE stream);

/** Whether a resource is mapped. Destructor-safe. */
CCH_EXPORT bool cch_graphics_is_mapped(const cch_graphics *resource);

/**
 * Unregisters a resource, after unmapping it if necessary (cuGraphicsUnregisterResource). The resource can no longer be
 * used. Without this call, it is unregistered with the last reference.
 */
CCH_EXPORT cch_status cch_graphics_unregister(cch_graphics *resource, cch_stream *CCH_NULLABLE stream);

CCH_EXPORT CUgraphicsResource cch_graphics_raw(const cch_graphics *resource);

#endif
