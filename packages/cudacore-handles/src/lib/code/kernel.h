/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_KERNEL_H
#define CUDACORE_LIB_KERNEL_H

/* The parameters of kernels. */

#include "base/kinds.h"

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

#endif
