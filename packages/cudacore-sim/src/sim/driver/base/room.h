/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_ROOM_H
#define CUDACORE_SIM_DRIVER_BASE_ROOM_H

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

namespace sim {

struct Context;

/*
 * Memory of devices is the host's as soon as it is touched, and devices may promise more than the host has: what is
 * never touched costs nothing. Before the host has none left, and ends the process, devices say that they have none.
 *
 * All of this is looked at only where devices have promised more than a GiB, so that small programs do not wait for it.
 */

/* Whether `more` bytes can be touched beside those that are; where not, why() says so. With the state's lock. */
bool has_room(uint64_t more, uint64_t promised);
uint64_t promised_bytes();
/* Whether `more` bytes can be promised: of much that is allocated, little may be touched. */
bool may_promise(uint64_t more);

/*
 * Managed memory is elsewhere, as host code uses it, too, and counts as that of devices from here to there. `charged`:
 * a device has promised it.
 */
void add_managed(const std::byte *memory, uint64_t bytes, bool charged);
void remove_managed(const std::byte *memory); /* before it is unmapped; not if it was never added */

/* How much of a range is not yet touched. */
uint64_t untouched_bytes(const std::byte *memory, uint64_t bytes);

/* What a call or a context says that has met it. */
const char *no_room();

/* Watches while work runs that can touch what it likes, and tells it to end when there is no room left. */
class RoomWatch {
public:
  RoomWatch();
  ~RoomWatch();
  RoomWatch(const RoomWatch &) = delete;
  RoomWatch &operator=(const RoomWatch &) = delete;
  const std::atomic<bool> *flag() const { return &used_up; }
  bool is_used_up() const { return used_up.load(); }

private:
  void watch();

  std::atomic<bool> used_up{false};
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;
  std::thread thread;
};

} // namespace sim

#endif
