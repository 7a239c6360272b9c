/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's test double itself: a misuse that it does not note is one that no other test would find. */
#include "check.h"

#include <pthread.h>
#include <time.h>

static CUcontext context, other;

static void open(void) {
  CHECK_EQ(driver.cuInit(0), 0);
  CHECK_EQ(driver.cuDevicePrimaryCtxRetain(&context, 0), 0);
  CHECK_EQ(driver.cuDevicePrimaryCtxRetain(&other, 1), 0);
  CHECK_EQ(driver.cuCtxSetCurrent(context), 0);
}

static void close(void) {
  CHECK_EQ(driver.cuCtxSetCurrent(NULL), 0);
  CHECK_EQ(driver.cuDevicePrimaryCtxRelease(0), 0);
  CHECK_EQ(driver.cuDevicePrimaryCtxRelease(1), 0);
}

/* The call must have been noted as a misuse that says so. */
static void noted(const char *what) {
  char violation[256];
  fake_last_violation(violation, sizeof violation);
  CHECK_EQ(fake_violations(), 1);
  CHECK_HAS(violation, what);
  fake_reset();
}

/* A call before cuInit is not noted. */
static void calls_before_init(void) {
  CHECK_EQ(driver.cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_NOT_INITIALIZED);
  noted("before cuInit");
}

