/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the control interface that accesses the driver's objects. */
#include "sim/driver/memory/array.h"
#include "sim/driver/graph/exec.h"
#include "sim/driver/code/launch.h"
#include "sim/driver/device/green.h"
#include "sim/driver/entry/journal.h"
#include "sim/driver/stream/graphics.h"
#include "sim/control/config.h"
#include "cudacore_sim.h"
#include "sim/control/report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace sim {
namespace {

constexpr const char *kind_names[CUDASIM_KIND_COUNT] = {
    "context",        "stream",          "event",         "pool",    "device_memory", "host_memory",
    "managed_memory", "physical_memory", "address_range", "library", "module",        "graph",
    "graph_exec",     "user_object",     "graphics",      "array",   "texture",       "surface",
};

/* Takes the state's lock, unless this thread already holds it: a debugger may call these functions at a fault. */
class Access {
public:
  Access() : guard(state().mutex, std::defer_lock) {
    if (!Call::active())
      guard.lock();
  }
  std::unique_lock<std::mutex> guard;
};

int kind_of(const Allocation &allocation) {
  switch (allocation.kind) {
  case Allocation::Kind::device:
  case Allocation::Kind::pooled:
  case Allocation::Kind::imported:
  case Allocation::Kind::graph:
    return CUDASIM_DEVICE_MEMORY;
  case Allocation::Kind::pinned:
  case Allocation::Kind::registered:
    return CUDASIM_HOST_MEMORY;
  case Allocation::Kind::managed:
    return CUDASIM_MANAGED_MEMORY;
  case Allocation::Kind::mapped:
    break;
  }
  return -1; /* mappings are not counted, but their address ranges are */
}

/*
 * Calls found(kind, number, text) for every live object. `text` is a function, so that `found` can skip the work of
 * making the text.
 */
template <class Found> void for_each_live(Found found) {
  State &s = state();
  auto add_all = [&](int kind, const auto &table, const char *name) {
    for (const auto &object : table.all())
      found(kind, table.number_of(object->handle), [&] { return name + hex(object->handle); });
  };
  for (const auto &context : s.contexts.all())
    found(CUDASIM_CONTEXT, s.contexts.number_of(context->handle), [&] {
      return "context " + hex(context->handle) +
             (context->primary ? ", primary,"
              : context->home  ? ", green,"
                               : ",") +
             " of device " + std::to_string(context->device->ordinal);
    });
  add_all(CUDASIM_STREAM, s.streams, "stream ");
  add_all(CUDASIM_EVENT, s.events, "event ");
  for (const auto &pool : s.pools.all())
    if (!pool->is_default)
      found(CUDASIM_POOL, s.pools.number_of(pool->handle), [&] { return "memory pool " + hex(pool->handle); });
  for (const auto &allocation : s.memory.all())
    if (kind_of(*allocation) >= 0 && !allocation->internal && !allocation->freed)
      found(kind_of(*allocation), allocation->number, [&] {
        return std::to_string(allocation->size) + " bytes of " + describe(*allocation) + " at " +
               hex(allocation->base) + " (allocation " + std::to_string(allocation->id) + ")";
      });
  for (const auto &array : s.arrays.all())
    if (array->whole.lock() == nullptr)
      found(CUDASIM_ARRAY, s.arrays.number_of(array->handle),
            [&] { return "array " + hex(array->handle) + " of " + text_of(*array); });
  add_all(CUDASIM_ARRAY, s.mipmapped_arrays, "mipmapped array ");
  add_all(CUDASIM_TEXTURE, s.textures, "texture object ");
  add_all(CUDASIM_SURFACE, s.surfaces, "surface object ");
  for (const auto &physical : s.physicals.all())
    found(CUDASIM_PHYSICAL_MEMORY, s.physicals.number_of(physical->handle),
          [&] { return std::to_string(physical->size) + " bytes of physical memory"; });
  for (const auto &[base, reservation] : s.reservations) {
    uint64_t at = base, length = reservation.size;
    found(CUDASIM_ADDRESS_RANGE, reservation.number,
          [=] { return "address range of " + std::to_string(length) + " bytes at " + hex(at); });
  }
  add_all(CUDASIM_LIBRARY, s.libraries, "library ");
  for (const auto &module : s.modules.all())
    if (!module->of_library)
      found(CUDASIM_MODULE, s.modules.number_of(module->handle), [&] { return "module " + hex(module->handle); });
  for (const auto &graph : s.graphs.all())
    if (graph->owner == nullptr)
      found(CUDASIM_GRAPH, s.graphs.number_of(graph->handle),
            [&] { return "graph " + hex(graph->handle) + " of " + std::to_string(graph->nodes.size()) + " nodes"; });
  add_all(CUDASIM_GRAPH_EXEC, s.graph_execs, "executable graph ");
  for (const auto &resource : s.graphics.all())
    found(CUDASIM_GRAPHICS, s.graphics.number_of(resource->handle), [&] {
      return (resource->memory != nullptr ? "mapped graphics resource " : "graphics resource ") + hex(resource->handle);
    });
  for (const auto &object : s.user_objects.all())
    found(CUDASIM_USER_OBJECT, s.user_objects.number_of(object->handle), [&] {
      return "user object " + hex(object->handle) + " with " + std::to_string(object->references) + " references";
    });
}

std::string describe_live(int kind) {
  std::string text;
  for_each_live([&](int found, uint64_t, auto describe) {
    if (kind < 0 || found == kind)
      text += describe() + "\n";
  });
  return text;
}

void report_leaks() {
  Access access;
  size_t count = 0;
  for_each_live([&](int, uint64_t, auto) { count++; });
  std::string list = describe_live(-1);
  for (const auto &context : state().contexts.all())
    if (size_t pieces = pieces_in(*context->heap)) {
      count += pieces;
      list += std::to_string(pieces) + (pieces == 1 ? " piece" : " pieces") + " of the device heap of context " +
              hex(context->handle) + "\n";
    }
  if (count != 0)
    report(std::to_string(count) + (count == 1 ? " object is" : " objects are") + " alive at exit:\n" +
           list.substr(0, list.find_last_not_of('\n') + 1));
}

struct AtExit {
  AtExit() {
    if (config().leaks)
      std::atexit(report_leaks);
  }
} at_exit;

/* The notification that cudasim_on_create has requested. */
struct Watch {
  using Function = int (*)(void *);
  void *later = nullptr; /* null: no notification was requested */
  void *interpreter = nullptr;
  Function function = nullptr;
  void *argument = nullptr;
  std::thread::id thread;
  bool asked = false;          /* `later` was called, but `function` was not called yet */
  std::vector<uint64_t> fresh; /* new objects of `thread`; cudasim_created has yet to return them */

