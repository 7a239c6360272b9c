/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_CHECKS_RACE_H
#define CUDACORE_SIM_CHECKS_RACE_H

#include <unordered_map>

#include "sim/checks/vector_clock.h"
#include "sim/exec/checker.h"

/*
 * A detector of races. In a race, two threads access the same bytes, at least one of the accesses is a write, at least
 * one is not strong, and neither access happens before the other. The detector uses vector clocks. The clock of a
 * thread T contains a time for each other thread: the accesses of that thread up to this time happen before the next
 * access of T. Clocks are joined at barriers, at __syncwarp(), and when a thread acquires what another thread has
 * released. For each byte, the last accesses are kept with their threads and times. A kept access happens before a new
 * access if the clock of the thread that makes the new access reaches the time of the kept access. A single host thread
 * runs a grid that is checked for races, so no locks are needed.
 */
namespace sim::exec {

inline Dim3 index_in(const Dim3 &shape, uint32_t linear) {
  return {linear % shape[0], linear / shape[0] % shape[1], linear / shape[0] / shape[1]};
}

/*
 * Returns the scope of an access. Operations on an mbarrier order memory for all threads, because compilers leave out
 * their scope.
 */
inline Scope scope_of(const Instruction &ins) { return ins.access & access_barrier ? Scope::all : ins.scope(); }

/* A thread's last fence: the clock and the time of the thread at that moment. Later relaxed writes release both. */
struct Fence {
  bool exists = false;
  VectorClockPtr clock;
  LogicalTime at = 0;
};

/* The clocks of the threads that have arrived at a barrier, and, by scope, the clocks of these threads' fences. */
struct BarrierClocks {
  ClockJoin arrived;
  std::array<ClockJoin, scopes> fences;
  std::array<bool, scopes> has_fence{};
};

/*
 * Bulk and tensor copies are not ordered with the thread that begins them, until somebody waits for them. So each block
 * has two more times in the vector clocks, for all reads and for all writes of its copies. A wait for a copy also
 * counts as a wait for the copies that the block has begun before.
 */
using CopyTimes = std::array<LogicalTime, 2>;

struct ThreadHistory {
  LogicalTime now = 1;
  VectorClockPtr clock;
  std::array<Fence, scopes> fences; /* by scope: the last fence of this scope or a wider one */
  Fence proxy_fence;                /* the last fence.proxy.async */
  /*
   * By scope: the clocks that were released with values that relaxed reads returned. The next fence of this scope or a
   * wider one acquires them.
   */
  std::array<ClockJoin, scopes> observed;
  bool has_observed = false;
  /* The address and the index of the instruction of each of the last plain reads. */
  std::array<std::pair<const std::byte *, uint32_t>, 4> reads{};
  uint32_t next_read = 0;
  std::vector<CopyTimes> bulk_groups; /* the ends of the groups of bulk copies that were committed, without a wait */
};

/* An access that is kept for comparison with later ones. */
struct PastAccess {
  uint32_t block = 0;
  uint16_t thread = 0; /* for a bulk or tensor copy, also bits: by_copy, and write_by_copy */
  uint8_t bytes = 0;   /* a bit for each byte of the cell, set if the byte was accessed; 0: there is no access */
  uint8_t flags = 0;   /* access_strong and access_update, and the scope in the bits between them */
  LogicalTime time = 0;
  uint32_t pc = 0;
};

/* The kept accesses to four aligned bytes of memory. */
struct Cell {
  PastAccess write;
  std::array<PastAccess, 2> reads; /* the last reads, by up to two threads */
};

/* An access to a block's shared memory by a thread of another block of the cluster. */
struct RemoteAccess {
  uint32_t rank, lane, warp; /* the thread that made the access */
  const Instruction *place;
  Spot spot;
  uint32_t bytes;
  bool write;
  LogicalTime time;
};

/* The clock that was released at an address for a scope, and the blocks of the threads that released it. */
struct Released {
  VectorClockPtr clock;
  std::set<uint32_t> by;
};
/* What was released at an address: for all threads, for clusters (by their first block), and for blocks. */
struct ReleasedHere {
  Released for_all;
  std::map<uint32_t, Released> for_clusters, for_blocks;
};

using ReleasedAt = std::unordered_map<uint64_t, ReleasedHere>; /* by address */

/* Four bytes of shared memory that a cp.async is going to write. */
struct Copying {
  PastAccess write;
  std::array<std::byte, 4> value;
};

struct BlockHistory {
  uint32_t index = 0; /* index of the block in the grid */
  std::vector<ThreadHistory> threads;
  std::vector<Cell> cells; /* the cells of shared memory */
  std::array<BarrierClocks, barrier_count> barriers;
  ReleasedAt released;   /* in this block's shared memory, by host address */
  BarrierClocks cluster; /* in the first block of a cluster: all arrivals at the cluster's barrier */
  std::array<ClockJoin, max_warps / group_warps> group_reads; /* the ends of reads by wgmma, for each group of warps */
  /* The last access to this block's shared memory by each thread of other blocks, by block and thread. */
  std::map<std::pair<uint32_t, uint32_t>, RemoteAccess> remote_accesses;
  std::unordered_map<const std::byte *, Copying> copying; /* the copies in flight, by their destination */
  CopyTimes bulk_now{1, 1};                               /* the current times of the block's bulk and tensor copies */
};

class Races {
public:
  Races(Grid &grid, Checker &checker) : grid_(grid), checker_(checker) {}

