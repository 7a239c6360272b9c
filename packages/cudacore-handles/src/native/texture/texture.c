/* SPDX-License-Identifier: Apache-2.0 */
/* Creates arrays, textures and surfaces. Python code raises the errors for unsuitable resources and options. */
#include "texture/texture.h"

typedef struct texture {
  handle base;
  PyObject *resource; /* NULL after close(), because the descriptor keeps its source alive */
  PyObject *options;  /* the `copy` of checked_options; NULL in a surface */
} texture;

/* ---- arrays ---- */

static PyObject *array_make(PyObject *module, PyObject *const *arguments, Py_ssize_t count, options_kind kind) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("array_make(context, options)", count, 2) < 0 || need_texture_faces(st) < 0)
    return NULL;
  cch_context *context = context_use(st, arguments[0]);
  if (context == NULL)
    return NULL;
  checked_options options;
  if (options_read(st, kind, arguments[1], cch_context_device(context), &options) < 0) {
    handle_done(arguments[0]);
    return NULL;
  }
  bool is_mipmapped = kind == OPTIONS_MIPMAPPED_ARRAY;
  cch_array *array = NULL;
  cch_mipmapped_array *mipmapped = NULL;
  int status;
  WITHOUT_GIL(status = is_mipmapped ? cch_mipmapped_array_create(&mipmapped, context, &options.as.array)
                                    : cch_array_create(&array, context, &options.as.array));
  PyObject *made = NULL;
  if (status != 0)
    raise_status(st, status);
  else if (is_mipmapped)
    made = handle_make(st, (PyTypeObject *)st->faces.mipmapped_array, mipmapped);
  else
    made = handle_make(st, (PyTypeObject *)st->faces.array, array);
  Py_DECREF(options.copy);
  handle_done(arguments[0]);
  return made;
}

static PyObject *create_array(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  return array_make(module, arguments, count, OPTIONS_ARRAY);
}

static PyObject *create_mipmapped_array(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  return array_make(module, arguments, count, OPTIONS_MIPMAPPED_ARRAY);
}

/* ---- textures and surfaces ---- */

static PyObject *make(const state *st, PyObject *cls, void *box, PyObject *resource, PyObject *options) {
  texture *self = (texture *)handle_make(st, (PyTypeObject *)cls, box);
  if (self == NULL)
    return NULL;
  Py_INCREF(resource);
  self->resource = resource;
  Py_XINCREF(options);
  self->options = options;
  return (PyObject *)self;
}

/*
 * Returns -1 with an exception if the device cannot use the memory for textures. The result is kept in the resource,
 * because neither the memory nor the limits of the device can change.
 */
static int check_memory(const state *st, resource *reads, int device) {
  if (reads->kind < RESOURCE_LINEAR || shared_get(&reads->checked) == (size_t)device + 1)
    return 0;
  PyObject *result = PyObject_CallFunction(st->faces.check_memory, "Oi", (PyObject *)reads, device);
  if (result == NULL)
    return -1;
  Py_DECREF(result);
  shared_set(&reads->checked, (size_t)device + 1);
  return 0;
}

/* Returns -1 with an exception if texels of the format cannot be sampled with the options. */
static int check_format(const state *st, const resource *reads, const checked_options *options) {
  const sampling *samples = &options->as.texture;
  uint64_t formats = reads->kind == RESOURCE_LINEAR ? samples->formats_linear : samples->formats;
  if (formats >> (reads->reads.format & 63) & 1)
    return 0;
  PyObject *result = PyObject_CallFunction(st->faces.refuse_format, "OO", (PyObject *)reads, options->copy);
  Py_XDECREF(result); /* `result` is NULL, because the function always raises */
  return -1;
}

static PyObject *texture_of(state *st, cch_context *context, resource *reads, void *source, PyObject *given) {
  int device = cch_context_device(context);
  checked_options options;
  if (check_memory(st, reads, device) < 0 || options_read(st, OPTIONS_TEXTURE, given, device, &options) < 0)
    return NULL;
  PyObject *made = NULL;
  if (check_format(st, reads, &options) == 0) {
    cch_texture_resource from = reads->reads;
    from.source = source;
    cch_texture *box = NULL;
    int status;
    WITHOUT_GIL(status = cch_texture_create(&box, context, &from, &options.as.texture.desc));
    made = status == 0 ? make(st, st->faces.texture, box, (PyObject *)reads, options.copy) : raise_status(st, status);
  }
  Py_DECREF(options.copy);
  return made;
}

