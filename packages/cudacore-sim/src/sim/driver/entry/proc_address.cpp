/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress: finds, by a function's name, the newest version that the caller's CUDA version has. */
#include "sim/driver/entry/journal.h"
#include "sim/driver/base/state.h"

#include <string_view>
#include <unordered_map>

namespace sim {
namespace {

struct Version {
  const char *name;
  int since;
  void *symbol;
  bool per_thread;
};

/* Per-thread variants were added in CUDA 7.0, even those of older functions. */
constexpr int per_thread_since = 7000;

/* The versions by name, in ascending order as in the table. Filled at the first use. */
using Table = std::unordered_map<std::string_view, std::vector<Version>>;
const Table &table() {
  static const Table *const instance = [] {
    static const Version rows[] = {
#define SIM_VERSION(name, version, symbol, per_thread)                                                                 \
  {#name, (per_thread) && (version) < per_thread_since ? per_thread_since : (version),                                 \
   reinterpret_cast<void *>(&::symbol), per_thread},
#include "sim/driver/base/entry_points.inc"
    };
    Table *filled = new Table;
    for (const Version &row : rows)
      (*filled)[row.name].push_back(row);
    return filled;
  }();
  return *instance;
}

/* Returns the newest version up to `wanted`, or null. `known`: whether the driver has any version of the function. */
void *resolve(const char *name, int wanted, bool per_thread, bool &known) {
  known = false;
  auto found = table().find(name);
  if (found == table().end() || is_hidden(name))
    return nullptr;
  void *plain = nullptr, *threaded = nullptr;
  bool has_threaded = false;
  for (const Version &version : found->second) {
    if (version.since > config().driver_version)
      continue;
    known = true;
    has_threaded |= version.per_thread;
    if (version.since <= wanted)
      (version.per_thread ? threaded : plain) = version.symbol;
  }
  return per_thread && has_threaded ? threaded : plain;
}

CUresult look_up(const char *name, void **out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
  constexpr cuuint64_t known_flags = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (name == nullptr || out == nullptr || (flags & ~known_flags) != 0 || version > config().driver_version)
    return CUDA_ERROR_INVALID_VALUE;
  bool known = false;
  *out = resolve(name, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, known);
  CUdriverProcAddressQueryResult result = *out != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
                                          : known         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (status != nullptr)
    *status = result;
  return CUDA_SUCCESS;
}

} // namespace

namespace api {

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus) {
  return look_up(symbol, pfn, cudaVersion, flags, symbolStatus);
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags) {
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  CUresult result = look_up(symbol, pfn, cudaVersion, flags, &status);
  return result == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_ERROR_NOT_FOUND : result;
}

} // namespace api
} // namespace sim
