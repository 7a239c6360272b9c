/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_GRID_H
#define CUDACORE_SIM_EXEC_GRID_H

#include <atomic>
#include <memory>
#include <mutex>

#include "sim/exec/warp.h"

namespace sim::exec {

constexpr uint32_t barrier_count = 16; /* barriers of a block */
constexpr uint32_t max_warps = 32;     /* warps of a block */
constexpr uint32_t group_warps = 4;    /* warps that execute wgmma together, aligned to this number */

class Checker;

/* A launch that is running. The worker threads share it. */
struct Grid {
  explicit Grid(const Launch &of);

  const Launch &launch;
  const Program &program;
  const Kernel &kernel;
  const Function &function;
  uint32_t threads;        /* threads of a block */
  uint32_t warps;          /* warps of a block */
  uint32_t shared_bytes;   /* bytes of a block, rounded up to whole units, without the reserved KiB */
  uint32_t cluster_size;   /* blocks of a cluster */
  Dim3 clusters;           /* the grid, in clusters */
  uint64_t units;          /* the number of units */
  uint64_t resident_limit; /* how many units may have begun and not ended, as on a GPU of this size */

  std::atomic<uint64_t> next_unit{0};
  std::atomic<bool> stop{false};
  std::shared_ptr<Checker> checker; /* null: nothing is checked */
  /* The memory that cooperative groups use, at %envreg1:%envreg2. This memory is zero when the launch begins. */
  alignas(16) std::array<std::byte, 64> workspace{};

  bool is_over() const {
    return stop.load(std::memory_order_relaxed) ||
           (launch.abandoned && launch.abandoned->load(std::memory_order_relaxed));
  }
  void report(const Fault &fault);
  void print(const std::string &text, bool is_error = false);
  Fault result() {
    std::lock_guard<std::mutex> hold(lock_);
    return fault_;
  }

private:
  std::mutex lock_;
  Fault fault_;
  uint64_t printed_ = 0;
};

/* One of a block's named barriers. */
struct Barrier {
  uint32_t expected = 0; /* the number of threads; 0: all threads of the block */
  uint32_t population = 0;
  bool all = true, any = false;
  bool in_use = false;
  std::array<uint32_t, max_warps> arrived{}; /* the lanes that have arrived, by warp */
};

struct Unit;
struct BlockHistory;

struct Block {
  Unit *unit = nullptr;
  Dim3 index{};
  uint32_t rank = 0; /* rank in the cluster */
  std::vector<std::byte> shared;
  uint64_t unchecked_bytes = 0;          /* how many bytes of `shared` are accessed without a check: all or 0 */
  std::vector<std::byte> written;        /* a flag for each byte, nonzero once it was written; empty: not recorded */
  std::shared_ptr<BlockHistory> history; /* the history of accesses, to find races; null if it is not recorded */
  alignas(16) std::array<std::byte, shared_scratch> scratch; /* reserved; zero when the block begins */
  std::vector<Warp> warps;
  std::array<Barrier, barrier_count> barriers;

  /* Lanes of a warp reach a barrier. `waits`: they stay until it completes; otherwise (bar.arrive) they continue. */
  void arrive(Warp &warp, uint32_t lanes, uint32_t barrier, uint32_t expected, bool waits, const uint32_t *predicate);
  /*
   * Lanes of a warp reach a product of wgmma, which begins when all warps of the group have reached it. False: they
   * wait and try again.
   */
  bool begin_product(Warp &warp, uint32_t lanes);
  /* The warp has computed its part of the product. */
  void end_product(Warp &warp);
  /* The lanes wait until all warps have computed their parts of the products that this warp has computed. */
  void wait_products(Warp &warp, uint32_t lanes);
  void check_barriers();

private:
  bool complete(const Barrier &barrier) const;
  void release(uint32_t barrier);
  bool has_group(const Warp &warp) const;
  void check_group(const Warp &warp);
};

/* The unit of scheduling: a cluster, or a block if there are no clusters. Its blocks make progress together. */
struct Unit {
  enum class Result : uint8_t { finished, parked };

  void start(Grid &of, uint64_t number);
  /* Runs for one turn. The result is `parked` if it waits for other units, or the turn is over. */
  Result run();
  void arrive_cluster(Warp &warp, uint32_t lanes);
  void check_cluster();
  void lanes_ended(Block &block);

  Grid *grid = nullptr;
  uint64_t wake_at = 0; /* when sleeping lanes continue, if no lane of the unit can run; 0: lanes can run */
  std::vector<Block> blocks;
  Dim3 cluster_index{};

private:
  [[noreturn]] void report_hang();
};

} // namespace sim::exec

#endif
