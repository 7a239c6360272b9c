/* SPDX-License-Identifier: Apache-2.0 */
/* tensormap.replace, which changes a tensor map in memory, and tensormap.cp_fenceproxy, which copies a tensor map. */
#include "sim/exec/ops/memory.h"
#include "sim/isa/tensor_map.h"

#include <cstring>

namespace sim::exec {
namespace {

constexpr uint32_t word_bytes = 8;

std::byte *map_at(Warp &w, const Instruction &ins, uint32_t lane, uint64_t address, bool is_shared, bool write) {
  if (address % tensor_map_bytes)
    w.access_fault(FaultKind::misaligned_address, ins, lane, address, tensor_map_bytes, write,
                   is_shared ? "shared" : "generic", "the address of the tensor map is not a multiple of 128");
  return is_shared ? locate<StateSpace::shared>(w, ins, lane, static_cast<uint32_t>(address), tensor_map_bytes, write)
                   : locate<StateSpace::generic>(w, ins, lane, address, tensor_map_bytes, write);
}

void copy_words(std::byte *to, const std::byte *from) {
  for (uint32_t at = 0; at < tensor_map_bytes; at += word_bytes)
    store_relaxed<uint64_t>(to + at, load_relaxed<uint64_t>(from + at));
}

void replace(Warp &w, const Instruction &ins, uint32_t lanes) {
  const uint64_t *addresses = w.in(ins.op[0]), *values = w.in(ins.op[1]);
  ++w.stores;
  for_lanes(lanes, [&](uint32_t lane) {
    std::byte *map = map_at(w, ins, lane, addresses[lane], ins.flag, true);
    alignas(word_bytes) std::array<std::byte, tensor_map_bytes> bytes;
    copy_words(bytes.data(), map);
    replace_field(bytes.data(), static_cast<TensorField>(ins.target), static_cast<uint32_t>(ins.immediate),
                  values[lane]);
    copy_words(map, bytes.data());
  });
}

void publish(Warp &w, const Instruction &ins, uint32_t lanes) {
  auto lane = static_cast<uint32_t>(__builtin_ctz(lanes));
  ++w.stores;
  const std::byte *from = map_at(w, ins, lane, w.in(ins.op[1])[lane], true, false);
  copy_words(map_at(w, ins, lane, w.in(ins.op[0])[lane], false, true), from);
}

} // namespace

Handler tensor_replace_handler() { return replace; }
Handler tensor_publish_handler() { return publish; }

} // namespace sim::exec
