/* SPDX-License-Identifier: Apache-2.0 */
/* Files in memory that processes share. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sim/driver/base/shared_file.h"
#include "sim/driver/base/host_memory.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sim {
namespace {

constexpr char name[] = "cudacore-sim";
constexpr char link[] = "/memfd:cudacore-sim (deleted)";
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

} // namespace

std::unique_ptr<SharedFile> SharedFile::create(uint64_t size) {
  std::unique_ptr<SharedFile> file(new SharedFile);
  file->descriptor = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  file->length = size;
  if (file->descriptor < 0 || ftruncate(file->descriptor, static_cast<off_t>(size)) != 0 ||
      fcntl(file->descriptor, F_ADD_SEALS, seals) != 0 || !file->map(0, size))
    return nullptr;
  return file;
}

std::unique_ptr<SharedFile> SharedFile::open(int process, int descriptor) {
  if (process <= 0 || descriptor < 0)
    return nullptr;
  char path[64], target[sizeof link];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", process, descriptor);
  /* The target is checked first, because opening some files has side effects, or blocks. */
  ssize_t bytes = readlink(path, target, sizeof target);
  if (bytes != sizeof link - 1 || std::memcmp(target, link, sizeof link - 1) != 0)
    return nullptr;
  std::unique_ptr<SharedFile> file(new SharedFile);
  file->descriptor = ::open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status{};
  if (file->descriptor < 0 || fstat(file->descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
      (fcntl(file->descriptor, F_GET_SEALS) & seals) != seals)
    return nullptr;
  file->length = static_cast<uint64_t>(status.st_size);
  return file;
}

SharedFile::~SharedFile() {
  if (window != nullptr)
    munmap(window, window_length);
  if (descriptor >= 0)
    close(descriptor);
}

bool SharedFile::map(uint64_t from, uint64_t bytes) {
  uint64_t start = page_below(from);
  if (window != nullptr || bytes == 0 || from > length || bytes > length - from)
    return false;
  void *memory = mmap(nullptr, from - start + bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor,
                      static_cast<off_t>(start));
  if (memory == MAP_FAILED)
    return false;
  window = static_cast<std::byte *>(memory);
  window_start = start;
  window_length = from - start + bytes;
  madvise(window, window_length, MADV_DONTDUMP);
  madvise(window, window_length, MADV_DONTFORK);
  return true;
}

bool SharedFile::read(uint64_t offset, void *out, size_t bytes) const {
  return offset <= length && pread(descriptor, out, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

void SharedFile::punch(uint64_t offset, uint64_t bytes) {
  uint64_t from = page_above(offset), to = page_below(offset + bytes);
  if (to > from)
    fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
              static_cast<off_t>(to - from));
}

bool SharedFile::lock(uint64_t offset, int kind) const {
  struct flock range{};
  range.l_type = static_cast<short>(kind);
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(offset);
  range.l_len = 1;
  return fcntl(descriptor, F_OFD_SETLK, &range) == 0;
}

bool SharedFile::hold(uint64_t offset) { return lock(offset, F_RDLCK); }
void SharedFile::let_go(uint64_t offset) { lock(offset, F_UNLCK); }

bool SharedFile::is_held_by_others(uint64_t offset) const {
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(offset);
  range.l_len = 1;
  return fcntl(descriptor, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

int SharedFile::duplicate(bool close_on_exec) const {
  return fcntl(descriptor, close_on_exec ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
}

} // namespace sim
