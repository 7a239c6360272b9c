/* SPDX-License-Identifier: Apache-2.0 */
/* Device addresses and what is behind them. */
#include "memory.h"
#include "state.h"

#include <sys/mman.h>

namespace sim {
namespace {

constexpr uint64_t small_alignment = 512;

/* Behind every allocation, so that running over its end meets nothing. */
constexpr uint64_t gap = 256;

/* As many allocations of one footprint are kept from being used again. */
constexpr size_t quarantine = 256;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t most_addresses = uint64_t{1} << 38; /* sanitizers have the rest */
#else
constexpr uint64_t most_addresses = uint64_t{1} << 43;
#endif

uint64_t round_up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

} // namespace

bool Arena::open(uint64_t wanted) {
  wanted = wanted < most_addresses ? round_up(wanted, large) : most_addresses;
  /* Containers may limit the addresses of a process: take what there is. */
  for (; wanted >= uint64_t{1} << 30; wanted /= 2) {
    size_t whole = wanted + large;
    void *addresses = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED)
      continue;
    if ((behind = SharedFile::create(wanted)) == nullptr) {
      munmap(addresses, whole);
      continue;
    }
    first = round_up(reinterpret_cast<uint64_t>(addresses), large);
    length = wanted;
    return true;
  }
  return false;
}

bool Arena::open_file(uint64_t wanted) {
  wanted = round_up(wanted < most_addresses / 4 ? wanted : most_addresses / 4, large);
  for (; wanted >= large; wanted /= 2)
    if ((behind = SharedFile::create(wanted)) != nullptr) {
      length = wanted;
      used = file_header;
      return true;
    }
  return false;
}

uint64_t Arena::footprint(uint64_t size) {
  if (size + gap < large)
    return round_up(size + gap, small_alignment);
  /* Eight sizes between a power of two and the next, so that freed addresses fit what comes later. */
  uint64_t needed = round_up(size + gap, large), step = large;
  while (step * 16 <= needed)
    step *= 2;
  return round_up(needed, step);
}

uint64_t Arena::take(uint64_t size) {
  if (size > length)
    return 0;
  uint64_t bytes = footprint(size);
  std::deque<uint64_t> &freed = vacant[bytes];
  uint64_t start = bytes >= large ? round_up(used, large) : used;
  if (freed.size() > quarantine || (bytes > length - start && !freed.empty()) || start > length) {
    uint64_t base = freed.front();
    freed.pop_front();
    return base;
  }
  if (start > length || bytes > length - start)
    return 0;
  used = start + bytes;
  return first + start;
}

void Arena::give_back(uint64_t base, uint64_t size) {
  behind->punch(offset(base), size);
  vacant[footprint(size)].push_back(base);
}

std::byte *Physical::host() const { return file != nullptr ? file->at(Arena::file_header) : state().arena.host(base); }

Physical::~Physical() {
  if (device != nullptr && !imported)
    device->discharge(size);
  if (base != 0)
    state().arena.give_back(base, size);
}

} // namespace sim
