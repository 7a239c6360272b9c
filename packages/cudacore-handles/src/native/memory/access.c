/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the memory of buffers is, and who can use it. Memory of a pool is where the pool is. For other memory, the
 * memory resource is asked each time, because its answers can change. If there is none, the driver is asked once.
 */
#include "memory/buffer.h"

#include <cuda.h>

/* What is known is a word: this bit, the flags of access_property(), and the ordinal of the device above them. */
enum { IS_KNOWN = 1, DEVICE_SHIFT = 32 };

static size_t pack_access(int device_id, bool by_device, bool by_host, bool managed) {
  static_assert(sizeof(size_t) == 8, "a word has room for an ordinal above the flags");
  return (size_t)(uint32_t)device_id << DEVICE_SHIFT | IS_KNOWN | (by_device ? ACCESS_BY_DEVICE : 0) |
         (by_host ? ACCESS_BY_HOST : 0) | (managed ? ACCESS_MANAGED : 0);
}

static int device_in(size_t access) { return (int32_t)(uint32_t)(access >> DEVICE_SHIFT); }

/* Returns 0 for memory without a pool, and if the location of the pool is unknown. */
static size_t access_of_pool(const cch_deviceptr *box) {
  const cch_pool *pool = cch_deviceptr_pool(box);
  if (pool == NULL)
    return 0;
  int place = 0, id = 0;
  cch_pool_location(&place, &id, pool);
  if (cch_pool_alloc_type(pool) == CCH_ALLOCATION_MANAGED)
    return pack_access(place == CCH_LOCATION_DEVICE ? id : -1, true, true, true);
  if (place == CCH_LOCATION_DEVICE)
    return pack_access(id, true, false, false);
  return place == CCH_LOCATION_HOST || place == CCH_LOCATION_HOST_NUMA ? pack_access(-1, true, true, false) : 0;
}

/* Returns what the driver reports about an address; 0 with an exception on failure. */
static size_t query_access(const state *st, CUdeviceptr ptr) {
  int type, device, managed, status;
  WITHOUT_GIL(status = cch_pointer_attributes(&type, &device, &managed, ptr));
  if (check_status(st, status) < 0)
    return 0;
  if (type == 0) /* ordinary host memory, which CUDA does not manage */
    return pack_access(-1, false, true, false);
  if (managed)
    return pack_access(device, true, true, true);
  return type == CU_MEMORYTYPE_HOST ? pack_access(-1, true, true, false) : pack_access(device, true, false, false);
}

/* Returns what is known about a buffer's memory, or 0: with the resource to ask in `mr`, or with an exception. */
static size_t access_of(PyObject *object, PyObject **mr) {
  buffer *self = (buffer *)object;
  size_t access = shared_get(&self->access);
  *mr = NULL;
  if (access != 0 && handle_is_open(self))
    return access;
  const cch_deviceptr *box = handle_use(object); /* keeps the memory, if another thread closes the buffer now */
  if (box == NULL)
    return 0;
  access = access_of_pool(box);
  if (access == 0 && (*mr = field_get(self, &self->mr)) == NULL)
    access = query_access(self->base.st, cch_deviceptr_raw(box));
  handle_done(object);
  shared_set(&self->access, access);
  return access;
}

PyObject *access_property(PyObject *object, void *flag) {
  PyObject *mr;
  const size_t asked = (size_t)flag, access = access_of(object, &mr);
  if (mr != NULL) {
    const interned_names *names = &((handle *)object)->st->names;
    PyObject *answer = PyObject_GetAttr(mr, asked == ACCESS_DEVICE_ID   ? names->device_id
                                            : asked == ACCESS_BY_DEVICE ? names->is_device_accessible
                                            : asked == ACCESS_BY_HOST   ? names->is_host_accessible
                                                                        : names->is_managed);
    Py_DECREF(mr);
    return answer;
  }
  if (access == 0)
    return NULL;
  return asked == ACCESS_DEVICE_ID ? PyLong_FromLong(device_in(access)) : PyBool_FromLong((access & asked) != 0);
}

PyObject *access_set(PyObject *object, PyObject *arguments) {
  int device_id, by_device, by_host, managed;
  if (!PyArg_ParseTuple(arguments, "ippp:_set_access", &device_id, &by_device, &by_host, &managed))
    return NULL;
  shared_set(&((buffer *)object)->access, pack_access(device_id, by_device, by_host, managed));
  Py_RETURN_NONE;
}

/* Reads a flag of a memory resource: 1 or 0; -1 with an exception on failure. */
static int read_flag(PyObject *mr, PyObject *name) {
  PyObject *value = PyObject_GetAttr(mr, name);
  int set = value != NULL ? PyObject_IsTrue(value) : -1;
  Py_XDECREF(value);
  return set;
}

/* Returns what a memory resource reports, as far as DLPack needs it; 0 with an exception on failure. */
static size_t ask_resource(const interned_names *names, PyObject *mr) {
  int managed = read_flag(mr, names->is_managed);
  if (managed != 0)
    return managed < 0 ? 0 : pack_access(-1, true, true, true);
  int by_device = read_flag(mr, names->is_device_accessible);
  int by_host = by_device < 0 ? -1 : read_flag(mr, names->is_host_accessible);
  if (by_host != 0 || by_device <= 0)
    return by_host < 0 ? 0 : pack_access(-1, by_device, by_host, false);
  PyObject *number = PyObject_GetAttr(mr, names->device_id);
  long device = number != NULL ? PyLong_AsLong(number) : -1;
  Py_XDECREF(number);
  return PyErr_Occurred() ? 0 : pack_access((int)device, true, false, false);
}

static int device_from(size_t access, dl_device *out) {
  if (access == 0)
    return -1;
  if (access & ACCESS_MANAGED)
    *out = (dl_device){.type = DL_CUDA_MANAGED};
  else if (access & ACCESS_BY_DEVICE)
    *out = access & ACCESS_BY_HOST ? (dl_device){.type = DL_CUDA_HOST}
                                   : (dl_device){.type = DL_CUDA, .id = device_in(access)};
  else if (access & ACCESS_BY_HOST)
    *out = (dl_device){.type = DL_CPU};
  else
    return raise_error(PyExc_BufferError,
                       "the memory resource reports that neither the host nor a device can access this memory");
  return 0;
}

int buffer_device(PyObject *object, dl_device *out) {
  PyObject *mr;
  size_t access = access_of(object, &mr);
  if (mr != NULL) {
    access = ask_resource(&((handle *)object)->st->names, mr);
    Py_DECREF(mr);
  }
  return device_from(access, out);
}

int memory_device(const state *st, uintptr_t address, dl_device *out) {
  return device_from(query_access(st, address), out);
}
