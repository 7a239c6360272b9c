/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how much memory the host has left to back device memory. */
#include "sim/driver/base/host_budget.h"

#include "sim/control/config.h"
#include "sim/driver/base/host_memory.h"
#include "sim/driver/base/state.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <memory>
#include <sys/mman.h>
#include <sys/stat.h>
#include <vector>

namespace sim {
namespace {

constexpr uint64_t check_threshold = uint64_t{1} << 30;
constexpr uint64_t min_left = 256 << 20; /* bytes that are left to the process itself and to other processes */
constexpr auto check_interval = std::chrono::milliseconds(20);
constexpr uint64_t piece = 64 << 20;

struct Managed {
  uint64_t bytes;
  bool charged;
};

/* Held while pages are counted, so that nothing is unmapped meanwhile. */
std::mutex &managed_mutex = *new std::mutex;
std::map<const std::byte *, Managed> &managed = *new std::map<const std::byte *, Managed>;

/*
 * The first number in a file that matches a format; UINT64_MAX: there is none, for example if the file contains "max".
 */
uint64_t number_in(const char *name, const char *line_format) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(name, "re"), std::fclose);
  char line[256];
  uint64_t number = 0;
  while (file != nullptr && std::fgets(line, sizeof line, file.get()) != nullptr)
    if (std::sscanf(line, line_format, &number) == 1)
      return number;
  return UINT64_MAX;
}

/*
 * The remainder of the memory limit of the process's control group. Cached pages of files do not count, because they
 * can be dropped.
 */
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
  return left == UINT64_MAX ? left : left - std::min(left, min_left);
}

/* The bytes of the arena's file that the host backs. All device memory except managed memory is in this file. */
uint64_t touched_in_arena() {
  struct stat status{};
  return fstat(state().arena.file().number(), &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * 512 : 0;
}

uint64_t managed_bytes(bool also_charged) {
  std::lock_guard<std::mutex> guard(managed_mutex);
  uint64_t bytes = 0;
  for (const auto &entry : managed)
    bytes += also_charged || !entry.second.charged ? entry.second.bytes : 0;
  return bytes;
}

uint64_t touched_bytes() {
  uint64_t bytes = touched_in_arena();
  std::lock_guard<std::mutex> guard(managed_mutex);
  for (const auto &[memory, one] : managed)
    bytes += one.bytes - std::min(one.bytes, untouched_bytes(memory, one.bytes));
  return bytes;
}

/* Whether more than `bytes` are left. Managed pages are counted last, because that takes a while. */
bool leaves(uint64_t bytes) {
  uint64_t limit = config().host_memory, max_used = touched_in_arena() + managed_bytes(true);
  return left_of_host() > bytes &&
         (limit == 0 || limit - std::min(limit, max_used) > bytes || limit - std::min(limit, touched_bytes()) > bytes);
}

} // namespace

const char *host_exhausted_text() {
  return "the host has no memory left to back device memory, which is the host's as soon as it is touched: a smaller "
         "device fails earlier, CUDACORE_SIM_MEMORY=8G say (CUDACORE_SIM_HOST_MEMORY sets how much may be touched)";
}

uint64_t promised_bytes() {
  uint64_t bytes = 0;
  for (const auto &device : state().devices)
    bytes += device->used;
  return bytes + managed_bytes(false);
}

bool may_promise(uint64_t more) {
  constexpr uint64_t soon_touched = 256 << 20;
  return host_can_back(std::min(more, soon_touched), promised_bytes() + more);
}

void add_managed(const std::byte *memory, uint64_t bytes, bool charged) {
  std::lock_guard<std::mutex> guard(managed_mutex);
  managed[memory] = {bytes, charged};
}

void remove_managed(const std::byte *memory) {
  std::lock_guard<std::mutex> guard(managed_mutex);
  managed.erase(memory);
}

uint64_t untouched_bytes(const std::byte *memory, uint64_t bytes) {
  uint64_t page = system_page(), begin = page_below(value_of(memory));
  uint64_t pages = (value_of(memory) + bytes - begin + page - 1) / page, there = 0;
  std::vector<unsigned char> part(std::min<uint64_t>(pages, piece / page));
  for (uint64_t done = 0; done < pages; done += part.size()) {
    uint64_t count = std::min<uint64_t>(part.size(), pages - done);
    if (mincore(handle_of<void *>(begin + done * page), count * page, part.data()) != 0)
      break;
    there += static_cast<uint64_t>(std::count_if(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count),
                                                 [](unsigned char one) { return one & 1; }));
  }
  return (pages - std::min(pages, there)) * page;
}

bool host_can_back(uint64_t more, uint64_t promised) {
  if (promised < check_threshold && config().host_memory == 0)
    return true;
  return leaves(more);
}

HostMemoryWatch::HostMemoryWatch() {
  uint64_t promised = 0;
  {
    std::lock_guard<std::mutex> guard(state().mutex);
    promised = promised_bytes();
  }
  if (promised < check_threshold && config().host_memory == 0)
    return;
  if (leaves(promised))
    return;
  if (!leaves(0))
    ends = true;
  else if (!leaves(promised - std::min(promised, touched_bytes())))
    thread = std::thread([this] { watch(); });
}

HostMemoryWatch::~HostMemoryWatch() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard<std::mutex> guard(mutex);
    over = true;
  }
  ended.notify_one();
  thread.join();
}

void HostMemoryWatch::watch() {
  std::unique_lock<std::mutex> guard(mutex);
  while (!ended.wait_for(guard, check_interval, [this] { return over; }))
    if (!leaves(0)) {
      ends = true;
      return;
    }
}

} // namespace sim
