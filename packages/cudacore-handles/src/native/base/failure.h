/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_FAILURE_H
#define CUDACORE_FAILURE_H

/*
 * Failed calls, as both extension modules return them to Python: a cudacore_handles._base.status.Status, an int with
 * the record of the failure. The record belongs to the thread, and any Python code can change it: a garbage collection
 * runs finalizers, whose own calls fail. So it is copied before anything of Python's is touched, which can be the
 * allocation of an object.
 */

#include <Python.h>

#include <cudacore/cudacore.h>

#include <dlfcn.h>
#include <string.h>

enum { FAILURE_WHY_SIZE = 1024 };

/* What the simulated driver says of this thread's last refused call; empty on a GPU's driver. */
static inline void failure_why_simulated(char *out, size_t size) {
  size_t (*why)(char *, size_t);
  *out = '\0';
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == NULL)
    return;
  void *entry = dlsym(driver, "cudasim_why");
  memcpy(&why, &entry, sizeof why);
  if (why != NULL)
    why(out, size);
  dlclose(driver); /* which undoes the dlopen above */
}

static inline PyObject *failure_text(const char *text) {
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

/* What a call of the library returned on this thread just now, a new reference: no Python code has run since. */
static inline PyObject *failure_status(int status) {
  cch_error_record record = {.size = sizeof record};
  char why[FAILURE_WHY_SIZE] = "";
  if (status == 0 || status == CCH_NOT_READY) /* answers, which are not recorded */
    return PyLong_FromLong(status);
  cch_error_get(&record);
  if (record.code != status && status != CCH_ECOMPILER) /* a result that is not a status: a device, a count */
    return PyLong_FromLong(status);
  if (record.domain == CCH_DOMAIN_DRIVER)
    failure_why_simulated(why, sizeof why);
  PyObject *module = PyImport_ImportModule("cudacore_handles._base.status");
  PyObject *made = module != NULL ? PyObject_CallMethod(module, "Status", "iiiNNKN", status, record.domain, record.code,
                                                        failure_text(record.operation), failure_text(record.message),
                                                        (unsigned long long)(uintptr_t)record.node, failure_text(why))
                                  : NULL;
  Py_XDECREF(module);
  if (made != NULL)
    return made;
  PyErr_Clear(); /* the interpreter is ending, or has no memory: the code alone */
  return PyLong_FromLong(status);
}

#endif
