/* SPDX-License-Identifier: Apache-2.0 */
/* Error codes and their names, the error record of each thread, and the reports of failed destructors. */
#include "check.h"

/* An error code of the library would not have its own name or meaning. */
static void own_codes_have_names(void) {
#define NAMED(code) CHECK_STR(cch_error_name(code), #code);
  NAMED(CCH_OK)
  NAMED(CCH_ENOMEM)
  NAMED(CCH_EINVAL)
  NAMED(CCH_ENODRIVER)
  NAMED(CCH_ENOSYMBOL)
  NAMED(CCH_EFORKED)
  NAMED(CCH_EIMAGE)
  NAMED(CCH_EMISMATCH)
  for (int code = CCH_EMISMATCH; code <= 0; code++) {
    const char *meaning = cch_error_string(code);
    CHECK(*meaning != '\0' && meaning[strlen(meaning) - 1] != '.' && strchr(meaning, '\n') == NULL);
  }
}

/* The result "not ready", which programs get when they query in loops, would count as a failure. */
static void not_ready_is_no_failure(void) {
  cch_stream *stream = cch_stream_legacy();
  OK(cch_driver_init());
  sim.fail("cuStreamQuery", 1, CUDA_ERROR_NOT_READY);
  FAILS(CUDA_ERROR_NOT_READY, cch_stream_query(stream));
  CHECK_EQ(check_error()->domain, CCH_DOMAIN_NONE);
  cch_stream_unref(stream);
}

static int callbacks;

static void fail_in_callback(void *owner) {
  int value;
  (void)owner;
  CHECK_EQ(check_error()->domain, CCH_DOMAIN_NONE);
  FAILS(CUDA_ERROR_INVALID_DEVICE, cch_device_attribute(&value, 1, 99)); /* FAILS also checks the record */
  callbacks++;
}

static void free_in_callback(void *owner, CUdeviceptr ptr, size_t size, cch_stream *stream) {
  (void)ptr, (void)size, (void)stream;
  fail_in_callback(owner);
}

/* A release function could not read the record of its own failed call, or would overwrite the record of its caller. */
static void owners_have_a_record_of_their_own(void) {
  int dummy, value;
  cch_context *context, *same;
  cch_event *event, *wrapped;
  cch_deviceptr *ptr;
  OK(cch_context_primary(&context, 0));
  OK(cch_event_create(&event, context, 0));
  OK(cch_context_set_current(context));
  OK(cch_deviceptr_wrap(&ptr, 0x1000, 1, context, &dummy, free_in_callback));
  CUevent raw;
  CHECK_EQ(driver.cuEventCreate(&raw, 0), 0);
  OK(cch_event_wrap(&wrapped, raw, &dummy, fail_in_callback));
  OK(cch_context_set_current(NULL));

  FAILS(CUDA_ERROR_INVALID_VALUE, cch_device_attribute(&value, -1, 0));
  OK(cch_context_wrap(&same, cch_context_raw(context), &dummy, fail_in_callback)); /* releases the owner at once */
  cch_event_unref(wrapped);
  cch_deviceptr_unref(ptr);
  CHECK_EQ(callbacks, 3);
  CHECK_EQ(check_error()->code, CUDA_ERROR_INVALID_VALUE);

  CHECK_EQ(driver.cuEventDestroy(raw), 0);
  cch_event_unref(event);
  cch_context_unref(same);
  cch_context_unref(context);
}

/* A long name or text would overflow the record, or would not be terminated by a NUL. */
static void long_texts_are_cut(void) {
  char name[1000];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  name[5] = '\n';
  FAILS(CCH_EINVAL, cch_driver_call(name, (uintptr_t[8]){0}, (void *[]){NULL}, NULL));
  CHECK_EQ(strnlen(check_error()->operation, sizeof check_error()->operation), sizeof check_error()->operation - 1);
  CHECK(memchr(check_error()->message, '\0', sizeof check_error()->message) != NULL);
  CHECK(strchr(check_error()->message, '\n') == NULL);
}

