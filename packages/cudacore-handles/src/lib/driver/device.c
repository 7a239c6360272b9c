/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arguments.h"
#include "driver/driver_table.h"

#include <cudacore_internal/driver.h>

#include <limits.h>

/* No box is involved, but the driver must be ready. */
static int find_device(CUdevice *out, int device) {
  int status = cch__ready();
  return status != 0 ? status : CCH__CALL(cuDeviceGet, (out, device));
}

/* Returns the size of a buffer as an int, the type that the driver takes: at most INT_MAX. */
static int room(size_t size) { return size < INT_MAX ? (int)size : INT_MAX; }

cch_status cch_device_count(int *out) {
  CCH__REQUIRE(out);
  int status = cch__ready();
  return status != 0 ? status : CCH__CALL(cuDeviceGetCount, (out));
}

cch_status cch_device_attribute(int *out, int attribute, int device) {
  CCH__REQUIRE(out);
  CUdevice raw;
  int status = find_device(&raw, device);
  return status != 0 ? status : CCH__CALL(cuDeviceGetAttribute, (out, (CUdevice_attribute)attribute, raw));
}

cch_status cch_device_name(char *out, size_t size, int device) {
  CCH__REQUIRE(out);
  CUdevice raw;
  int status = find_device(&raw, device);
  if (status == 0)
    status = CCH__CALL(cuDeviceGetName, (out, room(size), raw));
  if (status == 0 && size > 0)
    out[size - 1] = '\0'; /* if the name is longer, the driver may write only its beginning */
  return status;
}

cch_status cch_device_uuid(unsigned char *out, int device) {
  CCH__REQUIRE(out);
  CUdevice raw;
  CUuuid uuid;
  int status = find_device(&raw, device);
  if (status == 0)
    status = CCH__CALL(cuDeviceGetUuid, (&uuid, raw));
  if (status == 0)
    for (size_t i = 0; i < sizeof uuid.bytes; i++)
      out[i] = (unsigned char)uuid.bytes[i];
  return status;
}

cch_status cch_device_pci_bus_id(char *out, size_t size, int device) {
  CCH__REQUIRE(out);
  CUdevice raw;
  int status = find_device(&raw, device);
  return status != 0 ? status : CCH__CALL(cuDeviceGetPCIBusId, (out, room(size), raw));
}

cch_status cch_device_can_access_peer(int *out, int device, int peer) {
  CCH__REQUIRE(out);
  CUdevice raw, raw_peer;
  CCH__RETURN_FAILURE(find_device(&raw, device));
  CCH__RETURN_FAILURE(find_device(&raw_peer, peer));
  return CCH__CALL(cuDeviceCanAccessPeer, (out, raw, raw_peer));
}
