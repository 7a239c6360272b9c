/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An extension module in C that takes a buffer and a stream of cudacore, and returns an event. It is not linked to
 * cudacore: the functions are in the table of cudacore_handles.api.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cudacore/cudacore.h>

static const cch_api *api;

/* Raises an exception for the failure of the last call on this thread. */
static PyObject *raise_last(void) {
  const cch_error *error = api->error_last();
  return PyErr_Format(PyExc_RuntimeError, "%s: %s: %s", error->operation, api->error_name(error->code), error->message);
}

/* Returns a new reference to the handle of a cudacore object; on failure, sets an exception and returns NULL. */
static void *take(PyObject *object, const char *name) {
  PyObject *capsule = PyObject_CallMethod(object, "__cudacore_handle__", NULL);
  if (capsule == NULL)
    return NULL;
  void *handle = PyCapsule_GetPointer(capsule, name); /* until ref(), only the capsule keeps the handle alive */
  if (handle != NULL)
    api->ref(handle);
  Py_DECREF(capsule);
  return handle;
}

static void drop(PyObject *capsule) { api->unref(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))); }

/* Returns a cudacore object for a handle, and takes over the reference to the handle. */
static PyObject *give(void *handle, const char *name) {
  PyObject *capsule = PyCapsule_New(handle, name, drop);
  if (capsule == NULL) {
    api->unref(handle);
    return NULL;
  }
  PyObject *module = PyImport_ImportModule("cudacore_handles");
  PyObject *object = module != NULL ? PyObject_CallMethod(module, "from_capsule", "O", capsule) : NULL;
  Py_XDECREF(module);
  Py_DECREF(capsule);
  return object;
}

/* Creates an event in the stream's context, or in the current context if the stream is a default stream. */
static int make_event(cch_event **out, cch_stream *stream) {
  cch_context *context = api->ref(api->stream_context(stream));
  int status = context == NULL ? api->context_current(&context) : 0;
  if (status == 0)
    status = api->event_create(out, context, CCH_EVENT_DISABLE_TIMING);
  api->unref(context);
  return status;
}

/* Fills the buffer on the stream, and records an event after that. */
static int fill_and_record(cch_event **out, cch_deviceptr *buffer, cch_stream *stream, unsigned value) {
  cch_event *event;
  int status = api->deviceptr_fill(buffer, value, 1, stream);
  if (status == 0)
    status = make_event(&event, stream);
  if (status != 0)
    return status;
  status = api->event_record(event, stream);
  if (status == 0)
    *out = event;
  else
    api->unref(event);
  return status;
}

static PyObject *fill(PyObject *module, PyObject *arguments) {
  PyObject *buffer_object, *stream_object;
  unsigned char value;
  if (!PyArg_ParseTuple(arguments, "OOb:fill", &buffer_object, &stream_object, &value))
    return NULL;
  (void)module;
  PyObject *result = NULL;
  cch_deviceptr *buffer = take(buffer_object, "cudacore_handles.deviceptr");
  cch_stream *stream = buffer != NULL ? take(stream_object, "cudacore_handles.stream") : NULL;
  if (stream != NULL) {
    cch_event *event;
    int status;
    /* The references keep the buffer and the stream alive, even if another thread calls close() now. */
    Py_BEGIN_ALLOW_THREADS;
    status = fill_and_record(&event, buffer, stream, value);
    Py_END_ALLOW_THREADS;
    result = status == 0 ? give(event, "cudacore_handles.event") : raise_last();
  }
  api->unref(stream);
  api->unref(buffer);
  return result;
}

static PyMethodDef methods[] = {
    {"fill", fill, METH_VARARGS,
     "fill(buffer, stream, value, /)\n--\n\nFill a buffer with a byte, and return an event behind that."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "filler", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_filler(void) {
  api = PyCapsule_Import("cudacore_handles.api", 0);
  if (api == NULL)
    return NULL;
  if (api->size < sizeof *api) { /* the installed cudacore is older than the headers: its table lacks functions */
    PyErr_SetString(PyExc_ImportError, "filler needs a newer cudacore-handles than the one that is installed");
    return NULL;
  }
  PyObject *module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
  /* Otherwise, the import would turn the GIL on. The module needs none: `api` is set once, and fill() only has locals.
   */
  if (module != NULL)
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  return module;
}
