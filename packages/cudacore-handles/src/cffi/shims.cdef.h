/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of src/cffi/shims.h. */
cch_event *cudacore_event_create(cch_context *context, unsigned flags);
cch_deviceptr *cudacore_allocate(cch_pool *pool, size_t size, cch_stream *stream);
int cudacore_current_device(void);
