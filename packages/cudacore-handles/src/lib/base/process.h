/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_PROCESS_H
#define CUDACORE_LIB_PROCESS_H

/* The state of the process with respect to CUDA, and the number of the calling thread. */

#include <cudacore_internal/driver.h>

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

/* Returns whether the runtime of foreign owners has ended or is ending. Then these owners are leaked. */
bool cch__exiting(void);

/* Returns a number that identifies the calling thread and is never used for another thread; not 0. */
uint64_t cch__thread(void);

#endif
