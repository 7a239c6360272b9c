/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates device addresses and their memory. */
#include "sim/driver/base/memory.h"
#include "sim/driver/base/host_memory.h"
#include "sim/driver/base/state.h"

#include "sim/control/report.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace sim {
namespace {

constexpr uint64_t small_alignment = 512;

/* The bytes that stay free after every allocation, so that accesses beyond its end are detected. */
constexpr uint64_t gap = 256;

/*
 * Freed memory is reused late, so that reports can still describe it: after max_resting other frees, or as soon as
 * freed memory is more than 1 / resting_part of all memory.
 */
constexpr size_t max_resting = 4096;
constexpr uint64_t resting_part = 4;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t max_addresses = uint64_t{1} << 38; /* the sanitizers use the addresses above this limit */
#else
constexpr uint64_t max_addresses = uint64_t{1} << 43;
#endif

uint64_t round_up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

} // namespace

uint64_t Arena::file_header() { return system_page(); }

bool Arena::open(uint64_t wanted) {
  wanted = wanted < max_addresses ? round_up(wanted, large) : max_addresses;
  /* A container may limit the address space of a process, so a smaller range is accepted. */
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
    insert(0, length);
    if (config().checks.init) {
      void *room = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (room == MAP_FAILED)
        note("CUDACORE_SIM_CHECK=init looks at no device memory: there are no addresses left for its marks");
      else
        marks = static_cast<std::byte *>(room);
    }
    return true;
  }
  return false;
}

bool Arena::open_file(uint64_t wanted) {
  wanted = round_up(wanted < max_addresses / 4 ? wanted : max_addresses / 4, large);
  for (; wanted >= large; wanted /= 2)
    if ((behind = SharedFile::create(wanted)) != nullptr) {
      length = wanted;
      insert(file_header(), length - file_header());
      return true;
    }
  return false;
}

std::byte *Arena::written(const std::byte *host) const {
  return marks != nullptr && host >= behind->at(0) && offset(host) < length ? marks + offset(host) : nullptr;
}

/* Clears the marks. Whole pages go back to the system: most of an allocation may never be used, and needs no marks. */
void Arena::forget_writes(uint64_t base, uint64_t size) {
  if (marks == nullptr)
    return;
  uint64_t begin = value_of(marks + offset(base)), end = begin + size;
  uint64_t from = std::min(page_above(begin), end), to = std::max(page_below(end), from);
  if (to > from && madvise(handle_of<void *>(from), to - from, MADV_DONTNEED) != 0)
    from = to = end;
  std::memset(handle_of<void *>(begin), 0, from - begin);
  std::memset(handle_of<void *>(to), 0, end - to);
}

uint64_t Arena::footprint(uint64_t size) { return round_up(size + gap, size + gap < large ? small_alignment : large); }

void Arena::insert(uint64_t start, uint64_t bytes) {
  if (bytes == 0)
    return;
  vacant[start] = bytes;
  vacant_by_size.insert({bytes, start});
}

void Arena::erase(std::map<uint64_t, uint64_t>::iterator range) {
  vacant_by_size.erase({range->second, range->first});
  vacant.erase(range);
}

/* Merges a freed range with adjacent vacant ranges. */
void Arena::vacate(uint64_t start, uint64_t bytes) {
  uint64_t from = start, to = start + bytes;
  auto after = vacant.upper_bound(start);
  if (after != vacant.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == start) {
      from = before->first;
      erase(before);
    }
  }
  if (after != vacant.end() && after->first == to) {
    to += after->second;
    erase(after);
  }
  insert(from, to - from);
  /* A page that the freed range shared with its neighbours may now be completely vacant. */
  uint64_t low = std::max(from, page_below(start)), high = std::min(to, page_above(start + bytes));
  behind->punch(low, high - low);
}

/* Takes the first part of the smallest vacant range that is large enough. */
bool Arena::cut(uint64_t bytes, uint64_t &start) {
  uint64_t alignment = bytes >= large ? large : small_alignment;
  for (auto fitting = vacant_by_size.lower_bound({bytes, 0}); fitting != vacant_by_size.end(); ++fitting) {
    auto [size, from] = *fitting;
    start = round_up(from, alignment);
    if (start - from > size - bytes)
      continue;
    erase(vacant.find(from));
    insert(from, start - from);
    insert(start + bytes, from + size - (start + bytes));
    return true;
  }
  return false;
}

void Arena::end_rest() {
  auto [start, bytes] = resting.front();
  resting.pop_front();
  resting_bytes -= bytes;
  vacate(start, bytes);
}

uint64_t Arena::take(uint64_t size) {
  if (size > length)
    return 0;
  uint64_t start = 0, bytes = footprint(size);
  while (!cut(bytes, start)) {
    if (resting.empty())
      return 0;
    end_rest();
  }
  forget_writes(first + start, size); /* a kernel may have used the memory after its free */
  return first + start;
}

bool Arena::take_at(uint64_t address, uint64_t bytes) {
  if (!contains(address) || bytes > length - offset(address))
    return false;
  uint64_t start = offset(address);
  auto after = vacant.upper_bound(start);
  if (after == vacant.begin())
    return false;
  auto range = std::prev(after);
  auto [from, size] = *range;
  if (start + bytes > from + size)
    return false;
  erase(range);
  insert(from, start - from);
  insert(start + bytes, from + size - (start + bytes));
  return true;
}

void Arena::give_back(uint64_t base, uint64_t size) { give_back_exactly(base, footprint(size)); }

void Arena::give_back_exactly(uint64_t base, uint64_t bytes) {
  behind->punch(offset(base), bytes);
  forget_writes(base, bytes); /* returns the memory of the marks */
  resting.push_back({offset(base), bytes});
  resting_bytes += bytes;
  while (resting.size() > max_resting || resting_bytes > length / resting_part)
    end_rest();
}

std::byte *Physical::host() const {
  return file != nullptr ? file->at(Arena::file_header()) : state().arena.host(base);
}

Physical::~Physical() {
  if (device != nullptr && !imported)
    device->discharge(size);
  if (base != 0)
    state().arena.give_back(base, size);
}

} // namespace sim
