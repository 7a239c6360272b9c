/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_PROCESS_H
#define CUDACORE_LIB_PROCESS_H

/*
 * The state of the process and of the calling thread with respect to CUDA. The base room reaches the driver only
 * through these functions, which the driver room above it defines.
 */

#include <cudacore/driver.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The state of the process. Every function that may call the driver calls cch__ready() first. */
enum { CCH__UNINITIALISED = 0, CCH__READY = 1, CCH__FORKED = 2 };
extern atomic_int cch__state;

static inline int cch__ready(void) {
  return atomic_load_explicit(&cch__state, memory_order_acquire) == CCH__READY ? 0 : cch_driver_init();
}

static inline bool cch__forked(void) { return atomic_load_explicit(&cch__state, memory_order_relaxed) == CCH__FORKED; }

/*
 * The name of the function that failed: `operation`, or the older function that replaces it. Call it once, directly
 * after the failure.
 */
const char *cch__really_called(const char *operation);

/*
 * The driver's name for a result, and the meaning of the result; NULL if no driver is loaded or it does not define the
 * result.
 */
const char *cch__driver_error_name(int result);
const char *cch__driver_error_string(int result);

/* A number that identifies the calling thread and is never used for another thread; not 0. */
uint64_t cch__thread(void);

#endif
