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
#include <cudacore/context.h>
#include <cudacore/stream.h>
#include <cudacore/event.h>
#include <cudacore/pool.h>
#include <cudacore/deviceptr.h>
#include <cudacore/library.h>
#include <cudacore/kernel.h>
#include <cudacore/bundle.h>
#include <cudacore/graph.h>
#include <cudacore/capture.h>

CCH_BEGIN_DECLS

/** The functions, named without the prefix `cch_`. */
typedef struct cch_api {
  size_t size; /**< bytes of this table that the library filled */
  uint32_t (*version)(void);
  size_t (*live_count)(int kind);
  const cch_error *(*error_last)(void);
  void (*error_clear)(void);
  const char *(*error_name)(int code);
  const char *(*error_string)(int code);
  void (*error_set_report)(cch_report_fn report);
  cch_status (*driver_init)(void);
  cch_status (*driver_version)(int *out);
  cch_status (*device_attribute)(int *out, int attribute, int device);
  void (*process_exiting)(void);
  void (*callback_enter)(void);
  void (*callback_leave)(void);
  void (*unref_deferred)(void *box);
  size_t (*reclaim_drain)(void);
  cch_status (*context_primary)(cch_context **out, int device);
  cch_status (*context_wrap)(cch_context **out, CUcontext raw, void *owner, cch_release_fn release);
  cch_status (*context_current)(cch_context **out);
  cch_status (*context_set_current)(cch_context *context);
  cch_status (*context_synchronize)(cch_context *context);
  int (*context_device)(const cch_context *context);
  CUcontext (*context_raw)(const cch_context *context);
  cch_status (*stream_create)(cch_stream **out, cch_context *context, unsigned flags, int priority);
  cch_status (*stream_wrap)(cch_stream **out, CUstream raw, void *owner, cch_release_fn release);
  cch_stream *(*stream_legacy)(void);
  cch_stream *(*stream_per_thread)(void);
  cch_context *(*stream_context)(const cch_stream *stream);
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
  CUevent (*event_raw)(const cch_event *event);
  cch_status (*pool_create)(cch_pool **out, const cch_pool_config *config);
  cch_status (*pool_current)(cch_pool **out, int device);
  cch_status (*pool_wrap)(cch_pool **out, CUmemoryPool raw, int device, void *owner, cch_release_fn release);
  CUmemoryPool (*pool_raw)(const cch_pool *pool);
  cch_status (*deviceptr_alloc_async)(cch_deviceptr **out, cch_pool *pool, size_t size, cch_stream *stream);
  cch_status (*deviceptr_alloc)(cch_deviceptr **out, cch_context *context, size_t size);
  cch_status (*deviceptr_alloc_host)(cch_deviceptr **out, cch_context *context, size_t size, unsigned flags);
  cch_status (*deviceptr_wrap)(cch_deviceptr **out, CUdeviceptr ptr, size_t size, cch_context *context, void *owner,
                               cch_free_fn free);
  cch_status (*deviceptr_set_stream)(cch_deviceptr *ptr, cch_stream *stream);
  size_t (*deviceptr_size)(const cch_deviceptr *ptr);
  cch_status (*deviceptr_copy)(cch_deviceptr *dst, cch_deviceptr *src, size_t size, cch_stream *stream);
  cch_status (*deviceptr_fill)(cch_deviceptr *dst, uint64_t value, unsigned width, cch_stream *stream);
  CUdeviceptr (*deviceptr_raw)(const cch_deviceptr *ptr);
  cch_status (*library_load)(cch_library **out, const void *image, size_t size);
  cch_status (*library_wrap)(cch_library **out, CUlibrary raw, void *owner, cch_release_fn release);
  CUlibrary (*library_raw)(const cch_library *library);
  cch_status (*kernel_get)(cch_kernel **out, cch_library *library, const char *name);
  cch_status (*kernel_wrap)(cch_kernel **out, CUkernel raw, cch_library *library, void *owner, cch_release_fn release);
  cch_status (*kernel_params)(const cch_param **out, size_t *count, cch_kernel *kernel, cch_context *context);
  cch_status (*launch)(cch_stream *stream, const cch_launch_config *config, cch_kernel *kernel, const void *args,
                       size_t args_size);
  CUkernel (*kernel_raw)(const cch_kernel *kernel);
  void *(*ref)(void *box);
  void (*unref)(void *box);
  int (*kind_of)(const void *box);
  bool (*is_valid)(const void *box);
  cch_status (*bundle_create)(cch_bundle **out, size_t capacity);
  cch_status (*bundle_add)(cch_bundle *bundle, void *box);
  cch_status (*bundle_add_object)(cch_bundle *bundle, void *object, cch_release_fn release);
  cch_status (*stream_is_capturing)(int *out, cch_stream *stream);
  cch_status (*graph_create)(cch_graph **out);
  cch_status (*graph_keep)(cch_graph *graph, cch_bundle *bundle);
  cch_status (*graph_condition)(CUgraphConditionalHandle *out, cch_graph *graph, cch_context *context, int has_default,
                                unsigned value);
  CUgraph (*graph_raw)(const cch_graph *graph);
  cch_status (*graph_add)(cch_graph_node **out, cch_graph *graph, const cch_node_spec *spec);
  cch_status (*graph_add_batch)(cch_graph_node **out, cch_graph *graph, const cch_node_spec *specs, size_t count,
                                size_t *failed);
  cch_status (*graph_node_destroy)(cch_graph_node *node);
  cch_status (*graph_node_set)(cch_graph_node *node, const void *params, cch_bundle *bundle, cch_context *context);
  cch_status (*graph_node_get)(void *params, cch_graph_node *node);
  cch_bundle *(*graph_node_bundle)(cch_graph_node *node);
  cch_status (*graph_node_child)(cch_graph **out, cch_graph_node *node, unsigned index);
  CUgraphNode (*graph_node_raw)(const cch_graph_node *node);
  cch_status (*graph_nodes)(cch_node_list *out, cch_graph *graph);
  cch_status (*graph_edges)(cch_edge_list *out, cch_graph *graph);
  void (*node_list_free)(cch_node_list *list);
  void (*edge_list_free)(cch_edge_list *list);
  cch_status (*graph_instantiate)(cch_graph_exec **out, cch_graph *graph, const cch_instantiate_params *params);
  cch_status (*graph_exec_update)(cch_graph_exec *exec, cch_graph *graph, cch_update_result *result);
  cch_status (*graph_upload)(cch_graph_exec *exec, cch_stream *stream);
  cch_status (*graph_launch)(cch_graph_exec *exec, cch_stream *stream);
  cch_status (*graph_exec_set)(cch_graph_exec *exec, cch_graph_node *node, const void *params, cch_bundle *bundle,
                               cch_context *context);
  CUgraphExec (*graph_exec_raw)(const cch_graph_exec *exec);
  cch_status (*capture_begin)(cch_graph **out, cch_stream *stream, int mode);
  cch_status (*capture_end)(cch_graph *graph, cch_stream *stream);
  cch_status (*capture_keep)(cch_graph *graph, void *object, cch_release_fn release);
  cch_status (*graph_share)(cch_graph *graph);
  cch_status (*capture_join)(cch_graph *graph, cch_stream *stream, cch_stream *into);
  cch_status (*stream_callback)(cch_stream *stream, cch_host_fn function, void *data, cch_bundle *bundle);
  cch_status (*deviceptr_part)(cch_deviceptr **out, cch_deviceptr *ptr, size_t offset, size_t size);
  cch_status (*deviceptr_record_stream)(cch_deviceptr *ptr, cch_stream *stream);
} cch_api;

/**
 * The function table, or NULL when the library does not support `abi_version`, or when its table has fewer than
 * `struct_size` bytes. Pass CCH_ABI_VERSION and sizeof(cch_api). The table is static. Destructor-safe. @since 0.1
 */
CCH_EXPORT const cch_api *cch_get_api(unsigned abi_version, size_t struct_size);

CCH_END_DECLS

#endif
