/* SPDX-License-Identifier: Apache-2.0 */
/* What packed arguments point into, for as long as somebody may launch with them. */
#include "native.h"

#include <string.h>

static void give_back(const owned *items, Py_ssize_t count) {
  bool boxes = false;
  for (Py_ssize_t i = 0; i < count; i++)
    boxes |= items[i].box != NULL;
  if (boxes) { /* the last reference to one can enter the driver */
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < count; i++)
      cch_unref(items[i].box);
    Py_END_ALLOW_THREADS;
  }
  for (Py_ssize_t i = 0; i < count; i++)
    Py_XDECREF(items[i].object);
}

int owners_add(owners *self, Py_ssize_t index, void *box, PyObject *object) {
  owned item = {index, box, object};
  Py_ssize_t room = self->heap != NULL ? self->room : OWNERS_INLINE;
  if (self->count == room) {
    owned *heap = PyMem_Realloc(self->heap, 2 * (size_t)room * sizeof *heap);
    if (heap == NULL) {
      PyErr_NoMemory();
      give_back(&item, 1);
      return -1;
    }
    if (self->heap == NULL)
      memcpy(heap, self->inside, sizeof self->inside);
    self->heap = heap;
    self->room = 2 * room;
  }
  owners_items(self)[self->count++] = item;
  return 0;
}

void owners_release(owners *self) {
  if (self->count == 0)
    return;
  owners taken;
  taken.count = self->count;
  taken.heap = self->heap;
  if (taken.heap == NULL)
    memcpy(taken.inside, self->inside, (size_t)self->count * sizeof *self->inside);
  owners_init(self);
  give_back(owners_items(&taken), taken.count);
  PyMem_Free(taken.heap);
}
