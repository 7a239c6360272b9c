/* SPDX-License-Identifier: Apache-2.0 */
#include "operations.h"

#include "exporter.h"

#include <unistd.h>

static const cch_launch_config launch_config = {.size = sizeof launch_config, .grid = {1, 1, 1}, .block = {1, 1, 1}};
static char launch_arguments[28];

static char registered[64];

static void do_nothing(void *data) { (void)data; }

/* Parameters of each type of node. */
static cch_kernel_node node_of_kernel(const world *w) {
  static const cch_launch_config config = {.size = sizeof config,
                                           .flags = CCH_LAUNCH_COOPERATIVE | CCH_LAUNCH_PRIORITY,
                                           .grid = {2, 1, 1},
                                           .block = {1, 1, 1},
                                           .cluster = {2, 1, 1}};
  return (cch_kernel_node){.size = sizeof(cch_kernel_node),
                           .config = &config,
                           .kernel = w->kernel,
                           .args = launch_arguments,
                           .args_size = sizeof launch_arguments};
}

/* The addresses of the parameters are in the pinned memory of the world that was opened last. */
static cch_memcpy_node copy_params = {.size = sizeof copy_params, .width = 8};
static cch_memset_node fill_params = {.size = sizeof fill_params, .value = 1, .element_size = 4, .width = 4};
static const cch_host_node host_params = {.size = sizeof host_params, .function = do_nothing};

static int try_add(cch_graph_node **out, world *w, int type, const void *params) {
  cch_node_spec spec = {
      .size = sizeof spec, .type = type, .params = params, .bundle = w->bundle, .context = w->context};
  return cch_graph_add(out, w->graph, &spec);
}

static const cch_access one_device = {CCH_LOCATION_DEVICE, 0, 3};
static const cch_virtual_config virtual_config = {.size = sizeof virtual_config,
                                                  .location_type = CCH_LOCATION_DEVICE,
                                                  .handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                                  .accesses = &one_device,
                                                  .access_count = 1};

static void open_graph(world *w) {
  cch_node_spec empty = {.size = sizeof empty, .type = CCH_NODE_EMPTY};
  cch_kernel_node kernel = node_of_kernel(w);
  cch_event_node event = {.size = sizeof event, .event = w->start};
  CUgraphConditionalHandle condition;
  copy_params.dst = cch_deviceptr_raw(w->pinned);
  copy_params.src = copy_params.dst + 32;
  fill_params.dst = copy_params.dst + 8; /* nothing orders the two nodes */
  OK(cch_bundle_create(&w->bundle, 0));
  OK(cch_graph_create(&w->leaf));
  OK(cch_graph_add(&w->leaf_node, w->leaf, &empty));
  OK(cch_graph_create(&w->graph));
  cch_child_node child = {.size = sizeof child, .graph = w->leaf};
  OK(try_add(&w->node, w, CCH_NODE_KERNEL, &kernel));
  OK(try_add(&w->copy, w, CCH_NODE_MEMCPY, &copy_params));
  OK(try_add(&w->fill, w, CCH_NODE_MEMSET, &fill_params));
  OK(try_add(&w->host, w, CCH_NODE_HOST, &host_params));
  OK(try_add(&w->child, w, CCH_NODE_GRAPH, &child));
  OK(try_add(&w->record, w, CCH_NODE_EVENT_RECORD, &event));
  OK(try_add(&w->wait, w, CCH_NODE_EVENT_WAIT, &event));
  OK(cch_graph_create(&w->branching));
  OK(cch_graph_condition(&condition, w->branching, w->context, 0, 0));
  OK(cch_graph_condition(&w->condition, w->branching, w->context, 0, 0));
  cch_conditional_node branch = {.size = sizeof branch, .condition = condition, .type = CCH_CONDITIONAL_IF, .count = 1};
  cch_node_spec branching = {.size = sizeof branching,
                             .type = CCH_NODE_CONDITIONAL,
                             .params = &branch,
                             .bundle = w->bundle,
                             .context = w->context};
  OK(cch_graph_add(&w->branch, w->branching, &branching));
  OK(cch_graph_connect(&w->node, &w->copy, 1));
  OK(cch_graph_instantiate(&w->exec, w->graph,
                           &(cch_instantiate_params){.size = sizeof(cch_instantiate_params), .context = w->context}));
  OK(cch_graph_exec_set(w->exec, w->node, &kernel, w->bundle, w->context)); /* the launch uses these parameters */
  OK(cch_graph_launch(w->exec, w->stream));
  OK(cch_stream_synchronize(w->stream));
  /* The stream is in another context, so its capture does not conflict with other calls. */
  OK(cch_stream_create(&w->captured, w->elsewhere, CCH_STREAM_NON_BLOCKING, 0));
  OK(cch_capture_begin(&w->capture, w->captured, CCH_CAPTURE_RELAXED));
}

static void close_graph(world *w) {
  cch_graph_node *const nodes[] = {w->node,   w->copy, w->fill,   w->host,     w->child,
                                   w->record, w->wait, w->branch, w->leaf_node};
  cch_graph_unref(w->capture);
  cch_stream_unref(w->captured);
  for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
    cch_graph_node_unref(nodes[i]);
  cch_graph_exec_unref(w->exec);
  cch_graph_unref(w->graph);
  cch_graph_unref(w->leaf);
  cch_graph_unref(w->branching);
  cch_bundle_unref(w->bundle);
}

static int tensor_map_of(cch_tensor_map *out, const world *w, int kind) {
  const cch_tensor_map_config config = {.size = sizeof config,
                                        .kind = kind,
                                        .address = cch_deviceptr_raw(w->pinned),
                                        .data_type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                                        .rank = 3,
                                        .shape = {2, 4, 8},
                                        .strides = {128, 32, 4},
                                        .element_strides = {1, 1, 1},
                                        .box_dim = {1, 2, 4},
                                        .channels_per_pixel = 4,
                                        .pixels_per_column = 2};
  return cch_tensor_map_encode(out, &config);
}

const cch_array_desc world_line = {
    .size = sizeof world_line, .width = 16, .format = CCH_FORMAT_FLOAT, .channels = 1, .flags = CCH_ARRAY_SURFACE};
const cch_array_desc world_plane = {.size = sizeof world_plane,
                                    .width = 4,
                                    .height = 4,
                                    .format = CCH_FORMAT_FLOAT,
                                    .channels = 1,
                                    .flags = CCH_ARRAY_SURFACE,
                                    .levels = 3};
static const cch_texture_desc sampling = {.size = sizeof sampling, .flags = CCH_TEXTURE_AS_INTEGER};

