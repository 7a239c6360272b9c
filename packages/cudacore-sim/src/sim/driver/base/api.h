/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_BASE_API_H
#define CUDACORE_SIM_DRIVER_BASE_API_H

/*
 * Every entry point of the driver is a function sim::api::<symbol>. By default it returns CUDA_ERROR_NOT_SUPPORTED: a
 * weak definition in entry_points.cpp, which also exports the symbols. To add a function, define it in the room of its
 * resource. The function runs after cuInit, outside of callbacks, with the state's lock held (Call::current().lock).
 */

/* With this macro, the header declares every version of every function, by the name of its symbol. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>

/* From cudaProfiler.h, which is in no wheel. */
extern "C" CUresult CUDAAPI cuProfilerInitialize(const char *configFile, const char *outputFile, int outputMode);
extern "C" CUresult CUDAAPI cuProfilerStart(void);
extern "C" CUresult CUDAAPI cuProfilerStop(void);
/* From cudaGL.h, which needs the headers of OpenGL. */
extern "C" CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource *pCudaResource, unsigned int buffer,
                                                       unsigned int Flags);
extern "C" CUresult CUDAAPI cuGraphicsGLRegisterImage(CUgraphicsResource *pCudaResource, unsigned int image,
                                                      unsigned int target, unsigned int Flags);

namespace sim {

enum class Entry : uint16_t {
#define SIM_FUNCTION(symbol, base, flags, parameters, arguments) symbol,
#define SIM_PER_THREAD(symbol, plain, parameters, arguments) symbol,
#include "sim/driver/base/entry_points.inc"
  count
};

inline constexpr size_t entry_count = static_cast<size_t>(Entry::count);

/*
 * Properties of an entry point: the flags of its row in the table. The per-thread variant of an entry point has the
 * properties of the plain variant.
 */
enum EntryFlag : uint8_t {
  none = 0,
  quick = 1,       /* reads only constant data: takes no lock, and is allowed before cuInit and in callbacks */
  before_init = 2, /* is allowed before cuInit */
  in_callback = 4, /* is allowed in host functions and callbacks */
  probe = 8, /* libraries call it in callbacks to test whether calls are permitted, so refusals are not reported */
  checkpoints = 32, /* acts on locked processes, so it does not wait until this process is unlocked */
  unsafe = 16       /* acts immediately, and cannot be captured: captures can forbid it, as on a GPU */
};

extern const std::array<uint8_t, entry_count> entry_flags;
inline bool has(Entry entry, EntryFlag flag) { return (entry_flags[static_cast<size_t>(entry)] & flag) != 0; }

/*
 * Returns from a function if a step has failed, with the result of the step: SIM_RETURN_FAILURE(find_graph(hGraph,
 * graph));
 */
#define SIM_RETURN_FAILURE(...)                                                                                        \
  do {                                                                                                                 \
    if (CUresult failure_ = (__VA_ARGS__))                                                                             \
      return failure_;                                                                                                 \
  } while (0)
/* Returns CUDA_ERROR_INVALID_VALUE if a condition does not hold: SIM_REQUIRE(phNode != nullptr); */
#define SIM_REQUIRE(...)                                                                                               \
  do {                                                                                                                 \
    if (!(__VA_ARGS__))                                                                                                \
      return CUDA_ERROR_INVALID_VALUE;                                                                                 \
  } while (0)

/*
 * Ends an entry point that returns one fact about an object: stores get() in `out`. A failure to find the object is
 * returned even if `out` is null: return store(find_graph(hGraph, graph), graphId, [&] { return graph->id; });
 */
template <class T, class Get> CUresult store(CUresult found, T *out, Get get) {
  SIM_RETURN_FAILURE(found);
  SIM_REQUIRE(out != nullptr);
  *out = get();
  return CUDA_SUCCESS;
}

/* Stores a result in `out`, unless `out` is null. */
template <class T, class Value> void store_optional(T *out, Value value) {
  if (out != nullptr)
    *out = value;
}

const char *symbol_of(Entry entry);
const char *base_name_of(Entry entry); /* the name without version */

namespace api {
#define SIM_FUNCTION(symbol, base, flags, parameters, arguments) CUresult symbol parameters;
#include "sim/driver/base/entry_points.inc"
} // namespace api

} // namespace sim

#endif
