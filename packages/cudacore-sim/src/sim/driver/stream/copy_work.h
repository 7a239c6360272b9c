/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_STREAM_COPY_WORK_H
#define CUDACORE_SIM_DRIVER_STREAM_COPY_WORK_H

#include "sim/driver/memory/copy.h"

namespace sim {

/* When the call returns: immediately, or when the synchronous functions (cuMemcpy, cuMemset) return. */
enum class Return { at_once, when_synchronous };

/* When the source is read: in the stream's order, or before the call returns. */
enum class Read { in_order, during_call };

CUresult copy(const StreamPtr &stream, const Side &to, const Side &from, const Shape &shape, Return when,
              Read read = Read::in_order);

/*
 * Fills memory with the `bytes` bytes of `value`, repeated; `width` counts bytes. If host code can use the memory, the
 * synchronous functions return when the fill is done.
 */
CUresult fill(const StreamPtr &stream, const Side &to, const Shape &shape, uint32_t value, unsigned bytes, Return when);

} // namespace sim

#endif
