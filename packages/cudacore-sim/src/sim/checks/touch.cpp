/* SPDX-License-Identifier: Apache-2.0 */
/* Records the accesses of a grid to global memory. */
#include "sim/checks/touch.h"

#include <algorithm>

#include "sim/exec/checker.h"

namespace sim::exec {

void Touches::Page::split() {
  if (bytes)
    return;
  bytes = std::make_unique<std::array<Mark, page_bytes>>();
  for (uint64_t i = 0; i < page_bytes; ++i)
    (*bytes)[i] = words[i / word_bytes];
}

void Touches::add(const Warp &w, const Instruction &ins, uint64_t address, uint32_t bytes, bool write) {
  if (static_cast<Window>(address >> window_shift) != Window::memory)
    return;
  const Mark mark{w.pc % strong | (ins.access & access_strong ? strong : plain)};
  Pages &pages = pages_[write];
  for (uint64_t at = address, end = address + bytes; at < end;) {
    const uint64_t offset = at % page_bytes, size = std::min(end - at, page_bytes - offset);
    if (at / page_bytes != pages.last_number) {
      pages.last_number = at / page_bytes;
      std::unique_ptr<Page> &page = pages.by_number[pages.last_number];
      if (!page)
        page = std::make_unique<Page>();
      pages.last = page.get();
    }
    Page &page = *pages.last;
    if ((offset | size) % word_bytes)
      page.split();
    if (page.bytes)
      for (uint64_t i = offset; i < offset + size; ++i)
        (*page.bytes)[i].add(mark);
    else
      for (uint64_t i = offset / word_bytes; i < (offset + size) / word_bytes; ++i)
        page.words[i].add(mark);
    at += size;
  }
}

void Touches::merge(Touches &&other) {
  for (size_t write = 0; write < pages_.size(); ++write)
    for (auto &[number, theirs] : other.pages_[write].by_number) {
      std::unique_ptr<Page> &page = pages_[write].by_number[number];
      if (!page) {
        page = std::move(theirs);
        continue;
      }
      if (theirs->bytes)
        page->split();
      for (uint64_t i = 0; page->bytes && i < page_bytes; ++i)
        (*page->bytes)[i].add(theirs->at(i));
      for (uint64_t i = 0; !page->bytes && i < page->words.size(); ++i)
        page->words[i].add(theirs->words[i]);
    }
}

std::vector<Touch> Touches::ranges() const {
  std::vector<Touch> found;
  for (bool write : {false, true}) {
    std::vector<std::pair<uint64_t, const Page *>> pages;
    for (const auto &[number, page] : pages_[write].by_number)
      pages.emplace_back(number, page.get());
    std::sort(pages.begin(), pages.end());
    for (const auto &[number, page] : pages) {
      auto add = [&found, write, at = number * page_bytes](const auto &marks) {
        const uint64_t step = page_bytes / marks.size();
        for (size_t i = 0, end = 0; i < marks.size(); i = end) {
          const Mark mark = marks[i];
          for (end = i + 1; end < marks.size() && marks[end].is_like(mark);)
            ++end;
          if (!mark.any())
            continue;
          const Touch touch{at + i * step, at + end * step, write, mark.is_plain(), mark.is_strong()};
          if (!found.empty() && found.back().end == touch.begin && found.back().is_like(touch))
            found.back().end = touch.end;
          else
            found.push_back(touch);
        }
      };
      page->bytes ? add(*page->bytes) : add(page->words);
    }
  }
  return found;
}

int64_t Touches::place(uint64_t address, bool write) const {
  auto found = pages_[write].by_number.find(address / page_bytes);
  if (found == pages_[write].by_number.end())
    return -1;
  const Mark mark = found->second->at(address % page_bytes);
  return mark.any() ? int64_t{mark.bits % strong} : -1;
}

} // namespace sim::exec
