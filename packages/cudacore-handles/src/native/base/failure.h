/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_FAILURE_H
#define CUDACORE_FAILURE_H

/*
 * Makes the result of a failed call for Python, in both extension modules: a cudacore_handles._base.results.Status,
 * which is an int with the record of the failure. The record belongs to the thread, and any Python code can change it:
 * a garbage collection runs finalizers, whose own calls can fail. So the record is copied before any Python function is
 * called, because even the allocation of an object can collect garbage.
 */

#include <Python.h>

#include <cudacore_internal/all.h>

#include <stdbool.h>
#include <string.h>

enum { FAILURE_WHY_SIZE = 1024 };

static inline PyObject *failure_text(const char *text) {
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

/*
 * Returns the result of the library call that was just made on this thread, as a new reference. No Python code may have
 * run since. NULL with an exception: a signal handler raised it meanwhile.
 */
static inline PyObject *failure_status(cch_status status) {
  if (status == 0 || status == CCH_NOT_READY) /* these are ordinary results, and are not recorded */
    return PyLong_FromLong(status);
  char why[FAILURE_WHY_SIZE] = "";
  cch_error record = *cch_error_last();
  if (record.domain == CCH_DOMAIN_DRIVER)
    cch_driver_explain(why, sizeof why);
  PyObject *module = PyImport_ImportModule("cudacore_handles._base.results");
  PyObject *made = module != NULL ? PyObject_CallMethod(module, "Status", "iiiNNKN", status, record.domain, record.code,
                                                        failure_text(record.operation), failure_text(record.message),
                                                        (unsigned long long)(uintptr_t)record.node, failure_text(why))
                                  : NULL;
  const bool is_there = module != NULL;
  Py_XDECREF(module);
  if (made != NULL || (is_there && !PyErr_ExceptionMatches(PyExc_MemoryError)))
    return made;
  PyErr_Clear(); /* the interpreter is ending or out of memory: return only the code */
  return PyLong_FromLong(status);
}

#endif
