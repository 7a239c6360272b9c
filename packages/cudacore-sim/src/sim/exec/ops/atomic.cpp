/* SPDX-License-Identifier: Apache-2.0 */
/* atom and red for all types, by atomics of the host. */
#include "sim/exec/ops/asynchronous.h"
#include "sim/exec/ops/functions.h"
#include "sim/exec/ops/instances.h"
#include "sim/exec/ops/memory.h"
#include "sim/isa/numeric.h"

namespace sim::exec {

namespace {

__extension__ typedef unsigned __int128 uint128;

struct Exchange {
  template <class T> static T apply(T, T b) { return b; }
};
struct Add {
  template <class T> static T apply(T a, T b) {
    if constexpr (std::is_same_v<T, double>)
      return a + b == a + b ? a + b : first_nan({a, b});
    else if constexpr (std::is_same_v<T, float>)
      return canonical_nan(a + b);
    else
      return static_cast<T>(a + b);
  }
};
/* Adds f32 numbers as atomics on global memory do, which flush subnormal numbers. Atomics on shared memory do not. */
struct AddFlushed {
  static float apply(float a, float b) { return flush(Add::apply(flush(a), flush(b))); }
};
struct Increment {
  template <class T> static T apply(T a, T b) { return a >= b ? T{0} : a + 1; }
};
struct Decrement {
  template <class T> static T apply(T a, T b) { return a == 0 || a > b ? b : a - 1; }
};

/* Operations on f16 and bf16 values, which are passed as their bits. */
template <const Format &F> struct HalfAdd {
  static uint16_t apply(uint16_t a, uint16_t b) {
    return static_cast<uint16_t>(round_to(F, add_to_odd(value_of(F, a), value_of(F, b)), Rounding::nearest));
  }
};
/* HalfMin and HalfMax prefer a number to a NaN, and treat -0 as less than +0. */
template <const Format &F> struct HalfMin {
  static uint16_t apply(uint16_t a, uint16_t b) {
    double x = value_of(F, a), y = value_of(F, b);
    if (x != x || y != y)
      return x == x ? a : y == y ? b : static_cast<uint16_t>(F.nan);
    return x == y ? a | b : x < y ? a : b;
  }
};
template <const Format &F> struct HalfMax {
  static uint16_t apply(uint16_t a, uint16_t b) {
    double x = value_of(F, a), y = value_of(F, b);
    if (x != x || y != y)
      return x == x ? a : y == y ? b : static_cast<uint16_t>(F.nan);
    return x == y ? a & b : x < y ? b : a;
  }
};
template <class H> struct PairOf {
  static uint32_t apply(uint32_t a, uint32_t b) {
    uint32_t low = H::apply(static_cast<uint16_t>(a), static_cast<uint16_t>(b));
    uint32_t high = H::apply(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16));
    return low | high << 16;
  }
};

template <class T>
using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

/* Applies any operation F by compare-and-swap. Returns the old value. */
template <class F, class T> Bits<T> change(std::byte *at, T value) {
  auto *place = reinterpret_cast<Bits<T> *>(at);
  Bits<T> old = __atomic_load_n(place, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(place, &old, bit_cast<Bits<T>>(F::apply(bit_cast<T>(old), value)), false,
                                      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
    ;
  return old;
}

template <class F, class T, StateSpace S> void update(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *base = w.in(ins.op[1]), *b = w.in(ins.op[2]);
  uint64_t mask = address_mask(ins);
  uint64_t *d = ins.op[0] == no_operand ? nullptr : w.out(ins.op[0]);
  if (d)
    w.polled(); /* a loop may be waiting for the result of this atom; a red has no result */
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t address = (base[lane] + static_cast<uint64_t>(ins.immediate)) & mask;
    if (address & (ins.count * sizeof(T) - 1)) /* the address must be a multiple of the size of the vector */
      misaligned(w, ins, lane, address, static_cast<uint32_t>(ins.count * sizeof(T)), true, S);
    Bits<T> old = change<F, T>(locate<S>(w, ins, lane, address, sizeof(T), true), get<T>(b, lane));
    if (d)
      put<Bits<T>>(d, lane, old);
  });
}
/* Adds integers with a single instruction of the host, because this is the most frequent operation. */
template <class T, StateSpace S> void add_integer(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *base = w.in(ins.op[1]), *b = w.in(ins.op[2]);
  uint64_t mask = address_mask(ins);
  uint64_t *d = ins.op[0] == no_operand ? nullptr : w.out(ins.op[0]);
  if (d)
    w.polled();
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t address = (base[lane] + static_cast<uint64_t>(ins.immediate)) & mask;
    auto *at = reinterpret_cast<T *>(locate<S>(w, ins, lane, address, sizeof(T), true));
    T old = __atomic_fetch_add(at, get<T>(b, lane), __ATOMIC_SEQ_CST);
    if (d)
      put<T>(d, lane, old);
  });
}
template <class T, StateSpace S> void compare_and_swap(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *base = w.in(ins.op[1]), *b = w.in(ins.op[2]), *c = w.in(ins.op[3]);
  uint64_t mask = address_mask(ins);
  uint64_t *d = ins.op[0] == no_operand ? nullptr : w.out(ins.op[0]);
  w.polled();
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t address = (base[lane] + static_cast<uint64_t>(ins.immediate)) & mask;
    auto *at = reinterpret_cast<T *>(locate<S>(w, ins, lane, address, sizeof(T), true));
    T expected = get<T>(b, lane);
    __atomic_compare_exchange_n(at, &expected, get<T>(c, lane), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    if (d)
      put<T>(d, lane, expected);
  });
}
/*
 * Exchanges 128 bits while it holds the process's only lock for this purpose, because not every host has an instruction
 * for it. Plain accesses need no lock, because each of them reads or writes only one of the two words.
 */
