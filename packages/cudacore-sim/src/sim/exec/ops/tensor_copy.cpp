/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cp.async.bulk.tensor copies a box of a tensor. Here, the copy is made at once. It consists of rows along the
 * innermost dimension, and a row consists of pieces of 16 bytes. In shared memory, the pieces are permuted if the
 * tensor map says so.
 */
#include <algorithm>

#include "sim/exec/checker.h"
#include "sim/exec/ops/asynchronous.h"
#include "sim/exec/ops/memory.h"
#include "sim/isa/numeric.h"

namespace sim::exec {

namespace {

constexpr uint32_t piece_bytes = 16, shared_alignment = 128, map_half = tensor_map_bytes / 2;

/* The state of one lane's copy. */
struct Transfer {
  Warp &w;
  const Instruction &ins;
  uint32_t lane;
  const TensorCopy &copy;
  TensorMap map;
  uint32_t size; /* size of an element in bytes */
  std::array<int64_t, max_tensor_rank> start{};
  std::array<int64_t, max_tensor_rank - 2> offsets{}; /* the offsets of an im2col load, along W, H, D */
  uint32_t shared = 0;                                /* address of the next piece in shared memory */
  uint32_t moved = 0;                                 /* bytes copied so far */
  uint32_t blocks = 0;                                /* mask of the blocks of the cluster that a load writes to */
  ElementReduction reduction = nullptr;

