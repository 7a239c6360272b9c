/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of nodes that allocate memory. */
#include "graph/node_methods.h"

/* Reads the tuple (location type, location, allocation type, peers) that the Python code made from the arguments. */
static int read_place(PyObject *place, node_params *out) {
  cch_alloc_node *alloc = &out->of.alloc;
  int location_type, location, alloc_type;
  PyObject *peers;
  if (!PyArg_ParseTuple(place, "iiiO!:alloc_place", &location_type, &location, &alloc_type, &PyTuple_Type, &peers))
    return -1;
  alloc->location_type = location_type;
  alloc->location_id = location;
  alloc->alloc_type = alloc_type;
  alloc->peer_count = (size_t)PyTuple_Size(peers);
  if (alloc->peer_count == 0)
    return 0;
  int32_t *ordinals = out->heap = PyMem_Malloc(alloc->peer_count * sizeof *ordinals);
  if (ordinals == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (size_t i = 0; i < alloc->peer_count; i++)
    ordinals[i] = (int32_t)PyLong_AsLong(PyTuple_GetItem(peers, (Py_ssize_t)i));
  alloc->peers = ordinals;
  return PyErr_Occurred() ? -1 : 0;
}

const int type_of_allocate = CCH_NODE_ALLOC;
int read_allocate(state *st, const node_arguments *arguments, node_params *out) {
  PyObject *const *given = arguments->named;
  cch_alloc_node *alloc = &out->of.alloc;
  alloc->size = sizeof *alloc;
  if (read_size(st, given[0], "size", 1, &alloc->bytes) < 0)
    return -1;
  bool plain = true;
  for (int i = 1; i <= 3; i++)
    plain &= given[i] == NULL || given[i] == Py_None;
  if (plain) {
    int device = 0;
    if (check_status(st, cch_current_device(&device)) < 0)
      return -1;
    alloc->location_type = CCH_LOCATION_DEVICE;
    alloc->location_id = device;
    return 0;
  }
  PyObject *place =
      PyObject_CallFunctionObjArgs(st->faces.alloc_place, given[1] != NULL ? given[1] : Py_None,
                                   given[2] != NULL ? given[2] : Py_None, given[3] != NULL ? given[3] : Py_None, NULL);
  int status = place != NULL ? read_place(place, out) : -1;
  Py_XDECREF(place);
  return status;
}
