/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_SHARED_FILE_H
#define CUDACORE_SIM_DRIVER_BASE_SHARED_FILE_H

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sim {

/*
 * A file in memory that processes share. This process made it, or opened it by a descriptor. It has no name, so it
 * disappears when the last process that has it open ends in any way. It is sealed, so that it can never become shorter
 * than its mappings.
 *
 * A process that uses a part of another process's file holds that part. Holds are locks of the open file, and end when
 * it is closed.
 */
class SharedFile {
public:
  static std::unique_ptr<SharedFile> create(uint64_t size); /* mapped as a whole; null if memory ran out */

  /* Opens the file that a process has at `descriptor`. Null: no such descriptor, or not a file of a simulator. */
  static std::unique_ptr<SharedFile> open(int process, int descriptor);

  ~SharedFile();
  SharedFile(const SharedFile &) = delete;
  SharedFile &operator=(const SharedFile &) = delete;

  bool map(uint64_t from, uint64_t length); /* maps one part of the file; called once */
  std::byte *at(uint64_t offset) const { return window + (offset - window_start); }
  bool read(uint64_t offset, void *out, size_t bytes) const;
  void punch(uint64_t offset, uint64_t bytes); /* returns whole pages to the system */

  bool hold(uint64_t offset);
  void let_go(uint64_t offset);
  bool is_held_by_others(uint64_t offset) const;

  /* A descriptor of the same file, to be sent to other processes; negative if there is none. */
  int duplicate(bool close_on_exec) const;
  int number() const { return descriptor; }
  uint64_t size() const { return length; }

private:
  SharedFile() = default;
  bool lock(uint64_t offset, int kind) const;

  int descriptor = -1;
  uint64_t length = 0;
  std::byte *window = nullptr;
  uint64_t window_start = 0, window_length = 0;
};

/* A hold on a record in another process's file (driver/memory/ipc.h). The record describes a shared object. */
class Import {
public:
  Import(std::shared_ptr<SharedFile> file, uint64_t offset, uint64_t name)
      : file(std::move(file)), offset(offset), name(name) {}
  ~Import() { file->let_go(offset); }
  Import(const Import &) = delete;
  Import &operator=(const Import &) = delete;

  const std::shared_ptr<SharedFile> file;
  const uint64_t offset; /* offset of the record */
  const uint64_t name;
};

} // namespace sim

#endif
