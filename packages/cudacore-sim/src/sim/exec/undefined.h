/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_UNDEFINED_H
#define CUDACORE_SIM_EXEC_UNDEFINED_H

#include <unordered_map>

#include "sim/exec/checker.h"

namespace sim::exec {

/*
 * The registers and predicates of a warp whose values come from memory that nobody wrote. Code may load more than it
 * needs, so a load is reported only when its value matters: when it is an address or a condition, or is stored, or is
 * given to another thread.
 */
class Undefined {
public:
  /* `lanes` are about to execute an instruction: the lanes of the group whose guard holds. */
  void before(Warp &w, const Instruction &ins, uint32_t lanes);
  /* A lane's load reads memory that nobody wrote. */
  void loads(Warp &w, uint32_t lane, const Spot &spot, uint32_t bytes);
  /* Lanes leave a function whose frame begins at a slot. */
  void leaves(uint32_t lanes, size_t slot);

private:
  /* The lanes in which a value is undefined, and the loads that it comes from. */
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

  std::unordered_map<size_t, Value> values_;                             /* by place_of() */
  std::unordered_map<uint32_t, std::array<Access, warp_size>> accesses_; /* the last access of loads, by instruction */
};

} // namespace sim::exec

#endif
