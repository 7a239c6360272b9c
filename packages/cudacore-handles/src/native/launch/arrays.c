/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs the addresses of buffers and of arrays of other libraries.
 *
 * The address is read and its owner is stored in the same step. If there are several devices, the device of the memory
 * is compared with the device of the launch. Only if they differ, the driver is queried whether the launch's device can
 * access the memory.
 */
#include "launch/pack.h"

#include <stdatomic.h>

int find_device_for_memory_checks(const state *st, const cch_stream *stream, int *out) {
  static atomic_int known; /* the number of devices, which does not change */
  int count = atomic_load_explicit(&known, memory_order_relaxed);
  if (count == 0 && cch_device_count(&count) == 0)
    atomic_store_explicit(&known, count, memory_order_relaxed);
  *out = count <= 1 ? UNCHECKED_DEVICE : device_of_stream(stream);
  return *out == CURRENT_DEVICE ? check_status(st, cch_current_device(out)) : 0;
}

/* Raises the error for a value that is passed as something that the parameter does not take. */
static int raise_passed_as(const destination *to, PyObject *value, const char *what, const char *advice) {
  PyObject *name = type_name(value);
  if (name != NULL && to->kind == PARAM_UNKNOWN)
    PyErr_Format(PyExc_TypeError, "%U is passed as %s, but the parameter has %u; %s", name, what, to->size, advice);
  else if (name != NULL)
    PyErr_Format(PyExc_TypeError, "%U is passed as %s, but the parameter of %u is %s; %s", name, what, to->size,
                 kind_text(to), advice);
  Py_XDECREF(name);
  return -1;
}

int raise_takes_no_address(const destination *to, PyObject *value) {
  return raise_passed_as(to, value, "a pointer of 8 bytes", "check the order of the arguments");
}

static void store(const destination *to, uint64_t address) { memcpy(to->out, &address, sizeof address); }

int pack_null(const destination *to) {
  if (to->size != 8 || !kind_takes(to, TAKES_NULL)) {
    if (to->kind == PARAM_UNKNOWN)
      PyErr_Format(PyExc_TypeError, "None is a null pointer of 8 bytes, but the parameter has %u", to->size);
    else
      PyErr_Format(PyExc_TypeError, "None is a null pointer of 8 bytes, but the parameter of %u is %s", to->size,
                   kind_text(to));
    return -1;
  }
  store(to, 0);
  return 0;
}

int check_other_device(const state *st, int device, PyObject *value, uint64_t address) {
  PyObject *result = PyObject_CallFunction(st->faces.check_device, "OKi", value, (unsigned long long)address, device);
  Py_XDECREF(result);
  return result ? 0 : -1;
}

/*
 * Keeps an array and the box of its memory, or NULL, as long as the packed arguments are in use, and stores the
 * address.
 */
static inline int keep_and_store(const destination *to, PyObject *array, void *box, uint64_t address, int place) {
  if (owners_add_argument(to->keep, to->index, box, array) < 0)
    return -1;
  store(to, address);
  return check_access(to->st, to->device, array, address, place);
}

/* Reads an int as an address. Returns -1 with an exception on failure. */
static int read_address(const state *st, PyObject *number, PyObject *value, uint64_t *out) {
  if (number == Py_None) {
    *out = 0;
    return 0;
  }
  PyObject *integer = NULL; /* the value as an int, for integers of other libraries, such as NumPy's */
  if (!PyLong_CheckExact(number)) {
    integer = integer_of(st, number);
    if (!integer)
      return PyErr_Occurred()
                 ? -1
                 : raise_about(PyExc_TypeError, "the address that %U has for its memory is not an int", value, 0, 0);
    number = integer;
  }
  size_t address = PyLong_AsSize_t(number); /* PyLong_AsUnsignedLongLong() takes four times as long */
  Py_XDECREF(integer);
  if (address == (size_t)-1 && PyErr_Occurred()) {
    PyErr_Clear();
    return raise_about(PyExc_ValueError, "the address that %U has for its memory is not one of 64 bits", value, 0, 0);
  }
  *out = address;
  return 0;
}

/* ---- buffers ---- */

