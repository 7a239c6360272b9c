/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of devices, kernels, pools and addresses. */
#include "check.h"

static cch_context *first, *second;
static cch_library *library;
static cch_kernel *kernel;

static void open(void) {
  OK(cch_context_primary(&first, 0));
  OK(cch_context_primary(&second, 1));
  OK(cch_library_load(&library, check_ptx, strlen(check_ptx)));
  OK(cch_kernel_get(&kernel, library, "add"));
}

static void close(void) {
  cch_kernel_unref(kernel);
  cch_library_unref(library);
  cch_context_unref(second);
  cch_context_unref(first);
}

/*
 * The properties of another device than the given one would be returned, or text would be written beyond the caller's
 * memory.
 */
static void devices_are_described(void) {
  char text[32], other[32];
  unsigned char uuid[17], other_uuid[16];
  int can;
  OK(cch_device_name(text, sizeof text, 1));
  CHECK_STR(text, "NVIDIA H200");
  memset(text, '#', sizeof text);
  OK(cch_device_name(text, 4, 1));
  CHECK(memcmp(text, "NVI\0#", 5) == 0);
  OK(cch_device_pci_bus_id(text, sizeof text, 1));
  OK(cch_device_pci_bus_id(other, sizeof other, 0));
  CHECK(strlen(text) == strlen("0000:02:00.0") && strcmp(text, other) != 0);
  uuid[16] = '#';
  OK(cch_device_uuid(uuid, 1));
  CHECK_EQ(uuid[16], '#');
  OK(cch_device_uuid(other_uuid, 0));
  CHECK(memcmp(uuid, other_uuid, sizeof other_uuid) != 0);
  OK(cch_device_can_access_peer(&can, 1, 0));
  CHECK_EQ(can, 1);
  OK(cch_device_can_access_peer(&can, 1, 1));
  CHECK_EQ(can, 0);
}

/* Properties would be returned for a device that does not exist. */
static void missing_devices_are_refused(void) {
  char text[32];
  unsigned char uuid[16];
  int out = 7;
  FAILS(CUDA_ERROR_INVALID_DEVICE, cch_device_name(text, sizeof text, 9));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cch_device_uuid(uuid, 9));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cch_device_pci_bus_id(text, sizeof text, 9));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cch_device_can_access_peer(&out, 0, 9));
  CHECK_EQ(out, 7);
}

/*
 * A kernel's attribute that is set for one device would change on another device, or setting it would need a current
 * context.
 */
static void kernel_attributes_are_of_a_device(void) {
  const int limit = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  int out;
  OK(cch_kernel_set_attribute(kernel, limit, 100000, 1));
  OK(cch_kernel_attribute(&out, kernel, limit, 1));
  CHECK_EQ(out, 100000);
  OK(cch_kernel_attribute(&out, kernel, limit, 0));
  CHECK_EQ(out, 49152);
  FAILS(CUDA_ERROR_INVALID_VALUE, cch_kernel_set_attribute(kernel, limit, 1000000, 1));
  FAILS(CUDA_ERROR_INVALID_DEVICE, cch_kernel_attribute(&out, kernel, limit, 9));
  CHECK_EQ(out, 49152);
}

/*
 * The device of the current context would be queried instead of the given context's device, or the given context would
 * stay current.
 */
static void occupancy_is_of_a_context(void) {
  int out;
  OK(cch_kernel_set_attribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000, 1));
  FAILS(CUDA_ERROR_INVALID_CONTEXT, cch_occupancy_max_active_blocks(&out, kernel, 256, 0, NULL));
  sim.reset();
  OK(cch_context_set_current(first));
  OK(cch_occupancy_max_active_blocks(&out, kernel, 256, 0, NULL));
  CHECK_EQ(out, 8);
  OK(cch_occupancy_max_active_blocks(&out, kernel, 256, 100000, NULL));
  CHECK_EQ(out, 0);
  OK(cch_occupancy_max_active_blocks(&out, kernel, 256, 100000, second));
  CHECK_EQ(out, 2);
  size_t bytes;
  OK(cch_occupancy_available_shared_bytes(&bytes, kernel, 1, 256, second));
  CHECK_EQ(bytes, 100000);
  int device;
  OK(cch_current_device(&device));
  CHECK_EQ(device, 0);
  OK(cch_context_set_current(NULL));
}

static size_t hundred_a_thread(int block_size) { return 100 * (size_t)block_size; }

/* The shared memory that a block needs would be ignored, or grid size and block size would be exchanged. */
static void block_size_fills_the_device(void) {
  int grid, block;
  OK(cch_occupancy_max_potential_block_size(&grid, &block, kernel, NULL, 0, 0, first));
  CHECK_EQ(block, 1024);
  CHECK_EQ(grid, 264);
  OK(cch_occupancy_max_potential_block_size(&grid, &block, kernel, NULL, 0, 128, first));
  CHECK_EQ(block, 128);
  OK(cch_occupancy_max_potential_block_size(&grid, &block, kernel, hundred_a_thread, 0, 0, first));
  CHECK(block * 100 <= 49152 && block > 0);
  OK(cch_occupancy_max_potential_block_size(&grid, &block, kernel, NULL, 60000, 0, first));
  CHECK_EQ(grid, 0);
  CHECK_EQ(block, 0);
}

