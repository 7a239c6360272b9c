/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_OPS_INSTANCES_H
#define CUDACORE_SIM_EXEC_OPS_INSTANCES_H

#include <type_traits>

#include "sim/isa/handlers.h"

/*
 * An instruction's type or operation is known when its code is decoded. These functions choose the instance of a
 * template for it from a list:
 *
 *   for_type<uint32_t, int32_t>(type, [](auto t) { return binary<Add, decltype(t), decltype(t)>; })
 *   for_constant<VoteOp::all, VoteOp::any>(op, [](auto o) { return vote<o.value>; })
 *
 * They return nullptr for a type or an operation that is not in the list. for_choice() takes a table of all operations.
 */
namespace sim::exec {

template <auto... constants, class Value, class Make> Handler for_constant(Value value, Make make) {
  Handler handler = nullptr;
  ((value == constants ? void(handler = make(std::integral_constant<Value, constants>{})) : void()), ...);
  return handler;
}

/* Returns the type of PTX that corresponds to an integer type of C++. */
template <class T> constexpr Type integer_type() {
  if (sizeof(T) == 1)
    return std::is_signed_v<T> ? Type::s8 : Type::u8;
  if (sizeof(T) == 2)
    return std::is_signed_v<T> ? Type::s16 : Type::u16;
  if (sizeof(T) == 4)
    return std::is_signed_v<T> ? Type::s32 : Type::u32;
  return std::is_signed_v<T> ? Type::s64 : Type::u64;
}

template <class... Integers, class Make> Handler for_type(Type type, Make make) {
  Handler handler = nullptr;
  ((type == integer_type<Integers>() ? void(handler = make(Integers{})) : void()), ...);
  return handler;
}

/*
 * Chooses the handler for the unsigned integer type that is as wide as `type`, even if `type` is not an integer type.
 */
template <class... Unsigned, class Make> Handler for_width(Type type, Make make) {
  Handler handler = nullptr;
  ((ptx::bits_of(type) == sizeof(Unsigned) * 8 ? void(handler = make(Unsigned{})) : void()), ...);
  return handler;
}

/* A row of a table of operations: an operation, and the function that chooses its handler, for example by the type. */
template <class Op, class... Args> struct Choice {
  Op op;
  Handler (*instance)(Args...);
};
/*
 * Returns whether a table has one row for each operation, in the order of the enumeration Op, whose last enumerator is
 * `count`.
 */
template <class Op, class... Args, size_t N> constexpr bool is_complete(const Choice<Op, Args...> (&rows)[N]) {
  for (size_t i = 0; i < N; ++i)
    if (rows[i].op != static_cast<Op>(i))
      return false;
  return N == static_cast<size_t>(Op::count);
}
/* Chooses the handler for an operation from a table, for which is_complete() must be true. */
template <class Op, class... Args, size_t N>
Handler for_choice(const Choice<Op, Args...> (&rows)[N], Op op, Args... arguments) {
  return rows[static_cast<size_t>(op)].instance(arguments...);
}
/* Returns H for every type. Rows of a table use it for operations that have a single handler. */
template <Handler H> Handler always(Type) { return H; }

} // namespace sim::exec

#endif