static PyObject *surface_of(const state *st, cch_context *context, resource *reads, void *source) {
  if (reads->kind != RESOURCE_ARRAY || (reads->flags & CCH_ARRAY_SURFACE) == 0)
    return PyErr_Format(
        PyExc_ValueError,
        "resource: a surface needs an array that was created with is_surface_load_store=True, which is an "
        "OpaqueArray, or a level of a MipmappedArray, get_level()");
  cch_surface *box = NULL;
  int status;
  WITHOUT_GIL(status = cch_surface_create(&box, context, source));
  return status == 0 ? make(st, st->faces.surface, box, (PyObject *)reads, NULL) : raise_status(st, status);
}

/* Creates a texture or, if `options` is NULL, a surface. Returns NULL with an exception if it fails. */
static PyObject *create(state *st, PyObject *context, PyObject *argument, PyObject *options) {
  resource *reads = resource_of(st, argument);
  cch_context *used = reads != NULL ? context_use(st, context) : NULL;
  if (used == NULL)
    return NULL;
  PyObject *made = NULL;
  void *source = handle_use(reads->source);
  if (source != NULL) {
    made = options != NULL ? texture_of(st, used, reads, source, options) : surface_of(st, used, reads, source);
    handle_done(reads->source);
  }
  handle_done(context);
  return made;
}

static PyObject *create_texture(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("create_texture(context, resource, options)", count, 3) < 0 || need_texture_faces(st) < 0)
    return NULL;
  return create(st, arguments[0], arguments[1], arguments[2]);
}

static PyObject *create_surface(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  state *st = PyModule_GetState(module);
  if (check_argument_count("create_surface(context, resource)", count, 2) < 0 || need_texture_faces(st) < 0)
    return NULL;
  return create(st, arguments[0], arguments[1], NULL);
}

/* ---- the class ---- */

static PyObject *close_method(PyObject *object, PyObject *nothing) {
  (void)nothing;
  handle_close((handle *)object);
  Py_XDECREF(field_swap(object, &((texture *)object)->resource, NULL));
  Py_RETURN_NONE;
}

static int traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(((texture *)object)->resource);
  Py_VISIT(((texture *)object)->options);
  return 0;
}

/* tp_clear is not needed: if the resource is in a reference cycle, the tp_clear of its source breaks the cycle. */
static void dealloc(PyObject *object) {
  texture *self = (texture *)object;
  PyObject_GC_UnTrack(object);
  PyObject *resource = self->resource, *options = self->options;
  self->resource = self->options = NULL;
  handle_dealloc(object);
  KEEPING_EXCEPTION(Py_XDECREF(options); Py_XDECREF(resource));
}

static PyMethodDef methods[] = {
    {"close", close_method, METH_NOARGS, DOC_Handle_close},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"_resource", T_OBJECT, offsetof(texture, resource), READONLY, NULL},
    {"_options", T_OBJECT_EX, offsetof(texture, options), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Spec spec = GC_TYPE_SPEC(
    "cudacore_handles.texture.TextureObject", texture, SLOT(tp_doc, DOC_TextureHandle), SLOT(tp_dealloc, dealloc),
    SLOT(tp_traverse, traverse), SLOT(tp_methods, methods), SLOT(tp_members, members));

static PyMethodDef functions[] = {
    {"create_array", FASTCALL(create_array), METH_FASTCALL, DOC_create_array},
    {"create_mipmapped_array", FASTCALL(create_mipmapped_array), METH_FASTCALL, DOC_create_mipmapped_array},
    {"create_texture", FASTCALL(create_texture), METH_FASTCALL, DOC_create_texture},
    {"create_surface", FASTCALL(create_surface), METH_FASTCALL, DOC_create_surface},
    {NULL, NULL, 0, NULL},
};

int need_texture_faces(const state *st) {
  shared_word *imported = (shared_word *)(uintptr_t)&st->texture.imported;
  if (shared_get(imported))
    return 0;
  PyObject *module = PyImport_ImportModule("cudacore_handles.texture");
  Py_XDECREF(module);
  if (module != NULL)
    shared_set(imported, 1);
  return module != NULL ? 0 : -1;
}

int add_texture_type(PyObject *module, state *st) {
  return add_type(module, functions, "TextureHandle", &spec, st->handle_type, &st->texture_type);
}
