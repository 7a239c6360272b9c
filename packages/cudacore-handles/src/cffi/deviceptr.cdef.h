/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of cudacore/deviceptr.h. */
typedef void (*cch_free_fn)(void *owner, CUdeviceptr ptr, size_t size, cch_stream *stream);
int cch_deviceptr_alloc_async(cch_deviceptr **out, cch_pool *pool, size_t size, cch_stream *stream);
int cch_deviceptr_alloc(cch_deviceptr **out, cch_context *context, size_t size);
int cch_deviceptr_alloc_host(cch_deviceptr **out, cch_context *context, size_t size, unsigned flags);
int cch_deviceptr_wrap(cch_deviceptr **out, CUdeviceptr ptr, size_t size, cch_context *context, void *owner,
                       cch_free_fn free);
int cch_deviceptr_set_stream(cch_deviceptr *ptr, cch_stream *stream);
cch_stream *cch_deviceptr_stream(const cch_deviceptr *ptr);
cch_pool *cch_deviceptr_pool(const cch_deviceptr *ptr);
cch_context *cch_deviceptr_context(const cch_deviceptr *ptr);
size_t cch_deviceptr_size(const cch_deviceptr *ptr);
int cch_deviceptr_copy(cch_deviceptr *dst, cch_deviceptr *src, size_t size, cch_stream *stream);
int cch_deviceptr_fill(cch_deviceptr *dst, uint32_t value, unsigned width, cch_stream *stream);
int cch_pointer_check(CUdeviceptr ptr);
cch_deviceptr *cch_deviceptr_ref(cch_deviceptr *ptr);
void cch_deviceptr_unref(cch_deviceptr *ptr);
CUdeviceptr cch_deviceptr_raw(const cch_deviceptr *ptr);