void world_open(world *w) {
  cch_pool_config config = {
      .size = sizeof config, .location_type = 1, .handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
  memset(w, 0, sizeof *w);
  OK(cch_context_primary(&w->context, 0));
  OK(cch_resource_of_device(&w->multiprocessors, 0, CCH_RESOURCE_SM));
  OK(cch_context_create(&w->green, 0, &w->multiprocessors, 1));
  cch_resource others;
  OK(cch_resource_of_device(&others, 1, CCH_RESOURCE_SM));
  OK(cch_context_create(&w->elsewhere, 1, &others, 1));
  OK(cch_stream_create(&w->stream, w->context, 0, 0));
  OK(cch_stream_create(&w->second_stream, w->context, 0, 0));
  OK(cch_event_create(&w->start, w->context, 0));
  OK(cch_event_create(&w->end, w->context, 0));
  OK(cch_event_record(w->start, w->stream));
  OK(cch_event_record(w->end, w->stream));
  OK(cch_pool_create(&w->pool, &config));
  OK(cch_deviceptr_alloc_async(&w->ptr, w->pool, 64, w->stream));
  OK(cch_deviceptr_alloc_host(&w->pinned, w->context, 64, 0));
  OK(cch_deviceptr_copy(w->ptr, w->pinned, 64, w->stream)); /* the first copy counts the devices; later ones do not */
  OK(cch_virtual_alloc(&w->moves, &virtual_config, 1));
  OK(cch_virtual_alloc(&w->grows, &virtual_config, 1)); /* the addresses are directly after those of `moves` */
  OK(cch_library_load(&w->library, check_ptx, strlen(check_ptx)));
  OK(cch_kernel_get(&w->kernel, w->library, "add"));

  cch_tensor_map map; /* the first call queries the compute capability, which is then cached */
  OK(tensor_map_of(&map, w, CCH_TENSOR_MAP_TILED));

  cch_ipc_handle shared;
  OK(cch_pool_export(&w->descriptor, w->pool));
  OK(cch_virtual_export(&w->memory_descriptor, &w->memory_size, 1, w->moves));
  OK(cch_pool_import(&w->imported_pool, w->descriptor, 1, 0));
  OK(cch_deviceptr_alloc_async(&w->shared, w->pool, 64, w->stream));
  OK(cch_deviceptr_export(&w->handle, w->ptr));
  OK(cch_deviceptr_export(&shared, w->shared));
  OK(cch_deviceptr_import(&w->import, w->imported_pool, &shared, 64, w->stream));
  OK(cch_event_create(&w->shared_event, w->context, CCH_EVENT_INTERPROCESS | CCH_EVENT_DISABLE_TIMING));
  w->event_handle = exported_event();

  w->gl_buffer = sim.gl_buffer(64, NULL);
  OK(cch_graphics_register_gl_buffer(&w->graphics, w->context, w->gl_buffer, 0));

  open_graph(w);

  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK_EQ(driver.cuDevicePrimaryCtxRetain(&w->foreign_context, 1), 0);
  CHECK_EQ(driver.cuCtxSetCurrent(w->foreign_context), 0);
  CHECK_EQ(driver.cuStreamCreateWithPriority(&w->foreign_stream, 0, 0), 0);
  CHECK_EQ(driver.cuEventCreate(&w->foreign_event, 0), 0);
  CHECK_EQ(driver.cuMemPoolCreate(&w->foreign_pool, &props), 0);
  CHECK_EQ(driver.cuLibraryLoadData(&w->foreign_library, check_ptx, NULL, NULL, 0, NULL, NULL, 0), 0);
  CHECK_EQ(driver.cuLibraryGetKernel(&w->foreign_kernel, w->foreign_library, "add"), 0);
  CUdeviceptr managed;
  CHECK_EQ(driver.cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL), 0);
  OK(cch_deviceptr_wrap(&w->managed, managed, 64, NULL, NULL, NULL));
  CHECK_EQ(driver.cuCtxSetCurrent(NULL), 0);
  cch_reclaim_drain();
}

void world_close(world *w) {
  CUcontext current;
  CHECK_EQ(driver.cuCtxGetCurrent(&current), 0);
  check_settle();
  close_graph(w); /* work in another library's context ends in that context, too */
  CHECK_EQ(driver.cuLibraryUnload(w->foreign_library), 0);
  CHECK_EQ(driver.cuMemPoolDestroy(w->foreign_pool), 0);
  CHECK_EQ(driver.cuEventDestroy(w->foreign_event), 0);
  CHECK_EQ(driver.cuStreamDestroy(w->foreign_stream), 0);
  CHECK_EQ(driver.cuCtxSetCurrent(w->foreign_context), 0);
  CHECK_EQ(driver.cuMemFree(cch_deviceptr_raw(w->managed)), 0);
  CHECK_EQ(driver.cuCtxSetCurrent(current), 0);
  cch_deviceptr_unref(w->managed);
  CHECK_EQ(driver.cuDevicePrimaryCtxRelease(1), 0);
  cch_kernel_unref(w->kernel);
  cch_library_unref(w->library);
  cch_graphics_unref(w->graphics);
  sim.gl_delete(w->gl_buffer);
  cch_event_unref(w->shared_event);
  cch_deviceptr_unref(w->import);
  cch_deviceptr_unref(w->shared);
  cch_pool_unref(w->imported_pool);
  close(w->descriptor);
  close(w->memory_descriptor);
  cch_deviceptr_unref(w->grows);
  cch_deviceptr_unref(w->moves);
  cch_deviceptr_unref(w->pinned);
  cch_deviceptr_unref(w->ptr);
  cch_pool_unref(w->pool);
  cch_event_unref(w->end);
  cch_event_unref(w->start);
  cch_stream_unref(w->second_stream);
  cch_stream_unref(w->stream);
  cch_context_unref(w->green);
  cch_context_unref(w->elsewhere);
  cch_context_unref(w->context);
  cch_reclaim_drain(); /* what user objects kept */
}

/* The value of an out-parameter before a call, which must not change if the call fails. */
static char untouched;

/* A call that makes a `type`. */
#define MAKES(name_, type, call)                                                                                       \
  static int name_(world *w, void **made) {                                                                            \
    (void)w;                                                                                                           \
    type *out = (type *)&untouched;                                                                                    \
    int status = call;                                                                                                 \
    CHECK((status != 0) == (out == (type *)&untouched));                                                               \
    *made = status == 0 ? out : NULL;                                                                                  \
    return status;                                                                                                     \
  }                                                                                                                    \
  static void undo_##name_(void *made) { type##_unref(made); }

/* A call that gives a number of `type`. */
#define GIVES(name_, type, call)                                                                                       \
  static int name_(world *w, void **made) {                                                                            \
    (void)w, (void)made;                                                                                               \
    const type before = (type)0x5a5a5a5a;                                                                              \
    type out = before;                                                                                                 \
    int status = call;                                                                                                 \
    CHECK(status == 0 || memcmp(&out, &before, sizeof out) == 0);                                                      \
    return status;                                                                                                     \
  }

/* A call that does something. */
#define DOES(name_, call)                                                                                              \
  static int name_(world *w, void **made) {                                                                            \
    (void)w, (void)made;                                                                                               \
    return call;                                                                                                       \
  }

static const cch_copy_attributes now = {.size = sizeof now, .order = CCH_COPY_DURING_CALL};
static const cch_copy_attributes *const read_now[] = {&now};
static const cch_location on_device[] = {{CCH_LOCATION_DEVICE, 0}, {CCH_LOCATION_DEVICE, 0}};
static const cch_pool_config pool_config = {.size = sizeof pool_config, .location_type = 1};
static void *launch_params[] = {launch_arguments, launch_arguments, launch_arguments, launch_arguments};

GIVES(driver_version, int, cch_driver_version(&out))
GIVES(device_count, int, cch_device_count(&out))
GIVES(device_can_access_peer, int, cch_device_can_access_peer(&out, 1, 0))
GIVES(checkpoint_state, int, cch_checkpoint_state(&out, getpid()))
GIVES(device_attribute, int, cch_device_attribute(&out, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0))
MAKES(context_primary, cch_context, cch_context_primary(&out, 0))
MAKES(context_primary_of_another_device, cch_context, cch_context_primary(&out, 1))
MAKES(context_wrap, cch_context, cch_context_wrap(&out, w->foreign_context, NULL, NULL))
MAKES(context_wrap_own, cch_context, cch_context_wrap(&out, cch_context_raw(w->context), NULL, NULL))
MAKES(context_current, cch_context, cch_context_current(&out))
MAKES(context_create, cch_context, cch_context_create(&out, 0, &w->multiprocessors, 1))
static int context_is_green(world *w, void **made) {
  int is_green = 77;
  cch_context *context; /* a borrowed context, about which the driver is queried */
  (void)made;
  int status = cch_context_wrap(&context, w->foreign_context, NULL, NULL);
  if (status != 0)
    return status;
  status = cch_context_is_green(&is_green, context);
  cch_context_unref(context);
  CHECK_EQ(is_green, status == 0 ? 0 : 77);
  return status;
}
MAKES(stream_create_green, cch_stream, cch_stream_create(&out, w->green, CCH_STREAM_NON_BLOCKING, 0))
/* A call that gives a resource. */
#define GIVES_RESOURCE(name_, call)                                                                                    \
  static int name_(world *w, void **made) {                                                                            \
    const cch_resource before = {{0x5a5a5a5a}};                                                                        \
    cch_resource out = before;                                                                                         \
    (void)w, (void)made;                                                                                               \
    int status = call;                                                                                                 \
    CHECK((status != 0) == (memcmp(&out, &before, sizeof out) == 0));                                                  \
    return status;                                                                                                     \
  }
