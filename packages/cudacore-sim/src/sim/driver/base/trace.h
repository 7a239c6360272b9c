/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_TRACE_H
#define CUDACORE_SIM_DRIVER_BASE_TRACE_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sim {

/*
 * CUDACORE_SIM_TRACE: a file in the format of Chrome's traces, which Perfetto displays. The trace shows the work of
 * each device and stream, the calls of each thread that submitted work, and two kinds of arrows: from calls to their
 * work, and from work to dependent work on other streams.
 */
bool tracing();

/* The data of a unit of work for the trace. Guarded by the state's lock, like units. */
struct Traced {
  std::string name;
  std::string details; /* members of a JSON object */
  int device = 0;
  uint64_t stream = 0;     /* the stream's number on the device; 0: none */
  std::string stream_name; /* empty: no stream */
  bool takes_time = false; /* false: a point in time, such as recording an event */
  uint64_t began = 0, ended = 0;
  size_t lane = 0;                 /* units of one stream that overlap in time have different lanes */
  uint64_t thread = 0, called = 0; /* the call that submitted the unit: its thread and start time; 0: none */
  std::vector<std::shared_ptr<Traced>> sources; /* dependencies on other streams, without units that take no time */
};

using TracedPtr = std::shared_ptr<Traced>;

void trace_after(Traced &work, const TracedPtr &dependency);
void trace_begin(Traced &work);
/* Records that work is done. There was no trace_begin() if the work takes no time, or was skipped. */
void trace_end(Traced &work);

/* Records a call of this thread that has ended. Any thread may call this function, without the state's lock. */
void trace_call(const char *name, uint64_t began);

/* A string of JSON, with its quotation marks. */
std::string quoted(const std::string &text);

} // namespace sim

#endif
