/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the host can back what devices have promised. */
#include "room.h"

#include "../control/config.h"
#include "state.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <sys/stat.h>

namespace sim {
namespace {

constexpr uint64_t worth_a_look = uint64_t{1} << 30;
constexpr uint64_t least_left = 256 << 20; /* for the process itself, and for others */
constexpr auto look_again = std::chrono::milliseconds(20);

/* The first number of a file, or that of a line which begins so; UINT64_MAX: there is none ("max" has none either). */
uint64_t number_in(const char *name, const char *line_format) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(name, "re"), std::fclose);
  char line[256];
  uint64_t number = 0;
  while (file != nullptr && std::fgets(line, sizeof line, file.get()) != nullptr)
    if (std::sscanf(line, line_format, &number) == 1)
      return number;
  return UINT64_MAX;
}

/* What is left of a limit that the process's control group has. What files have in memory can be given up. */
uint64_t left_of_limit(const char *limit_file, const char *use_file, const char *statistics, const char *line_format) {
  uint64_t limit = number_in(limit_file, "%" SCNu64), use = number_in(use_file, "%" SCNu64);
  if (limit == UINT64_MAX || use == UINT64_MAX)
    return UINT64_MAX;
  uint64_t files = number_in(statistics, line_format);
  use -= std::min(use, files == UINT64_MAX ? 0 : files);
  return limit - std::min(limit, use);
}

uint64_t left_of_host() {
  uint64_t left = number_in("/proc/meminfo", "MemAvailable: %" SCNu64 " kB");
  left = left > UINT64_MAX / 1024 ? UINT64_MAX : left * 1024;
  left = std::min(left, left_of_limit("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
                                      "/sys/fs/cgroup/memory.stat", "inactive_file %" SCNu64));
  left = std::min(left, left_of_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                                      "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                                      "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file %" SCNu64));
  return left == UINT64_MAX ? left : left - std::min(left, least_left);
}

uint64_t touched_bytes() {
  struct stat status{};
  return fstat(state().arena.file().number(), &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * 512 : 0;
}

uint64_t room() {
  uint64_t left = left_of_host(), most = config().host_memory;
  return most == 0 ? left : std::min(left, most - std::min(most, touched_bytes()));
}

} // namespace

const char *no_room() {
  return "the host has no memory left to back device memory, which is the host's as soon as it is touched: a smaller "
         "device fails earlier, CUDACORE_SIM_MEMORY=8G say (CUDACORE_SIM_HOST_MEMORY sets how much may be touched)";
}

uint64_t promised_bytes() {
  uint64_t bytes = 0;
  for (const auto &device : state().devices)
    bytes += device->used;
  return bytes;
}

bool has_room(uint64_t more, uint64_t promised) {
  if (promised < worth_a_look && config().host_memory == 0)
    return true;
  return room() > more;
}

RoomWatch::RoomWatch() {
  uint64_t promised = 0;
  {
    std::lock_guard<std::mutex> guard(state().mutex);
    promised = promised_bytes();
  }
  if (promised < worth_a_look && config().host_memory == 0)
    return;
  uint64_t untouched = promised - std::min(promised, touched_bytes()), left = room();
  if (left == 0)
    used_up = true;
  else if (untouched >= left)
    thread = std::thread([this] { watch(); });
}

RoomWatch::~RoomWatch() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard<std::mutex> guard(mutex);
    over = true;
  }
  ended.notify_one();
  thread.join();
}

void RoomWatch::watch() {
  std::unique_lock<std::mutex> guard(mutex);
  while (!ended.wait_for(guard, look_again, [this] { return over; }))
    if (room() == 0) {
      used_up = true;
      return;
    }
}

} // namespace sim
