/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_KIND_LIST_H
#define CUDACORE_KIND_LIST_H

/*
 * The kinds of boxes, in the order of cch_kind: X(KIND, type, name, text, needs, end, drop).
 *
 *   name   of its capsules, after "cudacore_handles."
 *   text   its name in messages
 *   needs  needs_...() of destroy.c: whether its destruction calls the driver, or foreign code that may do so
 *   end    destroys the resource; false if the driver refuses that now, and then nothing has changed
 *   drop   releases the references that the box holds; cannot fail
 *
 * A kernel is destroyed with its library, and a node with its graph. Foreign memory is freed by `end`, because its
 * owner needs the stream, which `drop` releases.
 */
#define CCH__KINDS(X)                                                                                                  \
  X(CONTEXT, cch_context, "context", "context", needs_if_owned, cch__context_end, nothing_to_drop)                     \
  X(STREAM, cch_stream, "stream", "stream", needs_if_owned, cch__stream_end, cch__stream_drop)                         \
  X(EVENT, cch_event, "event", "event", needs_if_owned, cch__event_end, cch__event_drop)                               \
  X(POOL, cch_pool, "pool", "pool", needs_if_owned, cch__pool_end, cch__pool_drop)                                     \
  X(DEVICEPTR, cch_deviceptr, "deviceptr", "allocation", needs_always, cch__deviceptr_end, cch__deviceptr_drop)        \
  X(LIBRARY, cch_library, "library", "library", needs_if_owned, cch__library_end, nothing_to_drop)                     \
  X(KERNEL, cch_kernel, "kernel", "kernel", needs_if_owned, nothing_to_end, cch__kernel_drop)                          \
  X(NVRTC_PROGRAM, cch_nvrtc_program, "nvrtc_program", "NVRTC program", needs_never, cch__program_end,                 \
    nothing_to_drop)                                                                                                   \
  X(NVVM_PROGRAM, cch_nvvm_program, "nvvm_program", "NVVM program", needs_never, cch__program_end, nothing_to_drop)    \
  X(BUNDLE, cch_bundle, "bundle", "bundle", needs_of_bundle, nothing_to_end, cch__bundle_drop)                         \
  X(GRAPH, cch_graph, "graph", "graph", needs_of_graph, cch__graph_end, cch__graph_drop)                               \
  X(GRAPH_NODE, cch_graph_node, "graph_node", "graph node", needs_if_owned, nothing_to_end, cch__graph_node_drop)      \
  X(GRAPH_EXEC, cch_graph_exec, "graph_exec", "executable graph", needs_if_owned, cch__graph_exec_end,                 \
    cch__graph_exec_drop)                                                                                              \
  X(NVJITLINK_LINKER, cch_nvjitlink_linker, "nvjitlink_linker", "linker", needs_never, cch__program_end,               \
    nothing_to_drop)                                                                                                   \
  X(GRAPHICS, cch_graphics, "graphics", "graphics resource", needs_if_owned, cch__graphics_end, cch__graphics_drop)    \
  X(ARRAY, cch_array, "array", "array", needs_if_owned, cch__array_end, cch__array_drop)                               \
  X(MIPMAPPED_ARRAY, cch_mipmapped_array, "mipmapped_array", "mipmapped array", needs_if_owned,                        \
    cch__mipmapped_array_end, cch__mipmapped_array_drop)                                                               \
  X(TEXTURE, cch_texture, "texture", "texture object", needs_if_owned, cch__texture_end, cch__texture_drop)            \
  X(SURFACE, cch_surface, "surface", "surface object", needs_if_owned, cch__surface_end, cch__surface_drop)            \
  X(TRACKER, cch_tracker, "tracker", "tracker", needs_never, nothing_to_end, cch__tracker_drop)                        \
  X(ALLOCATOR, cch_allocator, "allocator", "allocator", needs_never, nothing_to_end, cch__allocator_drop)

#endif
