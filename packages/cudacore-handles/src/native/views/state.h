/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_VIEWS_STATE_H
#define CUDACORE_NATIVE_VIEWS_STATE_H

/* The part of the module's state that belongs to the room `views`. */

#include <Python.h>

#define VIEWS_FACES(X)                                                                                                 \
  X(views, view)           /* the class StridedMemoryView */                                                           \
  X(views, layout_of)      /* (shape, strides, itemsize) -> a _StridedLayout */                                        \
  X(views, element_types)  /* a dict, the cache of element_type(): dtype -> tuple */                                   \
  X(views, element_type)   /* (dtype, itemsize) -> (type in DLPack, itemsize, dtype or ...) */                         \
  X(views, dtype_of)       /* (code, bits, lanes) -> the dtype of a type in DLPack */                                  \
  X(views, dlpack_type_of) /* (dtype or typestr) -> the type in DLPack: code | bits << 8 | lanes << 16 */              \
  X(views, interface_of)   /* (class, object, stream, function) -> a view of an object by an interface */              \
  X(views, check_values)   /* (array, name): raises if the array's memory does not hold its values */                  \
  X(views, map_choices)    /* (name, class) of each enumeration of tensor maps' options */                             \
  X(views, check_choice)   /* (name, class, given): raises for a value that is not of the class */                     \
  X(views, check_export)   /* (buffer or view, arguments of __dlpack__) -> (what to export, stream, versioned) */      \
  X(views, default_stream) /* () -> the address of the default stream */

#define VIEWS_TYPES(X) X(view) X(tensor_map)

/* Names of attributes and arguments of arrays. */
#define VIEWS_NAMES(X)                                                                                                 \
  X(dlpack, "__dlpack__")                                                                                              \
  X(dlpack_device, "__dlpack_device__")                                                                                \
  X(shape, "shape")                                                                                                    \
  X(strides, "strides")                                                                                                \
  X(dtype, "dtype")                                                                                                    \
  X(stream, "stream")                                                                                                  \
  X(max_version, "max_version")                                                                                        \
  X(ptr, "ptr")                                                                                                        \
  X(is_conj, "is_conj")                                                                                                \
  X(is_neg, "is_neg")                                                                                                  \
  X(data, "data")                                                                                                      \
  X(interface, "__cuda_array_interface__")                                                                             \
  X(typestr, "typestr")                                                                                                \
  X(host_interface, "__array_interface__")                                                                             \
  X(mask, "mask")                                                                                                      \
  X(version, "version")

typedef struct views_state {
  PyObject *dlpack_arguments; /* of __dlpack__ for a consumer without a stream: a dict */
  PyObject *dlpack_types;     /* results of faces.dlpack_type_of, by dtype */
} views_state;

#endif
