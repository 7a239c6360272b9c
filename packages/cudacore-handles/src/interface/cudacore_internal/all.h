/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_INTERNAL_ALL_H
#define CUDACORE_INTERNAL_ALL_H

/**
 * @file all.h
 * Includes all headers: the promised ones, and the functions that only the packages of the same version use.
 */

#include <cudacore_internal/allocator.h>
#include <cudacore_internal/array.h>
#include <cudacore_internal/base.h>
#include <cudacore_internal/capture.h>
#include <cudacore_internal/compiler.h>
#include <cudacore_internal/context.h>
#include <cudacore_internal/copy.h>
#include <cudacore_internal/driver.h>
#include <cudacore_internal/deviceptr.h>
#include <cudacore_internal/stream.h>
#include <cudacore_internal/graph.h>
#include <cudacore_internal/graphics.h>
#include <cudacore_internal/ipc.h>
#include <cudacore_internal/kernel.h>
#include <cudacore_internal/managed.h>
#include <cudacore_internal/pool.h>
#include <cudacore_internal/tensor_map.h>
#include <cudacore_internal/texture.h>
#include <cudacore_internal/tracker.h>
#include <cudacore_internal/virtual.h>

#endif