/* Returns the device of a box's memory, or UNKNOWN_DEVICE. */
static int device_of_memory(const cch_deviceptr *box) {
  const cch_pool *pool = cch_deviceptr_pool(box);
  if (pool) {
    int device = cch_pool_device(pool);
    return device >= 0 ? device : ANY_DEVICE; /* the number is negative for a pool of host memory */
  }
  const cch_context *context = cch_deviceptr_context(box);
  return context ? cch_context_device(context) : UNKNOWN_DEVICE;
}

size_t find_place(buffer *self) {
  const bool can_be_lost = cch_deviceptr_can_be_lost(self->base.box);
  const size_t place = (size_t)(device_of_memory(self->base.box) + FIRST_PLACE) | (can_be_lost ? CAN_BE_LOST : 0);
  shared_set(&self->place, place);
  return place;
}

/* Returns the device of a texture or a surface. The caller holds its box. */
static int device_of_object(const handle *self) {
  const cch_context *context = cch_context_of(self->box);
  return context ? cch_context_device(context) : UNKNOWN_DEVICE;
}

/* Packs a texture or a surface, which a kernel receives as an integer of 8 bytes. */
static int pack_object(const destination *to, PyObject *value) {
  const handle *self = (const handle *)value;
  if (to->kind == PARAM_POINTER)
    return raise_about(PyExc_TypeError,
                       "%U is an integer of %zd bytes to a kernel, but the parameter is a pointer of %u; pass an array "
                       "or a buffer",
                       value, 8, to->size);
  uint64_t number;
  if (owners_add_memory(to->keep, to->index, value, &number) < 0)
    return -1;
  if (!cch_is_valid(self->box))
    return raise_error(
        to->st->faces.closed_error,
        "the texture or surface is lost: another library reset the primary context of its device. Create "
        "it again");
  int device = to->device == UNCHECKED_DEVICE ? ANY_DEVICE : device_of_object(self);
  if (device >= 0 && device != to->device)
    return raise_error(PyExc_ValueError, "the texture or surface is of device %d, and the launch of device %d", device,
                       to->device);
  store(to, number);
  return 0;
}

int pack_buffer(const destination *to, PyObject *value) {
  return is_buffer(to->st, value) ? pack_memory(to->st, to->device, to->keep, to->index, value, to->out)
                                  : pack_object(to, value);
}

/* ---- tensor maps ---- */

/* Keeps the memory that a tensor map describes now. The map can get another address before the next launch. */
static int keep_tensor(const destination *to, PyObject *object) {
  const view *tensor = (const view *)object;
  if (tensor->box != NULL) {
    if (owners_add(to->keep, (owned){cch_deviceptr_ref(tensor->box), NULL, to->index, HELD}) < 0)
      return -1;
    if (cch_is_valid(tensor->box))
      return 0;
    return raise_error(to->st->faces.closed_error,
                       "the memory of a TensorMapDescriptor is lost: another library reset the "
                       "primary context of its device. Allocate it again");
  }
  return owners_add(to->keep, (owned){NULL, Py_NewRef(object), to->index, HELD});
}

int pack_tensor_map(const destination *to, PyObject *value) {
  if (!PyType_IsSubtype(Py_TYPE(value), to->st->tensor_map_type))
    return raise_about(PyExc_TypeError, "%U is not a tensor map", value, 0, 0);
  const tensor_map *self = (const tensor_map *)value;
  bool takes_bytes = to->kind == PARAM_BYTES || to->kind == PARAM_UNKNOWN;
  if (self->st == NULL || to->size != sizeof self->map || !takes_bytes)
    return raise_passed_as(to, value, "its 128 bytes", "declare it as: const __grid_constant__ CUtensorMap");
  PyObject *tensor;
  uint64_t address;
  LOCK_OBJECT(value);
  memcpy(to->out, &self->map, sizeof self->map);
  address = self->config.address;
  tensor = Py_NewRef(self->tensor);
  UNLOCK_OBJECT();
  int status = keep_tensor(to, tensor);
  const dl_device device = ((const view *)tensor)->tensor.device;
  if (status == 0)
    status = check_access(to->st, to->device, tensor, address, device.type == DL_CUDA ? device.id : ANY_DEVICE);
  KEEPING_EXCEPTION(Py_DECREF(tensor));
  return status;
}