static size_t unnoticed, failed_frees;
static void count(const cch_error *error) {
  if (strcmp(error->operation, "cuMemFree") == 0) {
    failed_frees++;
    return;
  }
  unnoticed++;
  CHECK(strcmp(error->operation, "cuCtxSetCurrent") == 0 ||
        strcmp(error->operation, "cuThreadExchangeStreamCaptureMode") == 0);
}

/* Makes the second and third call of a function fail: the two attempts to restore the state of the thread. */
static void fail_way_back(const char *name) {
  sim.fail(name, 2, CUDA_ERROR_ILLEGAL_ADDRESS);
  sim.fail(name, 3, CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Objects of one device, used while the context of another device is current. */
typedef struct away {
  cch_context *context, *other;
  cch_pool *pool;
} away;

static away away_open(void) {
  away at;
  OK(cch_context_primary(&at.context, 0));
  OK(cch_context_primary(&at.other, 1));
  OK(cch_context_set_current(at.other));
  OK(cch_pool_current(&at.pool, 0));
  return at;
}

static void away_close(away at) {
  OK(cch_context_set_current(NULL));
  cch_pool_unref(at.pool);
  cch_context_unref(at.other);
  cch_context_unref(at.context);
}

/*
 * After a sticky error, the call that restores the context also fails, and would be reported instead of the first
 * failure.
 */
static void way_back_is_not_what_failed(void) {
  away at = away_open();
  uint64_t value;
  cch_error_set_report(count);
  sim.fail("cuCtxSynchronize", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
  fail_way_back("cuCtxSetCurrent");
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cch_context_synchronize(at.context));
  CHECK_STR(check_error()->operation, "cuCtxSynchronize");
  sim.fail("cuMemPoolGetAttribute", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
  fail_way_back("cuThreadExchangeStreamCaptureMode");
  FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cch_pool_attribute(&value, at.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
  CHECK_STR(check_error()->operation, "cuMemPoolGetAttribute");
  CHECK_EQ(unnoticed, 2); /* failures to restore the state are reported separately */
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CHECK_EQ(driver.cuThreadExchangeStreamCaptureMode(&mode), 0);
  cch_deviceptr *ptr;
  OK(cch_deviceptr_alloc(&ptr, at.context, 64));
  CUdeviceptr raw = cch_deviceptr_raw(ptr);
  sim.fail("cuMemFree", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
  fail_way_back("cuCtxSetCurrent");
  cch_deviceptr_unref(ptr);
  CHECK_EQ(failed_frees, 1); /* reported as a failed free, not as a failed cuCtxSetCurrent */
  CHECK_EQ(driver.cuMemFree(raw), 0);
  cch_error_set_report(NULL);
  sim.reset();
  away_close(at);
}

/* If the first attempt to restore a thread's state fails, the thread's capture mode or context would remain changed. */
static void way_back_is_tried_twice(void) {
  away at = away_open();
  uint64_t value;
  unnoticed = 0;
  cch_error_set_report(count);
  sim.fail("cuCtxSetCurrent", 2, CUDA_ERROR_ILLEGAL_ADDRESS);
  OK(cch_context_synchronize(at.context));
  CUcontext raw = NULL;
  CHECK_EQ(driver.cuCtxGetCurrent(&raw), 0);
  CHECK(raw == cch_context_raw(at.other));
  sim.fail("cuThreadExchangeStreamCaptureMode", 2, CUDA_ERROR_ILLEGAL_ADDRESS);
  OK(cch_pool_attribute(&value, at.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CHECK_EQ(driver.cuThreadExchangeStreamCaptureMode(&mode), 0);
  CHECK_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK_EQ(unnoticed, 0);
  cch_error_set_report(NULL);
  away_close(at);
}

int main(void) {
  check_open();
  RUN(own_codes_have_names);
  RUN(not_ready_is_no_failure);
  RUN(owners_have_a_record_of_their_own);
  RUN(long_texts_are_cut);
  RUN(way_back_is_not_what_failed);
  RUN(way_back_is_tried_twice);
  return 0;
}