  bool ask() const {
    if (interpreter != nullptr)
      return reinterpret_cast<int (*)(void *, Function, void *)>(later)(interpreter, function, argument) == 0;
    return reinterpret_cast<int (*)(Function, void *)>(later)(function, argument) == 0;
  }
} watch;

uint64_t newest; /* the number of the newest object */

} // namespace

uint64_t number_object() {
  newest++;
  if (watch.later != nullptr && std::this_thread::get_id() == watch.thread) {
    watch.fresh.push_back(newest);
    if (!watch.asked)
      watch.asked = watch.ask();
  }
  return newest;
}

} // namespace sim

using namespace sim;

extern "C" {

int cudasim_version(void) { return CUDASIM_VERSION; }

const char *cudasim_kind_name(int kind) { return kind >= 0 && kind < CUDASIM_KIND_COUNT ? kind_names[kind] : nullptr; }

size_t cudasim_live(int kind) {
  Access access;
  size_t count = 0;
  for_each_live([&](int found, uint64_t, auto) { count += found == kind; });
  return count;
}

size_t cudasim_describe_live(int kind, char *out, size_t size) {
  Access access;
  return copy_text(describe_live(kind), out, size);
}

size_t cudasim_live_numbers(int kind, uint64_t *out, size_t max) {
  Access access;
  size_t count = 0;
  for_each_live([&](int found, uint64_t number, auto) {
    if (kind >= 0 && found != kind)
      return;
    if (count < max)
      out[count] = number;
    count++;
  });
  return count;
}

uint64_t cudasim_newest(void) {
  Access access;
  return newest;
}

void cudasim_on_create(void *later, void *interpreter, int (*function)(void *), void *argument) {
  Access access;
  watch = {later, interpreter, function, argument, std::this_thread::get_id(), false, {}};
}

size_t cudasim_created(uint64_t *out, size_t max) {
  Access access;
  size_t count = std::min(max, watch.fresh.size());
  std::copy_n(watch.fresh.begin(), count, out);
  watch.fresh.clear();
  watch.asked = false;
  return count;
}

size_t cudasim_ignored_settings(char *out, size_t size) {
  std::string text;
  for (const std::string &ignored : config().ignored)
    text += ignored + "\n";
  return copy_text(text, out, size);
}

int cudasim_last_launch(cudasim_launch *out, char *name, size_t name_capacity, void *arguments,
                        size_t argument_capacity) {
  Access access;
  const LaunchRecord &last = state().last_launch;
  if (last.number == 0)
    return 0;
  if (out != nullptr) {
    *out = {};
    out->number = last.number;
    out->stream = handle_of<void *>(last.stream);
    out->context = handle_of<void *>(last.context);
    std::copy(last.grid.begin(), last.grid.end(), out->grid);
    std::copy(last.block.begin(), last.block.end(), out->block);
    std::copy(last.cluster.begin(), last.cluster.end(), out->cluster);
    out->shared_bytes = last.shared_bytes;
    out->cooperative = last.cooperative;
    out->programmatic = last.programmatic;
    out->name_size = last.kernel.size();
    out->argument_size = last.arguments.size();
  }
  copy_text(last.kernel, name, name_capacity);
  size_t copied = std::min(argument_capacity, last.arguments.size());
  if (arguments != nullptr && copied > 0)
    std::memcpy(arguments, last.arguments.data(), copied);
  return 1;
}

int cudasim_describe_device(int number, cudasim_device *out) {
  if (out == nullptr || number < 0 || number >= config().devices)
    return -1;
  Access access;
  *out = {};
  std::snprintf(out->name, sizeof out->name, "%s", config().name.c_str());
  std::snprintf(out->uuid, sizeof out->uuid, "%s", uuid_text(number).c_str());
  out->pci_bus = pci_bus(number);
  out->major = config().compute_major;
  out->minor = config().compute_minor;
  out->memory = config().memory;
  for (const auto &device : state().devices)
    if (device->number == number)
      out->used = device->used;
  for (const ContextPtr &context : state().contexts.all())
    out->has_context |= context->device->number == number;
  return 0;
}

int cudasim_driver_version(void) { return config().driver_version; }

int cudasim_clear_errors(void) {
  State &s = state();
  std::unique_lock<std::mutex> lock(s.mutex);
  s.executor.settle(lock);
  for (const ContextPtr &context : s.contexts.all())
    if (context->error != CUDA_SUCCESS)
      for (const UnitPtr &unit : outstanding(*context)) /* they are skipped, even if they wait for a value */
        s.executor.wait(lock, unit);
  for (const ContextPtr &context : s.contexts.all())
    context->error = CUDA_SUCCESS;
  int failed = 0;
  for (const auto &device : s.devices) {
    failed += device->error != CUDA_SUCCESS;
    device->error = CUDA_SUCCESS;
  }
  forget_why();
  return failed;
}

void cudasim_stop_kernels(const char *why) {
  Access access;
  stop_kernels(why);
}

void cudasim_watch_signals(int file) {
  Access access;
  state().executor.watch_signals(file, [](int number) {
    stop_kernels("signal " + std::to_string(number) + " (" + strsignal(number) + ") arrived while the program waited");
  });
}

size_t cudasim_depth(void) { return context_stack().size(); }

void cudasim_reset_device(void) {
  State &s = state();
  std::unique_lock<std::mutex> lock(s.mutex);
  s.executor.wait_all(lock);
  forget_all_accesses();
  for (const auto &exec : s.graph_execs.all())
    s.graph_execs.remove(exec->handle);
  s.lost.clear();
  for (const auto &graph : s.graphs.all())
    if (graph->owner == nullptr)
      destroy_graph(graph);
  wait_for_destructors(lock);
  for (const auto &object : s.user_objects.all())
    s.user_objects.remove(object->handle);
  for (const auto &device : s.devices) {
    device->graph_memory = {};
    device->primary = nullptr;
    device->primary_references = 0;
  }
  forget_current_pool(nullptr);
  for (const ContextPtr &context : s.contexts.all())
    context->home != nullptr ? destroy_green(context, lock) : destroy_context(context, lock);
  for (const StreamPtr &stream : s.streams.all())
    s.streams.remove(stream->handle); /* streams of destroyed green contexts */
  for (const AllocationPtr &allocation : s.memory.all()) {
    if (allocation->pool != nullptr && !allocation->freed)
      allocation->pool->used -= allocation->size;
    release_memory(allocation, "cudasim_reset_device");
  }
  forget_graphics();
  forget_arrays(nullptr);
  for (const auto &kernel : s.kernels.all())
    s.kernels.remove(kernel->handle);
  for (const auto &library : s.libraries.all())
    s.libraries.remove(library->handle);
  for (const auto &physical : s.physicals.all())
    s.physicals.remove(physical->handle);
  for (const auto &pool : s.pools.all()) {
    pool->threshold = 0;
    pool->trim(0);
    if (!pool->is_default)
      s.pools.remove(pool->handle);
  }
  for (const auto &[base, reservation] : s.reservations)
    s.arena.give_back_exactly(base, reservation.taken);
  s.reservations.clear();
  for (const auto &device : s.devices)
    device->error = CUDA_SUCCESS;
  context_stack().clear();
}
}
