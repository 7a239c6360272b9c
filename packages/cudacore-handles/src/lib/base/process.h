/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_PROCESS_H
#define CUDACORE_LIB_PROCESS_H

/*
 * Where the process and the calling thread stand with CUDA. The base calls the driver through these functions alone;
 * they are in the driver room, which is above it.
 */

#include <cudacore/driver.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Where the process stands with CUDA. Everything that may enter the driver asks cch__ready() first. */
enum { CCH__UNINITIALISED = 0, CCH__READY = 1, CCH__FORKED = 2 };
extern atomic_int cch__state;

static inline int cch__ready(void) {
  return atomic_load_explicit(&cch__state, memory_order_acquire) == CCH__READY ? 0 : cch_driver_init();
}

static inline bool cch__forked(void) { return atomic_load_explicit(&cch__state, memory_order_relaxed) == CCH__FORKED; }

/* The function that failed: the operation, or the older one that stands in for it. To be asked once, at once. */
const char *cch__really_called(const char *operation);

/* What the driver calls a result, and what the result means; NULL where it is not loaded, or knows no such result. */
const char *cch__driver_error_name(int result);
const char *cch__driver_error_string(int result);

/* A number of the calling thread that no other thread ever has; not 0. */
uint64_t cch__thread(void);

#endif