GIVES_RESOURCE(resource_of_device, cch_resource_of_device(&out, 1, CCH_RESOURCE_WORKQUEUE))
GIVES_RESOURCE(resource_of_context, cch_resource_of_context(&out, w->context, CCH_RESOURCE_SM))
GIVES_RESOURCE(resource_of_green_context, cch_resource_of_context(&out, w->green, CCH_RESOURCE_SM))
GIVES_RESOURCE(resource_split_evenly, cch_resource_split_evenly(&out, &(size_t){1}, NULL, &w->multiprocessors, 0, 16))
GIVES_RESOURCE(resource_split, cch_resource_split(&out, NULL, &w->multiprocessors, &(cch_sm_group){.count = 16}, 1))
DOES(context_set_current, cch_context_set_current(w->context))
DOES(context_restore, cch_context_restore(w->context))
DOES(context_synchronize, cch_context_synchronize(w->context))
GIVES(context_priorities, int, cch_context_priorities(&out, &(int){0}, w->context))
GIVES(context_memory_info, size_t, cch_context_memory_info(&out, &(size_t){0}, w->context))
GIVES(current_device, int, cch_current_device(&out))
MAKES(stream_create, cch_stream, cch_stream_create(&out, w->context, CCH_STREAM_NON_BLOCKING, -1))
MAKES(stream_wrap, cch_stream, cch_stream_wrap(&out, w->foreign_stream, NULL, NULL))
MAKES(stream_wrap_own, cch_stream, cch_stream_wrap(&out, cch_stream_raw(w->stream), NULL, NULL))
GIVES(stream_flags, unsigned, cch_stream_flags(&out, w->stream))
GIVES(stream_priority, int, cch_stream_priority(&out, w->stream))
GIVES(stream_is_capturing, int, cch_stream_is_capturing(&out, w->stream))
DOES(stream_query, cch_stream_query(w->stream))
DOES(stream_synchronize, cch_stream_synchronize(w->stream))
DOES(stream_wait_event, cch_stream_wait_event(w->stream, w->end))
DOES(stream_wait_stream, cch_stream_wait_stream(w->stream, w->second_stream))
MAKES(event_create, cch_event, cch_event_create(&out, w->context, CCH_EVENT_BLOCKING_SYNC))
MAKES(event_wrap, cch_event, cch_event_wrap(&out, w->foreign_event, NULL, NULL))
MAKES(event_wrap_in, cch_event, cch_event_wrap_in(&out, w->foreign_event, w->context, NULL, NULL))
DOES(event_record, cch_event_record(w->start, w->stream))
DOES(event_record_legacy, cch_event_record(w->start, cch_stream_legacy()))
DOES(event_query, cch_event_query(w->end))
DOES(event_poll, cch_event_poll(w->end))
DOES(event_synchronize, cch_event_synchronize(w->end))
GIVES(event_elapsed, float, cch_event_elapsed(&out, w->start, w->end))
MAKES(pool_create, cch_pool, cch_pool_create(&out, &pool_config))
MAKES(pool_current, cch_pool, cch_pool_current(&out, 1))
GIVES(pool_attribute, uint64_t, cch_pool_attribute(&out, w->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD))
DOES(pool_set_attribute, cch_pool_set_attribute(w->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4096))
GIVES(pool_access, int, cch_pool_access(&out, w->pool, 1))
DOES(pool_set_access, cch_pool_set_access(w->pool, &(int){1}, &(int){3}, 1))
MAKES(pool_wrap, cch_pool, cch_pool_wrap(&out, w->foreign_pool, 0, NULL, NULL))
MAKES(deviceptr_alloc_async, cch_deviceptr, cch_deviceptr_alloc_async(&out, w->pool, 64, w->stream))
static int deviceptr_alloc_tracked(world *w, void **made) {
  (void)made;
  cch_tracker *tracker, *limited;
  int status = cch_tracker_create(
      &tracker,
      &(cch_tracker_config){.size = sizeof(cch_tracker_config), .flags = CCH_TRACKER_LIST, .log = "/dev/null"});
  if (status != 0)
    return status;
  status = cch_tracker_create(&limited, &(cch_tracker_config){.size = sizeof(cch_tracker_config), .limit = 64});
  if (status != 0) {
    cch_tracker_unref(tracker);
    return status;
  }
  cch_deviceptr *out;
  status = cch_deviceptr_alloc_tracked(&out, w->pool, 64, w->stream, (cch_tracker *[]){tracker, limited}, 2);
  cch_tracker_counts counts = {.size = sizeof counts};
  OK(cch_tracker_read(&counts, tracker));
  CHECK_EQ(counts.current_count, status == 0);
  OK(cch_tracker_read(&counts, limited));
  CHECK_EQ(counts.current_bytes, status == 0 ? 64 : 0);
  if (status != 0) {
    OK(cch_tracker_begin(limited, 64)); /* the limit is as it was */
    cch_tracker_cancel(limited, 64, NULL);
  } else {
    cch_deviceptr_unref(out);
  }
  cch_tracker_unref(tracker);
  cch_tracker_unref(limited);
  return status;
}
static int allocate_from(world *w, int (*allocate)(CUdeviceptr *out, cch_allocator *, world *w)) {
  cch_allocator *allocator;
  CUdeviceptr ptr = 0;
  int status = cch_allocator_create(&allocator, w->pool, NULL, 0);
  if (status != 0)
    return status;
  status = allocate(&ptr, allocator, w);
  CHECK((status == 0) == (ptr != 0));
  if (status == 0) {
    status = cch_allocator_record_stream(ptr, cch_stream_raw(w->second_stream));
    if (status == 0)
      status = cch_allocator_free_async(ptr, cch_stream_raw(w->second_stream));
    else
      OK(cch_allocator_free(ptr));
    cch_error_record failure = {.size = sizeof failure};
    cch_error_get(&failure);
    FAILS(CCH_EINVAL, cch_allocator_free(ptr)); /* it is free, whatever has failed */
    cch_error_put(&failure);
  }
  cch_allocator_unref(allocator);
  return status;
}
static int allocate_on_stream(CUdeviceptr *out, cch_allocator *allocator, world *w) {
  return cch_allocator_alloc(out, allocator, 64, cch_stream_raw(w->stream));
}
static int allocate_for_torch(CUdeviceptr *out, cch_allocator *allocator, world *w) {
  int status = cch_torch_set_allocator(0, allocator);
  if (status == 0) {
    status = allocate_on_stream(out, allocator, w);
    cch_error_record failure = {.size = sizeof failure};
    cch_error_get(&failure);
    OK(cch_torch_set_allocator(0, NULL));
    cch_error_put(&failure);
  }
  return status;
}
DOES(allocator_alloc, allocate_from(w, allocate_on_stream))
DOES(torch_set_allocator, allocate_from(w, allocate_for_torch))
MAKES(deviceptr_alloc, cch_deviceptr, cch_deviceptr_alloc(&out, w->context, 64))
MAKES(deviceptr_alloc_host, cch_deviceptr, cch_deviceptr_alloc_host(&out, w->context, 64, 0))
MAKES(deviceptr_alloc_managed, cch_deviceptr, cch_deviceptr_alloc_managed(&out, w->context, 64, CU_MEM_ATTACH_GLOBAL))
MAKES(deviceptr_register_host, cch_deviceptr,
      cch_deviceptr_register_host(&out, w->context, registered, sizeof registered, 0, NULL, NULL))