/* The cluster size of the launch would be ignored, or clusters be counted for another device than the stream's. */
static void clusters_are_of_a_launch(void) {
  cch_launch_config config = {.size = sizeof config, .grid = {8, 1, 1}, .block = {64, 1, 1}, .cluster = {2, 2, 1}};
  cch_stream *stream;
  int out;
  OK(cch_stream_create(&stream, second, 0, 0));
  OK(cch_occupancy_max_active_clusters(&out, stream, &config, kernel));
  CHECK_EQ(out, 1056); /* 8 clusters of 4 blocks in each of 132 multiprocessors */
  OK(cch_occupancy_max_potential_cluster_size(&out, stream, &config, kernel));
  CHECK_EQ(out, 8);
  config.shared_bytes = 100000;
  OK(cch_occupancy_max_active_clusters(&out, stream, &config, kernel));
  CHECK_EQ(out, 0);
  OK(cch_kernel_set_attribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000, 1));
  OK(cch_occupancy_max_active_clusters(&out, stream, &config, kernel));
  CHECK(out > 0 && out < 1056);
  config.size = offsetof(cch_launch_config, priority) - 1; /* smaller than the structure of version 0.1 */
  FAILS(CCH_EINVAL, cch_occupancy_max_active_clusters(&out, stream, &config, kernel));
  cch_stream_unref(stream);
}

/* A 64-bit attribute would lose half of its bits, or a 32-bit attribute would include the bytes after it. */
static void pool_attributes_have_their_width(void) {
  cch_pool_config config = {.size = sizeof config, .location_type = 1};
  cch_pool *pool;
  uint64_t value = 7;
  OK(cch_pool_create(&pool, &config));
  OK(cch_pool_set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX));
  OK(cch_pool_attribute(&value, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
  CHECK(value == UINT64_MAX);
  OK(cch_pool_set_attribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 1));
  OK(cch_pool_attribute(&value, pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC));
  CHECK_EQ(value, 1);
  FAILS(CUDA_ERROR_INVALID_VALUE, cch_pool_attribute(&value, pool, 99));
  CHECK_EQ(value, 1);
  cch_pool_unref(pool);
}

/* Access would be changed for a wrong device, or only a part of a change for several devices would be made. */
static void pool_access_is_of_a_device(void) {
  cch_pool_config config = {.size = sizeof config, .location_type = 1};
  cch_pool *pool;
  int access;
  OK(cch_pool_create(&pool, &config));
  OK(cch_pool_access(&access, pool, 0));
  CHECK_EQ(access, 3);
  OK(cch_pool_access(&access, pool, 1));
  CHECK_EQ(access, 0);
  OK(cch_pool_set_access(pool, (int[]){1}, (int[]){3}, 1));
  OK(cch_pool_access(&access, pool, 1));
  CHECK_EQ(access, 3);
  FAILS(CUDA_ERROR_INVALID_DEVICE, cch_pool_set_access(pool, (int[]){1, 9}, (int[]){0, 3}, 2));
  OK(cch_pool_access(&access, pool, 1));
  CHECK_EQ(access, 3);
  OK(cch_pool_set_access(pool, NULL, NULL, 0));
  cch_pool_unref(pool);
}

/* Querying a pool would invalidate the captures of the thread, or leave the thread's capture mode changed. */
static void pools_are_asked_in_relaxed_mode(void) {
  static const char *const expected[] = {"cuThreadExchangeStreamCaptureMode", "cuMemPoolGetAttribute",
                                         "cuThreadExchangeStreamCaptureMode"};
  cudasim_call log[4];
  void *symbol;
  PFN_cuThreadExchangeStreamCaptureMode_v10010 exchange;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  cch_pool *pool;
  uint64_t value;
  OK(cch_driver_symbol(&symbol, expected[0], 10010));
  memcpy(&exchange, &symbol, sizeof exchange);
  OK(cch_pool_current(&pool, 0));
  CHECK_EQ(exchange(&mode), 0);
  sim.reset();
  OK(cch_pool_attribute(&value, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  CHECK_EQ(sim.log(0, log, 4), 3);
  for (int i = 0; i < 3; i++)
    CHECK_STR(log[i].function, expected[i]);
  sim.fail(expected[1], 1, CUDA_ERROR_UNKNOWN);
  FAILS(CUDA_ERROR_UNKNOWN, cch_pool_attribute(&value, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  CHECK_EQ(exchange(&mode), 0);
  CHECK_EQ(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  cch_pool_unref(pool);
}

/* Ordinary memory would be reported as an error, or device memory would be reported as host memory. */
static void addresses_are_told_apart(void) {
  int type, device, managed, local = 0;
  cch_deviceptr *memory, *pinned;
  OK(cch_deviceptr_alloc(&memory, second, 64));
  OK(cch_deviceptr_alloc_host(&pinned, first, 64, 0));
  OK(cch_pointer_attributes(&type, &device, &managed, cch_deviceptr_raw(memory)));
  CHECK_EQ(type, CU_MEMORYTYPE_DEVICE);
  CHECK_EQ(device, 1);
  CHECK_EQ(managed, 0);
  OK(cch_pointer_attributes(&type, &device, &managed, cch_deviceptr_raw(pinned)));
  CHECK_EQ(type, CU_MEMORYTYPE_HOST);
  OK(cch_pointer_attributes(&type, &device, &managed, (CUdeviceptr)(uintptr_t)&local));
  CHECK_EQ(type, 0);
  CHECK(device < 0);
  cch_deviceptr_unref(pinned);
  cch_deviceptr_unref(memory);
}

int main(void) {
  check_open();
  RUN(devices_are_described);
  RUN(missing_devices_are_refused);
  RUN(pool_attributes_have_their_width);
  RUN(pool_access_is_of_a_device);
  RUN(pools_are_asked_in_relaxed_mode);
  check_around(open, close);
  RUN(kernel_attributes_are_of_a_device);
  RUN(occupancy_is_of_a_context);
  RUN(block_size_fills_the_device);
  RUN(clusters_are_of_a_launch);
  RUN(addresses_are_told_apart);
  return 0;
}
