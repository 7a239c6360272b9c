/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_PEERS_H
#define CUDACORE_PEERS_H

/*
 * Copies between devices. cuMemcpyAsync and similar functions need a device with access to all of the memory. Memory of
 * pools and of virtual addresses does not grant that by itself. The peer functions do not need access, but they take a
 * context for each side, and cannot be used in captured streams.
 */

#include "base/kinds.h"

/* The contexts and the kinds of memory of the two operands of a copy. */
typedef struct cch__peers {
  /* References to contexts of the operands' devices; NULL if the plain functions can be used. */
  cch_context *dst, *src;
  bool by_box;                     /* a row between devices must be copied by the function for boxes */
  bool dst_pageable, src_pageable; /* the operand is ordinary host memory, which some copies must declare */
} cch__peers;

/* The number of devices; 0 until it was queried. With one device, no copy is between devices. */
extern atomic_int cch__device_total;

static inline bool cch__is_one_device(void) {
  return atomic_load_explicit(&cch__device_total, memory_order_relaxed) == 1;
}

/*
 * Finds whether a copy on a stream is between devices: whether any of its memory is on another device than the stream.
 * During a capture it never is, because the peer functions would invalidate the capture.
 */
int cch__peers_find(cch__peers *out, const cch_deviceptr *dst, const cch_deviceptr *src, const cch_stream *stream);
void cch__peers_unref(cch__peers *peers);

/* Fails if the device of a stream cannot use the memory: CUDA fills by kernels, which need access. */
int cch__peers_check_fill(const cch_deviceptr *dst, const cch_stream *stream);

/*
 * Copies a row, or rows of up to three dimensions, ordered on a stream whose context is current. Returns the driver's
 * result.
 */
int cch__copy_line(const cch__peers *peers, CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream);
int cch__copy_box(const cch__peers *peers, const CUDA_MEMCPY3D *box, CUstream stream);

/*
 * Gets the context for a copy or a fill node whose caller gave none: that of a device with access to the operands, of
 * which there are at most two. If there is none, it is the current context. A context other than the current one is
 * also stored in *kept, as a new reference, which the node must keep; otherwise *kept is NULL. The bundle has the
 * owners of the operands, as far as they are known. It may be NULL.
 */
int cch__context_for_node(CUcontext *out, cch_context **kept, const CUdeviceptr *operands, size_t count,
                          const cch_bundle *bundle);

/* If a graph refused a copy whose memory is on several devices, adds an explanation to this thread's last failure. */
void cch__explain_graph_copy(CUdeviceptr dst, CUdeviceptr src);

#endif