MAKES(deviceptr_wrap, cch_deviceptr, cch_deviceptr_wrap(&out, 0x1000, 64, w->context, NULL, NULL))
static int pool_export(world *w, void **made) {
  int descriptor = -77;
  int status = cch_pool_export(&descriptor, w->pool);
  (void)made;
  if (status == 0)
    close(descriptor);
  CHECK((status == 0) == (descriptor != -77));
  return status;
}
MAKES(pool_import, cch_pool, cch_pool_import(&out, w->descriptor, 1, 0))
static int deviceptr_export(world *w, void **made) {
  cch_ipc_handle handle;
  (void)made;
  return cch_deviceptr_export(&handle, w->ptr);
}
MAKES(deviceptr_import, cch_deviceptr, cch_deviceptr_import(&out, w->imported_pool, &w->handle, 64, w->stream))
static int event_export(world *w, void **made) {
  cch_ipc_handle handle;
  (void)made;
  return cch_event_export(&handle, w->shared_event);
}
MAKES(event_import, cch_event, cch_event_import(&out, w->context, &w->event_handle, 0))

/* Two imports that are used on two streams, and end. */
static int deviceptr_import_twice(world *w, void **made) {
  cch_deviceptr *first, *second;
  (void)made;
  int status = cch_deviceptr_import(&first, w->imported_pool, &w->handle, 64, w->stream);
  if (status != 0)
    return status;
  status = cch_deviceptr_import(&second, w->imported_pool, &w->handle, 64, w->second_stream);
  cch_deviceptr_unref(first);
  if (status == 0)
    cch_deviceptr_unref(second);
  return status;
}
MAKES(deviceptr_import_part, cch_deviceptr,
      cch_deviceptr_import_part(&out, w->imported_pool, &w->handle, 8, 16, w->stream))
MAKES(deviceptr_part, cch_deviceptr, cch_deviceptr_part(&out, w->ptr, 8, 16))

/* Memory and a part of it, which are used on two streams, and end. */
static int deviceptr_part_on_another_stream(world *w, void **made) {
  cch_deviceptr *whole, *part;
  (void)made;
  int status = cch_deviceptr_alloc_async(&whole, w->pool, 64, w->stream);
  if (status != 0)
    return status;
  status = cch_deviceptr_part(&part, whole, 8, 16);
  if (status == 0) {
    status = cch_deviceptr_set_stream(part, w->second_stream);
    cch_deviceptr_unref(part);
  }
  cch_deviceptr_unref(whole);
  return status;
}
MAKES(deviceptr_alloc_legacy, cch_deviceptr, cch_deviceptr_alloc_async(&out, w->pool, 64, cch_stream_legacy()))
DOES(deviceptr_set_stream, cch_deviceptr_set_stream(w->ptr, w->second_stream))
DOES(deviceptr_copy, cch_deviceptr_copy(w->ptr, w->pinned, 64, w->stream))
DOES(deviceptr_fill_1, cch_deviceptr_fill(w->ptr, 1, 1, w->stream))
DOES(deviceptr_fill_2, cch_deviceptr_fill(w->ptr, 1, 2, w->stream))
DOES(deviceptr_fill_4, cch_deviceptr_fill(w->ptr, 1, 4, w->stream))
DOES(pointer_check, cch_pointer_check(cch_deviceptr_raw(w->pinned)))
GIVES(pointer_attributes, int, cch_pointer_attributes(&out, &(int){0}, &(int){0}, cch_deviceptr_raw(w->pinned)))
MAKES(pool_of, cch_pool, cch_pool_of(&out, CCH_LOCATION_HOST, 0, CCH_ALLOCATION_PINNED))
DOES(pool_trim, cch_pool_trim(w->pool, 0))
DOES(copy_batch, cch_copy_batch(&w->pinned, &w->ptr, 1, NULL, w->stream))
DOES(copy_batch_in_order, cch_copy_batch(&w->pinned, &w->ptr, 1, read_now, cch_stream_legacy()))
DOES(copy_part,
     cch_copy_part(w->pinned, w->ptr, &(cch_copy_shape){.size = sizeof(cch_copy_shape), .width = 8}, w->stream))
DOES(managed_advise, cch_managed_advise(w->managed, CU_MEM_ADVISE_SET_READ_MOSTLY, CCH_LOCATION_DEVICE, 0))
GIVES(managed_attribute, int, cch_managed_attribute(&out, 1, w->managed, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY))
DOES(managed_prefetch, cch_managed_prefetch(&w->managed, on_device, 1, w->stream))
DOES(managed_prefetch_batch, cch_managed_prefetch((cch_deviceptr *[]){w->managed, w->managed}, on_device, 2, w->stream))
DOES(managed_discard, cch_managed_discard(&w->managed, 1, w->stream))
DOES(managed_discard_prefetch, cch_managed_discard_prefetch(&w->managed, on_device, 1, w->stream))
#define GIVES_TENSOR_MAP(name, kind)                                                                                   \
  static int name(world *w, void **made) {                                                                             \
    cch_tensor_map out, before;                                                                                        \
    (void)made;                                                                                                        \
    memset(&out, 0x55, sizeof out);                                                                                    \
    before = out;                                                                                                      \
    int status = tensor_map_of(&out, w, kind);                                                                         \
    CHECK((status != 0) == (memcmp(&out, &before, sizeof out) == 0));                                                  \
    return status;                                                                                                     \
  }
GIVES_TENSOR_MAP(tensor_map_encode, CCH_TENSOR_MAP_TILED)
GIVES_TENSOR_MAP(tensor_map_encode_im2col, CCH_TENSOR_MAP_IM2COL)
MAKES(array_create, cch_array, cch_array_create(&out, w->context, &world_line))
MAKES(mipmapped_array_create, cch_mipmapped_array, cch_mipmapped_array_create(&out, w->context, &world_plane))
/*
 * Operations that need an array or a level of one create it. An array in the world would change the addresses of the
 * next world.
 */
