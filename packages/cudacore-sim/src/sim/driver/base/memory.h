/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_MEMORY_H
#define CUDACORE_SIM_DRIVER_BASE_MEMORY_H

#include "sim/engine.h"
#include "sim/driver/base/api.h"
#include "sim/driver/base/shared_file.h"

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace sim {

class Export;
class Import;
struct Hints;
struct Context;
struct Device;
struct GraphMemory;
struct Pool;

/*
 * The device addresses: a range in which nothing is mapped, so that host code that dereferences a device address
 * crashes. The contents are in a file in memory, which is mapped elsewhere and committed page by page. When memory is
 * freed, its pages are returned to the system. Its addresses are reused late, so that use after free is detected.
 */
class Arena {
public:
  static constexpr uint64_t large = 2 << 20; /* alignment of large allocations, as on a GPU */
  static uint64_t file_header();             /* what follows it in a file can be mapped */

  bool open(uint64_t wanted);
  bool open_file(uint64_t wanted); /* no device addresses: take() returns offsets, from file_header on */
  uint64_t take(uint64_t size);    /* 0: no addresses left */
  void give_back(uint64_t base, uint64_t size);
  /* `bytes` of the next functions is the number of bytes that an allocation uses in the arena: footprint(size). */
  static uint64_t footprint(uint64_t size);
  bool take_at(uint64_t address, uint64_t bytes); /* false: the address is in use */
  void give_back_exactly(uint64_t base, uint64_t bytes);
  bool contains(uint64_t address) const { return address - first < length; }
  std::byte *host(uint64_t address) const { return behind->at(offset(address)); }
  uint64_t offset(uint64_t address) const { return address - first; } /* the offset in the file */
  uint64_t offset(const std::byte *host) const { return static_cast<uint64_t>(host - behind->at(0)); }
  SharedFile &file() const { return *behind; }
  /* The marks of memory: for each byte, a byte that shows whether it was written. Null: the memory has no marks. */
  std::byte *written(const std::byte *host) const;
  void forget_writes(uint64_t base, uint64_t size); /* marks bytes as not written; take() calls this */

private:
  void insert(uint64_t start, uint64_t bytes);
  void erase(std::map<uint64_t, uint64_t>::iterator range);
  void vacate(uint64_t start, uint64_t bytes);
  bool cut(uint64_t bytes, uint64_t &start);
  void end_rest();

  /* Offsets from `first`. Vacant ranges are merged with adjacent ones. */
  uint64_t first = 0, length = 0, resting_bytes = 0;
  std::unique_ptr<SharedFile> behind;
  std::byte *marks = nullptr;                             /* see written(); null: no marks */
  std::map<uint64_t, uint64_t> vacant;                    /* free ranges: start -> bytes */
  std::set<std::pair<uint64_t, uint64_t>> vacant_by_size; /* the same ranges as (bytes, start) */
  std::deque<std::pair<uint64_t, uint64_t>> resting;      /* freed and not reused yet: start, bytes; oldest first */
};

/* Physical memory of cuMemCreate, and other memory that can be mapped. */
struct Physical {
  Device *device = nullptr;         /* null: memory of the host */
  uint64_t base = 0;                /* address in the arena; programs never get it */
  std::unique_ptr<SharedFile> file; /* a separate file with the memory, after a header; null: the arena's file */
  bool imported = false;
  uint64_t size = 0;
  CUmemAllocationProp properties{};
  uint64_t handle = 0;
  std::byte *host() const; /* where the memory is mapped on the host */
  uint64_t references = 1; /* references by handles; a mapping keeps the object itself alive */
  ~Physical();
};

struct Allocation {
  enum class Kind { device, pooled, pinned, registered, managed, mapped, imported, graph };
  Allocation(Kind kind, uint64_t base, uint64_t size, std::byte *host, Device *device)
      : kind(kind), base(base), size(size), host(host), device(device) {}

  Kind kind;
  uint64_t base, size;
  std::byte *host; /* the address of the memory on the host; equal to `base` if host code can use that */
  Device *device;
  std::weak_ptr<Context> context; /* the context that allocated the memory; null for pooled and mapped memory */
  std::shared_ptr<Pool> pool;
  std::shared_ptr<Physical> physical; /* for mapped memory: the physical memory */
  std::weak_ptr<GraphMemory> node;    /* for memory of graphs; expires with the last graph that allocates it */
  uint64_t offset = 0;                /* for mapped memory: where it begins in its physical memory */
  bool on_host = false;               /* mapped memory that host code may also use, at its device address */
  std::shared_ptr<Export> exported;   /* set if other processes can open the memory */
  std::shared_ptr<Import> import;     /* set if another process exported the memory or its pool */
  unsigned opens = 1;                 /* how often cuIpcOpenMemHandle has opened imported memory */
  std::shared_ptr<Hints> hints;       /* for managed memory */
  uint64_t id = 0;                    /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
  uint64_t number = 0;                /* from number_object() */
  unsigned flags = 0;
  bool read_only = false;   /* registered with CU_MEMHOSTREGISTER_READ_ONLY */
  bool sync_memops = false; /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
  bool internal = false;    /* a variable of a module, which cannot be freed by address */
  bool is_array = false;    /* internal memory of an array, whose address programs cannot get */
  bool visible = true;      /* running work may use the memory; pooled memory: from its allocation to its free */
  bool freed = false;       /* freed by cuMemFreeAsync, or not yet allocated by a launch of its graph */
  std::vector<std::pair<int, bool>>
      access;                 /* the devices on which the memory is mapped, and whether each may write; empty: none */
  std::byte *written() const; /* like Arena::written(); null if the host or another process writes, too */
  bool is_managed() const;    /* managed memory, or memory of a pool of managed memory */
  bool host_accessible() const { return on_host || reinterpret_cast<uint64_t>(host) == base; }
  uint64_t end() const { return base + size; }
  std::shared_ptr<const void> backing() const; /* an object that keeps the memory mapped; null: it is never unmapped */
};

using AllocationPtr = std::shared_ptr<Allocation>;

const char *describe(const Allocation &allocation);

/* Whether work of a context may use the memory. */
bool may_access(const Context &context, const Allocation &allocation, bool write);

/* All allocations and mappings. Functions are called with the state's lock held. */
class Memory {
public:
  void add(AllocationPtr allocation);
  void remove(const AllocationPtr &allocation, const char *by);
  AllocationPtr find(uint64_t address) const; /* the allocation that contains the address, even if it is being freed */
  std::vector<AllocationPtr> all() const;
  std::vector<AllocationPtr> overlapping(uint64_t address, uint64_t size) const; /* in the order of their addresses */

  /*
   * Whether [address, address + size) is in one allocation or in adjacent mappings, and may be copied: by a call now,
   * by running work, or by a graph that runs later. Copies between devices need no peer access, but need access to
   * pools and mappings, which have their own access rights.
   */
  enum class Check { copy, copy_at_run, node };
  bool accessible(const Context &context, uint64_t address, uint64_t size, bool write, Check check) const;

  void changed() { version++; }
  std::shared_ptr<const MemoryMap> map_for(Context &context);

  /* Describes an address: the allocation that it is in, was in, or is nearest to. */
  std::string explain(uint64_t address) const;

  uint64_t next_id = 1;

private:
  struct Freed {
    uint64_t base, size, id;
    const char *kind, *by;
  };
  void hide_unmapped();

  std::map<uint64_t, AllocationPtr> allocations;
  std::set<AllocationPtr> registered; /* registered host memory, which the application may unmap */
  std::deque<Freed> history;
  uint64_t version = 1;
};

} // namespace sim

#endif
