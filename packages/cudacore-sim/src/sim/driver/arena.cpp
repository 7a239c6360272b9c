/* SPDX-License-Identifier: Apache-2.0 */
/* Device addresses and what is behind them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memory.h"
#include "state.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace sim {
namespace {

constexpr uint64_t small_alignment = 512;
constexpr uint64_t page = 4096;

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
  file = memfd_create("cudacore-sim", MFD_CLOEXEC);
  if (file < 0)
    return false;
  wanted = wanted < most_addresses ? round_up(wanted, large) : most_addresses;
  /* Containers may limit the addresses of a process: take what there is. */
  for (; wanted >= uint64_t{1} << 30; wanted /= 2) {
    size_t whole = wanted + large;
    void *addresses = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED)
      continue;
    void *memory = MAP_FAILED;
    if (ftruncate(file, static_cast<off_t>(wanted)) == 0)
      memory = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED) {
      munmap(addresses, whole);
      continue;
    }
    madvise(memory, wanted, MADV_DONTDUMP);
    madvise(memory, wanted, MADV_DONTFORK);
    first = round_up(reinterpret_cast<uint64_t>(addresses), large);
    length = wanted;
    backing = static_cast<std::byte *>(memory);
    return true;
  }
  ::close(file);
  file = -1;
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
  punch(base, size);
  vacant[footprint(size)].push_back(base);
}

void Arena::punch(uint64_t base, uint64_t size) {
  uint64_t from = round_up(base - first, page), to = (base - first + size) / page * page;
  if (to > from)
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
              static_cast<off_t>(to - from));
}

Physical::~Physical() {
  device->discharge(size);
  state().arena.give_back(base, size);
}

} // namespace sim
