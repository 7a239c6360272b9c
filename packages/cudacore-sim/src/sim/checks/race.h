/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_CHECKS_RACE_H
#define CUDACORE_SIM_CHECKS_RACE_H

#include <unordered_map>

#include "sim/exec/checker.h"

/*
 * A detector of races: two threads access the same bytes, at least one writes, at least one access is not strong, and
 * neither happens before the other. Each thread has a clock and a view: the clocks of other threads up to which it is
 * ordered after them. Views grow at barriers, at __syncwarp(), and when a thread acquires what another one released.
 * For each byte, the last accesses are kept with their threads and clocks. A kept access happened before a new one if
 * the view of the thread that makes the new access reaches the clock of the kept access. One thread of the host runs a
 * grid that is checked for races, so nothing needs a lock.
 */
namespace sim::exec {

using Clock = uint32_t;
using Clocks = std::vector<Clock>; /* the clocks of a block's threads */

/* The clocks of each block. Views are immutable, so threads can share them after a barrier. */
struct View {
  std::map<uint32_t, std::shared_ptr<const Clocks>> blocks;
};
using ViewPtr = std::shared_ptr<const View>; /* null: the view of no thread */

struct ThreadName {
  uint32_t block, thread;
};

/* Merges views. */
class Meeting {
public:
  void add(const ViewPtr &view);
  void add(ThreadName who, Clock clock);
  ViewPtr result(uint32_t threads) const;

private:
  std::set<ViewPtr> views_;
  std::vector<std::pair<ThreadName, Clock>> own_;
};

/* The views that threads bring to a barrier, and the views that their fences release, by the scope of the fence. */
struct Gathering {
  Meeting all;
  std::array<Meeting, scopes> fenced;
  std::array<bool, scopes> has_fenced{};
};

/* A thread's last fence: the view and the clock of the thread at that time. Later relaxed writes release them. */
struct Fenced {
  bool is = false;
  ViewPtr view;
  Clock at = 0;
};

struct ThreadHistory {
  Clock now = 1;
  ViewPtr view;
  std::array<Fenced, scopes> fenced; /* by scope: the last fence of that scope or a wider one */
  ViewPtr crossed;                   /* the thread's view at its last fence.proxy.async */
  Clock crossed_at = 0;              /* the thread's clock at that fence */
  std::array<Meeting, scopes>
      observed; /* by scope: values that relaxed reads saw, for the next fence of that scope or a wider one */
  bool has_observed = false;
  /* The last plain reads: the address, and the index of the instruction. */
  std::array<std::pair<const std::byte *, uint32_t>, 4> reads{};
  uint32_t next_read = 0;
};

/* An earlier access. */
struct Seen {
  uint32_t block = 0;
  uint16_t thread = 0;
  uint8_t bytes = 0;  /* a bit for each of the four bytes; 0: no access */
  uint8_t manner = 0; /* manner_strong, manner_update, and the scope */
  Clock clock = 0;
  uint32_t pc = 0;
};

/* The last accesses to a group of four bytes. */
struct Cell {
  Seen write;
  std::array<Seen, 2> reads; /* reads by two threads, neither of which happened before the other */
};

/* An access to shared memory by a thread of another block of the cluster. */
struct Visit {
  uint32_t rank, lane, warp; /* the thread that made the access */
  const Instruction *place;
  Spot spot;
  uint32_t bytes;
  bool write;
  Clock clock;
};

/* Data released at an address for a scope, and the blocks of the threads that released it. */
struct Released {
  ViewPtr view;
  std::set<uint32_t> by;
};
/* The releases at an address: to all threads, to a cluster (by its first block), and to a block. */
struct ReleasedHere {
  Released for_all;
  std::map<uint32_t, Released> for_clusters, for_blocks;
};

/* Four bytes of shared memory that a cp.async is going to write. */
struct Copying {
  Seen write;
  std::array<std::byte, 4> value;
};

struct BlockHistory {
  uint32_t index = 0; /* index of the block in the grid */
  std::vector<ThreadHistory> threads;
  std::vector<Cell> cells; /* the cells of shared memory */
  std::array<Gathering, barrier_count> barriers;
  Gathering cluster; /* all arrivals at the cluster's barrier, in the first block of the cluster */
  std::array<Meeting, max_warps / group_warps> group_reads; /* reads by wgmma, for each group of warps */
  std::map<std::pair<uint32_t, uint32_t>, Visit> visits;    /* the last visit to shared memory, by block and thread */
  std::unordered_map<const std::byte *, Copying> copying;   /* the copies in flight, by their destination */
};

class Races {
public:
  Races(Grid &grid, Checker &checker) : grid_(grid), checker_(checker) {}

