/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the process: whether CUDA is initialised, whether the process was forked, and whether the runtime of
 * foreign owners has ended.
 */
#include "base/process.h"

#include <cudacore_internal/base.h>

atomic_int cch__state;

static atomic_bool exiting;

void cch_process_exiting(void) { atomic_store(&exiting, true); }

bool cch__exiting(void) { return atomic_load(&exiting); }

uint64_t cch__thread(void) {
  static atomic_uint_fast64_t threads;
  static _Thread_local uint64_t mine;
  if (mine == 0)
    mine = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
  return mine;
}
