/* SPDX-License-Identifier: Apache-2.0 */
/* The base class of ResourceDescriptor, with the structure that describes the resource in the C library. */
#include "texture/texture.h"

resource *resource_of(const state *st, PyObject *argument) {
  if (is_of(argument, st->faces.resource, st->resource_type) && ((resource *)argument)->source != NULL)
    return (resource *)argument;
  raise_about(PyExc_TypeError,
              "resource must be a ResourceDescriptor, not %U: use ResourceDescriptor.from_opaque_array() and its like",
              argument, 0, 0);
  return NULL;
}

/* Copies the format of an array from its box. */
static int read_array(const state *st, resource *self, const void *box) {
  cch_array_desc desc;
  int status = self->kind == RESOURCE_ARRAY ? cch_array_describe(&desc, box) : cch_mipmapped_array_describe(&desc, box);
  if (check_status(st, status) < 0)
    return -1;
  self->reads.format = desc.format;
  self->reads.channels = desc.channels;
  self->flags = desc.flags;
  return 0;
}

static PyObject *resource_make(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  const state *st = PyModule_GetState(module);
  if (check_argument_count("resource_make(cls, kind, source, format, channels, width, height, pitch)", count, 8) < 0)
    return NULL;
  PyTypeObject *cls = (PyTypeObject *)arguments[0];
  if (!PyType_Check(arguments[0]) || !PyType_IsSubtype(cls, st->resource_type))
    return PyErr_Format(PyExc_TypeError, "a class of resources is needed");
  int kind = (int)PyLong_AsLong(arguments[1]);
  cch_texture_resource reads = {.format = (int32_t)PyLong_AsLong(arguments[3]),
                                .channels = (uint32_t)PyLong_AsUnsignedLong(arguments[4]),
                                .width = PyLong_AsSize_t(arguments[5]),
                                .height = PyLong_AsSize_t(arguments[6]),
                                .pitch = PyLong_AsSize_t(arguments[7])};
  if (PyErr_Occurred())
    return NULL;
  static const int kinds[] = {CCH_KIND_ARRAY, CCH_KIND_MIPMAPPED_ARRAY, CCH_KIND_DEVICEPTR, CCH_KIND_DEVICEPTR};
  if (kind < RESOURCE_ARRAY || kind > RESOURCE_PITCHED || !is_handle(st, arguments[2]))
    return PyErr_Format(PyExc_TypeError, "a kind of resource and its source are needed");
  const void *box = handle_use(arguments[2]);
  if (box == NULL)
    return NULL;
  resource *self = NULL;
  if (cch_kind_of(box) == kinds[kind])
    self = new_object(cls);
  else
    PyErr_SetString(PyExc_TypeError, "the source is of another kind");
  if (self != NULL) {
    self->kind = kind;
    self->reads = reads;
    Py_INCREF(arguments[2]);
    self->source = arguments[2];
    if (kind <= RESOURCE_MIPMAPPED && read_array(st, self, box) < 0)
      Py_CLEAR(self);
  }
  handle_done(arguments[2]);
  return (PyObject *)self;
}

/* ---- the class ---- */

static int traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(((resource *)object)->source);
  return 0;
}

/* tp_clear is not needed: if the source is in a reference cycle, the tp_clear of the source breaks the cycle. */
static void dealloc(PyObject *object) {
  PyObject_GC_UnTrack(object);
  KEEPING_EXCEPTION(Py_CLEAR(((resource *)object)->source));
  free_object(object);
}

#define IN_READS(field) (offsetof(resource, reads) + offsetof(cch_texture_resource, field))

static PyMemberDef members[] = {
    {"_source", T_OBJECT_EX, offsetof(resource, source), READONLY, NULL},
    {"_kind", T_INT, offsetof(resource, kind), READONLY, NULL},
    {"_format", T_INT, IN_READS(format), READONLY, NULL},
    {"_channels", T_UINT, IN_READS(channels), READONLY, NULL},
    {"_width", T_ULONG, IN_READS(width), READONLY, NULL},
    {"_height", T_ULONG, IN_READS(height), READONLY, NULL},
    {"_pitch", T_ULONG, IN_READS(pitch), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Spec spec =
    GC_TYPE_SPEC("cudacore_handles.texture.ResourceDescriptor", resource, SLOT(tp_doc, DOC_ResourceHandle),
                 SLOT(tp_dealloc, dealloc), SLOT(tp_traverse, traverse), SLOT(tp_members, members));

static PyMethodDef functions[] = {
    {"resource_make", FASTCALL(resource_make), METH_FASTCALL, DOC_resource_make},
    {NULL, NULL, 0, NULL},
};

int add_resource_type(PyObject *module, state *st) {
  return add_type(module, functions, "ResourceHandle", &spec, NULL, &st->resource_type);
}
