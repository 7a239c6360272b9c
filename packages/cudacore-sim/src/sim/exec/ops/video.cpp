/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar video instructions: arithmetic on bytes, halves and words with saturation and a second operation. */
#include <algorithm>

#include "sim/isa/handlers.h"
#include "sim/exec/ops/functions.h"
#include "sim/exec/ops/instances.h"
#include "sim/exec/ops/lanes.h"

namespace sim::exec {

namespace {

uint32_t bits_of(VideoPart part) { return part == VideoPart::word ? 32 : part >= VideoPart::h0 ? 16 : 8; }
uint32_t shift_of(VideoPart part) {
  constexpr uint8_t shifts[] = {0, 0, 8, 16, 24, 0, 16}; /* for word, b0 to b3, h0, h1 */
  return shifts[static_cast<size_t>(part)];
}

int64_t extract(uint32_t word, VideoPart part, bool is_signed) {
  uint32_t bits = bits_of(part), value = static_cast<uint32_t>(uint64_t{word} >> shift_of(part));
  if (is_signed)
    return static_cast<int32_t>(value << (32 - bits)) >> (32 - bits);
  return static_cast<int64_t>(value & ((uint64_t{1} << bits) - 1));
}

/* An integer type for shifted values and products, which have up to 65 bits. */
__extension__ using Wide = __int128;

Wide saturated(Wide value, uint32_t bits, bool is_signed) {
  Wide top = (Wide{1} << (is_signed ? bits - 1 : bits)) - 1, bottom = is_signed ? -top - 1 : 0;
  return std::clamp(value, bottom, top);
}

/*
 * Computes (-)a * (-)b + (-)c, shifts the sum, and saturates it. A term is negated by taking its complement, and adding
 * one to the sum.
 */
uint32_t multiply_add(int64_t a, int64_t b, uint32_t c, const VideoMode &mode) {
  bool is_signed = mode.a_signed || mode.b_signed || mode.minus_product || mode.minus_c;
  Wide sum = static_cast<Wide>(a) * b, addend;
  bool one = mode.plus_one;
  if (!one && mode.minus_product) {
    sum = ~sum;
    one = true;
  } else if (!one && mode.minus_c) {
    c = ~c;
    one = true;
  }
  addend = is_signed ? static_cast<Wide>(static_cast<int32_t>(c)) : static_cast<Wide>(c);
  sum = (sum + addend + (one ? 1 : 0)) >> mode.shift;
  if (mode.saturate)
    sum = saturated(sum, 32, is_signed);
  return static_cast<uint32_t>(sum);
}

template <VideoOp Op> uint32_t compute(uint32_t word_a, uint32_t word_b, uint32_t c, const VideoMode &mode) {
  int64_t a = extract(word_a, mode.a, mode.a_signed), b = extract(word_b, mode.b, mode.b_signed);
  Wide result = 0;
  switch (Op) {
  case VideoOp::add:
    result = a + b;
    break;
  case VideoOp::sub:
    result = a - b;
    break;
  case VideoOp::absdiff:
    result = a < b ? b - a : a - b;
    break;
  case VideoOp::min:
    result = std::min(a, b);
    break;
  case VideoOp::max:
    result = std::max(a, b);
    break;
  case VideoOp::shl:
  case VideoOp::shr: {
    int64_t count = mode.wrap ? b & 31 : std::min<int64_t>(b, 32);
    result = Op == VideoOp::shl ? Wide{a} * (Wide{1} << count) : Wide{a >> count};
    break;
  }
  case VideoOp::mad:
    return multiply_add(a, b, c, mode);
  case VideoOp::set:
    result = holds(static_cast<Comparison>(mode.comparison), a, b);
    break;
  }
  uint32_t bits = bits_of(mode.d);
  if (mode.saturate)
    result = saturated(result, bits, mode.d_signed);
  auto word = static_cast<uint32_t>(result);
  auto less = [&](uint32_t x, uint32_t y) {
    return mode.d_signed ? static_cast<int32_t>(x) < static_cast<int32_t>(y) : x < y;
  };
  switch (mode.second) {
  case VideoSecond::add:
    return word + c;
  case VideoSecond::min:
    return less(c, word) ? c : word;
  case VideoSecond::max:
    return less(word, c) ? c : word;
  case VideoSecond::none:
    break;
  }
  if (!mode.merge)
    return word;
  uint32_t mask = static_cast<uint32_t>((uint64_t{1} << bits) - 1) << shift_of(mode.d);
  return (word << shift_of(mode.d) & mask) | (c & ~mask);
}

VideoMode mode_of(int64_t immediate) {
  auto bits = static_cast<uint64_t>(immediate);
  auto take = [&](uint32_t count) {
    uint64_t value = bits & ((uint64_t{1} << count) - 1);
    bits >>= count;
    return static_cast<uint8_t>(value);
  };
  VideoMode mode;
  mode.d = static_cast<VideoPart>(take(3));
  mode.a = static_cast<VideoPart>(take(3));
  mode.b = static_cast<VideoPart>(take(3));
  mode.d_signed = take(1);
  mode.a_signed = take(1);
  mode.b_signed = take(1);
  mode.saturate = take(1);
  mode.second = static_cast<VideoSecond>(take(2));
  mode.merge = take(1);
  mode.wrap = take(1);
  mode.minus_product = take(1);
  mode.minus_c = take(1);
  mode.plus_one = take(1);
  mode.shift = take(4);
  mode.comparison = take(4);
  return mode;
}

template <VideoOp Op> void video(Warp &w, const Instruction &ins, uint32_t lanes) {
  VideoMode mode = mode_of(ins.immediate);
  const uint64_t *a = w.in(ins.op[1]), *b = w.in(ins.op[2]), *c = ins.op[3] == no_operand ? a : w.in(ins.op[3]);
  uint64_t *d = w.out(ins.op[0]);
  for_lanes(lanes, [&](uint32_t lane) {
    put<uint32_t>(d, lane, compute<Op>(get<uint32_t>(a, lane), get<uint32_t>(b, lane), get<uint32_t>(c, lane), mode));
  });
}

} // namespace

int64_t video_mode(const VideoMode &mode) {
  uint64_t bits = 0;
  uint32_t used = 0;
  auto add = [&](uint64_t value, uint32_t count) {
    bits |= value << used;
    used += count;
  };
  add(static_cast<uint64_t>(mode.d), 3);
  add(static_cast<uint64_t>(mode.a), 3);
  add(static_cast<uint64_t>(mode.b), 3);
  add(mode.d_signed, 1);
  add(mode.a_signed, 1);
  add(mode.b_signed, 1);
  add(mode.saturate, 1);
  add(static_cast<uint64_t>(mode.second), 2);
  add(mode.merge, 1);
  add(mode.wrap, 1);
  add(mode.minus_product, 1);
  add(mode.minus_c, 1);
  add(mode.plus_one, 1);
  add(mode.shift, 4);
  add(mode.comparison, 4);
  return static_cast<int64_t>(bits);
}

Handler video_handler(VideoOp op) {
  return for_constant<VideoOp::add, VideoOp::sub, VideoOp::absdiff, VideoOp::min, VideoOp::max, VideoOp::shl,
                      VideoOp::shr, VideoOp::mad, VideoOp::set>(op, [](auto o) { return video<o.value>; });
}

} // namespace sim::exec
