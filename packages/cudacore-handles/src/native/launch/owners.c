/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the objects that packed arguments point into, as long as a launch, or the graph of its capture, may use them.
 */
#include "launch/launch.h"

#include <stdlib.h>
#include <string.h>

static void release(owned *items, Py_ssize_t count) {
  bool left = false;
  for (Py_ssize_t i = 0; i < count; i++)
    if (items[i].how == HELD)
      left |= (items[i].box = cch_unref_lightly(items[i].box)) != NULL;
  if (left) { /* releasing the last reference to a box can call the driver */
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < count; i++)
      if (items[i].how == HELD)
        cch_unref(items[i].box);
    Py_END_ALLOW_THREADS;
  }
  for (Py_ssize_t i = 0; i < count; i++)
    if (items[i].how == IN_USE)
      handle_done(items[i].object);
    else if (items[i].how == HELD)
      Py_XDECREF(items[i].object);
}

int owners_grow(owners *self, owned item) {
  const bool is_inside = self->items == self->inside;
  const Py_ssize_t room = 2 * self->room;
  owned *items = PyMem_Realloc(is_inside ? NULL : self->items, (size_t)room * sizeof *items);
  if (items == NULL) {
    release(&item, 1);
    PyErr_NoMemory();
    return -1;
  }
  if (is_inside)
    memcpy(items, self->inside, sizeof self->inside);
  self->items = items;
  self->room = room;
  return owners_add(self, item);
}

void owners_unref(owners *self) {
  if (self->releases)
    release(self->items, self->count);
  if (self->items != self->inside)
    PyMem_Free(self->items);
}

/* Adds an object that has no box to a bundle. Returns -1 with an exception on failure. */
static int add_object(const state *st, cch_bundle *bundle, PyObject *object) {
  owner *kept = owner_make(st, object, false);
  if (kept == NULL)
    return -1;
  int status = cch_bundle_add_object(bundle, kept, owner_release);
  if (status != 0)
    owner_discard(kept);
  return check_status(st, status);
}

static int add_to_bundle(const state *st, cch_bundle *bundle, const owned *item) {
  if (item->box != NULL)
    return check_status(st, cch_bundle_add(bundle, item->box));
  if (item->object != NULL)
    return add_object(st, bundle, item->object);
  cch_bundle *empty = NULL; /* for an operand that keeps nothing: see read_memory() */
  int status = cch_bundle_create(&empty, 0);
  if (status == 0)
    status = cch_bundle_add(bundle, empty);
  cch_bundle_unref(empty);
  return check_status(st, status);
}

bool owners_own_nothing(owners *self) {
  const owned *items = self->items;
  bool any = false;
  for (Py_ssize_t i = 0; i < self->count; i++)
    any |= items[i].box != NULL || items[i].object != NULL;
  return !any;
}

int owners_bundle(const state *st, owners *self, cch_bundle **out) {
  *out = NULL;
  if (owners_own_nothing(self))
    return 0;
  cch_bundle *bundle = NULL;
  int status = check_status(st, cch_bundle_create(&bundle, (size_t)self->count));
  if (status < 0)
    return -1;
  for (Py_ssize_t i = 0; i < self->count && status == 0; i++)
    status = add_to_bundle(st, bundle, &self->items[i]);
  if (status == 0)
    *out = bundle;
  else
    box_unref(bundle);
  return status;
}

/* ---- captured launches ---- */

/* Makes a bundle of the objects that have no box. Returns -1 with an exception on failure. */
static int bundle_objects(const state *st, const owned *items, Py_ssize_t count, cch_bundle **out) {
  int status = check_status(st, cch_bundle_create(out, 0));
  for (Py_ssize_t i = 0; status == 0 && i < count; i++)
    if (items[i].box == NULL && items[i].object != NULL)
      status = add_object(st, *out, items[i].object);
  return status;
}

int capture_keep(const state *st, cch_stream *stream, void *box, owners *used, PyThreadState **thread, bool *raised) {
  const owned *items = used->items;
  void *few[OWNERS_INLINE + 2], **boxes = few;
  size_t count = 0;
  cch_bundle *objects = NULL;
  bool has_objects = false;
  if (used->count > OWNERS_INLINE && (boxes = malloc(((size_t)used->count + 2) * sizeof *boxes)) == NULL) {
    PyEval_RestoreThread(*thread);
    PyErr_NoMemory();
    *thread = PyEval_SaveThread();
    *raised = true;
    return -1;
  }
  boxes[count++] = box;
  for (Py_ssize_t i = 0; i < used->count; i++)
    if (items[i].box != NULL)
      boxes[count++] = items[i].box;
    else
      has_objects |= items[i].object != NULL; /* NULL for an operand that keeps nothing: see read_memory() */
  if (has_objects) {
    PyEval_RestoreThread(*thread);
    *raised = bundle_objects(st, items, used->count, &objects) < 0;
    *thread = PyEval_SaveThread();
    boxes[count++] = objects;
  }
  int status = *raised ? -1 : cch_capture_keep_all(stream, boxes, count);
  cch_unref(objects);
  if (boxes != few)
    free(boxes);
  return status;
}
