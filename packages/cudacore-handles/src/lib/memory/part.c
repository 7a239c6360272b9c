/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that several boxes share: an allocation and its parts, a mapping of another process's memory and its imports,
 * or a buffer and memory that borrows it as its owner, and that can be elsewhere. Each part has its own box, with a
 * reference to the box of the whole, with which the memory is freed. When a part with a stream of its own ends, the
 * stream becomes a use of the whole (uses.c).
 */
#include "memory/deviceptr.h"

typedef struct part {
  cch_deviceptr ptr;   /* `ptr.backing` is the whole */
  struct part *within; /* the next larger part with trackers, which counts as freed after the last part in it */
} part;

cch_deviceptr *cch_deviceptr_whole(const cch_deviceptr *ptr) {
  CCH__REQUIRE_ELSE(NULL, ptr);
  return (cch_deviceptr *)cch__whole(ptr);
}

size_t cch_deviceptr_offset(const cch_deviceptr *ptr) {
  CCH__REQUIRE_ELSE(0, ptr);
  return (size_t)(ptr->ptr - cch_deviceptr_whole(ptr)->ptr);
}

/*
 * Returns the smallest part with trackers that contains an allocation or is the allocation itself. NULL if there is
 * none, or if the allocation is a whole.
 */
static part *tracked_part(cch_deviceptr *ptr) {
  if (ptr->origin != CCH__PART)
    return NULL;
  part *p = (part *)ptr;
  return ptr->tracks != NULL ? p : p->within;
}

cch_status cch_deviceptr_borrow(cch_deviceptr **out, CUdeviceptr raw, size_t size, cch_deviceptr *owner) {
  CCH__REQUIRE_USABLE(out, owner);
  part *p = cch__box_new(CCH_KIND_DEVICEPTR, sizeof *p, __func__);
  if (p == NULL)
    return CCH_ENOMEM;
  cch_deviceptr *whole = cch__box_ref(cch_deviceptr_whole(owner));
  p->ptr.origin = CCH__PART;
  p->ptr.ptr = raw;
  p->ptr.size = size;
  p->ptr.read_only = whole->read_only && cch__is_in(whole, raw);
  p->ptr.backing = &whole->box;
  p->ptr.box.context = whole->origin == CCH__FROM_GRAPHICS ? &whole->box : whole->box.context;
  p->ptr.context = cch_context_ref(owner->context);
  p->within = cch__box_ref(tracked_part(owner));
  *out = &p->ptr;
  return 0;
}

cch_status cch_deviceptr_part(cch_deviceptr **out, cch_deviceptr *ptr, size_t offset, size_t size) {
  CCH__REQUIRE_USABLE(out, ptr);
  if (offset > ptr->size || size > ptr->size - offset)
    return cch__fail(CCH_EINVAL, __func__, "%zu bytes from byte %zu on are not within the %zu bytes of the allocation",
                     size, offset, ptr->size);
  return cch_deviceptr_borrow(out, ptr->ptr + offset, size, ptr);
}

void cch__part_unref_held(cch_deviceptr *ptr) { cch__box_unref(((part *)ptr)->within); }
