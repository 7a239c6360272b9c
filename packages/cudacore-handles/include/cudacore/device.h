/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_DEVICE_H
#define CUDACORE_DEVICE_H

/**
 * @file device.h
 * Devices, by ordinal. None of these functions needs a context, and none makes one.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/** Number of devices (cuDeviceGetCount). @since 0.1 */
CCH_EXPORT cch_status cch_device_count(int *out);

/** A CUdevice_attribute of a device, by ordinal (cuDeviceGetAttribute). @since 0.1 */
CCH_EXPORT cch_status cch_device_attribute(int *out, int attribute, int device);

/** A device's name (cuDeviceGetName): up to `size` bytes, including the NUL at the end. @since 0.1 */
CCH_EXPORT cch_status cch_device_name(char *out, size_t size, int device);

/** A device's UUID of 16 bytes; for a MIG instance, the UUID of the instance (cuDeviceGetUuid). @since 0.1 */
CCH_EXPORT cch_status cch_device_uuid(unsigned char *out, int device);

/**
 * A device's PCI address as `domain:bus:device.function` (cuDeviceGetPCIBusId): up to `size` bytes, including the NUL
 * at the end; a `size` of 13 is enough. @since 0.1
 */
CCH_EXPORT cch_status cch_device_pci_bus_id(char *out, size_t size, int device);

/** 1 if kernels of a device can use the memory of another device, else 0 (cuDeviceCanAccessPeer). @since 0.1 */
CCH_EXPORT cch_status cch_device_can_access_peer(int *out, int device, int peer);

CCH_END_DECLS

#endif
