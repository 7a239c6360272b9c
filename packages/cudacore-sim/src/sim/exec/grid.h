/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_GRID_H
#define CUDACORE_SIM_EXEC_GRID_H

#include <atomic>
#include <memory>
#include <mutex>

#include "sim/exec/warp.h"

namespace sim::exec {

constexpr uint32_t barrier_count = 16; /* number of barriers of a block */
constexpr uint32_t max_warps = 32;     /* maximum number of warps of a block */
constexpr uint32_t group_warps = 4;    /* warps that execute wgmma together: warps 0 to 3, 4 to 7, and so on */

class Checker;
class Touches;

/* A launch that is running. The worker threads share it. */
struct Grid {
  explicit Grid(const Launch &of);

  const Launch &launch;
  const Program &program;
  const Kernel &kernel;
  const Function &function;
  uint32_t threads;        /* number of threads of a block */
  uint32_t warps;          /* number of warps of a block */
  uint32_t shared_bytes;   /* bytes of shared memory of a block, a multiple of the unit, without the reserved KiB */
  uint32_t cluster_size;   /* number of blocks of a cluster */
  Dim3 clusters;           /* the size of the grid, in clusters */
  uint64_t units;          /* the number of units */
  uint64_t resident_limit; /* how many units may have begun and not ended; the limit is that of a GPU of this size */

  std::atomic<uint64_t> next_unit{0};
  std::atomic<bool> stop{false};
  std::shared_ptr<Checker> checker; /* null: nothing is checked */
  /* The memory that cooperative groups use, at %envreg1:%envreg2. This memory is zero when the launch begins. */
  alignas(16) std::array<std::byte, 64> workspace{};

  bool is_over() const {
    return stop.load(std::memory_order_relaxed) ||
           (launch.abandoned && launch.abandoned->load(std::memory_order_relaxed));
  }
  Dim3 cluster_of(uint64_t unit) const; /* returns the index of a unit, in clusters */
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

/* The state of one of a block's barriers (barrier 0 to 15). */
struct Barrier {
  uint32_t expected = 0; /* the number of threads that the barrier waits for; 0: all threads of the block */
  uint32_t population = 0;
  bool all = true, any = false;
  bool in_use = false;
  std::array<uint32_t, max_warps> arrived{}; /* the lanes that have arrived, by warp */
};

struct Unit;
struct BlockHistory;
struct TensorMemory;
void tensor_memory_ends(const TensorMemory &memory); /* memory that is still allocated is a fault */

struct Block {
  Unit *unit = nullptr;
  Dim3 index{};
  uint32_t rank = 0;         /* rank of the block in its cluster */
  uint32_t shared_begin = 0; /* the shared address of the first byte of `shared` */
  std::vector<std::byte> shared;
  uint64_t unchecked_bytes = 0;          /* the size of `shared` if it is accessed without checks, otherwise 0 */
  std::vector<std::byte> written;        /* flags for the bytes, nonzero once written; empty: writes are not recorded */
  std::shared_ptr<BlockHistory> history; /* the accesses so far, to find races; null: they are not recorded */
  alignas(16) std::array<std::byte, shared_scratch> scratch; /* the reserved part of shared memory, initially zero */
  std::shared_ptr<TensorMemory> tensor_memory;               /* null: none was allocated yet */
  std::vector<Warp> warps;
  std::array<Barrier, barrier_count> barriers;

  /*
   * Makes lanes of a warp arrive at a barrier. `waits`: the lanes stay there until the barrier completes; otherwise
   * (bar.arrive) they continue.
   */
  void arrive(Warp &warp, uint32_t lanes, uint32_t barrier, uint32_t expected, bool waits, const uint32_t *predicate);
  /*
   * Makes lanes of a warp reach a product of wgmma, which begins when all warps of the group have reached it. Returns
   * false if the lanes have to wait and then try again.
   */
  bool begin_product(Warp &warp, uint32_t lanes);
  /* Notes that the warp has computed its part of the product. */
  void end_product(Warp &warp);
  /*
   * Makes the lanes wait until the other warps of the group have also computed their parts of the products that this
   * warp has computed.
   */
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
  /* Runs the unit for one turn. Returns `parked` if the unit waits for other units, or if the turn is over. */
  Result run();
  void arrive_cluster(Warp &warp, uint32_t lanes);
  void check_cluster();
  void lanes_ended(Block &block);

  Grid *grid = nullptr;
  Touches *touches = nullptr; /* the record of accesses of the thread that runs the unit; null: there is none */
  uint64_t wake_at = 0;       /* when the next sleeping lanes continue, if all lanes sleep or wait; otherwise 0 */
  std::vector<Block> blocks;
  Dim3 cluster_index{};

private:
  [[noreturn]] void report_hang();
};

} // namespace sim::exec

#endif
