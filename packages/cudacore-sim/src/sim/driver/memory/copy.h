/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_MEMORY_COPY_H
#define CUDACORE_SIM_DRIVER_MEMORY_COPY_H

#include "sim/driver/base/state.h"

namespace sim {

/* What a side of a copy says it is. */
enum class Place { host, device, either };

/* Rows of memory: `pitch` bytes from one to the next, `slice` bytes from one plane of them to the next. */
struct Side {
  Place place;
  uint64_t address;
  uint64_t pitch = 0, slice = 0;
  ContextPtr context = nullptr; /* whose memory it is, where a copy between contexts says so: that has access to it */
};

struct Shape {
  uint64_t width, height = 1, depth = 1;
};

/* When the call returns: at once, or as the synchronous functions do. */
enum class Return { at_once, when_synchronous };

/* When what is copied is read: in the stream's order, or before the call returns. */
enum class Read { in_order, during_call };

CUresult copy(const StreamPtr &stream, const Side &to, const Side &from, const Shape &shape, Return when,
              Read read = Read::in_order);

/* What the structure of a three-dimensional copy means. */
CUresult read_copy(const CUDA_MEMCPY3D &fields, Side &to, Side &from, Shape &shape);

/* The work of nodes of a graph: it runs any number of times, and looks at host memory only then. */
CUresult check_copy_node(const Context &context, const Side &to, const Side &from, const Shape &shape);
/* For the trace. */
void describe_shape(Traced &out, const Shape &shape);

std::function<void()> copy_work(const ContextPtr &context, const Side &to, const Side &from, const Shape &shape);
CUresult check_fill_node(const Context &context, const Side &to, const Shape &shape, unsigned bytes);
std::function<void()> fill_work(const ContextPtr &context, const Side &to, const Shape &shape, uint32_t value,
                                unsigned bytes);

/*
 * Writes `value`, of `bytes` bytes, again and again; `width` counts bytes. The synchronous functions return when it is
 * done where host code can use the memory.
 */
CUresult fill(const StreamPtr &stream, const Side &to, const Shape &shape, uint32_t value, unsigned bytes, Return when);

} // namespace sim

#endif
