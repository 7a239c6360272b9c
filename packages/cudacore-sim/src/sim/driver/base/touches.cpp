/* SPDX-License-Identifier: Apache-2.0 */
/* What units of work have touched, and whether an order between them says so. */
#include "sim/control/report.h"
#include "sim/driver/base/order.h"
#include "sim/driver/base/state.h"

#include <algorithm>
#include <set>

namespace sim {
namespace {

constexpr size_t most_findings = 1000; /* that are remembered, so as not to be said again */

using Place = std::shared_ptr<const std::string>; /* in a kernel's code, in words; null: it is no kernel */

/* An access that was, to the same bytes by all that is in it. */
struct Access {
  OrderedPtr unit;
  Manner manner;
  bool plain, strong;
  bool word; /* a copy or fill of one, which is done in one piece: kernels may wait for it, or change it meanwhile */
  Place place;
  bool operator==(const Access &other) const {
    return unit == other.unit && manner == other.manner && plain == other.plain && strong == other.strong &&
           word == other.word && place == other.place;
  }
  bool writes() const { return manner != Manner::read; }
  bool is_atomic() const { return strong && !plain; }
};

/* Bytes side by side of which the same is known: the last accesses, those that have an order left out. */
struct Bytes {
  uint64_t end;
  std::vector<Access> accesses;
};

/* Never destroyed: threads outlive exit(). */
struct Touched {
  std::map<uint64_t, Bytes> bytes; /* from where they begin; they do not overlap */
  std::set<std::string> found;
  size_t worth_a_look = 4096; /* how many there are when those are looked for that nobody needs any more */
};
Touched &touched() {
  static Touched *const instance = new Touched;
  return *instance;
}

const char *text_of(Manner manner) {
  switch (manner) {
  case Manner::read:
    return "reads";
  case Manner::write:
    return "writes";
  case Manner::allocate:
    return "allocates";
  case Manner::free:
    return "frees";
  }
  return "";
}

/* Where something begins or ends. */
void split(uint64_t address) {
  auto &bytes = touched().bytes;
  auto after = bytes.upper_bound(address);
  if (after == bytes.begin())
    return;
  auto found = std::prev(after);
  if (found->first == address || found->second.end <= address)
    return;
  bytes.emplace(address, found->second);
  found->second.end = address;
}

bool is_met(const Ordered &unit, const Ordered &other) {
  return std::any_of(unit.met.begin(), unit.met.end(),
                     [&](const OrderedPtr &met) { return is_before(*met, other) || is_before(other, *met); });
}

/* The host may have seen what one did, and submitted the other because of it. */
bool host_may_order(const Ordered &one, const Ordered &other) { return one.meets_host && one.began < other.knows; }

bool conflicts(const Access &one, const Access &other) {
  const Ordered &first = *one.unit, &second = *other.unit;
  if (!one.writes() && !other.writes())
    return false;
  if ((one.is_atomic() || one.word) && (other.is_atomic() || other.word) && !(one.word && other.word))
    return false;
  return !is_before(first, second) && !is_before(second, first) && !is_met(second, first) && !is_met(first, second) &&
         !host_may_order(first, second) && !host_may_order(second, first);
}

std::string place_text(const Access &access) { return access.place != nullptr ? *access.place : ""; }

/* The allocation, as it is counted; 0: it is none. */
uint64_t allocation_at(uint64_t address) {
  AllocationPtr allocation = state().memory.find(address);
  return allocation != nullptr ? allocation->id : 0;
}

void say_once(const std::string &key, const std::string &text) {
  if (touched().found.size() >= most_findings)
    touched().found.clear();
  if (touched().found.insert(key).second)
    report(text);
}

void report_conflict(const Access &now, const Access &then, uint64_t begin, uint64_t end) {
  auto side = [](const Access &one) {
    return one.unit->what + one.unit->call + std::to_string(one.unit->stream) + text_of(one.manner) + place_text(one);
  };
  std::string one = side(now), other = side(then);
  say_once(std::min(one, other) + std::max(one, other) + std::to_string(allocation_at(begin)),
           "order: " + text_of(*now.unit) + " " + text_of(now.manner) + " " + std::to_string(end - begin) +
               " bytes at " + hex(begin) + place_text(now) + ", which " + text_of(*then.unit) + " " +
               text_of(then.manner) + place_text(then) +
               ", with nothing that orders the two: " + state().memory.explain(begin));
}

/* Those of which the host knows that they are done are before all that is still to come. */
void forget_what_is_over() {
  Touched &all = touched();
  if (all.bytes.size() < all.worth_a_look)
    return;
  if (state().executor.is_idle())
    for (auto one = all.bytes.begin(); one != all.bytes.end();) {
      std::vector<Access> &accesses = one->second.accesses;
      bool is_over = std::all_of(accesses.begin(), accesses.end(), [](const Access &a) { return a.unit->known != 0; });
      one = is_over ? all.bytes.erase(one) : std::next(one);
    }
  all.worth_a_look = std::max<size_t>(4096, 2 * all.bytes.size());
}

void join(uint64_t begin, uint64_t end) {
  auto &bytes = touched().bytes;
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
  auto &bytes = touched().bytes;
  auto one = bytes.upper_bound(begin);
  if (one != bytes.begin() && std::prev(one)->second.end > begin)
    --one;
  for (; one != bytes.end() && one->first < end; ++one)
    look(std::max(begin, one->first), std::min(end, one->second.end), one->second.accesses);
}

/* Once for each unit that it has no order with. */
void add(uint64_t begin, uint64_t end, const Access &access, std::set<const Ordered *> &blamed) {
  if (begin >= end)
    return;
  for_each(begin, end, [&](uint64_t from, uint64_t to, const std::vector<Access> &accesses) {
    for (const Access &one : accesses)
      if (conflicts(one, access) && blamed.insert(one.unit.get()).second)
        report_conflict(access, one, from, to);
  });
  split(begin);
  split(end);
  auto &bytes = touched().bytes;
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
                                    bool says_less = access.writes() || !a.writes();
                                    bool is_same = a.unit == access.unit && a.plain == access.plain;
                                    return says_less &&
                                           (is_same || (a.unit != access.unit && is_before(*a.unit, *access.unit)));
                                  }),
                   accesses.end());
    accesses.push_back(access);
    at = one->second.end;
  }
  join(begin, end);
}

