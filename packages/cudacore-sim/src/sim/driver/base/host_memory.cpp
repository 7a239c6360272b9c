/* SPDX-License-Identifier: Apache-2.0 */
/* Queries memory of the application without accessing it. */
#include "sim/driver/base/host_memory.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <linux/magic.h>
#include <memory>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace sim {
namespace {

bool is_range(uint64_t address, uint64_t bytes) { return address != 0 && bytes != 0 && bytes <= UINT64_MAX - address; }

/* Committing this many bytes takes longer than reading the list of mappings. */
constexpr uint64_t much = 4 << 20;

/* A line of the system's list of mappings. */
struct Mapping {
  uint64_t from = 0, to = 0, file = 0; /* `file`: the inode; 0: the memory has no file */
  char readable = 0, writable = 0, executable = 0, sharing = 0;
  const char *path = ""; /* valid until the next line is read */
};

/*
 * Whether all mappings from one address to another fulfil a condition. False if there is a gap between mappings. The
 * list does not show that a file has become shorter than its mapping. `unknown`: the result if there is no list.
 */
template <class Condition> bool all_mappings(uint64_t address, uint64_t end, bool unknown, const Condition &condition) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> maps(std::fopen("/proc/self/maps", "re"), std::fclose);
  if (maps == nullptr)
    return unknown;
  char *line = nullptr;
  size_t capacity = 0;
  Mapping found;
  int path = 0;
  while (address < end && getline(&line, &capacity, maps.get()) > 0)
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %c%c%c%c %*s %*s %" SCNu64 " %n", &found.from, &found.to,
                    &found.readable, &found.writable, &found.executable, &found.sharing, &found.file, &path) == 7 &&
        found.to > address) {
      line[std::strcspn(line, "\n")] = '\0';
      found.path = line + path;
      if (found.from > address || !condition(found))
        break;
      address = found.to;
    }
  std::free(line);
  return address >= end;
}

bool is_accessible(const Mapping &mapping, bool write) {
  return mapping.readable == 'r' && (!write || mapping.writable == 'w');
}

/* Whether a mapped file is in a file system in memory. Also true if its file system cannot be determined. */
bool is_in_memory(const char *path) {
  struct statfs system;
  return statfs(path, &system) != 0 || system.f_type == TMPFS_MAGIC || system.f_type == HUGETLBFS_MAGIC;
}

} // namespace

uint64_t system_page() {
  static const uint64_t size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return size;
}

bool is_usable(uint64_t address, uint64_t bytes, bool write) {
  if (!is_range(address, bytes))
    return false;
  uint64_t start = page_below(address), end = address + bytes;
  if (bytes >= much && all_mappings(address, end, false, [write](const Mapping &mapping) {
        return is_accessible(mapping, write) && mapping.file == 0;
      }))
    return true;
  if (madvise(reinterpret_cast<void *>(start), end - start, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
    return true;
  /* EINVAL means: no permission, memory of a device, or Linux before 5.14. So the list of mappings decides. */
  return errno == EINVAL &&
         all_mappings(address, end, true, [write](const Mapping &mapping) { return is_accessible(mapping, write); });
}

bool is_mapped(uint64_t address, uint64_t bytes) {
  uint64_t start = page_below(address);
  return is_range(address, bytes) && msync(reinterpret_cast<void *>(start), address + bytes - start, MS_ASYNC) == 0;
}

bool can_be_pinned_for_writing(uint64_t address, uint64_t bytes) {
  return all_mappings(address, address + bytes, true, [](const Mapping &mapping) {
    return mapping.file == 0 || mapping.sharing != 's' || is_in_memory(mapping.path);
  });
}

} // namespace sim
