/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_CUDACORE_H
#define CUDACORE_CUDACORE_H

/** @file cudacore.h Includes all other headers. */

#include <cudacore/base.h>
#include <cudacore/error.h>
#include <cudacore/driver.h>
#include <cudacore/device.h>
#include <cudacore/process.h>
#include <cudacore/context.h>
#include <cudacore/stream.h>
#include <cudacore/event.h>
#include <cudacore/pool.h>
#include <cudacore/deviceptr.h>
#include <cudacore/library.h>
#include <cudacore/kernel.h>
#include <cudacore/bundle.h>
#include <cudacore/graph.h>
#include <cudacore/capture.h>
#include <cudacore/api.h>

#endif
