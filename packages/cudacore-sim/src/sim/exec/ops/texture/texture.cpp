/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions on textures: tex, tld4, and queries. */
#include "sim/isa/texture.h"

#include "sim/exec/ops/memory.h"
#include "sim/exec/ops/texture/sampling.h"
#include "sim/exec/ops/texture/surface.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace sim::exec {

std::string hex_of(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

const Sampler &sampler_of(Warp &w, const Instruction &ins, const TextureAccess &access, uint32_t lane) {
  auto handle = get<uint64_t>(w.in(access.object), lane);
  const SamplerMap *all = w.grid->launch.samplers.get();
  auto found = all != nullptr ? all->find(handle) : SamplerMap::const_iterator();
  bool wants_surface = access.op >= TextureAccess::Op::load;
  if (all == nullptr || found == all->end())
    w.access_fault(FaultKind::illegal_address, ins, lane, handle, 0, false, "texture",
                   hex_of(handle) + " is not a texture or surface, or was destroyed");
  const Sampler &sampler = *found->second;
  if (access.op != TextureAccess::Op::query && sampler.is_surface != wants_surface)
    w.fault(FaultKind::illegal_instruction, ins, lane,
            hex_of(handle) + (wants_surface ? " is a texture, and the instruction is for surfaces"
                                            : " is a surface, and the instruction is for textures"));
  return sampler;
}

namespace {

using Geometry = TextureAccess::Geometry;
using Shape = Texels::Shape;

const char *words_of(Shape shape) {
  static constexpr const char *names[] = {"one dimension", "two dimensions", "three dimensions", "a cube",
                                          "linear memory"};
  return names[static_cast<size_t>(shape)];
}

/* Checks that the texture has the geometry that the instruction requires. */
void check_geometry(Warp &w, const Instruction &ins, const TextureAccess &access, uint32_t lane, const Texels &texels) {
  auto shape = static_cast<Shape>(access.geometry);
  bool fits = shape == texels.shape || (shape == Shape::line && texels.shape == Shape::linear);
  if (!fits || access.layered != texels.layered)
    w.fault(FaultKind::illegal_instruction, ins, lane,
            std::string("the texture is of ") + words_of(texels.shape) + (texels.layered ? " with layers" : "") +
                ", and the instruction is for " + words_of(shape) + (access.layered ? " with layers" : ""));
}

/* Finds texels for a lane, with the checks of memory accesses. A null pointer stands for the border color. */
struct Fetch {
  Warp &w;
  const Instruction &ins;
  uint32_t lane;
  const Sampler &sampler;

  const std::byte *texel(const Texels::Level &level, int64_t x, int64_t y, int64_t z) const {
    if (x < 0 || y < 0 || z < 0)
      return nullptr;
    const Texels &texels = sampler.texels;
    uint64_t address = level.address + static_cast<uint64_t>(z) * level.slice + static_cast<uint64_t>(y) * level.pitch +
                       static_cast<uint64_t>(x) * texels.texel_bytes();
    return locate<StateSpace::global>(w, ins, lane, address, texels.texel_bytes(), false);
  }

  uint32_t bits(const std::byte *texel, size_t channel) const {
    return texel != nullptr ? channel_bits(sampler.texels, texel, channel) : border_bits(sampler, channel);
  }

  float number(const std::byte *texel, size_t channel) const {
    return number_of(sampler, bits(texel, channel), channel);
  }
};

using Color = std::array<float, 4>;

struct SamplePosition {
  Taps x{}, y{}, z{};
  bool may_cross_edges = false; /* whether some of the texels may be on another face of the cube */
};

/* The texels that are read, from one or two mipmap levels, and their weights. */
struct Samples {
  Weights weights;
  std::array<const std::byte *, Weights::max> texels{};

  /*
   * Adds texels of a level. `axes`: the number of axes along which texels are filtered; 0: only the texel at the
   * position.
   */
  void add(const Fetch &fetch, const Texels::Level &level, const SamplePosition &position, size_t axes, int64_t all) {
    size_t first = weights.count;
    weights.add({position.x.weight, position.y.weight, position.z.weight}, axes, all);
    if (position.may_cross_edges)
      return add_of_cube(fetch, level, position);
    for (size_t i = first; i < weights.count; i++) {
      size_t corner = i - first;
      if (weights.takes_part[i])
        texels[i] = fetch.texel(level, position.x.index[corner & 1], position.y.index[corner >> 1 & 1],
                                position.z.index[corner >> 2 & 1]);
    }
  }

  /*
   * Adds texels of a cube. A texel beyond an edge is replaced by one of the neighbouring face. At a corner of the cube,
   * only three texels meet.
   */
  void add_of_cube(const Fetch &fetch, const Texels::Level &level, const SamplePosition &position) {
    constexpr int64_t faces = 6;
    auto is_outside = [&](int64_t index) { return index < 0 || index >= level.width; };
    auto x = [&](size_t corner) { return position.x.index[corner & 1]; };
    auto y = [&](size_t corner) { return position.y.index[corner >> 1]; };
    for (size_t corner = 0; corner < Weights::plane; corner++)
      if (is_outside(x(corner)) && is_outside(y(corner)))
        weights.spread(corner);
    int64_t slice = position.z.index[0], face = slice % faces;
    for (size_t corner = 0; corner < Weights::plane; corner++) {
      size_t i = weights.count - Weights::plane + corner;
      FaceTexel texel = across_edge({face, x(corner), y(corner)}, level.width);
      if (weights.takes_part[i])
        texels[i] = fetch.texel(level, texel.x, texel.y, slice - face + texel.face);
    }
  }

  float sum(const Fetch &fetch, size_t channel) const {
    std::array<uint32_t, Weights::max> bits{};
    for (size_t i = 0; i < weights.count; i++)
      bits[i] = weights.takes_part[i] ? fetch.bits(texels[i], channel) : 0;
    return weighted(fetch.sampler, bits, weights, channel);
  }
};

/* Returns the channels of a texel without conversion, extended to 32 bits. */
std::array<uint32_t, 4> raw(const Fetch &fetch, const std::byte *texel) {
  std::array<uint32_t, 4> words{};
  for (size_t channel = 0; channel < fetch.sampler.texels.channels; channel++)
    words[channel] = fetch.bits(texel, channel);
  return words;
}

/* Returns the position on a level to which a lane's coordinates refer. */
SamplePosition position_on(Warp &w, const TextureAccess &access, const Sampler &sampler, uint32_t lane,
                           const Texels::Level &level, bool linear) {
  SamplePosition position;
  std::array<uint32_t, 3> extents{level.width, level.height, level.depth};
  std::array<Taps *, 3> axes{&position.x, &position.y, &position.z};
  size_t first = access.layered ? 1 : 0, count = axes_of(access.geometry);
  const std::vector<OperandIndex> &from = access.coordinates;
  if (access.geometry == Geometry::cube) {
    FacePoint point = face_of(get<float>(w.in(from[first]), lane), get<float>(w.in(from[first + 1]), lane),
                              get<float>(w.in(from[first + 2]), lane));
    position.may_cross_edges = sampler.seamless && linear;
    if (position.may_cross_edges) {
      position.x = face_taps_of(point.x, level.width);
      position.y = face_taps_of(point.y, level.height);
    } else {
      Sampler on_face = sampler;
      on_face.normalized = true;
      position.x = taps_of(on_face, 0, point.x, level.width, linear);
      position.y = taps_of(on_face, 1, point.y, level.height, linear);
    }
    position.z.index[0] = position.z.index[1] = point.face;
  } else {
    for (size_t axis = 0; axis < count; axis++)
      *axes[axis] = taps_of(sampler, axis, get<float>(w.in(from[first + axis]), lane), extents[axis], linear);
    if (count == 1 && linear && !access.layered) /* a line is filtered like the upper edge of an image */
      position.y = taps_of(sampler, 1, 0.0F, 1, true);
  }
  if (access.layered) {
    int64_t layer = layer_of(get<uint32_t>(w.in(from[0]), lane), sampler.texels.layers);
    int64_t slice = access.geometry == Geometry::cube ? layer * 6 + position.z.index[0] : layer;
    position.z.index[0] = position.z.index[1] = slice;
  }
  return position;
}

float level_of(Warp &w, const TextureAccess &access, const Sampler &sampler, uint32_t lane) {
  switch (access.level) {
  case TextureAccess::Level::given:
    return get<float>(w.in(access.more[0]), lane);
  case TextureAccess::Level::gradient: {
    size_t axes = access.more.size() / 2;
    const Texels::Level &base = sampler.texels.levels.front();
    std::array<double, 3> extents{static_cast<double>(base.width), static_cast<double>(base.height),
                                  static_cast<double>(base.depth)};
    std::array<std::array<double, 3>, 2> steps{};
    for (size_t side = 0; side < 2; side++)
      for (size_t axis = 0; axis < axes; axis++) {
        double step = get<float>(w.in(access.more[side * axes + axis]), lane);
        steps[side][axis] = std::fabs(step) < 0x1p-126 ? 0 : step * extents[axis];
      }
    return level_of_steps(steps);
  }
  default:
    return -32; /* selects the first level, because no bias exceeds 32 */
  }
}

/* The values of the channels that the format does not have. */
constexpr Color missing{};

void put_color(Warp &w, const TextureAccess &access, uint32_t lane, const Color &color) {
  for (size_t i = 0; i < 4; i++)
    put<uint64_t>(w.out(access.registers[i]), lane, 0), put<float>(w.out(access.registers[i]), lane, color[i]);
}

void put_words(Warp &w, const TextureAccess &access, uint32_t lane, const std::array<uint32_t, 4> &words) {
  for (size_t i = 0; i < 4; i++)
    put<uint64_t>(w.out(access.registers[i]), lane, words[i]);
}

/*
 * Returns the texel at integer coordinates. As on a GPU, the result is null (no texel) outside of the texture, whatever
 * the address mode. It is always null for a one-dimensional CUDA array without layers, and for coordinates that are not
 * integers. If the instruction gives a level, the coordinates are clamped instead.
 */
const std::byte *indexed(const Fetch &fetch, const TextureAccess &access) {
  Warp &w = fetch.w;
  const Texels &texels = fetch.sampler.texels;
  bool is_line_array = texels.shape == Shape::line && !texels.layered;
  if (!access.integer_coordinates || is_line_array)
    return nullptr;
  auto inside = [&](OperandIndex operand, uint32_t extent, int64_t &out) {
    out = get<int32_t>(w.in(operand), fetch.lane);
    return out >= 0 && out < extent;
  };
  int64_t level = 0, layer = 0;
  bool has_level = access.level == TextureAccess::Level::given;
  if (has_level && !inside(access.more[0], static_cast<uint32_t>(texels.levels.size()), level))
    return nullptr;
  if (access.layered && !inside(access.coordinates[0], texels.layers, layer) && !has_level)
    return nullptr;
  if (access.layered && has_level)
    layer = layer_of(static_cast<uint32_t>(layer), texels.layers);
  const Texels::Level &at = texels.levels[static_cast<size_t>(level)];
  std::array<uint32_t, 3> extents{at.width, at.height, at.depth};
  std::array<int64_t, 3> position{0, 0, layer};
  for (size_t axis = 0; axis < axes_of(access.geometry); axis++) {
    bool is_inside = inside(access.coordinates[(access.layered ? 1 : 0) + axis], extents[axis], position[axis]);
    if (has_level)
      position[axis] = std::clamp<int64_t>(position[axis], 0, extents[axis] - 1);
    else if (!is_inside)
      return nullptr;
  }
  return fetch.texel(at, position[0], position[1], position[2]);
}

void fetch_indexed(const Fetch &fetch, const TextureAccess &access) {
  const std::byte *texel = indexed(fetch, access);
  if (texel == nullptr)
    return put_words(fetch.w, access, fetch.lane, {});
  if (!gives_numbers(fetch.sampler))
    return put_words(fetch.w, access, fetch.lane, raw(fetch, texel));
  Color color = missing;
  for (size_t channel = 0; channel < fetch.sampler.texels.channels; channel++)
    color[channel] = fetch.number(texel, channel);
  put_color(fetch.w, access, fetch.lane, color);
}

void sample_lane(Warp &w, const Instruction &ins, const TextureAccess &access, uint32_t lane) {
  const Sampler &sampler = sampler_of(w, ins, access, lane);
  check_geometry(w, ins, access, lane, sampler.texels);
  Fetch fetch{w, ins, lane, sampler};
  if (sampler.texels.shape == Shape::linear || access.integer_coordinates)
    return fetch_indexed(fetch, access);
  LevelTaps levels{};
  if (sampler.texels.levels.size() > 1)
    levels = levels_of(sampler, level_of(w, access, sampler, lane));
  size_t axes = access.geometry == Geometry::volume ? 3 : 2; /* the number of axes along which texels are filtered */
  bool linear = sampler.linear && gives_numbers(sampler);
  if (!gives_numbers(sampler)) {
    const Texels::Level &level = sampler.texels.levels[levels.index[0]];
    SamplePosition position = position_on(w, access, sampler, lane, level, false);
    return put_words(w, access, lane,
                     raw(fetch, fetch.texel(level, position.x.index[0], position.y.index[0], position.z.index[0])));
  }
  Samples samples;
  for (size_t tap = 0; tap < (levels.weight != 0 ? 2 : 1); tap++) {
    const Texels::Level &level = sampler.texels.levels[levels.index[tap]];
    samples.add(fetch, level, position_on(w, access, sampler, lane, level, linear), linear ? axes : 0,
                tap == 0 ? weight_one - levels.weight : levels.weight);
  }
  bool is_one = !linear && !(sampler.linear_levels && sampler.texels.levels.size() > 1);
  Color color = missing;
  for (size_t channel = 0; channel < sampler.texels.channels; channel++)
    color[channel] = is_one ? fetch.number(samples.texels[0], channel) : samples.sum(fetch, channel);
  put_color(w, access, lane, color);
}

void sample(Warp &w, const Instruction &ins, uint32_t lanes) {
  const TextureAccess &access = w.grid->program.texture_accesses[ins.target];
  for_lanes(lanes, [&](uint32_t lane) { sample_lane(w, ins, access, lane); });
}

/* Returns a number as filters use it: denormals are flushed to zero, and all NaNs are the same. */
float canonical(float value) {
  if (std::fabs(value) < 0x1p-126F)
    return std::copysign(0.0F, value);
  constexpr uint32_t nan = 0x7fffffff;
  if (std::isnan(value))
    std::memcpy(&value, &nan, sizeof value);
  return value;
}

/* Reads one channel of the four texels that a filter would combine, counterclockwise from the lower left. */
void gather(Warp &w, const Instruction &ins, uint32_t lanes) {
  const TextureAccess &access = w.grid->program.texture_accesses[ins.target];
  for_lanes(lanes, [&](uint32_t lane) {
    const Sampler &sampler = sampler_of(w, ins, access, lane);
    check_geometry(w, ins, access, lane, sampler.texels);
    Fetch fetch{w, ins, lane, sampler};
    const Texels::Level &level = sampler.texels.levels.front();
    SamplePosition position = position_on(w, access, sampler, lane, level, true);
    static constexpr std::array<std::array<size_t, 2>, 4> order{{{0, 1}, {1, 1}, {1, 0}, {0, 0}}};
    size_t channel = access.channel;
    bool has_channel = channel < sampler.texels.channels;
    std::array<uint32_t, 4> words{};
    for (size_t i = 0; i < 4; i++) {
      const std::byte *texel = fetch.texel(level, position.x.index[order[i][0]], position.y.index[order[i][1]], 0);
      if (gives_numbers(sampler)) {
        float value = has_channel ? canonical(fetch.number(texel, channel)) : missing[channel];
        std::memcpy(&words[i], &value, sizeof value);
      } else if (has_channel) {
        words[i] = raw(fetch, texel)[channel];
      }
    }
    put_words(w, access, lane, words);
  });
}

uint32_t answer(const Sampler &sampler, const TextureAccess &access, uint32_t level) {
  const Texels &texels = sampler.texels;
  if (level >= texels.levels.size())
    return 0;
  const Texels::Level &at = texels.levels[level];
  switch (access.query) {
  case TextureAccess::Query::width:
    return at.width;
  case TextureAccess::Query::height:
    return texels.shape == Shape::linear ? 0 : texels.shape == Shape::line ? texels.layers : at.height;
  default:
    if (texels.shape == Shape::volume)
      return at.depth;
    if (texels.shape == Shape::cube && sampler.is_surface)
      return 6 * texels.layers;
    return texels.layered && texels.shape != Shape::line ? texels.layers : 0;
  }
}

void query(Warp &w, const Instruction &ins, uint32_t lanes) {
  const TextureAccess &access = w.grid->program.texture_accesses[ins.target];
  for_lanes(lanes, [&](uint32_t lane) {
    const Sampler &sampler = sampler_of(w, ins, access, lane);
    uint32_t level = access.more.empty() ? 0 : get<uint32_t>(w.in(access.more[0]), lane);
    put<uint64_t>(w.out(access.registers[0]), lane, answer(sampler, access, level));
  });
}

} // namespace

Handler texture_handler(const TextureAccess &access) {
  switch (access.op) {
  case TextureAccess::Op::sample:
    return sample;
  case TextureAccess::Op::gather:
    return gather;
  case TextureAccess::Op::query:
    return query;
  default:
    return surface_handler(access);
  }
}

} // namespace sim::exec
