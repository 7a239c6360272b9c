/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the simulated driver, and reports about handles that are no longer valid. */
#include "sim/driver/base/state.h"

#include "sim/control/report.h"

namespace sim {

const char *name_of(Kind kind) {
  switch (kind) {
  case Kind::context:
    return "context";
  case Kind::stream:
    return "stream";
  case Kind::event:
    return "event";
  case Kind::pool:
    return "memory pool";
  case Kind::library:
    return "library";
  case Kind::kernel:
    return "kernel";
  case Kind::module:
    return "module";
  case Kind::function:
    return "function";
  case Kind::physical:
    return "physical memory";
  case Kind::graph:
    return "graph";
  case Kind::graph_node:
    return "graph node";
  case Kind::graph_exec:
    return "executable graph";
  case Kind::condition:
    return "conditional handle";
  case Kind::user_object:
    return "user object";
  case Kind::green_context:
    return "green context";
  case Kind::link:
    return "linker";
  case Kind::graphics:
    return "graphics resource";
  case Kind::array:
    return "array";
  case Kind::mipmapped_array:
    return "mipmapped array";
  case Kind::texture:
    return "texture object";
  case Kind::surface:
    return "surface object";
  default:
    return "object";
  }
}

/* What an H200 does if the running call gets a destroyed handle; empty: unknown. */
static std::string stale_outcome(Kind kind) {
  struct Row {
    Entry entry;
    Kind kind;
    const char *outcome;
  };
  static constexpr Row rows[] = {
#define SIM_STALE(entry, kind, outcome) {Entry::entry, Kind::kind, outcome},
#include "sim/driver/base/stale_outcomes.def"
#undef SIM_STALE
  };
  if (Call::active())
    for (const Row &row : rows)
      if (row.entry == Call::current().entry && row.kind == kind)
        return std::string(": here the driver ") + row.outcome;
  return "";
}

CUresult report_stale(Kind kind, uint64_t handle) {
  std::string by = Call::active() ? symbol_of(Call::current().entry) : "a call";
  bool is_lost = state().lost.count(handle) != 0;
  /* If the current context is destroyed, too, the driver crashes only when it is given an executable graph. */
  ContextPtr current = current_context();
  bool crashes = kind == Kind::graph_exec || current == nullptr || !current->destroyed;
  std::string what = name_of(kind);
  report(by + " was given " + (what[0] == 'e' || what[0] == 'a' ? "an " : "a ") + what + " that was destroyed" +
         (is_lost ? " with its context: " : ": ") + hex(handle) +
         (!is_lost  ? stale_outcome(kind)
          : crashes ? ": here the driver crashes"
                    : ""));
  return is_lost ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_HANDLE;
}

State &state() {
  static State *const instance = new State; /* never destroyed: worker threads outlive exit() */
  return *instance;
}

} // namespace sim
