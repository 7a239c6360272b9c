/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of driver functions for which the library has no function of its own. */
#include "base/failure.h"
#include "base/native.h"

enum { MAX_WORDS = 8 };

/* The arguments of a call. The objects behind them are in use until call_done(). */
typedef struct driver_call {
  const char *function;
  uintptr_t words[MAX_WORDS];
  PyObject *faces[MAX_WORDS]; /* of the boxes */
  void *boxes[MAX_WORDS + 1]; /* ends with NULL */
  int used;
  PyObject *kept; /* a list of what the words point to; NULL if there is nothing */
} driver_call;

static int read_word(const state *st, driver_call *self, PyObject *argument, uintptr_t *word) {
  if (is_handle(st, argument)) {
    void *box = handle_use(argument);
    if (box == NULL)
      return -1;
    self->faces[self->used] = argument;
    self->boxes[self->used++] = box;
    *word = ((handle *)argument)->raw;
    return 0;
  }
  PyObject *number;
  if (PyLong_CheckExact(argument)) {
    number = Py_NewRef(argument);
  } else {
    if (self->kept == NULL && (self->kept = PyList_New(0)) == NULL)
      return -1;
    number = PyObject_CallFunctionObjArgs(st->faces.as_word, argument, self->kept, NULL);
    if (number == NULL)
      return -1;
  }
  *word = (uintptr_t)PyLong_AsUnsignedLongLongMask(number);
  Py_DECREF(number);
  return PyErr_Occurred() ? -1 : 0;
}

static void call_done(driver_call *self) {
  while (self->used > 0)
    handle_done(self->faces[--self->used]);
  KEEPING_EXCEPTION(Py_XDECREF(self->kept));
}

/* Reads the arguments of the Python function after the name; the first `skip` words are the caller's. */
static int call_begin(const state *st, driver_call *self, PyObject *const *arguments, Py_ssize_t count, int skip) {
  *self = (driver_call){0};
  if (count < 1 || count > 1 + MAX_WORDS - skip)
    return raise_error(PyExc_TypeError, "a function of the driver, and at most %d arguments are needed",
                       MAX_WORDS - skip);
  self->function = PyUnicode_AsUTF8AndSize(arguments[0], NULL);
  int status = self->function != NULL ? 0 : -1;
  for (Py_ssize_t i = 1; status == 0 && i < count; i++)
    status = read_word(st, self, arguments[i], &self->words[skip + i - 1]);
  if (status < 0)
    call_done(self);
  return status;
}

static cch_status call_driver(driver_call *self, cch_context *context) {
  cch_status status;
  WITHOUT_GIL(status = cch_driver_call(self->function, self->words, self->boxes, context));
  return status;
}

static PyObject *driver_status(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  const state *st = PyModule_GetState(module);
  PyObject *context = Py_None;
  if (keywords != NULL && PyTuple_Size(keywords) != 0) {
    static const char *const names[] = {"context"};
    if (sort_named_arguments("driver_status", names, 1, 0, arguments + count, 0, keywords, &context) < 0)
      return NULL;
  }
  driver_call call;
  if (call_begin(st, &call, arguments, count, 0) < 0)
    return NULL;
  cch_context *within = context != Py_None ? context_use(st, context) : NULL;
  PyObject *result = within != NULL || context == Py_None ? failure_status(call_driver(&call, within)) : NULL;
  if (within != NULL)
    handle_done(context);
  call_done(&call);
  return result;
}

static PyObject *query(PyObject *module, PyObject *const *arguments, Py_ssize_t count, bool is_size) {
  const state *st = PyModule_GetState(module);
  driver_call call;
  if (call_begin(st, &call, arguments, count, 1) < 0)
    return NULL;
  union {
    size_t size;
    int number;
  } out = {0};
  call.words[0] = (uintptr_t)&out;
  const cch_status status = call_driver(&call, NULL);
  PyObject *result = status != 0 ? raise_status(st, status)
                     : is_size   ? PyLong_FromSize_t(out.size)
                                 : PyLong_FromLong(out.number);
  call_done(&call);
  return result;
}

static PyObject *query_driver(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  return query(module, arguments, count, false);
}

static PyObject *query_driver_size(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  return query(module, arguments, count, true);
}

PyMethodDef driver_call_functions[] = {
    {"driver_status", FASTCALL(driver_status), METH_FASTCALL | METH_KEYWORDS, DOC_driver_status},
    {"query_driver", FASTCALL(query_driver), METH_FASTCALL, DOC_query_driver},
    {"query_driver_size", FASTCALL(query_driver_size), METH_FASTCALL, DOC_query_driver_size},
    {NULL, NULL, 0, NULL},
};
