/* SPDX-License-Identifier: Apache-2.0 */
/* Names and meanings of CUresult. */
#include "api.h"

namespace sim::api {

CUresult cuGetErrorName(CUresult error, const char **pStr) {
  if (pStr == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *pStr = nullptr;
  switch (static_cast<int>(error)) {
#define SIM_ERROR(code, meaning)                                                                                       \
  case code:                                                                                                           \
    *pStr = #code;                                                                                                     \
    return CUDA_SUCCESS;
#include "errors.inc"
#undef SIM_ERROR
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuGetErrorString(CUresult error, const char **pStr) {
  if (pStr == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *pStr = nullptr;
  switch (static_cast<int>(error)) {
#define SIM_ERROR(code, meaning)                                                                                       \
  case code:                                                                                                           \
    *pStr = meaning;                                                                                                   \
    return CUDA_SUCCESS;
#include "errors.inc"
#undef SIM_ERROR
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

} // namespace sim::api
