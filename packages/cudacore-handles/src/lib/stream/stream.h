/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_STREAM_H
#define CUDACORE_LIB_STREAM_H

#include "driver/current.h"

/* Returns whether the handle of a stream means another stream in each context. */
static inline bool cch__stream_is_default(const cch_stream *stream) { return (uintptr_t)stream->raw <= 2; }

/* Returns the context that must be current when the driver gets the handle of a stream; NULL for any context. */
static inline cch_context *cch__stream_needs(const cch_stream *stream) {
  return cch__stream_is_default(stream) ? stream->context : NULL;
}

/*
 * Calls the driver for work on a stream: CCH__CALL_ON(stream, cuEventRecord, (event->raw, cch__stream_here(stream))).
 * The driver uses the context of the stream. Any context may be current, but there must be one. So the first call is
 * made directly. If it fails because no context is current, it is repeated in the context of the stream. For a default
 * stream, whose handle means a stream of the current context, only that call is made.
 */
#define CCH__CALL_ON(stream, name, arguments)                                                                          \
  __extension__({                                                                                                      \
    int result_on = CUDA_ERROR_INVALID_CONTEXT;                                                                        \
    if (!cch__stream_is_default(stream) && cch__driver.name != NULL)                                                   \
      result_on = (int)cch__driver.name arguments;                                                                     \
    result_on != CUDA_ERROR_INVALID_CONTEXT                                                                            \
        ? cch__checked(result_on, #name)                                                                               \
        : CCH__IN_CONTEXT((stream)->context, cch__driver.name == NULL                                                  \
                                                 ? cch__fail_missing(#name)                                            \
                                                 : cch__checked((int)cch__driver.name arguments, #name));              \
  })

/* ---- resolve.c ---- */

/*
 * Decides which stream is meant, and returns its box, as a new reference: for a default stream, a box with the current
 * context (if there is none, with `otherwise`, which may be NULL) and, for the per-thread one, with the calling thread.
 * For any other stream, and for one that was resolved before, the box itself.
 */
int cch__stream_resolve(cch_stream **out, cch_stream *given, cch_context *otherwise);
/*
 * Likewise, for the handle of a stream. A default stream is that of the device or, if the number of the device is
 * negative, of the current context.
 */
int cch__stream_of_handle(cch_stream **out, CUstream raw, int device);
/*
 * Returns the handle for a resolved stream on the calling thread, in the context of the stream. The per-thread default
 * stream of another thread has none. The legacy stream is used instead, because it waits for all blocking streams.
 */
CUstream cch__stream_here(const cch_stream *stream);
/* Returns a box of the stream that cch__stream_here() means, as a new reference; NULL for NULL. It cannot fail. */
cch_stream *cch__stream_ref_here(cch_stream *stream);
/* Returns whether two boxes are of the same stream: each wrap of a foreign stream makes a new box. */
bool cch__stream_is_same(const cch_stream *a, const cch_stream *b);

#endif
