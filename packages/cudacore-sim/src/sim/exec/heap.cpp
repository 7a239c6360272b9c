/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/exec/heap.h"

#include <cstdlib>
#include <map>
#include <atomic>
#include <mutex>

#include "sim/exec/program.h"

namespace sim::exec {

namespace {
constexpr uint64_t granule = 16;

struct Heap {
  std::mutex lock;
  std::atomic<std::byte *> memory{nullptr};
  std::map<uint64_t, uint64_t> free;  /* offset -> size, neighbours merged */
  std::map<uint64_t, uint64_t> taken; /* likewise */
};
/* Never destroyed: threads of the engine may outlive static objects. */
Heap &heap() {
  static Heap &one = *new Heap;
  return one;
}
} // namespace

uint64_t heap_allocate(uint64_t bytes) {
  if (bytes > heap_bytes)
    return 0;
  uint64_t size = bytes ? (bytes + granule - 1) & ~(granule - 1) : granule;
  Heap &h = heap();
  std::lock_guard<std::mutex> hold(h.lock);
  if (!h.memory) {
    h.memory = static_cast<std::byte *>(std::calloc(1, heap_bytes));
    if (!h.memory)
      return 0;
    h.free[0] = heap_bytes;
  }
  for (auto piece = h.free.begin(); piece != h.free.end(); ++piece) {
    auto [offset, available] = *piece;
    if (available < size)
      continue;
    h.free.erase(piece);
    if (available > size)
      h.free[offset + size] = available - size;
    h.taken[offset] = size;
    return window_base(Window::heap) + offset;
  }
  return 0;
}

bool heap_free(uint64_t address) {
  Heap &h = heap();
  std::lock_guard<std::mutex> hold(h.lock);
  auto found = h.taken.find(address - window_base(Window::heap));
  if (found == h.taken.end())
    return false;
  auto [offset, size] = *found;
  h.taken.erase(found);
  auto next = h.free.lower_bound(offset);
  if (next != h.free.end() && offset + size == next->first) {
    size += next->second;
    next = h.free.erase(next);
  }
  if (next != h.free.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return true;
    }
  }
  h.free[offset] = size;
  return true;
}

std::byte *heap_base() { return heap().memory; }

} // namespace sim::exec