/* ---- arrays ---- */

int pack_place(const destination *to, PyObject *value, PyObject *place) {
  unsigned long long address;
  int device;
  PyObject *more;
  unsigned element = to->element;
  if (!PyArg_ParseTuple(place, "KiO|I:place", &address, &device, &more, &element) ||
      check_takes_address(to, value) < 0 || check_element(to, value, element) < 0)
    return -1;
  if (more != Py_None && owners_add(to->keep, (owned){NULL, Py_NewRef(more), to->index, HELD}) < 0)
    return -1;
  return keep_and_store(to, value, NULL, address, device);
}

int pack_exchanged(const destination *to, PyObject *value, dl_tensor_from_object read) {
  dl_tensor tensor;
  cch_deviceptr *box = NULL;
  if (read == exchange_tensor && PyType_IsSubtype(Py_TYPE(value), to->st->view_type)) {
    tensor = ((const view *)value)->tensor; /* this module made the tensor, so it is not checked */
    box = ((const view *)value)->box;
    if (box != NULL && memory_check(to->st, box) < 0)
      return -1;
  } else if (read(value, &tensor) != 0) {
    if (!PyErr_Occurred())
      raise_about(PyExc_BufferError, "%U cannot be exported by DLPack", value, 0, 0);
    return -1;
  }
  int device;
  switch (tensor.device.type) {
  case DL_CUDA:
    device = tensor.device.id;
    break;
  case DL_CUDA_HOST:
  case DL_CUDA_MANAGED:
    device = ANY_DEVICE;
    break;
  default:
    return pack_converted(to, value, to->st->faces.read_array);
  }
  if (check_takes_address(to, value) < 0 || check_element(to, value, element_of(tensor.dtype)) < 0 ||
      (box == NULL && check_exchanged(to->st, value, &tensor) < 0))
    return -1;
  return keep_and_store(to, value, box, dlpack_address(&tensor), device);
}

/*
 * Finds the function of an attribute that is a property of a C type. The type of the array is known as long as its
 * entry. A type at the second step may end before, and another type get its address, so the property must be its own:
 * then the property keeps it.
 */
static void find_getter(PyTypeObject *type, int step, attribute *known) {
  PyObject *property = PyObject_GetAttr((PyObject *)type, known->name);
  PyObject *defined_in = NULL, *name = NULL;
  if (property != NULL && Py_IS_TYPE(property, &PyGetSetDescr_Type)) {
    defined_in = PyObject_GetAttrString(property, "__objclass__");
    name = PyObject_GetAttrString(property, "__name__");
  }
  const char *text = name != NULL ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  const bool is_kept = defined_in != NULL && ((PyObject *)type == defined_in ||
                                              (step != 1 && PyType_IsSubtype(type, (PyTypeObject *)defined_in)));
  if (text != NULL && is_kept)
    for (const PyGetSetDef *each = PyType_GetSlot((PyTypeObject *)defined_in, Py_tp_getset); each && each->name; each++)
      if (strcmp(each->name, text) == 0) {
        known->property = Py_NewRef(property);
        known->get = each->get;
        known->closure = each->closure;
        break;
      }
  PyErr_Clear();
  Py_XDECREF(name);
  Py_XDECREF(defined_in);
  Py_XDECREF(property);
}

/*
 * Stores the type of the object that an attribute was read from and, if the attribute is a C property, its function.
 */
static void learn(const state *st, PyObject *array, int step, PyObject *object, PyObject *name) {
  PyTypeObject *type = Py_TYPE(object);
  if ((getattrofunc)PyType_GetSlot(type, Py_tp_getattro) != PyObject_GenericGetAttr)
    return;
  attribute known = {.name = name, .type = type}; /* stored in any case, so that the type is not examined again */
  find_getter(type, step, &known);
  types_learn(st, Py_TYPE(array), step, &known);
}

static PyObject *get_and_learn(const state *st, PyObject *array, int step, PyObject *object, const attribute *known) {
  PyObject *result = PyObject_GetAttr(object, known->name);
  if (result && known->type != Py_TYPE(object))
    learn(st, array, step, object, known->name);
  return result;
}

