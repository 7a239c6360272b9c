/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arguments.h"
#include "driver/driver_table.h"

#include <cudacore_internal/driver.h>

#include <limits.h>
#include <string.h>

/* Returns the size of a buffer as an int, the type that the driver takes: at most INT_MAX. */
static int room(size_t size) { return size < INT_MAX ? (int)size : INT_MAX; }

cch_status cch_device_count(int *out) {
  CCH__REQUIRE_USABLE(out);
  return CCH__CALL(cuDeviceGetCount, (out));
}

cch_status cch_device_attribute(int *out, int attribute, int device) {
  CCH__REQUIRE_USABLE(out);
  CCH__FIND_DEVICE(raw, device);
  return CCH__CALL(cuDeviceGetAttribute, (out, (CUdevice_attribute)attribute, raw));
}

cch_status cch_device_name(char *out, size_t size, int device) {
  CCH__REQUIRE_USABLE(out);
  CCH__FIND_DEVICE(raw, device);
  CCH__RETURN_FAILURE(CCH__CALL(cuDeviceGetName, (out, room(size), raw)));
  if (size > 0)
    out[size - 1] = '\0'; /* if the name is longer, the driver may write only its beginning */
  return 0;
}

cch_status cch_device_uuid(unsigned char *out, int device) {
  CCH__REQUIRE_USABLE(out);
  CUuuid uuid;
  CCH__FIND_DEVICE(raw, device);
  CCH__RETURN_FAILURE(CCH__CALL(cuDeviceGetUuid, (&uuid, raw)));
  memcpy(out, uuid.bytes, sizeof uuid.bytes);
  return 0;
}

cch_status cch_device_pci_bus_id(char *out, size_t size, int device) {
  CCH__REQUIRE_USABLE(out);
  CCH__FIND_DEVICE(raw, device);
  return CCH__CALL(cuDeviceGetPCIBusId, (out, room(size), raw));
}

cch_status cch_device_can_access_peer(int *out, int device, int peer) {
  CCH__REQUIRE_USABLE(out);
  CCH__FIND_DEVICE(raw, device);
  CCH__FIND_DEVICE(raw_peer, peer);
  return CCH__CALL(cuDeviceCanAccessPeer, (out, raw, raw_peer));
}
