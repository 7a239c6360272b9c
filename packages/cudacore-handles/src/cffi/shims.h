/* SPDX-License-Identifier: Apache-2.0 */
enum { CUDACORE_NOT_READY = 600 }; /* CUDA_ERROR_NOT_READY, which is an answer and not recorded */
static const double CUDACORE_NO_TIME = 1e300, CUDACORE_NO_TIME_YET = 2e300;

/*
 * Hot calls in the shape that costs a cffi caller least: what they make is what they return, so that no
 * out-parameter is allocated for each call. NULL, or -1, means that cch_error_last() says what went wrong.
 */

static cch_event *cudacore_event_create(cch_context *context, unsigned flags) {
  cch_event *event = NULL;
  return cch_event_create(&event, context, flags) == 0 ? event : NULL;
}

static cch_deviceptr *cudacore_allocate(cch_pool *pool, size_t size, cch_stream *stream) {
  cch_deviceptr *ptr = NULL;
  return cch_deviceptr_alloc_async(&ptr, pool, size, stream) == 0 ? ptr : NULL;
}

static cch_stream *cudacore_stream_create(cch_context *context, unsigned flags, int priority) {
  cch_stream *stream = NULL;
  return cch_stream_create(&stream, context, flags, priority) == 0 ? stream : NULL;
}

/* More than any float where there is no time. */
static double cudacore_event_elapsed(cch_event *start, cch_event *end) {
  float milliseconds;
  int status = cch_event_elapsed(&milliseconds, start, end);
  return status == 0 ? milliseconds : status == CUDACORE_NOT_READY ? CUDACORE_NO_TIME_YET : CUDACORE_NO_TIME;
}

/* A box as the launcher takes it. */
static uintptr_t cudacore_address(const void *box) { return (uintptr_t)box; }

static int cudacore_current_device(void) {
  int device = -1;
  return cch_current_device(&device) == 0 ? device : -1;
}