template <bool Compare, StateSpace S> void swap_wide(Warp &w, const Instruction &ins, uint32_t lanes) {
  static std::mutex &lock = *new std::mutex;
  auto wide = [&](OperandIndex op, uint32_t lane) {
    return uint128{w.in(op)[lane]} | uint128{w.in(op + static_cast<OperandIndex>(warp_size))[lane]} << 64;
  };
  uint64_t mask = address_mask(ins);
  w.polled();
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t address = (w.in(ins.op[1])[lane] + static_cast<uint64_t>(ins.immediate)) & mask;
    std::byte *at = locate<S>(w, ins, lane, address, 16, true);
    std::lock_guard<std::mutex> hold(lock);
    uint64_t low = load_relaxed<uint64_t>(at), high = load_relaxed<uint64_t>(at + 8);
    uint128 old = uint128{low} | uint128{high} << 64;
    if (!Compare || old == wide(ins.op[2], lane)) {
      uint128 value = wide(ins.op[Compare ? 3 : 2], lane);
      store_relaxed<uint64_t>(at, static_cast<uint64_t>(value));
      store_relaxed<uint64_t>(at + 8, static_cast<uint64_t>(value >> 64));
    }
    if (ins.op[0] == no_operand)
      return;
    w.out(ins.op[0])[lane] = low;
    w.out(ins.op[0] + static_cast<OperandIndex>(warp_size))[lane] = high;
  });
}

/*
 * Adds f32 numbers at generic addresses. The address determines at run time whether the memory is shared or global, and
 * thereby whether subnormal sums are flushed.
 */
void add_generic_f32(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *base = w.in(ins.op[1]);
  uint32_t shared = 0;
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t address = base[lane] + static_cast<uint64_t>(ins.immediate);
    shared |= uint32_t{static_cast<Window>(address >> window_shift) == Window::shared} << lane;
  });
  if (shared)
    update<Add, float, StateSpace::generic>(w, ins, shared);
  if (lanes & ~shared)
    update<AddFlushed, float, StateSpace::generic>(w, ins, lanes & ~shared);
}

template <StateSpace S> Handler add_of(Type type) {
  switch (type) {
  case Type::u32:
  case Type::s32:
    return add_integer<uint32_t, S>;
  case Type::u64:
  case Type::s64:
    return add_integer<uint64_t, S>;
  case Type::f32:
    if (S == StateSpace::generic)
      return add_generic_f32;
    return S == StateSpace::global ? update<AddFlushed, float, S> : update<Add, float, S>;
  case Type::f64:
    return update<Add, double, S>;
  case Type::f16:
    return update<HalfAdd<format_f16>, uint16_t, S>;
  case Type::bf16:
    return update<HalfAdd<format_bf16>, uint16_t, S>;
  case Type::f16x2:
    return update<PairOf<HalfAdd<format_f16>>, uint32_t, S>;
  case Type::bf16x2:
    return update<PairOf<HalfAdd<format_bf16>>, uint32_t, S>;
  default:
    return nullptr;
  }
}

