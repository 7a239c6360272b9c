/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the trace of calls and units of work. */
#include "sim/driver/base/trace.h"

#include "sim/driver/base/executor.h"
#include "sim/control/config.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <unistd.h>

namespace sim {
namespace {

/* Viewers show each device as a process, so a device gets a process number that no real process has. */
constexpr int first_device = 1 << 30;

using StreamKey = std::pair<int, uint64_t>;

struct Trace {
  std::mutex mutex;
  FILE *file = nullptr;
  bool opened = false;
  uint64_t origin = 0, flows = 0;
  int tracks = 0;
  std::map<std::tuple<int, uint64_t, size_t>, int> track_of; /* tracks by device, stream and lane */
  std::map<StreamKey, std::vector<bool>> busy;               /* for each lane, whether work runs in it */
  std::map<int, bool> devices;
  std::map<uint64_t, bool> threads;
};

Trace &trace() {
  static Trace *const instance = new Trace; /* never destroyed: threads outlive exit() */
  return *instance;
}

std::string path_of(std::string path) {
  size_t place = path.find("%p");
  return place == std::string::npos ? path : path.replace(place, 2, std::to_string(getpid()));
}

/* Viewers also read a file without this end, such as that of a killed process. */
void close_file() {
  Trace &t = trace();
  std::lock_guard<std::mutex> guard(t.mutex);
  if (t.file != nullptr) {
    std::fseek(t.file, -2, SEEK_END); /* the comma after the last event is overwritten */
    std::fputs("\n]\n", t.file);
    std::fclose(t.file);
  }
  t.file = nullptr;
}

/* Opens the file at the first event. Times are counted from this event. */
bool is_open(Trace &t, uint64_t time) {
  if (t.opened)
    return t.file != nullptr;
  t.opened = true;
  std::string path = path_of(config().trace);
  t.file = std::fopen(path.c_str(), "we");
  if (t.file == nullptr) {
    std::fprintf(stderr, "cudacore-sim: CUDACORE_SIM_TRACE: %s: %s\n", path.c_str(), std::strerror(errno));
    return false;
  }
  std::atexit(close_file);
  t.origin = time;
  std::setvbuf(t.file, nullptr, _IOLBF, BUFSIZ); /* flushed by line, because a process can end without notice */
  std::fputs("[\n", t.file);
  return true;
}

void write(Trace &t, const std::string &event) { std::fprintf(t.file, "{%s},\n", event.c_str()); }

std::string member(const char *name, const std::string &value) { return quoted(name) + ": " + value; }

/* Microseconds since the trace began. */
std::string at(const Trace &t, uint64_t time) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f", time > t.origin ? static_cast<double>(time - t.origin) / 1000 : 0.0);
  return text;
}

std::string place(int process, uint64_t track) {
  return member("pid", std::to_string(process)) + ", " + member("tid", std::to_string(track));
}

void name_it(Trace &t, const char *what, int process, uint64_t track, const std::string &name) {
  write(t, member("ph", "\"M\"") + ", " + member("name", quoted(what)) + ", " + place(process, track) + ", " +
               member("args", "{" + member("name", quoted(name)) + "}"));
}

std::string place_of_thread(Trace &t, uint64_t thread) {
  int process = static_cast<int>(getpid());
  if (t.threads.empty())
    name_it(t, "process_name", process, thread, "calls of the driver");
  if (!t.threads[thread]) {
    t.threads[thread] = true;
    name_it(t, "thread_name", process, thread, "thread " + std::to_string(thread));
  }
  return place(process, thread);
}

std::string place_of_work(Trace &t, const Traced &work) {
  int process = first_device + work.device;
  auto [found, is_new] = t.track_of.try_emplace({work.device, work.stream, work.lane}, t.tracks + 1);
  if (is_new) {
    t.tracks++;
    if (!t.devices[work.device])
      name_it(t, "process_name", process, 0, "GPU " + std::to_string(work.device) + ": " + config().name);
    t.devices[work.device] = true;
    std::string name = work.stream_name.empty() ? "no stream" : work.stream_name;
    if (work.lane > 0)
      name += ", at the same time (" + std::to_string(work.lane) + ")";
    name_it(t, "thread_name", process, static_cast<uint64_t>(found->second), name);
  }
  return place(process, static_cast<uint64_t>(found->second));
}

void write_slice(Trace &t, const std::string &place, const std::string &name, uint64_t began, uint64_t ended,
                 const std::string &details) {
  write(t, member("ph", "\"X\"") + ", " + member("name", quoted(name)) + ", " + place + ", " +
               member("ts", at(t, began)) + ", " + member("dur", at(t, t.origin + (ended - began))) + ", " +
               member("args", "{" + details + "}"));
}

void write_arrow(Trace &t, const char *what, const std::string &from, uint64_t left, const std::string &to,
                 uint64_t reached) {
  std::string common = member("cat", quoted(what)) + ", " + member("name", quoted(what)) + ", " +
                       member("id", std::to_string(++t.flows)) + ", ";
  write(t, member("ph", "\"s\"") + ", " + common + from + ", " + member("ts", at(t, left)));
  write(t, member("ph", "\"f\"") + ", " + member("bp", "\"e\"") + ", " + common + to + ", " +
               member("ts", at(t, reached)));
}

bool is_elsewhere(const Traced &a, const Traced &b) {
  return a.device != b.device || a.stream != b.stream || a.lane != b.lane;
}

} // namespace

