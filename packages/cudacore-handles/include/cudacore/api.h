/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_API_H
#define CUDACORE_API_H

/**
 * @file api.h
 * Every function in one table, for programs that open the library at run time. Fields are only ever appended, so a
 * program built against an older table finds its functions at the expected offsets.
 */

#include <cudacore/error.h>
#include <cudacore/driver.h>
#include <cudacore/device.h>
#include <cudacore/process.h>
#include <cudacore/resource.h>
#include <cudacore/context.h>
#include <cudacore/stream.h>
#include <cudacore/event.h>
#include <cudacore/pool.h>
#include <cudacore/pool_attributes.h>
#include <cudacore/deviceptr.h>
#include <cudacore/ipc.h>
#include <cudacore/pointer.h>
#include <cudacore/tracker.h>
#include <cudacore/allocator.h>
#include <cudacore/copy.h>
#include <cudacore/array.h>
#include <cudacore/texture.h>
#include <cudacore/managed.h>
#include <cudacore/virtual.h>
#include <cudacore/tensor_map.h>
#include <cudacore/library.h>
#include <cudacore/kernel.h>
#include <cudacore/kernel_attributes.h>
#include <cudacore/occupancy.h>
#include <cudacore/nvrtc.h>
#include <cudacore/nvvm.h>
#include <cudacore/nvjitlink.h>
#include <cudacore/bundle.h>
#include <cudacore/graph.h>
#include <cudacore/capture.h>

CCH_BEGIN_DECLS

