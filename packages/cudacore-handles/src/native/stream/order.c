/* SPDX-License-Identifier: Apache-2.0 */
/* Orders the streams of the producer and the consumer of an array. */
#include "stream/stream.h"

enum { PER_THREAD = 2 };

/* Gets the stream that a handle means in the current context; a new reference. */
static int resolve_here(cch_stream **out, uintptr_t raw) {
  cch_stream *wrapped = NULL;
  int status = cch_stream_wrap(&wrapped, (CUstream)raw, NULL, NULL);
  if (status == 0)
    status = cch_stream_resolve(out, wrapped);
  cch_stream_unref(wrapped);
  return status;
}

/* Likewise, but a default stream is that of a device, unless the number of the device is negative. */
static int resolve(cch_stream **out, uintptr_t raw, int device) {
  cch_context *saved = NULL, *primary = NULL;
  int status = resolve_here(out, raw);
  if (status != 0 || raw > PER_THREAD || device < 0)
    return status;
  cch_context *context = cch_stream_context(*out);
  if (context != NULL && cch_context_device(context) == device)
    return 0;
  cch_stream_unref(*out);
  *out = NULL;
  status = cch_context_current(&saved);
  if (status == 0)
    status = cch_context_primary(&primary, device);
  if (status == 0)
    status = cch_context_set_current(primary);
  if (status == 0) {
    status = resolve_here(out, raw);
    int back = cch_context_restore(saved);
    status = status != 0 ? status : back;
  }
  cch_context_unref(primary);
  cch_context_unref(saved);
  return status;
}

int order_raw_streams(uintptr_t consumer, uintptr_t producer, cch_stream *known, int device) {
  cch_stream *waiting = NULL, *ahead = cch_stream_ref(known);
  int status = resolve(&waiting, consumer, device);
  if (status == 0 && ahead == NULL)
    status = resolve(&ahead, producer, device);
  if (status == 0)
    status = cch_stream_order(waiting, ahead);
  cch_stream_unref(waiting);
  cch_stream_unref(ahead);
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
