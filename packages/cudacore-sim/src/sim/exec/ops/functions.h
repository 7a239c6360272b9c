/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_FUNCTIONS_H
#define CUDACORE_SIM_EXEC_OPS_FUNCTIONS_H

#include <type_traits>

#include "sim/isa/handlers.h"

/* Functions that the handlers of several groups of instructions share. */
namespace sim::exec {

struct Min {
  template <class T> static T apply(T a, T b) { return b < a ? b : a; }
};
struct Max {
  template <class T> static T apply(T a, T b) { return a < b ? b : a; }
};
struct And {
  template <class T> static T apply(T a, T b) { return a & b; }
};
struct Or {
  template <class T> static T apply(T a, T b) { return a | b; }
};
struct Xor {
  template <class T> static T apply(T a, T b) { return a ^ b; }
};

/*
 * Returns whether a comparison of two numbers is true. It is inlined so that, for a constant `comparison`, the compiler
 * drops all other cases.
 */
template <class T> [[gnu::always_inline]] inline bool holds(Comparison comparison, T a, T b) {
  bool unordered = false;
  if constexpr (std::is_floating_point_v<T>)
    unordered = a != a || b != b;
  switch (comparison) {
  case Comparison::eq:
    return a == b;
  case Comparison::ne:
    return a != b && !unordered;
  case Comparison::lt:
    return a < b;
  case Comparison::le:
    return a <= b;
  case Comparison::gt:
    return a > b;
  case Comparison::ge:
    return a >= b;
  case Comparison::equ:
    return unordered || a == b;
  case Comparison::neu:
    return unordered || a != b;
  case Comparison::ltu:
    return unordered || a < b;
  case Comparison::leu:
    return unordered || a <= b;
  case Comparison::gtu:
    return unordered || a > b;
  case Comparison::geu:
    return unordered || a >= b;
  case Comparison::num:
    return !unordered;
  case Comparison::nan:
    return unordered;
  }
  return false;
}

} // namespace sim::exec

#endif
