/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch(). From reading its arguments until the driver has accepted the work, a launch holds references to the stream,
 * the kernel and the memory that its arguments point into. Objects of other classes than the faces take a slower path,
 * through Python.
 */
#include "base/failure.h"
#include "launch/launch.h"

#include <string.h>

int device_of_stream(const cch_stream *stream) {
  const cch_context *context = stream != NULL ? cch_stream_context(stream) : NULL;
  return context != NULL ? cch_context_device(context) : CURRENT_DEVICE;
}

/* A launch. If it is captured, the graph keeps the objects that the launch uses. */
typedef struct launch_under_way {
  const state *st;
  const launch_arguments *given;
  owners *used;
  PyThreadState *thread;
  bool raised;
} launch_under_way;

static int keep_used(void *data) {
  launch_under_way *self = data;
  return capture_keep(self->st, self->given->stream, self->given->kernel, self->used, &self->thread, &self->raised);
}

PyObject *launch_packed(const state *st, const launch_arguments *given, owners *used) {
  launch_under_way self = {st, given, used, PyEval_SaveThread(), false};
  const int status = cch_launch_keeping(given->stream, &((config *)given->settings)->config, given->kernel,
                                        given->block, given->size, keep_used, &self);
  PyEval_RestoreThread(self.thread);
  if (self.raised)
    return NULL;
  if (status == 0)
    return Py_NewRef(Py_None);
  /* This comes before anything else that can fail on this thread. */
  return PyObject_CallFunction(st->faces.explain, "NOOi", failure_status(status), given->settings, given->face,
                               device_of_stream(given->stream));
}

/*
 * Finds whether the device of a default stream is still the one that the arguments were checked against. The Python
 * code that reads the arguments can make another device current. Returns -1 with an exception on failure.
 */
static int check_device_stays(const state *st, const cch_stream *stream, int device) {
  if (device == UNCHECKED_DEVICE || cch_stream_context(stream) != NULL)
    return 0;
  int now;
  if (find_device_for_memory_checks(st, NULL, &now) < 0)
    return -1;
  if (now == device)
    return 0;
  return raise_error(
      PyExc_RuntimeError,
      "cannot launch on a default stream: while the arguments were read, the current device changed from "
      "%d to %d",
      device, now);
}

/*
 * Many threads can launch the same kernel at once. If each launch changed the word `uses` of the face, they would wait
 * for its cache line. So without a GIL, launches are counted in lanes. Whoever closes the kernel leaves one use behind.
 * It ends when all lanes are empty, which the closing thread or the end of a launch finds.
 */
#ifdef Py_GIL_DISABLED
static void sweep(kernel *self) {
  for (int i = 0; i < LANES; i++)
    if (atomic_load(&self->lanes[i].launches) != 0)
      return; /* the last of these launches sweeps again */
  if (atomic_exchange(&self->swept, 1) == 0)
    handle_done((PyObject *)self);
}

static void kernel_done(PyObject *face) {
  kernel *self = (kernel *)face;
  atomic_fetch_sub(&self->lanes[lane_of_thread()].launches, 1);
  if ((atomic_load(&self->base.uses) & USE_OPEN) == 0)
    sweep(self);
}

/* Counts the launch before it finds that the kernel is open: whoever closes the kernel later finds the launch. */
static cch_kernel *kernel_use(PyObject *face) {
  kernel *self = (kernel *)face;
  atomic_fetch_add(&self->lanes[lane_of_thread()].launches, 1);
  if ((atomic_load(&self->base.uses) & USE_OPEN) != 0)
    return self->base.box;
  kernel_done(face);
  return handle_use(face); /* raises the exception */
}

PyObject *kernel_close(PyObject *face, PyObject *nothing) {
  (void)nothing;
  kernel *self = (kernel *)face;
  if (handle_try_use(face) == NULL)
    Py_RETURN_NONE;
  if ((atomic_fetch_and(&self->base.uses, ~(size_t)USE_OPEN) & USE_OPEN) != 0)
    sweep(self);
  else
    handle_done(face); /* another thread has closed it meanwhile */
  owners_drain(self->base.st);
  Py_RETURN_NONE;
}
#else
static cch_kernel *kernel_use(PyObject *face) { return handle_use(face); }
static void kernel_done(PyObject *face) { handle_done(face); }
#endif

