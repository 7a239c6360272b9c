/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arguments.h"
#include "driver/driver_table.h"

#include <cudacore_internal/driver.h>

cch_status cch_device_count(int *out) {
  CCH__REQUIRE_USABLE(out);
  return CCH__CALL(cuDeviceGetCount, (out));
}

cch_status cch_device_attribute(int *out, int attribute, int device) {
  CCH__REQUIRE_USABLE(out);
  CCH__FIND_DEVICE(raw, device);
  return CCH__CALL(cuDeviceGetAttribute, (out, (CUdevice_attribute)attribute, raw));
}
