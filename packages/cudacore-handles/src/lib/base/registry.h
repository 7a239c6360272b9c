/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_REGISTRY_H
#define CUDACORE_REGISTRY_H

/*
 * Keys of resources -> their live boxes, weak. A key is a driver handle, or a value of a few bytes (what a process
 * exports to another). Only boxes that know when their key ends are entered: those that own their resource, and
 * kernels of libraries that we own. A borrowed handle can be the driver's next object at that address at any time.
 * Bundles are entered under the number of a capture that others began, which the driver never gives to another one.
 */

#include "base/box.h"

/* The live box of a raw handle with a new reference, or NULL. */
void *cch__registry_find(cch_kind kind, const void *handle);
/* Enters a box under its handle. Another box there is forgotten: the handle is known to be the new one's. */
void cch__registry_insert(void *box, const void *handle);
/* Enters a box unless a live one is there already; that one is returned with a new reference. */
void *cch__registry_insert_unless_known(void *box, const void *handle);
/* Must come before the driver destroys a handle, because the driver reuses addresses; and after a value's end. */
void cch__registry_remove(void *box);

/*
 * Find or claim, for values: *out is the live box of a value with a new reference, or NULL, when the value is `box`'s
 * to make. Whoever asks next then waits for cch__registry_made(), which ends the claim, or cch__registry_remove(),
 * which gives it up; as all do while a box of that value is being destroyed, so that there never are two. The value
 * lies in the box's own memory. Fails with CUDA_ERROR_NOT_PERMITTED where the dying box cannot be destroyed now.
 * Who has a claim gives back no reference and polls nothing until it has ended: a release function may ask for the
 * value.
 */
enum { CCH__VALUE_SIZE = 72 };
int cch__registry_claim(void **out, void *box, const void *value, size_t size, const char *operation);
void cch__registry_made(void *box);
/* Around the queueing of a box with a value: those who wait for it then see where it is. */
void cch__registry_hold(cch_kind kind);
void cch__registry_let_go(cch_kind kind);

/*
 * What every _wrap does first: the box that owns a handle, which needs no foreign owner (it is released); or NULL.
 */
void *cch__wrap_known(cch_kind kind, const void *handle, void *owner, cch_release_fn release);

#endif
