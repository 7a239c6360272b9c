/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_CHECKS_VECTOR_CLOCK_H
#define CUDACORE_SIM_CHECKS_VECTOR_CLOCK_H

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace sim::exec {

/* A point in a thread's history: the number of the thread's releases, such as arrivals at barriers, until then. */
using LogicalTime = uint32_t;
using BlockTimes = std::vector<LogicalTime>; /* the times of a block's threads */

/*
 * The times of all threads, by block. Vector clocks are immutable, so that threads can share the same clock after a
 * barrier.
 */
struct VectorClock {
  std::map<uint32_t, std::shared_ptr<const BlockTimes>> blocks;
};
using VectorClockPtr = std::shared_ptr<const VectorClock>; /* null: all times are zero */

struct ThreadId {
  uint32_t block, thread;
};

/* Joins vector clocks: for each thread, the result has the maximum of the thread's times in these clocks. */
class ClockJoin {
public:
  void add(const VectorClockPtr &clock);
  void add(ThreadId thread, LogicalTime time);
  VectorClockPtr result(uint32_t threads_of_block) const;

private:
  std::set<VectorClockPtr> clocks_;
  std::vector<std::pair<ThreadId, LogicalTime>> times_;
};

} // namespace sim::exec

#endif
