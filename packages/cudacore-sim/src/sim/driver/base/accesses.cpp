/* SPDX-License-Identifier: Apache-2.0 */
/* Records which memory units of work access, and reports accesses that nothing orders. */
#include "sim/driver/base/order.h"

#include "sim/control/report.h"
#include "sim/driver/base/state.h"

#include <algorithm>
#include <set>

namespace sim {
namespace {

constexpr size_t max_findings = 1000; /* how many findings are remembered, so that each is reported only once */

/* An access of a unit to some bytes. */
struct Access {
  OrderedPtr unit;
  AccessKind kind;
  bool plain, strong;
  bool word; /* an atomic copy or fill of one word: kernels may wait for the word, or change it at the same time */
  TouchedPtr touched; /* the accesses of the kernel; null if the unit is not a kernel */
  uint64_t shift;     /* was added to the addresses by which the unit accessed the bytes: see for_each_part() */
  bool operator==(const Access &other) const {
    return unit == other.unit && kind == other.kind && plain == other.plain && strong == other.strong &&
           word == other.word && touched == other.touched && shift == other.shift;
  }
  bool writes() const { return kind != AccessKind::read; }
  bool is_atomic() const { return strong && !plain; }
};

/* Adjacent bytes with the same accesses. An access is removed when a later access is ordered after it. */
struct Bytes {
  uint64_t end;
  std::vector<Access> accesses;
};

/* Never destroyed: threads outlive exit(). */
struct Accesses {
  std::map<uint64_t, Bytes> bytes; /* ranges that do not overlap, by their first byte */
  std::set<std::string> found;
  size_t max_ranges = 4096; /* with more ranges than this, ranges that are no longer needed are removed */
};
Accesses &all_accesses() {
  static Accesses *const instance = new Accesses;
  return *instance;
}

const char *text_of(AccessKind kind) {
  static constexpr const char *texts[] = {"reads", "writes", "allocates", "frees"}; /* in the order of AccessKind */
  return texts[static_cast<size_t>(kind)];
}

/* Makes an address a boundary between ranges. */
void split(uint64_t address) {
  auto &bytes = all_accesses().bytes;
  auto after = bytes.upper_bound(address);
  if (after == bytes.begin())
    return;
  auto found = std::prev(after);
  if (found->first == address || found->second.end <= address)
    return;
  bytes.emplace(address, found->second);
  found->second.end = address;
}

bool has_communicated(const Ordered &unit, const Ordered &other) {
  return std::any_of(unit.communicated_with.begin(), unit.communicated_with.end(),
                     [&](const OrderedPtr &met) { return is_before(*met, other) || is_before(other, *met); });
}

/* Whether the host may have read data that `one` wrote in host memory, and may have submitted `other` after that. */
bool host_may_order(const Ordered &one, const Ordered &other) {
  return one.shares_host_memory && one.began < other.host_time;
}

bool conflicts(const Access &one, const Access &other) {
  const Ordered &first = *one.unit, &second = *other.unit;
  if (!one.writes() && !other.writes())
    return false;
  if ((one.is_atomic() || one.word) && (other.is_atomic() || other.word) && !(one.word && other.word))
    return false;
  return !is_before(first, second) && !is_before(second, first) && !has_communicated(second, first) &&
         !has_communicated(first, second) && !host_may_order(first, second) && !host_may_order(second, first);
}

/* Returns the place in the code of a kernel's access to a byte. `address` is the one by which it was recorded. */
std::string location_text(const Access &access, uint64_t address) {
  return access.touched != nullptr ? access.touched->place(address - access.shift, access.writes()) : "";
}

/* The number of the allocation that contains an address; 0: no allocation contains it. */
uint64_t allocation_at(uint64_t address) {
  AllocationPtr allocation = state().memory.find(address);
  return allocation != nullptr ? allocation->id : 0;
}

void report_new(const std::string &key, const std::string &text) {
  if (all_accesses().found.size() >= max_findings)
    all_accesses().found.clear();
  if (all_accesses().found.insert(key).second)
    report(text);
}

/* Reports accesses to the same bytes. `begin` and `end` are the addresses by which they were recorded. */
void report_conflict(const Access &now, const Access &then, uint64_t begin, uint64_t end) {
  auto side = [&](const Access &one) {
    return one.unit->what + one.unit->call + std::to_string(one.unit->stream) + text_of(one.kind) +
           location_text(one, begin);
  };
  std::string one = side(now), other = side(then);
  const uint64_t address = begin - now.shift;
  report_new(std::min(one, other) + std::max(one, other) + std::to_string(allocation_at(address)),
             "order: " + text_of(*now.unit) + " " + text_of(now.kind) + " " + std::to_string(end - begin) +
                 " bytes at " + hex(address) + location_text(now, begin) + ", which " + text_of(*then.unit) + " " +
                 text_of(then.kind) + location_text(then, begin) +
                 ", with nothing that orders the two: " + state().memory.explain(address));
}

/* Removes the accesses of units that the host knows to be done, because all later work is ordered after them. */
void forget_old_accesses() {
  Accesses &all = all_accesses();
  if (all.bytes.size() < all.max_ranges)
    return;
  if (state().executor.is_idle())
    for (auto one = all.bytes.begin(); one != all.bytes.end();) {
      std::vector<Access> &accesses = one->second.accesses;
      bool is_old =
          std::all_of(accesses.begin(), accesses.end(), [](const Access &a) { return a.unit->known_at != 0; });
      one = is_old ? all.bytes.erase(one) : std::next(one);
    }
  all.max_ranges = std::max<size_t>(4096, 2 * all.bytes.size());
}

void join(uint64_t begin, uint64_t end) {
  auto &bytes = all_accesses().bytes;
  auto one = bytes.lower_bound(begin);
  if (one != bytes.begin())
    --one;
  while (one != bytes.end() && one->first <= end) {
    auto next = std::next(one);
    if (next == bytes.end() || next->first != one->second.end || !(next->second.accesses == one->second.accesses)) {
      one = next;
      continue;
    }
    one->second.end = next->second.end;
    bytes.erase(next);
  }
}

template <class Look> void for_each(uint64_t begin, uint64_t end, Look look) {
  auto &bytes = all_accesses().bytes;
  auto one = bytes.upper_bound(begin);
  if (one != bytes.begin() && std::prev(one)->second.end > begin)
    --one;
  for (; one != bytes.end() && one->first < end; ++one)
    look(std::max(begin, one->first), std::min(end, one->second.end), one->second.accesses);
}

/*
 * Calls `look` with the parts of a range, and with a number that is added to their addresses to get those by which
 * accesses are recorded. Mapped memory can have several device addresses, so its address on the host is used.
 */
template <class Look> void for_each_part(uint64_t begin, uint64_t end, Look look) {
  while (begin < end) {
    AllocationPtr allocation = state().memory.find(begin);
    uint64_t to = allocation != nullptr ? std::min(end, allocation->end()) : end, shift = 0;
    if (allocation != nullptr && allocation->kind == Allocation::Kind::mapped)
      shift = value_of(allocation->host) - allocation->base;
    look(begin, to, shift);
    begin = to;
  }
}

/* Adds an access. Reports conflicting accesses that are not ordered before or after this one: once for each unit. */
void add_part(uint64_t begin, uint64_t end, const Access &access, std::set<const Ordered *> &reported) {
  for_each(begin, end, [&](uint64_t from, uint64_t to, const std::vector<Access> &accesses) {
    for (const Access &one : accesses)
      if (conflicts(one, access) && reported.insert(one.unit.get()).second)
        report_conflict(access, one, from, to);
  });
  split(begin);
  split(end);
  auto &bytes = all_accesses().bytes;
  uint64_t at = begin;
  for (auto one = bytes.lower_bound(begin); at < end; ++one) {
    if (one == bytes.end() || one->first > at) {
      uint64_t to = one == bytes.end() ? end : std::min(end, one->first);
      one = bytes.emplace(at, Bytes{to, {access}}).first;
      at = to;
      continue;
    }
    std::vector<Access> &accesses = one->second.accesses;
    accesses.erase(std::remove_if(accesses.begin(), accesses.end(),
                                  [&](const Access &a) {
                                    bool is_weaker = access.writes() || !a.writes();
                                    bool is_same = a.unit == access.unit && a.plain == access.plain;
                                    return is_weaker &&
                                           (is_same || (a.unit != access.unit && is_before(*a.unit, *access.unit)));
                                  }),
                   accesses.end());
    accesses.push_back(access);
    at = one->second.end;
  }
  join(begin, end);
}

void add(uint64_t begin, uint64_t end, Access access, std::set<const Ordered *> &reported) {
  for_each_part(begin, end, [&](uint64_t from, uint64_t to, uint64_t shift) {
    access.shift = shift;
    add_part(from + shift, to + shift, access, reported);
  });
}

/*
 * Finds the units that atomically access the bytes that a kernel accesses atomically. Such a unit may have communicated
 * with the kernel: either may have waited for the other.
 */
void find_communication(Ordered &unit, const std::vector<Touch> &touches) {
  for (const Touch &touch : touches) {
    if (!touch.strong)
      continue;
    AllocationPtr allocation = state().memory.find(touch.begin);
    if (allocation != nullptr && allocation->host_accessible()) {
      unit.shares_host_memory = true;
      if (!touch.write)
        unit.host_time = next_time();
    }
    auto meet = [&](uint64_t, uint64_t, const std::vector<Access> &accesses) {
      for (const Access &one : accesses)
        if ((one.strong || one.word) && (one.writes() || touch.write) && !is_before(*one.unit, unit) &&
            std::find(unit.communicated_with.begin(), unit.communicated_with.end(), one.unit) ==
                unit.communicated_with.end())
          unit.communicated_with.push_back(one.unit);
    };
    for_each_part(touch.begin, touch.end,
                  [&](uint64_t from, uint64_t to, uint64_t shift) { for_each(from + shift, to + shift, meet); });
  }
  for (const OrderedPtr &met : unit.communicated_with)
    if (met->timeline != unit.timeline)
      unit.clock[met->timeline] = std::max(unit.clock[met->timeline], met->position);
}

} // namespace

void record_accesses(const OrderedPtr &unit, const TouchedPtr &touched) {
  std::set<const Ordered *> reported;
  find_communication(*unit, touched->ranges);
  for (const Touch &one : touched->ranges)
    add(one.begin, one.end,
        {unit, one.write ? AccessKind::write : AccessKind::read, one.plain, one.strong, false, touched, 0}, reported);
}

void record_access(const OrderedPtr &unit, uint64_t address, uint64_t bytes, AccessKind kind) {
  if (unit == nullptr)
    return;
  std::set<const Ordered *> reported;
  bool is_access = kind == AccessKind::read || kind == AccessKind::write;
  bool is_word = is_access && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) && address % bytes == 0;
  add(address, address + bytes, {unit, kind, true, false, is_word, nullptr, 0}, reported);
}

void record_atomic_write(const OrderedPtr &unit, uint64_t address, uint64_t bytes) {
  if (unit == nullptr)
    return;
  std::set<const Ordered *> reported;
  add(address, address + bytes, {unit, AccessKind::write, false, true, false, nullptr, 0}, reported);
}

void forget_accesses(uint64_t address, uint64_t bytes) {
  split(address);
  split(address + bytes);
  auto &all = all_accesses().bytes;
  all.erase(all.lower_bound(address), all.lower_bound(address + bytes));
  forget_old_accesses(); /* called here, because only accesses to new memory make the map larger */
}

void forget_all_accesses() {
  all_accesses().bytes.clear();
  all_accesses().found.clear();
}

} // namespace sim
