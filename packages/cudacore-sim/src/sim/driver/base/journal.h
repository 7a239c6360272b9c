/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_JOURNAL_H
#define CUDACORE_SIM_DRIVER_BASE_JOURNAL_H

#include "sim/driver/base/api.h"

namespace sim {

/* The log of calls, and failures that were armed. Thread-safe; its lock is taken after the state's. */

/* What an armed failure makes of this call; CUDA_SUCCESS: nothing. */
CUresult next_failure(Entry entry);

/* Whether cuGetProcAddress shall not know a function. */
bool is_hidden(const char *name);

/* The system's number of this thread. */
uint64_t thread_id();

void note_call(Entry entry, void *context, CUresult result, bool injected);

/* For the children of fork, which inherit locks in any state. */
void journal_before_fork();
void journal_after_fork();

} // namespace sim

#endif
