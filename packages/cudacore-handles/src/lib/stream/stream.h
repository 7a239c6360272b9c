/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_STREAM_H
#define CUDACORE_LIB_STREAM_H

#include "driver/current.h"

/* The stream that orders a free on another thread: for the per-thread default stream of `thread`, the legacy stream. */
cch_stream *cch__stream_for_thread(cch_stream *stream, uint64_t thread);

#endif
