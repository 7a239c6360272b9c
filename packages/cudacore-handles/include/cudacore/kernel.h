/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_KERNEL_H
#define CUDACORE_KERNEL_H

/**
 * @file kernel.h
 * Kernels, their parameters, and launching them.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/** The offset and size of one parameter in a kernel's argument block, in bytes. */
typedef struct cch_param {
  uint32_t offset;
  uint32_t size;
} cch_param;

/** The geometry of a launch. Zero-initialise; `size` determines the fields that exist, as in cch_pool_create(). */
typedef struct cch_launch_config {
  uint32_t size;         /**< sizeof(cch_launch_config) */
  uint32_t flags;        /**< CCH_LAUNCH_* bits, no others */
  uint32_t grid[3];      /**< blocks, even if there are clusters */
  uint32_t block[3];     /**< threads per block */
  uint32_t cluster[3];   /**< blocks per cluster; {0, 0, 0} for no clusters */
  uint32_t shared_bytes; /**< bytes of dynamic shared memory per block */
  int32_t priority;      /**< used with CCH_LAUNCH_PRIORITY; lower numbers run first */
} cch_launch_config;

#define CCH_LAUNCH_COOPERATIVE 1u /**< all blocks are resident at the same time (grid synchronisation) */
#define CCH_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION 2u /**< the kernel may begin before the previous one has ended */
#define CCH_LAUNCH_PRIORITY 4u                          /**< `priority` is used instead of the stream's priority */

/**
 * A kernel of a library, by its (lowered) name (cuLibraryGetKernel). CUDA_ERROR_NOT_FOUND if there is none. @since 0.1
 */
CCH_EXPORT cch_status cch_kernel_get(cch_kernel **out, cch_library *library, const char *name);

/**
 * Borrows a kernel, and keeps `library`. If `library` is NULL, the box keeps the library that the driver reports,
 * provided that it was loaded by cch_library_load(). CCH_EMISMATCH if the driver (12.5) reports another library than
 * the given one. Returns the driver's error if it does not find the kernel in the given library. `owner` and `release`
 * are as in cch_context_wrap(). @since 0.1
 */
CCH_EXPORT cch_status cch_kernel_wrap(cch_kernel **out, CUkernel raw, cch_library *CCH_NULLABLE library,
                                      void *CCH_NULLABLE owner, cch_release_fn CCH_NULLABLE release);

/**
 * The kernel's parameters (cuKernelGetParamInfo, driver 12.4): their number, and an array that lives as long as the
 * box. The driver is queried once, in `context` (NULL: the current one). With an older driver, this function and
 * cch_launch() fail with CCH_ENOSYMBOL, unless cudacore-handles has read the parameters from the code. @since 0.1
 */
CCH_EXPORT cch_status cch_kernel_params(const cch_param **out, size_t *count, cch_kernel *kernel,
                                        cch_context *CCH_NULLABLE context);

/**
 * Launches a kernel with its arguments packed in one block (cuLaunchKernelEx), each at the offset that
 * cch_kernel_params() gives. `args` may be NULL when `args_size` is 0. CCH_EMISMATCH when `args_size` is not the
 * end of the last parameter. @since 0.1
 */
CCH_EXPORT cch_status cch_launch(cch_stream *stream, const cch_launch_config *config, cch_kernel *kernel,
                                 const void *CCH_NULLABLE args, size_t args_size);

CCH_EXPORT CUkernel cch_kernel_raw(const cch_kernel *kernel);

CCH_END_DECLS

#endif
