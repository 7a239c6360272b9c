/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_SIM_DRIVER_MEMORY_COPY_H
#define CUDACORE_SIM_DRIVER_MEMORY_COPY_H

#include "sim/driver/base/state.h"

namespace sim {

/* The kind of memory on a side of a copy. If it is `either`, the address determines the kind. */
enum class MemoryKind { host, device, either };

/* Rows of memory, `pitch` bytes apart, in planes that are `slice` bytes apart. */
struct Side {
  MemoryKind kind;
  uint64_t address;
  uint64_t pitch = 0, slice = 0;
  ContextPtr context = nullptr;   /* for a copy between contexts: the context whose access rights apply */
  CUarray array = nullptr;        /* if set, `address` is the address of the copy's first texel */
  std::array<size_t, 3> origin{}; /* the position of that texel in the array: bytes, rows, planes */
};

struct Shape {
  uint64_t width, height = 1, depth = 1;
};

/* Read the structures of cuMemcpy2D, cuMemcpy3D and cuMemcpy3DPeer. */
CUresult read_copy(const CUDA_MEMCPY2D &fields, Side &to, Side &from, Shape &shape);
CUresult read_copy(const CUDA_MEMCPY3D &fields, Side &to, Side &from, Shape &shape);
CUresult read_copy(const CUDA_MEMCPY3D_PEER &fields, Side &to, Side &from, Shape &shape);

/* The number of bytes that a copy moves; UINT64_MAX if that overflows. */
uint64_t size_of(const Shape &shape);

/*
 * Reports a copy whose source and destination overlap: the destination of a GPU then has wrong bytes. A copy of memory
 * to itself is right.
 */
void report_overlap(const Side &to, const Side &from, const Shape &shape);

/* ---- copies and fills that are submitted now */

/* The driver stages copies of pageable memory up to this size, and waits for larger ones. */
constexpr uint64_t max_staged = 65536;

/* A side that was checked. */
struct CheckedSide {
  Side side;
  uint64_t bytes;
  bool known;          /* whether CUDA manages the memory: it is not pageable host memory */
  bool staged = false; /* whether the data was copied to memory of the driver */
};

CUresult check_side(const Context &context, const Side &side, const Shape &shape, bool write, CheckedSide &out);
/* Whether the side is memory of a host pool. Functions for device memory refuse such memory. */
bool is_in_host_pool(const Side &side);
bool is_on_host(const CheckedSide &side);

/* Copies the source, because the application may change it when the call has returned. Null: it cannot be read. */
std::shared_ptr<std::vector<std::byte>> stage(CheckedSide &from, const Shape &shape);

/* Copies, on a worker. False: host memory was unmapped or protected. Other errors become errors of the context. */
bool copy_now(Context &context, const CheckedSide &to, const CheckedSide &from, const Shape &shape);
void fail_unusable(Context &context); /* sets the error after copy_now() returned false; takes the state's lock */

/* ---- copies and fills of graphs */

/* The functions below make work of nodes, which can run any number of times. Host memory is checked at each run. */
CUresult check_copy_node(const Context &context, const Side &to, const Side &from, const Shape &shape);
/* For the trace. */
void describe_shape(Traced &out, const Shape &shape);

std::function<void()> copy_work(const ContextPtr &context, const Side &to, const Side &from, const Shape &shape);
CUresult check_fill_node(const Context &context, const Side &to, const Shape &shape, unsigned bytes);
std::function<void()> fill_work(const ContextPtr &context, const Side &to, const Shape &shape, uint32_t value,
                                unsigned bytes);

} // namespace sim

#endif
