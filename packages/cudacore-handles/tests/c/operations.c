/* SPDX-License-Identifier: Apache-2.0 */
#include "operations.h"

void world_open(world *w) {
  cch_pool_config config = {.size = sizeof config, .location_type = 1};
  memset(w, 0, sizeof *w);
  OK(cch_context_primary(&w->context, 0));
  OK(cch_stream_create(&w->stream, w->context, 0, 0));
  OK(cch_stream_create(&w->second_stream, w->context, 0, 0));
  OK(cch_event_create(&w->start, w->context, 0));
  OK(cch_event_create(&w->end, w->context, 0));
  OK(cch_event_record(w->start, w->stream));
  OK(cch_event_record(w->end, w->stream));
  OK(cch_pool_create(&w->pool, &config));
  OK(cch_deviceptr_alloc_async(&w->ptr, w->pool, 64, w->stream));
  OK(cch_deviceptr_alloc_host(&w->pinned, w->context, 64, 0));
  OK(cch_library_load(&w->library, check_ptx, strlen(check_ptx)));
  OK(cch_kernel_get(&w->kernel, w->library, "add"));

  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK_EQ(driver.cuDevicePrimaryCtxRetain(&w->foreign_context, 1), 0);
  CHECK_EQ(driver.cuCtxSetCurrent(w->foreign_context), 0);
  CHECK_EQ(driver.cuStreamCreateWithPriority(&w->foreign_stream, 0, 0), 0);
  CHECK_EQ(driver.cuEventCreate(&w->foreign_event, 0), 0);
  CHECK_EQ(driver.cuMemPoolCreate(&w->foreign_pool, &props), 0);
  CHECK_EQ(driver.cuLibraryLoadData(&w->foreign_library, check_ptx, NULL, NULL, 0, NULL, NULL, 0), 0);
  CHECK_EQ(driver.cuLibraryGetKernel(&w->foreign_kernel, w->foreign_library, "add"), 0);
  CHECK_EQ(driver.cuCtxSetCurrent(NULL), 0);
}

void world_close(world *w) {
  CHECK_EQ(driver.cuLibraryUnload(w->foreign_library), 0);
  CHECK_EQ(driver.cuMemPoolDestroy(w->foreign_pool), 0);
  CHECK_EQ(driver.cuEventDestroy(w->foreign_event), 0);
  CHECK_EQ(driver.cuStreamDestroy(w->foreign_stream), 0);
  CHECK_EQ(driver.cuDevicePrimaryCtxRelease(1), 0);
  cch_kernel_unref(w->kernel);
  cch_library_unref(w->library);
  cch_deviceptr_unref(w->pinned);
  cch_deviceptr_unref(w->ptr);
  cch_pool_unref(w->pool);
  cch_event_unref(w->end);
  cch_event_unref(w->start);
  cch_stream_unref(w->second_stream);
  cch_stream_unref(w->stream);
  cch_context_unref(w->context);
}

/* What an out-parameter holds before a call, and must still hold when the call fails. */
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

static const cch_pool_config pool_config = {.size = sizeof pool_config, .location_type = 1};
static const cch_launch_config launch_config = {.size = sizeof launch_config, .grid = {1, 1, 1}, .block = {1, 1, 1}};
static char launch_arguments[28];
static void *launch_params[] = {launch_arguments, launch_arguments, launch_arguments, launch_arguments};

