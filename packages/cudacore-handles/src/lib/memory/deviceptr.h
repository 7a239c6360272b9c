/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_DEVICEPTR_H
#define CUDACORE_LIB_DEVICEPTR_H

/* Checks of memory before it is used on a stream, and frees in the order of a stream. */

#include "driver/current.h"

/*
 * Checks that memory still exists: the driver crashes when it copies from pinned memory that was lost with its context.
 * The stream's context is current, or is made current before the memory is used, so the context is not checked again
 * here.
 */
static inline int cch__memory_check(const cch_deviceptr *ptr, const cch_stream *stream, const char *operation) {
  if (ptr->box.context == (const cch__box *)stream->context)
    return 0;
  return cch__context_check(cch__lost_with(&ptr->box), operation);
}

/* Checks that memory still exists, and that it may be written. */
int cch__memory_write_check(const cch_deviceptr *dst, const cch_stream *stream, const char *operation);

/*
 * Checks the memory of a copy, or of a fill, whose `src` is NULL. In a capture, the graph keeps the memory. The
 * stream's context must be current.
 */
int cch__memory_keep(cch_deviceptr *dst, cch_deviceptr *src, cch_stream *stream, const char *operation);

/* Returns whether the driver frees memory in the order of a stream; before any other free, the host waits. */
bool cch__free_is_ordered(const cch_deviceptr *ptr);
/*
 * Waits for a stream; returns the driver's result. On the legacy stream, an event is recorded and waited for, so that
 * only earlier work delays the call. The stream's context must be current.
 */
int cch__wait_for_work(CUstream stream);
/*
 * Returns the context in which to free memory of a pool, or virtual memory, after a reset: such memory survives its
 * context. A new reference; NULL if there is no primary context.
 */
cch_context *cch__context_after(const cch_context *lost);
/* Frees memory in the order of a resolved stream; false if the driver refuses that now. */
bool cch__deviceptr_free_on(cch_deviceptr *ptr, cch_stream *stream);

#endif