static int with_array(world *w, int (*call)(world *w, cch_array *array)) {
  cch_array *array;
  int status = cch_array_create(&array, w->context, &world_line);
  if (status != 0)
    return status;
  status = call(w, array);
  cch_array_unref(array);
  return status;
}
static int copy_from(world *w, cch_array *array) { return cch_array_copy_from(array, w->ptr, 0, w->stream); }
static int copy_to(world *w, cch_array *array) { return cch_array_copy_to(array, w->ptr, 0, w->stream); }
DOES(array_copy_from, with_array(w, copy_from))
DOES(array_copy_to, with_array(w, copy_to))
static int level_of(cch_array **out, world *w) {
  cch_mipmapped_array *levels;
  int status = cch_mipmapped_array_create(&levels, w->context, &world_plane);
  if (status != 0)
    return status;
  status = cch_mipmapped_array_level(out, levels, 1);
  cch_mipmapped_array_unref(levels);
  return status;
}
MAKES(mipmapped_array_level, cch_array, level_of(&out, w))
static int wrapped(cch_array **out, world *w) {
  cch_array *level;
  int status = level_of(&level, w);
  if (status != 0)
    return status;
  status = cch_array_wrap(out, cch_array_raw(level), w->context, NULL, NULL);
  cch_array_unref(level);
  return status;
}
MAKES(array_wrap, cch_array, wrapped(&out, w))
static int texture_of(cch_texture **out, world *w) {
  cch_texture_resource resource = {.size = sizeof resource};
  int status = cch_array_create(&resource.array, w->context, &world_line);
  if (status != 0)
    return status;
  status = cch_texture_create(out, w->context, &resource, &sampling);
  cch_array_unref(resource.array);
  return status;
}
MAKES(texture_create, cch_texture, texture_of(&out, w))
static int surface_of(cch_surface **out, world *w) {
  cch_array *array;
  int status = cch_array_create(&array, w->context, &world_line);
  if (status != 0)
    return status;
  status = cch_surface_create(out, w->context, array);
  cch_array_unref(array);
  return status;
}
MAKES(surface_create, cch_surface, surface_of(&out, w))
MAKES(graphics_register_gl_buffer, cch_graphics,
      cch_graphics_register_gl_buffer(&out, w->context, w->gl_buffer, CCH_GRAPHICS_READ_ONLY))
MAKES(graphics_register_gl_image, cch_graphics,
      cch_graphics_register_gl_image(&out, w->context, w->gl_buffer, 0x0DE1, 0))
MAKES(graphics_map, cch_deviceptr, cch_graphics_map(&out, w->graphics, w->stream))
static int graphics_unmap(world *w, void **made) {
  cch_deviceptr *memory;
  (void)made;
  int status = cch_graphics_map(&memory, w->graphics, w->stream);
  if (status != 0)
    return status;
  status = cch_graphics_unmap(w->graphics, w->second_stream);
  CHECK_EQ(cch_is_valid(memory), status != 0);
  cch_deviceptr_unref(memory);
  return status;
}
static int graphics_unregister(world *w, void **made) {
  cch_graphics *resource;
  cch_deviceptr *memory;
  (void)made;
  int status = cch_graphics_register_gl_buffer(&resource, w->context, w->gl_buffer, 0);
  if (status != 0)
    return status;
  status = cch_graphics_map(&memory, resource, w->stream);
  if (status == 0) {
    status = cch_graphics_unregister(resource, NULL);
    CHECK_EQ(cch_is_valid(resource), status != 0);
    cch_deviceptr_unref(memory);
  }
  cch_graphics_unref(resource);
  return status;
}
GIVES(virtual_granularity, size_t, cch_virtual_granularity(&out, &virtual_config))
MAKES(virtual_alloc, cch_deviceptr, cch_virtual_alloc(&out, &virtual_config, 1))
MAKES(virtual_grow, cch_deviceptr, cch_virtual_grow(&out, &(int){0}, w->grows, &virtual_config, 1 << 22))
static int virtual_export(world *w, void **made) {
  int descriptor = -1, status;
  size_t size = 0;
  (void)made;
  status = cch_virtual_export(&descriptor, &size, 1, w->moves);
  CHECK((status == 0) == (descriptor >= 0));
  if (status == 0)
    close(descriptor);
  return status;
}
MAKES(virtual_import, cch_deviceptr,
      cch_virtual_import(&out, &virtual_config, &w->memory_descriptor, &w->memory_size, 1))
MAKES(virtual_move, cch_deviceptr, cch_virtual_grow(&out, &(int){0}, w->moves, &virtual_config, 1 << 22))
DOES(stream_callback, cch_stream_callback(w->stream, do_nothing, NULL, w->bundle))
DOES(stream_callback_captured, cch_stream_callback(w->captured, do_nothing, NULL, w->bundle))
MAKES(library_load, cch_library, cch_library_load(&out, check_ptx, strlen(check_ptx)))
MAKES(library_wrap, cch_library, cch_library_wrap(&out, w->foreign_library, NULL, NULL))
MAKES(kernel_get, cch_kernel, cch_kernel_get(&out, w->library, "mixed"))
MAKES(kernel_wrap, cch_kernel, cch_kernel_wrap(&out, w->foreign_kernel, NULL, NULL, NULL))

static int kernel_params(world *w, void **made) {
  (void)made;
  const cch_param *params = (const cch_param *)&untouched;
  size_t count = 0x5a5a;
  int status = cch_kernel_params(&params, &count, w->kernel, w->context);
  CHECK(status == 0 || (params == (const cch_param *)&untouched && count == 0x5a5a));
  return status;
}

static int kernel_set_params(world *w, void **made) {
  (void)made;
  const cch_param param = {0, 8};
  return cch_kernel_set_params(w->kernel, &param, 1);
}

GIVES(kernel_attribute, int, cch_kernel_attribute(&out, w->kernel, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1))
DOES(kernel_set_attribute,
     cch_kernel_set_attribute(w->kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 50000, 1))
GIVES(occupancy_max_active_blocks, int, cch_occupancy_max_active_blocks(&out, w->kernel, 128, 0, w->context))
GIVES(occupancy_max_potential_block_size, int,
      cch_occupancy_max_potential_block_size(&out, &(int){0}, w->kernel, NULL, 0, 0, w->context))
GIVES(occupancy_available_shared_bytes, size_t,
      cch_occupancy_available_shared_bytes(&out, w->kernel, 1, 128, w->context))
GIVES(occupancy_max_potential_cluster_size, int,
      cch_occupancy_max_potential_cluster_size(&out, w->stream, &launch_config, w->kernel))
GIVES(occupancy_max_active_clusters, int, cch_occupancy_max_active_clusters(&out, w->stream, &launch_config, w->kernel))
DOES(launch, cch_launch(w->stream, &launch_config, w->kernel, launch_arguments, sizeof launch_arguments))
static int launch_keep(void *data) {
  (void)data;
  return 0;
}
DOES(launch_keeping, cch_launch_keeping(w->stream, &launch_config, w->kernel, launch_arguments, sizeof launch_arguments,
                                        launch_keep, NULL))
DOES(launch_by_pointers, cch_launch_params(w->stream, &launch_config, w->kernel, launch_params))

/* A call that adds a node. */
#define ADDS(name_, type, ...)                                                                                         \
  static int name_(world *w, void **made) {                                                                            \
    __VA_ARGS__;                                                                                                       \
    cch_graph_node *out = (cch_graph_node *)&untouched;                                                                \
    int status = try_add(&out, w, type, &params);                                                                      \
    CHECK(status == 0 || out == (cch_graph_node *)&untouched);                                                         \
    *made = status == 0 ? out : NULL;                                                                                  \
    return status;                                                                                                     \
  }                                                                                                                    \
  static void undo_##name_(void *made) { take_out(made); }

static void take_out(void *node) {
  OK(cch_graph_node_destroy(node));
  cch_graph_node_unref(node);
}

/* A call that lists. */
#define LISTS(name_, type, free, call)                                                                                 \
  static int name_(world *w, void **made) {                                                                            \
    (void)w, (void)made;                                                                                               \
    type out = {.count = 77};                                                                                          \
    int status = call;                                                                                                 \
    CHECK(status == 0 || out.count == 77);                                                                             \
    if (status == 0)                                                                                                   \
      free(&out);                                                                                                      \
    return status;                                                                                                     \
  }

