/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_HOST_BUDGET_H
#define CUDACORE_SIM_DRIVER_BASE_HOST_BUDGET_H

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

namespace sim {

struct Context;

/*
 * How much memory the host has left for devices. Host memory backs each page of device memory when it is first used, so
 * devices can allocate ("promise") more than the host has. If the host runs out of memory, the system ends the process.
 * Before that, devices report that they are out of memory.
 *
 * Nothing is measured until devices have promised a GiB, so small programs have no overhead.
 */

/* Whether the host has `more` bytes of memory left. If not, why() has the reason. Called with the state's lock. */
bool host_can_back(uint64_t more, uint64_t promised);
uint64_t promised_bytes();
/*
 * Whether a device can allocate `more` bytes. This can hold even if the host has less memory left, because programs may
 * use only a part of the allocation.
 */
bool may_promise(uint64_t more);

/*
 * Managed memory is outside of the device's addresses, because host code uses it, too. Managed memory counts as device
 * memory from add_managed() to remove_managed(). `charged`: a device has promised it.
 */
void add_managed(const std::byte *memory, uint64_t bytes, bool charged);
void remove_managed(const std::byte *memory); /* before memory is unmapped; ignores memory that was not added */

/* The number of bytes of a range that the host does not back yet. */
uint64_t untouched_bytes(const std::byte *memory, uint64_t bytes);

/* The explanation if a call or a context fails because the host has no memory left. */
const char *host_exhausted_text();

/* Watches work that may use any amount of memory, and makes it end when the host has none left, or by stop(). */
class HostMemoryWatch {
public:
  HostMemoryWatch();
  ~HostMemoryWatch();
  HostMemoryWatch(const HostMemoryWatch &) = delete;
  HostMemoryWatch &operator=(const HostMemoryWatch &) = delete;
  const std::atomic<bool> *flag() const { return &ends; }
  bool has_ended() const { return ends.load(); }
  void stop() { ends = true; }

private:
  void watch();

  std::atomic<bool> ends{false};
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;
  std::thread thread;
};

} // namespace sim

#endif
