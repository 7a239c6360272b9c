/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_PROCESS_PAGE_H
#define CUDACORE_SIM_DRIVER_BASE_PROCESS_PAGE_H

#include "sim/driver/base/shared_file.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace sim {

/*
 * A page that other processes share, in order to checkpoint this process. To lock a process, another process changes
 * the state in the page, and waits until the page shows no calls and no work in progress.
 */
struct ProcessPage {
  uint64_t magic;
  int32_t process;
  std::atomic<uint32_t> state; /* CUprocessState, or `locking` */
  std::atomic<uint64_t> calls; /* calls of entry points in progress */
  std::atomic<uint64_t> units; /* units of work that are not done */
};
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free,
              "other processes use them");

constexpr uint32_t locking = 100; /* an internal state, which other processes see as "running" */

extern ProcessPage *own_page; /* null before cuInit, and in a child of fork */

void make_own_page();  /* if no memory is left for a page, the process cannot be checkpointed */
void leave_own_page(); /* called in a child of fork, because the page belongs to the parent */
void wait_until_unlocked();

/* The page of another process, or of this process; null: the process has no page. */
std::unique_ptr<SharedFile> find_page(int process, ProcessPage *&out);

/* Called before each call begins: waits while this process is locked. False: the process has no page. */
inline bool enter_gate() {
  if (own_page == nullptr)
    return false;
  own_page->calls.fetch_add(1);
  if (own_page->state.load() != 0)
    wait_until_unlocked();
  return true;
}
inline void leave_gate() {
  if (own_page != nullptr)
    own_page->calls.fetch_sub(1);
}

} // namespace sim

#endif