/*
 * Chooses the handler of an ordered operation for a type. F is the operation, H its form for types of 16 bits. How::of
 * is the handler for an operation and a type.
 */
template <class How, class F, template <const Format &> class H, StateSpace S> Handler ordered(Type type) {
  Handler handler =
      for_type<uint32_t, int32_t, uint64_t, int64_t>(type, [](auto t) { return How::template of<F, decltype(t), S>; });
  if (handler)
    return handler;
  switch (type) {
  case Type::f16:
    return How::template of<H<format_f16>, uint16_t, S>;
  case Type::bf16:
    return How::template of<H<format_bf16>, uint16_t, S>;
  case Type::f16x2:
    return How::template of<PairOf<H<format_f16>>, uint32_t, S>;
  case Type::bf16x2:
    return How::template of<PairOf<H<format_bf16>>, uint32_t, S>;
  default:
    return nullptr;
  }
}
template <class How, class F, StateSpace S> Handler logical(Type type) {
  return type == Type::b32   ? How::template of<F, uint32_t, S>
         : type == Type::b64 ? How::template of<F, uint64_t, S>
                             : Handler(nullptr);
}
template <class How, StateSpace S> Handler operation_but_sums(AtomicOp op, Type type) {
  switch (op) {
  case AtomicOp::inc:
    return type == Type::u32 ? How::template of<Increment, uint32_t, S> : Handler(nullptr);
  case AtomicOp::dec:
    return type == Type::u32 ? How::template of<Decrement, uint32_t, S> : Handler(nullptr);
  case AtomicOp::min:
    return ordered<How, Min, HalfMin, S>(type);
  case AtomicOp::max:
    return ordered<How, Max, HalfMax, S>(type);
  case AtomicOp::and_:
    return logical<How, And, S>(type);
  case AtomicOp::or_:
    return logical<How, Or, S>(type);
  case AtomicOp::xor_:
    return logical<How, Xor, S>(type);
  default:
    return nullptr;
  }
}

struct Update {
  template <class F, class T, StateSpace S> static constexpr Handler of = update<F, T, S>;
};

template <StateSpace S> Handler in_space(AtomicOp op, Type type) {
  uint32_t bits = ptx::bits_of(type);
  bool is_bits = ptx::class_of(type) == ptx::TypeClass::bits;
  switch (op) {
  case AtomicOp::add:
    return add_of<S>(type);
  case AtomicOp::exch:
    if (bits == 128)
      return swap_wide<false, S>;
    return logical<Update, Exchange, S>(bits == 32 ? Type::b32 : bits == 64 ? Type::b64 : Type::none);
  case AtomicOp::cas:
    if (bits == 16 && is_bits)
      return compare_and_swap<uint16_t, S>;
    if (bits == 128)
      return swap_wide<true, S>;
    return bits == 32 ? compare_and_swap<uint32_t, S> : bits == 64 ? compare_and_swap<uint64_t, S> : nullptr;
  default:
    return operation_but_sums<Update, S>(op, type);
  }
}

/* --- cp.reduce.async.bulk: reduces the elements one by one, without delay ------------------------------------- */

template <class F, class T, StateSpace S> void reduce_bulk(Warp &w, const Instruction &ins, uint32_t lanes) {
  constexpr uint32_t granule = 16;
  const uint64_t *to = w.in(ins.op[0]), *from = w.in(ins.op[1]), *sizes = w.in(ins.op[2]);
  ++w.stores;
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t target = S == StateSpace::shared ? get<uint32_t>(to, lane) : to[lane];
    auto source = get<uint32_t>(from, lane), size = get<uint32_t>(sizes, lane);
    if (size % granule)
      w.access_fault(FaultKind::misaligned_address, ins, lane, target, size, true, "bulk copy",
                     "the size is not a multiple of 16");
    if (target % granule)
      misaligned(w, ins, lane, target, granule, true, S);
    if (source % granule)
      misaligned(w, ins, lane, source, granule, false, StateSpace::shared);
    for (uint32_t at = 0; at < size; at += static_cast<uint32_t>(sizeof(T))) {
      auto bits = load_relaxed<Bits<T>>(locate<StateSpace::shared>(w, ins, lane, source + at, sizeof(T), false));
      change<F, T>(locate<S>(w, ins, lane, target + at, sizeof(T), true), bit_cast<T>(bits));
    }
  });
}

