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
 * Device addresses: a range in which nothing is mapped, so that host code that dereferences one crashes, and a file in
 * memory that holds what is there, mapped elsewhere. Memory is committed when it is touched. What is freed gives its
 * pages back, and its addresses are not used again for long, so that use after free is seen.
 */
class Arena {
public:
  static constexpr uint64_t large = 2 << 20; /* and its multiples: alignment of what is not small, as on a GPU */
  static constexpr uint64_t file_header = 4096;

  bool open(uint64_t wanted);
  bool open_file(uint64_t wanted); /* a file without addresses: offsets take their place; file_header bytes are left */
  uint64_t take(uint64_t size);    /* 0: no addresses left */
  void give_back(uint64_t base, uint64_t size);
  /* The same by the bytes that are really taken: footprint(size), or what take_at() was asked for. */
  static uint64_t footprint(uint64_t size);
  bool take_at(uint64_t address, uint64_t bytes); /* just there; false: it is not vacant */
  void give_back_exactly(uint64_t base, uint64_t bytes);
  bool contains(uint64_t address) const { return address - first < length; }
  std::byte *host(uint64_t address) const { return behind->at(offset(address)); }
  uint64_t offset(uint64_t address) const { return address - first; } /* in the file */
  uint64_t offset(const std::byte *host) const { return static_cast<uint64_t>(host - behind->at(0)); }
  SharedFile &file() const { return *behind; }
  /* A byte for each, which says whether something was written there; null: it is elsewhere, or that is not kept. */
  std::byte *written(const std::byte *host) const;
  void forget_writes(uint64_t base, uint64_t size); /* take() does so */

private:
  void insert(uint64_t start, uint64_t bytes);
  void erase(std::map<uint64_t, uint64_t>::iterator range);
  void vacate(uint64_t start, uint64_t bytes);
  bool cut(uint64_t bytes, uint64_t &start);
  void end_rest();

  /* Offsets from `first`. Of vacant ranges no two touch: what is freed is joined with its neighbours. */
  uint64_t first = 0, length = 0, resting_bytes = 0;
  std::unique_ptr<SharedFile> behind;
  std::byte *marks = nullptr;                             /* for all of it; null: nobody asked for them */
  std::map<uint64_t, uint64_t> vacant;                    /* start: bytes */
  std::set<std::pair<uint64_t, uint64_t>> vacant_by_size; /* the same: bytes, start */
  std::deque<std::pair<uint64_t, uint64_t>> resting; /* freed, not yet to be used again: start, bytes; oldest first */
};

/* Physical memory of cuMemCreate, and what else can be mapped. */
struct Physical {
  Device *device = nullptr;         /* null: of the host */
  uint64_t base = 0;                /* in the arena, where it is backed; never given out */
  std::unique_ptr<SharedFile> file; /* or it is backed by a file of its own, behind its header */
  bool imported = false;
  uint64_t size = 0;
  CUmemAllocationProp properties{};
  uint64_t handle = 0;
  std::byte *host() const; /* where it really is */
  uint64_t references = 1; /* of handles; mappings hold the object itself */
  ~Physical();
};

struct Allocation {
  enum class Kind { device, pooled, pinned, registered, managed, mapped, imported, graph };
  Kind kind = Kind::device;
  uint64_t base = 0, size = 0;
  std::byte *host = nullptr; /* where it really is; equal to base where the host can use it */
  Device *device = nullptr;
  std::weak_ptr<Context> context; /* that it was made in; pooled and mapped memory has none */
  std::shared_ptr<Pool> pool;
  std::shared_ptr<Physical> physical; /* mapped */
  std::weak_ptr<GraphMemory> node;    /* graph: gone with the last graph that allocates it */
  uint64_t offset = 0;                /* mapped: in it */
  bool on_host = false;               /* mapped: host code may use it at its address, too */
  std::shared_ptr<Export> exported;   /* known to other processes */
  std::shared_ptr<Import> import;     /* memory of another process: imported, or pooled in an imported pool */
  unsigned opens = 1;                 /* imported: by cuIpcOpenMemHandle */
  std::shared_ptr<Hints> hints;       /* managed */
  uint64_t id = 0;                    /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
  unsigned flags = 0;
  bool sync_memops = false;                 /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
  bool internal = false;                    /* a variable of a module: nobody frees it by its address */
  bool visible = true;                      /* to work that runs now; pooled memory: from its allocation to its free */
  bool freed = false;                       /* cuMemFreeAsync was called; or no graph that allocates it was launched */
  std::vector<std::pair<int, bool>> access; /* mapped: device, and whether it may write; empty: nobody */
  std::byte *written() const; /* as Arena::written(); null where others write, too: the host, another process */
  bool is_managed() const;    /* by itself, or in a pool of such memory */
  bool host_accessible() const { return on_host || reinterpret_cast<uint64_t>(host) == base; }
  uint64_t end() const { return base + size; }
  std::shared_ptr<const void> backing() const; /* what is unmapped with the last of its memory; null: nothing is */
};

using AllocationPtr = std::shared_ptr<Allocation>;

const char *describe(const Allocation &allocation);

/* Whether work of a context may use the memory. */
bool may_access(const Context &context, const Allocation &allocation, bool write);

/* All memory that CUDA knows. Functions are called with the state's lock held. */
class Memory {
public:
  void add(AllocationPtr allocation);
  void remove(const AllocationPtr &allocation, const char *by);
  AllocationPtr find(uint64_t address) const; /* that contains it, also one that is being freed */
  std::vector<AllocationPtr> all() const;

  /*
   * Whether [address, address + size) is in one allocation, or in mappings side by side, and may be copied: by a call
   * that is made now, by work that runs now, or by a graph that runs later. Copies between devices need no peer
   * access, but that to pools and mappings which these have by themselves.
   */
  enum class Check { copy, copy_at_run, node };
  bool accessible(const Context &context, uint64_t address, uint64_t size, bool write, Check check) const;

  void changed() { version++; }
  uint64_t current_version() const { return version; }
  std::shared_ptr<const MemoryMap> map_for(Context &context);

  /* The allocation that an address was in or is nearest to, in words. */
  std::string explain(uint64_t address) const;

  uint64_t next_id = 1;

private:
  struct Freed {
    uint64_t base, size, id;
    const char *kind, *by;
  };
  void hide_unmapped();

  std::map<uint64_t, AllocationPtr> allocations;
  std::set<AllocationPtr> registered; /* those of them that the application may unmap */
  std::deque<Freed> history;
  uint64_t version = 1;
};

/* What may be done with an allocation on a device. */
bool may_access(const Context &context, const Allocation &allocation, bool write);

} // namespace sim

#endif