MAKES(graph_create, cch_graph, cch_graph_create(&out))
MAKES(graph_clone, cch_graph, cch_graph_clone(&out, w->graph))
DOES(graph_keep, cch_graph_keep(w->graph, w->bundle))
GIVES(graph_condition, CUgraphConditionalHandle, cch_graph_condition(&out, w->graph, w->context, 1, 2))
DOES(graph_debug_dot_print, cch_graph_debug_dot_print(w->graph, "/dev/null", 0))
ADDS(graph_add_kernel, CCH_NODE_KERNEL, cch_kernel_node params = node_of_kernel(w))
ADDS(graph_add_memcpy, CCH_NODE_MEMCPY, cch_memcpy_node params = copy_params)
ADDS(graph_add_memset, CCH_NODE_MEMSET, cch_memset_node params = fill_params)
ADDS(graph_add_host, CCH_NODE_HOST, cch_host_node params = host_params)
ADDS(graph_add_graph, CCH_NODE_GRAPH, cch_child_node params = {.size = sizeof params, .graph = w->leaf})
ADDS(graph_add_empty, CCH_NODE_EMPTY, int params = 0)
ADDS(graph_add_event, CCH_NODE_EVENT_RECORD, cch_event_node params = {.size = sizeof params, .event = w->end})

static int graph_add_conditional(world *w, void **made) {
  cch_conditional_node params = {
      .size = sizeof params, .condition = w->condition, .type = CCH_CONDITIONAL_WHILE, .count = 1};
  cch_node_spec spec = {
      .size = sizeof spec, .type = CCH_NODE_CONDITIONAL, .params = &params, .bundle = w->bundle, .context = w->context};
  cch_graph_node *out = (cch_graph_node *)&untouched;
  int status = cch_graph_add(&out, w->branching, &spec);
  CHECK(status == 0 || out == (cch_graph_node *)&untouched);
  *made = status == 0 ? out : NULL;
  return status;
}
static void undo_graph_add_conditional(void *made) { take_out(made); }

/* A new graph to which nodes are added. Operations have a graph of their own if they cannot remove their nodes from it.
 */
static int with_graph(cch_graph **out, world *w, int (*fill)(world *w, cch_graph *graph)) {
  cch_graph *graph;
  int status = cch_graph_create(&graph);
  if (status != 0)
    return status;
  status = fill(w, graph);
  if (status == 0)
    *out = graph;
  else
    cch_graph_unref(graph);
  return status;
}

static int add_memory(world *w, cch_graph *graph) {
  (void)w;
  cch_graph_node *node = NULL;
  int32_t peer = 1;
  cch_alloc_node alloc = {.size = sizeof alloc, .bytes = 64, .peers = &peer, .peer_count = 1};
  cch_node_spec spec = {.size = sizeof spec, .type = CCH_NODE_ALLOC, .params = &alloc};
  int status = cch_graph_add(&node, graph, &spec);
  cch_free_node free_params = {.size = sizeof free_params, .address = alloc.address};
  cch_node_spec second = {.size = sizeof second,
                          .type = CCH_NODE_FREE,
                          .params = &free_params,
                          .dependencies = &node,
                          .dependency_count = 1};
  if (status == 0)
    status = cch_graph_add(NULL, graph, &second);
  cch_graph_node_unref(node);
  return status;
}
MAKES(graph_add_memory, cch_graph, with_graph(&out, w, add_memory))

static int graph_add_batch(world *w, void **made) {
  enum { COUNT = 3 };
  cch_kernel_node kernel = node_of_kernel(w);
  cch_node_spec specs[COUNT];
  for (int i = 0; i < COUNT; i++)
    specs[i] = (cch_node_spec){.size = sizeof *specs,
                               .type = CCH_NODE_KERNEL,
                               .params = &kernel,
                               .context = w->context,
                               .dependencies = &w->node,
                               .dependency_count = 1};
  cch_graph_node **out = calloc(COUNT + 1, sizeof *out);
  int status = cch_graph_add_batch(out, w->graph, specs, COUNT, NULL);
  CHECK(status == 0 || (out[0] == NULL && out[2] == NULL));
  if (status == 0)
    *made = out;
  else
    free(out);
  return status;
}
static int add_kernels_after(world *w, cch_graph *graph, cch_graph_node *after) {
  enum { COUNT = 3 };
  const cch_kernel_node kernel = node_of_kernel(w);
  const cch_launch_config *const configs[] = {kernel.config};
  static const uint32_t edges[] = {0, 1, 1, 2};
  cch_column columns[8];
  CUgraphNode raw[COUNT];
  uint64_t first = 0;
  const cch_param *params;
  size_t count;
  int status = cch_kernel_params(&params, &count, w->kernel, w->context);
  if (status != 0)
    return status;
  for (size_t i = 0; i < count; i++)
    columns[i] = (cch_column){launch_arguments + params[i].offset, 0};
  const cch_kernel_columns given = {.size = sizeof given,
                                    .kernel = w->kernel,
                                    .configs = configs,
                                    .config_count = 1,
                                    .columns = columns,
                                    .column_count = count,
                                    .edges = edges,
                                    .edge_count = 2,
                                    .after = &after,
                                    .after_count = 1,
                                    .context = w->context};
  status = cch_graph_add_kernels(raw, &first, graph, &given, COUNT, NULL);
  CHECK((status == 0) == (first != 0));
  cch_graph_node *node = NULL; /* one of the nodes gets a box */
  if (status == 0)
    status = cch_graph_node_numbered(&node, graph, raw[1], first + 1);
  cch_graph_node_unref(node);
  return status;
}
static int add_kernels(world *w, cch_graph *graph) {
  cch_graph_node *node = NULL;
  static const cch_node_spec empty = {.size = sizeof empty, .type = CCH_NODE_EMPTY};
  int status = cch_graph_add(&node, graph, &empty);
  if (status == 0)
    status = add_kernels_after(w, graph, node);
  cch_graph_node_unref(node);
  return status;
}
MAKES(graph_add_kernels, cch_graph, with_graph(&out, w, add_kernels))
/* A batch with memory nodes, which the library first adds to another graph. */
static int add_batch_memory(world *w, cch_graph *graph) {
  (void)w;
  cch_alloc_node alloc = {.size = sizeof alloc, .bytes = 64};
  cch_node_spec specs[] = {{.size = sizeof *specs, .type = CCH_NODE_ALLOC, .params = &alloc},
                           {.size = sizeof *specs, .type = CCH_NODE_EMPTY}};
  return cch_graph_add_batch(NULL, graph, specs, 2, NULL);
}
MAKES(graph_add_batch_memory, cch_graph, with_graph(&out, w, add_batch_memory))
static void undo_graph_add_batch(void *made) {
  for (cch_graph_node **node = made; *node != NULL; node++)
    take_out(*node);
  free(made);
}

static int graph_node_set_kernel(world *w, void **made) {
  (void)made;
  static const cch_launch_config other = {.size = sizeof other, .grid = {2, 1, 1}, .block = {1, 1, 1}};
  cch_kernel_node params = node_of_kernel(w);
  params.config = &other;
  return cch_graph_node_set(w->node, &params, w->bundle, w->context);
}
DOES(graph_node_set_memcpy, cch_graph_node_set(w->copy, &copy_params, w->bundle, w->context))
DOES(graph_node_set_memset, cch_graph_node_set(w->fill, &fill_params, NULL, w->context))
DOES(graph_node_set_host, cch_graph_node_set(w->host, &host_params, w->bundle, NULL))
DOES(graph_node_set_graph,
     cch_graph_node_set(w->child, &(cch_child_node){.size = sizeof(cch_child_node), .graph = w->leaf}, NULL, NULL))
DOES(graph_node_set_event,
     cch_graph_node_set(w->wait, &(cch_event_node){.size = sizeof(cch_event_node), .event = w->end}, NULL, NULL))

