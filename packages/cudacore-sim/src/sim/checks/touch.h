/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_CHECKS_TOUCH_H
#define CUDACORE_SIM_CHECKS_TOUCH_H

#include <unordered_map>

#include "sim/exec/grid.h"

namespace sim::exec {

/*
 * Records the bytes of global memory that a grid accesses, and the places of the accesses in the grid's code. The
 * driver compares these accesses with those of other work in flight. With this check, a single host thread runs the
 * grid.
 */
class Touches {
public:
  explicit Touches(const Program &program) : program_(program) {}

  void add(const Warp &w, const Instruction &ins, uint64_t address, uint32_t bytes, bool write);
  std::vector<Touch> all() const;

private:
  static constexpr uint64_t page_bytes = 512;
  /*
   * The first instruction that accessed a byte, and whether it was a plain or a strong access. A plain access replaces
   * a strong one.
   */
  struct Mark {
    uint32_t pc : 30, plain : 1, strong : 1;
    bool operator==(const Mark &other) const {
      return pc == other.pc && plain == other.plain && strong == other.strong;
    }
    bool any() const { return plain || strong; }
  };
  struct Page {
    std::array<Mark, page_bytes> read{}, written{};
  };

  const Program &program_;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_number_ = ~uint64_t{0};
  Page *last_ = nullptr;
};

} // namespace sim::exec

#endif
