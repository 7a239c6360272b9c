/* SPDX-License-Identifier: Apache-2.0 */
/* The tensor memory of a block (tcgen05): its allocation, loads and stores by warps, and copies from shared memory. */
#include "sim/exec/ops/matrix/shared.h"
#include "sim/exec/ops/matrix/tensor_cells.h"
#include "sim/exec/ops/memory.h"

namespace sim::exec {

uint32_t &tensor_cell(Warp &w, const Instruction &ins, uint32_t by, uint32_t lane, uint32_t column) {
  TensorMemory *memory = w.block->tensor_memory.get();
  if (!memory || lane >= tensor_lanes || column >= tensor_columns || memory->units[column / tensor_unit].columns == 0)
    w.access_fault(FaultKind::illegal_address, ins, by, uint64_t{lane} << 16 | column, 4, false, "tensor",
                   "lane " + std::to_string(lane) + " and column " + std::to_string(column) + " are not allocated");
  return memory->cells[lane][column];
}

void tensor_memory_ends(const TensorMemory &memory) {
  for (const TensorMemory::Allocation &one : memory.units)
    if (one.columns)
      one.by->fault(FaultKind::tensor_memory_leak, *one.at, 0,
                    "the block ended, and has not freed the " + std::to_string(one.columns) +
                        " columns that it allocated here");
}

namespace {

/* --- allocation --------------------------------------------------------------------------------------------------- */

TensorMemory &memory_of(Warp &w) {
  std::shared_ptr<TensorMemory> &memory = w.block->tensor_memory;
  if (!memory) {
    memory = std::make_shared<TensorMemory>();
    std::memset(&memory->cells, static_cast<int>(w.grid->launch.fill), sizeof memory->cells);
  }
  return *memory;
}

void alloc(Warp &w, const Instruction &ins, uint32_t lanes) {
  all_together(w, ins, lanes, [&](uint32_t present) {
    auto first = static_cast<uint32_t>(__builtin_ctz(present));
    auto columns = get<uint32_t>(w.in(ins.op[1]), first);
    if (columns < tensor_unit || columns > tensor_columns || (columns & (columns - 1)))
      w.fault(FaultKind::illegal_instruction, ins, first,
              std::to_string(columns) + " columns: it has to be a power of two from 32 to 512");
    TensorMemory &memory = memory_of(w);
    if (memory.relinquished)
      w.fault(FaultKind::illegal_instruction, ins, first, "the block has given up its right to allocate");
    uint32_t begin = 0;
    auto is_free = [&](uint32_t from) {
      for (uint32_t i = from; i < from + columns; i += tensor_unit)
        if (memory.units[i / tensor_unit].columns)
          return false;
      return true;
    };
    while (begin < tensor_columns && !is_free(begin))
      begin += columns;
    if (begin == tensor_columns)
      w.fault(FaultKind::hang, ins, first, std::to_string(columns) + " columns of tensor memory never become free");
    for (uint32_t i = begin; i < begin + columns; i += tensor_unit)
      memory.units[i / tensor_unit] = {begin, columns, &w, &ins};
    uint64_t address = w.in(ins.op[0])[first];
    ++w.stores;
    std::byte *at =
        ins.flag ? locate<StateSpace::shared>(w, ins, first, static_cast<uint32_t>(address), sizeof(uint32_t), true)
                 : locate<StateSpace::generic>(w, ins, first, address, sizeof(uint32_t), true);
    store_relaxed<uint32_t>(at, begin);
  });
}

void dealloc(Warp &w, const Instruction &ins, uint32_t lanes) {
  all_together(w, ins, lanes, [&](uint32_t present) {
    auto by = static_cast<uint32_t>(__builtin_ctz(present));
    auto address = get<uint32_t>(w.in(ins.op[0]), by), columns = get<uint32_t>(w.in(ins.op[1]), by);
    tensor_cell(w, ins, by, lane_of_address(address), column_of_address(address));
    TensorMemory &memory = *w.block->tensor_memory;
    const TensorMemory::Allocation what = memory.units[column_of_address(address) / tensor_unit];
    if (what.first != address || what.columns != columns)
      w.fault(FaultKind::illegal_instruction, ins, by,
              std::to_string(columns) + " columns from column " + std::to_string(address) + ", but " +
                  std::to_string(what.columns) + " were allocated there, from column " + std::to_string(what.first));
    for (uint32_t i = address; i < address + columns; i += tensor_unit)
      memory.units[i / tensor_unit] = {};
  });
}

void relinquish(Warp &w, const Instruction &ins, uint32_t lanes) {
  all_together(w, ins, lanes, [&](uint32_t) { memory_of(w).relinquished = true; });
}

/* --- loads and stores --------------------------------------------------------------------------------------------- */

struct Place {
  uint32_t lane, column;
};
/* Returns the place of a thread's register with number i, relative to the address of the access. */
Place place_of(TensorShape shape, uint32_t thread, uint32_t i, uint32_t half) {
  switch (shape) {
  case TensorShape::lanes_32x32b:
    return {thread, i};
  case TensorShape::lanes_16x32bx2:
    return {thread % 16, i + thread / 16 * half};
  case TensorShape::lanes_16x64b:
    return {thread / 4 + thread % 2 * 8, 2 * i + thread / 2 % 2};
  case TensorShape::lanes_16x128b:
    return {thread / 4 + i % 2 * 8, i / 2 * 4 + thread % 4};
  default:
    return {thread / 4 + i / 2 % 2 * 8, i / 4 * 8 + thread % 4 * 2 + i % 2};
  }
}

template <bool Store> void access(Warp &w, const Instruction &ins, uint32_t lanes) {
  all_together(w, ins, lanes, [&](uint32_t present) {
    const std::vector<OperandIndex> &registers = w.grid->program.matrix_accesses[ins.target].registers;
    auto first = static_cast<uint32_t>(__builtin_ctz(present));
    auto address = get<uint32_t>(w.in(ins.op[0]), first);
    uint32_t lane = lane_of_address(address), column = column_of_address(address);
    if (lane / warp_size != w.index % 4)
      w.access_fault(FaultKind::illegal_address, ins, first, address, 4, Store, "tensor",
                     "warp " + std::to_string(w.index) + " can access lanes from " +
                         std::to_string(w.index % 4 * warp_size) + " to " +
                         std::to_string(w.index % 4 * warp_size + warp_size - 1) + ", and this is lane " +
                         std::to_string(lane));
    auto cell = [&](uint32_t thread, const Place &place, uint32_t part) -> uint32_t & {
      return tensor_cell(w, ins, thread, lane + place.lane,
                         column + (ins.flag ? 2 * place.column + part : place.column));
    };
    for (uint32_t i = 0; i < registers.size(); ++i)
      for_lanes(present, [&](uint32_t thread) {
        Place place = place_of(static_cast<TensorShape>(ins.mode), thread, i, static_cast<uint32_t>(ins.immediate));
        if (Store) {
          auto value = get<uint32_t>(w.in(registers[i]), thread);
          cell(thread, place, 0) = ins.flag ? value & 0xffff : value;
          if (ins.flag)
            cell(thread, place, 1) = value >> 16;
        } else {
          uint32_t value = cell(thread, place, 0);
          put<uint32_t>(w.out(registers[i]), thread,
                        ins.flag ? (value & 0xffff) | cell(thread, place, 1) << 16 : value);
        }
      });
  });
}

/* --- copies from shared memory ------------------------------------------------------------------------------------ */

/* Calls f(lane) for the lanes that get a row of the matrix. */
template <class F> void for_copies(TensorCopyRows rows, uint32_t row, F &&f) {
  switch (rows) {
  case TensorCopyRows::all_128:
    return f(row);
  case TensorCopyRows::to_all_warps:
    for (uint32_t warp = 0; warp < 4; ++warp)
      f(warp * warp_size + row);
    return;
  default: {
    uint32_t half = row / warp_size, in_warp = row % warp_size;
    bool alternate = rows == TensorCopyRows::halves_02_13;
    f((alternate ? half : 2 * half) * warp_size + in_warp);
    f((alternate ? half + 2 : 2 * half + 1) * warp_size + in_warp);
  }
  }
}

void fill(Warp &w, const Instruction &ins, uint32_t lanes) {
  const auto rows = static_cast<TensorCopyRows>(ins.mode);
  const uint32_t count = rows == TensorCopyRows::all_128        ? tensor_lanes
                         : rows == TensorCopyRows::to_all_warps ? warp_size
                                                                : 2 * warp_size;
  const uint64_t own = uint64_t{w.block->rank} << shared_rank_shift;
  for_lanes(lanes, [&](uint32_t by) {
    auto address = get<uint32_t>(w.in(ins.op[0]), by);
    const MatrixDescriptor where(w.in(ins.op[1])[by]);
    for (uint32_t row = 0; row < count; ++row)
      for (uint32_t word = 0; word < ins.count; ++word) {
        uint32_t offset = where.by_k(row, word * 4 / piece_bytes * piece_bytes) + word * 4 % piece_bytes;
        auto value = load_relaxed<uint32_t>(locate<StateSpace::shared>(w, ins, by, own + offset, 4, false));
        for_copies(rows, row, [&](uint32_t lane) {
          tensor_cell(w, ins, by, lane_of_address(address) + lane, column_of_address(address) + word) = value;
        });
      }
  });
}

} // namespace

Handler tensor_alloc_handler() { return alloc; }
Handler tensor_free_handler() { return dealloc; }
Handler tensor_relinquish_handler() { return relinquish; }
Handler tensor_load_handler() { return access<false>; }
Handler tensor_store_handler() { return access<true>; }
Handler tensor_fill_handler() { return fill; }

} // namespace sim::exec