/** The functions, named without the prefix `cch_`. */
typedef struct cch_api {
  size_t size; /**< bytes of this table that the library filled */
  uint32_t (*version)(void);
  const char *(*library_path)(void);
  size_t (*live_count)(int kind);
  const cch_error *(*error_last)(void);
  void (*error_clear)(void);
  const char *(*error_name)(int code);
  const char *(*error_string)(int code);
  void (*error_set_report)(cch_report_fn report);
  cch_status (*driver_init)(void);
  cch_status (*driver_version)(int *out);
  cch_status (*driver_symbol)(void **out, const char *name, int version);
  cch_status (*device_count)(int *out);
  cch_status (*device_attribute)(int *out, int attribute, int device);
  void (*process_exiting)(void);
  bool (*process_forked)(void);
  void (*callback_enter)(void);
  void (*callback_leave)(void);
  void (*unref_deferred)(void *box);
  size_t (*reclaim_drain)(void);
  size_t (*reclaim_pending)(void);
  cch_status (*context_primary)(cch_context **out, int device);
  cch_status (*context_wrap)(cch_context **out, CUcontext raw, void *owner, cch_release_fn release);
  cch_status (*context_current)(cch_context **out);
  cch_status (*context_set_current)(cch_context *context);
  cch_status (*context_synchronize)(cch_context *context);
  cch_status (*context_priorities)(int *lowest, int *highest, cch_context *context);
  cch_status (*current_device)(int *out);
  int (*context_device)(const cch_context *context);
  bool (*context_is_primary)(const cch_context *context);
  CUcontext (*context_raw)(const cch_context *context);
  cch_status (*stream_create)(cch_stream **out, cch_context *context, unsigned flags, int priority);
  cch_status (*stream_wrap)(cch_stream **out, CUstream raw, void *owner, cch_release_fn release);
  cch_stream *(*stream_legacy)(void);
  cch_stream *(*stream_per_thread)(void);
  cch_context *(*stream_context)(const cch_stream *stream);
  cch_status (*stream_flags)(unsigned *out, cch_stream *stream);
  cch_status (*stream_priority)(int *out, cch_stream *stream);
  cch_status (*stream_query)(cch_stream *stream);
  cch_status (*stream_synchronize)(cch_stream *stream);
  cch_status (*stream_wait_event)(cch_stream *stream, cch_event *event);
  cch_status (*stream_wait_stream)(cch_stream *stream, cch_stream *other);
  CUstream (*stream_raw)(const cch_stream *stream);
  cch_status (*event_create)(cch_event **out, cch_context *context, unsigned flags);
  cch_status (*event_wrap)(cch_event **out, CUevent raw, void *owner, cch_release_fn release);
  cch_status (*event_record)(cch_event *event, cch_stream *stream);
  cch_status (*event_query)(cch_event *event);
  cch_status (*event_synchronize)(cch_event *event);
  cch_status (*event_elapsed)(float *out, cch_event *start, cch_event *end);
  unsigned (*event_flags)(const cch_event *event);
  cch_context *(*event_context)(const cch_event *event);
  CUevent (*event_raw)(const cch_event *event);
  cch_status (*pool_create)(cch_pool **out, const cch_pool_config *config);
  cch_status (*pool_current)(cch_pool **out, int device);
  cch_status (*pool_wrap)(cch_pool **out, CUmemoryPool raw, int device, void *owner, cch_release_fn release);
  int (*pool_device)(const cch_pool *pool);
  CUmemoryPool (*pool_raw)(const cch_pool *pool);
  cch_status (*deviceptr_alloc_async)(cch_deviceptr **out, cch_pool *pool, size_t size, cch_stream *stream);
  cch_status (*deviceptr_alloc)(cch_deviceptr **out, cch_context *context, size_t size);
  cch_status (*deviceptr_alloc_host)(cch_deviceptr **out, cch_context *context, size_t size, unsigned flags);
  cch_status (*deviceptr_wrap)(cch_deviceptr **out, CUdeviceptr ptr, size_t size, cch_context *context, void *owner,
                               cch_free_fn free);
  cch_status (*deviceptr_set_stream)(cch_deviceptr *ptr, cch_stream *stream);
  cch_stream *(*deviceptr_stream)(const cch_deviceptr *ptr);
  cch_pool *(*deviceptr_pool)(const cch_deviceptr *ptr);
  cch_context *(*deviceptr_context)(const cch_deviceptr *ptr);
  size_t (*deviceptr_size)(const cch_deviceptr *ptr);
  cch_status (*deviceptr_copy)(cch_deviceptr *dst, cch_deviceptr *src, size_t size, cch_stream *stream);
  cch_status (*deviceptr_fill)(cch_deviceptr *dst, uint32_t value, unsigned width, cch_stream *stream);
  cch_status (*pointer_check)(CUdeviceptr ptr);
  CUdeviceptr (*deviceptr_raw)(const cch_deviceptr *ptr);
  cch_status (*library_load)(cch_library **out, const void *image, size_t size);
  cch_status (*library_wrap)(cch_library **out, CUlibrary raw, void *owner, cch_release_fn release);
  CUlibrary (*library_raw)(const cch_library *library);
  cch_status (*kernel_get)(cch_kernel **out, cch_library *library, const char *name);
  cch_status (*kernel_wrap)(cch_kernel **out, CUkernel raw, cch_library *library, void *owner, cch_release_fn release);
  cch_library *(*kernel_library)(const cch_kernel *kernel);
  cch_status (*kernel_params)(const cch_param **out, size_t *count, cch_kernel *kernel, cch_context *context);
  cch_status (*launch)(cch_stream *stream, const cch_launch_config *config, cch_kernel *kernel, const void *args,
                       size_t args_size);
  cch_status (*launch_params)(cch_stream *stream, const cch_launch_config *config, cch_kernel *kernel, void **params);
  CUkernel (*kernel_raw)(const cch_kernel *kernel);
  void *(*ref)(void *box);
  void (*unref)(void *box);
  int (*kind_of)(const void *box);
  bool (*is_valid)(const void *box);
  cch_status (*bundle_create)(cch_bundle **out, size_t capacity);
  cch_status (*bundle_add)(cch_bundle *bundle, void *box);
  cch_status (*bundle_add_object)(cch_bundle *bundle, void *object, cch_release_fn release);
  size_t (*bundle_count)(const cch_bundle *bundle);
  void (*error_restore)(const cch_error *error);
  cch_status (*device_name)(char *out, size_t size, int device);
  cch_status (*device_uuid)(unsigned char *out, int device);
  cch_status (*device_pci_bus_id)(char *out, size_t size, int device);
  cch_status (*device_can_access_peer)(int *out, int device, int peer);
  cch_status (*pointer_attributes)(int *memory_type, int *device, int *is_managed, CUdeviceptr ptr);
  cch_status (*kernel_attribute)(int *out, cch_kernel *kernel, int attribute, int device);
  cch_status (*kernel_set_attribute)(cch_kernel *kernel, int attribute, int value, int device);
  cch_status (*occupancy_max_active_blocks)(int *out, cch_kernel *kernel, int block_size, size_t shared_bytes,
                                            cch_context *context);
  cch_status (*occupancy_max_potential_block_size)(int *grid_size, int *block_size, cch_kernel *kernel,
                                                   cch_shared_bytes_fn shared_bytes_of, size_t shared_bytes, int limit,
                                                   cch_context *context);
  cch_status (*occupancy_available_shared_bytes)(size_t *out, cch_kernel *kernel, int blocks, int block_size,
                                                 cch_context *context);
  cch_status (*occupancy_max_potential_cluster_size)(int *out, cch_stream *stream, const cch_launch_config *config,
                                                     cch_kernel *kernel);
  cch_status (*occupancy_max_active_clusters)(int *out, cch_stream *stream, const cch_launch_config *config,
                                              cch_kernel *kernel);
  cch_status (*pool_attribute)(uint64_t *out, cch_pool *pool, int attribute);
  cch_status (*pool_set_attribute)(cch_pool *pool, int attribute, uint64_t value);
  cch_status (*pool_access)(int *out, cch_pool *pool, int device);
  cch_status (*pool_set_access)(cch_pool *pool, const int *devices, const int *access, size_t count);
  cch_status (*event_wrap_in)(cch_event **out, CUevent raw, cch_context *context, void *owner, cch_release_fn release);
  void (*pool_location)(int *type, int *id, const cch_pool *pool);
  int (*pool_alloc_type)(const cch_pool *pool);
  cch_stream *(*deviceptr_stream_ref)(cch_deviceptr *ptr);
  const void *(*deviceptr_backing)(const cch_deviceptr *ptr);
  cch_status (*stream_is_capturing)(int *out, cch_stream *stream);
  cch_status (*graph_create)(cch_graph **out);
  cch_status (*graph_adopt)(cch_graph **out, CUgraph raw);
  cch_status (*graph_clone)(cch_graph **out, cch_graph *graph);
  cch_graph *(*graph_parent)(const cch_graph *graph);
  cch_status (*graph_keep)(cch_graph *graph, cch_bundle *bundle);
  cch_status (*graph_condition)(CUgraphConditionalHandle *out, cch_graph *graph, cch_context *context, int has_default,
                                unsigned value);
  cch_status (*graph_debug_dot_print)(cch_graph *graph, const char *path, unsigned flags);
  CUgraph (*graph_raw)(const cch_graph *graph);
  cch_status (*graph_add)(cch_graph_node **out, cch_graph *graph, const cch_node_spec *spec);
  cch_status (*graph_add_batch)(cch_graph_node **out, cch_graph *graph, const cch_node_spec *specs, size_t count,
                                size_t *failed);
  cch_status (*graph_node_destroy)(cch_graph_node *node);
  cch_graph *(*graph_node_graph)(const cch_graph_node *node);
  int (*graph_node_type)(const cch_graph_node *node);
  cch_status (*graph_node_set)(cch_graph_node *node, const void *params, cch_bundle *bundle, cch_context *context);
  cch_status (*graph_node_get)(void *params, cch_graph_node *node);
  cch_bundle *(*graph_node_bundle)(cch_graph_node *node);
  cch_status (*graph_node_child)(cch_graph **out, cch_graph_node *node, unsigned index);
  cch_status (*graph_find_in_clone)(cch_graph_node **out, cch_graph_node *node, cch_graph *clone);
  cch_status (*graph_node_of)(cch_graph_node **out, cch_graph *graph, CUgraphNode raw);
  CUgraphNode (*graph_node_raw)(const cch_graph_node *node);
  cch_status (*graph_nodes)(cch_node_list *out, cch_graph *graph);
  cch_status (*graph_edges)(cch_edge_list *out, cch_graph *graph);
  cch_status (*graph_node_dependencies)(cch_node_list *out, cch_graph_node *node);
  cch_status (*graph_node_dependents)(cch_node_list *out, cch_graph_node *node);
  void (*node_list_free)(cch_node_list *list);
  void (*edge_list_free)(cch_edge_list *list);
  cch_status (*graph_connect)(cch_graph_node *const *from, cch_graph_node *const *to, size_t count);
  cch_status (*graph_disconnect)(cch_graph_node *const *from, cch_graph_node *const *to, size_t count);
  cch_status (*graph_instantiate)(cch_graph_exec **out, cch_graph *graph, const cch_instantiate_params *params);
  cch_status (*graph_exec_update)(cch_graph_exec *exec, cch_graph *graph, cch_update_result *result);
  cch_status (*graph_exec_flags)(uint64_t *out, cch_graph_exec *exec);
  cch_status (*graph_upload)(cch_graph_exec *exec, cch_stream *stream);
  cch_status (*graph_launch)(cch_graph_exec *exec, cch_stream *stream);
  bool (*graph_exec_has)(const cch_graph_exec *exec, const cch_graph_node *node);
  cch_status (*graph_exec_set)(cch_graph_exec *exec, cch_graph_node *node, const void *params, cch_bundle *bundle,
                               cch_context *context);
  cch_status (*graph_exec_enable)(cch_graph_exec *exec, cch_graph_node *node, int enabled);
  cch_status (*graph_exec_is_enabled)(int *out, cch_graph_exec *exec, cch_graph_node *node);
  CUgraphExec (*graph_exec_raw)(const cch_graph_exec *exec);
  cch_status (*capture_begin)(cch_graph **out, cch_stream *stream, int mode);
  cch_status (*capture_begin_to)(cch_graph *graph, cch_stream *stream, cch_graph_node *const *dependencies,
                                 size_t count, int mode);
  cch_status (*capture_end)(cch_graph *graph, cch_stream *stream);
  cch_status (*capture_status_of)(int *status, cch_graph **graph, cch_stream *stream);
  cch_status (*capture_add)(cch_graph_node **out, cch_stream *stream, const cch_node_spec *spec);
  size_t (*capture_count)(void);
  cch_status (*capture_keep)(cch_graph *graph, void *object, cch_release_fn release);
  cch_status (*bundle_get)(void **out, cch_release_fn *release, const cch_bundle *bundle, size_t index);
  cch_status (*capture_graph)(cch_graph **out, cch_stream *stream);
  cch_status (*graph_share)(cch_graph *graph);
  cch_status (*capture_join)(cch_graph *graph, cch_stream *stream, cch_stream *into);
  cch_status (*graph_node_context)(cch_context **out, cch_graph_node *node);
  bool (*callback_active)(void);
  const char *(*error_name_in)(int domain, int code);
  const char *(*error_string_in)(int domain, int code);
  cch_status (*nvrtc_load)(cch_nvrtc **out, const char *path);
  cch_status (*nvrtc_wrap)(cch_nvrtc **out, void *handle);
  cch_status (*nvrtc_version)(int *major, int *minor, cch_nvrtc *nvrtc);
  cch_status (*nvrtc_architectures)(int *out, size_t *count, cch_nvrtc *nvrtc);
  cch_status (*nvrtc_pch_heap)(size_t *out, cch_nvrtc *nvrtc);
  cch_status (*nvrtc_set_pch_heap)(cch_nvrtc *nvrtc, size_t size);
  cch_status (*nvrtc_program_create)(cch_nvrtc_program **out, cch_nvrtc *nvrtc, const char *source, const char *name,
                                     size_t count, const char *const *headers, const char *const *header_names);
  cch_status (*nvrtc_program_add_name)(cch_nvrtc_program *program, const char *expression);
  cch_status (*nvrtc_program_compile)(cch_nvrtc_program *program, size_t count, const char *const *options);
  cch_status (*nvrtc_program_get)(void *out, size_t *size, cch_nvrtc_program *program, int output);
  cch_status (*nvrtc_program_lowered_name)(const char **out, cch_nvrtc_program *program, const char *expression);
  cch_status (*nvrtc_program_pch_status)(int *out, cch_nvrtc_program *program);
  cch_status (*nvrtc_program_pch_heap)(size_t *out, cch_nvrtc_program *program);
  nvrtcProgram (*nvrtc_program_raw)(const cch_nvrtc_program *program);
  cch_status (*nvvm_load)(cch_nvvm **out, const char *path);
  cch_status (*nvvm_wrap)(cch_nvvm **out, void *handle);
  cch_status (*nvvm_version)(int *major, int *minor, cch_nvvm *nvvm);
  cch_status (*nvvm_ir_version)(int *major, int *minor, int *debug_major, int *debug_minor, cch_nvvm *nvvm);
  cch_status (*nvvm_llvm_version)(int *out, cch_nvvm *nvvm, const char *arch);
  cch_status (*nvvm_program_create)(cch_nvvm_program **out, cch_nvvm *nvvm);
  cch_status (*nvvm_program_add)(cch_nvvm_program *program, const void *module, size_t size, const char *name,
                                 int lazy);
  cch_status (*nvvm_program_verify)(cch_nvvm_program *program, size_t count, const char *const *options);
  cch_status (*nvvm_program_compile)(cch_nvvm_program *program, size_t count, const char *const *options);
  cch_status (*nvvm_program_get)(void *out, size_t *size, cch_nvvm_program *program, int output);
  nvvmProgram (*nvvm_program_raw)(const cch_nvvm_program *program);
  cch_status (*nvjitlink_load)(cch_nvjitlink **out, const char *path);
  cch_status (*nvjitlink_wrap)(cch_nvjitlink **out, void *handle);
  cch_status (*nvjitlink_version)(int *major, int *minor, cch_nvjitlink *nvjitlink);
  cch_status (*nvjitlink_linker_create)(cch_nvjitlink_linker **out, cch_nvjitlink *nvjitlink, size_t count,
                                        const char *const *options);
  cch_status (*nvjitlink_linker_add)(cch_nvjitlink_linker *linker, int input, const void *code, size_t size,
                                     const char *name);
  cch_status (*nvjitlink_linker_link)(cch_nvjitlink_linker *linker);
  cch_status (*nvjitlink_linker_get)(void *out, size_t *size, cch_nvjitlink_linker *linker, int output);
  nvJitLinkHandle (*nvjitlink_linker_raw)(const cch_nvjitlink_linker *linker);
  cch_status (*pool_of)(cch_pool **out, int location_type, int location_id, int alloc_type);
  cch_status (*pool_trim)(cch_pool *pool, size_t keep);
  cch_status (*copy_batch)(cch_deviceptr *const *dst, cch_deviceptr *const *src, size_t count,
                           const cch_copy_attributes *const *attributes, cch_stream *stream);
  cch_status (*copy_part)(cch_deviceptr *dst, cch_deviceptr *src, const cch_copy_shape *shape, cch_stream *stream);
  cch_status (*managed_advise)(cch_deviceptr *ptr, int advice, int location_type, int location_id);
  cch_status (*managed_attribute)(int *out, size_t count, cch_deviceptr *ptr, int attribute);
  cch_status (*managed_prefetch)(cch_deviceptr *const *ptrs, const cch_location *locations, size_t count,
                                 cch_stream *stream);
  cch_status (*managed_discard)(cch_deviceptr *const *ptrs, size_t count, cch_stream *stream);
  cch_status (*managed_discard_prefetch)(cch_deviceptr *const *ptrs, const cch_location *locations, size_t count,
                                         cch_stream *stream);
  cch_status (*virtual_granularity)(size_t *out, const cch_virtual_config *config);
  cch_status (*virtual_alloc)(cch_deviceptr **out, const cch_virtual_config *config, size_t size);
  cch_status (*virtual_grow)(cch_deviceptr **out, int *moved, cch_deviceptr *ptr, const cch_virtual_config *config,
                             size_t size);
  cch_status (*stream_callback)(cch_stream *stream, cch_host_fn function, void *data, cch_bundle *bundle);
  cch_status (*pool_export)(int *out, cch_pool *pool);
  cch_status (*pool_import)(cch_pool **out, int descriptor, int location_type, int location_id);
  bool (*pool_is_imported)(const cch_pool *pool);
  cch_status (*deviceptr_export)(cch_ipc_handle *out, cch_deviceptr *ptr);
  cch_status (*deviceptr_import)(cch_deviceptr **out, cch_pool *pool, const cch_ipc_handle *handle, size_t size,
                                 cch_stream *stream);
  bool (*deviceptr_is_imported)(const cch_deviceptr *ptr);
  cch_status (*event_export)(cch_ipc_handle *out, cch_event *event);
  cch_status (*event_import)(cch_event **out, cch_context *context, const cch_ipc_handle *handle, unsigned flags);
  cch_status (*graph_node_is_current)(int *out, cch_graph_node *node);
  cch_status (*resource_of_device)(cch_resource *out, int device, int kind);
  cch_status (*resource_of_context)(cch_resource *out, cch_context *context, int kind);
  int (*resource_kind)(const cch_resource *resource);
  cch_status (*resource_sm)(uint32_t *count, uint32_t *least, uint32_t *together, uint32_t *flags,
                            const cch_resource *resource);
  cch_status (*resource_workqueue)(uint32_t *limit, int *scope, const cch_resource *resource);
  cch_status (*resource_set_workqueue)(cch_resource *resource, uint32_t limit, int scope);
  cch_status (*resource_split_evenly)(cch_resource *out, size_t *count, cch_resource *rest,
                                      const cch_resource *resource, unsigned flags, uint32_t least);
  cch_status (*resource_split)(cch_resource *out, cch_resource *rest, const cch_resource *resource,
                               cch_sm_group *groups, size_t count);
  cch_status (*context_create)(cch_context **out, int device, const cch_resource *resources, size_t count);
  cch_status (*context_is_green)(int *out, cch_context *context);
  bool (*deviceptr_is_wrapped)(const cch_deviceptr *ptr);
  void *(*unref_lightly)(void *box);
  cch_status (*graph_rewire)(cch_graph_node *const *lost_from, cch_graph_node *const *lost_to, size_t lost_count,
                             cch_graph_node *const *from, cch_graph_node *const *to, size_t count);
  cch_status (*capture_is_active)(int *out, cch_stream *stream);
  cch_status (*capture_keep_all)(cch_stream *stream, void *const *boxes, size_t count);
  cch_status (*deviceptr_part)(cch_deviceptr **out, cch_deviceptr *ptr, size_t offset, size_t size);
  cch_deviceptr *(*deviceptr_whole)(const cch_deviceptr *ptr);
  size_t (*deviceptr_offset)(const cch_deviceptr *ptr);
  cch_status (*deviceptr_import_part)(cch_deviceptr **out, cch_pool *pool, const cch_ipc_handle *handle, size_t offset,
                                      size_t size, cch_stream *stream);
  cch_status (*kernel_set_params)(cch_kernel *kernel, const cch_param *params, size_t count);
  cch_status (*graph_condition_is_used)(int *out, cch_graph *graph, CUgraphConditionalHandle condition);
  cch_status (*library_disown)(cch_library *library);
  cch_status (*nvrtc_program_cancel)(cch_nvrtc_program *program);
  cch_status (*launch_keeping)(cch_stream *stream, const cch_launch_config *config, cch_kernel *kernel,
                               const void *args, size_t args_size, cch_keep_fn keep, void *data);
  cch_status (*context_restore)(cch_context *context);
  cch_status (*checkpoint_state)(int *out, int pid);
  cch_status (*checkpoint_restore_thread)(int *out, int pid);
  cch_status (*checkpoint_lock)(int pid, unsigned timeout_ms);
  cch_status (*checkpoint_save)(int pid);
  cch_status (*checkpoint_restore)(int pid, const unsigned char *uuids, size_t count);
  cch_status (*checkpoint_unlock)(int pid);
  cch_status (*tensor_map_encode)(cch_tensor_map *out, const cch_tensor_map_config *config);
  cch_status (*graphics_register_gl_buffer)(cch_graphics **out, cch_context *context, unsigned buffer, unsigned flags);
  cch_status (*graphics_register_gl_image)(cch_graphics **out, cch_context *context, unsigned image, unsigned target,
                                           unsigned flags);
  cch_status (*graphics_map)(cch_deviceptr **out, cch_graphics *resource, cch_stream *stream);
  cch_status (*graphics_unmap)(cch_graphics *resource, cch_stream *stream);
  bool (*graphics_is_mapped)(const cch_graphics *resource);
  cch_status (*graphics_unregister)(cch_graphics *resource, cch_stream *stream);
  CUgraphicsResource (*graphics_raw)(const cch_graphics *resource);
  cch_status (*deviceptr_check)(const cch_deviceptr *ptr);
  cch_status (*array_create)(cch_array **out, cch_context *context, const cch_array_desc *desc);
  cch_status (*array_wrap)(cch_array **out, CUarray raw, cch_context *context, void *owner, cch_release_fn release);
  cch_status (*array_describe)(cch_array_desc *out, const cch_array *array);
  size_t (*array_size)(const cch_array *array);
  cch_context *(*array_context)(const cch_array *array);
  cch_status (*array_copy_from)(cch_array *array, cch_deviceptr *src, size_t offset, cch_stream *stream);
  cch_status (*array_copy_to)(cch_array *array, cch_deviceptr *dst, size_t offset, cch_stream *stream);
  CUarray (*array_raw)(const cch_array *array);
  cch_status (*mipmapped_array_create)(cch_mipmapped_array **out, cch_context *context, const cch_array_desc *desc);
  cch_status (*mipmapped_array_level)(cch_array **out, cch_mipmapped_array *array, unsigned level);
  cch_status (*mipmapped_array_describe)(cch_array_desc *out, const cch_mipmapped_array *array);
  cch_context *(*mipmapped_array_context)(const cch_mipmapped_array *array);
  CUmipmappedArray (*mipmapped_array_raw)(const cch_mipmapped_array *array);
  cch_status (*texture_create)(cch_texture **out, cch_context *context, const cch_texture_resource *resource,
                               const cch_texture_desc *desc);
  cch_context *(*texture_context)(const cch_texture *texture);
  CUtexObject (*texture_raw)(const cch_texture *texture);
  cch_status (*surface_create)(cch_surface **out, cch_context *context, cch_array *array);
  cch_context *(*surface_context)(const cch_surface *surface);
  CUsurfObject (*surface_raw)(const cch_surface *surface);
  cch_status (*deviceptr_alloc_managed)(cch_deviceptr **out, cch_context *context, size_t size, unsigned flags);
  cch_status (*deviceptr_register_host)(cch_deviceptr **out, cch_context *context, void *host, size_t size,
                                        unsigned flags, void *owner, cch_release_fn release);
  bool (*deviceptr_is_read_only)(const cch_deviceptr *ptr);
  cch_status (*event_poll)(cch_event *event);
  size_t (*virtual_piece_count)(const cch_deviceptr *ptr);
  cch_status (*virtual_export)(int *descriptors, size_t *sizes, size_t count, cch_deviceptr *ptr);
  cch_status (*virtual_import)(cch_deviceptr **out, const cch_virtual_config *config, const int *descriptors,
                               const size_t *sizes, size_t count);
  cch_status (*graph_add_kernels)(CUgraphNode *out, uint64_t *first, cch_graph *graph,
                                  const cch_kernel_columns *columns, size_t count, size_t *CCH_NULLABLE failed);
  cch_status (*graph_node_numbered)(cch_graph_node **out, cch_graph *graph, CUgraphNode raw, uint64_t number);
  cch_status (*context_memory_info)(size_t *free, size_t *total, cch_context *context);
  cch_status (*tracker_create)(cch_tracker **out, const cch_tracker_config *config);
  cch_status (*tracker_measure)(cch_tracker **out, cch_tracker *tracker);
  cch_status (*tracker_stop)(cch_tracker *tracker);
  cch_status (*tracker_begin)(cch_tracker *tracker, size_t size);
  void (*tracker_cancel)(cch_tracker *tracker, size_t size, const cch_stream *stream);
  cch_status (*tracker_add)(uint64_t *id, cch_tracker *tracker, cch_deviceptr *ptr, size_t announced);
  cch_status (*deviceptr_alloc_tracked)(cch_deviceptr **out, cch_pool *pool, size_t size, cch_stream *stream,
                                        cch_tracker *const *trackers, size_t count);
  cch_status (*tracker_read)(cch_tracker_counts *out, cch_tracker *tracker);
  cch_status (*tracker_list)(cch_tracked *out, size_t capacity, size_t *count, cch_tracker *tracker);
  cch_status (*tracker_flush)(cch_tracker *tracker);
  cch_status (*allocator_create)(cch_allocator **out, cch_pool *pool, cch_tracker *const *trackers, size_t count);
  cch_status (*allocator_alloc)(CUdeviceptr *out, cch_allocator *allocator, size_t size, CUstream stream);
  cch_status (*allocator_free)(CUdeviceptr ptr);
  cch_status (*allocator_record_stream)(CUdeviceptr ptr, CUstream stream);
  cch_status (*torch_set_allocator)(int device, cch_allocator *allocator);
  void *(*torch_alloc)(int64_t size, int device, CUstream stream);
  void (*torch_free)(void *ptr, int64_t size, int device, CUstream stream);
  void (*torch_record_stream)(void *ptr, CUstream stream);
  void *(*torch_try_alloc)(int64_t size, int device, CUstream stream);
  cch_status (*allocator_free_async)(CUdeviceptr ptr, CUstream stream);
  cch_status (*deviceptr_record_stream)(cch_deviceptr *ptr, cch_stream *stream);
  cch_status (*deviceptr_borrow)(cch_deviceptr **out, CUdeviceptr ptr, size_t size, cch_deviceptr *owner);
  size_t (*helper_stream_count)(void);
  cch_status (*stream_resolve)(cch_stream **out, cch_stream *stream);
  cch_status (*graph_clone_pairs)(cch_graph **out, cch_node_list *nodes, cch_node_list *copies, cch_graph *graph);
  cch_status (*graph_node_read)(void *params, cch_bundle **kept, cch_bundle **bundle, cch_graph_node *node);
} cch_api;

/**
 * The function table, or NULL when the library does not support `abi_version`, or when its table has fewer than
 * `struct_size` bytes. Pass CCH_ABI_VERSION and sizeof(cch_api). The table is static. Destructor-safe. @since 0.1
 */
CCH_EXPORT const cch_api *cch_get_api(unsigned abi_version, size_t struct_size);

CCH_END_DECLS

#endif
