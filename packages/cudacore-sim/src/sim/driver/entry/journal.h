/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_ENTRY_JOURNAL_H
#define CUDACORE_SIM_DRIVER_ENTRY_JOURNAL_H

#include "sim/driver/base/api.h"

#include <cstdio>
#include <string>

namespace sim {

/*
 * The log of calls, injected failures, and calls that are held. Thread-safe. A thread that needs the log's lock and the
 * state's lock takes the state's lock first.
 */

/* Waits while calls of this entry point are held. Returns the code of an injected failure; CUDA_SUCCESS: none. */
CUresult interfere(Entry entry);

/* Whether a function is hidden from cuGetProcAddress. */
bool is_hidden(const char *name);

void note_call(Entry entry, void *context, void *stream, CUresult result, bool injected);

/* Keep the log consistent in forked children, which inherit locks in any state. */
void journal_before_fork();
void journal_after_fork();
void journal_after_fork_in_child();

/* Copies a text to a buffer of the control interface's caller, as far as it fits. Returns the length of the text. */
inline size_t copy_text(const std::string &text, char *out, size_t size) {
  if (out != nullptr && size > 0)
    std::snprintf(out, size, "%s", text.c_str());
  return text.size();
}

} // namespace sim

#endif
