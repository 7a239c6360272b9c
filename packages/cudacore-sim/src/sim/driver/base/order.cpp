/* SPDX-License-Identifier: Apache-2.0 */
/* Determines which units of work are ordered before others. */
#include "sim/driver/base/order.h"

#include "sim/control/report.h"
#include "sim/driver/base/state.h"

#include <algorithm>

namespace sim {
namespace {

/* Never destroyed: threads outlive exit(). */
struct Timelines {
  uint64_t now = 0;
  std::vector<std::weak_ptr<Timeline>> all;
};
Timelines &timelines() {
  static Timelines *const instance = new Timelines;
  return *instance;
}

TimelinePtr new_timeline() {
  std::vector<std::weak_ptr<Timeline>> &all = timelines().all;
  if (all.size() == all.capacity())
    all.erase(std::remove_if(all.begin(), all.end(), [](const auto &one) { return one.expired(); }), all.end());
  auto timeline = std::make_shared<Timeline>();
  all.push_back(timeline);
  return timeline;
}

bool is_known_done(const Ordered &unit, uint64_t at) { return unit.known_at != 0 && unit.known_at <= at; }

void follow(Ordered &unit, const TimelinePtr &timeline, uint64_t position) {
  uint64_t &reached = unit.clock[timeline];
  reached = std::max(reached, position);
}

void follow(Ordered &unit, const Ordered &before) {
  unit.host_time = std::max(unit.host_time, before.host_time);
  for (const auto &[timeline, position] : before.clock)
    follow(unit, timeline, position);
  follow(unit, before.timeline, before.position);
}

/* Orders the unit after all units that have begun, because it may have waited for any of them. */
void follow_all(Ordered &unit) {
  unit.host_time = next_time();
  for (const std::weak_ptr<Timeline> &one : timelines().all)
    if (TimelinePtr timeline = one.lock(); timeline != nullptr && timeline != unit.timeline && timeline->last > 0)
      follow(unit, timeline, timeline->last);
}

} // namespace

bool ordering() { return config().checks.order; }

uint64_t next_time() { return ++timelines().now; }

OrderedPtr new_ordered(const char *what) {
  auto unit = std::make_shared<Ordered>();
  unit->what = what;
  if (Call::active())
    unit->call = symbol_of(Call::current().entry);
  unit->host_time = next_time();
  return unit;
}

OrderedPtr new_host_action(const char *what) {
  auto moment = std::make_shared<Ordered>();
  moment->what = what;
  moment->host_time = moment->known_at = next_time();
  return moment;
}

void describe_like(Ordered &unit, const Ordered &launch) {
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
  if (unit->timeline != nullptr)
    return;
  unit->began = next_time();
  for (const OrderedPtr &before : unit->before) {
    if (is_known_done(*before, unit->host_time))
      continue;
    follow(*unit, *before);
    if (unit->timeline == nullptr && before->position == before->timeline->last)
      unit->timeline = before->timeline;
  }
  unit->before.clear();
  if (unit->timeline == nullptr)
    unit->timeline = new_timeline();
  unit->clock.erase(unit->timeline);
  for (auto entry = unit->clock.begin(); entry != unit->clock.end();) {
    const Timeline &timeline = *entry->first;
    bool is_implied = entry->second <= timeline.done && timeline.done_at <= unit->host_time;
    entry = is_implied ? unit->clock.erase(entry) : std::next(entry);
  }
  unit->position = ++unit->timeline->last;
  unit->timeline->not_known.push_back(unit);
  if (unit->may_wait_for_anything)
    follow_all(*unit);
}

void order_done(const OrderedPtr &unit) {
  if (unit->may_wait_for_anything)
    follow_all(*unit);
  if (unit->visible_to_host)
    mark_known_done(unit.get());
}

void mark_known_done(const Ordered *unit) {
  if (unit == nullptr || unit->timeline == nullptr)
    return;
  uint64_t now = next_time();
  auto mark = [&](Timeline &timeline, uint64_t position) {
    while (!timeline.not_known.empty() && timeline.not_known.front()->position <= position) {
      timeline.not_known.front()->known_at = now;
      timeline.not_known.pop_front();
    }
    if (position > timeline.done) {
      timeline.done = position;
      timeline.done_at = now;
    }
  };
  TimelinePtr own = unit->timeline; /* a copy, because marking can destroy the unit */
  std::map<TimelinePtr, uint64_t> clock = unit->clock;
  for (const auto &[timeline, position] : clock)
    mark(*timeline, position);
  mark(*own, unit->position);
}

bool is_before(const Ordered &one, const Ordered &other) {
  if (&one == &other || is_known_done(one, other.host_time))
    return true;
  if (one.timeline == nullptr || other.timeline == nullptr)
    return false;
  if (one.timeline == other.timeline)
    return one.position < other.position;
  auto reached = other.clock.find(one.timeline);
  return reached != other.clock.end() && one.position <= reached->second;
}

std::string text_of(const Ordered &unit) {
  std::string text = unit.what, details = unit.call;
  if (unit.stream != 0 || unit.stream_name != nullptr)
    details += std::string(details.empty() ? "" : ", ") + "no. " + std::to_string(unit.number) + " in " +
               (unit.stream != 0 ? "stream " + hex(unit.stream) : std::string("the ") + unit.stream_name);
  return details.empty() ? text : text + " (" + details + ")";
}

} // namespace sim
