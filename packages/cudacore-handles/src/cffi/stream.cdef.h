/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of cudacore/stream.h. */
#define CCH_STREAM_NON_BLOCKING ...
int cch_stream_create(cch_stream **out, cch_context *context, unsigned flags, int priority);
int cch_stream_wrap(cch_stream **out, CUstream raw, void *owner, cch_release_fn release);
cch_stream *cch_stream_legacy(void);
cch_stream *cch_stream_per_thread(void);
cch_context *cch_stream_context(const cch_stream *stream);
int cch_stream_flags(unsigned *out, cch_stream *stream);
int cch_stream_priority(int *out, cch_stream *stream);
int cch_stream_query(cch_stream *stream);
int cch_stream_synchronize(cch_stream *stream);
int cch_stream_wait_event(cch_stream *stream, cch_event *event);
int cch_stream_wait_stream(cch_stream *stream, cch_stream *other);
cch_stream *cch_stream_ref(cch_stream *stream);
void cch_stream_unref(cch_stream *stream);
CUstream cch_stream_raw(const cch_stream *stream);
