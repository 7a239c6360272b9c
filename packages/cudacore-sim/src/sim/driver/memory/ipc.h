/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_MEMORY_IPC_H
#define CUDACORE_SIM_DRIVER_MEMORY_IPC_H

#include "sim/driver/base/state.h"

namespace sim {

enum class Shared : uint32_t { memory = 1, event, pool, pool_memory, physical };

/*
 * What a process tells of something that it shares, in one of its files. The name is drawn at random and is 0 when the
 * thing is gone, so that a handle that outlived it is found out. Several processes read and write it at a time.
 */
struct Record {
  uint64_t name;
  Shared kind;
  int32_t device;
  uint64_t offset, size;         /* where the memory is in the file */
  uint64_t submitted, completed; /* of an event: how often it was recorded, and the last record that is done */
  int32_t recorder;              /* the process that recorded it last */
};

/* The first page of a file that is handed over as a descriptor. */
struct Header {
  Record record;
  CUmemPoolProps pool;
  CUmemAllocationProp physical;
};
static_assert(sizeof(Header) <= Arena::file_header);

/* What the handles of cuIpcGet*Handle and cuMemPoolExportPointer hold, which are 64 bytes that the program carries. */
struct Reference {
  uint64_t seal;         /* of the bytes that follow */
  uint64_t name, offset; /* of the record */
  Shared kind;
  int32_t process, descriptor; /* where the file is; a pool's is known */
  uint32_t count;              /* memory of pools can have another handle each time, as on an H200 */
  uint32_t reserved[6];
};
static_assert(sizeof(Reference) == CU_IPC_HANDLE_SIZE && sizeof(Reference) == sizeof(CUmemPoolPtrExportData));

/* A record of this process. */
class Export {
public:
  static std::unique_ptr<Export> make(Arena &arena, Shared kind, const Device *device);
  ~Export();
  Export(const Export &) = delete;
  Export &operator=(const Export &) = delete;

  /* Nobody can open it from now on. Whether another process has it open. */
  bool withdraw();
  Reference reference(uint32_t count = 0) const;
  Record &record() const { return *entry; }

private:
  Export(Arena &arena, uint64_t address, Shared kind, const Device *device);

  Arena &arena;
  const uint64_t address; /* of the record in the arena */
  Record *const entry;
};

/* A hold on a record of another process. */
class Import {
public:
  Import(std::shared_ptr<SharedFile> file, uint64_t offset, uint64_t name)
      : file(std::move(file)), offset(offset), name(name) {}
  ~Import() { file->let_go(offset); }
  Import(const Import &) = delete;
  Import &operator=(const Import &) = delete;

  const std::shared_ptr<SharedFile> file;
  const uint64_t offset; /* of the record */
  const uint64_t name;
};

/*
 * Holds the record that a handle names, and copies it; null: it is gone, or no such thing. `file` null: it is in that
 * of the process that the handle names.
 */
std::shared_ptr<Import> import_reference(const void *handle, std::shared_ptr<SharedFile> file, Shared kind,
                                         Record &copy);

/* Makes a file one that can be handed over: it is good for as long as anybody has it. */
void write_header(SharedFile &file, Header header, Shared kind, const Device *device);

/* A file that was handed over as a descriptor, and its header; null: it is something else. */
std::unique_ptr<SharedFile> import_descriptor(const void *descriptor, Shared kind, Header &copy);

CUresult device_of(const Record &record, Device *&out); /* null for memory of the host */

/* The state of an event with CU_EVENT_INTERPROCESS, which all processes that have it see. */
struct SharedEvent {
  std::unique_ptr<Export> mine; /* or */
  std::shared_ptr<Import> theirs;
  Record *record = nullptr;
  uint64_t recorded_here = 0; /* the last record that is this process's */
  uint64_t awaited = 0;       /* the last record that is another's and that somebody here waits for */

  static std::shared_ptr<SharedEvent> make(const Device &device);
  static std::shared_ptr<SharedEvent> open(const CUipcEventHandle &handle, Device *&device);

  uint64_t submit();
  void complete(uint64_t number);
  uint64_t submitted() const;
  bool is_complete(uint64_t number) const; /* also where the process that recorded it has ended */
};

} // namespace sim

#endif
