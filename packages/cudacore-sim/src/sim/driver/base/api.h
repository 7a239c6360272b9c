/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_API_H
#define CUDACORE_SIM_DRIVER_BASE_API_H

/*
 * Every entry point of the driver as sim::api::<symbol>. entry_points.cpp exports the symbols and defines all of them
 * weakly to answer CUDA_ERROR_NOT_SUPPORTED; to add one, define it in the file of its resource. It runs with the
 * state's lock held (Call::current().lock), after cuInit, and outside of callbacks.
 */

/* The driver's own view of the header: every version of every function, under the name of its symbol. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

/* Of cudaProfiler.h, which comes with no wheel. */
extern "C" CUresult CUDAAPI cuProfilerInitialize(const char *configFile, const char *outputFile, int outputMode);
extern "C" CUresult CUDAAPI cuProfilerStart(void);
extern "C" CUresult CUDAAPI cuProfilerStop(void);

namespace sim {

enum class Entry : uint16_t {
#define SIM_FUNCTION(symbol, base, parameters, arguments) symbol,
#define SIM_PER_THREAD(symbol, plain, parameters, arguments) symbol,
#define SIM_VERSION(name, version, symbol, per_thread)
#include "sim/driver/base/entry_points.inc"
#undef SIM_FUNCTION
#undef SIM_PER_THREAD
#undef SIM_VERSION
  count
};

inline constexpr size_t entry_count = static_cast<size_t>(Entry::count);

const char *symbol_of(Entry entry);
const char *base_name_of(Entry entry); /* the name without version */

namespace api {
#define SIM_FUNCTION(symbol, base, parameters, arguments) CUresult symbol parameters;
#define SIM_PER_THREAD(symbol, plain, parameters, arguments)
#define SIM_VERSION(name, version, symbol, per_thread)
#include "sim/driver/base/entry_points.inc"
#undef SIM_FUNCTION
#undef SIM_PER_THREAD
#undef SIM_VERSION
} // namespace api

} // namespace sim

#endif
