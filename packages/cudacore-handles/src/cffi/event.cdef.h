/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of cudacore/event.h. */
#define CCH_EVENT_BLOCKING_SYNC ...
#define CCH_EVENT_DISABLE_TIMING ...
#define CCH_EVENT_INTERPROCESS ...
#define CCH_EVENT_UNKNOWN ...
int cch_event_create(cch_event **out, cch_context *context, unsigned flags);
int cch_event_wrap(cch_event **out, CUevent raw, void *owner, cch_release_fn release);
int cch_event_record(cch_event *event, cch_stream *stream);
int cch_event_query(cch_event *event);
int cch_event_synchronize(cch_event *event);
int cch_event_elapsed(float *out, cch_event *start, cch_event *end);
unsigned cch_event_flags(const cch_event *event);
cch_context *cch_event_context(const cch_event *event);
cch_event *cch_event_ref(cch_event *event);
void cch_event_unref(cch_event *event);
CUevent cch_event_raw(const cch_event *event);