  [[noreturn]] void fault(FaultKind kind, uint64_t address, uint32_t bytes, const char *space,
                          const std::string &why) const {
    w.access_fault(kind, ins, lane, address, bytes, copy.way != TensorWay::load, space, why);
  }
};

int64_t coordinate(Warp &w, OperandIndex operand, uint32_t lane) { return get<int32_t>(w.in(operand), lane); }

/* Reads the tensor map, which is in a parameter of the kernel, in constant memory or in global memory. */
void read_map(Transfer &t) {
  uint64_t address = t.w.in(t.copy.map)[t.lane];
  auto window = static_cast<Window>(address >> window_shift);
  if (address % tensor_map_alignment)
    t.fault(FaultKind::misaligned_address, address, tensor_map_bytes, "generic",
            "the address of the tensor map is not a multiple of " + std::to_string(tensor_map_alignment));
  if (window == Window::shared || window == Window::local)
    t.fault(FaultKind::illegal_address, address, tensor_map_bytes, window == Window::shared ? "shared" : "local",
            "a tensor map is in a parameter (const __grid_constant__ CUtensorMap), in constant or in global memory");
  std::array<std::byte, tensor_map_bytes> bytes;
  for (uint32_t half = 0; half < 2; ++half)
    std::memcpy(bytes.data() + half * map_half,
                locate<StateSpace::generic>(t.w, t.ins, t.lane, address + half * map_half, map_half, false), map_half);
  if (!t.map.read(bytes.data()))
    t.fault(FaultKind::illegal_instruction, address, tensor_map_bytes, "generic",
            "there is no tensor map: it was never encoded, or was overwritten");
  if (t.map.rank != t.copy.rank || t.map.im2col != t.copy.im2col)
    t.w.fault(FaultKind::illegal_instruction, t.ins, t.lane,
              "the instruction is for a tensor map of " + std::to_string(t.copy.rank) + " dimensions" +
                  (t.copy.im2col ? ", im2col" : "") + ", and this one has " + std::to_string(t.map.rank) +
                  (t.map.im2col ? ", im2col" : ", tiled"));
  t.size = bytes_of(t.map.element);
}

/* Checks that the memory of the tensor exists, even if the whole box is out of bounds. */
void check_tensor(Transfer &t) {
  range_of(t.w, t.ins, t.lane, t.map.address, piece_bytes, false);
  if (!t.map.interleave && t.start[0] * t.size % piece_bytes)
    t.w.fault(FaultKind::illegal_instruction, t.ins, t.lane,
              "the first coordinate is " + std::to_string(t.start[0]) + ", which is " +
                  std::to_string(t.start[0] * t.size) + " bytes: it must be a multiple of 16 bytes");
}

void set_shared(Transfer &t) {
  uint64_t address = t.w.in(t.copy.shared)[t.lane];
  t.shared = static_cast<uint32_t>(address);
  if (t.shared % shared_alignment)
    t.fault(FaultKind::misaligned_address, t.shared, shared_alignment, "shared",
            "the address in shared memory is not a multiple of 128");
}

/* Returns the width in bytes of the pattern in which pieces are permuted, or 0 if they are not permuted. */
uint32_t span_of(const TensorMap &map) { return map.swizzle == 0 ? 0 : 16u << map.swizzle; }

/*
 * Returns the permuted address of a piece: the number of the piece in its line of 128 bytes is combined (xor) with the
 * number of this line.
 */
uint32_t swizzled(const TensorMap &map, uint32_t address) {
  return map.swizzle == 0 ? address : address ^ (address >> 3 & (span_of(map) - piece_bytes));
}

/* Returns the value of elements out of bounds, repeated in 64 bits: zero or a special NaN. */
uint64_t fill_of(const TensorMap &map) { return map.fills_nan ? 0x7ff77ff77ff77ff7 : 0; }

/* Converts a 32-bit number in the way that loads do: TF32 is rounded. */
uint32_t converted(TensorElement element, uint32_t bits) {
  if (element != TensorElement::tf32 && element != TensorElement::tf32_ftz)
    return bits;
  double value = bit_cast<float>(bits);
  return static_cast<uint32_t>(round_to(format_tf32, value, Rounding::nearest)) << 13;
}

/* Stores a piece in the shared memory of each block to which the load writes. */
void put_piece(Transfer &t, const std::byte *piece) {
  for_blocks(t.blocks, swizzled(t.map, t.shared), [&](uint32_t there) {
    if (Checker *checker = t.w.grid->checker.get())
      checker->copies(piece);
    std::byte *to = locate<StateSpace::shared>(t.w, t.ins, t.lane, there, piece_bytes, true);
    for (uint32_t word = 0; word < piece_bytes; word += 8)
      store_relaxed<uint64_t>(to + word, load_relaxed<uint64_t>(piece + word));
  });
  if (Checker *checker = t.w.grid->checker.get())
    checker->copies(nullptr);
}

/*
 * Moves the elements of a piece. The elements up to index `first` are before the start of the tensor, and the elements
 * from index `end` on are after its end.
 */
void move_piece(Transfer &t, uint64_t address, int64_t first, int64_t end) {
  const uint32_t count = piece_bytes / t.size;
  if (t.copy.way == TensorWay::store && end > 0)
    end = count; /* a piece that begins in the tensor is stored completely, even into the padding of the row */
  first = std::clamp<int64_t>(first, 0, count);
  end = std::clamp<int64_t>(end, first, count);
  t.w.moving.fill(std::byte{1});
  auto in_memory = [&](int64_t i) {
    t.w.moving_at = static_cast<uint32_t>(i) * t.size;
    return locate<StateSpace::global>(t.w, t.ins, t.lane, address + static_cast<uint64_t>(i) * t.size, t.size,
                                      t.copy.way != TensorWay::load);
  };
  alignas(8) std::array<std::byte, piece_bytes> bytes{};
  if (t.copy.way != TensorWay::load) {
    t.w.moving_at = 0;
    const std::byte *from =
        locate<StateSpace::shared>(t.w, t.ins, t.lane, swizzled(t.map, t.shared), piece_bytes, false);
    for (uint32_t word = 0; word < piece_bytes; word += 8) {
      auto value = load_relaxed<uint64_t>(from + word);
      std::memcpy(bytes.data() + word, &value, sizeof value);
    }
    for (int64_t i = first; i < end; ++i) {
      const std::byte *value = bytes.data() + i * t.size;
      std::byte *to = in_memory(i);
      if (t.reduction)
        t.reduction(to, value);
      else
        for (uint32_t b = 0; b < t.size; ++b)
          store_relaxed<uint8_t>(to + b, std::to_integer<uint8_t>(value[b]));
    }
    return;
  }
  const uint64_t fill = fill_of(t.map);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t value = fill;
    if (i >= first && i < end) {
      const std::byte *at = in_memory(i);
      value = 0;
      for (uint32_t b = 0; b < t.size; ++b)
        value |= uint64_t{load_relaxed<uint8_t>(at + b)} << (8 * b);
      if (t.size == 4)
        value = converted(t.map.element, static_cast<uint32_t>(value));
    }
    std::memcpy(bytes.data() + i * t.size, &value, t.size);
  }
  t.w.moving_at = 0;
  put_piece(t, bytes.data());
}

/*
 * Moves a row of slices in an interleaved layout, and of these only every `stride`th slice. A slice has 16 or 32 bytes.
 */
void move_slices(Transfer &t, uint64_t address, int64_t start, uint32_t count, uint32_t stride, bool inside) {
  const uint32_t bytes = piece_bytes * t.map.interleave;
  for (uint32_t i = 0; i < count; i += stride) {
    int64_t at = start + i;
    bool is_there = inside && at >= 0 && at < static_cast<int64_t>(t.map.dims[0]);
    for (uint32_t piece = 0; piece < bytes; piece += piece_bytes, t.shared += piece_bytes)
      move_piece(t, address + static_cast<uint64_t>(at * bytes + piece), 0, is_there ? piece_bytes : 0);
    t.moved += bytes;
  }
}

/*
 * Moves a row of `count` elements along the innermost dimension. `inside`: the other coordinates are within the tensor.
 */
void move_row(Transfer &t, uint64_t address, uint32_t count, bool inside) {
  const int64_t extent = inside ? static_cast<int64_t>(t.map.dims[0]) : 0;
  const uint32_t begin = t.shared, bytes = count * t.size;
  for (uint32_t i = 0; i < count; i += piece_bytes / t.size, t.shared += piece_bytes) {
    int64_t at = t.start[0] + i;
    move_piece(t, address + static_cast<uint64_t>(at * t.size), inside ? -at : piece_bytes, extent - at);
  }
  t.moved += bytes;
  t.shared = begin + std::max(bytes, span_of(t.map)); /* a swizzled row occupies the whole width of the pattern */
}

/* Checks the coordinates of a copy from shared memory, which may end outside of the tensor, but not begin before it. */
void check_coordinates(const Transfer &t, const std::array<int64_t, max_tensor_rank> &at) {
  for (uint32_t i = 0; i < t.map.rank && t.copy.way != TensorWay::load; ++i)
    if (at[i] < 0)
      t.w.fault(FaultKind::illegal_instruction, t.ins, t.lane,
                "coordinate " + std::to_string(i) + " is " + std::to_string(at[i]) +
                    ": copies to global memory take none that are negative");
}

/*
 * Returns the address of the row at these coordinates, ignoring the innermost one. Sets `inside` to whether the other
 * coordinates are within the tensor.
 */
uint64_t place_of(const Transfer &t, const std::array<int64_t, max_tensor_rank> &at, bool &inside) {
  uint64_t address = t.map.address;
  check_coordinates(t, at);
  inside = true;
  for (uint32_t i = 1; i < t.map.rank; ++i) {
    inside &= at[i] >= 0 && at[i] < static_cast<int64_t>(t.map.dims[i]);
    address += static_cast<uint64_t>(at[i]) * t.map.strides[i - 1];
  }
  return address;
}

void move_box(Transfer &t) {
  std::array<uint32_t, max_tensor_rank> steps{};
  /*
   * In an interleaved layout, the second to last dimension counts slices of channels. Only one slice is moved, whatever
   * the size of the box in this dimension.
   */
  auto extent = [&](uint32_t i) { return t.map.interleave && i + 2 == t.map.rank ? 1 : t.map.box[i]; };
  for (;;) {
    std::array<int64_t, max_tensor_rank> at = t.start;
    for (uint32_t i = 1; i < t.map.rank; ++i)
      at[i] += int64_t{steps[i]} * t.map.element_strides[i];
    bool inside;
    uint64_t address = place_of(t, at, inside);
    if (t.map.interleave) {
      uint32_t begin = t.shared;
      move_slices(t, address, at[0], t.map.box[0], t.map.element_strides[0], inside);
      t.shared = begin + std::max(t.shared - begin, span_of(t.map));
    } else {
      move_row(t, address, t.map.box[0], inside);
    }
    uint32_t i = 1;
    while (i < t.map.rank && ++steps[i] * t.map.element_strides[i] >= extent(i))
      steps[i++] = 0;
    if (i >= t.map.rank)
      return;
  }
}

/*
 * Moves pixels of the bounding box, starting with the pixel at the given coordinates: first along W, then along H, D
 * and N.
 */
void move_pixels(Transfer &t) {
  const uint32_t spatial = t.map.rank - 2, images = t.map.rank - 1;
  const uint32_t first =
      t.map.interleave ? 0 : 1; /* index of dimension W: the channels are before it, unless the layout is interleaved */
  for (uint32_t i = 0; i < spatial; ++i)
    if (int64_t end = static_cast<int64_t>(t.map.dims[i + first]) + t.map.upper[i];
        t.start[i + first] < t.map.lower[i] || t.start[i + first] >= end)
      t.w.fault(FaultKind::illegal_instruction, t.ins, t.lane,
                "coordinate " + std::to_string(i + first) + " is " + std::to_string(t.start[i + first]) +
                    ", out of the bounding box of the tensor map, from " + std::to_string(t.map.lower[i]) + " to " +
                    std::to_string(end - 1));
  std::array<int64_t, max_tensor_rank> at = t.start;
  for (uint32_t pixel = 0; pixel < t.map.pixels; ++pixel) {
    std::array<int64_t, max_tensor_rank> shifted = at;
    for (uint32_t i = 0; i < spatial; ++i)
      shifted[i + first] += t.offsets[i];
    bool inside;
    uint64_t address = place_of(t, shifted, inside);
    if (t.map.interleave)
      move_slices(t, address, shifted[0], 1, 1, inside);
    else
      move_row(t, address, t.map.channels, inside);
    uint32_t i = 0;
    for (; i < spatial; ++i) {
      at[i + first] += t.map.element_strides[i + first];
      if (at[i + first] < static_cast<int64_t>(t.map.dims[i + first]) + t.map.upper[i])
        break;
      at[i + first] = t.map.lower[i];
    }
    if (i == spatial)
      at[images] += t.map.element_strides[images];
  }
}

/* Returns a mask of the blocks of the cluster that a load writes to. */
uint32_t blocks_of(Warp &w, const TensorCopy &copy, uint32_t lane) {
  if (copy.blocks != no_operand)
    return get<uint16_t>(w.in(copy.blocks), lane);
  return 1u << (static_cast<uint32_t>(w.in(copy.shared)[lane]) >> shared_rank_shift);
}

void run_copy(Warp &w, const Instruction &ins, uint32_t lane, const TensorCopy &copy) {
  Transfer t{w, ins, lane, copy, {}, 1};
  read_map(t);
  for (uint32_t i = 0; i < copy.rank; ++i)
    t.start[i] = coordinate(w, copy.at[i], lane);
  for (uint32_t i = 0; i + 2 < copy.rank && copy.offsets[i] != no_operand && copy.im2col; ++i)
    t.offsets[i] = copy.way == TensorWay::load ? get<uint16_t>(w.in(copy.offsets[i]), lane) : 0;
  check_tensor(t);
  if (copy.way == TensorWay::prefetch)
    return;
  set_shared(t);
  t.blocks = blocks_of(w, copy, lane);
  if (copy.way == TensorWay::reduce) {
    t.reduction = element_reduction(copy.op, t.map.element);
    if (!t.reduction)
      w.fault(FaultKind::illegal_instruction, ins, lane, "the elements of the tensor map have no such reduction");
  }
  if (t.map.im2col)
    move_pixels(t);
  else
    move_box(t);
  w.tensor_bytes[lane] = t.moved;
}

void tensor_copy(Warp &w, const Instruction &ins, uint32_t lanes) {
  const TensorCopy &copy = w.grid->program.tensor_copies[ins.target];
  ++w.stores;
  for_lanes(lanes, [&](uint32_t lane) { run_copy(w, ins, lane, copy); });
}

void tensor_signal(Warp &w, const Instruction &ins, uint32_t lanes) {
  const TensorCopy &copy = w.grid->program.tensor_copies[ins.target];
  for_lanes(lanes, [&](uint32_t lane) {
    auto mbarrier = static_cast<uint32_t>(w.in(copy.mbarrier)[lane]);
    if (copy.blocks == no_operand)
      need_in_block_of(w.in(copy.shared)[lane], w, ins, lane, mbarrier);
    for_blocks(blocks_of(w, copy, lane), mbarrier,
               [&](uint32_t there) { complete_bytes(w, ins, lane, there, w.tensor_bytes[lane]); });
  });
}

} // namespace

Handler tensor_copy_handler() { return tensor_copy; }
Handler tensor_signal_handler() { return tensor_signal; }

} // namespace sim::exec