/* Packs and launches with boxes that are in use; `face` has the kernel's layout. */
static inline PyObject *launch_used(const state *st, cch_stream *stream, PyObject *settings, cch_kernel *box,
                                    PyObject *face, values given) {
  PyObject *result = NULL;
  const layout params = ((kernel *)face)->params; /* it never changes */
  unsigned char stack[SCRATCH_SIZE], *block = scratch_for(&params, stack);
  owners keep;
  int device;
  owners_init(&keep, true);
  if (block != NULL && find_device_for_memory_checks(st, stream, &device) == 0 &&
      pack_values(st, &params, given, block, &keep, device) == 0 && check_device_stays(st, stream, device) == 0) {
    const launch_arguments ready = {stream, box, settings, face, block, (size_t)params.total};
    result = launch_packed(st, &ready, &keep);
  }
  if (keep.count != 0 && result != NULL) {
    owners_unref(&keep);
  } else if (keep.count != 0) {
    KEEPING_EXCEPTION(owners_unref(&keep));
  }
  owners_drain(st);
  if (block != stack)
    PyMem_Free(block);
  return result;
}

/* Launches with faces whose classes were checked. The caller keeps the faces alive. */
static PyObject *launch_faces(const state *st, PyObject *stream, PyObject *settings, PyObject *face, values given) {
  cch_stream *used_stream = handle_use(stream);
  if (used_stream == NULL)
    return NULL;
  cch_kernel *used_kernel = kernel_use(face);
  PyObject *result = NULL;
  if (used_kernel != NULL) {
    result = launch_used(st, used_stream, settings, used_kernel, face, given);
    kernel_done(face);
  }
  handle_done(stream);
  return result;
}

/*
 * Has Python code check the arguments of a launch, and prepare the kernel. Returns a tuple of a stream, the
 * configuration, and a kernel whose layout is known.
 */
static PyObject *check_slowly(const state *st, PyObject *const *arguments, Py_ssize_t count) {
  PyObject *values = PyTuple_New(count - 3);
  if (!values)
    return NULL;
  for (Py_ssize_t i = 3; i < count; i++)
    PyTuple_SetItem(values, i - 3, Py_NewRef(arguments[i]));
  PyObject *checked =
      PyObject_CallFunctionObjArgs(st->faces.check_launch, arguments[0], arguments[1], arguments[2], values, NULL);
  Py_DECREF(values);
  return checked;
}

/*
 * Returns whether this much dynamic shared memory was already enabled on the stream's device. False if the device
 * cannot be determined.
 */
static bool shared_allowed(const kernel *self, unsigned bytes, PyObject *stream) {
  cch_stream *used = handle_try_use(stream);
  if (used == NULL)
    return true; /* the launch itself reports the failure */
  int device = device_of_stream(used);
  handle_done(stream);
  if (device == CURRENT_DEVICE && cch_current_device(&device) != 0)
    return false;
  return kernel_allows(self, bytes, device);
}

static PyObject *launch(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  static const char *const names[] = {"stream", "config", "kernel"};
  const state *st = PyModule_GetState(module);
  PyObject *sorted[3] = {NULL, NULL, NULL};
  if (keywords != NULL && PyTuple_Size(keywords) != 0) {
    /* The kernel's arguments are positional and follow the first three, so a call with keywords has none. */
    if (sort_arguments("launch", names, 3, 3, arguments, count, keywords, sorted) < 0)
      return NULL;
    arguments = sorted;
    count = (sorted[0] != NULL) + (sorted[1] != NULL) + (sorted[2] != NULL);
  }
  if (count < 3)
    return PyErr_Format(PyExc_TypeError,
                        "launch() takes a stream, a config, a kernel and its arguments, but %zd %s given", count,
                        count == 1 ? "was" : "were");
  PyObject *stream = arguments[0], *settings = arguments[1], *face = arguments[2], *held = NULL;
  if ((PyObject *)Py_TYPE(stream) != st->faces.stream) /* other code can close a builder while the call runs */
    stream = held = stream_or_builder(st, stream);
  bool ready = is_stream(st, stream) && (PyObject *)Py_TYPE(settings) == st->faces.config &&
               (PyObject *)Py_TYPE(face) == st->faces.kernel && kernel_has_layout((kernel *)face);
  unsigned shared = ready ? ((config *)settings)->config.shared_bytes : 0;
  if (shared != 0)
    ready = shared_allowed((kernel *)face, shared, stream);
  const values given = {.array = arguments + 3, .count = count - 3};
  PyObject *checked = ready ? NULL : check_slowly(st, arguments, count);
  if (checked != NULL) {
    stream = PyTuple_GetItem(checked, 0);
    face = PyTuple_GetItem(checked, 2);
  }
  PyObject *result = ready || checked != NULL ? launch_faces(st, stream, settings, face, given) : NULL;
  Py_XDECREF(held);
  Py_XDECREF(checked);
  return result;
}

PyMethodDef launch_functions[] = {
    {"launch", FASTCALL(launch), METH_FASTCALL | METH_KEYWORDS, DOC_launch},
    {NULL, NULL, 0, NULL},
};
