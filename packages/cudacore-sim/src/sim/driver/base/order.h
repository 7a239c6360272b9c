/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_ORDER_H
#define CUDACORE_SIM_DRIVER_BASE_ORDER_H

#include "sim/engine.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sim {

struct Unit;

/*
 * The check `order`: if two units of work access the same bytes, they must be ordered, whichever ran first this time.
 * It is a detector of happens-before races with vector clocks. Units that follow one another share a timeline, in which
 * each has a position. The clock of a unit has a position for each other timeline: the units up to this position are
 * ordered before the unit. The host is handled separately: the check records the time at which the host learned that a
 * unit was done. Everything that the host submits later comes after that unit.
 *
 * Where the order cannot be observed, two units count as ordered: all threads of the host count as one; whatever a host
 * function may have waited for is before the work that follows the function; kernels that communicate by atomics are
 * never reported.
 *
 * All functions are called with the state's lock held.
 */
bool ordering();

struct Ordered;
using OrderedPtr = std::shared_ptr<Ordered>;

/* A sequence of units, each of which is ordered after the previous one. */
struct Timeline {
  uint64_t last = 0;                /* the position of the latest unit that was ready */
  uint64_t done = 0, done_at = 0;   /* the last position that the host knows to be done, and when it learned this */
  std::deque<OrderedPtr> not_known; /* ready units that the host does not know to be done */
};
using TimelinePtr = std::shared_ptr<Timeline>;

/* The data of the check of order about a unit. A time is the number of events that the check had seen by then. */
struct Ordered {
  std::string what, call;            /* a description, and the submitting function; empty: none */
  uint64_t stream = 0;               /* the handle of the stream */
  const char *stream_name = nullptr; /* the stream's name if it has no handle; null and no handle: no stream */
  uint64_t number = 0;               /* the number of the unit in its stream */

  std::vector<OrderedPtr> before; /* the dependencies of the unit, until it is ready */
  TimelinePtr timeline;           /* null: the unit is not ready, or is an action of the host */
  uint64_t position = 0;          /* the position of the unit in the timeline */
  std::map<TimelinePtr, uint64_t> clock;
  uint64_t host_time = 0; /* a time: the unit is after all units that the host knew to be done then */
  uint64_t began = 0;
  uint64_t known_at = 0;                     /* the time when the host learned that the unit is done; 0: not yet */
  bool may_wait_for_anything = false;        /* the unit may wait for any unit, so it is after all that have begun */
  bool visible_to_host = false;              /* the host may read the data before it learns that the unit is done */
  bool shares_host_memory = false;           /* the host may read the unit's data while the unit runs */
  std::vector<OrderedPtr> communicated_with; /* units for whose writes this unit may have waited while it ran */
};

OrderedPtr new_ordered(const char *what);
OrderedPtr new_host_action(const char *what);             /* returns an action of the host that happens now */
void describe_like(Ordered &unit, const Ordered &launch); /* copies the call and the stream of a launch */
void order_after(Ordered &unit, const Unit *before);
void order_ready(const OrderedPtr &unit);
void order_done(const OrderedPtr &unit);
void mark_known_done(const Ordered *unit); /* the host has learned that the unit is done; null: ignored */
bool is_before(const Ordered &one, const Ordered &other);
std::string text_of(const Ordered &unit);
uint64_t next_time();

enum class AccessKind { read, write, allocate, free };

/* Records that a unit accesses memory. Call this before the unit is done. A null unit is ignored. */
void record_access(const OrderedPtr &unit, uint64_t address, uint64_t bytes, AccessKind kind);
void record_atomic_write(const OrderedPtr &unit, uint64_t address, uint64_t bytes);
void record_accesses(const OrderedPtr &unit, const TouchedPtr &touched); /* records the accesses of a kernel */

void forget_accesses(uint64_t address, uint64_t bytes);
void forget_all_accesses();

} // namespace sim

#endif
