/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_UNDEFINED_H
#define CUDACORE_SIM_EXEC_UNDEFINED_H

#include <unordered_map>

#include "sim/exec/checker.h"

namespace sim::exec {

/*
 * The registers and predicates of a warp whose values come from memory that nobody wrote. Programs may load more than
 * they need, so a load is reported only when the loaded value matters: when it is used as an address or a condition, is
 * stored, or is given to another thread.
 */
class Undefined {
public:
  /*
   * Called before an instruction is executed. `lanes`: the lanes of the running group for which the guard of the
   * instruction is true.
   */
  void before(Warp &w, const Instruction &ins, uint32_t lanes);
  /* Called when a lane loads from memory that nobody wrote. */
  void loads(Warp &w, uint32_t lane, const Spot &spot, uint32_t bytes);
  /* Called when lanes leave a function whose frame begins at `slot`. */
  void leaves(uint32_t lanes, size_t slot);

private:
  /* The lanes in which a value is undefined, and, for each of them, the load that the value comes from. */
  struct Value {
    uint32_t lanes = 0;
    std::array<uint32_t, warp_size> load{};
    void add(const Value &other, uint32_t of);
  };
  struct Access {
    Spot spot;
    uint32_t bytes;
  };

  static size_t place_of(const Warp &w, OperandIndex value);
  const Value *find(const Warp &w, OperandIndex value) const;
  uint32_t lanes_of(const Warp &w, OperandIndex value) const;
  void report(Warp &w, const Instruction &use, const Value &value, uint32_t lanes);
  void set(const Warp &w, OperandIndex value, uint32_t lanes, const Value &from);
  Value result(const Warp &w, const Instruction &ins, const DataFlow &flow) const;

  std::unordered_map<size_t, Value> values_; /* undefined values, by place_of() */
  /* The last access of each lane, by load instruction. */
  std::unordered_map<uint32_t, std::array<Access, warp_size>> accesses_;
};

} // namespace sim::exec

#endif
