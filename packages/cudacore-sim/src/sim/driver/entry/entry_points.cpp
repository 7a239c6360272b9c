/* SPDX-License-Identifier: Apache-2.0 */
/* The exported symbols, and an answer for every entry point that nothing else defines. */
#include "sim/driver/base/call.h"

#define SIM_EXPORT __attribute__((visibility("default")))

namespace sim {
/* Not static: an overriding definition must take its place. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
namespace api {
#define SIM_FUNCTION(symbol, base, parameters, arguments)                                                              \
  __attribute__((weak)) CUresult symbol parameters { return unsupported(Entry::symbol); }
#define SIM_PER_THREAD(symbol, plain, parameters, arguments)
#define SIM_VERSION(name, version, symbol, per_thread)
#include "sim/driver/base/entry_points.inc"
#undef SIM_FUNCTION
#undef SIM_PER_THREAD
#undef SIM_VERSION
} // namespace api
#pragma GCC diagnostic pop

const char *symbol_of(Entry entry) {
  static const char *const names[] = {
#define SIM_FUNCTION(symbol, base, parameters, arguments) #symbol,
#define SIM_PER_THREAD(symbol, plain, parameters, arguments) #symbol,
#define SIM_VERSION(name, version, symbol, per_thread)
#include "sim/driver/base/entry_points.inc"
#undef SIM_FUNCTION
#undef SIM_PER_THREAD
#undef SIM_VERSION
  };
  return names[static_cast<size_t>(entry)];
}

const char *base_name_of(Entry entry) {
  /* A per-thread symbol comes after the plain one, with which it shares the name. */
  static const char *const names[] = {
#define SIM_FUNCTION(symbol, base, parameters, arguments) #base,
#define SIM_PER_THREAD(symbol, plain, parameters, arguments) nullptr,
#define SIM_VERSION(name, version, symbol, per_thread)
#include "sim/driver/base/entry_points.inc"
#undef SIM_FUNCTION
#undef SIM_PER_THREAD
#undef SIM_VERSION
  };
  size_t index = static_cast<size_t>(entry);
  return names[index] != nullptr ? names[index] : names[index - 1];
}

} // namespace sim

extern "C" {
#define SIM_FUNCTION(symbol, base, parameters, arguments)                                                              \
  SIM_EXPORT CUresult CUDAAPI symbol parameters {                                                                      \
    return sim::enter(sim::Entry::symbol, false, [&] { return sim::api::symbol arguments; });                          \
  }
#define SIM_PER_THREAD(symbol, plain, parameters, arguments)                                                           \
  SIM_EXPORT CUresult CUDAAPI symbol parameters {                                                                      \
    return sim::enter(sim::Entry::symbol, true, [&] { return sim::api::plain arguments; });                            \
  }
#define SIM_VERSION(name, version, symbol, per_thread)
#include "sim/driver/base/entry_points.inc"
#undef SIM_FUNCTION
#undef SIM_PER_THREAD
#undef SIM_VERSION
}
