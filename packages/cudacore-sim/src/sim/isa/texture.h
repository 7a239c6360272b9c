/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_ISA_TEXTURE_H
#define CUDACORE_SIM_ISA_TEXTURE_H

#include "sim/isa/instruction.h"
#include "sim/isa/types.h"

#include <vector>

namespace sim::exec {

/* An instruction that accesses a texture or a surface: tex, tld4, txq, suld, sust, sured, suq. */
struct TextureAccess {
  enum class Op : uint8_t { sample, gather, query, load, store, reduce };
  enum class Geometry : uint8_t { line, plane, volume, cube };
  enum class Level : uint8_t { automatic, base, given, gradient };
  enum class Clamp : uint8_t { trap, clamp, zero };
  enum class Reduction : uint8_t { add, min, max, and_, or_ };
  enum class Query : uint8_t {
    width,
    height,
    depth,
    channel_type,
    channel_order,
    normalized,
    array_size,
    levels,
    samples
  };
  Op op = Op::sample;
  Geometry geometry = Geometry::line;
  bool layered = false;
  Level level = Level::automatic;
  Clamp clamp = Clamp::trap;
  Reduction reduction = Reduction::add;
  Query query = Query::width;
  bool integer_coordinates = false;
  bool formatted = false;          /* sust.p, sured.p: the value is converted to the format of the texel */
  ptx::Type type = ptx::Type::f32; /* the type of the results, or of the values to store */
  uint8_t channel = 0;             /* the channel that tld4 reads */
  OperandIndex object = no_operand;
  std::vector<OperandIndex> registers;   /* the results, or the values to store */
  std::vector<OperandIndex> coordinates; /* if there are layers, the layer is first */
  std::vector<OperandIndex> more;        /* the level, or the gradients in x and in y */
};

constexpr size_t axes_of(TextureAccess::Geometry geometry) {
  return geometry == TextureAccess::Geometry::line ? 1 : geometry == TextureAccess::Geometry::plane ? 2 : 3;
}

} // namespace sim::exec

#endif
