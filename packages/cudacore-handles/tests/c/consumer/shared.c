/* SPDX-License-Identifier: Apache-2.0 */
/* A library that gets a stream from Python, and keeps a reference to it. */
#include <cudacore/cudacore.h>

static cch_stream *kept;
static cch_event *done;

int shared_take(cch_stream *stream) {
  kept = cch_stream_ref(stream);
  return cch_event_create(&done, cch_stream_context(kept), CCH_EVENT_DISABLE_TIMING);
}

int shared_use(void) {
  int status = cch_event_record(done, kept);
  return status != 0 ? status : cch_event_synchronize(done);
}

void shared_give_back(void) {
  cch_event_unref(done);
  cch_stream_unref(kept);
}
