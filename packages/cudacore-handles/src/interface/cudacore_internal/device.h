/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_DEVICE_H
#define CUDACORE_INTERNAL_DEVICE_H

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

/** Number of devices (cuDeviceGetCount). */
CCH_EXPORT cch_status cch_device_count(int *out);

/** A device's name (cuDeviceGetName): up to `size` bytes, including the NUL at the end. */
CCH_EXPORT cch_status cch_device_name(char *out, size_t size, int device);

/** A device's UUID of 16 bytes; for a MIG instance, the UUID of the instance (cuDeviceGetUuid). */
CCH_EXPORT cch_status cch_device_uuid(unsigned char *out, int device);

/**
 * A device's PCI address as `domain:bus:device.function` (cuDeviceGetPCIBusId): up to `size` bytes, including the NUL
 * at the end; a `size` of 13 is enough.
 */
CCH_EXPORT cch_status cch_device_pci_bus_id(char *out, size_t size, int device);

/** 1 if kernels of a device can use the memory of another device, else 0 (cuDeviceCanAccessPeer). */
CCH_EXPORT cch_status cch_device_can_access_peer(int *out, int device, int peer);

CCH_END_DECLS

#endif
