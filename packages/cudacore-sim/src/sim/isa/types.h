/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_TYPES_H
#define CUDACORE_SIM_ISA_TYPES_H

#include <cstdint>
#include <iterator>
#include <string_view>

namespace sim::ptx {

/* The fundamental types of PTX: name, size in bits, class. */
#define SIM_PTX_TYPES(X)                                                                                               \
  X(b8, 8, bits)                                                                                                       \
  X(b16, 16, bits)                                                                                                     \
  X(b32, 32, bits)                                                                                                     \
  X(b64, 64, bits)                                                                                                     \
  X(b128, 128, bits)                                                                                                   \
  X(u8, 8, unsigned_integer)                                                                                           \
  X(u16, 16, unsigned_integer)                                                                                         \
  X(u32, 32, unsigned_integer)                                                                                         \
  X(u64, 64, unsigned_integer)                                                                                         \
  X(s8, 8, signed_integer)                                                                                             \
  X(s16, 16, signed_integer)                                                                                           \
  X(s32, 32, signed_integer)                                                                                           \
  X(s64, 64, signed_integer)                                                                                           \
  X(u16x2, 32, packed)                                                                                                 \
  X(s16x2, 32, packed)                                                                                                 \
  X(f16, 16, floating)                                                                                                 \
  X(bf16, 16, floating)                                                                                                \
  X(f16x2, 32, packed)                                                                                                 \
  X(bf16x2, 32, packed)                                                                                                \
  X(e4m3, 8, floating)                                                                                                 \
  X(e5m2, 8, floating)                                                                                                 \
  X(e4m3x2, 16, packed)                                                                                                \
  X(e5m2x2, 16, packed)                                                                                                \
  X(e2m1x2, 8, packed)                                                                                                 \
  X(e2m3x2, 16, packed)                                                                                                \
  X(e3m2x2, 16, packed)                                                                                                \
  X(ue8m0x2, 16, packed)                                                                                               \
  X(f32x2, 64, packed)                                                                                                 \
  X(tf32, 32, floating)                                                                                                \
  X(f32, 32, floating)                                                                                                 \
  X(f64, 64, floating)                                                                                                 \
  X(pred, 1, predicate)

enum class TypeClass : uint8_t { none, bits, unsigned_integer, signed_integer, floating, packed, predicate };

enum class Type : uint8_t {
  none,
#define SIM_PTX_TYPE(name, bits, class) name,
  SIM_PTX_TYPES(SIM_PTX_TYPE)
#undef SIM_PTX_TYPE
};

/* Returns the type that is called `name` (without its dot), or Type::none if there is no such type. */
Type type_named(std::string_view name);
std::string_view name_of(Type type);
uint32_t bits_of(Type type);
TypeClass class_of(Type type);
inline uint32_t bytes_of(Type type) { return bits_of(type) / 8; }
inline bool is_signed(Type type) { return class_of(type) == TypeClass::signed_integer; }
inline bool is_integer(Type type) {
  return class_of(type) == TypeClass::signed_integer || class_of(type) == TypeClass::unsigned_integer;
}

/* The state space of an instruction or a declaration. `generic` means that no state space is named. */
enum class StateSpace : uint8_t { generic, global, shared, shared_cluster, local, constant, param, reg };

} // namespace sim::ptx

#endif
