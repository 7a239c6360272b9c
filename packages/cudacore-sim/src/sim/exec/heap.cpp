/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/exec/heap.h"

#include <algorithm>
#include <sys/mman.h>

#include "sim/isa/program.h"

namespace sim {

namespace {
constexpr uint64_t granule = 16;
constexpr uint64_t max_bytes = uint64_t{1} << 40; /* maximum size of the heap; no device has as much memory */
} // namespace

std::shared_ptr<Heap> make_heap() { return std::make_shared<Heap>(); }

size_t pieces_in(Heap &heap) { return heap.pieces(); }

size_t Heap::pieces() {
  std::lock_guard<std::mutex> hold(lock_);
  return taken_.size();
}

Heap::~Heap() {
  if (std::byte *memory = memory_.load())
    munmap(memory, size_);
  if (states_)
    munmap(states_, size_);
}

/* Creates the heap. The system provides its pages only when they are first used. */
bool Heap::open(uint64_t limit, bool keep_states) {
  uint64_t size = std::min(limit, max_bytes) / granule * granule;
  auto map = [size] {
    void *memory =
        size == 0 ? MAP_FAILED
                  : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
  };
  void *memory = map();
  if (!memory)
    return false;
  if (keep_states)
    states_ = static_cast<std::byte *>(map());
  size_ = size;
  free_[0] = size;
  memory_.store(static_cast<std::byte *>(memory), std::memory_order_release);
  return true;
}

uint64_t Heap::allocate(uint64_t bytes, uint64_t limit, bool keep_states) {
  std::lock_guard<std::mutex> hold(lock_);
  if (!memory_.load(std::memory_order_relaxed) && !open(limit, keep_states))
    return 0;
  if (bytes > size_)
    return 0;
  uint64_t size = std::max((bytes + granule - 1) / granule * granule, granule);
  for (;;) {
    for (auto piece = free_.begin(); piece != free_.end(); ++piece) {
      auto [offset, available] = *piece;
      if (available < size)
        continue;
      free_.erase(piece);
      if (available > size)
        free_[offset + size] = available - size;
      taken_[offset] = size;
      if (states_) {
        std::fill_n(states_ + offset, bytes, new_);
        std::fill_n(states_ + offset + bytes, size - bytes, outside);
      }
      return exec::window_base(exec::Window::heap) + offset;
    }
    if (resting_.empty())
      return 0;
    give_back(resting_.front().first, resting_.front().second);
    resting_.pop_front();
  }
}

bool Heap::free(uint64_t address) {
  std::lock_guard<std::mutex> hold(lock_);
  auto found = taken_.find(address - exec::window_base(exec::Window::heap));
  if (found == taken_.end())
    return false;
  auto [offset, size] = *found;
  taken_.erase(found);
  if (states_) {
    std::fill_n(states_ + offset, size, freed);
    resting_.push_back({offset, size});
  } else {
    give_back(offset, size);
  }
  return true;
}

void Heap::give_back(uint64_t offset, uint64_t size) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  free_[offset] = size;
}

std::byte *Heap::states(uint64_t offset) const { return states_ ? states_ + offset : nullptr; }

std::byte *Heap::locate(uint64_t offset, uint64_t bytes) const {
  std::byte *memory = memory_.load(std::memory_order_acquire);
  return memory && offset < size_ && bytes <= size_ - offset ? memory + offset : nullptr;
}

} // namespace sim