/* Units that it may have waited for, or that may have waited for it: they meet where both touch memory strongly. */
void meet(Ordered &unit, const std::vector<Touch> &touches) {
  for (const Touch &touch : touches) {
    if (!touch.strong)
      continue;
    AllocationPtr allocation = state().memory.find(touch.begin);
    if (allocation != nullptr && allocation->host_accessible()) {
      unit.meets_host = true;
      if (!touch.write)
        unit.knows = next_moment();
    }
    for_each(touch.begin, touch.end, [&](uint64_t, uint64_t, const std::vector<Access> &accesses) {
      for (const Access &one : accesses)
        if ((one.strong || one.word) && (one.writes() || touch.write) && !is_before(*one.unit, unit) &&
            std::find(unit.met.begin(), unit.met.end(), one.unit) == unit.met.end())
          unit.met.push_back(one.unit);
    });
  }
  for (const OrderedPtr &met : unit.met)
    if (met->chain != unit.chain)
      unit.after[met->chain] = std::max(unit.after[met->chain], met->place);
}

} // namespace

void touch_all(const OrderedPtr &unit, const std::vector<Touch> &touches) {
  std::set<const Ordered *> blamed;
  meet(*unit, touches);
  for (const Touch &one : touches)
    add(one.begin, one.end, {unit, one.write ? Manner::write : Manner::read, one.plain, one.strong, false, one.place},
        blamed);
}

void touch(const OrderedPtr &unit, uint64_t address, uint64_t bytes, Manner manner) {
  if (unit == nullptr)
    return;
  std::set<const Ordered *> blamed;
  bool is_access = manner == Manner::read || manner == Manner::write;
  bool is_word = is_access && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) && address % bytes == 0;
  add(address, address + bytes, {unit, manner, true, false, is_word, nullptr}, blamed);
}

void touch_strongly(const OrderedPtr &unit, uint64_t address, uint64_t bytes) {
  if (unit == nullptr)
    return;
  std::set<const Ordered *> blamed;
  add(address, address + bytes, {unit, Manner::write, false, true, false, nullptr}, blamed);
}

void forget_touches(uint64_t address, uint64_t bytes) {
  split(address);
  split(address + bytes);
  auto &all = touched().bytes;
  all.erase(all.lower_bound(address), all.lower_bound(address + bytes));
  forget_what_is_over(); /* there is more only where memory is new */
}

void forget_all_touches() {
  touched().bytes.clear();
  touched().found.clear();
}

} // namespace sim
