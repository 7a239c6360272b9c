/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_TEXTURE_H
#define CUDACORE_NATIVE_TEXTURE_H

/* Arrays, textures and surfaces, and the options and resources that they are created from. */

#include "base/native.h"

/* ---- options.c: options in the structures of the C library ---- */

/*
 * The options of a texture. `formats` and `formats_linear` have a bit for each CCH_FORMAT_* whose texels can be sampled
 * with these options.
 */
typedef struct sampling {
  cch_texture_desc desc;
  uint64_t formats;        /* for arrays and pitched memory */
  uint64_t formats_linear; /* for linear memory, which is never filtered */
} sampling;

typedef enum options_kind { OPTIONS_ARRAY, OPTIONS_MIPMAPPED_ARRAY, OPTIONS_TEXTURE } options_kind;

/* Options that were checked for a device. */
typedef struct checked_options {
  PyObject *copy; /* a private copy of the options, which never changes; a reference */
  union {
    cch_array_desc array;
    sampling texture;
  } as;
} checked_options;

/*
 * Checks and converts options by a Python function, (options, device) -> (copy, bytes), which raises the errors.
 * Returns 0, or -1 with an exception.
 */
int options_read(const state *st, options_kind kind, PyObject *options, int device, checked_options *out);

/* ---- resource.c: the resources of textures and surfaces ---- */

enum { RESOURCE_ARRAY, RESOURCE_MIPMAPPED, RESOURCE_LINEAR, RESOURCE_PITCHED };

typedef struct resource {
  PyObject_HEAD PyObject *source; /* the face of the source; NULL if resource_make() did not make the object */
  int kind;
  shared_word checked;        /* 1 + the device for which the memory was checked; 0 if it was not checked */
  cch_texture_resource reads; /* the C structure, without the box of the source; `format` is also set for arrays */
  unsigned flags;             /* the flags of an array, CCH_ARRAY_* */
} resource;

/* Returns an argument as a resource, or NULL with an exception if it is not a ResourceDescriptor. */
resource *resource_of(const state *st, PyObject *argument);

/* Imports the Python modules of this room at first use. Returns -1 with an exception if that fails. */
int need_texture_faces(const state *st);

int add_resource_type(PyObject *module, state *st);
int add_texture_type(PyObject *module, state *st);

#endif