/* A second destroy, or a destroy of what never was, is not noted. */
static void double_destroy(void) {
  CUstream stream;
  CUevent event;
  open();
  CHECK_EQ(driver.cuStreamCreateWithPriority(&stream, 0, 0), 0);
  CHECK_EQ(driver.cuStreamDestroy(stream), 0);
  CHECK_EQ(driver.cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
  noted("was destroyed");
  CHECK_EQ(driver.cuEventCreate(&event, 0), 0);
  CHECK_EQ(driver.cuEventDestroy(event), 0);
  CHECK_EQ(driver.cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
  noted("was destroyed");
  CHECK_EQ(driver.cuEventDestroy((CUevent)&event), CUDA_ERROR_INVALID_HANDLE);
  noted("is no event");
  close();
}

/* The use of something destroyed, freed or unloaded is not noted. */
static void use_after_destroy(void) {
  CUlibrary library;
  CUkernel kernel;
  CUmemoryPool pool;
  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
  CUdeviceptr ptr;
  cch_stream *legacy = cch_stream_legacy();
  cch_kernel *box;
  open();
  CHECK_EQ(driver.cuLibraryLoadData(&library, check_ptx, NULL, NULL, 0, NULL, NULL, 0), 0);
  CHECK_EQ(driver.cuLibraryGetKernel(&kernel, library, "empty"), 0);
  OK(cch_kernel_wrap(&box, kernel, NULL, NULL, NULL));
  CHECK_EQ(driver.cuLibraryUnload(library), 0);
  fake_reset();
  const cch_launch_config config = {.size = sizeof config, .grid = {1, 1, 1}, .block = {1, 1, 1}};
  FAILS(CUDA_ERROR_INVALID_HANDLE, cch_launch_params(legacy, &config, box, NULL));
  noted("kernel");
  cch_kernel_unref(box);
  CHECK_EQ(driver.cuLibraryGetKernel(&kernel, library, "empty"), CUDA_ERROR_INVALID_HANDLE);
  noted("library");
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK_EQ(driver.cuMemPoolCreate(&pool, &props), 0);
  CHECK_EQ(driver.cuMemPoolDestroy(pool), 0);
  CHECK_EQ(driver.cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_HANDLE);
  noted("pool");
  CHECK_EQ(driver.cuMemAlloc(&ptr, 100), 0);
  CHECK_EQ(driver.cuMemFree(ptr), 0);
  CHECK_EQ(driver.cuMemFree(ptr), CUDA_ERROR_INVALID_VALUE);
  noted("was freed");
  CHECK_EQ(driver.cuMemFree((CUdeviceptr)(uintptr_t)&ptr), CUDA_ERROR_INVALID_VALUE);
  noted("no allocation");
  cch_stream_unref(legacy);
  close();
}

/* Work in a wrong context, or in none, is not noted. */
static void wrong_context(void) {
  CUstream stream;
  CUevent event;
  CUdeviceptr ptr;
  cch_event *wrapped;
  cch_stream *on_other;
  open();
  CHECK_EQ(driver.cuEventCreate(&event, 0), 0);
  CHECK_EQ(driver.cuCtxSetCurrent(other), 0);
  CHECK_EQ(driver.cuStreamCreateWithPriority(&stream, 0, 0), 0);
  OK(cch_event_wrap(&wrapped, event, NULL, NULL)); /* as if it were of the other context */
  OK(cch_stream_wrap(&on_other, stream, NULL, NULL));
  fake_reset();
  FAILS(CUDA_ERROR_INVALID_HANDLE, cch_event_record(wrapped, on_other));
  noted("context");
  cch_event_unref(wrapped);
  cch_stream_unref(on_other);
  CHECK_EQ(driver.cuEventDestroy(event), 0);
  CHECK_EQ(driver.cuStreamDestroy(stream), 0);
  CHECK_EQ(driver.cuCtxSetCurrent(NULL), 0);
  CHECK_EQ(driver.cuMemAlloc(&ptr, 1), CUDA_ERROR_INVALID_CONTEXT);
  noted("no context is current");
  close();
}

/* A context that is released under its objects is not noted. */
static void context_released_too_early(void) {
  CUstream stream;
  open();
  CHECK_EQ(driver.cuStreamCreateWithPriority(&stream, 0, 0), 0);
  fake_reset();
  CHECK_EQ(driver.cuDevicePrimaryCtxRelease(0), 0);
  noted("with 1 objects alive");
  CHECK_EQ(driver.cuStreamDestroy(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  noted("was released");
  CHECK_EQ(driver.cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
  noted("not retained");
  CHECK_EQ(driver.cuDevicePrimaryCtxRetain(&context, 0), 0);
  CHECK_EQ(driver.cuStreamDestroy(stream), 0);
  close();
}

/* A pool that is destroyed under its allocations is not noted. */
static void pool_destroyed_too_early(void) {
  cch_pool_config config = {.size = sizeof config, .location_type = 1};
  cch_pool *pool;
  cch_stream *legacy = cch_stream_legacy();
  cch_deviceptr *ptr;
  open();
  OK(cch_pool_create(&pool, &config));
  OK(cch_deviceptr_alloc_async(&ptr, pool, 8, legacy));
  CHECK_EQ(driver.cuMemPoolDestroy(cch_pool_raw(pool)), 0);
  noted("with 1 allocations alive");
  cch_deviceptr_unref(ptr);
  fake_fail("cuMemPoolDestroy", 1, CUDA_ERROR_DEINITIALIZED); /* it is gone already */
  cch_pool_unref(pool);
  cch_stream_unref(legacy);
  close();
}

/* New addresses all the time would hide what stale ones show. */
static void addresses_are_reused(void) {
  CUevent first, second, third;
  CUdeviceptr ptr, again;
  open();
  CHECK_EQ(driver.cuEventCreate(&first, 0), 0);
  CHECK_EQ(driver.cuEventCreate(&second, 0), 0);
  CHECK_EQ(driver.cuEventDestroy(first), 0);
  CHECK_EQ(driver.cuEventCreate(&third, 0), 0);
  CHECK_PTR(third, first);
  CHECK_EQ(driver.cuEventDestroy(second), 0);
  CHECK_EQ(driver.cuEventDestroy(third), 0);
  CHECK_EQ(driver.cuMemAlloc(&ptr, 100), 0);
  CHECK_EQ(driver.cuMemFree(ptr), 0);
  CHECK_EQ(driver.cuMemAlloc(&again, 200), 0); /* of the same granules */
  CHECK_EQ(again, ptr);
  CHECK_EQ(driver.cuMemFree(again), 0);
  close();
}

static void *create(void *event) {
  CHECK_EQ(driver.cuCtxSetCurrent(context), 0);
  CHECK_EQ(driver.cuEventCreate(event, 0), 0);
  return NULL;
}

/* Counts, log, injected failures or held calls are not those asked for. */
static void calls_are_counted_logged_failed_and_held(void) {
  CUevent event;
  pthread_t thread;
  fake_call log[8];
  open();
  fake_reset();
  fake_fail("cuEventCreate", 2, CUDA_ERROR_UNKNOWN);
  CHECK_EQ(driver.cuEventCreate(&event, 0), 0);
  CHECK_EQ(driver.cuEventDestroy(event), 0);
  CHECK_EQ(driver.cuEventCreate(&event, 0), CUDA_ERROR_UNKNOWN);
  CHECK_EQ(driver.cuEventCreate(&event, 0), 0);
  CHECK_EQ(driver.cuEventDestroy(event), 0);
  CHECK_EQ(fake_calls("cuEventCreate"), 3);
  CHECK_EQ(fake_calls(NULL), 5);
  CHECK_EQ(fake_log(2, log, 8), 3);
  CHECK_STR(log[0].name, "cuEventCreate");
  CHECK_EQ(log[0].result, CUDA_ERROR_UNKNOWN);
  CHECK_PTR(log[0].context, context);
  CHECK(log[0].thread == log[2].thread);
  fake_reset();
  fake_fail("cuEventCreate", 0, CUDA_ERROR_UNKNOWN);
  CHECK_EQ(driver.cuEventCreate(&event, 0), CUDA_ERROR_UNKNOWN);
  CHECK_EQ(driver.cuEventCreate(&event, 0), CUDA_ERROR_UNKNOWN);
  fake_reset();
  fake_hold("cuEventCreate");
  CHECK_EQ(pthread_create(&thread, NULL, create, &event), 0);
  while (fake_held("cuEventCreate") == 0)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  CHECK_EQ(fake_live(FAKE_EVENT), 0);
  fake_let_go("cuEventCreate");
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_EQ(fake_live(FAKE_EVENT), 1);
  CHECK_EQ(driver.cuEventDestroy(event), 0);
  close();
}

int main(void) {
  check_open();
  RUN(calls_before_init);
  RUN(double_destroy);
  RUN(use_after_destroy);
  RUN(wrong_context);
  RUN(context_released_too_early);
  RUN(pool_destroyed_too_early);
  RUN(addresses_are_reused);
  RUN(calls_are_counted_logged_failed_and_held);
  return 0;
}
