/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_MEMORY_IPC_H
#define CUDACORE_SIM_DRIVER_MEMORY_IPC_H

#include "sim/driver/base/state.h"

namespace sim {

enum class Shared : uint32_t { memory = 1, event, pool, pool_memory, physical };

/*
 * The data that a process publishes about a shared object, in one of its files. The name of the record is random, and
 * becomes 0 when the object is destroyed, so that stale handles are detected. Several processes read and write a record
 * at the same time.
 */
struct Record {
  uint64_t name;
  Shared kind;
  int32_t device;
  uint64_t offset, size;         /* the offset of the memory in the file */
  uint64_t submitted, completed; /* for an event: the numbers of its last record and of its last completed record */
  int32_t recorder;              /* the process that recorded the event last */
};

/* The first page of a file that is shared by its descriptor. */
struct Header {
  Record record;
  CUmemPoolProps pool;
  CUmemAllocationProp physical;
};
static_assert(sizeof(Header) <= 4096); /* the smallest page: see Arena::file_header() */

/* The contents of the 64 bytes of handles of cuIpcGet*Handle and cuMemPoolExportPointer. */
struct Reference {
  uint64_t seal;         /* checksum of the bytes that follow */
  uint64_t name, offset; /* name and offset of the record */
  Shared kind;
  int32_t process, descriptor; /* the process, and its descriptor of the file; not used for pools */
  uint32_t count;              /* makes each handle of pooled memory different, as on an H200 */
  uint32_t reserved[6];
};
static_assert(sizeof(Reference) == CU_IPC_HANDLE_SIZE && sizeof(Reference) == sizeof(CUmemPoolPtrExportData));

/* The record of an object that this process shares with others. */
class Export {
public:
  static std::unique_ptr<Export> make(Arena &arena, Shared kind, const Device *device);
  ~Export();
  Export(const Export &) = delete;
  Export &operator=(const Export &) = delete;

  /* Prevents other processes from opening the object. Returns whether another process still has the object open. */
  bool withdraw();
  Reference reference(uint32_t count = 0) const;
  Record &record() const { return *entry; }

private:
  Export(Arena &arena, uint64_t address, Shared kind, const Device *device);

  Arena &arena;
  const uint64_t address; /* the address of the record in the arena */
  Record *const entry;
};

/*
 * Holds the record that a handle names, and copies the record to `copy`. Null: the record no longer exists. If `file`
 * is null, the record is in the file of the process that the handle names.
 */
std::shared_ptr<Import> import_reference(const void *handle, std::shared_ptr<SharedFile> file, Shared kind,
                                         Record &copy);

/* Writes the header that makes a file importable. The file exists as long as any process has it open. */
void write_header(SharedFile &file, Header header, Shared kind, const Device *device);

/* Opens a file by a descriptor from another process, and reads its header. Null: the file has no such header. */
std::unique_ptr<SharedFile> import_descriptor(const void *descriptor, Shared kind, Header &copy);

CUresult device_of(const Record &record, Device *&out); /* `out` is null for memory of the host */

/* The state of an event with CU_EVENT_INTERPROCESS, which all its processes share. */
struct SharedEvent {
  std::unique_ptr<Export> mine;   /* set if this process has created the event */
  std::shared_ptr<Import> theirs; /* set if another process has created the event */
  Record *record = nullptr;
  uint64_t recorded_here = 0; /* the number of the last record that this process has submitted */
  uint64_t awaited = 0;       /* the number of the last record of another process that work in this process waits for */

  static std::shared_ptr<SharedEvent> make(const Device &device);
  static std::shared_ptr<SharedEvent> open(const CUipcEventHandle &handle, Device *&device);

  uint64_t submit();
  void complete(uint64_t number);
  uint64_t submitted() const;
  bool is_complete(uint64_t number) const; /* also works if the process that recorded the event has ended */
};

} // namespace sim

#endif