  void begins(Block &block);
  void ended(Unit &unit);
  void synchronizes_warp(Warp &w, uint32_t lanes);
  void arrives(Warp &w, uint32_t lanes, uint32_t barrier);
  void passes(Warp &w, uint32_t lanes, uint32_t barrier);
  void completes(Block &block, uint32_t barrier);
  void arrives_at_cluster(Warp &w, uint32_t lanes);
  void passes_cluster(Warp &w, uint32_t lanes);
  void fences(Warp &w, const Instruction &ins, uint32_t lanes);
  /*
   * ends_reads: a warp has read the matrices of a wgmma. awaits_reads: lanes continue after all warps of their group
   * have read the matrices.
   */
  void ends_reads(Warp &w);
  void awaits_reads(Warp &w, uint32_t lanes);

  void global(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write);
  void shared(Warp &w, const Instruction &ins, uint32_t lane, Block &owner, uint32_t offset, const Spot &spot,
              uint32_t bytes, bool write);
  void scratch(Warp &w, const Instruction &ins, uint32_t lane, Block &owner, const std::byte *host);
  void forget(uint64_t address, uint64_t bytes);
  void copies(const std::byte *what) { copied_ = what; }
  void bulk_group(Warp &w, const Instruction &ins, uint32_t lanes);
  void copy_begins(Warp &w, const PendingCopy &copy);
  void copy_ends(Warp &w, const PendingCopy &copy);
  void finish();

private:
  static constexpr uint64_t page_bytes = 4096;
  using Page = std::array<Cell, page_bytes / 4>;

  ThreadHistory &thread_of(Warp &w, uint32_t lane);
  static ThreadId id_of(Warp &w, uint32_t lane);
  uint32_t threads() const { return grid_.warps * warp_size; }
  uint32_t clock_size() const { return threads() + 2; }
  PastAccess access_of(Warp &w, const Instruction &ins, uint32_t lane, uint8_t bytes, bool write);
  Cell &cell_of(uint64_t address);
  void join(ThreadHistory &thread, const VectorClockPtr &clock);
  /*
   * Applies the ordering of an access: the access acquires what was released at the address `key`, or releases there,
   * or both.
   */
  void order(Warp &w, const Instruction &ins, uint32_t lane, ReleasedAt &released, uint64_t key, bool write);
  void acquire(Warp &w, const Instruction &ins, uint32_t lane, const ReleasedHere &here);
  void release(Warp &w, const Instruction &ins, uint32_t lane, ReleasedHere &here);
  /* Returns the index of the first block of a block's cluster. This index represents the cluster. */
  uint32_t cluster_of(uint32_t block) const;
  bool includes(Scope scope, uint32_t block, uint32_t other) const;
  /* Returns whether an access happens before the next access of a thread, or before an event with a given clock. */
  bool happens_before(const PastAccess &past, ThreadId who, const ThreadHistory &thread) const;
  bool happens_before(const PastAccess &past, const VectorClockPtr &clock) const;
  /*
   * Returns whether a wgmma or a bulk copy reads memory that was written through the generic proxy, without a fence
   * after the write.
   */
  bool lacks_proxy_fence(const Instruction &ins, const Block &owner, const PastAccess &write) const;
  /*
   * Reports an access to memory that an asynchronous copy has not written yet, because no thread has waited for the
   * copy.
   */
  void check_copies(Warp &w, const Instruction &ins, uint32_t lane, const BlockHistory &history, const Spot &spot,
                    uint32_t bytes, bool write);
  bool are_synchronizing(const PastAccess &one, const PastAccess &other) const;
  bool changes_nothing(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes) const;
  /* Checks an access to another block's shared memory: this block must have begun, and must not have ended. */
  void check_remote(Warp &w, const Instruction &ins, uint32_t lane, Block &owner, const Spot &spot, uint32_t bytes,
                    bool write);
  void report_remote(Warp &w, const Block &owner, const RemoteAccess &access, bool has_begun);
  void note_read(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, bool write);
  void check(Warp &w, const Instruction &ins, uint32_t lane, Cell &cell, const PastAccess &now, const Spot &spot,
             uint32_t bytes, bool write);
  void report(Warp &w, const Instruction &ins, uint32_t lane, const PastAccess &before, bool wrote, const Spot &spot,
              uint32_t bytes, bool write, const char *missing = nullptr);

  Grid &grid_;
  Checker &checker_;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  ReleasedAt released_; /* in global memory */
  /*
   * Races of a plain read with an update, by the instruction of the read. Such a race is not reported if the reading
   * thread then updates the same address, as compare-and-swap loops do: the first read of such a loop may return any
   * value.
   */
  struct Deferred {
    Fault fault;
    const Instruction *place;
    uint64_t other;
  };
  std::multimap<uint32_t, Deferred> deferred_;
  std::set<uint32_t> speculative_;    /* the reads of compare-and-swap loops, by instruction */
  const std::byte *copied_ = nullptr; /* the bytes that an asynchronous copy is about to write */
};

} // namespace sim::exec

#endif
