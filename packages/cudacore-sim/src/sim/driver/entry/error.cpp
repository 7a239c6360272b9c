/* SPDX-License-Identifier: Apache-2.0 */
/* Names and meanings of CUresult. */
#include "sim/driver/base/api.h"

namespace sim {
namespace {

struct Text {
  const char *name, *meaning; /* null: no such code */
};

Text text_of(CUresult error) {
  switch (static_cast<int>(error)) {
#define SIM_ERROR(code, meaning)                                                                                       \
  case code:                                                                                                           \
    return {#code, meaning};
#include "sim/driver/entry/errors.inc"
#undef SIM_ERROR
  default:
    return {nullptr, nullptr};
  }
}

CUresult give(const char *text, const char **out) {
  SIM_REQUIRE(out != nullptr);
  *out = text;
  return text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace

namespace api {

CUresult cuGetErrorName(CUresult error, const char **pStr) { return give(text_of(error).name, pStr); }
CUresult cuGetErrorString(CUresult error, const char **pStr) { return give(text_of(error).meaning, pStr); }

} // namespace api
} // namespace sim
