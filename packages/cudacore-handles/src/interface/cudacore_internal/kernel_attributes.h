/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_KERNEL_ATTRIBUTES_H
#define CUDACORE_INTERNAL_KERNEL_ATTRIBUTES_H

/**
 * @file kernel_attributes.h
 * Attributes of a kernel on a device: the resources that it needs, and limits that can be set.
 */

#include <cudacore/cudacore.h>

CCH_BEGIN_DECLS

/**
 * A CUfunction_attribute of a kernel on a device, by ordinal, whatever context is current (cuKernelGetAttribute).
 * CUDA_ERROR_INVALID_DEVICE_FUNCTION or CUDA_ERROR_NO_BINARY_FOR_GPU if the kernel has no code for the device.
 */
CCH_EXPORT cch_status cch_kernel_attribute(int *out, cch_kernel *kernel, int attribute, int device);

/**
 * Sets a CUfunction_attribute of a kernel on a device, for all users of the kernel (cuKernelSetAttribute). *Caller
 * serialises* calls for one kernel and attribute, unless the order does not matter.
 */
CCH_EXPORT cch_status cch_kernel_set_attribute(cch_kernel *kernel, int attribute, int value, int device);

CCH_END_DECLS

#endif
