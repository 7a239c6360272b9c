/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_BASE_STATE_H
#define CUDACORE_NATIVE_BASE_STATE_H

/* The part of the module's state that belongs to the room `base`. */

#include "base/shared.h"

#include <cudacore_shared/table.h>

#define BASE_FACES(X)                                                                                                  \
  X(base, closed)            /* (face) -> the exception for the use of a closed object */                              \
  X(base, closed_error)      /* the class of that exception */                                                         \
  X(base, cuda_error)        /* the class CUDAError */                                                                 \
  X(base, raise_status)      /* (status): raises for a failed call of the library */                                   \
  X(base, cast)              /* cffi's cast() */                                                                       \
  X(base, gc)                /* cffi's gc() */                                                                         \
  X(base, unref)             /* cch_unref() of cffi */                                                                 \
  X(base, void_pointer)      /* cffi's type void * */                                                                  \
  X(base, as_integer)        /* (object) -> the int that it equals; None for any other object, and for bools */        \
  X(base, as_word)           /* (pointer, bytes, or list of bytes; list) -> a word; the list gets what it points to */ \
  X(options, option_classes) /* a dict whose keys are the classes of options, for is_options() */

#define BASE_TYPES(X) X(handle)

typedef struct runtime runtime; /* runtime.c */

enum { TYPE_CODES = 128 };

typedef struct base_state {
#ifdef Py_GIL_DISABLED
  /* Of the table. A thread reads with the lock of its lane, and a writer takes all of them. */
  struct {
    PyMutex lock;
    char padding[CACHE_LINE - sizeof(PyMutex)];
  } type_locks[LANES];
#endif
  cch__table types;              /* of type_entry: registered types, with their packing */
  shared_word codes[TYPE_CODES]; /* copies of some entries, which are read without a lock: see types.c */
  PyObject *forget;              /* the function _forget of the module: the callback of the weak references */
  runtime *runtime;
} base_state;

#endif
