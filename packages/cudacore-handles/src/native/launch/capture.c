/* SPDX-License-Identifier: Apache-2.0 */
/* Makes graphs keep the objects that captured launches use. */
#include "launch/launch.h"

#include <stdlib.h>

/*
 * Makes a bundle of the objects that have no box; *out is NULL if there are none. Returns -1 with an exception on
 * failure.
 */
static int bundle_objects(const state *st, const owned *items, Py_ssize_t count, cch_bundle **out) {
  int status = cch_bundle_create(out, 0);
  for (Py_ssize_t i = 0; status == 0 && i < count; i++)
    if (items[i].box == NULL && items[i].object != NULL) {
      owner *kept = owner_make(st, items[i].object, false);
      if (kept == NULL)
        return -1;
      status = cch_bundle_add_object(*out, kept, owner_release);
      if (status != 0)
        owner_discard(kept);
    }
  return check_status(st, status);
}

int capture_keep(const state *st, cch_stream *stream, void *box, owners *used, PyThreadState **thread, bool *raised) {
  const owned *items = owners_items(used);
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
