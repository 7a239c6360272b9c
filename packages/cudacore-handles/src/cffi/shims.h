/* SPDX-License-Identifier: Apache-2.0 */
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

static int cudacore_current_device(void) {
  int device = -1;
  return cch_current_device(&device) == 0 ? device : -1;
}
