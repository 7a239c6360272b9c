/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_CHECKS_TOUCH_H
#define CUDACORE_SIM_CHECKS_TOUCH_H

#include <unordered_map>

#include "sim/exec/grid.h"

namespace sim::exec {

/*
 * Records the bytes of global memory that a grid accesses, and the places of the accesses in the grid's code. The
 * driver compares these accesses with those of other work in flight. Each thread of the host that runs the grid has a
 * record of its own; they are merged when the grid has ended.
 */
class Touches {
public:
  void add(const Warp &w, const Instruction &ins, uint64_t address, uint32_t bytes, bool write);
  void merge(Touches &&other);
  std::vector<Touch> ranges() const;
  /* Returns the index of the instruction that accessed a byte, or -1 if there was no such access. */
  int64_t place(uint64_t address, bool write) const;

private:
  static constexpr uint64_t page_bytes = 512, word_bytes = 4;
  static constexpr uint32_t plain = 1u << 31, strong = 1u << 30;
  /*
   * The first instruction in the code that accessed some bytes, and whether there were plain and strong accesses. Among
   * these, only plain accesses count if there are any.
   */
  struct Mark {
    uint32_t bits = 0; /* the index of the instruction, and the flags */

    bool any() const { return bits != 0; }
    bool is_plain() const { return bits & plain; }
    bool is_strong() const { return bits & strong; }
    bool is_like(Mark other) const { return (bits ^ other.bits) < strong; }
    void add(Mark other) {
      if (!any()) {
        bits = other.bits;
        return;
      }
      uint32_t pc = bits % strong;
      if (other.is_plain() != is_plain() ? other.is_plain() : other.any() && other.bits % strong < pc)
        pc = other.bits % strong;
      bits = ((bits | other.bits) & (plain | strong)) | pc;
    }
  };
  struct Page {
    std::array<Mark, page_bytes / word_bytes> words{};
    std::unique_ptr<std::array<Mark, page_bytes>> bytes; /* instead of `words`, after an access to a part of a word */

    void split();
    Mark at(uint64_t offset) const { return bytes ? (*bytes)[offset] : words[offset / word_bytes]; }
  };
  struct Pages {
    std::unordered_map<uint64_t, std::unique_ptr<Page>> by_number;
    uint64_t last_number = ~uint64_t{0};
    Page *last = nullptr;
  };

  std::array<Pages, 2> pages_; /* of reads and of writes */
};

} // namespace sim::exec

#endif
