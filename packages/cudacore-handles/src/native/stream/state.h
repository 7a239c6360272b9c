/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_STREAM_STATE_H
#define CUDACORE_NATIVE_STREAM_STATE_H

/* The part of the module's state that belongs to the room `stream`. */

#define STREAM_FACES(X)                                                                                                \
  X(stream, raise_not_elapsed) /* (end, start, status): raises if the time between two events is not available */      \
  X(stream, stream)            /* the class Stream */                                                                  \
  X(stream, accept_stream)     /* (object) -> the Stream that the object is or represents */                           \
  X(stream, event)             /* the class Event */                                                                   \
  X(stream, raise_no_context)  /* (): raises for a default stream without a current context */                         \
  X(stream, event_flags)       /* (context, options) -> the flags for a new event */                                   \
  X(stream, stream_flags)      /* (context, options) -> the flags and the priority for a new stream */                 \
  X(stream, host_function) /* (function, user data) -> (address, data, objects to keep); None: call it by Python */    \
  X(stream, graph_package) /* (): imports cudacore-graph */                                                            \
  X(stream, show_printed)  /* (): writes the output of kernels that was collected to sys.stdout */

#define STREAM_TYPES(X) X(event) X(stream) X(builder) X(capture) X(taken)

/* Names of options. */
#define STREAM_NAMES(X)                                                                                                \
  X(nonblocking, "nonblocking")                                                                                        \
  X(stream_priority, "priority")                                                                                       \
  X(timing_enabled, "timing_enabled")                                                                                  \
  X(blocking_sync, "blocking_sync")                                                                                    \
  X(ipc_enabled, "ipc_enabled")

#endif
