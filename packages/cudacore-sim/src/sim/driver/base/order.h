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
 * The check `order`: of units that touch the same bytes, one has to be before the other, whichever came first this
 * time. Units are in chains, each one after the one before; a unit knows how far each other chain is before it, and
 * what the host knew of when it was submitted. What the host knows to be done is before all that it submits then.
 *
 * Where it cannot be seen what orders two units, they count as ordered: all threads of the host are one, what a host
 * function may have waited for is before what comes after it, and kernels that meet in atomics are never told apart.
 *
 * All functions are called with the state's lock held.
 */
bool ordering();

struct Ordered;
using OrderedPtr = std::shared_ptr<Ordered>;

struct Chain {
  uint64_t last = 0;                /* of its units that are ready, or were */
  uint64_t known = 0, known_at = 0; /* up to which one the host knew that they were done, and since when */
  std::deque<OrderedPtr> unknown;   /* all of the others that are ready, or were */
};
using ChainPtr = std::shared_ptr<Chain>;

/* A unit's place in the order. Times are those of a clock that counts what happens. */
struct Ordered {
  std::string what, call;            /* in words, and the function that submitted it; empty: none did */
  uint64_t stream = 0;               /* handle */
  const char *stream_name = nullptr; /* of one without a handle; null and no handle: it is in no stream */
  uint64_t number = 0;               /* among the work of the stream */

  std::vector<OrderedPtr> before; /* until it is ready */
  ChainPtr chain;                 /* null: it is not ready, or no unit but the host's */
  uint64_t place = 0;             /* in the chain */
  std::map<ChainPtr, uint64_t> after;
  uint64_t knows = 0; /* what the host has known by then is before it */
  uint64_t began = 0, known = 0;
  bool waits_outside = false;  /* for something that may be after any unit that has begun */
  bool tells_host = false;     /* the host may see what it did before it is told that it is done */
  bool meets_host = false;     /* likewise, while it runs */
  std::vector<OrderedPtr> met; /* units that it may have waited for while it ran */
};

OrderedPtr new_ordered(const char *what);
OrderedPtr now_on_host(const char *what);            /* what the host does itself, at this moment */
void order_as(Ordered &unit, const Ordered &launch); /* in a graph */
void order_after(Ordered &unit, const Unit *before);
void order_ready(const OrderedPtr &unit);
void order_done(const OrderedPtr &unit);
void learn_done(const Ordered *unit); /* the host; null: nothing */
bool is_before(const Ordered &one, const Ordered &other);
std::string text_of(const Ordered &unit);
uint64_t next_moment();

enum class Manner { read, write, allocate, free };

/* A unit uses memory, before it is done. Null: nobody looks at that. */
void touch(const OrderedPtr &unit, uint64_t address, uint64_t bytes, Manner manner);
void touch_strongly(const OrderedPtr &unit, uint64_t address, uint64_t bytes); /* writes it, as atomics do */
void touch_all(const OrderedPtr &unit, const std::vector<Touch> &touches);     /* a kernel does */

void forget_touches(uint64_t address, uint64_t bytes);
void forget_all_touches();

} // namespace sim

#endif