struct Reduce {
  template <class F, class T, StateSpace S> static constexpr Handler of = reduce_bulk<F, T, S>;
};

template <StateSpace S> Handler reduce_sum(Type type) {
  switch (type) {
  case Type::f32:
    return reduce_bulk<AddFlushed, float, S>;
  case Type::f64:
    return reduce_bulk<Add, double, S>;
  case Type::s32: /* signed sums have the same bits as unsigned sums, whose overflow C++ defines */
    return reduce_bulk<Add, uint32_t, S>;
  case Type::s64:
    return reduce_bulk<Add, uint64_t, S>;
  default:
    return ordered<Reduce, Add, HalfAdd, S>(type);
  }
}

template <StateSpace S> Handler reduce_in_space(AtomicOp op, Type type) {
  return op == AtomicOp::add ? reduce_sum<S>(type) : operation_but_sums<Reduce, S>(op, type);
}

/* --- cp.reduce.async.bulk.tensor: the type of the elements is known when the copy runs ------------------------ */

template <class F, class T> void reduce_element(std::byte *at, const std::byte *value) {
  change<F, T>(at, bit_cast<T>(load_relaxed<Bits<T>>(value)));
}
template <class U, class S> ElementReduction integer_reduction(AtomicOp op, bool is_signed) {
  switch (op) {
  case AtomicOp::add:
    return reduce_element<Add, U>;
  case AtomicOp::min:
    return is_signed ? reduce_element<Min, S> : reduce_element<Min, U>;
  case AtomicOp::max:
    return is_signed ? reduce_element<Max, S> : reduce_element<Max, U>;
  case AtomicOp::and_:
    return reduce_element<And, U>;
  case AtomicOp::or_:
    return reduce_element<Or, U>;
  case AtomicOp::xor_:
    return reduce_element<Xor, U>;
  case AtomicOp::inc:
    return is_signed || sizeof(U) == 8 ? nullptr : reduce_element<Increment, U>;
  case AtomicOp::dec:
    return is_signed || sizeof(U) == 8 ? nullptr : reduce_element<Decrement, U>;
  default:
    return nullptr;
  }
}
template <const Format &F> ElementReduction half_reduction(AtomicOp op) {
  switch (op) {
  case AtomicOp::add:
    return reduce_element<HalfAdd<F>, uint16_t>;
  case AtomicOp::min:
    return reduce_element<HalfMin<F>, uint16_t>;
  case AtomicOp::max:
    return reduce_element<HalfMax<F>, uint16_t>;
  default:
    return nullptr;
  }
}

} // namespace

ElementReduction element_reduction(AtomicOp op, TensorElement element) {
  switch (element) {
  case TensorElement::u32:
  case TensorElement::s32:
    return integer_reduction<uint32_t, int32_t>(op, element == TensorElement::s32);
  case TensorElement::u64:
    return integer_reduction<uint64_t, int64_t>(op, false);
  case TensorElement::s64:
    return op == AtomicOp::min || op == AtomicOp::max ? integer_reduction<uint64_t, int64_t>(op, true) : nullptr;
  case TensorElement::f16:
    return half_reduction<format_f16>(op);
  case TensorElement::bf16:
    return half_reduction<format_bf16>(op);
  case TensorElement::f32:
  case TensorElement::tf32:
    return op == AtomicOp::add ? reduce_element<Add, float> : ElementReduction(nullptr);
  case TensorElement::f32_ftz:
  case TensorElement::tf32_ftz:
    return op == AtomicOp::add ? reduce_element<AddFlushed, float> : ElementReduction(nullptr);
  case TensorElement::f64:
    return op == AtomicOp::add ? reduce_element<Add, double> : ElementReduction(nullptr);
  default:
    return nullptr;
  }
}

Handler reduce_bulk_handler(AtomicOp op, Type type, StateSpace space) {
  return space == StateSpace::global ? reduce_in_space<StateSpace::global>(op, type)
                                     : reduce_in_space<StateSpace::shared>(op, type);
}
Handler atomic_handler(AtomicOp op, Type type, StateSpace space) {
  switch (space) {
  case StateSpace::generic:
    return in_space<StateSpace::generic>(op, type);
  case StateSpace::global:
    return in_space<StateSpace::global>(op, type);
  case StateSpace::shared:
  case StateSpace::shared_cluster:
    return in_space<StateSpace::shared>(op, type);
  default:
    return nullptr;
  }
}

} // namespace sim::exec
