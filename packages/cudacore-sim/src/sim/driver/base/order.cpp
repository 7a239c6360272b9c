/* SPDX-License-Identifier: Apache-2.0 */
/* What is before what: units of work, and what the host knows. */
#include "sim/driver/base/order.h"

#include "sim/control/report.h"
#include "sim/driver/base/state.h"

#include <algorithm>

namespace sim {
namespace {

/* Never destroyed: threads outlive exit(). */
struct Chains {
  uint64_t now = 0;
  std::vector<std::weak_ptr<Chain>> all;
};
Chains &chains() {
  static Chains *const instance = new Chains;
  return *instance;
}

ChainPtr new_chain() {
  std::vector<std::weak_ptr<Chain>> &all = chains().all;
  if (all.size() == all.capacity())
    all.erase(std::remove_if(all.begin(), all.end(), [](const auto &one) { return one.expired(); }), all.end());
  auto chain = std::make_shared<Chain>();
  all.push_back(chain);
  return chain;
}

bool is_known(const Ordered &unit, uint64_t at) { return unit.known != 0 && unit.known <= at; }

void come_after(Ordered &unit, const ChainPtr &chain, uint64_t place) {
  uint64_t &reached = unit.after[chain];
  reached = std::max(reached, place);
}

void come_after(Ordered &unit, const Ordered &before) {
  unit.knows = std::max(unit.knows, before.knows);
  for (const auto &[chain, place] : before.after)
    come_after(unit, chain, place);
  come_after(unit, before.chain, before.place);
}

/* Whatever has begun may be before it. */
void come_after_all(Ordered &unit) {
  unit.knows = next_moment();
  for (const std::weak_ptr<Chain> &one : chains().all)
    if (ChainPtr chain = one.lock(); chain != nullptr && chain != unit.chain && chain->last > 0)
      come_after(unit, chain, chain->last);
}

} // namespace

bool ordering() { return config().checks.order; }

uint64_t next_moment() { return ++chains().now; }

OrderedPtr new_ordered(const char *what) {
  auto unit = std::make_shared<Ordered>();
  unit->what = what;
  if (Call::active())
    unit->call = symbol_of(Call::current().entry);
  unit->knows = next_moment();
  return unit;
}

OrderedPtr now_on_host(const char *what) {
  auto moment = std::make_shared<Ordered>();
  moment->what = what;
  moment->knows = moment->known = next_moment();
  return moment;
}

void order_as(Ordered &unit, const Ordered &launch) {
  unit.call = launch.call;
  unit.stream = launch.stream;
  unit.stream_name = launch.stream_name;
  unit.number = launch.number;
}

void order_after(Ordered &unit, const Unit *before) {
  if (before != nullptr && before->ordered != nullptr)
    unit.before.push_back(before->ordered);
}

void order_ready(const OrderedPtr &unit) {
  if (unit->chain != nullptr)
    return;
  unit->began = next_moment();
  for (const OrderedPtr &before : unit->before) {
    if (is_known(*before, unit->knows))
      continue;
    come_after(*unit, *before);
    if (unit->chain == nullptr && before->place == before->chain->last)
      unit->chain = before->chain;
  }
  unit->before.clear();
  if (unit->chain == nullptr)
    unit->chain = new_chain();
  unit->after.erase(unit->chain);
  for (auto entry = unit->after.begin(); entry != unit->after.end();) {
    const Chain &chain = *entry->first;
    bool is_implied = entry->second <= chain.known && chain.known_at <= unit->knows;
    entry = is_implied ? unit->after.erase(entry) : std::next(entry);
  }
  unit->place = ++unit->chain->last;
  unit->chain->unknown.push_back(unit);
  if (unit->waits_outside)
    come_after_all(*unit);
}

void order_done(const OrderedPtr &unit) {
  if (unit->waits_outside)
    come_after_all(*unit);
  if (unit->tells_host)
    learn_done(unit.get());
}

void learn_done(const Ordered *unit) {
  if (unit == nullptr || unit->chain == nullptr)
    return;
  uint64_t now = next_moment();
  auto learn = [&](Chain &chain, uint64_t place) {
    while (!chain.unknown.empty() && chain.unknown.front()->place <= place) {
      chain.unknown.front()->known = now;
      chain.unknown.pop_front();
    }
    if (place > chain.known) {
      chain.known = place;
      chain.known_at = now;
    }
  };
  ChainPtr own = unit->chain; /* which may hold nothing else */
  std::map<ChainPtr, uint64_t> after = unit->after;
  for (const auto &[chain, place] : after)
    learn(*chain, place);
  learn(*own, unit->place);
}

bool is_before(const Ordered &one, const Ordered &other) {
  if (&one == &other || is_known(one, other.knows))
    return true;
  if (one.chain == nullptr || other.chain == nullptr)
    return false;
  if (one.chain == other.chain)
    return one.place < other.place;
  auto reached = other.after.find(one.chain);
  return reached != other.after.end() && one.place <= reached->second;
}

std::string text_of(const Ordered &unit) {
  std::string text = unit.what, details = unit.call;
  if (unit.stream != 0 || unit.stream_name != nullptr)
    details += std::string(details.empty() ? "" : ", ") + "no. " + std::to_string(unit.number) + " in " +
               (unit.stream != 0 ? "stream " + hex(unit.stream) : std::string("the ") + unit.stream_name);
  return details.empty() ? text : text + " (" + details + ")";
}

} // namespace sim
