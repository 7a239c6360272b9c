/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes that launch kernels. */
#include "graph/node_methods.h"

static bool is_ready(const state *st, PyObject *settings, PyObject *face) {
  if ((PyObject *)Py_TYPE(settings) != st->faces.config || (PyObject *)Py_TYPE(face) != st->faces.kernel ||
      !kernel_has_layout((kernel *)face))
    return false;
  unsigned shared = ((config *)settings)->config.shared_bytes;
  int device;
  return shared == 0 || (cch_current_device(&device) == 0 && kernel_allows((kernel *)face, shared, device));
}

/*
 * Prepares a kernel by the Python function check_node_kernel, which returns the kernel, or the object to use in its
 * place. A new reference; NULL with an exception on failure.
 */
static PyObject *make_ready(const state *st, PyObject *settings, PyObject *face, const values *given) {
  PyObject *arguments = PyTuple_New(given->count);
  if (arguments == NULL)
    return NULL;
  for (Py_ssize_t i = 0; i < given->count; i++)
    PyTuple_SetItem(arguments, i, Py_NewRef(value_at(given, i)));
  PyObject *result = PyObject_CallFunctionObjArgs(st->faces.check_node_kernel, settings, face, arguments, NULL);
  Py_DECREF(arguments);
  return result;
}

const int type_of_launch = CCH_NODE_KERNEL;
int read_launch(state *st, const node_arguments *arguments, node_params *out) {
  PyObject *settings = arguments->named[0], *face = arguments->named[1];
  if (settings == NULL || face == NULL) {
    bool one = settings != NULL || face != NULL;
    return raise_error(PyExc_TypeError,
                       "launch() takes a config, a kernel and its arguments, but %d %s given; it adds a kernel node. "
                       "instantiate() makes the executable graph, whose launch(stream) runs it",
                       (int)one, one ? "was" : "were");
  }
  PyObject *made_ready = NULL;
  if (!is_ready(st, settings, face)) {
    made_ready = make_ready(st, settings, face, &arguments->rest);
    if (made_ready == NULL)
      return -1;
    face = made_ready;
  }
  cch_kernel_node *params = &out->of.kernel;
  params->size = sizeof *params;
  params->kernel = use_face(face, st->kernel_type, "kernel must be a Kernel, not '%U'", out);
  Py_XDECREF(made_ready); /* no longer needed: if it is a kernel, `out` has marked it as in use */
  if (params->kernel == NULL)
    return -1;
  out->config = ((config *)settings)->config;
  params->config = &out->config;
  const layout layout = ((kernel *)face)->params; /* it never changes */
  void *block = arguments->scratch;
  if (block == NULL || layout.total > SCRATCH_SIZE)
    block = out->heap = PyMem_Malloc(layout.total != 0 ? (size_t)layout.total : 1);
  owners keep;
  owners_init(&keep, false);
  int status = -1, device;
  if (block == NULL)
    PyErr_NoMemory();
  else if (find_device_for_memory_checks(st, NULL, &device) == 0)
    status = pack_values(st, &layout, arguments->rest, block, &keep, device);
  params->args = block;
  params->args_size = (size_t)layout.total;
  return take_bundle(st, &keep, out, status);
}
