/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_STREAM_H
#define CUDACORE_LIB_STREAM_H

#include "driver/current.h"

/*
 * Calls the driver for work on a stream: CCH__CALL_ON(stream, cuEventRecord, (event->raw, stream->raw)). The driver
 * uses the context of the stream. Any context may be current, but there must be one. So the first call is made
 * directly. If it fails because no context is current, it is repeated in the context of the stream. For a default
 * stream, whose context is the current one, only that call is made. Not for functions that cuda.h renames by macros,
 * because messages would have the other name.
 */
#define CCH__CALL_ON(stream, name, arguments)                                                                          \
  __extension__({                                                                                                      \
    int result_on = CUDA_ERROR_INVALID_CONTEXT;                                                                        \
    if ((stream)->context != NULL && cch__driver.name != NULL)                                                         \
      result_on = (int)cch__driver.name arguments;                                                                     \
    result_on != CUDA_ERROR_INVALID_CONTEXT ? cch__checked(result_on, #name)                                           \
                                            : CCH__IN_CONTEXT((stream)->context, CCH__CALL(name, arguments));          \
  })

/*
 * Returns the stream that orders a free on another thread: for the per-thread default stream of `thread`, the legacy
 * stream.
 */
cch_stream *cch__stream_for_thread(cch_stream *stream, uint64_t thread);

#endif
