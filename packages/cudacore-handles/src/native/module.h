/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_MODULE_H
#define CUDACORE_NATIVE_MODULE_H

/*
 * The state of the module. An extension module has one structure for all its rooms. Each room describes its part in
 * ROOM/state.h: ROOM_FACES, ROOM_TYPES, ROOM_NAMES if it has any, and its fields, which are named st->ROOM. This header
 * only joins the parts, so it is the one header that is included by lower rooms although it includes upper ones.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/state.h"
#include "driver/state.h"
#include "graph/state.h"
#include "launch/state.h"
#include "memory/state.h"
#include "stream/state.h"
#include "views/state.h"

/*
 * Classes, and functions that are not called often, which the Python code of the package passes to this module by
 * connect(), room by room: st->faces.stream.
 */
#define FACES(X)                                                                                                       \
  BASE_FACES(X) DRIVER_FACES(X) STREAM_FACES(X) MEMORY_FACES(X) VIEWS_FACES(X) LAUNCH_FACES(X) GRAPH_FACES(X)

/* The types that the module's functions need: st->handle_type and so on. */
#define TYPES(X)                                                                                                       \
  BASE_TYPES(X) DRIVER_TYPES(X) STREAM_TYPES(X) MEMORY_TYPES(X) VIEWS_TYPES(X) LAUNCH_TYPES(X) GRAPH_TYPES(X)

/* Interned names: st->names.shape and so on. */
#define NAMES(X) STREAM_NAMES(X) MEMORY_NAMES(X) VIEWS_NAMES(X) LAUNCH_NAMES(X)

typedef struct faces {
#define FACE(room, name) PyObject *name;
  FACES(FACE)
#undef FACE
} faces;

typedef struct interned_names {
#define NAME(name, text) PyObject *name;
  NAMES(NAME)
#undef NAME
} interned_names;

typedef struct state {
  faces faces;
  interned_names names;
#define TYPE(name) PyTypeObject *name##_type;
  TYPES(TYPE)
#undef TYPE
  base_state base;
  views_state views;
  launch_state launch;
  graph_state graph;
} state;

#endif
