/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which stream is meant. A default stream is that of the current context and, if it is a per-thread one, of the calling
 * thread. So it is resolved once, when it is given: into a box with the context, the handle and the thread. Everything
 * that orders work later stores and compares such boxes. A stream of any other kind already is one.
 */
#include "stream/stream.h"

/* Makes a box of a default stream. Takes over the reference to the context; NULL if memory ran out. */
static cch_stream *new_default(CUstream raw, uint64_t thread, cch_context *context, const char *operation) {
  cch_stream *stream = cch__box_new(CCH_KIND_STREAM, sizeof *stream, operation);
  if (stream == NULL) {
    cch_context_unref(context);
    return NULL;
  }
  stream->raw = raw;
  stream->thread = thread;
  stream->context = context;
  stream->box.context = context != NULL ? context->box.context : NULL;
  return stream;
}

/* A green context has no per-thread default streams, so memory could not be freed on one: it would be leaked. */
static int check_per_thread(cch_context *context, const char *operation) {
  int is_green = 0;
  if (context != NULL)
    CCH__RETURN_FAILURE(cch_context_is_green(&is_green, context));
  if (!is_green)
    return 0;
  cch__fail_driver(CUDA_ERROR_INVALID_HANDLE, operation);
  cch__fail_explain(
      "a green context has no per-thread default stream: use the legacy default stream, or another stream");
  return CUDA_ERROR_INVALID_HANDLE;
}

int cch__stream_resolve(cch_stream **out, cch_stream *given, cch_context *otherwise) {
  if (given->context != NULL || given->thread != 0) {
    *out = cch_stream_ref(given);
    return 0;
  }
  cch_context *context = NULL;
  CCH__RETURN_FAILURE(cch_context_current(&context));
  if (context == NULL && otherwise != NULL)
    context = cch_context_ref(otherwise);
  const bool is_per_thread = given->raw == CU_STREAM_PER_THREAD;
  const int status = is_per_thread ? check_per_thread(context, "cch__stream_resolve") : 0;
  if (status != 0) {
    cch_context_unref(context);
    return status;
  }
  cch_stream *stream = new_default(given->raw, is_per_thread ? cch__thread() : 0, context, __func__);
  if (stream == NULL)
    return CCH_ENOMEM;
  *out = stream;
  return 0;
}

int cch__stream_of_handle(cch_stream **out, CUstream raw, int device) {
  cch_stream *wrapped;
  cch_context *primary = NULL;
  CCH__RETURN_FAILURE(cch_stream_wrap(&wrapped, raw, NULL, NULL));
  int status = cch__stream_resolve(out, wrapped, NULL);
  if (status == 0 && device >= 0 && cch__stream_is_default(*out) &&
      ((*out)->context == NULL || (*out)->context->device != device)) {
    cch_stream_unref(*out);
    *out = NULL;
    status = cch_context_primary(&primary, device);
    if (status == 0)
      status = CCH__IN_CONTEXT(primary, cch__stream_resolve(out, wrapped, NULL));
    cch_context_unref(primary);
  }
  cch_stream_unref(wrapped);
  return status;
}

CUstream cch__stream_here(const cch_stream *stream) {
  return stream->thread == 0 || stream->thread == cch__thread() ? stream->raw : CU_STREAM_LEGACY;
}

cch_stream *cch__stream_ref_here(cch_stream *stream) {
  if (stream == NULL || cch__stream_here(stream) == stream->raw)
    return cch_stream_ref(stream);
  cch_stream *legacy = new_default(CU_STREAM_LEGACY, 0, cch_context_ref(stream->context), __func__);
  return legacy != NULL ? legacy : cch_stream_legacy();
}

bool cch__stream_is_same(const cch_stream *a, const cch_stream *b) {
  return a == b || (a->raw == b->raw && a->context == b->context && a->thread == b->thread && !cch__is_gone(a) &&
                    !cch__is_gone(b));
}