static int graph_node_get_kernel(world *w, void **made) {
  (void)made;
  cch_launch_config config = {.size = sizeof config};
  cch_kernel_node out = {.size = sizeof out, .config = &config};
  int status = cch_graph_node_get(&out, w->node);
  cch_kernel_unref(out.kernel);
  return status;
}
#define GETS(name_, type, node_, ...)                                                                                  \
  static int name_(world *w, void **made) {                                                                            \
    (void)w, (void)made;                                                                                               \
    type out = {.size = sizeof out};                                                                                   \
    int status = cch_graph_node_get(&out, w->node_);                                                                   \
    __VA_ARGS__;                                                                                                       \
    return status;                                                                                                     \
  }
GETS(graph_node_get_memcpy, cch_memcpy_node, copy, (void)0)
GETS(graph_node_get_memset, cch_memset_node, fill, (void)0)
GETS(graph_node_get_host, cch_host_node, host, (void)0)
GETS(graph_node_get_graph, cch_child_node, child, cch_graph_unref(out.graph))
GETS(graph_node_get_record, cch_event_node, record, cch_event_unref(out.event))
GETS(graph_node_get_wait, cch_event_node, wait, cch_event_unref(out.event))
GETS(graph_node_get_conditional, cch_conditional_node, branch, (void)0)
MAKES(graph_node_context, cch_context, cch_graph_node_context(&out, w->node))

static int graph_node_is_current(world *w, void **made) {
  (void)made;
  int out;
  return cch_graph_node_is_current(&out, w->node);
}
MAKES(graph_node_child, cch_graph, cch_graph_node_child(&out, w->child, 0))
MAKES(graph_node_body, cch_graph, cch_graph_node_child(&out, w->branch, 0))

/* In a context in which nothing was queried before. */
static int graph_of_a_clone(world *w, void **made) {
  (void)made;
  cch_graph *clone;
  cch_graph_node *node = NULL;
  cch_graph *body = NULL;
  int status = cch_graph_clone(&clone, w->graph);
  if (status != 0)
    return status;
  status = cch_graph_find_in_clone(&node, w->child, clone);
  if (status == 0)
    status = cch_graph_node_child(&body, node, 0);
  cch_graph_node_unref(node);
  cch_graph_unref(body);
  cch_graph_unref(clone);
  return status;
}
MAKES(graph_node_of, cch_graph_node, cch_graph_node_of(&out, w->graph, cch_graph_node_raw(w->host)))
LISTS(graph_nodes, cch_node_list, cch_node_list_free, cch_graph_nodes(&out, w->graph))
LISTS(graph_edges, cch_edge_list, cch_edge_list_free, cch_graph_edges(&out, w->graph))
LISTS(graph_node_dependencies, cch_node_list, cch_node_list_free, cch_graph_node_dependencies(&out, w->copy))
LISTS(graph_node_dependents, cch_node_list, cch_node_list_free, cch_graph_node_dependents(&out, w->node))

static int graph_connect(world *w, void **made) {
  (void)made;
  int status = cch_graph_connect(&w->copy, &w->fill, 1);
  return status != 0 ? status : cch_graph_disconnect(&w->copy, &w->fill, 1);
}
static int graph_condition_is_used(world *w, void **made) {
  (void)made;
  int used;
  return cch_graph_condition_is_used(&used, w->graph, 1);
}
static int graph_rewire(world *w, void **made) {
  (void)made;
  int status = cch_graph_rewire(&w->node, &w->copy, 1, &w->copy, &w->fill, 1);
  return status != 0 ? status : cch_graph_rewire(&w->copy, &w->fill, 1, &w->node, &w->copy, 1);
}
MAKES(graph_instantiate, cch_graph_exec,
      cch_graph_instantiate(&out, w->graph,
                            &(cch_instantiate_params){.size = sizeof(cch_instantiate_params), .upload = w->stream}))
DOES(graph_exec_update, cch_graph_exec_update(w->exec, w->graph, NULL))
GIVES(graph_exec_flags, uint64_t, cch_graph_exec_flags(&out, w->exec))
DOES(graph_upload, cch_graph_upload(w->exec, w->stream))
DOES(graph_launch, cch_graph_launch(w->exec, w->stream))
DOES(graph_launch_legacy, cch_graph_launch(w->exec, cch_stream_legacy()))

static int graph_exec_set(world *w, void **made) {
  (void)made;
  cch_kernel_node params = node_of_kernel(w);
  return cch_graph_exec_set(w->exec, w->node, &params, w->bundle, w->context);
}
DOES(graph_exec_enable, cch_graph_exec_enable(w->exec, w->node, 0))
GIVES(graph_exec_is_enabled, int, cch_graph_exec_is_enabled(&out, w->exec, w->node))
MAKES(capture_begin, cch_graph, cch_capture_begin(&out, w->stream, CCH_CAPTURE_RELAXED))

static int capture_begin_to(world *w, void **made) {
  int status = cch_capture_begin_to(w->leaf, w->stream, &w->leaf_node, 1, CCH_CAPTURE_RELAXED);
  *made = status == 0 ? w : NULL;
  return status;
}
static void undo_capture_begin_to(void *made) {
  world *w = made;
  OK(cch_capture_end(w->leaf, w->stream));
}

static int capture_end(world *w, void **made) {
  cch_graph *graph;
  int status = cch_capture_begin(&graph, w->stream, CCH_CAPTURE_RELAXED);
  if (status != 0)
    return status;
  status = cch_capture_end(graph, w->stream);
  if (status == 0)
    *made = graph;
  else
    cch_graph_unref(graph);
  return status;
}
static void undo_capture_end(void *made) { cch_graph_unref(made); }

static int capture_status(world *w, void **made) {
  cch_graph *out = (cch_graph *)&untouched;
  int state = 77, status = cch_capture_status_of(&state, &out, w->captured);
  CHECK(status == 0 || (state == 77 && out == (cch_graph *)&untouched));
  *made = status == 0 ? out : NULL;
  return status;
}
static void undo_capture_status(void *made) { cch_graph_unref(made); }

static int capture_graph(world *w, void **made) {
  cch_graph *out = (cch_graph *)&untouched;
  int status = cch_capture_graph(&out, w->stream);
  CHECK(status == 0 || out == (cch_graph *)&untouched);
  *made = status == 0 ? out : NULL;
  return status;
}
static void undo_capture_graph(void *made) { cch_graph_unref(made); }

static int capture_add(world *w, void **made) {
  (void)made;
  cch_host_node params = host_params;
  cch_node_spec spec = {.size = sizeof spec, .type = CCH_NODE_HOST, .params = &params, .bundle = w->bundle};
  return cch_capture_add(NULL, w->captured, &spec);
}
DOES(capture_keep, cch_capture_keep(w->capture, w->bundle, NULL))
GIVES(capture_is_active, int, cch_capture_is_active(&out, w->captured))
static int capture_keep_all(world *w, void **made) {
  (void)made;
  return cch_capture_keep_all(w->captured, (void *[]){w->bundle}, 1);
}
DOES(capture_join, cch_capture_join(w->capture, w->captured, w->captured))

