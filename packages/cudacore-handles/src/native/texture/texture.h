/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_TEXTURE_H
#define CUDACORE_NATIVE_TEXTURE_H

/* Arrays, textures and surfaces: creating them, and what they are created from. */

#include "base/native.h"

/* ---- options.c: options as the C library takes them ---- */

/* What the options of a texture say. A bit for each CCH_FORMAT_* whose texels can be sampled in this way. */
typedef struct sampling {
  cch_texture_desc desc;
  uint64_t formats;        /* of arrays, and of pitched memory */
  uint64_t formats_linear; /* of linear memory, which is not filtered */
} sampling;

typedef enum options_kind { OPTIONS_ARRAY, OPTIONS_MIPMAPPED_ARRAY, OPTIONS_TEXTURE } options_kind;

/* Options that were checked for a device. */
typedef struct checked_options {
  options_kind kind;
  int device;
  PyObject *copy;   /* options with the same values, which nobody changes; NULL in an unused entry */
  PyObject *fields; /* the dictionary of the copy; NULL if there were no options */
  union {
    cch_array_desc array;
    sampling texture;
  } as;
} checked_options;

/*
 * Reads options by a function of Python, (options, device) -> (copy, bytes), which raises for what is wrong with them.
 * It is not called again for options with the same values. 0, or -1 with an exception. The caller gives them back by
 * options_done().
 */
int options_read(state *st, options_kind kind, PyObject *options, int device, checked_options *out);
void options_done(checked_options *options);

int options_begin(state *st);
int options_visit(state *st, visitproc visit, void *arg);
void options_clear(state *st);
void options_end(state *st);

/* ---- resource.c: what textures and surfaces read ---- */

enum { RESOURCE_ARRAY, RESOURCE_MIPMAPPED, RESOURCE_LINEAR, RESOURCE_PITCHED };

typedef struct resource {
  PyObject_HEAD PyObject *source; /* the face; NULL in an object that nothing here has made */
  int kind;
  int device;                 /* for which the memory was checked; -1: for none */
  cch_texture_resource reads; /* without the box; arrays have a format, too */
  unsigned flags;             /* of an array: CCH_ARRAY_* */
} resource;

/* The resource that an argument is; NULL with an exception. */
resource *resource_of(const state *st, PyObject *argument);

/* Loads the Python half of this room, where nothing of it was used yet; -1 with an exception. */
int need_texture_faces(const state *st);

int add_resource_type(PyObject *module, state *st);
int add_texture_type(PyObject *module, state *st);
int add_array_functions(PyObject *module);

#endif
