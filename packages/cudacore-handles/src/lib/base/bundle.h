/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_LIB_BUNDLE_H
#define CUDACORE_LIB_BUNDLE_H

/* Bundles that the library makes around a bundle of its caller. */

#include "base/kinds.h"

/* Makes room for more owners. */
int cch__bundle_grow(cch_bundle *bundle, const char *operation);
static inline int cch__bundle_put(cch_bundle *bundle, void *object, cch_release_fn release, const char *operation) {
  if (bundle->count == bundle->capacity)
    CCH__RETURN_FAILURE(cch__bundle_grow(bundle, operation));
  bundle->owners[bundle->count++] = (cch__owner){object, release};
  return 0;
}
/* Adds a reference to a box, which is not NULL. */
static inline int cch__bundle_add(cch_bundle *bundle, void *box, const char *operation) {
  CCH__RETURN_FAILURE(cch__bundle_put(bundle, box, NULL, operation));
  cch__box_ref(box);
  return 0;
}

/*
 * Makes a bundle that contains a box and a bundle of the caller, either of which may be NULL, and has zeroed bytes for
 * data of the library. The new bundle takes a reference to each.
 */
int cch__bundle_wrap(cch_bundle **out, void *box, cch_bundle *bundle, size_t payload_size, const char *operation);
/*
 * Returns the caller's bundle: the one that a bundle of the library was made around, or else `bundle` itself. Borrowed;
 * NULL if there is none.
 */
cch_bundle *cch__bundle_given(cch_bundle *bundle);

#endif
