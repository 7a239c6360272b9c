/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_EXEC_HEAP_H
#define CUDACORE_SIM_EXEC_HEAP_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>

#include "sim/engine.h"

namespace sim {

/* The device heap of a context. Any thread. */
class Heap {
public:
  Heap() = default;
  Heap(const Heap &) = delete;
  Heap &operator=(const Heap &) = delete;
  ~Heap();

  /*
   * An address in the heap's window, aligned to 16 bytes, or 0 when there is no room. The first allocation makes the
   * heap as large as `limit`, for good.
   */
  uint64_t allocate(uint64_t bytes, uint64_t limit, bool keep_states);
  /* False for what is no live allocation. */
  bool free(uint64_t address);
  /* The host's memory of what is in the heap, allocated or not; null for what is not. */
  std::byte *locate(uint64_t offset, uint64_t bytes) const;

  /* What a byte of the heap is, where the first allocation asked for that to be kept; freed ones rest then. */
  static constexpr std::byte outside{0}, written{1}, new_{2}, freed{3};
  std::byte *states(uint64_t offset) const;

  size_t pieces();

private:
  bool open(uint64_t limit, bool keep_states);
  void give_back(uint64_t offset, uint64_t size);

  std::mutex lock_;
  std::atomic<std::byte *> memory_{nullptr}; /* set when the size is, and not changed again */
  std::byte *states_ = nullptr;              /* likewise; null: they are not kept */
  uint64_t size_ = 0;
  std::map<uint64_t, uint64_t> free_;                 /* offset -> size, neighbours merged */
  std::map<uint64_t, uint64_t> taken_;                /* likewise */
  std::deque<std::pair<uint64_t, uint64_t>> resting_; /* freed, not to be used again while there is other room */
};

} // namespace sim

#endif