bool tracing() {
  static const bool wanted = !config().trace.empty();
  return wanted;
}

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

void trace_after(Traced &work, const TracedPtr &dependency) {
  auto add = [&work](const TracedPtr &source) {
    if (std::find(work.sources.begin(), work.sources.end(), source) == work.sources.end())
      work.sources.push_back(source);
  };
  if (dependency->takes_time) {
    add(dependency);
    return;
  }
  /* Arrows connect units that take time, and skip those that do not. The order within a stream needs no arrows. */
  for (const TracedPtr &source : dependency->sources)
    if (source->device != work.device || source->stream != work.stream)
      add(source);
  if (work.called == 0) {
    work.thread = dependency->thread;
    work.called = dependency->called;
  }
}

void trace_begin(Traced &work) {
  Trace &t = trace();
  std::lock_guard<std::mutex> guard(t.mutex);
  std::vector<bool> &lanes = t.busy[{work.device, work.stream}];
  work.lane = static_cast<size_t>(std::find(lanes.begin(), lanes.end(), false) - lanes.begin());
  if (work.lane == lanes.size())
    lanes.push_back(true);
  lanes[work.lane] = true;
  work.began = monotonic_ns();
}

void trace_end(Traced &work) {
  Trace &t = trace();
  std::lock_guard<std::mutex> guard(t.mutex);
  work.ended = monotonic_ns();
  if (work.began != 0)
    t.busy[{work.device, work.stream}][work.lane] = false;
  if (!is_open(t, work.began != 0 ? work.began : work.ended))
    return;
  std::string here = place_of_work(t, work);
  if (work.began == 0) {
    write(t, member("ph", "\"i\"") + ", " + member("s", "\"t\"") + ", " + member("name", quoted(work.name)) + ", " +
                 here + ", " + member("ts", at(t, work.ended)) + ", " + member("args", "{" + work.details + "}"));
    return;
  }
  write_slice(t, here, work.name, work.began, work.ended, work.details);
  if (work.called != 0)
    write_arrow(t, "launch", place_of_thread(t, work.thread), work.called, here, work.began);
  for (const TracedPtr &source : work.sources)
    if (source->began != 0 && is_elsewhere(*source, work))
      write_arrow(t, "dependency", place_of_work(t, *source), std::max(source->began, source->ended - 1), here,
                  work.began);
  work.sources.clear(); /* the dependencies of this unit are no longer needed */
}

void trace_call(const char *name, uint64_t began) {
  Trace &t = trace();
  uint64_t ended = monotonic_ns();
  std::lock_guard<std::mutex> guard(t.mutex);
  if (is_open(t, began))
    write_slice(t, place_of_thread(t, thread_id()), name, began, ended, "");
}

} // namespace sim