#define MADE(name, flags) {#name, name, undo_##name, flags}
#define DONE(name, flags) {#name, name, NULL, flags}
const operation operations[] = {
    DONE(driver_version, 0),
    DONE(device_count, 0),
    DONE(device_attribute, 0),
    DONE(checkpoint_state, 0),
    DONE(device_can_access_peer, 0),
    MADE(context_primary, 0),
    MADE(context_primary_of_another_device, 0),
    MADE(context_wrap, 0),
    MADE(context_wrap_own, 0),
    MADE(context_create, 0),
    DONE(context_is_green, 0),
    MADE(stream_create_green, 0),
    DONE(resource_of_device, 0),
    DONE(resource_of_context, 0),
    DONE(resource_of_green_context, 0),
    DONE(resource_split_evenly, 0),
    DONE(resource_split, 0),
    MADE(context_current, OPERATION_NEEDS_CURRENT),
    DONE(context_set_current, OPERATION_SETS_CURRENT),
    DONE(context_restore, OPERATION_SETS_CURRENT),
    DONE(context_synchronize, 0),
    DONE(context_priorities, 0),
    DONE(context_memory_info, 0),
    DONE(current_device, OPERATION_NEEDS_CURRENT),
    MADE(stream_create, 0),
    MADE(stream_wrap, 0),
    MADE(stream_wrap_own, 0),
    DONE(stream_flags, 0),
    DONE(stream_priority, 0),
    DONE(stream_is_capturing, 0),
    DONE(stream_query, 0),
    DONE(stream_synchronize, 0),
    DONE(stream_wait_event, 0),
    DONE(stream_wait_stream, 0),
    MADE(event_create, 0),
    MADE(event_wrap, 0),
    MADE(event_wrap_in, 0),
    DONE(event_record, 0),
    DONE(event_record_legacy, 0),
    DONE(event_query, 0),
    DONE(event_poll, 0),
    DONE(event_synchronize, 0),
    DONE(event_elapsed, 0),
    MADE(pool_create, 0),
    MADE(pool_current, 0),
    MADE(pool_wrap, 0),
    DONE(pool_attribute, 0),
    DONE(pool_set_attribute, 0),
    DONE(pool_access, 0),
    DONE(pool_set_access, 0),
    MADE(deviceptr_alloc_async, 0),
    DONE(deviceptr_alloc_tracked, 0),
    MADE(deviceptr_alloc, 0),
    MADE(deviceptr_alloc_host, 0),
    MADE(deviceptr_alloc_managed, 0),
    MADE(deviceptr_register_host, 0),
    MADE(deviceptr_wrap, 0),
    MADE(deviceptr_alloc_legacy, OPERATION_NEEDS_CURRENT),
    DONE(deviceptr_set_stream, 0),
    DONE(pool_export, 0),
    MADE(pool_import, 0),
    DONE(deviceptr_export, 0),
    MADE(deviceptr_import, 0),
    DONE(deviceptr_import_twice, 0),
    MADE(deviceptr_import_part, 0),
    MADE(deviceptr_part, 0),
    DONE(deviceptr_part_on_another_stream, 0),
    DONE(event_export, 0),
    MADE(event_import, 0),
    DONE(deviceptr_copy, 0),
    DONE(deviceptr_fill_1, 0),
    DONE(deviceptr_fill_2, 0),
    DONE(deviceptr_fill_4, 0),
    DONE(pointer_check, OPERATION_NEEDS_CURRENT),
    DONE(pointer_attributes, 0),
    MADE(pool_of, 0),
    DONE(pool_trim, 0),
    DONE(copy_batch, 0),
    DONE(copy_batch_in_order, OPERATION_NEEDS_CURRENT),
    DONE(copy_part, 0),
    DONE(managed_advise, 0),
    DONE(managed_attribute, 0),
    DONE(managed_prefetch, 0),
    DONE(managed_prefetch_batch, 0),
    DONE(managed_discard, 0),
    DONE(managed_discard_prefetch, 0),
    DONE(tensor_map_encode, 0),
    DONE(tensor_map_encode_im2col, 0),
    MADE(graphics_register_gl_buffer, 0),
    MADE(graphics_register_gl_image, 0),
    MADE(graphics_map, 0),
    DONE(graphics_unmap, 0),
    DONE(graphics_unregister, 0),
    DONE(virtual_granularity, 0),
    MADE(virtual_alloc, 0),
    MADE(virtual_grow, OPERATION_ONCE),
    MADE(virtual_move, 0),
    DONE(virtual_export, 0),
    MADE(virtual_import, 0),
    DONE(stream_callback, 0),
    DONE(stream_callback_captured, 0),
    MADE(library_load, 0),
    MADE(library_wrap, 0),
    MADE(kernel_get, 0),
    MADE(kernel_wrap, 0),
    DONE(kernel_params, 0),
    DONE(kernel_set_params, 0),
    DONE(kernel_attribute, 0),
    DONE(kernel_set_attribute, 0),
    DONE(occupancy_max_active_blocks, 0),
    DONE(occupancy_max_potential_block_size, 0),
    DONE(occupancy_available_shared_bytes, 0),
    DONE(occupancy_max_potential_cluster_size, 0),
    DONE(occupancy_max_active_clusters, 0),
    DONE(launch, 0),
    DONE(launch_keeping, 0),
    DONE(launch_by_pointers, 0),
    MADE(graph_create, 0),
    MADE(graph_clone, 0),
    DONE(graph_keep, 0),
    DONE(graph_condition, 0),
    DONE(graph_debug_dot_print, 0),
    MADE(graph_add_kernel, 0),
    MADE(graph_add_memcpy, 0),
    MADE(graph_add_memset, 0),
    MADE(graph_add_host, 0),
    MADE(graph_add_graph, 0),
    MADE(graph_add_empty, 0),
    MADE(graph_add_event, 0),
    MADE(graph_add_conditional, 0),
    MADE(graph_add_memory, 0),
    MADE(graph_add_batch, 0),
    MADE(graph_add_kernels, 0),
    MADE(graph_add_batch_memory, 0),
    DONE(graph_node_set_kernel, 0),
    DONE(graph_node_set_memcpy, 0),
    DONE(graph_node_set_memset, 0),
    DONE(graph_node_set_host, 0),
    DONE(graph_node_set_graph, 0),
    DONE(graph_node_set_event, 0),
    DONE(graph_node_get_kernel, 0),
    DONE(graph_node_get_memcpy, 0),
    DONE(graph_node_get_memset, 0),
    DONE(graph_node_get_host, 0),
    DONE(graph_node_get_graph, 0),
    DONE(graph_node_get_record, 0),
    DONE(graph_node_get_wait, 0),
    DONE(graph_node_get_conditional, 0),
    MADE(graph_node_context, 0),
    DONE(graph_node_is_current, 0),
    MADE(graph_node_child, 0),
    MADE(graph_node_body, 0),
    DONE(graph_of_a_clone, 0),
    MADE(graph_node_of, 0),
    DONE(graph_nodes, 0),
    DONE(graph_edges, 0),
    DONE(graph_node_dependencies, 0),
    DONE(graph_node_dependents, 0),
    DONE(graph_connect, 0),
    DONE(graph_rewire, 0),
    DONE(graph_condition_is_used, 0),
    MADE(graph_instantiate, 0),
    DONE(graph_exec_update, 0),
    DONE(graph_exec_flags, 0),
    DONE(graph_upload, 0),
    DONE(graph_launch, 0),
    DONE(graph_launch_legacy, OPERATION_NEEDS_CURRENT),
    DONE(graph_exec_set, 0),
    DONE(graph_exec_enable, 0),
    DONE(graph_exec_is_enabled, 0),
    MADE(capture_begin, 0),
    MADE(capture_begin_to, 0),
    MADE(capture_end, 0),
    MADE(capture_status, 0),
    MADE(capture_graph, 0),
    DONE(capture_add, 0),
    DONE(capture_keep, 0),
    DONE(capture_is_active, 0),
    DONE(capture_keep_all, 0),
    DONE(capture_join, 0),
    MADE(array_create, 0),
    MADE(array_wrap, 0),
    DONE(array_copy_from, 0),
    DONE(array_copy_to, 0),
    MADE(mipmapped_array_create, 0),
    MADE(mipmapped_array_level, 0),
    MADE(texture_create, 0),
    MADE(surface_create, 0),
    DONE(allocator_alloc, 0),
    DONE(torch_set_allocator, 0),
};
const size_t operation_count = sizeof operations / sizeof *operations;
