/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/isa/types.h"

namespace sim::ptx {

namespace {
struct Row {
  std::string_view name;
  uint32_t bits;
  TypeClass type_class;
};
constexpr Row rows[] = {{"", 0, TypeClass::none},
#define SIM_PTX_TYPE(name, bits, class) {#name, bits, TypeClass::class},
                        SIM_PTX_TYPES(SIM_PTX_TYPE)
#undef SIM_PTX_TYPE
};
} // namespace

Type type_named(std::string_view name) {
  for (size_t i = 1; i < std::size(rows); ++i)
    if (rows[i].name == name)
      return static_cast<Type>(i);
  return Type::none;
}

std::string_view name_of(Type type) { return rows[static_cast<size_t>(type)].name; }
uint32_t bits_of(Type type) { return rows[static_cast<size_t>(type)].bits; }
TypeClass class_of(Type type) { return rows[static_cast<size_t>(type)].type_class; }

} // namespace sim::ptx
