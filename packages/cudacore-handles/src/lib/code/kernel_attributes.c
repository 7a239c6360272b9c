/* SPDX-License-Identifier: Apache-2.0 */
#include "base/kinds.h"

int cch_kernel_attribute(int *out, cch_kernel *kernel, int attribute, int device) {
  CCH__REQUIRE_USABLE(out, kernel);
  CUdevice raw;
  int status = CCH__CALL(cuDeviceGet, (&raw, device));
  return status != 0 ? status
                     : CCH__CALL(cuKernelGetAttribute, (out, (CUfunction_attribute)attribute, kernel->raw, raw));
}

int cch_kernel_set_attribute(cch_kernel *kernel, int attribute, int value, int device) {
  CCH__REQUIRE_USABLE(kernel);
  CUdevice raw;
  int status = CCH__CALL(cuDeviceGet, (&raw, device));
  return status != 0 ? status
                     : CCH__CALL(cuKernelSetAttribute, ((CUfunction_attribute)attribute, value, kernel->raw, raw));
}
