/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_CUDACORE_H
#define CUDACORE_CUDACORE_H

/** @file cudacore.h Includes all other headers. */

#include <cudacore/base.h>
#include <cudacore/error.h>
#include <cudacore/driver.h>
#include <cudacore/device.h>
#include <cudacore/checkpoint.h>
#include <cudacore/process.h>
#include <cudacore/resource.h>
#include <cudacore/context.h>
#include <cudacore/stream.h>
#include <cudacore/event.h>
#include <cudacore/pool.h>
#include <cudacore/pool_attributes.h>
#include <cudacore/deviceptr.h>
#include <cudacore/pointer.h>
#include <cudacore/tracker.h>
#include <cudacore/allocator.h>
#include <cudacore/copy.h>
#include <cudacore/array.h>
#include <cudacore/texture.h>
#include <cudacore/managed.h>
#include <cudacore/virtual.h>
#include <cudacore/tensor_map.h>
#include <cudacore/graphics.h>
#include <cudacore/ipc.h>
#include <cudacore/library.h>
#include <cudacore/kernel.h>
#include <cudacore/kernel_attributes.h>
#include <cudacore/occupancy.h>
#include <cudacore/nvrtc.h>
#include <cudacore/nvvm.h>
#include <cudacore/nvjitlink.h>
#include <cudacore/bundle.h>
#include <cudacore/graph.h>
#include <cudacore/capture.h>
#include <cudacore/api.h>

#endif
