/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of devices, pools and addresses. */
#include "check.h"

static cch_context *first, *second;

static void open(void) {
  OK(cch_context_primary(&first, 0));
  OK(cch_context_primary(&second, 1));
}

static void close(void) {
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
  RUN(pools_are_asked_in_relaxed_mode);
  check_around(open, close);
  RUN(addresses_are_told_apart);
  return 0;
}
