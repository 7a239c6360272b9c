/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_REGISTRY_H
#define CUDACORE_REGISTRY_H

/*
 * Find live boxes by their keys, without holding references. A key is a driver handle, or a value of a few bytes (the
 * name of an object that a process exports). A box is entered only if it is certain when its key becomes invalid: boxes
 * that own their resource, and kernels of libraries that we own. Borrowed handles are not entered, because the driver
 * can reuse such an address at any time. Bundles of captures that other code began are entered under the capture's
 * number, which the driver never reuses.
 */

#include "base/box.h"

/* Return the live box of a raw handle with a new reference, or NULL. */
void *cch__registry_find(cch_kind kind, const void *handle);
/* Returns a box for which a function is true, as a new reference; NULL if there is none. It looks at all boxes. */
void *cch__registry_search(cch_kind kind, bool (*matches)(const void *box, const void *what), const void *what);

/*
 * Removes the live box of a raw handle from the registry. Returns the box with the reference that belongs to the holder
 * of the handle, or NULL.
 */
void *cch__registry_take(cch_kind kind, const void *handle);
/*
 * Enters a box under its handle. If another box has the handle, that box is removed, because the handle now belongs to
 * the new box.
 */
void cch__registry_insert(void *box, const void *handle);
/* Enters a box. If a live box already has the handle, that box is returned with a new reference instead. */
void *cch__registry_insert_unless_known(void *box, const void *handle);
/*
 * For a handle: call it before the driver destroys the handle, because the driver reuses addresses. For a value: call
 * it after the resource is destroyed.
 */
void cch__registry_remove(void *box);

/* Returns the live box of a value with a new reference, or NULL. It does not wait for threads that have a claim. */
void *cch__registry_find_value(cch_kind kind, const void *value, size_t size);
/* Enters a box under a value, which lies in the memory of the box, unless the box is registered already. */
void cch__registry_insert_value(void *box, const void *value, size_t size);

/*
 * Find or claim a value. *out is the live box of the value with a new reference. If it is NULL, the caller creates the
 * resource in `box`. Other threads that look for the value wait until the claim ends with cch__registry_made(), or is
 * abandoned with cch__registry_remove(). They also wait while a box of that value is being destroyed, so that there are
 * never two boxes of a value. The value lies in the memory of the box. Fails with CUDA_ERROR_NOT_PERMITTED if the box
 * that is being destroyed cannot be destroyed now. While a thread has a claim, it must not drop references or poll: a
 * release function may look for the same value.
 */
enum { CCH__VALUE_SIZE = 72 };
int cch__registry_claim(void **out, void *box, const void *value, size_t size, const char *operation);
void cch__registry_made(void *box);
/*
 * Call these before and after a box that has a value is queued, so that threads that wait for the value see that the
 * box is queued.
 */
void cch__registry_lock(cch_kind kind);
void cch__registry_unlock(cch_kind kind);

/*
 * Does the first step of every function cch_<kind>_wrap: finds or makes the box of a handle. A box that owns the handle
 * needs no other owner, so the given one is released. A new box takes over the owner, and the caller sets its other
 * fields. `out` is the address of the pointer to the box.
 */
int cch__box_of_handle(void *out, bool *is_new, cch_kind kind, size_t size, const void *handle, void *owner,
                       cch_release_fn release, const char *operation);

#endif
