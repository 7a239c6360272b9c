/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_KIND_LIST_H
#define CUDACORE_KIND_LIST_H

/*
 * The kinds of boxes, in the order of cch_kind: X(KIND, type, name, text, needs, destroy, unref_held).
 *
 *   name        of its capsules, after "cudacore_handles."
 *   text        its name in messages
 *   needs       needs_...() of destroy.c: whether its destruction calls the driver, or foreign code that may do so
 *   destroy     destroys the resource; false if the driver refuses that now, and then nothing has changed
 *   unref_held  gives up the references that the box holds; cannot fail
 *
 * A kernel is destroyed with its library, and a node with its graph. Foreign memory is freed by `destroy`, because its
 * owner needs the stream, to which `unref_held` gives up the reference.
 */
#define CCH__KINDS(X)                                                                                                  \
  X(CONTEXT, cch_context, "context", "context", needs_if_owned, cch__context_destroy, nothing_to_unref)                \
  X(STREAM, cch_stream, "stream", "stream", needs_if_owned, cch__stream_destroy, cch__stream_unref_held)               \
  X(EVENT, cch_event, "event", "event", needs_if_owned, cch__event_destroy, cch__event_unref_held)                     \
  X(POOL, cch_pool, "pool", "pool", needs_if_owned, cch__pool_destroy, cch__pool_unref_held)                           \
  X(DEVICEPTR, cch_deviceptr, "deviceptr", "allocation", needs_of_memory, cch__deviceptr_destroy,                      \
    cch__deviceptr_unref_held)                                                                                         \
  X(LIBRARY, cch_library, "library", "library", needs_if_owned, cch__library_destroy, nothing_to_unref)                \
  X(KERNEL, cch_kernel, "kernel", "kernel", needs_if_owned, nothing_to_destroy, cch__kernel_unref_held)                \
  X(NVRTC_PROGRAM, cch_nvrtc_program, "nvrtc_program", "NVRTC program", needs_never, cch__program_destroy,             \
    nothing_to_unref)                                                                                                  \
  X(NVVM_PROGRAM, cch_nvvm_program, "nvvm_program", "NVVM program", needs_never, cch__program_destroy,                 \
    nothing_to_unref)                                                                                                  \
  X(BUNDLE, cch_bundle, "bundle", "bundle", needs_of_bundle, nothing_to_destroy, cch__bundle_unref_held)               \
  X(GRAPH, cch_graph, "graph", "graph", needs_of_graph, cch__graph_destroy, cch__graph_unref_held)                     \
  X(GRAPH_NODE, cch_graph_node, "graph_node", "graph node", needs_if_owned, nothing_to_destroy,                        \
    cch__graph_node_unref_held)                                                                                        \
  X(GRAPH_EXEC, cch_graph_exec, "graph_exec", "executable graph", needs_if_owned, cch__graph_exec_destroy,             \
    cch__graph_exec_unref_held)                                                                                        \
  X(NVJITLINK_LINKER, cch_nvjitlink_linker, "nvjitlink_linker", "linker", needs_never, cch__program_destroy,           \
    nothing_to_unref)                                                                                                  \
  X(GRAPHICS, cch_graphics, "graphics", "graphics resource", needs_if_owned, cch__graphics_destroy,                    \
    cch__graphics_unref_held)                                                                                          \
  X(ARRAY, cch_array, "array", "array", needs_if_owned, cch__array_destroy, cch__array_unref_held)                     \
  X(MIPMAPPED_ARRAY, cch_mipmapped_array, "mipmapped_array", "mipmapped array", needs_if_owned,                        \
    cch__mipmapped_array_destroy, cch__mipmapped_array_unref_held)                                                     \
  X(TEXTURE, cch_texture, "texture", "texture object", needs_if_owned, cch__texture_destroy, cch__texture_unref_held)  \
  X(SURFACE, cch_surface, "surface", "surface object", needs_if_owned, cch__surface_destroy, cch__surface_unref_held)  \
  X(TRACKER, cch_tracker, "tracker", "tracker", needs_never, nothing_to_destroy, cch__tracker_unref_held)              \
  X(ALLOCATOR, cch_allocator, "allocator", "allocator", needs_never, nothing_to_destroy, cch__allocator_unref_held)

#endif