static inline PyObject *get(const state *st, PyObject *array, int step, PyObject *object, const attribute *known) {
  return known->type == Py_TYPE(object) && known->get ? known->get(object, known->closure)
                                                      : get_and_learn(st, array, step, object, known);
}

static PyObject *address_by_path(const state *st, PyObject *array, const type_entry *how) {
  PyObject *first = get(st, array, 0, array, &how->attributes[0]);
  if (!first || !how->attributes[1].name)
    return first;
  PyObject *second = get(st, array, 1, first, &how->attributes[1]);
  Py_DECREF(first);
  return second;
}

/*
 * Gets the device of an array, by the second path of the array's registered type. Returns -1 with an exception on
 * failure.
 */
static int device_by_path(PyObject *value, PyObject *path, int *out) {
  *out = UNKNOWN_DEVICE;
  if (path == Py_None)
    return 0;
  Py_INCREF(value);
  PyObject *number = value;
  for (Py_ssize_t i = 0; number && i < PyTuple_Size(path); i++) {
    PyObject *next = PyObject_GetAttr(number, PyTuple_GetItem(path, i));
    Py_DECREF(number);
    number = next;
  }
  long device = number ? PyLong_AsLong(number) : -1;
  Py_XDECREF(number);
  if (PyErr_Occurred())
    return -1;
  *out = device >= 0 ? (int)device : UNKNOWN_DEVICE; /* the library's negative numbers have other meanings */
  return 0;
}

/* Checks the type of an array by the attribute `dtype`. Returns -1 with an exception on failure. */
static int check_dtype(const destination *to, PyObject *value, const type_entry *how) {
  if (to->element == 0 || how->attributes[DTYPE_STEP].name == NULL)
    return 0;
  PyObject *dtype = get(to->st, value, DTYPE_STEP, value, &how->attributes[DTYPE_STEP]);
  int status = dtype ? check_element_by_dtype(to, value, dtype) : -1;
  Py_XDECREF(dtype);
  return status;
}

static int pack_by_paths(const destination *to, PyObject *value, const type_entry *how) {
  if (check_dtype(to, value, how) < 0)
    return -1;
  uint64_t address = 0;
  int device = UNKNOWN_DEVICE;
  PyObject *number = address_by_path(to->st, value, how);
  int status = number ? read_address(to->st, number, value, &address) : -1;
  Py_XDECREF(number);
  if (status == 0 && to->device != UNCHECKED_DEVICE)
    status = device_by_path(value, PyTuple_GetItem(how->given, 1), &device);
  return status == 0 ? keep_and_store(to, value, NULL, address, device) : -1;
}

/*
 * Packs the address in the __cuda_array_interface__ of an array: a dict whose entry "data" is a tuple that begins with
 * the address.
 */
static int pack_interface(const destination *to, PyObject *value, PyObject *interface) {
  if (to->element != 0 && check_element_of_interface(to, value, interface) < 0)
    return -1;
  uint64_t address = 0;
  PyObject *data = PyObject_GetItem(interface, to->st->names.data);
  PyObject *number = data ? PySequence_GetItem(data, 0) : NULL;
  int status = number ? read_address(to->st, number, value, &address) : -1;
  Py_XDECREF(number);
  Py_XDECREF(data);
  return status == 0 ? keep_and_store(to, value, NULL, address, UNKNOWN_DEVICE) : -1;
}

int pack_array(const destination *to, PyObject *value, const type_entry *how) {
  if (how->packing == PACKING_PATHS)
    return check_takes_address(to, value) < 0 ? -1 : pack_by_paths(to, value, how);
  PyObject *interface = PyObject_GetAttr(value, to->st->names.interface);
  if (interface) {
    int status = check_takes_address(to, value) < 0 ? -1 : pack_interface(to, value, interface);
    Py_DECREF(interface);
    return status;
  }
  if (!PyErr_ExceptionMatches(PyExc_AttributeError))
    return -1;
  PyErr_Clear();
  return pack_converted(to, value, to->st->faces.read_array);
}
