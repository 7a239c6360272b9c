/* SPDX-License-Identifier: Apache-2.0 */
/* Records the accesses of a grid to global memory. */
#include "sim/checks/touch.h"

#include <algorithm>

#include "sim/exec/checker.h"

namespace sim::exec {

void Touches::add(const Warp &w, const Instruction &ins, uint64_t address, uint32_t bytes, bool write) {
  if (static_cast<Window>(address >> window_shift) != Window::memory)
    return;
  bool is_strong = ins.access & access_strong;
  for (uint64_t at = address; at < address + bytes; ++at) {
    if (at / page_bytes != last_number_) {
      last_number_ = at / page_bytes;
      std::unique_ptr<Page> &page = pages_[last_number_];
      if (!page)
        page = std::make_unique<Page>();
      last_ = page.get();
    }
    Mark &mark = (write ? last_->written : last_->read)[at % page_bytes];
    if (!mark.any() || (!mark.plain && !is_strong))
      mark.pc = w.pc & ((1u << 30) - 1);
    if (is_strong)
      mark.strong = 1;
    else
      mark.plain = 1;
  }
}

std::vector<Touch> Touches::all() const {
  std::map<uint32_t, std::shared_ptr<const std::string>> places;
  auto place_of = [&](uint32_t pc) {
    std::shared_ptr<const std::string> &place = places[pc];
    if (!place)
      place = std::make_shared<const std::string>(lines_of(program_, program_.code[pc]));
    return place;
  };
  std::vector<uint64_t> numbers;
  for (const auto &entry : pages_)
    numbers.push_back(entry.first);
  std::sort(numbers.begin(), numbers.end());
  std::vector<Touch> found;
  for (bool write : {false, true}) {
    Mark last{};
    for (uint64_t number : numbers) {
      const Page &page = *pages_.at(number);
      for (uint64_t i = 0; i < page_bytes; ++i) {
        Mark mark = (write ? page.written : page.read)[i];
        uint64_t at = number * page_bytes + i;
        if (!mark.any())
          continue;
        if (!found.empty() && found.back().end == at && found.back().write == write && mark == last) {
          ++found.back().end;
          continue;
        }
        found.push_back({at, at + 1, write, mark.plain != 0, mark.strong != 0, place_of(mark.pc)});
        last = mark;
      }
    }
  }
  return found;
}

} // namespace sim::exec