  void begins(Block &block);
  void ended(Unit &unit);
  void meet(Warp &w, uint32_t lanes);
  void arrives(Warp &w, uint32_t lanes, uint32_t barrier);
  void passes(Warp &w, uint32_t lanes, uint32_t barrier);
  void is_over(Block &block, uint32_t barrier);
  void arrives_at_cluster(Warp &w, uint32_t lanes);
  void passes_cluster(Warp &w, uint32_t lanes);
  void fences(Warp &w, const Instruction &ins, uint32_t lanes);
  /*
   * ends_reads: a warp has read the matrices of a wgmma. knows_reads: lanes continue after all warps of their group
   * have read the matrices.
   */
  void ends_reads(Warp &w);
  void knows_reads(Warp &w, uint32_t lanes);

  void global(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes, bool write);
  void shared(Warp &w, const Instruction &ins, uint32_t lane, Block &owner, uint32_t offset, const Spot &spot,
              uint32_t bytes, bool write);
  void scratch(Warp &w, const Instruction &ins, uint32_t lane, const std::byte *host);
  void forget(uint64_t address, uint64_t bytes);
  void copies(const std::byte *what) { copied_ = what; }
  void copy_begins(Warp &w, const PendingCopy &copy);
  void copy_ends(Warp &w, const PendingCopy &copy);
  void finish();

private:
  static constexpr uint64_t page_bytes = 4096;
  using Page = std::array<Cell, page_bytes / 4>;

  ThreadHistory &thread_of(Warp &w, uint32_t lane);
  static ThreadName name_of(Warp &w, uint32_t lane);
  Cell &cell_of(uint64_t address);
  void learn(ThreadHistory &thread, const ViewPtr &view);
  /* Applies an access that orders memory: acquires what was released at `key`, and releases there. */
  void order(Warp &w, const Instruction &ins, uint32_t lane, uint64_t key, bool write);
  void acquire(Warp &w, const Instruction &ins, uint32_t lane, const ReleasedHere &here);
  void release(Warp &w, const Instruction &ins, uint32_t lane, ReleasedHere &here);
  /* The first block of a block's cluster, which represents the cluster. */
  uint32_t cluster_of(uint32_t block) const;
  bool includes(Scope scope, uint32_t block, uint32_t other) const;
  bool is_before(const Seen &seen, ThreadName who, const ThreadHistory &thread) const;
  static bool knows(const ViewPtr &view, const Seen &seen);
  bool is_hidden(const Instruction &ins, const Block &owner, const Seen &write) const;
  /*
   * Reports an access to memory that an asynchronous copy is still to write, because nothing has waited for the copy.
   */
  void look_for_copies(Warp &w, const Instruction &ins, uint32_t lane, const BlockHistory &history, const Spot &spot,
                       uint32_t bytes, bool write);
  bool changes_nothing(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, uint32_t bytes) const;
  /* An access to another block's shared memory: that block must have begun, and must not have ended. */
  void visits(Warp &w, const Instruction &ins, uint32_t lane, Block &owner, const Spot &spot, uint32_t bytes,
              bool write);
  void report_visit(Warp &w, const Block &owner, const Visit &visit, bool has_begun);
  void note_read(Warp &w, const Instruction &ins, uint32_t lane, const Spot &spot, bool write);
  void look(Warp &w, const Instruction &ins, uint32_t lane, Cell &cell, const Seen &now, const Spot &spot,
            uint32_t bytes, bool write);
  void report(Warp &w, const Instruction &ins, uint32_t lane, const Seen &before, bool wrote, const Spot &spot,
              uint32_t bytes, bool write, const char *missing = nullptr);

  Grid &grid_;
  Checker &checker_;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  std::unordered_map<uint64_t, ReleasedHere> released_; /* releases by address */
  /*
   * Races of a plain read with an update, by the instruction of the read. Such races are not reported if the thread
   * then updates the same address, as compare-and-swap loops do: the first read of such a loop may find any value.
   */
  struct Deferred {
    Fault fault;
    const Instruction *place;
    uint64_t other;
  };
  std::multimap<uint32_t, Deferred> deferred_;
  std::set<uint32_t> speculative_;    /* the reads of these loops */
  std::set<uint64_t> mbarriers_;      /* mbarriers in shared memory, by their address */
  const std::byte *copied_ = nullptr; /* the bytes that an asynchronous copy is about to write */
};

} // namespace sim::exec

#endif
