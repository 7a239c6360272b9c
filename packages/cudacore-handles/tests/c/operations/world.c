/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of the operations, and the list of all operations. */
#include "operations/world.h"

#include "exporter.h"

#include <unistd.h>

char launch_arguments[28];

void do_nothing(void *data) { (void)data; }

cch_kernel_node node_of_kernel(const world *w) {
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

cch_memcpy_node copy_params = {.size = sizeof copy_params, .width = 8};
cch_memset_node fill_params = {.size = sizeof fill_params, .value = 1, .element_size = 4, .width = 4};
const cch_host_node host_params = {.size = sizeof host_params, .function = do_nothing};

int try_add(cch_graph_node **out, world *w, int type, const void *params) {
  cch_node_spec spec = {
      .size = sizeof spec, .type = type, .params = params, .bundle = w->bundle, .context = w->context};
  return cch_graph_add(out, w->graph, &spec);
}

static const cch_access one_device = {CCH_LOCATION_DEVICE, 0, 3};
const cch_virtual_config virtual_config = {.location_type = CCH_LOCATION_DEVICE,
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
  fill_params.dst = copy_params.dst + 8; /* other bytes than those of the copy, which can run at the same time */
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
  OK(cch_graph_rewire(w->node, true, NULL, 0, &w->copy, 1, CCH_EDGE_DEFAULT));
  OK(cch_graph_instantiate(&w->exec, w->graph,
                           &(cch_instantiate_params){.size = sizeof(cch_instantiate_params), .context = w->context}));
  OK(cch_graph_exec_set(w->exec, w->node, &kernel, w->bundle, w->context)); /* the launch uses these parameters */
  OK(cch_graph_launch(w->exec, w->stream));
  OK(cch_stream_synchronize(w->stream));
  /* The captured stream is in another context, so that its capture does not conflict with other calls. */
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

int tensor_map_of(cch_tensor_map *out, const world *w, int kind) {
  const cch_tensor_map_config config = {.kind = kind,
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

const cch_array_desc world_line = {.width = 16, .format = CCH_FORMAT_FLOAT, .channels = 1, .flags = CCH_ARRAY_SURFACE};
const cch_array_desc world_plane = {
    .width = 4, .height = 4, .format = CCH_FORMAT_FLOAT, .channels = 1, .flags = CCH_ARRAY_SURFACE, .levels = 3};

/*
 * Allocates virtual memory at addresses that nothing has used before: those behind `grows` are free, and those behind
 * `moves` are not. If the driver chose the addresses, that would depend on all memory that was freed before.
 */
static void open_virtual(world *w) {
  static const CUdeviceptr far_away = (CUdeviceptr)1 << 36; /* farther than the addresses that the driver chooses */
  static CUdeviceptr unused;
  cch_virtual_config config = virtual_config;
  size_t unit;
  OK(cch_virtual_granularity(&unit, &config));
  if (unused == 0)
    unused = cch_deviceptr_raw(w->ptr) / unit * unit + far_away;
  config.address_hint = unused;
  OK(cch_virtual_alloc(&w->moves, &config, 1));
  CHECK_PTR(cch_deviceptr_raw(w->moves), config.address_hint);
  config.address_hint += unit;
  OK(cch_virtual_alloc(&w->grows, &config, 1));
  CHECK_PTR(cch_deviceptr_raw(w->grows), config.address_hint);
  unused += 8 * unit;
}

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
  open_virtual(w);
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
  OK(cch_deviceptr_import_part(&w->import, w->imported_pool, &shared, 0, 64, w->stream));
  OK(cch_event_create(&w->shared_event, w->context, CCH_EVENT_INTERPROCESS | CCH_EVENT_DISABLE_TIMING));
  w->event_handle = exported_event();

  w->gl_buffer = sim.gl_buffer(64, NULL);
  OK(cch_graphics_register(&w->graphics, w->context, w->gl_buffer, 0, 0));

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
  close_graph(w); /* while the foreign context still exists, because captured work can be in that context */
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
  cch_reclaim_drain(); /* destroys boxes that the driver's user objects kept */
}

void world_open_away(world *w) {
  world_open(w);
  CHECK_EQ(driver.cuCtxSetCurrent(w->foreign_context), 0);
}

void world_close_away(world *w) {
  CHECK_EQ(driver.cuCtxSetCurrent(NULL), 0);
  world_close(w);
  CHECK_CLEAN();
}

live count_live(void) {
  live now = {0};
  for (int kind = 0; kind < CCH_KIND_COUNT; kind++)
    now.boxes += cch_live_count(kind);
  for (int kind = 0; kind < CUDASIM_KIND_COUNT; kind++)
    now.objects += sim.live(kind);
  return now;
}

void check_unchanged(const world *w, live before, const char *name, const char *failure) {
  CUcontext current;
  cch_reclaim_drain(); /* destroys boxes that the driver's user objects kept */
  live now = count_live();
  CHECK_EQ(driver.cuCtxGetCurrent(&current), 0);
  if (now.boxes != before.boxes || now.objects != before.objects || current != w->foreign_context)
    check_fail(__FILE__, __LINE__,
               "%s: after the failure of %s, %zu boxes are alive, not %zu, and %zu objects, not %zu; the current "
               "context is %p",
               name, failure, now.boxes, before.boxes, now.objects, before.objects, (void *)current);
}

const operation *first_operation;

void operation_add(operation *added) {
  static operation *last;
  if (last != NULL)
    last->next = added;
  else
    first_operation = added;
  last = added;
}
