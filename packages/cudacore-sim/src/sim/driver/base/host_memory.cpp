/* SPDX-License-Identifier: Apache-2.0 */
/* Queries memory of the application without accessing it. */
#include "sim/driver/base/host_memory.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace sim {
namespace {

constexpr uint64_t page = 4096;

bool is_range(uint64_t address, uint64_t bytes) { return address != 0 && bytes != 0 && bytes <= UINT64_MAX - address; }

/* Committing this much takes longer than reading the list of mappings. */
constexpr uint64_t much = 4 << 20;

enum class Of { any, no_file };

/* Reads the system's list of mappings. It does not show that a file has become shorter than its mapping. */
bool is_listed(uint64_t address, uint64_t end, bool write, Of what) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> maps(std::fopen("/proc/self/maps", "re"), std::fclose);
  if (maps == nullptr)
    return what == Of::any;
  char *line = nullptr;
  size_t capacity = 0;
  uint64_t from = 0, to = 0, file = 0;
  char readable = 0, writable = 0;
  while (address < end && getline(&line, &capacity, maps.get()) > 0)
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %c%c%*s %*s %*s %" SCNu64, &from, &to, &readable, &writable,
                    &file) == 5 &&
        to > address) {
      if (from > address || readable != 'r' || (write && writable != 'w') || (what == Of::no_file && file != 0))
        break;
      address = to;
    }
  std::free(line);
  return address >= end;
}

} // namespace

bool is_usable(uint64_t address, uint64_t bytes, bool write) {
  if (!is_range(address, bytes))
    return false;
  uint64_t start = address / page * page, end = address + bytes;
  if (bytes >= much && is_listed(address, end, write, Of::no_file))
    return true;
  if (madvise(reinterpret_cast<void *>(start), end - start, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
    return true;
  /* No permission, memory of a device, or Linux before 5.14: they cannot be distinguished. */
  return errno == EINVAL && is_listed(address, end, write, Of::any);
}

bool is_mapped(uint64_t address, uint64_t bytes) {
  uint64_t start = address / page * page;
  return is_range(address, bytes) && msync(reinterpret_cast<void *>(start), address + bytes - start, MS_ASYNC) == 0;
}

} // namespace sim
