/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of src/cffi/shims.h. */
cch_event *cudacore_event_create(cch_context *context, unsigned flags);
cch_deviceptr *cudacore_allocate(cch_pool *pool, size_t size, cch_stream *stream);
cch_stream *cudacore_stream_create(cch_context *context, unsigned flags, int priority);
double cudacore_event_elapsed(cch_event *start, cch_event *end);
uintptr_t cudacore_address(const void *box);
int cudacore_current_device(void);
