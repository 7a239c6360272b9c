/* SPDX-License-Identifier: Apache-2.0 */
/* Orders the streams of the producer and the consumer of an array. */
#include "stream/stream.h"

enum { PER_THREAD = 2, CAPTURE_IMPLICIT = 906 }; /* CUDA_ERROR_STREAM_CAPTURE_IMPLICIT */

/*
 * Makes a context of a device current, unless one is. *entered is a reference to the context that was made current, and
 * *saved must be made current again; otherwise *entered is NULL.
 */
static int enter(int device, cch_context **saved, cch_context **entered) {
  int status = cch_context_current(saved);
  if (status != 0 || (*saved != NULL && cch_context_device(*saved) == device))
    return status;
  status = cch_context_primary(entered, device);
  if (status == 0)
    status = cch_context_set_current(*entered);
  return status;
}

/*
 * Finds whether a stream is being captured. *out is -1 for the legacy stream if a stream that it would wait for is
 * being captured.
 */
static int find_capture(int *out, cch_stream *stream) {
  int status = cch_stream_is_capturing(out, stream);
  if (status != CAPTURE_IMPLICIT)
    return status;
  *out = -1;
  return 0;
}

static int wait_for(cch_stream *waiting, cch_stream *ahead) {
  int of_waiting = 0, of_ahead = 0;
  int status = find_capture(&of_waiting, waiting);
  if (status == 0)
    status = find_capture(&of_ahead, ahead);
  if (status == 0 && of_waiting == of_ahead && of_waiting >= 0)
    status = cch_stream_wait_stream(waiting, ahead);
  return status;
}

/* Gets the stream that a handle means in the current context; a new reference. */
static int resolve(cch_stream **out, uintptr_t raw) {
  cch_stream *wrapped = NULL;
  int status = cch_stream_wrap(&wrapped, (CUstream)raw, NULL, NULL);
  if (status == 0)
    status = cch_stream_resolve(out, wrapped);
  cch_stream_unref(wrapped);
  return status;
}

int order_raw_streams(uintptr_t consumer, uintptr_t producer, cch_stream *known, int device) {
  cch_context *saved = NULL, *entered = NULL;
  cch_stream *waiting = NULL, *ahead = cch_stream_ref(known);
  int status = 0;
  if (device >= 0 && (consumer <= PER_THREAD || (known == NULL && producer <= PER_THREAD)))
    status = enter(device, &saved, &entered);
  if (status == 0)
    status = resolve(&waiting, consumer);
  if (status == 0 && ahead == NULL)
    status = resolve(&ahead, producer);
  if (status == 0)
    status = wait_for(waiting, ahead);
  cch_stream_unref(waiting);
  cch_stream_unref(ahead);
  if (entered != NULL) {
    int back = cch_context_restore(saved);
    status = status != 0 ? status : back;
  }
  cch_context_unref(entered); /* last, because this can destroy the context */
  cch_context_unref(saved);
  return status;
}

static PyObject *order_streams(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("order_streams(consumer, producer, device)", count, 3) < 0)
    return NULL;
  bool is_face = is_stream(st, arguments[1]);
  size_t consumer = PyLong_AsSize_t(arguments[0]); /* four times as fast as PyLong_AsUnsignedLongLong() */
  size_t producer = PyErr_Occurred() || is_face ? 0 : PyLong_AsSize_t(arguments[1]);
  long device = PyErr_Occurred() ? -1 : PyLong_AsLong(arguments[2]);
  if (PyErr_Occurred())
    return NULL;
  cch_stream *known = is_face ? handle_use(arguments[1]) : NULL;
  if (is_face && known == NULL)
    return NULL;
  int status;
  WITHOUT_GIL(status = order_raw_streams((uintptr_t)consumer, (uintptr_t)producer, known, (int)device));
  if (is_face)
    handle_done(arguments[1]);
  if (status != 0)
    return raise_status(st, status);
  Py_RETURN_NONE;
}

PyMethodDef order_functions[] = {
    {"order_streams", FASTCALL(order_streams), METH_FASTCALL, DOC_order_streams},
    {NULL, NULL, 0, NULL},
};
