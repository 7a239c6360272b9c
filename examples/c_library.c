/* SPDX-License-Identifier: Apache-2.0 */
/* The C part of a program, which uses the streams and the memory of the Python part. */
#include <cudacore/cudacore.h>

static cch_event *done;

/* Fills memory on a stream, without waiting. The event marks the end of the work, and keeps the context
   alive. */
int start(cch_stream *stream, cch_deviceptr *memory, uint32_t value) {
  int status = cch_event_create(&done, cch_stream_context(stream), CCH_EVENT_DISABLE_TIMING);
  if (status == CCH_OK)
    status = cch_deviceptr_fill(memory, value, 4, stream);
  if (status == CCH_OK)
    status = cch_event_record(done, stream);
  return status;
}

/* Waits until the memory is filled, but not for later work on the stream. */
int finish(void) {
  int status = cch_event_synchronize(done);
  cch_event_unref(done);
  return status;
}