GIVES(driver_version, int, cch_driver_version(&out))
GIVES(device_count, int, cch_device_count(&out))
GIVES(device_can_access_peer, int, cch_device_can_access_peer(&out, 1, 0))
GIVES(device_attribute, int, cch_device_attribute(&out, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0))
MAKES(context_primary, cch_context, cch_context_primary(&out, 0))
MAKES(context_primary_of_another_device, cch_context, cch_context_primary(&out, 1))
MAKES(context_wrap, cch_context, cch_context_wrap(&out, w->foreign_context, NULL, NULL))
MAKES(context_wrap_own, cch_context, cch_context_wrap(&out, cch_context_raw(w->context), NULL, NULL))
MAKES(context_current, cch_context, cch_context_current(&out))
DOES(context_set_current, cch_context_set_current(w->context))
DOES(context_synchronize, cch_context_synchronize(w->context))
GIVES(context_priorities, int, cch_context_priorities(&out, &(int){0}, w->context))
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
MAKES(deviceptr_alloc, cch_deviceptr, cch_deviceptr_alloc(&out, w->context, 64))
MAKES(deviceptr_alloc_host, cch_deviceptr, cch_deviceptr_alloc_host(&out, w->context, 64, 0))
MAKES(deviceptr_wrap, cch_deviceptr, cch_deviceptr_wrap(&out, 0x1000, 64, w->context, NULL, NULL))
MAKES(deviceptr_alloc_legacy, cch_deviceptr, cch_deviceptr_alloc_async(&out, w->pool, 64, cch_stream_legacy()))
DOES(deviceptr_set_stream, cch_deviceptr_set_stream(w->ptr, w->second_stream))
DOES(deviceptr_copy, cch_deviceptr_copy(w->ptr, w->pinned, 64, w->stream))
DOES(deviceptr_fill_1, cch_deviceptr_fill(w->ptr, 1, 1, w->stream))
DOES(deviceptr_fill_2, cch_deviceptr_fill(w->ptr, 1, 2, w->stream))
DOES(deviceptr_fill_4, cch_deviceptr_fill(w->ptr, 1, 4, w->stream))
DOES(pointer_check, cch_pointer_check(cch_deviceptr_raw(w->pinned)))
GIVES(pointer_attributes, int, cch_pointer_attributes(&out, &(int){0}, &(int){0}, cch_deviceptr_raw(w->pinned)))
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
DOES(launch_by_pointers, cch_launch_params(w->stream, &launch_config, w->kernel, launch_params))

#define MADE(name, flags) {#name, name, undo_##name, flags}
#define DONE(name, flags) {#name, name, NULL, flags}
const operation operations[] = {
    DONE(driver_version, 0),
    DONE(device_count, 0),
    DONE(device_attribute, 0),
    DONE(device_can_access_peer, 0),
    MADE(context_primary, 0),
    MADE(context_primary_of_another_device, 0),
    MADE(context_wrap, 0),
    MADE(context_wrap_own, 0),
    MADE(context_current, OPERATION_NEEDS_CURRENT),
    DONE(context_set_current, OPERATION_SETS_CURRENT),
    DONE(context_synchronize, 0),
    DONE(context_priorities, 0),
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
    MADE(deviceptr_alloc, 0),
    MADE(deviceptr_alloc_host, 0),
    MADE(deviceptr_wrap, 0),
    MADE(deviceptr_alloc_legacy, OPERATION_NEEDS_CURRENT),
    DONE(deviceptr_set_stream, 0),
    DONE(deviceptr_copy, 0),
    DONE(deviceptr_fill_1, 0),
    DONE(deviceptr_fill_2, 0),
    DONE(deviceptr_fill_4, 0),
    DONE(pointer_check, OPERATION_NEEDS_CURRENT),
    DONE(pointer_attributes, 0),
    MADE(library_load, 0),
    MADE(library_wrap, 0),
    MADE(kernel_get, 0),
    MADE(kernel_wrap, 0),
    DONE(kernel_params, 0),
    DONE(kernel_attribute, 0),
    DONE(kernel_set_attribute, 0),
    DONE(occupancy_max_active_blocks, 0),
    DONE(occupancy_max_potential_block_size, 0),
    DONE(occupancy_available_shared_bytes, 0),
    DONE(occupancy_max_potential_cluster_size, 0),
    DONE(occupancy_max_active_clusters, 0),
    DONE(launch, 0),
    DONE(launch_by_pointers, 0),
};
const size_t operation_count = sizeof operations / sizeof *operations;
