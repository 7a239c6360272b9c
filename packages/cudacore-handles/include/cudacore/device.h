/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_DEVICE_H
#define CUDACORE_DEVICE_H

/**
 * @file device.h
 * Devices, by ordinal. None of these functions needs a context, and none makes one.
 */

#include <cudacore/base.h>

CCH_BEGIN_DECLS

/** A CUdevice_attribute of a device, by ordinal (cuDeviceGetAttribute). @since 0.1 */
CCH_EXPORT cch_status cch_device_attribute(int *out, int attribute, int device);

CCH_END_DECLS

#endif
