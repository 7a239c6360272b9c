/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/checks/vector_clock.h"

#include <algorithm>

namespace sim::exec {

void ClockJoin::add(const VectorClockPtr &clock) {
  if (clock)
    clocks_.insert(clock);
}
void ClockJoin::add(ThreadId thread, LogicalTime time) { times_.push_back({thread, time}); }

VectorClockPtr ClockJoin::result(uint32_t threads_of_block) const {
  if (times_.empty() && clocks_.size() <= 1)
    return clocks_.empty() ? nullptr : *clocks_.begin();
  auto joined = std::make_shared<VectorClock>();
  /* Times to which only `joined` refers, so that they can be changed. */
  std::map<uint32_t, std::shared_ptr<BlockTimes>> own;
  auto change = [&](uint32_t block) -> BlockTimes & {
    std::shared_ptr<BlockTimes> &times = own[block];
    if (!times) {
      const std::shared_ptr<const BlockTimes> &before = joined->blocks[block];
      times = before ? std::make_shared<BlockTimes>(*before) : std::make_shared<BlockTimes>(threads_of_block, 0);
      joined->blocks[block] = times;
    }
    return *times;
  };
  for (const VectorClockPtr &clock : clocks_)
    for (const auto &[block, others] : clock->blocks) {
      auto [place, is_new] = joined->blocks.insert({block, others});
      if (is_new || place->second == others)
        continue;
      BlockTimes &times = change(block);
      for (size_t i = 0; i < times.size(); ++i)
        times[i] = std::max(times[i], (*others)[i]);
    }
  for (const auto &[thread, time] : times_) {
    LogicalTime &known = change(thread.block)[thread.thread];
    known = std::max(known, time);
  }
  return joined;
}

} // namespace sim::exec
