/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_PEERS_H
#define CUDACORE_PEERS_H

/*
 * Copies between devices. cuMemcpyAsync and its kin need a device with access to all of the memory, which memory of
 * pools and of virtual addresses does not give by itself. The peer functions need none. They take a context for each
 * side, and refuse streams that are captured.
 */

#include "base/kinds.h"

/* What a copy has to be told of its memory. */
typedef struct cch__peers {
  cch_context *dst, *src;          /* of the devices that it is on, references; NULL where the plain functions do */
  bool dst_pageable, src_pageable; /* ordinary memory of the host, which boxes and peer copies are to be told */
} cch__peers;

/* How many devices there are, 0 as long as nobody has asked. With one, no copy is between devices. */
extern atomic_int cch__device_total;

static inline bool cch__is_one_device(void) {
  return atomic_load_explicit(&cch__device_total, memory_order_relaxed) == 1;
}

/*
 * Finds out whether a copy on a stream is between devices: whether memory of it is on another device than the stream's.
 * In a capture it never is, because the peer functions would invalidate it. The driver is asked only about memory that
 * is not the library's own.
 */
int cch__peers_find(cch__peers *out, const cch_deviceptr *dst, const cch_deviceptr *src, const cch_stream *stream);
void cch__peers_release(cch__peers *peers);

/* Copies a line or a box, in the order of a stream whose context is current; the driver's answer. */
int cch__copy_line(const cch__peers *peers, CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream);
int cch__copy_box(const cch__peers *peers, const CUDA_MEMCPY3D *box, CUstream stream);

/*
 * The context in which a node of a graph copies, where none was given: of a device that has access to both sides, or
 * else the current one. The bundle keeps the operands, as far as it is known what does; NULL for nothing.
 */
int cch__context_for_copy(CUcontext *out, CUdeviceptr dst, CUdeviceptr src, const cch_bundle *bundle);

/* Says more of the thread's last failure, a copy that a graph refused, where its memory is that of several devices. */
void cch__explain_graph_copy(CUdeviceptr dst, CUdeviceptr src);

#endif
