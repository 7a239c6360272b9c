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

/* The heap of a context from which malloc() in kernels allocates. Thread-safe. */
class Heap {
public:
  Heap() = default;
  Heap(const Heap &) = delete;
  Heap &operator=(const Heap &) = delete;
  ~Heap();

  /*
   * Returns an address in the heap's window, aligned to 16 bytes, or 0 if the heap is full. The first call sets the
   * size of the heap permanently to `limit`.
   */
  uint64_t allocate(uint64_t bytes, uint64_t limit, bool keep_states);
  /* Returns false if there is no such allocation. */
  bool free(uint64_t address);
  /*
   * Returns the host address of a range at an offset in the heap, whether or not the range is allocated. Returns null
   * if the range is outside of the heap.
   */
  std::byte *locate(uint64_t offset, uint64_t bytes) const;

  /*
   * The states of bytes. They are recorded if the first allocation requests this. If they are recorded, freed bytes are
   * reused as late as possible.
   */
  static constexpr std::byte outside{0}, written{1}, new_{2}, freed{3};
  std::byte *states(uint64_t offset) const;

  size_t pieces();

private:
  bool open(uint64_t limit, bool keep_states);
  void give_back(uint64_t offset, uint64_t size);

  std::mutex lock_;
  std::atomic<std::byte *> memory_{nullptr}; /* set by the first allocation, then constant */
  std::byte *states_ = nullptr;              /* also set by the first allocation; null: states are not recorded */
  uint64_t size_ = 0;
  std::map<uint64_t, uint64_t> free_;                 /* sizes of free ranges by offset; adjacent ranges are merged */
  std::map<uint64_t, uint64_t> taken_;                /* sizes of allocations by offset */
  std::deque<std::pair<uint64_t, uint64_t>> resting_; /* freed, and reused only if no other memory is free */
};

} // namespace sim

#endif
