/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of cudacore/kernel.h. */
#define CCH_LAUNCH_COOPERATIVE ...
#define CCH_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION ...
typedef struct cch_param {
  uint32_t offset;
  uint32_t size;
} cch_param;
typedef struct cch_launch_config {
  uint32_t size;
  uint32_t flags;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t cluster[3];
  uint32_t shared_bytes;
} cch_launch_config;
int cch_kernel_get(cch_kernel **out, cch_library *library, const char *name);
int cch_kernel_wrap(cch_kernel **out, CUkernel raw, cch_library *library, void *owner, cch_release_fn release);
cch_library *cch_kernel_library(const cch_kernel *kernel);
int cch_kernel_params(const cch_param **out, size_t *count, cch_kernel *kernel, cch_context *context);
int cch_launch(cch_stream *stream, const cch_launch_config *config, cch_kernel *kernel, const void *args,
               size_t args_size);
int cch_launch_params(cch_stream *stream, const cch_launch_config *config, cch_kernel *kernel, void **params);
cch_kernel *cch_kernel_ref(cch_kernel *kernel);
void cch_kernel_unref(cch_kernel *kernel);
CUkernel cch_kernel_raw(const cch_kernel *kernel);
