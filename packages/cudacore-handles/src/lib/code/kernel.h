/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_KERNEL_H
#define CUDACORE_LIB_KERNEL_H

/* The parameters of kernels. */

#include "base/kinds.h"

#include <stddef.h>

/* Queries the driver for the parameters of a kernel, and stores them in the kernel. */
int cch__kernel_params_query(const cch__params **out, cch_kernel *kernel);

/*
 * Gets the parameters of a kernel. The first call queries the driver; the context in which the kernel is used must be
 * current. Each launch calls this.
 */
static inline int cch__kernel_params(const cch__params **out, cch_kernel *kernel) {
  *out = atomic_load_explicit(&kernel->params, memory_order_acquire);
  return *out != NULL ? 0 : cch__kernel_params_query(out, kernel);
}

/* Returns whether the parameters were set by a caller, or the driver can report them. */
bool cch__kernel_has_params(cch_kernel *kernel);

/* Module images. */

typedef enum cch__format { CCH__CUBIN, CCH__FATBIN, CCH__PTX } cch__format;

/*
 * Finds the format of an image, and whether its kernels may print, and checks that no header points beyond the image's
 * end. Returns CCH_EIMAGE if one does.
 */
int cch__image_check(cch__format *out, bool *prints, const void *image, size_t size);

#endif
