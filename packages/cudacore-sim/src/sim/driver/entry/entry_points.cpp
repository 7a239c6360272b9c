/* SPDX-License-Identifier: Apache-2.0 */
/* Exports the symbols, and defines every entry point weakly. */
#include "sim/driver/base/call.h"

#define SIM_EXPORT __attribute__((visibility("default")))

namespace sim {
/* The weak definitions are not static, so that the definition of a simulated function replaces them. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
namespace api {
#define SIM_FUNCTION(symbol, base, flags, parameters, arguments)                                                       \
  __attribute__((weak)) CUresult symbol parameters { return unsupported(Entry::symbol); }
#include "sim/driver/base/entry_points.inc"
} // namespace api
#pragma GCC diagnostic pop

const char *symbol_of(Entry entry) {
  static const char *const names[] = {
#define SIM_FUNCTION(symbol, base, flags, parameters, arguments) #symbol,
#define SIM_PER_THREAD(symbol, plain, parameters, arguments) #symbol,
#include "sim/driver/base/entry_points.inc"
  };
  return names[static_cast<size_t>(entry)];
}

const char *base_name_of(Entry entry) {
  /* A per-thread symbol comes after the plain symbol, which has the same name. */
  static const char *const names[] = {
#define SIM_FUNCTION(symbol, base, flags, parameters, arguments) #base,
#define SIM_PER_THREAD(symbol, plain, parameters, arguments) nullptr,
#include "sim/driver/base/entry_points.inc"
  };
  size_t index = static_cast<size_t>(entry);
  return names[index] != nullptr ? names[index] : names[index - 1];
}

namespace {

constexpr uint8_t find_flags(Entry entry) {
  switch (entry) {
#define SIM_FUNCTION(symbol, base, flags, parameters, arguments)                                                       \
  case Entry::symbol:                                                                                                  \
    return flags;
#define SIM_PER_THREAD(symbol, plain, parameters, arguments)                                                           \
  case Entry::symbol:                                                                                                  \
    return find_flags(Entry::plain);
#include "sim/driver/base/entry_points.inc"
  default:
    return none;
  }
}

constexpr std::array<uint8_t, entry_count> find_all_flags() {
  std::array<uint8_t, entry_count> flags{};
  for (size_t i = 0; i < entry_count; i++)
    flags[i] = find_flags(static_cast<Entry>(i));
  return flags;
}

} // namespace

constexpr std::array<uint8_t, entry_count> entry_flags = find_all_flags();

} // namespace sim

extern "C" {
#define SIM_FUNCTION(symbol, base, flags, parameters, arguments)                                                       \
  SIM_EXPORT CUresult CUDAAPI symbol parameters {                                                                      \
    return sim::enter(sim::Entry::symbol, false, sim::stream_among arguments,                                          \
                      [&] { return sim::api::symbol arguments; });                                                     \
  }
#define SIM_PER_THREAD(symbol, plain, parameters, arguments)                                                           \
  SIM_EXPORT CUresult CUDAAPI symbol parameters {                                                                      \
    return sim::enter(sim::Entry::symbol, true, sim::stream_among arguments,                                           \
                      [&] { return sim::api::plain arguments; });                                                      \
  }
#include "sim/driver/base/entry_points.inc"
}
